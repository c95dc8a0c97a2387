// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {IPoolFeed} from "../feeds/IPoolFeed.sol";
import {GuardedRead} from "../lib/GuardedRead.sol";
import {RoundFinder} from "../lib/RoundFinder.sol";
import {IAgentLister} from "./IAgentLister.sol";
import {IFeedResolver} from "./IFeedResolver.sol";
import {ISettlementWallet} from "./ISettlementWallet.sol";

/// @title The resolver of the agent markets; see IFeedResolver for what it promises
/// @dev The settlement wallet settles a market once and refuses every later call, so this contract keeps no status.
contract FeedResolver is IFeedResolver {
    // ---------------------------------------------------------------- Constants and storage

    uint8 private constant YES = 0;
    uint8 private constant NO = 1;
    uint8 private constant UP = 0;
    uint8 private constant DOWN = 1;

    /// Two slots, and a third with the bounds of a range. The lister keeps moments in 32 bits, what it adds to them in 40 and values in 96.
    struct StoredTerms {
        address feed;
        uint32 endsAt;
        uint32 maxAge;
        Kind kind;
        bool earlyResolvable;
        bool published;
        bool grid;
        uint40 startAt;
        uint40 earlyFrom;
        uint40 settlesAfter;
        uint40 voidsAfter;
        uint96 target;
        uint96[] bounds;
    }

    /// What the readings make of a market.
    struct Verdict {
        uint8 winner;
        VoidReason reason; // None: `winner` won
        Reading end;
        Reading start;
    }

    /// For how long a guardian puts off, as the lister has it.
    uint64 private constant PUT_OFF = 1 days;

    /// What looking for a crossing may burn, and what must be left before it: that times 64 / 63, and room for the instructions in between.
    uint256 private constant CROSSING_GAS = 3_500_000;
    uint256 private constant CROSSING_GAS_NEEDED = 3_570_000;

    address public immutable settler;
    address public immutable lister;

    mapping(bytes32 marketId => StoredTerms) private _terms;

    /// @param settler_ the SettlementWallet whose markets this settles
    /// @param lister_ the only address that registers them, and the one that says whether a feed is condemned
    constructor(address settler_, address lister_) {
        if (settler_ == address(0)) revert ZeroAddress("settler");
        if (lister_ == address(0)) revert ZeroAddress("lister");
        settler = settler_;
        lister = lister_;
    }

    // ---------------------------------------------------------------- Registration

    /// @inheritdoc IFeedResolver
    function register(bytes32 marketId, Terms calldata t) external {
        if (msg.sender != lister) revert NotLister(msg.sender, lister);
        if (t.feed == address(0)) revert ZeroAddress("feed");
        StoredTerms storage s = _terms[marketId];
        if (s.feed != address(0)) revert AlreadyRegistered(marketId);
        (s.feed, s.endsAt, s.maxAge) = (t.feed, uint32(t.endsAt), t.maxAge);
        (s.kind, s.earlyResolvable, s.published, s.grid) = (t.kind, t.earlyResolvable, t.published, t.grid);
        (s.startAt, s.earlyFrom) = (uint40(t.startAt), uint40(t.earlyFrom));
        (s.settlesAfter, s.voidsAfter) = (uint40(t.settlesAfter), uint40(t.voidsAfter));
        s.target = uint96(uint256(t.target));
        for (uint256 k; k < t.bounds.length; ++k) {
            s.bounds.push(uint96(uint256(t.bounds[k])));
        }
        emit MarketRegistered(marketId, t.feed);
    }

    // ---------------------------------------------------------------- Settling

    /// @inheritdoc IFeedResolver
    function resolve(bytes32 marketId) external {
        resolveWith(marketId, 0, 0);
    }

    /// @inheritdoc IFeedResolver
    function resolveWith(bytes32 marketId, uint80 endRound, uint80 startRound) public {
        (Terms memory t, bool condemned) = _standing(marketId);
        if (condemned) revert FeedIsCondemned(t.feed);
        Verdict memory v = _crossing(t);
        if (v.end.round == 0) {
            if (block.timestamp > t.voidsAfter) revert TimedOut(marketId, t.voidsAfter);
            v = _decide(marketId, t, endRound, startRound);
        }
        _settle(marketId, v);
    }

    /// @inheritdoc IFeedResolver
    function voidMarket(bytes32 marketId) external {
        voidWith(marketId, 0, 0);
    }

    /// @inheritdoc IFeedResolver
    function voidWith(bytes32 marketId, uint80 endRound, uint80 startRound) public {
        (Terms memory t, bool condemned) = _standing(marketId);
        Verdict memory v;
        if (condemned) v.reason = VoidReason.Condemned;
        else if (_crossing(t).end.round != 0) revert NothingToVoidFor(marketId);
        else if (block.timestamp > t.voidsAfter) v.reason = VoidReason.Timeout;
        else v = _fault(marketId, t, endRound, startRound);
        _settle(marketId, v);
    }

    function _settle(bytes32 marketId, Verdict memory v) private {
        if (v.reason == VoidReason.None) {
            emit MarketDecided(marketId, false, v.winner, v.end, v.start);
            ISettlementWallet(settler).resolve(marketId, v.winner);
        } else {
            emit MarketDecided(marketId, true, uint8(v.reason), v.end, v.start);
            ISettlementWallet(settler).voidMarket(marketId, uint8(v.reason));
        }
    }

    /// The terms of a market, with its times as a guardian may have put them off, and whether its feed is condemned.
    function _standing(bytes32 marketId) private view returns (Terms memory t, bool condemned) {
        t = terms(marketId);
        if (!t.published) return (t, false);
        uint64 until;
        (condemned, until) = IAgentLister(lister).standing(t.feed);
        if (until > t.settlesAfter) (t.settlesAfter, t.voidsAfter) = (until, t.voidsAfter + PUT_OFF);
    }

    // ---------------------------------------------------------------- What the readings say

    /// The first crossing that counts, and so YES; empty while there is none. A feed that cannot be read must not lock in the stakes once
    /// the void delay is over; until then the market waits for it. The caller cannot make the read fail: see GuardedRead.
    function _crossing(Terms memory t) private view returns (Verdict memory v) {
        if (!t.earlyResolvable) return v;
        if (block.timestamp > t.voidsAfter) {
            if (gasleft() < CROSSING_GAS_NEEDED) revert GuardedRead.ReadGasTooLow(gasleft(), CROSSING_GAS_NEEDED);
            try IPoolFeed(t.feed).crossing{gas: CROSSING_GAS}(t.target, t.earlyFrom, t.endsAt) returns (
                uint80 round, int256 answer, uint64 time
            ) {
                v.end = Reading(round, answer, time);
            } catch {}
        } else {
            (v.end.round, v.end.answer, v.end.updatedAt) = IPoolFeed(t.feed).crossing(t.target, t.earlyFrom, t.endsAt);
        }
    }

    /// The result of a market, or a revert that says what is missing.
    function _decide(bytes32 marketId, Terms memory t, uint80 endRound, uint80 startRound)
        private
        view
        returns (Verdict memory v)
    {
        _requireDue(marketId, t);
        RoundFinder.Round memory end = _roundAt(t, endRound, t.endsAt);
        _requireUsable(t, end, t.endsAt);
        v.end = _asReading(end);
        if (t.kind == Kind.Threshold) {
            v.winner = end.answer < t.target ? NO : YES;
            if (v.winner == YES && t.earlyResolvable && end.updatedAt < t.earlyFrom) {
                v.reason = VoidReason.MetBeforeStart;
            }
        } else if (t.kind == Kind.Range) {
            while (v.winner < t.bounds.length && end.answer >= t.bounds[v.winner]) ++v.winner;
        } else {
            RoundFinder.Round memory start = _roundAt(t, startRound, t.startAt);
            _requireUsable(t, start, t.startAt);
            v.start = _asReading(start);
            // The same round has the same answer.
            if (end.answer == start.answer) v.reason = VoidReason.Tie;
            else v.winner = end.answer > start.answer ? UP : DOWN;
        }
    }

    /// The proven reason to void a market, or a revert.
    function _fault(bytes32 marketId, Terms memory t, uint80 endRound, uint80 startRound)
        private
        view
        returns (Verdict memory v)
    {
        _requireDue(marketId, t);
        (v.reason, v.end) = _faultAt(t, endRound, t.endsAt);
        if (v.reason != VoidReason.None) return v;
        delete v.end; // it is in order, so it is not what voids
        if (t.kind == Kind.Direction) (v.reason, v.start) = _faultAt(t, startRound, t.startAt);
        if (v.reason == VoidReason.None) revert NothingToVoidFor(marketId);
    }

    function _requireDue(bytes32 marketId, Terms memory t) private view {
        if (block.timestamp <= t.settlesAfter) revert TooEarly(marketId, t.settlesAfter + 1);
    }

    /// The reading at a moment, or a revert.
    function _roundAt(Terms memory t, uint80 roundId, uint256 moment)
        private
        view
        returns (RoundFinder.Round memory round)
    {
        uint8 problem;
        (round, problem) = _lookUp(t, roundId, moment);
        if (problem != RoundFinder.OK) revert NoReading(t.feed, moment, problem);
    }

    /// The round in effect at a moment: the one named, proven, or found. A grid feed says itself which of its readings counts, and reverts
    /// while that is not recorded; it is not guarded, because a read of it that fails only makes the market wait.
    function _lookUp(Terms memory t, uint80 roundId, uint256 moment)
        private
        view
        returns (RoundFinder.Round memory round, uint8 problem)
    {
        bool ok = true;
        if (t.grid) {
            (round.id, round.answer, round.updatedAt) = IPoolFeed(t.feed).readingAt(moment, t.maxAge);
            if (round.id == 0) problem = RoundFinder.NO_ROUND;
            ok = roundId == 0 || roundId == round.id;
        } else if (roundId == 0) {
            (round, problem) = RoundFinder.inEffectAt(t.feed, moment);
        } else {
            (ok, round) = RoundFinder.proveInEffectAt(t.feed, roundId, moment);
        }
        if (!ok) revert NotInEffect(roundId, moment);
    }

    function _requireUsable(Terms memory t, RoundFinder.Round memory round, uint256 moment) private pure {
        VoidReason reason = _faultOf(t, round, moment);
        if (reason == VoidReason.Stale) revert ReadingTooOld(round.id, moment - round.updatedAt, t.maxAge);
        if (reason == VoidReason.BadAnswer) revert ReadingNotPositive(round.id, round.answer);
    }

    /// A feed that cannot be read proves nothing (NoReading); one that answers and has no round for the moment does.
    function _faultAt(Terms memory t, uint80 roundId, uint256 moment)
        private
        view
        returns (VoidReason, Reading memory reading)
    {
        (RoundFinder.Round memory round, uint8 problem) = _lookUp(t, roundId, moment);
        if (problem == RoundFinder.NO_ROUND) return (VoidReason.NoReading, reading);
        if (problem != RoundFinder.OK) revert NoReading(t.feed, moment, problem);
        return (_faultOf(t, round, moment), _asReading(round));
    }

    /// `round` is in effect at `moment`, so it is not later.
    function _faultOf(Terms memory t, RoundFinder.Round memory round, uint256 moment)
        private
        pure
        returns (VoidReason)
    {
        if (round.answer <= 0) return VoidReason.BadAnswer;
        return moment - round.updatedAt > t.maxAge ? VoidReason.Stale : VoidReason.None;
    }

    /// Its time is not later than a moment of the market, which fits.
    function _asReading(RoundFinder.Round memory round) private pure returns (Reading memory) {
        return Reading(round.id, round.answer, uint64(round.updatedAt));
    }

    // ---------------------------------------------------------------- Views

    /// @inheritdoc IFeedResolver
    function due(bytes32 marketId) external view returns (uint64 settlesAfter, uint64 voidsAfter) {
        (Terms memory t,) = _standing(marketId);
        return (t.settlesAfter, t.voidsAfter);
    }

    /// @inheritdoc IFeedResolver
    function terms(bytes32 marketId) public view returns (Terms memory t) {
        StoredTerms storage s = _terms[marketId];
        t.feed = s.feed;
        if (t.feed == address(0)) revert UnknownMarket(marketId);
        (t.kind, t.earlyResolvable, t.published, t.grid) = (s.kind, s.earlyResolvable, s.published, s.grid);
        t.maxAge = s.maxAge;
        (t.startAt, t.endsAt, t.earlyFrom) = (s.startAt, s.endsAt, s.earlyFrom);
        (t.settlesAfter, t.voidsAfter) = (s.settlesAfter, s.voidsAfter);
        t.target = int256(uint256(s.target));
        if (t.kind != Kind.Range) return t;
        t.bounds = new int256[](s.bounds.length);
        for (uint256 k; k < t.bounds.length; ++k) {
            t.bounds[k] = int256(uint256(s.bounds[k]));
        }
    }
}
