// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {IPool, Pools} from "./Pools.sol";

/// A history of real pools: swaps of every size, there and back within a block, liquidity that comes and goes (down to none), flash loans,
/// gifts, growing rings, seconds, minutes and halts in between.
abstract contract Trader is Pools {
    int24 internal constant NEAR = 1_800; // ticks to either side of the start where prices are most of the time
    uint128 internal constant BASE = 1e17; // the widest position, which is there most of the time

    struct Traded {
        IPool pool;
        int24 start;
        uint128 base; // of the widest position
        uint128 narrow; // of the one around the start
    }

    Traded[] internal traded;

    /// After every call of a pool.
    function noted(uint256 which) internal virtual {}

    /// How many observations a ring grows to in the end.
    function mostKept() internal pure virtual returns (uint256) {
        return 60;
    }

    function addTraded(IPool pool, int24 start) internal {
        traded.push(Traded(pool, start, BASE, 0));
        provide(pool, -WIDEST, WIDEST, BASE);
        noted(traded.length - 1);
    }

    function random(uint256 seed, string memory what) internal pure returns (uint256) {
        return uint256(keccak256(abi.encode(seed, what)));
    }

    /// Seconds until the next block with something in it: most often some, sometimes none, now and then a halt.
    function pause(uint256 seed) internal pure returns (uint256) {
        uint256 kind = random(seed, "kind of pause") % 20;
        uint256 r = random(seed, "pause");
        if (kind < 3) return 0;
        if (kind < 15) return 1 + r % 8;
        return kind < 19 ? 1 + r % 90 : 1 + r % 600;
    }

    function trade(uint256 seed) internal {
        uint256 which = random(seed, "which") % traded.length;
        Traded storage t = traded[which];
        uint256 kind = random(seed, "kind") % 16;
        uint256 r = random(seed, "r");
        int24 goal = t.start + int24(int256(r % uint256(int256(2 * NEAR)))) - NEAR;
        if (kind < 8) {
            moveTo(t.pool, kind == 7 ? goal - 20 * NEAR : goal, 1 + (r >> 64) % 1e6);
        } else if (kind == 8) {
            there(which, goal);
        } else if (kind < 11) {
            around(t, r);
        } else if (kind == 11) {
            drain(t);
        } else if (kind == 12) {
            grow(t.pool, 2 + (r >> 64) % mostKept());
        } else if (kind == 13) {
            if (t.pool.liquidity() != 0) t.pool.flash(address(this), 0, 0, abi.encode(0, 0));
        } else if (kind == 14) {
            provide(t.pool, t.start + 60 * SPACING - t.start % SPACING, WIDEST, 1e15); // out of range
        }
        noted(which);
    }

    /// Far away and back in one block.
    function there(uint256 which, int24 goal) private {
        IPool pool = traded[which].pool;
        int24 before = tickOf(pool);
        moveTo(pool, goal - 30 * NEAR, 1);
        noted(which);
        moveTo(pool, before, 1);
    }

    function around(Traded storage t, uint256 r) private {
        (int24 lower, int24 upper) =
            (t.start - t.start % SPACING - 40 * SPACING, t.start - t.start % SPACING + 40 * SPACING);
        if (t.narrow != 0) {
            t.pool.burn(lower, upper, t.narrow);
            t.narrow = 0;
        } else {
            t.narrow = uint128(1 + (r >> 64) % (20 * BASE));
            provide(t.pool, lower, upper, t.narrow);
        }
    }

    function drain(Traded storage t) private {
        if (t.base != 0) {
            t.pool.burn(-WIDEST, WIDEST, t.base);
            t.base = 0;
        } else {
            provide(t.pool, -WIDEST, WIDEST, BASE);
            t.base = BASE;
        }
    }
}
