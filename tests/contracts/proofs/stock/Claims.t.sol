// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {IVestedMarkets} from "../../../../contracts/stock/IVestedMarkets.sol";
import {PAID, REFUNDED} from "../../../../contracts/stock/VestedBooks.sol";
import {VestedMath} from "../../../../contracts/stock/VestedMath.sol";
import {OpenSettler} from "./OpenSettler.sol";
import {SettlerProof} from "./SettlerProof.sol";

/// What paying a position does to the market, the liabilities and the balance, in a settled market.
/// @custom:bounds every state, time, caller and token that does not call back
contract SettlerClaimsProof is SettlerProof {
    /// A seed's position: how a stake is worked out has few cases then, and what is done with it has all.
    function seedIn(uint256 positionId, IVestedMarkets.Status status) private view {
        uint256 marketId = positionId >> 32;
        vm.assume(settler.terms(marketId).status == status);
        OpenSettler.Flow memory f = settler.flow(marketId);
        vm.assume(f.vintageBlock == 0 && f.demandUp == 0 && f.demandDown == 0);
        vm.assume(settler.positionWord(positionId).vintage == 0);
        vm.assume(settler.totals().fees < 1 << 87);
    }

    /// A void market's claim sends the stake to the owner, and subtracts exactly that from the liabilities.
    /// @custom:theorem stock.claim.void
    /// @custom:bounds a seed's position; fees below 2^87
    /// @custom:slow 600
    function check_claim_void(address sender, uint256 positionId) public {
        seedIn(positionId, IVestedMarkets.Status.Void);
        assertClaim(sender, positionId, settler.positionWord(positionId).offeredThrough, 0);
    }

    /// A winner's claim sends its payout less the fee to the owner, and subtracts exactly that from the liabilities.
    /// @custom:theorem stock.claim.won
    /// @custom:bounds a seed's position; fees below 2^87; by the lemmas, its payout is between its stake and 2^64
    /// @custom:slow 600
    function check_claim_won(address sender, uint256 positionId) public {
        vm.assume(positionId & 1 == 0);
        seedIn(positionId, IVestedMarkets.Status.Up);
        (OpenSettler.Snapshot memory snap, OpenSettler.Stake memory s) = settler.stakeOf(positionId);
        uint256 gross = VestedMath.payoutDown(s.accepted, snap.books.accUp, s.entryAcc);
        vm.assume(s.accepted <= gross && gross < 1 << 64); // stock.promise.rises, stock.payouts.covered
        uint256 fee = VestedMath.feeDown(gross - s.accepted, snap.feeBps);
        vm.assume(fee <= gross - s.accepted); // stock.fee.of-gain
        assertClaim(sender, positionId, gross, fee);
    }

    function assertClaim(address sender, uint256 positionId, uint256 gross, uint256 fee) private {
        uint256 held = token.held();
        OpenSettler.Totals memory totals = settler.totals();
        OpenSettler.Pool memory pool = settler.pool(positionId >> 32);
        OpenSettler.Position memory p = settler.positionWord(positionId);
        // The accepted part of a position is part of the principal, as is what was paid already (stock.parts.sum).
        vm.assume(uint256(pool.paidPrincipal) + p.offeredThrough <= type(uint64).max);
        vm.assume(isSolvent());
        vm.prank(sender);
        settler.claim(positionId);
        assert(isSolvent());
        assert(p.flags & PAID == 0);
        assert(settler.positionWord(positionId).flags == p.flags | PAID | REFUNDED);
        assert(token.transfers() == 1 && token.lastTo() == p.owner && token.lastAmount() == gross - fee);
        assert(token.held() < held && held - token.held() <= gross - fee);
        assert(settler.totals().liabilities == totals.liabilities - (gross - fee));
        assert(settler.totals().fees == totals.fees + fee);
        OpenSettler.Pool memory q = settler.pool(positionId >> 32);
        assert(q.distributed == pool.distributed + gross);
        assert(q.principalUp == pool.principalUp && q.principalDown == pool.principalDown);
    }

    /// A position on the losing side is paid nothing.
    /// @custom:theorem stock.claim.lost
    /// @custom:bounds a seed's position
    function check_claim_lost(address sender, uint256 positionId) public {
        vm.assume(positionId & 1 == 0);
        seedIn(positionId, IVestedMarkets.Status.Down);
        vm.prank(sender);
        try settler.claim(positionId) {
            assert(false);
        } catch {}
    }

    /// A position that was paid and refunded is never paid again.
    /// @custom:theorem stock.claim.once
    /// @custom:bounds every position
    /// @custom:slow 600
    function check_claim_once(address sender, uint256 positionId) public {
        uint256 flags = settler.positionWord(positionId).flags;
        vm.assume(flags & PAID != 0 && flags & REFUNDED != 0);
        vm.prank(sender);
        try settler.claim(positionId) {
            assert(false);
        } catch {}
    }
}
