// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {ISettlementWallet} from "../../../../contracts/agent/ISettlementWallet.sol";
import {WalletProof} from "./WalletProof.sol";

/// The effect of each call on liabilities and balance.
/// @custom:bounds every state, time, caller and token that does not call back
contract WalletMoneyProof is WalletProof {
    /// Voiding does not change total liabilities.
    /// @custom:theorem agent.void.keeps
    function check_void(bytes32 marketId, uint8 reason) public {
        uint256 owed = wallet.owed();
        vm.prank(resolver);
        wallet.voidMarket(marketId, reason);
        assert(wallet.owed() == owed);
    }

    /// Sweeping sends the fees to the treasury and leaves all other liabilities.
    /// @custom:theorem agent.sweep.fees
    function check_sweepFees(address sender) public {
        uint256 owed = wallet.owed();
        uint256 held = token.held();
        vm.assume(isSolvent());
        vm.prank(sender);
        wallet.sweepFees();
        assert(token.lastTo() == treasury);
        assert(owed - wallet.owed() == token.lastAmount());
        assert(held - token.held() == token.lastAmount());
        assert(isSolvent());
    }

    /// A stake that was paid or given back is never paid again.
    /// @custom:theorem agent.claim.once
    function check_claim_once(address sender, uint256 stakeId) public {
        ISettlementWallet.StakeStatus status = wallet.statusOf(stakeId);
        vm.assume(status == ISettlementWallet.StakeStatus.Paid || status == ISettlementWallet.StakeStatus.Refunded);
        vm.prank(sender);
        try wallet.claim(stakeId) {
            assert(false);
        } catch {}
    }
}
