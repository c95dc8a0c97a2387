// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {IObservedPool} from "../../../../contracts/feeds/IObservedPool.sol";
import {PoolFeed} from "../../../../contracts/feeds/PoolFeed.sol";
import {OnePool} from "./OnePool.sol";
import {Coin, IPool} from "./Pools.sol";

/// A pool with the oracle of Velodrome's and Aerodrome's Slipstream: it writes at most once in 15 seconds, and then counts the price
/// of that moment for all of them.
contract ThrottledPool is IObservedPool {
    struct Observation {
        uint32 time;
        int56 ticks;
        uint160 perLiquidity;
    }

    address public immutable token0;
    address public immutable token1;
    uint128 public constant liquidity = 1e17;
    int24 private _tick;
    Observation[] private _ring;

    constructor(address a, address b, int24 tick) {
        (token0, token1) = a < b ? (a, b) : (b, a);
        _tick = tick;
        _ring.push(Observation(uint32(block.timestamp), 0, 0));
    }

    function move(int24 tick) external {
        Observation memory last = _ring[_ring.length - 1];
        uint32 passed = uint32(block.timestamp) - last.time;
        if (passed > 14) {
            int56 ticks = last.ticks + int56(_tick) * int56(uint56(passed));
            _ring.push(
                Observation(
                    uint32(block.timestamp), ticks, last.perLiquidity + uint160((uint256(passed) << 128) / liquidity)
                )
            );
        }
        _tick = tick;
    }

    function slot0() external view returns (uint160, int24, uint16, uint16, uint16) {
        uint16 size = uint16(_ring.length);
        return (1 << 96, _tick, size - 1, size, size);
    }

    function observations(uint256 index) external view returns (uint32, int56, uint160, bool) {
        Observation memory o = _ring[index];
        return (o.time, o.ticks, o.perLiquidity, true);
    }
}

/// Why such a pool is refused: what a reading was can be chosen after its time is over. The scripts refuse it by its factory.
contract ThrottledTest is OnePool {
    function test_aThrottledPoolsPastCanBeChosenAfterwards() public {
        ThrottledPool throttled = new ThrottledPool(address(token), address(usdc), START);
        PoolFeed f = new PoolFeed(config(token, usdc, SUPPLY, IPool(address(throttled)), WINDOW, STEP));
        uint256 at = T0 + 180 - T0 % STEP;
        vm.warp(at - 2);
        throttled.move(START); // an observation
        vm.warp(at + 1);
        (, int256 before,) = f.measure(uint64(at));
        throttled.move(START + 50_000); // a second later, and no observation
        (, int256 changed,) = f.measure(uint64(at));
        vm.assertTrue(changed > before * 108 / 100, "the past stood");
    }

    /// In a genuine pool the same swap changes nothing.
    function test_aGenuinePoolsPastStands() public {
        uint256 at = T0 + 180 - T0 % STEP;
        swap(at - 2, START + 1);
        vm.warp(at + 1);
        (, int256 before,) = feed.measure(uint64(at));
        moveTo(pool, START + 5_000, 1);
        (, int256 after_,) = feed.measure(uint64(at));
        vm.assertEq(before, after_);
    }
}
