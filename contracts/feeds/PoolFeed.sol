// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {IERC20Metadata} from "@openzeppelin/contracts/token/ERC20/extensions/IERC20Metadata.sol";
import {FixedPointMathLib} from "solady/src/utils/FixedPointMathLib.sol";

import {IAggregatorV3} from "../lib/IAggregatorV3.sol";
import {IObservedPool} from "./IObservedPool.sol";
import {IPoolFeed, PROMPT} from "./IPoolFeed.sol";
import {PoolHistory} from "./PoolHistory.sol";

/// @title The implementation; see IPoolFeed for what it promises
/// @dev The market cap is `exp(mean tick * ln 1.0001) * supply`, with the mean tick as a fraction. A pool's tick is its log price rounded
///      down, so half a tick is added for each pool: what is left is at most half a basis point a pool, to either side. The
///      arithmetic itself is exact to 1 part in 1e16, then rounded down to 8 decimals.
contract PoolFeed is IPoolFeed {
    using PoolHistory for PoolHistory.Ring;

    // ---------------------------------------------------------------- Constants and storage

    uint8 public constant decimals = 8;
    uint256 public constant version = 1;

    int256 private constant LN_TICK = 99_995_000_333_308_335_333_166_680_951_131; // ln 1.0001, times 1e36
    int256 private constant LN_MAX_ANSWER = 66_542_129_333_754_749_704; // ln 2**96, times 1e18
    uint256 private constant MAX_SECONDS = 30 days; // of a window, a step and a silence
    uint256 private constant MAX_SUPPLY = type(uint128).max;
    uint256 private constant THIN = 3; // readings are good from a third of the reference on
    uint256 private constant SHALLOW = 2; // and markets are listed from half of it on
    uint256 private constant SUPPLY_PER_CENT = 1;

    // Of readings that count as crossings, the highest of each block of 32 rounds and of each stretch of 32 blocks are kept, in one word a
    // stretch: the highest answer in 96 bits, then for each block the place in it of its highest, 5 bits each. Place 0 of a block of
    // which nothing counts does not count either, so the place needs no bit that says whether there is one.
    uint256 private constant BLOCK = 32;
    uint256 private constant STRETCH = 32 * BLOCK;
    uint256 private constant PROMPTLY = 1 << 104; // a reading counts as a crossing

    address public immutable token;
    address public immutable quote;
    uint256 public immutable supply;
    uint32 public immutable window;
    uint32 public immutable step;
    uint32 public immutable maxQuiet;
    int256 private immutable _lnSupply; // ln of the supply in quote units of 8 decimals, times 1e18, rounded down

    uint256 private immutable _count;
    address private immutable _pool0;
    address private immutable _pool1;
    bool private immutable _straight0; // the base is the pool's token0
    bool private immutable _straight1;
    uint128 private immutable _reference0;
    uint128 private immutable _reference1;

    string public description;
    uint64 private _latest; // the highest grid time recorded
    mapping(uint256 round => uint256 reading) private _readings; // PROMPTLY or 0, answer << 8, quality
    mapping(uint256 stretch => uint256 answerAndPlaces) private _highs; // answer << 160 | place in block k << 5 * k

    // ---------------------------------------------------------------- Construction

    constructor(Config memory c) {
        _require(c.window != 0 && c.window <= MAX_SECONDS, "window");
        _require(c.step != 0 && c.step <= MAX_SECONDS, "step");
        _require(c.maxQuiet != 0 && c.maxQuiet <= MAX_SECONDS, "maxQuiet");
        _require(c.supply != 0 && c.supply <= MAX_SUPPLY, "supply");
        _require(c.pools.length == 1 || c.pools.length == 2, "pools");
        _require(c.referenceLiquidity.length == c.pools.length, "referenceLiquidity");
        uint256 quoteDecimals = IERC20Metadata(c.quote).decimals();
        _require(quoteDecimals <= decimals, "quote");

        (description, token, quote, supply) = (c.description, c.token, c.quote, c.supply);
        (window, step, maxQuiet, _count) = (c.window, c.step, c.maxQuiet, c.pools.length);
        _lnSupply = FixedPointMathLib.lnWad(int256(c.supply * 10 ** (decimals - quoteDecimals) * 1e18));

        address next;
        (_pool0, _reference0) = (c.pools[0], c.referenceLiquidity[0]);
        (_straight0, next) = _holding(c.pools[0], c.referenceLiquidity[0], c.token);
        if (c.pools.length == 2) {
            _require(next != c.quote, "pools"); // the first alone would do
            (_pool1, _reference1) = (c.pools[1], c.referenceLiquidity[1]);
            (_straight1, next) = _holding(c.pools[1], c.referenceLiquidity[1], next);
        }
        if (next != c.quote) revert PoolDoesNotHold(c.pools[c.pools.length - 1], c.quote);
    }

    /// Which of a pool's tokens `base` is, and the other one.
    function _holding(address pool, uint128 referenceLiquidity, address base)
        private
        view
        returns (bool straight, address other)
    {
        _require(referenceLiquidity != 0, "referenceLiquidity");
        _require(PoolHistory.cardinality(pool) != 0, "pools"); // it has no price yet
        address token0 = IObservedPool(pool).token0();
        address token1 = IObservedPool(pool).token1();
        if (base == token0) return (true, token1);
        if (base != token1) revert PoolDoesNotHold(pool, base);
        return (false, token0);
    }

    function _require(bool ok, string memory field) private pure {
        if (!ok) revert BadConfig(field);
    }

    // ---------------------------------------------------------------- Recording

    /// @inheritdoc IPoolFeed
    function record(uint64[] calldata times) external returns (uint256 recorded) {
        PoolHistory.Ring[] memory rings = _open();
        uint64 highest = _latest;
        uint64 latest = highest;
        for (uint256 k; k < times.length; ++k) {
            uint64 time = times[k];
            _requireOnGrid(time);
            uint256 round = time / step;
            if (_readings[round] != 0 || _whoForgot(rings, time) != _count) continue;
            (Quality quality, uint256 answer, Measure[] memory measures) = _measure(rings, time);
            uint256 reading = answer << 8 | uint8(quality);
            if (answer != 0 && block.timestamp <= uint256(time) + PROMPT) {
                reading |= PROMPTLY;
                _raise(round, answer);
            }
            _readings[round] = reading;
            if (time > highest) highest = time;
            ++recorded;
            emit AnswerUpdated(int256(answer), round, time);
            emit ReadingMeasured(round, quality, measures);
        }
        if (highest != latest) _latest = highest;
    }

    function _raise(uint256 round, uint256 answer) private {
        uint256 high = _highs[round / STRETCH];
        uint256 shift = round % STRETCH / BLOCK * 5;
        if (answer > high >> 160) high = uint160(high) | answer << 160;
        else if (answer <= _counted(round - round % BLOCK + (high >> shift & 31))) return;
        _highs[round / STRETCH] = high & ~(31 << shift) | round % BLOCK << shift;
    }

    /// A second counts once it is over: until then its block may still come.
    function _requireOnGrid(uint256 time) private view {
        if (time % step != 0) revert NotOnGrid(time, step);
        if (time >= block.timestamp) revert NotOverYet(time, block.timestamp);
    }

    // ---------------------------------------------------------------- What the pools say

    function _open() private view returns (PoolHistory.Ring[] memory rings) {
        rings = new PoolHistory.Ring[](_count);
        rings[0] = PoolHistory.open(_pool0);
        if (_count == 2) rings[1] = PoolHistory.open(_pool1);
    }

    /// The first pool whose ring no longer covers the window; `_count` if all cover it.
    function _whoForgot(PoolHistory.Ring[] memory rings, uint256 time) private view returns (uint256 k) {
        while (k < _count && rings[k].covers(time, window)) ++k;
    }

    /// The rings of all pools must cover the window.
    function _measure(PoolHistory.Ring[] memory rings, uint256 time)
        private
        view
        returns (Quality quality, uint256 answer, Measure[] memory measures)
    {
        int256 halfTicks; // twice the sum over the window of what the pools' log prices are, in ticks
        quality = Quality.Good;
        measures = new Measure[](_count);
        for (uint256 k; k < _count; ++k) {
            PoolHistory.Window memory w = rings[k].window(time, window);
            measures[k] = _asMeasure(w);
            uint256 referenceLiquidity = k == 0 ? _reference0 : _reference1;
            if (w.secondsPerLiquidity > (THIN * window << 128) / referenceLiquidity) quality = Quality.Thin;
            int56 ticks;
            unchecked {
                ticks = w.endCumulative - w.startCumulative; // wraps like the accumulator
            }
            int256 logPrice = 2 * int256(ticks) + int256(uint256(window)); // half a tick more: see above
            halfTicks += (k == 0 ? _straight0 : _straight1) ? logPrice : -logPrice;
        }
        if (quality == Quality.Good) {
            answer = _answer(halfTicks);
            if (answer == 0) quality = Quality.OutOfRange;
        }
    }

    /// The harmonic mean is rounded down; without any liquidity at all it is one unit or less.
    function _asMeasure(PoolHistory.Window memory w) private view returns (Measure memory) {
        uint256 mean = (uint256(window) << 128) / w.secondsPerLiquidity; // every second adds at least one
        return Measure({
            startCumulative: w.startCumulative,
            endCumulative: w.endCumulative,
            liquidity: uint128(FixedPointMathLib.min(mean, type(uint128).max)),
            quiet: uint32(w.quiet)
        });
    }

    /// The exponent is rounded towards zero, the answer down. 0 for what is under 1 or not under 2**96.
    function _answer(int256 halfTicks) private view returns (uint256) {
        int256 ln = halfTicks * LN_TICK / (2 * int256(uint256(window)) * 1e18) + _lnSupply;
        if (ln >= LN_MAX_ANSWER) return 0;
        return uint256(FixedPointMathLib.expWad(ln)) / 1e18;
    }

    // ---------------------------------------------------------------- Reading

    /// @inheritdoc IPoolFeed
    function readingAt(uint256 time, uint256 maxAge) external view returns (uint80, int256, uint64) {
        uint256 round = time / step;
        uint256 wanted = round * step;
        if (wanted >= block.timestamp) revert NotOverYet(wanted, block.timestamp);
        uint256 earliest = time > maxAge ? time - maxAge : 0;
        for (; round != 0 && round * step >= earliest; --round) {
            uint256 reading = _readings[round];
            if (reading != 0) return (uint80(round), _answerOf(reading), uint64(round * step));
            // What is absent has nothing before it that could still be recorded.
            if (round * step == wanted && _whoForgot(_open(), wanted) == _count) revert NotRecordedYet(wanted);
        }
        return (0, 0, 0);
    }

    /// @inheritdoc IPoolFeed
    function crossing(int256 target, uint256 from, uint256 to) external view returns (uint80, int256, uint64) {
        uint256 least = target < 1 ? 1 : uint256(target);
        uint256 last = to / step;
        uint256 round = FixedPointMathLib.divUp(from, step);
        while (round <= last) {
            uint256 high = _highs[round / STRETCH];
            if (high >> 160 < least) {
                round += STRETCH - round % STRETCH;
                continue;
            }
            uint256 place = high >> round % STRETCH / BLOCK * 5 & 31;
            if (_counted(round - round % BLOCK + place) < least) {
                round += BLOCK - round % BLOCK;
                continue;
            }
            uint256 answer = _counted(round);
            if (answer >= least) return (uint80(round), int256(answer), uint64(round * step));
            ++round;
        }
        return (0, 0, 0);
    }

    /// @inheritdoc IPoolFeed
    function qualityOf(uint64 gridTime) external view returns (Quality) {
        return gridTime % step == 0 ? Quality(uint8(_readings[gridTime / step])) : Quality.Unrecorded;
    }

    /// @inheritdoc IPoolFeed
    function measure(uint64 gridTime) public view returns (Quality quality, int256 answer, Measure[] memory measures) {
        _requireOnGrid(gridTime);
        PoolHistory.Ring[] memory rings = _open();
        uint256 k = _whoForgot(rings, gridTime);
        if (k != _count) revert ReadingAbsent(gridTime, address(rings[k].pool), rings[k].oldest.time);
        uint256 value;
        (quality, value, measures) = _measure(rings, gridTime);
        answer = int256(value);
    }

    /// @inheritdoc IPoolFeed
    function oldestTellable() external view returns (uint64 gridTime) {
        PoolHistory.Ring[] memory rings = _open();
        uint256 oldest = rings[0].oldest.time;
        if (_count == 2) oldest = FixedPointMathLib.max(oldest, rings[1].oldest.time);
        return uint64(FixedPointMathLib.divUp(oldest + window, step) * step);
    }

    /// @inheritdoc IAggregatorV3
    function getRoundData(uint80 id) external view returns (uint80, int256, uint256, uint256, uint80) {
        return _round(id);
    }

    /// @inheritdoc IAggregatorV3
    function latestRoundData() external view returns (uint80, int256, uint256, uint256, uint80) {
        return _round(uint80(_latest / step));
    }

    function _round(uint80 id) private view returns (uint80, int256, uint256, uint256, uint80) {
        uint256 reading = _readings[id];
        if (reading == 0) revert NoSuchRound(id);
        uint256 time = uint256(id) * step;
        return (id, _answerOf(reading), time, time, id);
    }

    function _answerOf(uint256 reading) private pure returns (int256) {
        return int256(uint256(uint96(reading >> 8)));
    }

    /// The answer of a reading that counts as a crossing, else 0.
    function _counted(uint256 round) private view returns (uint256) {
        uint256 reading = _readings[round];
        return reading & PROMPTLY == 0 ? 0 : uint96(reading >> 8);
    }

    // ---------------------------------------------------------------- Fitness

    /// @inheritdoc IPoolFeed
    function requireListable(uint256 outage) external view {
        _requireFit(outage);
    }

    /// @return measures of the newest window that is over
    function _requireFit(uint256 outage) private view returns (Measure[] memory measures) {
        uint256 now_ = IERC20Metadata(token).totalSupply();
        uint256 moved = now_ > supply ? now_ - supply : supply - now_;
        if (moved > supply * SUPPLY_PER_CENT / 100) revert SupplyMoved(now_, supply); // the bound is rounded down
        uint256 needed = uint256(window) + step + outage + 1; // one more to begin with
        for (uint256 k; k < _count; ++k) {
            address pool = k == 0 ? _pool0 : _pool1;
            uint256 size = PoolHistory.cardinality(pool);
            if (size < needed) revert RingTooShort(pool, size, needed);
            uint256 quiet = block.timestamp - PoolHistory.newest(pool);
            if (quiet >= maxQuiet) revert PoolIsQuiet(pool, quiet, maxQuiet);
        }
        (,, measures) = measure(uint64((block.timestamp - 1) / step * step));
        for (uint256 k; k < _count; ++k) {
            uint256 referenceLiquidity = k == 0 ? _reference0 : _reference1;
            if (SHALLOW * measures[k].liquidity < referenceLiquidity) {
                revert PoolIsShallow(k == 0 ? _pool0 : _pool1, measures[k].liquidity, referenceLiquidity);
            }
        }
    }

    /// @inheritdoc IPoolFeed
    function requireAllowable(uint256 outage) external view {
        Measure[] memory measures = _requireFit(outage);
        for (uint256 k; k < _count; ++k) {
            uint256 referenceLiquidity = k == 0 ? _reference0 : _reference1;
            uint256 liquidity = measures[k].liquidity;
            if (liquidity > 2 * referenceLiquidity) {
                revert ReferenceIsOff(k == 0 ? _pool0 : _pool1, liquidity, referenceLiquidity);
            }
        }
    }

    // ---------------------------------------------------------------- What it is made of

    /// @inheritdoc IPoolFeed
    function sources() external view returns (Source[] memory s) {
        s = new Source[](_count);
        s[0] = Source(_pool0, _straight0, _reference0);
        if (_count == 2) s[1] = Source(_pool1, _straight1, _reference1);
    }
}
