// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {GuardedRead} from "./GuardedRead.sol";
import {IAggregatorV3} from "./IAggregatorV3.sol";

/// @title Whether a rollup's sequencer was up, by Chainlink's uptime feed
/// @notice Each round of such a feed is a state: answer 0 up, anything else down, `startedAt` since when. While the sequencer is
///         down no price feed can write, so what is read at such a time is an old price. Address 0: the chain has no such feed,
///         and the sequencer counts as up.
library SequencerCheck {
    /// @notice How long after an outage feeds may take to write again.
    uint256 internal constant GRACE = 1 hours;

    /// How many states are looked at; a reading with more changes of state after it counts as read through an outage.
    uint256 private constant MAX_STATES = 16;

    /// @notice The moment from which the sequencer counts as back: `GRACE` after it came up, 0 where there is no feed.
    /// @return ok false while it is down or the feed cannot be read
    function backFrom(address feed) internal view returns (bool ok, uint256 from) {
        if (feed == address(0)) return (true, 0);
        (bool readable,, int256 answer, uint256 startedAt) = _latest(feed);
        if (!readable || answer != 0) return (false, 0);
        return (true, startedAt + GRACE);
    }

    /// @notice Whether the sequencer was down between a reading and the time `at` that it was read for, in the last `GRACE` before
    ///         `at`: an outage that ended earlier left the feed time to write.
    function wasDown(address feed, uint256 readAt, uint256 at) internal view returns (bool) {
        if (feed == address(0)) return false;
        uint256 from = readAt + GRACE > at ? readAt : at - GRACE;
        (bool ok, uint256 id, int256 answer, uint256 startedAt) = _latest(feed);
        for (uint256 i; i < MAX_STATES; ++i) {
            if (!ok) return false;
            // Every state looked at but the latest ended after `from`.
            if (answer != 0 && startedAt <= at) return true;
            if (startedAt <= from) return false;
            if (uint64(id) <= 1) return false; // the first of its phase
            --id;
            (ok,, answer, startedAt) = GuardedRead.state(feed, IAggregatorV3.getRoundData.selector, id, 36);
            if (startedAt == 0) return false;
        }
        return true;
    }

    function _latest(address feed) private view returns (bool, uint256, int256, uint256) {
        return GuardedRead.state(feed, IAggregatorV3.latestRoundData.selector, 0, 4);
    }
}
