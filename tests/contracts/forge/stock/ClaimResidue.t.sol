// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {IVestedMarkets} from "../../../../contracts/stock/IVestedMarkets.sol";
import {StockBase} from "./StockBase.sol";

contract ClaimResidueTest is StockBase {
    uint256 private market;

    /// Two UP positions share an odd unit, so one unit of dust is left.
    function setUp() public override {
        super.setUp();
        IVestedMarkets.CreateParams memory p = terms();
        p.seedPerLeg = 3;
        market = create(p);
        enter(ALICE, market, UP, 4);
        nextBlock();
        enter(BOB, market, DOWN, 5);
        nextBlock();
    }

    function test_claimResidue_sendsTheDustOnceAllWinnersArePaid() external {
        resolve(market, UP);
        deliver(idOf(market, UP, 0));
        vm.expectRevert(abi.encodeWithSelector(IVestedMarkets.WinnersUnpaid.selector, market, 4));
        markets.claimResidue(market);
        deliver(idOf(market, UP, 1));
        // Pool 15: the seed gets 3 + 3 + 2.14, ALICE 4 + 2.86.
        vm.assertEq(token.balanceOf(OPENER), 8);
        vm.assertEq(token.balanceOf(ALICE), 6);
        vm.assertEq(markets.market(market).distributed, 14);
        vm.expectEmit(true, true, true, true, address(markets));
        emit IVestedMarkets.ResidueClaimed(market, 1);
        markets.claimResidue(market);
        vm.assertEq(token.balanceOf(TREASURY), 1);
        vm.assertEq(markets.liabilities(), 0);
        vm.assertEq(markets.market(market).distributed, 15);
        vm.expectRevert(abi.encodeWithSelector(IVestedMarkets.NoResidue.selector, market));
        markets.claimResidue(market);
    }

    /// Losers need not be paid first, and their refused parts are not taken for dust.
    function test_claimResidue_leavesLosersRefunds() external {
        enter(BOB, market, DOWN, 1e6);
        resolve(market, UP);
        deliver(idOf(market, UP, 0));
        deliver(idOf(market, UP, 1));
        markets.claimResidue(market);
        uint256 loser = idOf(market, DOWN, 2);
        (,,, uint256 refund,,) = markets.settlement(loser);
        vm.assertEq(markets.liabilities(), refund);
        vm.assertEq(deliver(loser), 1);
        vm.assertEq(token.balanceOf(address(markets)), 0);
    }

    function test_claimResidue_failsWhileOpenAndWhenVoid() external {
        vm.expectRevert(abi.encodeWithSelector(IVestedMarkets.MarketNotSettled.selector, market));
        markets.claimResidue(market);
        vm.expectRevert(abi.encodeWithSelector(IVestedMarkets.UnknownMarket.selector, 9));
        markets.claimResidue(9);
        voidMarket(market);
        vm.expectRevert(abi.encodeWithSelector(IVestedMarkets.WinnersUnpaid.selector, market, 15));
        markets.claimResidue(market);
        vm.assertEq(deliverAll(market), 4);
        vm.expectRevert(abi.encodeWithSelector(IVestedMarkets.NoResidue.selector, market));
        markets.claimResidue(market);
    }

    function test_claimResidue_waitsForAFrozenTreasury() external {
        resolve(market, UP);
        deliverAll(market);
        token.freeze(TREASURY);
        vm.expectRevert(abi.encodeWithSelector(IVestedMarkets.TransferFailed.selector, TREASURY, 1));
        markets.claimResidue(market);
        token.unfreeze(TREASURY);
        markets.claimResidue(market);
        vm.assertEq(token.balanceOf(TREASURY), 1);
    }
}
