// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {IVestedMarkets} from "../../../../contracts/stock/IVestedMarkets.sol";
import {StockBase} from "./StockBase.sol";

contract ResolveTest is StockBase {
    uint256 private market;

    function setUp() public override {
        super.setUp();
        market = create();
    }

    function test_resolve_namesTheWinner(uint8 winner, uint256 late) external {
        winner = uint8(bound(winner, 0, 1));
        vm.warp(FREEZE + bound(late, 0, 10_000 days));
        vm.expectEmit(true, true, true, true, address(markets));
        emit IVestedMarkets.Resolved(market, winner);
        vm.prank(RESOLVER);
        markets.resolve(market, winner);
        vm.assertEq(uint8(markets.market(market).status), uint8(IVestedMarkets.Status.Up) + winner);
        vm.assertEq(markets.market(market).unpaidPrincipal, 10 * ONE);
    }

    function test_resolve_finalizesTheOpenVintageInTheSameBlock() external {
        uint256 id = enter(ALICE, market, UP, 400 * ONE);
        resolve(market, UP);
        vm.assertEq(markets.market(market).vintageBlock, 0);
        assertAccepted(id, 290 * ONE);
        vm.expectRevert(abi.encodeWithSelector(IVestedMarkets.NoOpenVintage.selector, market));
        markets.finalizeVintage(market);
    }

    function test_resolve_failsForAnyoneButTheResolver(address caller) external {
        vm.assume(caller != RESOLVER);
        vm.warp(FREEZE);
        vm.expectRevert(abi.encodeWithSelector(IVestedMarkets.NotResolver.selector, market, caller, RESOLVER));
        vm.prank(caller);
        markets.resolve(market, UP);
    }

    function test_resolve_failsBeforeTheFreeze(uint256 time) external {
        time = bound(time, START, FREEZE - 1);
        vm.warp(time);
        vm.expectRevert(abi.encodeWithSelector(IVestedMarkets.MarketNotFrozen.selector, market, FREEZE, time));
        vm.prank(RESOLVER);
        markets.resolve(market, UP);
    }

    function test_resolve_failsForAnUnknownOutcome(uint8 winner) external {
        winner = uint8(bound(winner, 2, 255));
        vm.warp(FREEZE);
        vm.expectRevert(abi.encodeWithSelector(IVestedMarkets.InvalidOutcome.selector, winner));
        vm.prank(RESOLVER);
        markets.resolve(market, winner);
    }

    function test_resolve_failsTheSecondTime() external {
        resolve(market, DOWN);
        bytes memory why =
            abi.encodeWithSelector(IVestedMarkets.MarketNotOpen.selector, market, IVestedMarkets.Status.Down);
        vm.startPrank(RESOLVER);
        vm.expectRevert(why);
        markets.resolve(market, UP);
        vm.expectRevert(why);
        markets.voidMarket(market);
    }

    function test_resolve_failsForAnUnknownMarket() external {
        vm.expectRevert(abi.encodeWithSelector(IVestedMarkets.UnknownMarket.selector, 7));
        vm.prank(RESOLVER);
        markets.resolve(7, UP);
    }

    function test_resolve_goesOnWhilePausedAndFrozen() external {
        enter(ALICE, market, UP, ONE);
        vm.prank(GUARDIAN);
        markets.setPaused(true);
        token.setPaused(true);
        token.freeze(ALICE);
        resolve(market, UP);
    }
}
