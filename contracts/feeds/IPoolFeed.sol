// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {IAggregatorV3} from "../lib/IAggregatorV3.sol";

// A reading counts as a crossing if it was recorded so many seconds after its time at the latest.
uint256 constant PROMPT = 1 hours;

/// @title A price feed without a publisher: a token's market cap, computed from the observations that its pools keep
/// @notice The reading of a grid time g (a whole multiple of `step`) is the time-weighted geometric mean price of the token over
///         [g - window, g], in the quote token by pools alone, times a fixed supply, with 8 decimals. It is a function of the pools'
///         history and of nothing else: it is the same whoever records it, at any time and in any order, and once recorded
///         it never changes. There is no owner, no key and nothing to set.
///
///         A reading is good only if every pool was deep: its harmonic mean liquidity over the window is at least a third of the reference
///         fixed at deployment. Else its answer is 0, which voids the markets that need it. Silence voids nothing: an observation costs
///         only gas to make, so whether a pool was silent would be up to the last caller who has bet on it. A pool that has been silent
///         for `maxQuiet` only takes no new markets.
///
///         A good reading that was recorded within PROMPT of its time counts as a crossing of every target it is at or over. So what crossed in an
///         interval stands an hour after its end, and no later recording changes it.
///
///         Grid times may be recorded in any order and with holes, so these rounds are not a sequence: never search them with RoundFinder.
interface IPoolFeed is IAggregatorV3 {
    // ---------------------------------------------------------------- Types

    enum Quality {
        Unrecorded,
        Good,
        Thin, // a pool's harmonic mean liquidity over the window was under a third of its reference
        OutOfRange // the market cap rounds to zero or does not fit 96 bits
    }

    /// @notice Where a pool's price comes from.
    struct Source {
        address pool;
        bool baseIsToken0; // the pool's token0 is the one being priced
        uint128 referenceLiquidity; // readings are good from a third of it on, markets are listed from half of it on
    }

    /// @notice What a pool's history says about one window.
    struct Measure {
        int56 startCumulative; // tick cumulatives, as `observe` gives them
        int56 endCumulative;
        uint128 liquidity; // harmonic mean over the window
        uint32 quiet; // seconds from the last observation at or before the grid time to it
    }

    /// The constructor's argument.
    struct Config {
        string description; // in Chainlink's style: "BNKR / USD market cap"
        address token; // what is priced
        address quote; // what counts as one USD
        uint256 supply; // in the token's smallest units
        address[] pools; // one of token/quote; or one of token/x and one of x/quote; each in either order of tokens
        uint128[] referenceLiquidity; // of each
        uint32 window; // seconds
        uint32 step; // seconds
        uint32 maxQuiet; // seconds
    }

    // ---------------------------------------------------------------- Events

    /// In the form of Chainlink's aggregators. `roundId` is the grid time divided by `step`; `updatedAt` is the grid time.
    event AnswerUpdated(int256 indexed current, uint256 indexed roundId, uint256 updatedAt);
    /// @notice What the answer was computed from, one measure a source, directly after its AnswerUpdated.
    event ReadingMeasured(uint256 indexed roundId, Quality quality, Measure[] measures);

    // ---------------------------------------------------------------- Errors

    error NotOnGrid(uint256 time, uint256 step);
    /// @notice The block of that second may still come.
    error NotOverYet(uint256 time, uint256 nowIs);
    /// @notice The reading of that grid time can still be computed from the pools: record it first.
    error NotRecordedYet(uint256 gridTime);
    /// @notice A pool's oldest observation is later than the window's start, so this reading can no longer be computed.
    error ReadingAbsent(uint256 gridTime, address pool, uint256 oldestObservation);
    error NoSuchRound(uint80 roundId);

    // Construction.
    error BadConfig(string field);
    error PoolDoesNotHold(address pool, address token);

    // Listing.
    error SupplyMoved(uint256 totalSupply, uint256 supply);
    /// @notice The pool has written no observation for `maxQuiet` seconds: list once it is traded again.
    error PoolIsQuiet(address pool, uint256 quiet, uint256 maxQuiet);
    /// @notice The pool remembers fewer observations than the seconds it may have to: grow its cardinality.
    error RingTooShort(address pool, uint256 cardinality, uint256 needed);
    /// @notice The pool holds less than half its reference: list once its liquidity is back, or deploy a feed with what there is now.
    error PoolIsShallow(address pool, uint256 liquidity, uint256 referenceLiquidity);
    /// @notice The pool holds more than twice the reference: deploy a feed with what there is now.
    error ReferenceIsOff(address pool, uint256 liquidity, uint256 referenceLiquidity);

    // ---------------------------------------------------------------- Recording

    /// @notice Records the readings of grid times, each before this block's time, in any order. Anyone. Skips those already recorded, and those
    ///         that can no longer be computed.
    /// @return recorded how many were new
    function record(uint64[] calldata times) external returns (uint256 recorded);

    // ---------------------------------------------------------------- Reading

    /// @notice The reading at a moment: the last grid time at or before it. Where that one is absent for good, the last one recorded before.
    ///         Reverts while it can still be recorded, so an older one never stands in for it.
    /// @param maxAge how many seconds before `time` it may be dated
    /// @return roundId 0: there is no reading of that age or less, and there never will be
    /// @return answer 0 where the reading is not good
    /// @return gridTime what `getRoundData` calls updatedAt
    function readingAt(uint256 time, uint256 maxAge)
        external
        view
        returns (uint80 roundId, int256 answer, uint64 gridTime);

    /// @notice The first reading that counts as a crossing of `target` and is dated in [from, to]. Reads of storage only, at most one for each
    ///         1,024 steps of the interval and 190 more.
    /// @return roundId 0: there is none; from PROMPT after `to` on there never will be
    function crossing(int256 target, uint256 from, uint256 to)
        external
        view
        returns (uint80 roundId, int256 answer, uint64 gridTime);

    /// @notice The quality of a recorded reading.
    function qualityOf(uint64 gridTime) external view returns (Quality);

    /// @notice What `record` would record for a grid time now, whether or not it has been recorded.
    function measure(uint64 gridTime) external view returns (Quality quality, int256 answer, Measure[] memory measures);

    /// @notice The grid times from this one on, up to now, can be recorded.
    function oldestTellable() external view returns (uint64 gridTime);

    // ---------------------------------------------------------------- Fitness

    /// @notice Reverts unless a market may be listed on it: the token's supply is within 1% of `supply`, every pool's ring outlasts
    ///         the window, a step and `outage` more seconds at one observation a second, the most there can be, every pool's newest
    ///         observation is younger than `maxQuiet`, and every pool's liquidity over the newest window that is over, measured as a
    ///         reading's, is at least half its reference. A supply that moved does not move back: deploy a feed with the
    ///         new supply and allow that one.
    function requireListable(uint256 outage) external view;

    /// @notice The same for a feed that is being allowed, and that liquidity is at most twice the references.
    function requireAllowable(uint256 outage) external view;

    // ---------------------------------------------------------------- What it is made of

    function token() external view returns (address);

    function quote() external view returns (address);

    function supply() external view returns (uint256);

    function window() external view returns (uint32);

    function step() external view returns (uint32);

    function maxQuiet() external view returns (uint32);

    function sources() external view returns (Source[] memory);
}
