// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {IAgentLister} from "../../../../contracts/agent/IAgentLister.sol";
import {OnUsdc} from "./WalletBase.sol";

/// What all unsettled markets of a feed may hold.
contract FeedCapTest is OnUsdc {
    uint64 private constant CAP = 100e6;

    /// One push settled two overlapping markets at their caps.
    function test_aFeedsUnsettledMarketsNeverHoldMoreThanItsCap() public {
        uint256 open = lister.openOn(address(feed)); // the markets of setUp
        capped(CAP, 2 * CAP);
        notListed("m", open); // they hold more than the new cap
        finishAllOf(OTHER, LATE, RANGED, UPDOWN);
        vm.assertEq(lister.openOn(address(feed)), 0);
        list("a", later());
        list("b", later());
        notListed("c", 2 * CAP);
        vm.assertEq(lister.openOn(address(feed)), 2 * CAP);
    }

    /// What the lister's key cannot do: make room before a market is settled. What it need not: say which ones are.
    function test_aSettledMarketMakesRoomByItself() public {
        finishAllOf(OTHER, LATE, RANGED, UPDOWN);
        capped(CAP, 2 * CAP);
        list("a", later());
        list("b", later());
        vm.warp(END + 1 days + 2);
        feed.push(90e8, END + 1 days + 1); // their end
        notListed("c", 2 * CAP); // they have ended, but their money is still to be won
        resolver.resolve("a");
        vm.assertEq(lister.openOn(address(feed)), CAP);
        list("c", later());
        notListed("d", 2 * CAP);
        vm.assertEq(lister.openOn(address(feed)), 2 * CAP);
    }

    /// Each counts with the cap that it was listed with.
    function test_aMarketCountsWithItsOwnCap() public {
        finishAllOf(OTHER, LATE, RANGED, UPDOWN);
        capped(CAP, CAP);
        list("large", later());
        capped(CAP / 4, CAP * 3 / 2);
        list("a", later());
        list("b", later());
        notListed("c", CAP * 3 / 2);
    }

    /// A stolen key fills the feed, and for no longer than the longest market and the void delay.
    function test_aFilledFeedIsFreeAgainOnceItsMarketsAreVoid() public {
        finishAllOf(OTHER, LATE, RANGED, UPDOWN);
        capped(CAP, CAP);
        IAgentLister.MarketSpec memory s = later();
        uint256 most = block.timestamp + 366 days;
        s.endsAt = uint64(most + 1);
        vm.expectRevert(
            abi.encodeWithSelector(IAgentLister.OutOfBounds.selector, IAgentLister.Field.EndsAt, most + 1, 1, most)
        );
        lister.preview(s);
        s.endsAt = uint64(most);
        list("stolen", s);
        vm.warp(most + VOID_DELAY + 1);
        feed.push(90e8, block.timestamp);
        notListed("m", CAP);
        vm.prank(STRANGER);
        resolver.voidMarket("stolen");
        list("m", later());
    }

    /// The Safe takes the feed off its list and allows it again: what is open is open still.
    function test_allowingAFeedAnewForgetsNothing() public {
        finishAllOf(OTHER, LATE, RANGED, UPDOWN);
        capped(CAP, CAP);
        list("a", later());
        vm.prank(SAFE);
        lister.setFeed(address(feed), false, 0, 0, 0, 0);
        capped(CAP, CAP);
        notListed("b", CAP);
    }

    // Helpers

    function capped(uint64 potCap, uint64 feedCap) private {
        vm.prank(SAFE);
        lister.setFeed(address(feed), true, MEMORY, MAX_AGE, potCap, feedCap);
    }

    /// A market that may be listed now.
    function later() private view returns (IAgentLister.MarketSpec memory s) {
        s = thresholdSpec(false);
        (s.opensAt, s.closesAt) = (uint64(block.timestamp), uint64(block.timestamp + 11 hours));
        s.endsAt = uint64(block.timestamp + 1 days);
    }

    /// Neither listed nor shown as what could be.
    function notListed(bytes32 id, uint256 open) private {
        IAgentLister.Feed memory f = lister.feed(address(feed));
        IAgentLister.MarketSpec memory s = later();
        bytes memory why =
            abi.encodeWithSelector(IAgentLister.FeedIsFull.selector, address(feed), f.feedCap, open, f.potCap);
        vm.expectRevert(why);
        lister.preview(s);
        vm.prank(LISTER);
        vm.expectRevert(why);
        lister.list(id, s, "");
    }

    function finish(bytes32 id, int256 answer) private {
        if (block.timestamp <= END) {
            vm.warp(END + 1);
            feed.push(answer, END);
        }
        resolver.resolve(id);
    }

    /// UPDOWN has no reading at its start that is young enough, so it is void.
    function finishAllOf(bytes32 a, bytes32 b, bytes32 c, bytes32 void_) private {
        finish(a, 99e8);
        finish(b, 99e8);
        finish(c, 99e8);
        resolver.voidMarket(void_);
    }
}
