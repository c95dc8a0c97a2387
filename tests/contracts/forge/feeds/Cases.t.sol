// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {IPoolFeed} from "../../../../contracts/feeds/IPoolFeed.sol";
import {PoolFeed} from "../../../../contracts/feeds/PoolFeed.sol";
import {Coin, IPool} from "./Pools.sol";
import {Trader} from "./Trader.sol";

interface VmText {
    function envOr(string calldata name, uint256 defaultValue) external view returns (uint256);
    function toString(bytes calldata data) external pure returns (string memory);
}

/// Plays random histories on real pools and logs them with what a feed recorded of them, for the Python mirror and the brute force
/// (tests/contracts/test_pool_feed_contract.py, which says how many and which). Alone it has nothing to do and says so.
contract Cases is Trader {
    uint256 private constant T0 = 1_800_000_000;

    struct Step {
        uint256 which;
        uint256 time;
        int256 tick;
        uint256 liquidity;
        uint256 price; // its root, times 2**96
    }

    struct Reading {
        uint256 time;
        IPoolFeed.Quality quality;
        int256 answer;
        IPoolFeed.Measure[] measures;
    }

    /// What it answered for a moment, once so many readings were recorded.
    struct Asked {
        uint256 time;
        uint256 maxAge;
        uint256 recorded;
        uint256 oldestTellable;
        bool waits; // it was still to be recorded
        uint80 round;
        int256 answer;
        uint64 gridTime;
    }

    struct Case {
        IPoolFeed.Config config;
        uint256 quoteDecimals;
        IPoolFeed.Source[] sources;
        Step[] steps;
        Reading[] readings;
        Asked[] asked;
    }

    event log(string line);

    Step[] private _steps;
    Reading[] private _readings;
    Asked[] private _asked;
    PoolFeed private feed;

    function test_cases() public {
        uint256 count = VmText(address(vm)).envOr("VPM_POOL_CASES", uint256(0));
        if (count == 0) return vm.skip(true, "no cases asked for");
        uint256 seed = VmText(address(vm)).envOr("VPM_POOL_SEED", uint256(0));
        newFactory();
        for (uint256 k; k < count; ++k) {
            this.play(random(seed, "case") % 2 ** 128 + 1e6 * k);
        }
    }

    function play(uint256 seed) external {
        delete _steps;
        delete _readings;
        delete _asked;
        delete traded;
        vm.warp(T0 + random(seed, "start") % 1e6);
        (IPoolFeed.Config memory c, uint8 quoteDecimals) = newFeed(seed);
        for (uint256 k; k < 60; ++k) {
            vm.warp(block.timestamp + pause(seed + k));
            trade(seed + k);
            addReading(block.timestamp - 1 - random(seed + k, "ago") % (k % 3 == 0 ? 600 : 30));
            ask(block.timestamp - 1 - random(seed + k, "asked") % 900, random(seed + k, "age") % 400);
        }
        Case memory all = Case(c, quoteDecimals, feed.sources(), _steps, _readings, _asked);
        emit log(string.concat("CASE|", VmText(address(vm)).toString(abi.encode(all))));
    }

    function noted(uint256 which) internal override {
        IPool pool = traded[which].pool;
        (uint160 price, int24 tick,,,) = pool.slot0();
        _steps.push(Step(which, block.timestamp, tick, pool.liquidity(), price));
    }

    /// One pool or two, 6, 8 or 18 decimals, every order of tokens.
    function newFeed(uint256 seed) private returns (IPoolFeed.Config memory c, uint8 quoteDecimals) {
        uint256 r = random(seed, "feed");
        quoteDecimals = r & 1 == 0 ? 6 : 8;
        Coin token = new Coin(r & 2 == 0 ? 18 : 6);
        Coin middle = ordered(token, 18, r & 4 == 0);
        Coin quote = ordered(middle, quoteDecimals, r & 8 == 0);
        uint32 window = uint32(10 + (r >> 8) % 300);
        uint256 supply = 10 ** (9 + (r >> 32) % 17) + (r >> 40) % 1e9;
        if (r & 16 == 0) {
            IPool only = started(token, quote, r >> 64);
            c = config(token, quote, supply, only, window, uint32(1 + (r >> 20) % 30));
        } else {
            IPool first = started(token, middle, r >> 64);
            c = config(token, quote, supply, first, window, uint32(1 + (r >> 20) % 30));
            c = configOfTwo(c, started(middle, quote, r >> 96));
        }
        c.maxQuiet = uint32(20 + (r >> 48) % 300);
        for (uint256 k; k < c.pools.length; ++k) {
            c.referenceLiquidity[k] *= uint128(1 + (r >> 56) % 12);
        }
        feed = new PoolFeed(c);
    }

    function ordered(Coin a, uint8 decimals, bool aFirst) private returns (Coin b) {
        do {
            b = new Coin(decimals);
        } while ((address(a) < address(b)) != aFirst);
    }

    function started(Coin a, Coin b, uint256 r) private returns (IPool pool) {
        int24 start = int24(int256(r % 120_000)) - 60_000;
        pool = newPool(a, b, start);
        addTraded(pool, start);
    }

    function ask(uint256 time, uint256 maxAge) private {
        Asked storage a = _asked.push();
        (a.time, a.maxAge, a.recorded, a.oldestTellable) = (time, maxAge, _readings.length, feed.oldestTellable());
        try feed.readingAt(time, maxAge) returns (uint80 round, int256 answer, uint64 gridTime) {
            (a.round, a.answer, a.gridTime) = (round, answer, gridTime);
        } catch (bytes memory why) {
            vm.assertEq(why, abi.encodeWithSelector(IPoolFeed.NotRecordedYet.selector, time - time % feed.step()));
            a.waits = true;
        }
    }

    /// Recorded now, unless it was before or never can be; and what is recorded is what was measured.
    function addReading(uint256 time) private {
        time -= time % feed.step();
        if (time >= block.timestamp || feed.qualityOf(uint64(time)) != IPoolFeed.Quality.Unrecorded) return;
        try feed.measure(uint64(time)) returns (
            IPoolFeed.Quality quality, int256 answer, IPoolFeed.Measure[] memory measures
        ) {
            vm.assertEq(feed.record(times(time)), 1);
            (, int256 recorded,,,) = feed.getRoundData(uint80(time / feed.step()));
            vm.assertEq(recorded, answer);
            vm.assertEq(uint256(uint8(feed.qualityOf(uint64(time)))), uint256(uint8(quality)));
            Reading storage t = _readings.push();
            (t.time, t.quality, t.answer) = (time, quality, answer);
            for (uint256 k; k < measures.length; ++k) {
                t.measures.push(measures[k]);
            }
        } catch {
            vm.assertEq(feed.record(times(time)), 0);
        }
    }
}
