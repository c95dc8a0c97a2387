// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {IPoolFeed} from "../../../../contracts/feeds/IPoolFeed.sol";
import {PoolFeed} from "../../../../contracts/feeds/PoolFeed.sol";
import {Coin, IPool} from "./Pools.sol";
import {Trader} from "./Trader.sol";

/// What the feed reads of a ring is what the pool's own `observe` says, at every moment of any history.
contract HistoriesTest is Trader {
    uint256 private constant T0 = 1_800_000_000;
    uint32 private constant WINDOW = 60;
    uint32 private constant STEP = 10;

    IPool private pool;
    PoolFeed private feed;

    function setUp() public {
        vm.warp(T0);
        newFactory();
        (Coin token, Coin usdc) = coins(18, 6, true);
        pool = newPool(token, usdc, -276_324);
        addTraded(pool, -276_324);
        feed = new PoolFeed(config(token, usdc, 1e24, pool, WINDOW, STEP));
    }

    /// forge-config: quick.fuzz.runs = 64
    function testFuzz_theRingIsReadAsObserveReadsIt(uint256 seed) public {
        seed %= 1 << 128;
        uint256 read;
        if (seed % 2 == 0) grow(pool, 60);
        for (uint256 k; k < 60; ++k) {
            vm.warp(block.timestamp + pause(seed + k));
            trade(seed + k);
            read += compare(block.timestamp - 1 - block.timestamp % 7);
            read += compare(block.timestamp - random(seed + k, "ago") % 900);
        }
        if (seed % 2 == 0) vm.assertGt(read, 20);
    }

    /// And beyond what the ring holds both refuse.
    function compare(uint256 time) private view returns (uint256) {
        time -= time % STEP;
        if (time >= block.timestamp) return 0;
        uint32[] memory ago = new uint32[](2);
        ago[0] = uint32(block.timestamp - time + WINDOW);
        ago[1] = uint32(block.timestamp - time);
        try feed.measure(uint64(time)) returns (IPoolFeed.Quality, int256, IPoolFeed.Measure[] memory m) {
            (int56[] memory ticks,) = pool.observe(ago);
            vm.assertEq(m[0].startCumulative, ticks[0]);
            vm.assertEq(m[0].endCumulative, ticks[1]);
            vm.assertGe(time, feed.oldestTellable());
            return 1;
        } catch (bytes memory why) {
            vm.assertTrue(bytes4(why) == IPoolFeed.ReadingAbsent.selector, "another error");
            vm.assertLt(time, feed.oldestTellable());
            try pool.observe(ago) {
                vm.assertTrue(false, "the pool still had the window");
            } catch {}
            return 0;
        }
    }
}
