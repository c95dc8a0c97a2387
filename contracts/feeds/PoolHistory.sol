// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {FixedPointMathLib} from "solady/src/utils/FixedPointMathLib.sol";

import {IObservedPool} from "./IObservedPool.sol";

/// @title Reads a pool's ring of observations at a moment in the past
/// @notice A pool writes an observation in every block that changes its tick or its liquidity in range, before it changes them. So both
///         stood still between two observations, and since the last one, and a moment before this block's time can never be
///         reported differently later: not while its observations are in the ring, and not at all once they are gone.
///
///         The tick cumulative of a moment is the one that `observe` gives, to the unit. The seconds per liquidity are not: `observe` rounds
///         them another way while the last observation is still the latest than after the next one. Here what a moment adds to
///         the observation before it is whole seconds times `floor(2**128 / liquidity)`, which both ways of asking give alike
///         (`floor(floor(d * 2**128 / L) / d) = floor(2**128 / L)`): a bound on it cannot be crossed by waiting.
library PoolHistory {
    /// An observation, and its position: 0 is the oldest in the ring.
    struct Mark {
        uint256 position;
        uint256 time; // Unix seconds, all of them
        int56 tickCumulative;
        uint160 secondsPerLiquidity;
    }

    /// The observations around a moment. When none is later, `to` is `from`.
    struct Segment {
        Mark from;
        Mark to;
    }

    /// A pool's ring as it is in this block, and where the last window was found in it: the next one is mostly near.
    struct Ring {
        IObservedPool pool;
        int24 tick;
        uint256 size; // slots in use or to be used
        uint256 first; // slot of the oldest observation
        Mark oldest;
        Mark newest;
        Segment start;
        Segment end;
    }

    /// What a pool says about a window.
    struct Window {
        int56 startCumulative;
        int56 endCumulative;
        uint160 secondsPerLiquidity; // over the window, times 2**128
        uint256 quiet; // seconds from the last observation to the window's end
    }

    /// Probes that guess before the search halves. Guessing finds a moment in two to ten probes; without a limit an attacker who shapes the ring could
    /// make it long.
    uint256 private constant GUESSES = 6;

    function open(address pool) internal view returns (Ring memory r) {
        r.pool = IObservedPool(pool);
        uint256 index;
        (, r.tick, index, r.size) = _slot0(r.pool);
        r.first = (index + 1) % r.size;
        bool full;
        (full, r.oldest) = _read(r, 0);
        if (!full) {
            r.first = 0; // the ring, or the part it has grown by, is not full yet
            (, r.oldest) = _read(r, 0);
        }
        (, r.newest) = _read(r, (index + r.size - r.first) % r.size);
        r.start = Segment(r.oldest, r.newest);
        r.end = Segment(r.oldest, r.newest);
    }

    /// @notice How many observations the pool keeps.
    function cardinality(address pool) internal view returns (uint256 size) {
        (,,, size) = _slot0(IObservedPool(pool));
    }

    /// @notice When the pool wrote its newest observation.
    function newest(address pool) internal view returns (uint256 time) {
        Ring memory r;
        r.pool = IObservedPool(pool);
        uint256 index;
        (,, index, r.size) = _slot0(r.pool);
        (, Mark memory mark) = _read(r, index);
        return mark.time;
    }

    /// @notice Whether the ring still reaches back to the start of the window that ends then. Once it does not, it never will.
    function covers(Ring memory r, uint256 end, uint256 length) internal pure returns (bool) {
        return r.oldest.time + length <= end;
    }

    /// @notice The window of `length` seconds that ends at `end`, a moment before this block's. The ring must reach back to its start.
    function window(Ring memory r, uint256 end, uint256 length) internal view returns (Window memory w) {
        uint160 atEnd;
        uint160 atStart;
        r.end = _around(r, end, r.end);
        (w.endCumulative, atEnd) = _at(r, r.end, end);
        r.start = _around(r, end - length, r.start);
        (w.startCumulative, atStart) = _at(r, r.start, end - length);
        w.quiet = end - r.end.from.time;
        unchecked {
            w.secondsPerLiquidity = atEnd - atStart; // wraps like the accumulator; a window adds less than 2**160
        }
    }

    /// What the accumulators were at a moment of a segment. They wrap, and so do their differences.
    function _at(Ring memory r, Segment memory s, uint256 time)
        private
        view
        returns (int56 tickCumulative, uint160 secondsPerLiquidity)
    {
        int56 tick = r.tick;
        uint256 perSecond;
        unchecked {
            if (s.to.position == s.from.position) {
                uint256 liquidity = r.pool.liquidity();
                perSecond = (1 << 128) / (liquidity == 0 ? 1 : liquidity); // the pool counts none as one
            } else {
                uint256 length = s.to.time - s.from.time;
                tick = (s.to.tickCumulative - s.from.tickCumulative) / int56(uint56(length)); // without a remainder
                perSecond = (s.to.secondsPerLiquidity - s.from.secondsPerLiquidity) / length; // rounded down
            }
            uint256 passed = time - s.from.time;
            tickCumulative = s.from.tickCumulative + tick * int56(uint56(passed));
            secondsPerLiquidity = s.from.secondsPerLiquidity + uint160(perSecond * passed);
        }
    }

    /// The segment of a moment that is not before the oldest observation.
    function _around(Ring memory r, uint256 time, Segment memory hint) private view returns (Segment memory s) {
        if (time >= r.newest.time) return Segment(r.newest, r.newest);
        s = Segment(r.oldest, r.newest);
        _narrow(s, hint.from, time);
        _narrow(s, hint.to, time);
        _narrow(s, r.end.from, time);
        uint256 stride; // away from where the moment would be if observations came evenly; 0: go there
        bool up;
        for (uint256 turn;; ++turn) {
            uint256 low = s.from.position;
            uint256 span = s.to.position - low;
            if (span == 1) return s;
            uint256 probe = span / 2;
            if (turn < GUESSES) {
                probe = (time - s.from.time) * span / (s.to.time - s.from.time);
                if (stride != 0) probe = up ? stride : span - FixedPointMathLib.min(stride, span);
                probe = FixedPointMathLib.clamp(probe, 1, span - 1);
            }
            (, Mark memory mark) = _read(r, low + probe);
            _narrow(s, mark, time);
            bool below = mark.time <= time;
            if (stride == 0) (stride, up) = (1, below);
            else stride = up == below ? 4 * stride : 0;
        }
    }

    function _narrow(Segment memory s, Mark memory mark, uint256 time) private pure {
        if (mark.time <= time) {
            if (mark.position > s.from.position) s.from = mark;
        } else if (mark.position < s.to.position) {
            s.to = mark;
        }
    }

    function _slot0(IObservedPool pool) private view returns (uint160 price, int24 tick, uint256 index, uint256 size) {
        (price, tick, index, size,) = pool.slot0();
    }

    /// The pool keeps 32 bits of a time, and none of it is in the future.
    function _read(Ring memory r, uint256 position) private view returns (bool initialized, Mark memory mark) {
        uint32 time;
        mark.position = position;
        (time, mark.tickCumulative, mark.secondsPerLiquidity, initialized) =
            r.pool.observations((r.first + position) % r.size);
        unchecked {
            mark.time = block.timestamp - uint32(uint32(block.timestamp) - time);
        }
    }
}
