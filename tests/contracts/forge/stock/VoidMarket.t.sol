// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {IVestedMarkets} from "../../../../contracts/stock/IVestedMarkets.sol";
import {StockBase} from "./StockBase.sol";

contract VoidMarketTest is StockBase {
    uint256 private market;

    function setUp() public override {
        super.setUp();
        market = createWithFee(200);
    }

    function test_voidMarket_givesEveryStakeBackWhole(uint256 a, uint256 b, bool nextOne) external {
        a = bound(a, 1, 1e14);
        b = bound(b, 1, 1e14);
        enter(ALICE, market, UP, a);
        if (nextOne) nextBlock();
        enter(BOB, market, DOWN, b);
        vm.warp(FREEZE);
        vm.expectEmit(true, true, true, true, address(markets));
        emit IVestedMarkets.Voided(market);
        vm.prank(RESOLVER);
        markets.voidMarket(market);

        vm.assertEq(markets.market(market).unpaidPrincipal, markets.market(market).pool);
        vm.assertEq(deliverAll(market), 4);
        vm.assertEq(token.balanceOf(ALICE), a);
        vm.assertEq(token.balanceOf(BOB), b);
        vm.assertEq(token.balanceOf(OPENER), 20 * ONE);
        vm.assertEq(token.balanceOf(address(markets)), 0);
        vm.assertEq(markets.liabilities(), 0);
        vm.assertEq(markets.feesAccrued(), 0);
        vm.assertEq(markets.market(market).unpaidPrincipal, 0);
    }

    function test_voidMarket_byTheResolverFromTheFreeze(uint256 time) external {
        time = bound(time, START, FREEZE - 1);
        vm.warp(time);
        vm.expectRevert(abi.encodeWithSelector(IVestedMarkets.MarketNotFrozen.selector, market, FREEZE, time));
        vm.prank(RESOLVER);
        markets.voidMarket(market);
        voidMarket(market);
        vm.assertEq(uint8(markets.market(market).status), uint8(IVestedMarkets.Status.Void));
    }

    function test_voidMarket_byAnyoneOnlyAfterTheDelay(address caller, uint256 time) external {
        vm.assume(caller != RESOLVER);
        uint256 from = FREEZE + VOID_DELAY;
        time = bound(time, FREEZE, from - 1);
        vm.warp(time);
        vm.expectRevert(abi.encodeWithSelector(IVestedMarkets.TooEarlyToVoid.selector, market, from, time));
        vm.prank(caller);
        markets.voidMarket(market);
        vm.warp(from);
        vm.prank(caller);
        markets.voidMarket(market);
        vm.assertEq(uint8(markets.market(market).status), uint8(IVestedMarkets.Status.Void));
    }

    function test_voidMarket_failsTheSecondTime() external {
        voidMarket(market);
        bytes memory why =
            abi.encodeWithSelector(IVestedMarkets.MarketNotOpen.selector, market, IVestedMarkets.Status.Void);
        vm.startPrank(RESOLVER);
        vm.expectRevert(why);
        markets.voidMarket(market);
        vm.expectRevert(why);
        markets.resolve(market, UP);
    }

    function test_voidMarket_failsForAnUnknownMarket() external {
        vm.expectRevert(abi.encodeWithSelector(IVestedMarkets.UnknownMarket.selector, 7));
        markets.voidMarket(7);
    }

    function test_voidMarket_finalizesTheOpenVintageInTheSameBlock() external {
        uint256 id = enter(ALICE, market, DOWN, 300 * ONE);
        voidMarket(market);
        assertAccepted(id, 290 * ONE);
        markets.claim(id);
        vm.assertEq(token.balanceOf(ALICE), 300 * ONE);
    }
}
