// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {GuardedRead} from "../lib/GuardedRead.sol";
import {IAggregatorV3} from "../lib/IAggregatorV3.sol";
import {RoundFinder} from "../lib/RoundFinder.sol";
import {IObservationFeed} from "./IObservationFeed.sol";
import {ISettlementWallet} from "./ISettlementWallet.sol";

/// @title What a market may be, and what a feed's rounds make of it
/// @notice Nothing here looks at money or at who is calling: the same feed and the same clock give the same answer to anyone.
library MarketRules {
    uint8 internal constant THRESHOLD = 0;
    uint8 internal constant RANGE = 1;
    uint8 internal constant DIRECTION = 2;

    uint8 internal constant YES = 0;
    uint8 internal constant NO = 1;
    uint8 internal constant UP = 0;
    uint8 internal constant DOWN = 1;

    // Why a market was voided.
    uint8 internal constant VOID_STALE = 1; // the reading was older than maxAge
    uint8 internal constant VOID_BAD_ANSWER = 2; // the reading was zero or negative
    uint8 internal constant VOID_NO_READING = 3; // the feed had no round at or before the moment
    uint8 internal constant VOID_TIMEOUT = 4; // nothing settled it for voidDelay
    uint8 internal constant VOID_TIE = 5; // start and end are equal, or the same round
    uint8 internal constant VOID_MET_BEFORE_OPEN = 6; // over the target since before it opened, with no round in its life

    /// How long after the deadline an early proof may still come in before NO can be declared.
    uint256 internal constant CHALLENGE_DELAY = 10 minutes;

    uint256 internal constant MAX_OUTCOMES = 16;
    uint256 internal constant MAX_FEE_BPS = 1_000;
    uint256 internal constant MIN_VIRTUAL_LIQUIDITY = 1e6;
    uint256 internal constant MAX_VIRTUAL_LIQUIDITY = 1e15;
    uint256 internal constant MIN_VOID_DELAY = 1 hours; // longer than every wait before a result
    uint256 internal constant MAX_VOID_DELAY = 90 days;
    uint256 internal constant MAX_FEED_LAG = 30 minutes;

    /// The part of a market that decides it, in memory.
    struct Terms {
        bytes32 marketId;
        uint8 kind;
        address feed;
        bool earlyResolvable;
        uint256 opensAt;
        uint256 closesAt;
        uint256 startAt;
        uint256 maxAge;
        uint256 lag; // seconds after a moment during which the feed may still be given readings dated before it
        uint256 target;
        uint128[] bounds; // range only
    }

    struct Verdict {
        bool settled; // false: it voids
        uint8 code; // the winning outcome, or the reason of the void
        RoundFinder.Round round;
    }

    // ---------------------------------------------------------------- Listing

    /// @notice Reverts unless the market makes sense and its result is still unknown. A market that opens in the past opens now.
    /// @return lag see Terms.lag
    function check(ISettlementWallet.MarketSpec memory s) internal view returns (uint256 lag) {
        if (s.opensAt < block.timestamp) s.opensAt = uint64(block.timestamp);
        if (s.kind > DIRECTION) revert ISettlementWallet.UnknownKind(s.kind);
        if (s.closesAt <= block.timestamp) revert ISettlementWallet.ClosesInThePast(s.closesAt, block.timestamp);
        if (s.closesAt <= s.opensAt) revert ISettlementWallet.ClosesBeforeItOpens(s.opensAt, s.closesAt);
        if (s.closesAt > type(uint40).max) revert ISettlementWallet.NumberTooLarge("closesAt");
        _within("maxAge", s.maxAge, 1, type(uint32).max);
        _within("voidDelay", s.voidDelay, MIN_VOID_DELAY, MAX_VOID_DELAY);
        _within("feeBps", s.feeBps, 0, MAX_FEE_BPS);
        _within("virtualLiquidity", s.virtualLiquidity, MIN_VIRTUAL_LIQUIDITY, MAX_VIRTUAL_LIQUIDITY);
        _checkOutcomes(s);
        return _checkFeed(s.feed);
    }

    function _checkOutcomes(ISettlementWallet.MarketSpec memory s) private view {
        if (s.kind == THRESHOLD) {
            if (s.target <= 0) revert ISettlementWallet.TargetMustBePositive(s.target);
            if (uint256(s.target) > type(uint128).max) revert ISettlementWallet.NumberTooLarge("target");
        } else {
            if (s.target != 0) revert ISettlementWallet.FieldNotUsedByKind("target", s.kind);
            if (s.earlyResolvable) revert ISettlementWallet.FieldNotUsedByKind("earlyResolvable", s.kind);
        }

        if (s.kind == RANGE) {
            _checkBounds(s.bounds, s.outcomes);
        } else {
            if (s.bounds.length != 0) revert ISettlementWallet.FieldNotUsedByKind("bounds", s.kind);
            if (s.outcomes != 2) revert ISettlementWallet.WrongNumberOfOutcomes(s.outcomes);
        }

        if (s.kind == DIRECTION) {
            // A start in the past is a known answer.
            if (s.startAt <= block.timestamp || s.startAt >= s.closesAt) {
                revert ISettlementWallet.StartOutsideTheMarket(s.startAt, block.timestamp + 1, s.closesAt - 1);
            }
        } else if (s.startAt != 0) {
            revert ISettlementWallet.FieldNotUsedByKind("startAt", s.kind);
        }
    }

    function _checkBounds(int256[] memory bounds, uint256 outcomes) private pure {
        if (outcomes < 2 || outcomes > MAX_OUTCOMES) revert ISettlementWallet.WrongNumberOfOutcomes(outcomes);
        if (bounds.length != outcomes - 1) {
            revert ISettlementWallet.BoundsDoNotMatchOutcomes(bounds.length, outcomes);
        }
        int256 last = 0; // readings are positive, so a bucket under zero could never win
        for (uint256 k; k < bounds.length; ++k) {
            if (bounds[k] <= last) revert ISettlementWallet.BoundsMustRise(k, bounds[k]);
            last = bounds[k];
        }
        if (uint256(last) > type(uint128).max) revert ISettlementWallet.NumberTooLarge("bounds");
    }

    /// A feed that takes observations late says so by `maxLag()`; proxies without that function write at block time.
    function _checkFeed(address feed) private view returns (uint256 lag) {
        if (feed.code.length == 0) revert ISettlementWallet.FeedHasNoCode(feed);
        (bool ok, uint256 value) = GuardedRead.word(feed, IAggregatorV3.decimals.selector);
        if (!ok || value != 8) revert ISettlementWallet.FeedDecimalsMustBe8(feed);
        (ok, value) = GuardedRead.word(feed, IObservationFeed.maxLag.selector);
        lag = ok ? value : 0;
        if (lag > MAX_FEED_LAG) revert ISettlementWallet.FeedLagTooLong(lag, MAX_FEED_LAG);
    }

    function _within(string memory field, uint256 value, uint256 min, uint256 max) private pure {
        if (value < min || value > max) revert ISettlementWallet.OutOfBounds(field, value, min, max);
    }

    // ---------------------------------------------------------------- Settling

    /// @notice After this time (strictly) the reading at the deadline decides: nothing dated at or before the deadline
    ///         can be written any more, and early proofs have had their time.
    function settlesAfter(uint256 closesAt, bool earlyResolvable, uint256 lag) internal pure returns (uint256) {
        return closesAt + (earlyResolvable && lag < CHALLENGE_DELAY ? CHALLENGE_DELAY : lag);
    }

    /// @notice The result of a market, or a revert that says what is missing.
    /// @param roundId as in ISettlementWallet.resolve; 0: find it
    function decide(Terms memory t, uint80 roundId) internal view returns (Verdict memory) {
        if (t.earlyResolvable) {
            (bool crossed, RoundFinder.Round memory early) = _crossing(t, roundId);
            if (crossed) return Verdict(true, YES, early);
        }
        uint256 after_ = settlesAfter(t.closesAt, t.earlyResolvable, t.lag);
        if (block.timestamp <= after_) revert ISettlementWallet.TooEarly(t.marketId, after_ + 1);

        RoundFinder.Round memory end = _reading(t, roundId, t.closesAt);
        _requireUsable(t, end, t.closesAt);
        uint256 value = uint256(end.answer);
        if (t.kind == THRESHOLD) {
            if (value < t.target) return Verdict(true, NO, end);
            if (t.earlyResolvable && end.updatedAt < t.opensAt) return Verdict(false, VOID_MET_BEFORE_OPEN, end);
            return Verdict(true, YES, end);
        }
        if (t.kind == RANGE) return Verdict(true, _bucket(value, t.bounds), end);

        RoundFinder.Round memory start = _reading(t, 0, t.startAt);
        _requireUsable(t, start, t.startAt);
        // The same round has the same answer.
        if (end.answer == start.answer) return Verdict(false, VOID_TIE, end);
        return Verdict(true, end.answer > start.answer ? UP : DOWN, end);
    }

    /// @notice The proven reason to void a market, or a revert.
    function fault(Terms memory t, uint80 roundId) internal view returns (uint8 reason) {
        // An early proof goes first: a crossing is not undone by a feed that dies later.
        uint256 after_ = settlesAfter(t.closesAt, t.earlyResolvable, t.lag);
        if (block.timestamp <= after_) revert ISettlementWallet.TooEarly(t.marketId, after_ + 1);
        reason = _faultAt(t, roundId, t.closesAt);
        if (reason == 0 && t.kind == DIRECTION) reason = _faultAt(t, 0, t.startAt);
        if (reason == 0) revert ISettlementWallet.NothingToVoidFor(t.marketId);
    }

    /// A round at or over the target that came into effect in the market's life: the one named, or the latest. It must have been in
    /// effect when it was written, which keeps out phases the feed had left by then, and that second must be over.
    function _crossing(Terms memory t, uint80 roundId)
        private
        view
        returns (bool crossed, RoundFinder.Round memory round)
    {
        if (roundId == 0) {
            (uint256 phase, uint256 number, uint8 problem) = RoundFinder.currentPhase(t.feed);
            if (problem != RoundFinder.OK) return (false, round);
            roundId = uint80(phase << 64 | number);
        }
        (crossed, round) = RoundFinder.readRound(t.feed, roundId);
        crossed = crossed && round.answer > 0 && uint256(round.answer) >= t.target && round.updatedAt >= t.opensAt
            && round.updatedAt <= t.closesAt && round.updatedAt < block.timestamp;
        if (crossed) (crossed,) = RoundFinder.proveInEffectAt(t.feed, roundId, round.updatedAt);
    }

    function _reading(Terms memory t, uint80 roundId, uint256 moment)
        private
        view
        returns (RoundFinder.Round memory round)
    {
        if (roundId == 0) {
            uint8 problem;
            (round, problem) = RoundFinder.inEffectAt(t.feed, moment);
            if (problem != RoundFinder.OK) revert ISettlementWallet.NoReading(t.feed, moment, problem);
        } else {
            bool ok;
            (ok, round) = RoundFinder.proveInEffectAt(t.feed, roundId, moment);
            if (!ok) revert ISettlementWallet.NotInEffect(roundId, moment);
        }
    }

    function _requireUsable(Terms memory t, RoundFinder.Round memory round, uint256 moment) private pure {
        uint8 reason = _faultOf(t, round, moment);
        if (reason == VOID_STALE) {
            revert ISettlementWallet.ReadingTooOld(round.id, moment - round.updatedAt, t.maxAge);
        }
        if (reason == VOID_BAD_ANSWER) revert ISettlementWallet.ReadingNotPositive(round.id, round.answer);
    }

    /// A feed that cannot be read proves nothing (NoReading); one that answers and has no round for the moment does.
    function _faultAt(Terms memory t, uint80 roundId, uint256 moment) private view returns (uint8) {
        if (roundId == 0) {
            (RoundFinder.Round memory found, uint8 problem) = RoundFinder.inEffectAt(t.feed, moment);
            if (problem == RoundFinder.NO_ROUND) return VOID_NO_READING;
            if (problem != RoundFinder.OK) revert ISettlementWallet.NoReading(t.feed, moment, problem);
            return _faultOf(t, found, moment);
        }
        return _faultOf(t, _reading(t, roundId, moment), moment);
    }

    /// `round` is in effect at `moment`, so it is not later.
    function _faultOf(Terms memory t, RoundFinder.Round memory round, uint256 moment) private pure returns (uint8) {
        if (round.answer <= 0) return VOID_BAD_ANSWER;
        return moment - round.updatedAt > t.maxAge ? VOID_STALE : 0;
    }

    /// Bucket k holds values from bounds[k-1], inclusive, to bounds[k], exclusive.
    function _bucket(uint256 value, uint128[] memory bounds) private pure returns (uint8 k) {
        while (k < bounds.length && value >= bounds[k]) ++k;
    }
}
