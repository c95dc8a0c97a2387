// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {Math} from "@openzeppelin/contracts/utils/math/Math.sol";
import {IVestedMarkets} from "./IVestedMarkets.sol";
import {VestedMath} from "./VestedMath.sol";

// Bits of a position's flags.
uint8 constant REFUNDED = 1;
uint8 constant PAID = 2;

/// @title The books of all markets: how they are stored, how they are read
/// @dev Nothing loops over the entries of a market. A vintage stores what each side offered and was accepted in total, a
/// position stores the running total offered on its side up to and with it, and its accepted part is worked out when read.
/// VestedMarkets writes what is declared here.
abstract contract VestedBooks is IVestedMarkets {
    // ---------------------------------------------------------------- Storage

    // Each of the first seven is one storage word. Amounts are token units, times Unix seconds.

    /// Only the status changes.
    struct Terms {
        uint32 minEntry;
        uint48 maxEntry;
        uint48 sideCap;
        uint40 freezeTime;
        uint32 kappa;
        uint32 voidDelay;
        uint16 feeBps;
        Status status;
    }

    /// All that an entry into an open vintage changes.
    struct Flow {
        uint40 vintageBlock; // of the vintage not finalized, 0 when there is none
        uint24 vintages; // begun; the one not finalized has this number, the seed has 0
        uint64 demandUp; // offered in that vintage; without one, half of a parked ration
        uint64 demandDown;
        uint32 countUp; // positions, with the seed's
        uint32 countDown;
    }

    /// Nothing is paid before settlement. Until then the last two hold what was accepted on UP and DOWN in a parked ration.
    struct Pool {
        uint64 principalUp; // at most the market's side cap, 48 bits
        uint64 principalDown;
        uint64 paidPrincipal; // accepted amounts of the positions paid after settlement
        uint64 distributed; // paid to them before fees, and the residue
    }

    struct Vintage {
        uint96 accUp; // after the vintage, as accDown; see VestedMath for why 96 bits are enough
        uint96 accDown;
        uint40 atBlock;
        bool rationed;
    }

    /// Kept for a rationed vintage only. The ration of a vintage that was finalized without a successor is parked in the
    /// flow and the pool, which finalizing writes anyway, and gets a word when the next vintage begins or the market settles.
    struct Ration {
        uint64 offeredUp;
        uint64 offeredDown;
        uint64 acceptedUp;
        uint64 acceptedDown;
    }

    struct Position {
        address owner;
        uint64 offeredThrough; // offered on its side in its vintage, up to and with it
        uint24 vintage; // its number
        uint8 flags; // REFUNDED, PAID
    }

    struct Totals {
        bool entriesPaused;
        uint32 markets;
        uint88 fees; // part of the liabilities
        uint128 liabilities;
    }

    struct Market {
        Terms terms;
        Flow flow;
        Pool pool;
        address opener;
        uint64 seedPerLeg;
        address resolver;
    }

    struct StoredVintage {
        Vintage vintage;
        Ration ration;
    }

    Totals internal _totals;
    mapping(uint256 marketId => Market) internal _markets;
    mapping(uint256 vintageKey => StoredVintage) internal _vintages;
    mapping(uint256 positionId => Position) internal _positions;

    // ---------------------------------------------------------------- Memory types

    /// The books, and the vintage that was matched to get there (zeros when none was).
    struct Books {
        uint256 offeredUp;
        uint256 offeredDown;
        uint256 acceptedUp;
        uint256 acceptedDown;
        uint256 accUp;
        uint256 accDown;
        uint256 principalUp;
        uint256 principalDown;
    }

    /// What of a market decides the worth of its positions. A finished vintage is matched in it, finalized or not.
    struct Snapshot {
        uint256 marketId;
        Status status;
        uint256 feeBps;
        uint256 pending; // number of the vintage not finalized, 0 when there is none
        uint256 pendingBlock;
        bool finished; // the pending vintage is, and `books` has it matched
        uint256 parked; // number of the vintage whose ration is parked, 0 when none is
        Ration ration; // the parked one
        Books books;
    }

    /// A position as its market's snapshot has it.
    struct Stake {
        uint256 outcome;
        uint256 offered;
        uint256 accepted; // 0 unless matched
        uint256 entryAcc; // 0 unless matched
        bool matched; // its vintage is finished
        // What is due of it and not paid yet; zeros until VestedMarkets reckons it.
        uint256 fee;
        uint256 refund;
    }

    // ---------------------------------------------------------------- The mechanism

    /// No entry can join any more. Seconds pass without a new block.number on some chains, so the freeze ends a vintage
    /// as well.
    function _finished(Market storage m) internal view returns (bool) {
        uint256 vintageBlock = m.flow.vintageBlock;
        return vintageBlock != 0 && (vintageBlock != block.number || block.timestamp >= m.terms.freezeTime);
    }

    /// The books as stored, or with the open vintage matched against them.
    function _books(uint256 marketId, Market storage m, bool matchOpen) internal view returns (Books memory b) {
        Flow storage f = m.flow;
        b.principalUp = m.pool.principalUp;
        b.principalDown = m.pool.principalDown;
        uint256 last = f.vintageBlock == 0 ? f.vintages : f.vintages - 1;
        if (last == 0) {
            // Each leg of the seed has vested into the other.
            b.accUp = VestedMath.S;
            b.accDown = VestedMath.S;
        } else {
            Vintage storage v = _vintages[_vintageKey(marketId, last)].vintage;
            b.accUp = v.accUp;
            b.accDown = v.accDown;
        }
        if (!matchOpen) return b;

        (uint256 kappa, uint256 sideCap) = (m.terms.kappa, m.terms.sideCap);
        b.offeredUp = f.demandUp;
        b.offeredDown = f.demandDown;
        b.acceptedUp = Math.min(b.offeredUp, VestedMath.headroom(kappa, sideCap, b.principalUp, b.principalDown));
        b.acceptedDown = Math.min(b.offeredDown, VestedMath.headroom(kappa, sideCap, b.principalDown, b.principalUp));
        // Against the principals before the vintage, on both sides: its entries do not vest to each other.
        b.accUp = VestedMath.vestDown(b.accUp, b.acceptedDown, b.principalUp);
        b.accDown = VestedMath.vestDown(b.accDown, b.acceptedUp, b.principalDown);
        b.principalUp += b.acceptedUp;
        b.principalDown += b.acceptedDown;
    }

    /// What a stake would be paid if its side won with the books as they are.
    function _accrued(Snapshot memory snap, Stake memory s) internal pure returns (uint256) {
        uint256 acc = s.outcome == 0 ? snap.books.accUp : snap.books.accDown;
        return VestedMath.payoutDown(s.accepted, acc, s.entryAcc);
    }

    /// A settled position's payout before the fee, and the fee.
    function _payout(Snapshot memory snap, Stake memory s) internal pure returns (uint256 gross, uint256 fee) {
        if (snap.status == Status.Void) return (s.accepted, 0);
        if (snap.status != (s.outcome == 0 ? Status.Up : Status.Down)) return (0, 0);
        gross = _accrued(snap, s);
        fee = VestedMath.feeDown(gross - s.accepted, snap.feeBps);
    }

    /// Accepted amounts of an outcome sum exactly to its principal, and a position with any accepted is paid at least
    /// that, in one go.
    function _unpaidPrincipal(Market storage m) internal view returns (uint256) {
        Pool storage p = m.pool;
        Status status = m.terms.status;
        if (status == Status.Open) return 0;
        if (status == Status.Up) return p.principalUp - p.paidPrincipal;
        if (status == Status.Down) return p.principalDown - p.paidPrincipal;
        return p.principalUp + p.principalDown - p.paidPrincipal;
    }

    // ---------------------------------------------------------------- Reading storage

    function _market(uint256 marketId) internal view returns (Market storage m) {
        m = _markets[marketId];
        if (m.terms.status == Status.None) revert UnknownMarket(marketId);
    }

    function _openMarket(uint256 marketId) internal view returns (Market storage m) {
        m = _market(marketId);
        Status status = m.terms.status;
        if (status != Status.Open) revert MarketNotOpen(marketId, status);
    }

    function _snapshot(uint256 marketId) internal view returns (Snapshot memory snap) {
        Market storage m = _markets[marketId];
        Flow storage f = m.flow;
        snap.marketId = marketId;
        snap.status = m.terms.status;
        snap.feeBps = m.terms.feeBps;
        snap.pendingBlock = f.vintageBlock;
        if (snap.pendingBlock != 0) {
            snap.pending = f.vintages;
            snap.finished = _finished(m);
        } else if (_parks(f)) {
            snap.parked = f.vintages;
            snap.ration = _parkedRation(f, m.pool);
        }
        snap.books = _books(marketId, m, snap.finished);
    }

    function _position(uint256 positionId)
        internal
        view
        returns (Position storage p, Snapshot memory snap, Stake memory s)
    {
        p = _positions[positionId];
        if (p.owner == address(0)) revert UnknownPosition(positionId);
        snap = _snapshot(positionId >> 32);
        s = _stake(snap, positionId, p);
    }

    function _stake(Snapshot memory snap, uint256 positionId, Position storage p)
        internal
        view
        returns (Stake memory s)
    {
        uint256 outcome = positionId & 1;
        uint256 offered = p.offeredThrough;
        uint256 vintage = p.vintage;
        s.outcome = outcome;
        if (vintage == 0) {
            s.matched = true;
            s.offered = offered;
            s.accepted = offered;
            return s;
        }
        // The id two below is the position before it on its side; the first, the seed, is alone in its vintage.
        Position storage previous = _positions[positionId - 2];
        uint256 ahead = previous.vintage == vintage ? previous.offeredThrough : 0;
        offered -= ahead;
        s.offered = offered;

        if (vintage == snap.pending) {
            s.matched = snap.finished;
            if (!snap.finished) return s;
            Books memory b = snap.books;
            (uint256 acc, uint256 taken, uint256 demand) =
                outcome == 0 ? (b.accUp, b.acceptedUp, b.offeredUp) : (b.accDown, b.acceptedDown, b.offeredDown);
            s.entryAcc = acc;
            s.accepted = VestedMath.shareDown(ahead, offered, taken, demand);
            return s;
        }
        StoredVintage storage stored = _vintages[_vintageKey(snap.marketId, vintage)];
        Vintage storage v = stored.vintage;
        s.matched = true;
        s.entryAcc = outcome == 0 ? v.accUp : v.accDown;
        if (v.rationed) {
            Ration memory r = vintage == snap.parked ? snap.ration : stored.ration;
            (uint256 taken, uint256 demand) =
                outcome == 0 ? (r.acceptedUp, r.offeredUp) : (r.acceptedDown, r.offeredDown);
            s.accepted = VestedMath.shareDown(ahead, offered, taken, demand);
        } else {
            s.accepted = offered;
        }
    }

    function _positionId(uint256 marketId, uint256 outcome, uint256 n) internal pure returns (uint256) {
        return marketId << 32 | n << 1 | outcome;
    }

    function _vintageKey(uint256 marketId, uint256 number) internal pure returns (uint256) {
        return marketId << 24 | number;
    }

    function _demandOf(Flow storage f, uint256 outcome) internal view returns (uint256) {
        return outcome == 0 ? f.demandUp : f.demandDown;
    }

    function _countOf(Flow storage f, uint256 outcome) internal view returns (uint256) {
        return outcome == 0 ? f.countUp : f.countDown;
    }

    /// The last vintage's ration is parked. A rationed vintage has offers.
    function _parks(Flow storage f) internal view returns (bool) {
        return f.vintageBlock == 0 && f.demandUp | f.demandDown != 0;
    }

    function _parkedRation(Flow storage f, Pool storage p) internal view returns (Ration memory) {
        return Ration(f.demandUp, f.demandDown, p.paidPrincipal, p.distributed);
    }

    // ---------------------------------------------------------------- Views

    /// @inheritdoc IVestedMarkets
    function market(uint256 marketId) external view returns (MarketView memory) {
        Market storage m = _market(marketId);
        Terms storage t = m.terms;
        Flow storage f = m.flow;
        Pool storage p = m.pool;
        Books memory b = _books(marketId, m, _finished(m));
        return MarketView({
            opener: m.opener,
            resolver: m.resolver,
            freezeTime: t.freezeTime,
            voidDelay: t.voidDelay,
            feeBps: t.feeBps,
            kappa: t.kappa,
            seedPerLeg: m.seedPerLeg,
            minEntry: t.minEntry,
            maxEntry: t.maxEntry,
            sideCap: t.sideCap,
            status: t.status,
            vintageBlock: f.vintageBlock,
            vintages: f.vintages,
            positions: uint256(f.countUp) + f.countDown,
            pool: b.principalUp + b.principalDown,
            distributed: t.status == Status.Open ? 0 : p.distributed,
            unpaidPrincipal: _unpaidPrincipal(m)
        });
    }

    /// @inheritdoc IVestedMarkets
    function books(uint256 marketId) external view returns (BookView[2] memory views) {
        Market storage m = _market(marketId);
        Terms storage t = m.terms;
        Flow storage f = m.flow;
        Pool storage p = m.pool;
        bool finished = _finished(m);
        Books memory b = _books(marketId, m, finished);
        Books memory closed = _books(marketId, m, f.vintageBlock != 0);
        views[0] = BookView({
            principal: b.principalUp,
            acc: b.accUp,
            capacity: VestedMath.capacityOf(t.kappa, t.sideCap, b.principalUp),
            vested: b.principalDown,
            demand: _openDemand(f, 0, finished),
            live: closed.principalUp
        });
        views[1] = BookView({
            principal: b.principalDown,
            acc: b.accDown,
            capacity: VestedMath.capacityOf(t.kappa, t.sideCap, b.principalDown),
            vested: b.principalUp,
            demand: _openDemand(f, 1, finished),
            live: closed.principalDown
        });
    }

    /// @inheritdoc IVestedMarkets
    function headroom(uint256 marketId) external view returns (uint256 up, uint256 down) {
        Market storage m = _market(marketId);
        Terms storage t = m.terms;
        Flow storage f = m.flow;
        bool finished = _finished(m);
        Books memory b = _books(marketId, m, finished);
        up = VestedMath.headroom(t.kappa, t.sideCap, b.principalUp, b.principalDown);
        down = VestedMath.headroom(t.kappa, t.sideCap, b.principalDown, b.principalUp);
        up -= Math.min(up, _openDemand(f, 0, finished));
        down -= Math.min(down, _openDemand(f, 1, finished));
    }

    /// What is offered on an outcome in the vintage that entries still join.
    function _openDemand(Flow storage f, uint256 outcome, bool finished) private view returns (uint256) {
        return finished || f.vintageBlock == 0 ? 0 : _demandOf(f, outcome);
    }

    /// @inheritdoc IVestedMarkets
    function position(uint256 positionId) external view returns (PositionView memory) {
        (Position storage p, Snapshot memory snap, Stake memory s) = _position(positionId);
        return PositionView({
            owner: p.owner,
            marketId: snap.marketId,
            outcome: uint8(s.outcome),
            offered: s.offered,
            accepted: s.accepted,
            refused: s.matched ? s.offered - s.accepted : 0,
            vintage: uint64(_blockOf(snap, p)),
            entryAcc: s.entryAcc,
            seed: p.vintage == 0,
            finalized: s.matched,
            refunded: p.flags & REFUNDED != 0,
            claimed: p.flags & PAID != 0
        });
    }

    function _blockOf(Snapshot memory snap, Position storage p) private view returns (uint256) {
        if (p.vintage == 0) return 0;
        if (p.vintage == snap.pending) return snap.pendingBlock;
        return _vintages[_vintageKey(snap.marketId, p.vintage)].vintage.atBlock;
    }

    /// @inheritdoc IVestedMarkets
    function positionsOf(uint256 marketId, uint256 from, uint256 count) external view returns (uint256[] memory ids) {
        Market storage m = _market(marketId);
        Flow storage f = m.flow;
        uint256 total = uint256(f.countUp) + f.countDown;
        if (from >= total) return ids;
        ids = new uint256[](Math.min(count, total - from));
        uint256 up = _upAmongFirst(marketId, f, from);
        uint256 down = from - up;
        for (uint256 i = 0; i < ids.length; ++i) {
            bool nextIsUp = down == f.countDown
                || (up < f.countUp && _vintageNumber(marketId, 0, up) <= _vintageNumber(marketId, 1, down));
            ids[i] = nextIsUp ? _positionId(marketId, 0, up++) : _positionId(marketId, 1, down++);
        }
    }

    /// How many of a market's first `from` positions, in the order of `positionsOf`, are UP: the smallest number for
    /// which the last DOWN among them comes before the next UP.
    function _upAmongFirst(uint256 marketId, Flow storage f, uint256 from) private view returns (uint256) {
        uint256 low = from > f.countDown ? from - f.countDown : 0;
        uint256 high = Math.min(from, f.countUp);
        while (low < high) {
            uint256 up = (low + high) / 2;
            if (_vintageNumber(marketId, 1, from - up - 1) < _vintageNumber(marketId, 0, up)) high = up;
            else low = up + 1;
        }
        return low;
    }

    function _vintageNumber(uint256 marketId, uint256 outcome, uint256 n) private view returns (uint256) {
        return _positions[_positionId(marketId, outcome, n)].vintage;
    }

    /// @inheritdoc IVestedMarkets
    function accrued(uint256 positionId) external view returns (uint256) {
        (, Snapshot memory snap, Stake memory s) = _position(positionId);
        return s.matched ? _accrued(snap, s) : 0;
    }

    /// @inheritdoc IVestedMarkets
    function settlement(uint256 positionId)
        external
        view
        returns (uint256 gross, uint256 fee, uint256 net, uint256 refund, uint256 total, bool deliverable)
    {
        (Position storage p, Snapshot memory snap, Stake memory s) = _position(positionId);
        if (snap.status != Status.Open) (gross, fee) = _payout(snap, s);
        net = gross - fee;
        refund = s.matched ? s.offered - s.accepted : 0;
        total = (p.flags & PAID == 0 ? net : 0) + (p.flags & REFUNDED == 0 ? refund : 0);
        deliverable = total != 0;
    }

    /// @inheritdoc IVestedMarkets
    function marketCount() external view returns (uint256) {
        return _totals.markets;
    }

    /// @inheritdoc IVestedMarkets
    function entriesPaused() external view returns (bool) {
        return _totals.entriesPaused;
    }

    /// @inheritdoc IVestedMarkets
    function liabilities() external view returns (uint256) {
        return _totals.liabilities;
    }

    /// @inheritdoc IVestedMarkets
    function feesAccrued() external view returns (uint256) {
        return _totals.fees;
    }
}
