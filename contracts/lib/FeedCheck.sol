// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {GuardedRead} from "./GuardedRead.sol";
import {IAggregatorV3} from "./IAggregatorV3.sol";

/// @title Whether an address is a feed that a market can stand on
/// @notice Both listers ask it when their owner allows a feed and again whenever a market is listed: an address without code, or a feed
///         that says nothing, would void the market after its stakes are in.
library FeedCheck {
    error FeedHasNoCode(address feed);
    error FeedDecimalsMustBe8(address feed);
    /// @notice It has no latest reading, or one dated in the future.
    error FeedUnreadable(address feed);
    error FeedNotPositive(address feed, int256 answer);
    error FeedNotFresh(address feed, uint256 age, uint256 maxAge);

    /// @notice Reverts unless `feed` has code, 8 decimals, and a latest reading that is positive and at most `maxAge` seconds old.
    function check(address feed, uint256 maxAge) internal view {
        if (feed.code.length == 0) revert FeedHasNoCode(feed);
        (bool ok, uint256 decimals) = GuardedRead.word(feed, IAggregatorV3.decimals.selector);
        if (!ok || decimals != 8) revert FeedDecimalsMustBe8(feed);
        int256 answer;
        uint256 updatedAt;
        (ok,, answer, updatedAt) = GuardedRead.round(feed, IAggregatorV3.latestRoundData.selector, 0, 4);
        if (!ok || updatedAt == 0 || updatedAt > block.timestamp) revert FeedUnreadable(feed);
        if (answer <= 0) revert FeedNotPositive(feed, answer);
        uint256 age = block.timestamp - updatedAt;
        if (age > maxAge) revert FeedNotFresh(feed, age, maxAge);
    }
}
