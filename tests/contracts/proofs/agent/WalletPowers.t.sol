// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {ISettlementWallet} from "../../../../contracts/agent/ISettlementWallet.sol";
import {WalletProof} from "./WalletProof.sol";

/// What those without a role cannot do, in any state.
contract WalletPowersProof is WalletProof {
    function refuses(address sender, bytes memory data) private {
        vm.prank(sender);
        (bool ok,) = address(wallet).call(data);
        assert(!ok);
    }

    function check_onlyTheOwnerAppoints(address sender, bytes32 role, address account, bool allowed) public {
        vm.assume(sender != wallet.owner());
        refuses(sender, abi.encodeCall(wallet.setRole, (role, account, allowed)));
    }

    function check_onlyTheGuardianPauses(address sender, bool paused) public {
        vm.assume(sender != guardian);
        refuses(sender, abi.encodeCall(wallet.setPaused, (paused)));
    }

    function check_onlyTheListerOpens(address sender, bytes32 marketId, ISettlementWallet.OpenParams calldata p)
        public
    {
        vm.assume(sender != lister);
        refuses(sender, abi.encodeCall(wallet.open, (marketId, p)));
    }

    function check_onlyTheResolverResolves(address sender, bytes32 marketId, uint8 winner) public {
        vm.assume(sender != resolver);
        refuses(sender, abi.encodeCall(wallet.resolve, (marketId, winner)));
    }

    function check_onlyTheResolverVoids(address sender, bytes32 marketId, uint8 reason) public {
        vm.assume(sender != resolver);
        refuses(sender, abi.encodeCall(wallet.voidMarket, (marketId, reason)));
    }

    function check_onlyACreditorCredits(
        address sender,
        ISettlementWallet.Bet calldata b,
        ISettlementWallet.Authorization calldata a
    ) public {
        vm.assume(!wallet.hasRole(wallet.CREDITOR(), sender));
        refuses(sender, abi.encodeCall(wallet.credit, (b, a)));
    }

    function check_aSettledMarketStaysSettled(bytes32 marketId, uint8 winner, uint8 reason) public {
        (ISettlementWallet.MarketStatus status,,,) = wallet.book(marketId);
        vm.assume(status != ISettlementWallet.MarketStatus.Open);
        refuses(resolver, abi.encodeCall(wallet.resolve, (marketId, winner)));
        refuses(resolver, abi.encodeCall(wallet.voidMarket, (marketId, reason)));
    }
}
