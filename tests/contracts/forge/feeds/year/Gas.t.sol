// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {IPoolFeed} from "../../../../../contracts/feeds/IPoolFeed.sol";
import {PoolFeed} from "../../../../../contracts/feeds/PoolFeed.sol";
import {GasRows} from "../GasRows.sol";
import {Coin, IPool} from "../Pools.sol";
import {Ticks} from "../Ticks.sol";

interface VmDays {
    function envOr(string calldata name, uint256 defaultValue) external view returns (uint256);
}

/// A year of minutes of one token, swap by swap in real pools whose rings are as short as a feed allows and come round every few days.
/// After each hour its sixty readings are recorded in one transaction and read back, each against the mean that follows from what was
/// swapped and Uniswap's own table of prices. Two days in every run; the year, some weeks at a time, with VPM_TEST_LONG=1
/// (scripts/_bench/gas.py). An hour that is not recorded comes before the first day, for its windows.
/// forge-config: default.isolate = true
contract GasOfAYear is GasRows {
    uint256 private constant YEAR = 1_800_000_000; // its first hour, which is whole
    uint32 private constant WINDOW = 30 minutes;
    uint32 private constant STEP = 1 minutes;
    uint256 private constant MINUTES_A_YEAR = 525_600;
    uint256 private constant MARKS = 128; // minutes that the walk remembers, a power of two over an hour and a window
    uint256 private constant SUPPLY = 1e24;
    uint128 private constant DEPTH = 1e17;
    int24 private constant MIDDLE = 46_000; // of the token in WETH, upside down or not: 0.01 WETH or 100
    int24 private constant DOLLAR = -276_324; // 1e-12 units of USDC a unit of the token

    /// A pool and what was done to it: ticks times seconds up to its last swap, and up to each minute.
    struct Walk {
        IPool pool;
        int24 middle;
        int24 tick;
        uint256 since;
        int256 total;
        int256[MARKS] marks;
    }

    Coin private token;
    Coin private usdc;
    PoolFeed private feed;
    Walk[] private walks;
    uint256 private _first; // of its hours in this run
    uint256 private _swaps;
    uint256 private _readings;
    uint256 private _gas;
    uint256 private _dearest;

    function setUp() public {
        _first = 24 * VmDays(address(vm)).envOr("VPM_YEAR_FROM_DAY", uint256(0));
        vm.warp(YEAR + _first * 1 hours - 1 hours);
        newFactory();
    }

    function test_aYearOfMinutesOfOnePool() public {
        (token, usdc) = coins(18, 6, true);
        walk(newPool(token, usdc, DOLLAR), DOLLAR);
        feed = PoolFeed(deploy("PoolFeed", abi.encode(config(token, usdc, SUPPLY, walks[0].pool, WINDOW, STEP))));
        play("one pool", 53_600, 37e9);
    }

    function test_aYearOfMinutesOfTwoPools() public {
        Coin weth;
        (token, weth) = coins(18, 18, true);
        do {
            usdc = new Coin(6);
        } while (address(usdc) < address(weth));
        walk(newPool(token, weth, MIDDLE), MIDDLE);
        walk(newPool(weth, usdc, DOLLAR - MIDDLE), DOLLAR - MIDDLE);
        feed = PoolFeed(
            deploy(
                "PoolFeed",
                abi.encode(configOfTwo(config(token, usdc, SUPPLY, walks[0].pool, WINDOW, STEP), walks[1].pool))
            )
        );
        play("two pools", 79_800, 60e9);
    }

    /// Ready, with the least ring that a feed is allowed with.
    function walk(IPool pool, int24 middle) private {
        provide(pool, -WIDEST, WIDEST, DEPTH);
        grow(pool, WINDOW + STEP + 1 hours + 1);
        Walk storage w = walks.push();
        (w.pool, w.middle, w.tick, w.since) = (pool, middle, middle, block.timestamp);
    }

    function play(string memory what, uint256 was, uint256 mostOfAYear) private {
        uint256 days_ = VmDays(address(vm)).envOr("VPM_YEAR_DAYS", uint256(2));
        this.trade(YEAR + _first * 1 hours - 1 hours);
        for (uint256 hour; hour < days_ * 24; ++hour) {
            uint256 from = YEAR + (_first + hour) * 1 hours;
            this.trade(from);
            record(from + STEP, 60);
        }
        vm.assertEq(_readings, days_ * 1_440);
        (,, uint256 index, uint256 size,) = walks[0].pool.slot0();
        vm.assertGt(_swaps, size); // it came round
        vm.assertTrue(index < size);
        row(string.concat("a minute, in hours, with base cost and calldata, ", what), was, _gas / _readings);
        row(string.concat("read any of those minutes, ", what), 3_300, _dearest);
        vm.assertLe(_gas * MINUTES_A_YEAR / _readings, mostOfAYear, what); // what docs/pool-feeds.md promises
        emit log(string.concat(
                what,
                ": ",
                decimal(_readings),
                " readings, ",
                decimal(_swaps),
                " swaps in each, ",
                decimal(_gas),
                " gas"
            ));
    }

    /// The swaps of an hour: on average one in forty seconds, and one in every block in one hour of the day.
    function trade(uint256 from) external {
        uint256 hour = (from + 1 days - YEAR) / 1 hours;
        uint256 seed = uint256(keccak256(abi.encode("year", hour)));
        uint256 next = from + 1 + seed % 60;
        for (uint256 minute = from + STEP; minute <= from + 1 hours; minute += STEP) {
            for (; next <= minute; next += hour % 24 == 17 ? 2 : 1 + seed % 80) {
                vm.warp(next);
                ++_swaps;
                for (uint256 k; k < walks.length; ++k) {
                    seed = uint256(keccak256(abi.encode(seed)));
                    move(walks[k], int24(int256(seed >> 128) % 1_500));
                }
            }
            for (uint256 k; k < walks.length; ++k) {
                Walk storage w = walks[k];
                w.marks[minute / STEP % MARKS] = w.total + int256(w.tick) * int256(minute - w.since);
            }
        }
        vm.warp(from + 1 hours + 1);
    }

    /// A swap in the second of a grid time belongs to the seconds after it.
    function move(Walk storage w, int24 away) private {
        w.total += int256(w.tick) * int256(block.timestamp - w.since);
        (w.tick, w.since) = (w.middle + away, block.timestamp);
        moveTo(w.pool, w.tick, 1);
    }

    /// One transaction of anyone, and one for each that is read back.
    function record(uint256 from, uint256 count) private {
        uint256 memoryWas;
        assembly ("memory-safe") {
            memoryWas := mload(64)
        }
        (bool ok, bytes memory said) = address(feed).call(abi.encodeCall(feed.record, (times(from, count, STEP))));
        vm.assertTrue(ok, "not recorded");
        _gas += vm.lastCallGas().gasTotalUsed; // with the base cost and calldata
        vm.assertEq(abi.decode(said, (uint256)), count);
        _readings += count;
        this.readBack(from, count);
        bytes memory ask = abi.encodeCall(feed.readingAt, (from + STEP / 2, STEP));
        (ok,) = address(feed).call(ask);
        vm.assertTrue(ok, "not read");
        uint256 used = execution(ask);
        if (used > _dearest) _dearest = used;
        assembly ("memory-safe") {
            mstore(64, memoryWas) // nothing made since is needed, and a year of it would be dear
        }
    }

    function readBack(uint256 from, uint256 count) external view {
        for (uint256 time = from; time < from + count * STEP; time += STEP) {
            (uint80 round, int256 answer, uint64 gridTime) = feed.readingAt(time + STEP - 1, STEP);
            vm.assertEq(uint256(round), time / STEP);
            vm.assertEq(uint256(gridTime), time);
            vm.assertTrue(feed.qualityOf(uint64(time)) == IPoolFeed.Quality.Good, "not good");
            uint256 expected = worth(time);
            vm.assertLe(uint256(answer), expected + expected / 5e8); // see worth
            vm.assertGe(uint256(answer), expected - expected / 5e8);
        }
    }

    /// From the table of prices at whole ticks, and straight between two of them: at most 1.25 in a billion too much.
    function worth(uint256 time) private view returns (uint256) {
        int256 ticks; // times twice the window
        int256 whole = 2 * int256(uint256(WINDOW));
        for (uint256 k; k < walks.length; ++k) {
            int256[MARKS] storage marks = walks[k].marks;
            int256 sum = marks[time / STEP % MARKS] - marks[(time - WINDOW) / STEP % MARKS];
            ticks += 2 * sum + int256(uint256(WINDOW)); // half a tick: a tick is rounded down
        }
        int256 below = ticks / whole - (ticks % whole < 0 ? int256(1) : int256(0));
        uint256 part = uint256(ticks - below * whole);
        uint256 low = marketCap(int24(below));
        return low + (marketCap(int24(below + 1)) - low) * part / uint256(whole);
    }

    function marketCap(int24 tick) private pure returns (uint256) {
        uint256 root = Ticks.ratioAt(tick);
        return root * root * 100 / 2 ** 112 * SUPPLY / 2 ** 80; // 8 decimals, of a quote with 6
    }
}
