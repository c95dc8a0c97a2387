// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {AnyToken} from "../AnyToken.sol";
import {Proof} from "../Proof.sol";
import {OpenSettler} from "./OpenSettler.sol";

/// A settler in any state, at any time, with any token and any holders of its roles.
abstract contract SettlerProof is Proof {
    AnyToken internal token;
    OpenSettler internal settler;
    address internal lister;
    address internal guardian;
    address internal treasury;

    function setUp() public virtual {
        token = new AnyToken();
        lister = svm.createAddress("lister");
        guardian = svm.createAddress("guardian");
        treasury = svm.createAddress("treasury");
        settler = new OpenSettler(address(token), lister, guardian, treasury);
        svm.enableSymbolicStorage(address(settler));
        vm.roll(svm.createUint(40, "block number"));
        vm.warp(svm.createUint(40, "block timestamp"));
    }

    function isSolvent() internal view returns (bool) {
        return token.held() >= settler.liabilities();
    }
}
