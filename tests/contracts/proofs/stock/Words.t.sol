// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {
    Flow,
    Pool,
    Position,
    Ration,
    SEEDED,
    Terms,
    Totals,
    Vintage,
    packPool,
    packPoolParking,
    packPosition,
    packRation,
    packTerms,
    packVintage,
    parkedRation
} from "../../../../contracts/stock/PackedWords.sol";
import {Proof} from "../Proof.sol";

/// Every field of every word the settler stores reads back as it was written, and what changes one field leaves the others alone.
contract WordsProof is Proof {
    struct Fields {
        uint32 minEntry;
        uint48 maxEntry;
        uint48 sideCap;
        uint40 freezeTime;
        uint32 kappa;
        uint32 voidDelay;
        uint16 feeBps;
        uint8 status;
    }

    /// A market's terms read back as packed; only the status changes.
    /// @custom:theorem stock.words.terms
    /// @custom:guard contracts/stock/PackedWords.sol `Terms.unwrap(t) << 8 >> 8 |`
    ///     becomes `Terms.unwrap(t) |`
    function check_terms(Fields memory f, uint8 other) public pure {
        Terms t = packTerms(f.minEntry, f.maxEntry, f.sideCap, f.freezeTime, f.kappa, f.voidDelay, f.feeBps, f.status);
        assertTerms(t, f);
        f.status = other;
        assertTerms(t.withStatus(other), f);
    }

    function assertTerms(Terms t, Fields memory f) private pure {
        assert(t.minEntry() == f.minEntry);
        assert(t.maxEntry() == f.maxEntry);
        assert(t.sideCap() == f.sideCap);
        assert(t.freezeTime() == f.freezeTime);
        assert(t.kappa() == f.kappa);
        assert(t.voidDelay() == f.voidDelay);
        assert(t.feeBps() == f.feeBps);
        assert(t.status() == f.status);
    }

    // ---------------------------------------------------------------- Flow

    /// A market begins with two positions and no vintage.
    /// @custom:theorem stock.words.flow-seeded
    function check_flow_seeded() public pure {
        assert(SEEDED.vintageBlock() == 0);
        assert(SEEDED.vintages() == 0);
        for (uint256 outcome = 0; outcome < 2; ++outcome) {
            assert(SEEDED.demandOf(outcome) == 0);
            assert(SEEDED.countOf(outcome) == 1);
        }
    }

    /// Beginning a vintage changes its block and its number, nothing else.
    /// @custom:theorem stock.words.flow-begin
    /// @custom:bounds every word without an open vintage and with fewer than 2^24 - 1 begun
    function check_flow_begin(uint256 word, uint40 block_) public pure {
        Flow f = Flow.wrap(word);
        vm.assume(f.vintageBlock() == 0);
        vm.assume(f.vintages() < type(uint24).max);
        Flow g = f.begin(block_);
        assert(g.vintageBlock() == block_);
        assert(g.vintages() == f.vintages() + 1);
        assertSameSide(f, g, 0);
        assertSameSide(f, g, 1);
    }

    /// An entry adds to its side's demand and count, nothing else.
    /// @custom:theorem stock.words.flow-join
    /// @custom:bounds every word in which the sums fit their widths: `stock.enter.refuses` has the rest
    /// @custom:guard contracts/stock/PackedWords.sol `return uint64(Flow.unwrap(f) >> (64 + 64 * outcome));`
    ///     becomes `return uint128(Flow.unwrap(f) >> (64 + 64 * outcome));`
    function check_flow_join(uint256 word, bool down, uint64 amount) public pure {
        Flow f = Flow.wrap(word);
        uint256 outcome = down ? 1 : 0;
        vm.assume(f.demandOf(outcome) + amount <= type(uint64).max);
        vm.assume(f.countOf(outcome) < type(uint32).max);
        Flow g = f.join(outcome, amount);
        assert(g.vintageBlock() == f.vintageBlock());
        assert(g.vintages() == f.vintages());
        assert(g.demandOf(outcome) == f.demandOf(outcome) + amount);
        assert(g.countOf(outcome) == f.countOf(outcome) + 1);
        assertSameSide(f, g, 1 - outcome);
    }

    /// Finalizing keeps vintages and counts.
    /// @custom:theorem stock.words.flow-finalized
    /// @custom:guard contracts/stock/PackedWords.sol `f) & (type(uint256).max << 192 | uint256(type(uint24).max) << 40)`
    ///     becomes `f) & (type(uint256).max << 64 | uint256(type(uint24).max) << 40)`
    function check_flow_finalized(uint256 word) public pure {
        Flow f = Flow.wrap(word);
        Flow g = f.finalized();
        assert(g.vintageBlock() == 0);
        assert(g.vintages() == f.vintages());
        assert(!g.parks());
        for (uint256 outcome = 0; outcome < 2; ++outcome) {
            assert(g.demandOf(outcome) == 0);
            assert(g.countOf(outcome) == f.countOf(outcome));
        }
    }

    /// Parking keeps the offers as well.
    /// @custom:theorem stock.words.flow-parking
    function check_flow_finalizedParking(uint256 word) public pure {
        Flow f = Flow.wrap(word);
        Flow g = f.finalizedParking();
        assert(g.vintageBlock() == 0);
        assert(g.vintages() == f.vintages());
        assert(g.parks() == (f.demandOf(0) != 0 || f.demandOf(1) != 0));
        assertSameSide(f, g, 0);
        assertSameSide(f, g, 1);
    }

    function assertSameSide(Flow f, Flow g, uint256 outcome) private pure {
        assert(g.demandOf(outcome) == f.demandOf(outcome));
        assert(g.countOf(outcome) == f.countOf(outcome));
    }

    // ---------------------------------------------------------------- Pool and rations

    /// The principals read back as packed.
    /// @custom:theorem stock.words.pool
    function check_pool(uint64 up, uint64 down) public pure {
        assertPool(packPool(up, down), up, down, 0, 0);
    }

    /// Paying adds to what was paid and distributed, nothing else.
    /// @custom:theorem stock.words.pool-pay
    /// @custom:bounds every word whose paid principal stays within 64 bits, as it is part of one that does
    function check_pool_pay(uint256 word, uint64 accepted, uint64 gross, uint64 residue) public pure {
        Pool p = Pool.wrap(word);
        (uint256 paid, uint256 sent) = (p.paidPrincipal(), p.distributed());
        vm.assume(paid + accepted <= type(uint64).max);
        assertPool(p.pay(accepted, gross), p.principalUp(), p.principalDown(), paid + accepted, sent + gross);
        assertPool(p.payResidue(residue), p.principalUp(), p.principalDown(), paid, sent + residue);
    }

    /// More than 64 bits of payouts is refused.
    /// @custom:theorem stock.words.pool-refuses
    function check_pool_payRefusesBeyond(uint256 word, uint64 gross) public view {
        vm.assume(Pool.wrap(word).distributed() + gross > type(uint64).max);
        try this.payResidue(word, gross) {
            assert(false);
        } catch {}
    }

    function payResidue(uint256 word, uint64 gross) external pure {
        Pool.wrap(word).payResidue(gross);
    }

    /// A parked ration reads back as packed.
    /// @custom:theorem stock.words.pool-parks
    function check_pool_parksARation(uint256 flow, uint64 up, uint64 down, uint64 acceptedUp, uint64 acceptedDown)
        public
        pure
    {
        Flow f = Flow.wrap(flow);
        Pool p = packPoolParking(up, down, acceptedUp, acceptedDown);
        assert(p.principalUp() == up);
        assert(p.principalDown() == down);
        assertRation(parkedRation(f.finalizedParking(), p), f.demandOf(0), f.demandOf(1), acceptedUp, acceptedDown);
    }

    function assertPool(Pool p, uint256 up, uint256 down, uint256 paid, uint256 sent) private pure {
        assert(p.principalUp() == up);
        assert(p.principalDown() == down);
        assert(p.paidPrincipal() == paid);
        assert(p.distributed() == sent);
    }

    /// A ration reads back as packed.
    /// @custom:theorem stock.words.ration
    function check_ration(uint64 up, uint64 down, uint64 acceptedUp, uint64 acceptedDown) public pure {
        assertRation(packRation(up, down, acceptedUp, acceptedDown), up, down, acceptedUp, acceptedDown);
    }

    function assertRation(Ration r, uint256 up, uint256 down, uint256 acceptedUp, uint256 acceptedDown) private pure {
        assert(r.offeredOf(0) == up);
        assert(r.offeredOf(1) == down);
        assert(r.acceptedOf(0) == acceptedUp);
        assert(r.acceptedOf(1) == acceptedDown);
    }

    /// A vintage reads back as packed.
    /// @custom:theorem stock.words.vintage
    function check_vintage(uint96 accUp, uint96 accDown, uint40 atBlock, bool rationed) public pure {
        Vintage v = packVintage(accUp, accDown, atBlock, rationed);
        assert(v.accOf(0) == accUp);
        assert(v.accOf(1) == accDown);
        assert(v.atBlock() == atBlock);
        assert(v.rationed() == rationed);
    }

    // ---------------------------------------------------------------- Positions and totals

    /// A position reads back as packed, flagged and handed on.
    /// @custom:theorem stock.words.position
    /// @custom:guard contracts/stock/PackedWords.sol `uint256(uint160(owner_)) | through << 160 | vintage_ << 224`
    ///     becomes `uint256(uint160(owner_)) | through << 160 | vintage_ << 216`
    function check_position(address owner, uint64 through, uint24 vintage, address other, uint8 more) public pure {
        Position p = packPosition(owner, through, vintage);
        assertPosition(p, owner, through, vintage, 0);
        p = p.withFlags(more);
        assertPosition(p, owner, through, vintage, more);
        assertPosition(p.withOwner(other), other, through, vintage, more);
    }

    function assertPosition(Position p, address owner, uint256 through, uint256 vintage, uint256 flags) private pure {
        assert(p.owner() == owner);
        assert(p.offeredThrough() == through);
        assert(p.vintage() == vintage);
        assert(p.flags() == flags);
    }

    /// Pausing, counting and owing change one field each.
    /// @custom:theorem stock.words.totals
    /// @custom:bounds fewer than 2^32 - 1 markets
    function check_totals(uint256 word, bool paused, uint128 amount) public pure {
        Totals t = Totals.wrap(word);
        vm.assume(t.markets() < type(uint32).max);
        uint256 pauses = t.entriesPaused() ? 1 : 0;
        assertTotals(t.withPaused(paused), paused ? 1 : 0, t.markets(), t.fees(), t.liabilities());
        assertTotals(t.addMarket(), pauses, t.markets() + 1, t.fees(), t.liabilities());
        assertTotals(t.owe(amount), pauses, t.markets(), t.fees(), t.liabilities() + amount);
    }

    /// What is paid is no longer owed, and a fee stays owed.
    /// @custom:theorem stock.words.totals-settle
    /// @custom:bounds fees below 2^88, which no token's supply reaches
    /// @custom:guard contracts/stock/PackedWords.sol `Totals.unwrap(t) - (amount << 128) + (fee << 40)`
    ///     becomes `(Totals.unwrap(t) ^ 0) - (amount << 120) + (fee << 40)`
    function check_totals_settleDebt(uint256 word, uint64 amount, uint64 fee) public pure {
        Totals t = Totals.wrap(word);
        vm.assume(t.fees() + fee <= type(uint88).max);
        Totals s = t.settleDebt(amount, fee);
        assertTotals(s, t.entriesPaused() ? 1 : 0, t.markets(), t.fees() + fee, t.liabilities() - amount);
    }

    /// Swept fees are no longer owed.
    /// @custom:theorem stock.words.totals-fees
    function check_totals_withoutFees(uint256 word) public pure {
        Totals t = Totals.wrap(word);
        Totals s = t.withoutFees();
        assertTotals(s, t.entriesPaused() ? 1 : 0, t.markets(), 0, t.liabilities() - t.fees());
    }

    /// No more than the liabilities can be paid, and they cannot exceed 128 bits.
    /// @custom:theorem stock.words.totals-refuse
    function check_totals_refuseBeyond(uint256 word, uint64 amount) public view {
        Totals t = Totals.wrap(word);
        if (amount > t.liabilities()) {
            try this.settleDebt(word, amount) {
                assert(false);
            } catch {}
        }
        if (t.liabilities() + amount > type(uint128).max) {
            try this.owe(word, amount) {
                assert(false);
            } catch {}
        }
    }

    function settleDebt(uint256 word, uint64 amount) external pure {
        Totals.wrap(word).settleDebt(amount, 0);
    }

    function owe(uint256 word, uint64 amount) external pure {
        Totals.wrap(word).owe(amount);
    }

    function assertTotals(Totals t, uint256 paused, uint256 markets, uint256 fees, uint256 owed) private pure {
        assert((t.entriesPaused() ? 1 : 0) == paused);
        assert(t.markets() == markets);
        assert(t.fees() == fees);
        assert(t.liabilities() == owed);
    }
}
