// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {IPoolFeed} from "../../../../contracts/feeds/IPoolFeed.sol";
import {PoolFeed} from "../../../../contracts/feeds/PoolFeed.sol";
import {OnePool} from "./OnePool.sol";
import {Coin, IPool} from "./Pools.sol";

/// What can be a pool feed, and when it is fit for a market.
contract FitnessTest is OnePool {
    // Fitness for listing

    function test_theSupplyMustBeWithinOnePerCent() public {
        grow(pool, 4_000);
        swap(T0 + 181, START + 1);
        setSupply(SUPPLY);
        feed.requireListable(OUTAGE);
        setSupply(SUPPLY + SUPPLY / 100);
        feed.requireListable(OUTAGE);
        setSupply(SUPPLY + SUPPLY / 100 + 1);
        vm.expectRevert(abi.encodeWithSelector(IPoolFeed.SupplyMoved.selector, SUPPLY + SUPPLY / 100 + 1, SUPPLY));
        feed.requireListable(OUTAGE);
        setSupply(SUPPLY - SUPPLY / 100);
        feed.requireListable(OUTAGE);
        setSupply(SUPPLY - SUPPLY / 100 - 1);
        vm.expectRevert(abi.encodeWithSelector(IPoolFeed.SupplyMoved.selector, SUPPLY - SUPPLY / 100 - 1, SUPPLY));
        feed.requireListable(OUTAGE);
    }

    /// At one observation a second the ring must outlast the window, a step and the outage; what it is to grow to does not count yet.
    function test_theRingMustOutlastTheOutage() public {
        uint256 needed = WINDOW + STEP + OUTAGE + 1;
        vm.expectRevert(abi.encodeWithSelector(IPoolFeed.RingTooShort.selector, address(pool), 1, needed));
        feed.requireListable(OUTAGE);
        grow(pool, needed);
        vm.expectRevert(abi.encodeWithSelector(IPoolFeed.RingTooShort.selector, address(pool), 1, needed));
        feed.requireListable(OUTAGE);
        swap(T0 + 181, START + 1);
        feed.requireListable(OUTAGE);
        vm.expectRevert(abi.encodeWithSelector(IPoolFeed.RingTooShort.selector, address(pool), needed, needed + 1));
        feed.requireListable(OUTAGE + 1);
    }

    function test_theReferenceMustBeWhatThePoolHolds() public {
        IPoolFeed.Config memory c = plain();
        c.referenceLiquidity[0] = DEPTH * 2 - 2;
        PoolFeed high = new PoolFeed(c);
        c.referenceLiquidity[0] = DEPTH * 2 + 2;
        PoolFeed tooHigh = new PoolFeed(c);
        c.referenceLiquidity[0] = DEPTH / 2;
        PoolFeed low = new PoolFeed(c);
        c.referenceLiquidity[0] = DEPTH / 2 - 2;
        PoolFeed tooLow = new PoolFeed(c);
        grow(pool, WINDOW + STEP + 1);
        live(T0 + 181);
        (,, IPoolFeed.Measure[] memory m) = feed.measure(uint64(T0 + 180));
        PoolFeed[4] memory all = [high, low, tooHigh, tooLow];
        for (uint256 k; k < 4; ++k) {
            bytes4 why = k == 2 ? IPoolFeed.PoolIsShallow.selector : IPoolFeed.ReferenceIsOff.selector;
            uint128 referenceLiquidity = all[k].sources()[0].referenceLiquidity;
            bytes memory refusal = abi.encodeWithSelector(why, address(pool), m[0].liquidity, referenceLiquidity);
            if (k == 2) vm.expectRevert(refusal);
            all[k].requireListable(0);
            if (k > 1) vm.expectRevert(refusal);
            all[k].requireAllowable(0);
        }
    }

    function test_aPoolWithoutAWindowOfHistoryIsNotFit() public {
        grow(pool, WINDOW + STEP + 1);
        swap(T0 + 60, START + 1);
        vm.expectRevert(abi.encodeWithSelector(IPoolFeed.ReadingAbsent.selector, T0, address(pool), T0));
        feed.requireListable(0);
    }

    function test_aSilentPoolIsNotFit() public {
        grow(pool, WINDOW + STEP + 1);
        swap(T0 + 120, START + 1);
        vm.warp(T0 + 120 + WINDOW - 1); // maxQuiet is the window here
        feed.requireListable(0);
        vm.warp(T0 + 120 + WINDOW);
        vm.expectRevert(abi.encodeWithSelector(IPoolFeed.PoolIsQuiet.selector, address(pool), WINDOW, WINDOW));
        feed.requireListable(0);
    }

    // Construction

    function refused(IPoolFeed.Config memory c, string memory field) private {
        vm.expectRevert(abi.encodeWithSelector(IPoolFeed.BadConfig.selector, field));
        new PoolFeed(c);
    }

    function test_whatCannotBeAFeed() public {
        IPoolFeed.Config memory c = plain();
        c.window = 0;
        refused(c, "window");
        c.window = 30 days + 1;
        refused(c, "window");
        c = plain();
        c.step = 0;
        refused(c, "step");
        c = plain();
        c.maxQuiet = 0;
        refused(c, "maxQuiet");
        c = plain();
        c.supply = 0;
        refused(c, "supply");
        c.supply = uint256(type(uint128).max) + 1;
        refused(c, "supply");
        c = plain();
        c.referenceLiquidity[0] = 0;
        refused(c, "referenceLiquidity");
        c.referenceLiquidity = new uint128[](2);
        refused(c, "referenceLiquidity");
        c = plain();
        c.pools = new address[](0);
        refused(c, "pools");
        c = plain();
        c.quote = address(new Coin(9));
        refused(c, "quote");
    }

    function test_thePoolsMustLeadFromTheTokenToTheQuote() public {
        Coin x = new Coin(6);
        IPoolFeed.Config memory c = plain();
        c.token = address(x);
        vm.expectRevert(abi.encodeWithSelector(IPoolFeed.PoolDoesNotHold.selector, address(pool), address(x)));
        new PoolFeed(c);
        c = plain();
        c.quote = address(x);
        vm.expectRevert(abi.encodeWithSelector(IPoolFeed.PoolDoesNotHold.selector, address(pool), address(x)));
        new PoolFeed(c);
        IPool other = newPool(token, x, 0);
        provide(other, -WIDEST, WIDEST, DEPTH);
        c = configOfTwo(plain(), other);
        refused(c, "pools"); // the first leads there already
        c = configOfTwo(config(token, usdc, SUPPLY, other, WINDOW, STEP), pool);
        vm.expectRevert(abi.encodeWithSelector(IPoolFeed.PoolDoesNotHold.selector, address(pool), address(x)));
        new PoolFeed(c);
        IPool empty = IPool(factory.createPool(address(x), address(usdc), FEE));
        c = configOfTwo(config(token, usdc, SUPPLY, other, WINDOW, STEP), empty);
        c.referenceLiquidity[1] = 1;
        refused(c, "pools"); // it has no price yet
        empty.initialize(2 ** 96);
        IPoolFeed.Source[] memory s = new PoolFeed(c).sources();
        vm.assertEq(s[0].pool, address(other));
        vm.assertEq(s[1].pool, address(empty));
        vm.assertEq(s[0].baseIsToken0, address(token) < address(x));
        vm.assertEq(s[1].baseIsToken0, address(x) < address(usdc));
    }
}
