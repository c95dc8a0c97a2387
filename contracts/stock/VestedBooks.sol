// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {Math} from "@openzeppelin/contracts/utils/math/Math.sol";
import {IVestedMarkets} from "./IVestedMarkets.sol";
import {Flow, PAID, Pool, Position, REFUNDED, Ration, Terms, Totals, Vintage, parkedRation} from "./PackedWords.sol";
import {VestedMath} from "./VestedMath.sol";

/// @title The books of all markets: how they are stored, how they are read
/// @dev Nothing loops over the entries of a market. A vintage stores what each side offered and was accepted in total, a
/// position stores the running total offered on its side up to and with it, and its accepted part is worked out when read.
/// VestedMarkets writes what is declared here.
abstract contract VestedBooks is IVestedMarkets {
    // ---------------------------------------------------------------- Storage

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
    function _finished(Terms t, Flow f) internal view returns (bool) {
        uint256 vintageBlock = f.vintageBlock();
        return vintageBlock != 0 && (vintageBlock != block.number || block.timestamp >= t.freezeTime());
    }

    /// The books as stored, or with the vintage in `f` matched against them.
    function _books(uint256 marketId, Terms t, Flow f, Pool p, bool matchOpen) internal view returns (Books memory b) {
        b.principalUp = p.principalUp();
        b.principalDown = p.principalDown();
        uint256 last = f.vintageBlock() == 0 ? f.vintages() : f.vintages() - 1;
        if (last == 0) {
            // Each leg of the seed has vested into the other.
            b.accUp = VestedMath.S;
            b.accDown = VestedMath.S;
        } else {
            Vintage v = _vintages[_vintageKey(marketId, last)].vintage;
            b.accUp = v.accOf(0);
            b.accDown = v.accOf(1);
        }
        if (!matchOpen) return b;

        (uint256 kappa, uint256 sideCap) = (t.kappa(), t.sideCap());
        b.offeredUp = f.demandOf(0);
        b.offeredDown = f.demandOf(1);
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
    function _unpaidPrincipal(Terms t, Pool p) internal pure returns (uint256) {
        Status status = Status(t.status());
        if (status == Status.Open) return 0;
        if (status == Status.Up) return p.principalUp() - p.paidPrincipal();
        if (status == Status.Down) return p.principalDown() - p.paidPrincipal();
        return p.principalUp() + p.principalDown() - p.paidPrincipal();
    }

    // ---------------------------------------------------------------- Reading storage

    function _market(uint256 marketId) internal view returns (Market storage m, Terms t) {
        m = _markets[marketId];
        t = m.terms;
        if (Status(t.status()) == Status.None) revert UnknownMarket(marketId);
    }

    function _openMarket(uint256 marketId) internal view returns (Market storage m, Terms t) {
        (m, t) = _market(marketId);
        Status status = Status(t.status());
        if (status != Status.Open) revert MarketNotOpen(marketId, status);
    }

    function _snapshot(uint256 marketId) internal view returns (Snapshot memory snap) {
        Market storage m = _markets[marketId];
        Terms t = m.terms;
        Flow f = m.flow;
        snap.marketId = marketId;
        snap.status = Status(t.status());
        snap.feeBps = t.feeBps();
        snap.pendingBlock = f.vintageBlock();
        if (snap.pendingBlock != 0) {
            snap.pending = f.vintages();
            snap.finished = _finished(t, f);
        } else if (f.parks()) {
            snap.parked = f.vintages();
            snap.ration = parkedRation(f, m.pool);
        }
        snap.books = _books(marketId, t, f, m.pool, snap.finished);
    }

    function _position(uint256 positionId) internal view returns (Position p, Snapshot memory snap, Stake memory s) {
        p = _positions[positionId];
        if (p.owner() == address(0)) revert UnknownPosition(positionId);
        snap = _snapshot(positionId >> 32);
        s = _stake(snap, positionId, p);
    }

    function _stake(Snapshot memory snap, uint256 positionId, Position p) internal view returns (Stake memory s) {
        uint256 outcome = positionId & 1;
        uint256 offered = p.offeredThrough();
        uint256 vintage = p.vintage();
        s.outcome = outcome;
        if (vintage == 0) {
            s.matched = true;
            s.offered = offered;
            s.accepted = offered;
            return s;
        }
        // The id two below is the position before it on its side; the first, the seed, is alone in its vintage.
        Position previous = _positions[positionId - 2];
        uint256 ahead = previous.vintage() == vintage ? previous.offeredThrough() : 0;
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
        Vintage v = stored.vintage;
        s.matched = true;
        s.entryAcc = v.accOf(outcome);
        if (v.rationed()) {
            Ration r = vintage == snap.parked ? snap.ration : stored.ration;
            s.accepted = VestedMath.shareDown(ahead, offered, r.acceptedOf(outcome), r.offeredOf(outcome));
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

    // ---------------------------------------------------------------- Views

    /// @inheritdoc IVestedMarkets
    function market(uint256 marketId) external view returns (MarketView memory) {
        (Market storage m, Terms t) = _market(marketId);
        Flow f = m.flow;
        Pool p = m.pool;
        Books memory b = _books(marketId, t, f, p, _finished(t, f));
        return MarketView({
            opener: m.opener,
            resolver: m.resolver,
            freezeTime: uint64(t.freezeTime()),
            voidDelay: uint32(t.voidDelay()),
            feeBps: uint16(t.feeBps()),
            kappa: uint32(t.kappa()),
            seedPerLeg: m.seedPerLeg,
            minEntry: uint64(t.minEntry()),
            maxEntry: uint64(t.maxEntry()),
            sideCap: uint64(t.sideCap()),
            status: Status(t.status()),
            vintageBlock: uint64(f.vintageBlock()),
            vintages: f.vintages(),
            positions: f.countOf(0) + f.countOf(1),
            pool: b.principalUp + b.principalDown,
            distributed: Status(t.status()) == Status.Open ? 0 : p.distributed(),
            unpaidPrincipal: _unpaidPrincipal(t, p)
        });
    }

    /// @inheritdoc IVestedMarkets
    function books(uint256 marketId) external view returns (BookView[2] memory views) {
        (Market storage m, Terms t) = _market(marketId);
        Flow f = m.flow;
        Pool p = m.pool;
        bool finished = _finished(t, f);
        Books memory b = _books(marketId, t, f, p, finished);
        Books memory closed = _books(marketId, t, f, p, f.vintageBlock() != 0);
        views[0] = BookView({
            principal: b.principalUp,
            acc: b.accUp,
            capacity: VestedMath.capacityOf(t.kappa(), t.sideCap(), b.principalUp),
            vested: b.principalDown,
            demand: _openDemand(f, 0, finished),
            live: closed.principalUp
        });
        views[1] = BookView({
            principal: b.principalDown,
            acc: b.accDown,
            capacity: VestedMath.capacityOf(t.kappa(), t.sideCap(), b.principalDown),
            vested: b.principalUp,
            demand: _openDemand(f, 1, finished),
            live: closed.principalDown
        });
    }

    /// @inheritdoc IVestedMarkets
    function headroom(uint256 marketId) external view returns (uint256 up, uint256 down) {
        (Market storage m, Terms t) = _market(marketId);
        Flow f = m.flow;
        bool finished = _finished(t, f);
        Books memory b = _books(marketId, t, f, m.pool, finished);
        up = VestedMath.headroom(t.kappa(), t.sideCap(), b.principalUp, b.principalDown);
        down = VestedMath.headroom(t.kappa(), t.sideCap(), b.principalDown, b.principalUp);
        up -= Math.min(up, _openDemand(f, 0, finished));
        down -= Math.min(down, _openDemand(f, 1, finished));
    }

    /// What is offered on an outcome in the vintage that entries still join.
    function _openDemand(Flow f, uint256 outcome, bool finished) private pure returns (uint256) {
        return finished || f.vintageBlock() == 0 ? 0 : f.demandOf(outcome);
    }

    /// @inheritdoc IVestedMarkets
    function position(uint256 positionId) external view returns (PositionView memory) {
        (Position p, Snapshot memory snap, Stake memory s) = _position(positionId);
        return PositionView({
            owner: p.owner(),
            marketId: snap.marketId,
            outcome: uint8(s.outcome),
            offered: s.offered,
            accepted: s.accepted,
            refused: s.matched ? s.offered - s.accepted : 0,
            vintage: uint64(_blockOf(snap, p)),
            entryAcc: s.entryAcc,
            seed: p.vintage() == 0,
            finalized: s.matched,
            refunded: p.flags() & REFUNDED != 0,
            claimed: p.flags() & PAID != 0
        });
    }

    function _blockOf(Snapshot memory snap, Position p) private view returns (uint256) {
        if (p.vintage() == 0) return 0;
        if (p.vintage() == snap.pending) return snap.pendingBlock;
        return _vintages[_vintageKey(snap.marketId, p.vintage())].vintage.atBlock();
    }

    /// @inheritdoc IVestedMarkets
    function positionsOf(uint256 marketId, uint256 from, uint256 count) external view returns (uint256[] memory ids) {
        (Market storage m,) = _market(marketId);
        Flow f = m.flow;
        uint256 total = f.countOf(0) + f.countOf(1);
        if (from >= total) return ids;
        ids = new uint256[](Math.min(count, total - from));
        uint256 up = _upAmongFirst(marketId, f, from);
        uint256 down = from - up;
        for (uint256 i = 0; i < ids.length; ++i) {
            bool nextIsUp = down == f.countOf(1)
                || (up < f.countOf(0) && _vintageNumber(marketId, 0, up) <= _vintageNumber(marketId, 1, down));
            ids[i] = nextIsUp ? _positionId(marketId, 0, up++) : _positionId(marketId, 1, down++);
        }
    }

    /// How many of a market's first `from` positions, in the order of `positionsOf`, are UP: the smallest number for
    /// which the last DOWN among them comes before the next UP.
    function _upAmongFirst(uint256 marketId, Flow f, uint256 from) private view returns (uint256) {
        uint256 low = from > f.countOf(1) ? from - f.countOf(1) : 0;
        uint256 high = Math.min(from, f.countOf(0));
        while (low < high) {
            uint256 up = (low + high) / 2;
            if (_vintageNumber(marketId, 1, from - up - 1) < _vintageNumber(marketId, 0, up)) high = up;
            else low = up + 1;
        }
        return low;
    }

    function _vintageNumber(uint256 marketId, uint256 outcome, uint256 n) private view returns (uint256) {
        return _positions[_positionId(marketId, outcome, n)].vintage();
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
        (Position p, Snapshot memory snap, Stake memory s) = _position(positionId);
        if (snap.status != Status.Open) (gross, fee) = _payout(snap, s);
        net = gross - fee;
        refund = s.matched ? s.offered - s.accepted : 0;
        total = (p.flags() & PAID == 0 ? net : 0) + (p.flags() & REFUNDED == 0 ? refund : 0);
        deliverable = total != 0;
    }

    /// @inheritdoc IVestedMarkets
    function marketCount() external view returns (uint256) {
        return _totals.markets();
    }

    /// @inheritdoc IVestedMarkets
    function entriesPaused() external view returns (bool) {
        return _totals.entriesPaused();
    }

    /// @inheritdoc IVestedMarkets
    function liabilities() external view returns (uint256) {
        return _totals.liabilities();
    }

    /// @inheritdoc IVestedMarkets
    function feesAccrued() external view returns (uint256) {
        return _totals.fees();
    }
}
