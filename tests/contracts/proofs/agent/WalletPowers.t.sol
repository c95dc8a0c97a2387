// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {ISettlementWallet} from "../../../../contracts/agent/ISettlementWallet.sol";
import {WalletProof} from "./WalletProof.sol";

/// What those without a role cannot do, in any state.
/// @custom:bounds every state, time, caller and token that does not call back
contract WalletPowersProof is WalletProof {
    function refuses(address sender, bytes memory data) private {
        vm.prank(sender);
        (bool ok,) = address(wallet).call(data);
        assert(!ok);
    }

    /// Only the owner appoints.
    /// @custom:theorem agent.powers.owner
    /// @custom:guard contracts/agent/SettlementWallet.sol `bool allowed) external onlyOwner {`
    ///     becomes `bool allowed) external {`
    function check_onlyTheOwnerAppoints(address sender, bytes32 role, address account, bool allowed) public {
        vm.assume(sender != wallet.owner());
        refuses(sender, abi.encodeCall(wallet.setRole, (role, account, allowed)));
    }

    /// Only the guardian pauses.
    /// @custom:theorem agent.powers.guardian
    /// @custom:guard contracts/agent/SettlementWallet.sol `if (msg.sender != guardian) revert NotGuardian(msg.sender, guardian);`
    ///     becomes ``
    function check_onlyTheGuardianPauses(address sender, bool paused) public {
        vm.assume(sender != guardian);
        refuses(sender, abi.encodeCall(wallet.setPaused, (paused)));
    }

    /// Only the lister opens a market.
    /// @custom:theorem agent.powers.lister
    /// @custom:bounds up to two weights
    /// @custom:guard contracts/agent/SettlementWallet.sol `if (msg.sender != lister) revert NotLister(msg.sender, lister);`
    ///     becomes ``
    function check_onlyTheListerOpens(address sender, bytes32 marketId, ISettlementWallet.OpenParams calldata p)
        public
    {
        vm.assume(sender != lister);
        refuses(sender, abi.encodeCall(wallet.open, (marketId, p)));
    }

    /// Only the resolver names a winner.
    /// @custom:theorem agent.powers.resolver
    function check_onlyTheResolverResolves(address sender, bytes32 marketId, uint8 winner) public {
        vm.assume(sender != resolver);
        refuses(sender, abi.encodeCall(wallet.resolve, (marketId, winner)));
    }

    /// Only the resolver voids.
    /// @custom:theorem agent.powers.voids
    /// @custom:guard contracts/agent/SettlementWallet.sol `if (msg.sender != resolver) revert NotResolver(msg.sender, resolver);`
    ///     becomes ``
    function check_onlyTheResolverVoids(address sender, bytes32 marketId, uint8 reason) public {
        vm.assume(sender != resolver);
        refuses(sender, abi.encodeCall(wallet.voidMarket, (marketId, reason)));
    }

    /// Only a creditor credits.
    /// @custom:theorem agent.powers.creditor
    /// @custom:bounds signatures of 0, 65 and 1024 bytes
    function check_onlyACreditorCredits(
        address sender,
        ISettlementWallet.Bet calldata b,
        ISettlementWallet.Authorization calldata a
    ) public {
        vm.assume(!wallet.hasRole(wallet.CREDITOR(), sender));
        refuses(sender, abi.encodeCall(wallet.credit, (b, a)));
    }

    /// A market that is settled, or unknown, is not settled again.
    /// @custom:theorem agent.settled-once
    function check_aSettledMarketStaysSettled(bytes32 marketId, uint8 winner, uint8 reason) public {
        (ISettlementWallet.MarketStatus status,,,) = wallet.book(marketId);
        vm.assume(status != ISettlementWallet.MarketStatus.Open);
        refuses(resolver, abi.encodeCall(wallet.resolve, (marketId, winner)));
        refuses(resolver, abi.encodeCall(wallet.voidMarket, (marketId, reason)));
    }
}
