// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {IPoolFeed} from "../../../../contracts/feeds/IPoolFeed.sol";
import {PoolFeed} from "../../../../contracts/feeds/PoolFeed.sol";
import {GasRows} from "./GasRows.sol";
import {Coin, IPool} from "./Pools.sol";

/// What recording costs on real pools with a full ring of 43,200 observations two seconds apart, as transactions of their own, execution only.
/// The rings are laid in the pools' storage: by swaps it would take 43,200 blocks. Their newest observation is in the middle of the
/// ring, so that the search has to cross its end. Rows as in agent/Gas.t.sol.
/// forge-config: default.isolate = true
contract GasOfPoolFeeds is GasRows {
    uint256 private constant T0 = 1_800_000_000;
    uint256 private constant NOW = T0 + 86_400;
    uint256 private constant SIZE = 43_200;
    uint32 private constant WINDOW = 30 minutes;
    uint32 private constant STEP = 1 minutes;
    uint128 private constant DEPTH = 1e17;
    Coin private token;
    Coin private weth;
    Coin private usdc;
    IPool private direct;
    IPool private first;
    IPool private second;
    PoolFeed private one;
    PoolFeed private two;
    uint256 private _total;

    function setUp() public {
        vm.warp(T0);
        newFactory();
        token = new Coin(18);
        weth = new Coin(18);
        usdc = new Coin(6);
        direct = deep(token, usdc);
        first = deep(token, weth);
        second = deep(weth, usdc);
        one = PoolFeed(deploy("PoolFeed", abi.encode(config(token, usdc, 1e24, direct, WINDOW, STEP))));
        two = PoolFeed(
            deploy("PoolFeed", abi.encode(configOfTwo(config(token, usdc, 1e24, first, WINDOW, STEP), second)))
        );
        vm.warp(NOW + 1);
    }

    function deep(Coin a, Coin b) private returns (IPool pool) {
        pool = newPool(a, b, 0);
        provide(pool, -WIDEST, WIDEST, DEPTH);
    }

    /// A full ring whose newest observation, at `newest`, is in its middle; every `gap` seconds, at two prices in turn.
    function lay(IPool pool, uint256 newest, uint256 gap) private {
        uint256 index = SIZE / 2;
        int56 ticks;
        uint160 perLiquidity;
        for (uint256 k; k < SIZE; ++k) {
            layRing(pool, (index + 1 + k) % SIZE, uint32(newest - (SIZE - 1 - k) * gap), ticks, perLiquidity);
            ticks += int56(int256(gap)) * (k % 2 == 0 ? int56(-40) : int56(60));
            perLiquidity += uint160((gap << 128) / DEPTH);
        }
        laySlot0(pool, index, SIZE);
    }

    function test_recordOnePool() public {
        lay(direct, NOW, 2);
        record("record, one pool", 109_800, one, NOW - NOW % STEP, 1);
        record("record, one pool, 12 hours late", 74_400, one, NOW - NOW % STEP - 12 hours, 1);
    }

    function test_recordTwoPools() public {
        lay(first, NOW, 2);
        lay(second, NOW, 2);
        record("record, two pools", 145_800, two, NOW - NOW % STEP, 1);
        record("record, two pools, 12 hours late", 117_800, two, NOW - NOW % STEP - 12 hours, 1);
    }

    function test_recordABatch() public {
        lay(direct, NOW, 2);
        lay(first, NOW, 2);
        lay(second, NOW, 2);
        record("record, one pool, in a batch of 60 (each)", 54_300, one, NOW - NOW % STEP - 59 minutes, 60);
        record("record, two pools, in a batch of 60 (each)", 80_400, two, NOW - NOW % STEP - 59 minutes, 60);
    }

    /// Every second minute of an hour, backwards, half a day ago.
    function test_recordABatchBackwards() public {
        lay(direct, NOW, 2);
        lay(first, NOW, 2);
        lay(second, NOW, 2);
        uint64[] memory t = new uint64[](30);
        for (uint256 k; k < 30; ++k) {
            t[k] = uint64(NOW - NOW % STEP - 12 hours - k * 2 * STEP);
        }
        measured("record, one pool, in a batch of 30 with holes, backwards (each)", 53_800, one, t);
        measured("record, two pools, in a batch of 30 with holes, backwards (each)", 79_400, two, t);
    }

    /// Nine tenths of the ring in its last tenth of time: the search is bounded even if an attacker shapes the ring.
    function test_recordOnAShapedRing() public {
        lay(direct, NOW, 2);
        uint256 index = SIZE / 2;
        for (uint256 k; k < SIZE; ++k) {
            uint256 back = SIZE - 1 - k;
            uint256 ago = back < SIZE * 9 / 10 ? back / 8 + back % 2 : 5_400 + (back - SIZE * 9 / 10) * 18;
            layRing(direct, (index + 1 + k) % SIZE, uint32(NOW - ago), 0, uint160((NOW - ago - T0 << 128) / DEPTH));
        }
        record("record, one pool, a ring shaped against the search", 176_700, one, NOW - NOW % STEP - 9_000, 1);
    }

    function test_read() public {
        lay(direct, NOW, 2);
        one.record(times(NOW - NOW % STEP));
        bytes memory data = abi.encodeCall(one.readingAt, (NOW, 1 hours));
        spent("read a recorded reading", 3_300, address(one), data, 1);
        data = abi.encodeCall(one.getRoundData, (uint80(NOW / STEP)));
        spent("read a recorded round", 2_900, address(one), data, 1);
    }

    /// What an early-resolvable market asks: over the hour that is recorded, and over three months of which it is the beginning.
    function test_lookForACrossing() public {
        lay(direct, NOW, 2);
        one.record(times(NOW - NOW % STEP - 59 minutes, 60, STEP));
        (, int256 answer,,,) = one.latestRoundData();
        bytes memory data = abi.encodeCall(one.crossing, (answer * 2, NOW - 1 hours, NOW));
        spent("look for a crossing in an hour, none", 9_000, address(one), data, 1);
        data = abi.encodeCall(one.crossing, (answer * 2, NOW - 1 hours, NOW + 90 days));
        spent("look for a crossing in three months of minutes, none", 330_000, address(one), data, 1);
        data = abi.encodeCall(one.crossing, (answer / 2, NOW - 1 hours, NOW + 90 days));
        spent("find a crossing", 9_000, address(one), data, 1);
    }

    /// All minutes of a day, recorded an hour at a time and read back, with an observation in each block: the most that a chain with such
    /// blocks can make (feeds/year plays a whole year of livelier and quieter hours).
    function test_aDayOfMinutesWithASwapInEachBlock() public {
        lay(direct, NOW + 37, 2);
        vm.warp(NOW + 38);
        uint256 minutes_;
        uint256 reading;
        uint256 next = NOW + 37 - 86_400 + WINDOW + 2 * STEP;
        for (next -= next % STEP; next + 59 * STEP <= NOW + 37; next += 60 * STEP) {
            (bool ok,) = address(one).call(abi.encodeCall(one.record, (times(next, 60, STEP))));
            vm.assertTrue(ok);
            _total += vm.lastCallGas().gasTotalUsed; // with the base cost and calldata
            minutes_ += 60;
            for (uint256 k; k < 60; k += 7) {
                bytes memory ask = abi.encodeCall(one.readingAt, (next + k * STEP + 59, STEP));
                (ok,) = address(one).call(ask);
                vm.assertTrue(ok);
                reading = max(reading, execution(ask));
            }
            isGood(next, 60);
        }
        vm.assertGt(minutes_, 1_300);
        row(
            "a minute, in hours, with base cost and calldata, one pool, a swap in each block", 53_600, _total / minutes_
        );
        row("read one of them", 3_300, reading);
    }

    function isGood(uint256 from, uint256 count) private view {
        for (uint256 k; k < count; ++k) {
            vm.assertTrue(one.qualityOf(uint64(from + k * STEP)) == IPoolFeed.Quality.Good, "not recorded");
        }
    }

    function max(uint256 a, uint256 b) private pure returns (uint256) {
        return a > b ? a : b;
    }

    function record(string memory name, uint256 most, PoolFeed feed, uint256 from, uint256 count) private {
        measured(name, most, feed, times(from, count, STEP));
    }

    /// And all of them were recorded, as good ones.
    function measured(string memory name, uint256 most, PoolFeed feed, uint64[] memory t) private {
        spent(name, most, address(feed), abi.encodeCall(feed.record, (t)), t.length);
        for (uint256 k; k < t.length; ++k) {
            vm.assertTrue(feed.qualityOf(t[k]) == IPoolFeed.Quality.Good, "not recorded");
        }
    }

    function spent(string memory name, uint256 most, address to, bytes memory data, uint256 parts) private {
        (bool ok,) = to.call(data);
        vm.assertTrue(ok, name);
        row(name, most, execution(data) / parts);
    }
}
