// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {AnyToken} from "../AnyToken.sol";
import {Proof} from "../Proof.sol";
import {OpenWallet} from "./OpenWallet.sol";

/// A settlement wallet in any state, at any time, with any token and any holders of its roles.
abstract contract WalletProof is Proof {
    AnyToken internal token;
    OpenWallet internal wallet;
    address internal lister;
    address internal resolver;
    address internal guardian;
    address internal treasury;

    function setUp() public virtual {
        token = new AnyToken();
        lister = svm.createAddress("lister");
        resolver = svm.createAddress("resolver");
        guardian = svm.createAddress("guardian");
        treasury = svm.createAddress("treasury");
        address owner = svm.createAddress("owner");
        wallet = new OpenWallet(address(token), lister, resolver, guardian, owner, treasury);
        svm.enableSymbolicStorage(address(wallet));
        vm.warp(svm.createUint(40, "block timestamp"));
    }

    function isSolvent() internal view returns (bool) {
        return token.held() >= wallet.owed();
    }
}
