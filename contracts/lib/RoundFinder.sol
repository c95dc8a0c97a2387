// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {GuardedRead} from "./GuardedRead.sol";
import {IAggregatorV3} from "./IAggregatorV3.sol";

/// @title Finds or proves the round of a price feed at a moment
/// @notice The reading at time T is the round in effect at T: among the phases of the feed up to the current one, the
///         highest phase that has a round with `updatedAt <= T`, and in it the last such round. A read that
///         reverts, returns short data or says `updatedAt == 0` is an absent round.
///
///         Two facts about feeds are relied upon, within one phase: rounds are numbered consecutively from 1, and `updatedAt`
///         never falls from one round to the next. Chainlink's aggregators and ObservationFeed keep both (they write
///         rounds in order, at the block's time or later than the one before). Nothing is assumed between phases: they may overlap,
///         be empty, or restate the past. On such feeds exactly one round proves for any T at any moment, and
///         `inEffectAt` finds that one.
///
///         At most MAX_PHASES phases are looked at, the current one and those before it; a reading in an older
///         phase can be neither found nor proven.
library RoundFinder {
    struct Round {
        uint80 id; // phase << 64 | n
        int256 answer; // in the feed's decimals
        uint256 updatedAt; // Unix seconds
    }

    uint256 internal constant MAX_PHASES = 8;

    /// The highest round number looked at in a phase; one less than fits, so that the round after it has an id.
    uint256 internal constant MAX_NUMBER = type(uint64).max - 1;

    // Problems: why there is no reading.
    uint8 internal constant OK = 0;
    uint8 internal constant NO_FEED = 1; // no contract at the address
    uint8 internal constant LATEST_UNREADABLE = 2; // latestRoundData() reverts or returns short data
    uint8 internal constant NO_PHASE = 3; // the latest round id carries no phase: not a proxy
    uint8 internal constant NO_ROUND = 4; // no phase has a round at or before the time asked for
    uint8 internal constant TOO_MANY_PHASES = 5; // nor have the last MAX_PHASES, and older ones are not looked at

    /// @notice The round in effect at `time`, searched for on chain.
    /// @return round all zeros when there is a problem
    /// @return problem OK or one of the codes above
    function inEffectAt(address feed, uint256 time) internal view returns (Round memory round, uint8 problem) {
        uint256 phaseNow;
        uint256 latest;
        (phaseNow, latest, problem) = currentPhase(feed);
        if (problem != OK) return (round, problem);
        uint256 oldest = phaseNow > MAX_PHASES ? phaseNow - MAX_PHASES + 1 : 1;
        for (uint256 phase = phaseNow; phase >= oldest; --phase) {
            (bool found, Round memory first) = _atOrBefore(feed, _id(phase, 1), time);
            if (found) return (_last(feed, first, phase == phaseNow ? latest : 1, time), OK);
        }
        return (round, oldest == 1 ? NO_ROUND : TOO_MANY_PHASES);
    }

    /// @notice Proves that `roundId` is the round in effect at `time`.
    /// @return ok false for any other round, and whenever the feed's current phase cannot be read
    /// @return round the round; all zeros unless ok
    function proveInEffectAt(address feed, uint80 roundId, uint256 time)
        internal
        view
        returns (bool ok, Round memory round)
    {
        (uint256 phaseNow,, uint8 problem) = currentPhase(feed);
        if (problem == OK) return proveInEffectAt(feed, phaseNow, roundId, time);
    }

    /// @notice The same for a caller that proves several rounds of one feed and has read its current phase.
    function proveInEffectAt(address feed, uint256 phaseNow, uint80 roundId, uint256 time)
        internal
        view
        returns (bool ok, Round memory round)
    {
        uint256 phase = roundId >> 64;
        uint256 number = uint64(roundId);
        if (phase == 0 || phase > phaseNow || phaseNow - phase >= MAX_PHASES) return (false, round);
        if (number == 0 || number > MAX_NUMBER) return (false, round);

        (bool found, Round memory candidate) = _atOrBefore(feed, roundId, time);
        if (!found) return (false, round);
        (found,) = _atOrBefore(feed, roundId + 1, time);
        if (found) return (false, round);
        for (uint256 later = phase + 1; later <= phaseNow; ++later) {
            (found,) = _atOrBefore(feed, _id(later, 1), time);
            if (found) return (false, round);
        }
        return (true, candidate);
    }

    /// @notice Reads one round of a feed; nothing the feed does makes this revert.
    /// @return present false for an absent round
    /// @return round all zeros unless present
    function readRound(address feed, uint80 roundId) internal view returns (bool present, Round memory round) {
        (bool ok,, int256 answer, uint256 updatedAt) =
            GuardedRead.round(feed, IAggregatorV3.getRoundData.selector, roundId, 36);
        if (ok && updatedAt != 0) return (true, Round(roundId, answer, updatedAt));
    }

    /// @notice The phase a feed is in now, and the number of its latest round there (0 while that phase is empty).
    /// @return phase from 1; 0 when there is a problem
    function currentPhase(address feed) internal view returns (uint256 phase, uint256 number, uint8 problem) {
        (bool ok, uint256 id,,) = GuardedRead.round(feed, IAggregatorV3.latestRoundData.selector, 0, 4);
        if (!ok) return (0, 0, feed.code.length == 0 ? NO_FEED : LATEST_UNREADABLE);
        phase = id >> 64;
        if (phase == 0 || phase > type(uint16).max) return (0, 0, NO_PHASE);
        return (phase, uint64(id), OK);
    }

    /// The last round at or before `time` in the phase of `low`, which is one. The search gallops away from `hint` (where the
    /// feed says its latest round is: the readings asked for are mostly recent) or from 1, then halves. What the hint says is
    /// not trusted, it only saves reads: at the end the round after `low` has been read, and is later or absent.
    function _last(address feed, Round memory low, uint256 hint, uint256 time) private view returns (Round memory) {
        uint256 base = uint256(low.id) - 1;
        uint256 lowest = 1;
        uint256 high = 0; // 0: no round that is later or absent is known yet
        uint256 step = 1;
        bool found;
        Round memory probe;

        if (hint > MAX_NUMBER) hint = MAX_NUMBER;
        if (hint > 1) {
            (found, probe) = _atOrBefore(feed, uint80(base + hint), time);
            if (found) (lowest, low) = (hint, probe);
            else high = hint;
        }
        while (high > lowest + step) {
            (found, probe) = _atOrBefore(feed, uint80(base + high - step), time);
            if (found) {
                (lowest, low) = (high - step, probe);
                break;
            }
            (high, step) = (high - step, step * 2);
        }
        while (high == 0) {
            if (lowest + step > MAX_NUMBER) {
                high = MAX_NUMBER + 1;
                break;
            }
            (found, probe) = _atOrBefore(feed, uint80(base + lowest + step), time);
            if (found) (lowest, low, step) = (lowest + step, probe, step * 2);
            else high = lowest + step;
        }
        while (high - lowest > 1) {
            uint256 middle = (lowest + high) / 2;
            (found, probe) = _atOrBefore(feed, uint80(base + middle), time);
            if (found) (lowest, low) = (middle, probe);
            else high = middle;
        }
        return low;
    }

    function _atOrBefore(address feed, uint80 roundId, uint256 time)
        private
        view
        returns (bool found, Round memory round)
    {
        (found, round) = readRound(feed, roundId);
        if (found && round.updatedAt > time) found = false;
    }

    /// Phases fit 16 bits and numbers 64, so an id fits 80.
    function _id(uint256 phase, uint256 number) private pure returns (uint80) {
        return uint80(phase << 64 | number);
    }
}
