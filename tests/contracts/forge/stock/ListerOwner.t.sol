// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {Ownable} from "@openzeppelin/contracts/access/Ownable.sol";
import {FeedCheck} from "../../../../contracts/lib/FeedCheck.sol";
import {LocalFeed} from "../../../../contracts/local/LocalFeed.sol";
import {IMarketLister} from "../../../../contracts/stock/IMarketLister.sol";
import {MarketLister} from "../../../../contracts/stock/MarketLister.sol";
import {FullStack} from "./FullStack.sol";

/// The constructor, `setFeed`, `setOpener` and the two-step transfer of ownership.
contract ListerOwnerTest is FullStack {
    function test_constructor_fixesTheVenuesTerms() external {
        vm.assertEq(lister.settler(), address(markets));
        vm.assertEq(lister.resolver(), address(resolver));
        vm.assertEq(lister.owner(), OWNER);
        vm.assertEq(lister.kappa(), 30);
        vm.assertEq(lister.feeBps(), 200);
        vm.assertEq(lister.voidDelay(), 72 hours);
        vm.expectRevert(abi.encodeWithSelector(IMarketLister.ZeroAddress.selector, "settler"));
        new MarketLister(address(0), address(1), OWNER, 30, 200, 1);
        vm.expectRevert(abi.encodeWithSelector(IMarketLister.ZeroAddress.selector, "resolver"));
        new MarketLister(address(markets), address(0), OWNER, 30, 200, 1);
        vm.expectRevert(abi.encodeWithSelector(Ownable.OwnableInvalidOwner.selector, address(0)));
        new MarketLister(address(markets), address(1), address(0), 30, 200, 1);
    }

    function test_setFeed_keepsAndTells(address stock_, uint32 a, uint32 b, uint64 sideCap, bool allowed) external {
        vm.assume(stock_ != address(0));
        a = uint32(bound(a, 1, 5 days));
        b = uint32(bound(b, 1, 3 hours));
        sideCap = uint64(bound(sideCap, ONE, type(uint64).max));
        if (allowed) stock_ = address(stock);
        address feed_ = address(feed);
        vm.expectEmit(true, true, true, true, address(lister));
        emit IMarketLister.FeedSet(feed_, stock_, "AAPL", a, b, sideCap, allowed);
        vm.prank(OWNER);
        lister.setFeed(feed_, stock_, "AAPL", a, b, sideCap, allowed);
        IMarketLister.Feed memory f = lister.feed(feed_);
        vm.assertEq(f.stockToken, stock_);
        vm.assertEq(f.ticker, "AAPL");
        vm.assertEq(f.maxStrikeAge, a);
        vm.assertEq(f.maxFinalAge, b);
        vm.assertEq(f.allowed, allowed);
        vm.assertEq(f.sideCap, sideCap);
    }

    /// Hole W7: an address without code was allowed, and so was a feed that says nothing.
    function test_setFeed_allowsOnlyFeedsThatRead() external {
        refuse(address(0xFEED), abi.encodeWithSelector(FeedCheck.FeedHasNoCode.selector, address(0xFEED)));
        refuse(address(stock), abi.encodeWithSelector(FeedCheck.FeedDecimalsMustBe8.selector, address(stock)));
        LocalFeed empty = new LocalFeed();
        refuse(address(empty), abi.encodeWithSelector(FeedCheck.FeedUnreadable.selector, address(empty)));
        empty.push(0, START);
        refuse(address(empty), abi.encodeWithSelector(FeedCheck.FeedNotPositive.selector, address(empty), 0));
        empty.push(100e8, START + 1);
        refuse(address(empty), abi.encodeWithSelector(FeedCheck.FeedUnreadable.selector, address(empty)));
        vm.warp(START + 1 + 5 days);
        allow(address(empty));
        vm.warp(START + 2 + 5 days);
        refuse(
            address(empty), abi.encodeWithSelector(FeedCheck.FeedNotFresh.selector, address(empty), 5 days + 1, 5 days)
        );
    }

    /// Taking a feed off the list does not depend on the feed.
    function test_setFeed_takesABrokenFeedOff() external {
        vm.prank(OWNER);
        lister.setFeed(address(0xFEED), address(stock), "TSLA", 1, 1, SIDE_CAP, false);
        vm.assertFalse(lister.feed(address(0xFEED)).allowed);
    }

    function refuse(address feed_, bytes memory why) private {
        vm.expectRevert(why);
        allow(feed_);
    }

    function allow(address feed_) private {
        vm.prank(OWNER);
        lister.setFeed(feed_, address(stock), "TSLA", 1, 1, SIDE_CAP, true);
    }

    function test_setFeed_failsForWhatMakesNoSense() external {
        address f = address(feed);
        address s = address(stock);
        vm.startPrank(OWNER);
        vm.expectRevert(abi.encodeWithSelector(IMarketLister.ZeroAddress.selector, "feed"));
        lister.setFeed(address(0), s, "A", 1, 1, SIDE_CAP, true);
        vm.expectRevert(abi.encodeWithSelector(IMarketLister.ZeroAddress.selector, "stockToken"));
        lister.setFeed(f, address(0), "A", 1, 1, SIDE_CAP, true);
        vm.expectRevert(abi.encodeWithSelector(IMarketLister.SideCapTooSmall.selector, ONE - 1, ONE));
        lister.setFeed(f, s, "A", 1, 1, uint64(ONE - 1), true);
        vm.expectRevert(abi.encodeWithSelector(IMarketLister.TickerLength.selector, 0, 31));
        lister.setFeed(f, s, "", 1, 1, SIDE_CAP, true);
        vm.expectRevert(abi.encodeWithSelector(IMarketLister.TickerLength.selector, 32, 31));
        lister.setFeed(f, s, "0123456789abcdef0123456789abcdef", 1, 1, SIDE_CAP, true);
        vm.expectRevert(abi.encodeWithSelector(IMarketLister.AgeOutOfBounds.selector, "strike", 0, 5 days));
        lister.setFeed(f, s, "A", 0, 1, SIDE_CAP, true);
        vm.expectRevert(abi.encodeWithSelector(IMarketLister.AgeOutOfBounds.selector, "final", 0, 3 hours));
        lister.setFeed(f, s, "A", 1, 0, SIDE_CAP, true);
    }

    function test_setOpener_letsAnAddressOpenOrNot(address who) external {
        vm.assume(who != address(0) && who != OPENER);
        vm.assertFalse(lister.isOpener(who));
        vm.startPrank(OWNER);
        vm.expectEmit(true, true, true, true, address(lister));
        emit IMarketLister.OpenerSet(who, true);
        lister.setOpener(who, true);
        vm.assertTrue(lister.isOpener(who));
        lister.setOpener(who, false);
        vm.assertFalse(lister.isOpener(who));
        vm.expectRevert(abi.encodeWithSelector(IMarketLister.ZeroAddress.selector, "opener"));
        lister.setOpener(address(0), true);
    }

    function test_owner_aloneSetsFeedsAndOpeners(address caller) external {
        vm.assume(caller != OWNER);
        bytes memory why = abi.encodeWithSelector(Ownable.OwnableUnauthorizedAccount.selector, caller);
        vm.startPrank(caller);
        vm.expectRevert(why);
        lister.setFeed(address(feed), address(stock), "TSLA", 1, 1, SIDE_CAP, true);
        vm.expectRevert(why);
        lister.setOpener(caller, true);
        vm.expectRevert(why);
        lister.transferOwnership(caller);
    }

    function test_owner_changesInTwoSteps() external {
        vm.prank(OWNER);
        lister.transferOwnership(BOB);
        vm.assertEq(lister.owner(), OWNER);
        vm.prank(BOB);
        lister.acceptOwnership();
        vm.assertEq(lister.owner(), BOB);
    }
}
