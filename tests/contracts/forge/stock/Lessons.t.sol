// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {IMarketLister} from "../../../../contracts/stock/IMarketLister.sol";
import {IRoundResolver} from "../../../../contracts/stock/IRoundResolver.sol";
import {IVestedMarkets} from "../../../../contracts/stock/IVestedMarkets.sol";
import {FullStack} from "./FullStack.sol";
import {SignedEntries} from "./SignedEntries.sol";
import {StockBase} from "./StockBase.sol";

/// One test for each way known contracts of this kind lost money; contracts/SECURITY.md says how each fails without its guard.
/// The third, overlapping oracle phases, is the resolver's own: tests/contracts/forge/rounds.
contract LessonsTest is StockBase {
    function test_lesson1_blockNumberStandsStillWhileTimeMoves(bool isVoid, uint8 side) external {
        side = uint8(bound(side, 0, 1));
        uint256 other = create();
        enter(BOB, other, UP, 100e6);
        uint256 market = create();
        uint256 id = enter(ALICE, market, side, 400e6);
        // No block passes.
        if (isVoid) voidMarket(market);
        else resolve(market, side);

        vm.assertEq(markets.market(market).vintageBlock, 0);
        vm.assertEq(markets.market(market).pool, 310e6);
        vm.assertEq(markets.market(market).unpaidPrincipal, isVoid ? 310e6 : 300e6);
        markets.claim(id);
        vm.assertEq(token.balanceOf(ALICE), 400e6);
        vm.assertEq(deliver(id), 0);
        deliverAll(market);
        vm.assertEq(markets.market(market).unpaidPrincipal, 0);
        // All of it came from its own market.
        vm.assertEq(markets.market(market).distributed, 310e6);
        vm.assertEq(markets.liabilities(), 120e6);
        vm.assertEq(token.balanceOf(address(markets)), 120e6);
    }

    function test_lesson6_anOwnerWhoCannotBePaidBlocksNobody() external {
        uint256 market = createWithFee(200);
        uint256 frozen = enter(ALICE, market, UP, 10e6);
        uint256 fine = enter(CAROL, market, UP, 10e6);
        nextBlock();
        enter(BOB, market, DOWN, 900e6);
        token.freeze(ALICE);
        token.freeze(OPENER);
        resolve(market, UP);
        // CAROL's payout and the part of BOB's stake that was refused.
        vm.assertEq(deliverAll(market), 2);
        vm.assertGt(token.balanceOf(CAROL), 300e6);
        vm.assertTrue(markets.position(fine).claimed);
        vm.assertFalse(markets.position(frozen).claimed);
        markets.sweepFees();
        token.setPaused(true);
        vm.assertEq(deliverAll(market), 0);
        token.setPaused(false);
        token.unfreeze(ALICE);
        token.unfreeze(OPENER);
        vm.assertEq(deliverAll(market), 2);
        vm.assertEq(token.balanceOf(ALICE), token.balanceOf(CAROL));
    }

    function test_lesson8_pausingStopsEntriesAndNothingElse() external {
        uint256 won = createWithFee(200);
        uint256 voided = create();
        uint256 id = enter(ALICE, won, UP, 400e6);
        enter(ALICE, voided, UP, 5e6);
        nextBlock();
        enter(BOB, won, DOWN, 7e6 + 3);
        token.mint(address(markets), 20e6);
        fund(CAROL, 10e6);
        vm.prank(GUARDIAN);
        markets.setPaused(true);

        bytes memory why = abi.encodeWithSelector(IVestedMarkets.EntriesArePaused.selector, GUARDIAN);
        vm.expectRevert(why);
        vm.prank(CAROL);
        markets.enter(won, UP, 5e6);
        vm.expectRevert(why);
        markets.enterWithAuthorization(CAROL, won, UP, 5e6, 0, FREEZE, 0, "");
        IVestedMarkets.CreateParams memory p = terms();
        vm.expectRevert(why);
        vm.prank(LISTER);
        markets.create(p);

        markets.finalizeVintage(voided);
        markets.withdrawRefund(id);
        vm.prank(ALICE);
        markets.transferPosition(id, CAROL);
        resolve(won, UP);
        vm.warp(FREEZE + VOID_DELAY);
        markets.voidMarket(voided);
        markets.claim(id);
        vm.assertEq(deliverAll(won), 1);
        vm.assertEq(deliverAll(voided), 3);
        markets.claimResidue(won);
        markets.sweepFees();
        vm.assertEq(markets.liabilities(), 0);
    }
}

contract SpentAuthorizationTest is SignedEntries {
    /// USDG returns without paying.
    function tokenName() internal pure override returns (string memory) {
        return "LocalUSDG";
    }

    function test_lesson2_aSpentAuthorizationThatReturnsBooksNothing(bool cancelled) external {
        uint256 market = create();
        Entry memory e = entry(market, UP, 5e6);
        token.mint(e.from, 50e6);
        bytes memory signature = sign(e, KEY);
        if (cancelled) cancel(e, KEY);
        else send(e, signature);
        uint256 owed = markets.liabilities();
        bytes32 nonce = markets.entryNonce(market, UP, 5e6, e.salt);

        // The token itself lets it through.
        vm.prank(address(markets));
        token.receiveWithAuthorization(e.from, address(markets), 5e6, e.validAfter, e.validBefore, nonce, signature);
        vm.expectRevert(abi.encodeWithSelector(IVestedMarkets.AuthorizationSpent.selector, e.from, nonce));
        send(e, signature);
        vm.assertEq(markets.liabilities(), owed);
        assertSolvent();
    }
}

contract ListingLessonsTest is FullStack {
    function test_lesson4_nobodyRegistersAMarketBeforeItsLister(address attacker) external {
        vm.assume(attacker != address(lister));
        IRoundResolver.Spec memory s = IRoundResolver.Spec(1, address(feed), address(stock), STRIKE, FINAL, 1, 1);
        vm.expectRevert(abi.encodeWithSelector(IRoundResolver.NotLister.selector, attacker, address(lister)));
        vm.prank(attacker);
        resolver.register(s);
        // The market is registered when the transaction that creates it ends.
        uint256 market = open();
        vm.assertEq(market, 1);
        vm.assertEq(resolver.spec(market).feed, address(feed));
        vm.assertEq(resolver.spec(market).strikeTime, STRIKE);
    }

    function test_lesson5_aGarbageRoundRefundsAtOnce(int192 garbage) external {
        vm.assume(garbage <= 0 || garbage >= 1e14);
        uint256 market = open();
        uint256 id = enter(ALICE, market, UP, 5e6);
        uint80 strike = feed.push(100e8, STRIKE);
        uint80 last = feed.push(garbage, FINAL - 10);
        vm.warp(FINAL + 1);
        resolver.voidBadAnswer(market, strike, last);
        markets.claim(id);
        vm.assertEq(token.balanceOf(ALICE), 5e6);
    }

    function test_lesson7_aStrikeInThePastIsRefused(uint64 strike) external {
        IMarketLister.OpenParams memory p = listing();
        p.strikeTime = uint64(bound(strike, 0, START));
        vm.expectRevert(abi.encodeWithSelector(IMarketLister.StrikeNotAhead.selector, p.strikeTime, START));
        vm.prank(OPENER);
        lister.open(p);
    }
}
