// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {IPoolFeed} from "../../../../contracts/feeds/IPoolFeed.sol";
import {PoolFeed} from "../../../../contracts/feeds/PoolFeed.sol";
import {Coin, IPool, Pools} from "./Pools.sol";

/// One token against USDC in a real pool, and a feed of it.
abstract contract OnePool is Pools {
    uint256 internal constant T0 = 1_800_000_000;
    uint32 internal constant WINDOW = 120;
    uint32 internal constant STEP = 60;
    uint256 internal constant SUPPLY = 1_000_000e18;
    int24 internal constant START = -276_324; // 1e-12 units of USDC a unit of the token: 1 USD
    uint128 internal constant DEPTH = 1e17;
    uint256 internal constant OUTAGE = 1 hours;

    Coin internal token;
    Coin internal usdc;
    IPool internal pool;
    PoolFeed internal feed;

    function setUp() public {
        vm.warp(T0);
        newFactory();
        fresh(true);
    }

    function fresh(bool tokenIs0) internal {
        (token, usdc) = coins(18, 6, tokenIs0);
        pool = newPool(token, usdc, tokenIs0 ? START : -START);
        grow(pool, 100);
        provide(pool, -WIDEST, WIDEST, DEPTH);
        setSupply(SUPPLY);
        feed = new PoolFeed(plain());
    }

    /// Swaps here mint what they pay.
    function setSupply(uint256 value) internal {
        uint256 now_ = token.totalSupply();
        if (value > now_) token.mint(address(0xCAFE), value - now_);
        else token.burn(address(0xCAFE), now_ - value);
    }

    function plain() internal view returns (IPoolFeed.Config memory) {
        return config(token, usdc, SUPPLY, pool, WINDOW, STEP);
    }

    /// A small swap, which is an observation.
    function swap(uint256 time, int24 tick) internal {
        vm.warp(time);
        moveTo(pool, tick, 1);
    }

    /// Swaps at T0 + 10, 70, 130 ... up to a time, between two prices.
    function live(uint256 until) internal {
        for (uint256 t = T0 + 10; t < until; t += 60) {
            if (t > block.timestamp) swap(t, START + (t % 120 == 10 ? int24(10) : int24(0)));
        }
        vm.warp(until);
    }

    function read(uint256 time) internal returns (int256 answer) {
        feed.record(times(time));
        (, answer,,,) = feed.getRoundData(uint80(time / STEP));
    }

    function qualityAt(PoolFeed f, uint256 time) internal view returns (IPoolFeed.Quality quality) {
        (quality,,) = f.measure(uint64(time));
    }

    function isQuality(IPoolFeed.Quality a, IPoolFeed.Quality b) internal pure {
        vm.assertEq(uint256(uint8(a)), uint256(uint8(b)));
    }

    function measured(uint256 time) internal view returns (bytes32) {
        (IPoolFeed.Quality quality, int256 answer, IPoolFeed.Measure[] memory m) = feed.measure(uint64(time));
        return keccak256(abi.encode(quality, answer, m));
    }
}
