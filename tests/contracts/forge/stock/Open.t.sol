// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {LocalToken} from "../../../../contracts/local/LocalToken.sol";
import {FeedCheck} from "../../../../contracts/lib/FeedCheck.sol";
import {IMarketLister} from "../../../../contracts/stock/IMarketLister.sol";
import {IRoundResolver} from "../../../../contracts/stock/IRoundResolver.sol";
import {IVestedMarkets} from "../../../../contracts/stock/IVestedMarkets.sol";
import {FullStack} from "./FullStack.sol";
import {LyingToken} from "./HostileTokens.sol";

contract OpenTest is FullStack {
    function test_open_createsRegistersAndLists(IMarketLister.OpenParams memory p) external {
        p = valid(p);
        IRoundResolver.Spec memory s = IRoundResolver.Spec(
            1, address(feed), address(stock), p.strikeTime, p.finalTime, p.maxStrikeAge, p.maxFinalAge
        );
        bytes32 expected = keccak256(abi.encode(block.chainid, address(resolver), s));
        token.mint(OPENER, 2 * uint256(p.seedPerLeg));
        uint256 had = token.balanceOf(OPENER);
        vm.prank(OPENER);
        token.approve(address(lister), type(uint256).max);
        vm.expectEmit(true, true, true, true, address(lister));
        emit IMarketLister.MarketOpened(
            1,
            expected,
            address(feed),
            "TSLA",
            p.family,
            p.strikeTime,
            p.finalTime,
            p.seedPerLeg,
            p.minEntry,
            p.maxEntry
        );
        vm.prank(OPENER);
        (uint256 market, bytes32 specId) = lister.open(p);

        vm.assertEq(market, 1);
        vm.assertEq(specId, expected);
        vm.assertEq(abi.encode(resolver.spec(1)), abi.encode(s));
        IVestedMarkets.MarketView memory m = markets.market(1);
        vm.assertEq(m.opener, OPENER);
        vm.assertEq(m.resolver, address(resolver));
        vm.assertEq(m.freezeTime, p.finalTime);
        vm.assertEq(m.voidDelay, 72 hours);
        vm.assertEq(m.feeBps, 200);
        vm.assertEq(m.kappa, 30);
        vm.assertEq(m.minEntry, p.minEntry);
        vm.assertEq(m.maxEntry, p.maxEntry);
        vm.assertEq(m.sideCap, SIDE_CAP);
        vm.assertEq(markets.position(idOf(1, UP, 0)).owner, OPENER);
        vm.assertEq(markets.position(idOf(1, DOWN, 0)).owner, OPENER);
        vm.assertEq(token.balanceOf(OPENER), had - 2 * uint256(p.seedPerLeg));
        vm.assertEq(token.balanceOf(address(markets)), 2 * uint256(p.seedPerLeg));
        vm.assertEq(token.balanceOf(address(lister)), 0);

        vm.assertEq(lister.listingCount(), 1);
        IMarketLister.Listing memory l = lister.listing(0);
        vm.assertEq(l.marketId, 1);
        vm.assertEq(l.specId, expected);
        vm.assertEq(l.feed, address(feed));
        vm.assertEq(l.family, p.family);
        vm.assertEq(l.openedAt, START);
    }

    function test_open_failsForAnyoneButAnOpener(address caller) external {
        vm.assume(caller != OPENER);
        IMarketLister.OpenParams memory p = listing();
        vm.expectRevert(abi.encodeWithSelector(IMarketLister.NotOpener.selector, caller));
        vm.prank(caller);
        lister.open(p);
    }

    function test_open_failsForAFeedThatIsNotAllowed() external {
        IMarketLister.OpenParams memory p = listing();
        p.feed = address(0xFEED);
        refuse(p, abi.encodeWithSelector(IMarketLister.FeedNotAllowed.selector, p.feed));
        vm.prank(OWNER);
        lister.setFeed(address(feed), address(stock), "TSLA", 1 days, 3 hours, SIDE_CAP, false);
        refuse(listing(), abi.encodeWithSelector(IMarketLister.FeedNotAllowed.selector, address(feed)));
    }

    /// Hole W7: the feed is looked at again for every market.
    function test_open_failsForAFeedThatNoLongerReads() external {
        vm.warp(START - 60 + 5 days);
        IMarketLister.OpenParams memory p = listing();
        (p.strikeTime, p.finalTime) = (p.strikeTime + 10 days, p.finalTime + 10 days);
        vm.prank(OPENER);
        lister.open(p);
        vm.warp(START - 59 + 5 days);
        refuse(p, abi.encodeWithSelector(FeedCheck.FeedNotFresh.selector, address(feed), 5 days + 1, 5 days));
        feed.push(-1, START);
        refuse(p, abi.encodeWithSelector(FeedCheck.FeedNotPositive.selector, address(feed), -1));
    }

    function test_open_failsForTimesOutOfOrder(uint64 time) external {
        IMarketLister.OpenParams memory p = listing();
        p.strikeTime = uint64(bound(time, 0, START));
        refuse(p, abi.encodeWithSelector(IMarketLister.StrikeNotAhead.selector, p.strikeTime, START));
        p = listing();
        p.finalTime = uint64(bound(time, 0, p.strikeTime));
        refuse(p, abi.encodeWithSelector(IMarketLister.FinalNotAfterStrike.selector, p.strikeTime, p.finalTime));
        p.finalTime = p.strikeTime + 8 days + 1;
        refuse(p, abi.encodeWithSelector(IMarketLister.WindowTooLong.selector, 8 days + 1, 8 days));
        p.finalTime = p.strikeTime + 8 days;
        vm.prank(OPENER);
        lister.open(p);
    }

    function test_open_failsForAmountsOutOfBounds() external {
        IMarketLister.OpenParams memory p = listing();
        p.seedPerLeg = uint64(ONE - 1);
        refuse(p, abi.encodeWithSelector(IMarketLister.SeedTooSmall.selector, ONE - 1, ONE));
        p = listing();
        p.minEntry = uint64(ONE - 1);
        refuse(p, abi.encodeWithSelector(IMarketLister.MinEntryTooSmall.selector, ONE - 1, ONE));
        p = listing();
        p.minEntry = 5e6;
        p.maxEntry = 5e6 - 1;
        refuse(p, abi.encodeWithSelector(IMarketLister.MaxEntryBelowMin.selector, 5e6 - 1, 5e6));
    }

    /// A market may ask for fresher rounds than its feed's terms, never for staler ones.
    function test_open_onlyTightensAges(uint32 age) external {
        IMarketLister.OpenParams memory p = listing();
        p.maxStrikeAge = age;
        bytes4 why = IMarketLister.AgeOutOfBounds.selector;
        if (age == 0 || age > 1 days) refuse(p, abi.encodeWithSelector(why, "strike", age, 1 days));
        p = listing();
        p.maxFinalAge = age;
        if (age == 0 || age > 3 hours) refuse(p, abi.encodeWithSelector(why, "final", age, 3 hours));
        else open();
    }

    function test_open_failsForAnUnknownFamily(uint8 family) external {
        IMarketLister.OpenParams memory p = listing();
        p.family = uint8(bound(family, 3, 255));
        refuse(p, abi.encodeWithSelector(IMarketLister.UnknownFamily.selector, p.family));
    }

    function test_open_failsWhilePaused() external {
        vm.prank(GUARDIAN);
        markets.setPaused(true);
        refuse(listing(), abi.encodeWithSelector(IVestedMarkets.EntriesArePaused.selector, GUARDIAN));
    }

    function test_open_failsWithTheTokensReason() external {
        vm.prank(OPENER);
        token.approve(address(lister), 1);
        refuse(
            listing(),
            abi.encodeWithSelector(LocalToken.InsufficientAllowance.selector, OPENER, address(lister), 1, 20e6)
        );
    }

    /// All or nothing: what fails at the end leaves no market and no payment.
    function test_open_leavesNothingBehindWhenItFails() external {
        vm.mockCallRevert(address(resolver), abi.encodeWithSelector(resolver.register.selector), "no");
        uint256 had = token.balanceOf(OPENER);
        refuse(listing(), "no");
        vm.clearMockedCalls();
        vm.assertEq(markets.marketCount(), 0);
        vm.assertEq(token.balanceOf(OPENER), had);
        vm.assertEq(lister.listingCount(), 0);
        vm.expectRevert(abi.encodeWithSelector(IMarketLister.UnknownListing.selector, 0, 0));
        lister.listing(0);
    }

    function refuse(IMarketLister.OpenParams memory p, bytes memory why) private {
        vm.expectRevert(why);
        vm.prank(OPENER);
        lister.open(p);
    }

    function valid(IMarketLister.OpenParams memory p) private view returns (IMarketLister.OpenParams memory) {
        p.feed = address(feed);
        p.strikeTime = uint64(bound(p.strikeTime, START + 1, START + 3650 days));
        p.finalTime = uint64(bound(p.finalTime, p.strikeTime + 1, p.strikeTime + 8 days));
        p.maxStrikeAge = uint32(bound(p.maxStrikeAge, 1, 1 days));
        p.maxFinalAge = uint32(bound(p.maxFinalAge, 1, 3 hours));
        p.seedPerLeg = uint64(bound(p.seedPerLeg, ONE, SIDE_CAP));
        p.minEntry = uint64(bound(p.minEntry, ONE, type(uint32).max));
        p.maxEntry = uint64(bound(p.maxEntry, p.minEntry, type(uint48).max));
        p.family = uint8(bound(p.family, 0, 2));
        return p;
    }
}

contract OpenOnUSDGTest is OpenTest {
    function tokenName() internal pure override returns (string memory) {
        return "LocalUSDG";
    }
}

contract OpenWithALyingTokenTest is FullStack {
    function tokenName() internal pure override returns (string memory) {
        return "LyingToken";
    }

    /// Even when someone's gift to the settler would cover the seed.
    function test_open_failsUnlessTheSeedArrived() external {
        token.mint(address(markets), 100e6);
        expectShort(LyingToken.Mode.Silent, 0);
        expectShort(LyingToken.Mode.Less, 20e6 - 1);
        expectShort(LyingToken.Mode.More, 20e6 + 1);
    }

    function expectShort(LyingToken.Mode mode, uint256 received) private {
        LyingToken(address(token)).setMode(mode);
        IMarketLister.OpenParams memory p = listing();
        vm.expectRevert(abi.encodeWithSelector(IMarketLister.SeedNotReceived.selector, 20e6, received));
        vm.prank(OPENER);
        lister.open(p);
    }
}
