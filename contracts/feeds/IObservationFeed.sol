// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {IAggregatorV3} from "../lib/IAggregatorV3.sol";

/// @title An append-only feed of observations, readable as a Chainlink price feed
/// @notice A publisher posts (value, time of observation); no one can change or remove what was posted. A round's `updatedAt` is
///         its time of observation, so "the round in effect at T" is the last value observed at or before T.
///
///         What the publisher is trusted with, and no more: the values themselves, and to post what it observed. It cannot
///         date an observation before one it posted earlier, in the future, or more than `maxLag` seconds in the
///         past. So the reading at T can change until T + maxLag, and never after it.
interface IObservationFeed is IAggregatorV3 {
    /// In the form of Chainlink's aggregators. `roundId` is the full id, phase included.
    event AnswerUpdated(int256 indexed current, uint256 indexed roundId, uint256 updatedAt);
    event PublisherSet(address indexed previous, address indexed publisher);

    /// @notice Only the publisher posts.
    error NotPublisher(address caller, address publisher);
    /// @notice Every observation must be later than the one before it.
    error NotAfterLast(uint64 observedAt, uint64 lastObservedAt);
    /// @notice Nothing can have been observed later than now.
    error ObservedInFuture(uint64 observedAt, uint256 nowIs);
    /// @notice Too long ago to be posted now: that would be back-dating.
    error ObservedTooLongAgo(uint64 observedAt, uint256 earliest);
    /// @notice The value does not fit 192 bits.
    error ValueTooLarge(int256 value);
    /// @notice One time for each value.
    error LengthMismatch(uint256 values, uint256 times);
    /// @notice There is no such round.
    error NoSuchRound(uint80 roundId);

    /// @notice Appends one observation. The publisher only.
    /// @param value 8 decimals
    /// @param observedAt Unix seconds: after the last observation, not after now, at most `maxLag` before now
    /// @return roundId the id of the new round
    function post(int256 value, uint64 observedAt) external returns (uint80 roundId);

    /// @notice Appends several observations, in order of their times; all or none.
    /// @return lastRoundId the id of the last round of the feed after it
    function postMany(int256[] calldata values, uint64[] calldata observedAt) external returns (uint80 lastRoundId);

    /// @notice Hands the publishing role to an address, or to no one (zero). The owner only.
    function setPublisher(address next) external;

    /// @notice The only address that may post.
    function publisher() external view returns (address);

    /// @notice How many seconds after it was made an observation may still be posted.
    function maxLag() external view returns (uint32);

    /// @notice How many observations there are; their round ids are `1 << 64 | 1` to `1 << 64 | roundCount`.
    function roundCount() external view returns (uint64);

    /// @notice Always 1: the feed has no aggregators to switch.
    function phaseId() external view returns (uint16);
}
