// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {Ownable} from "@openzeppelin/contracts/access/Ownable.sol";

import {IAgentLister} from "../../../../contracts/agent/IAgentLister.sol";
import {IFeedResolver} from "../../../../contracts/agent/IFeedResolver.sol";
import {ISettlementWallet} from "../../../../contracts/agent/ISettlementWallet.sol";
import {ObservationFeed} from "../../../../contracts/feeds/ObservationFeed.sol";
import {GuardedRead} from "../../../../contracts/lib/GuardedRead.sol";
import {OnUsdc} from "./WalletBase.sol";

/// Every kind of market, settled and voided by a stranger from rounds alone.
contract SettlingTest is OnUsdc {
    event MarketResolved(bytes32 indexed marketId, uint8 outcome);
    event MarketVoided(bytes32 indexed marketId, uint8 reason);
    event MarketDecided(
        bytes32 indexed marketId, bool isVoid, uint8 code, IFeedResolver.Reading end, IFeedResolver.Reading start
    );

    IFeedResolver.Reading private none;

    // Threshold, decided at the end

    function test_thresholdTakesTheRoundInEffectAtTheEnd() public {
        uint80 before = feed.push(120e8, END - 100);
        uint80 last = feed.push(TARGET - 1, END);
        uint80 later = feed.push(150e8, END + 1);
        vm.warp(END);
        tooEarly(LATE, last, END + 1);
        vm.warp(END + 2);
        notInEffect(LATE, before, END);
        notInEffect(LATE, later, END);
        bothWays(LATE, last, NO, TARGET - 1, END);
    }

    function test_thresholdAtTheTargetIsYes() public {
        uint80 round = feed.push(TARGET, END - 5);
        vm.warp(END + 1);
        bothWays(LATE, round, YES, TARGET, END - 5);
    }

    function test_aMarketIsSettledOnce() public {
        uint80 round = feed.push(TARGET, END);
        vm.warp(END + 1);
        resolver.resolveWith(LATE, round, 0);
        bytes memory again = abi.encodeWithSelector(ISettlementWallet.AlreadySettled.selector, LATE);
        vm.expectRevert(again);
        resolver.resolveWith(LATE, round, 0);
        vm.expectRevert(again);
        resolver.resolve(LATE);
        vm.warp(END + VOID_DELAY + 1);
        vm.expectRevert(again);
        resolver.voidWith(LATE, round, 0);
        vm.expectRevert(again);
        resolver.voidMarket(LATE);
        vm.assertTrue(isResolved(LATE, YES));
    }

    /// The settler accepts an outcome from the resolver alone.
    function test_onlyTheResolverNamesAnOutcome() public {
        address[8] memory others = [SAFE, LISTER, RELAYER, CREDITOR, GUARDIAN, PUBLISHER, address(lister), STRANGER];
        for (uint256 k; k < others.length; ++k) {
            bytes memory why =
                abi.encodeWithSelector(ISettlementWallet.NotResolver.selector, others[k], address(resolver));
            vm.startPrank(others[k]);
            vm.expectRevert(why);
            wallet.resolve(LATE, YES);
            vm.expectRevert(why);
            wallet.voidMarket(LATE, 1);
            vm.stopPrank();
        }
        vm.prank(address(resolver));
        vm.expectRevert(abi.encodeWithSelector(ISettlementWallet.UnknownOutcome.selector, 2, 2));
        wallet.resolve(LATE, 2);
        vm.prank(address(resolver));
        vm.expectRevert(abi.encodeWithSelector(ISettlementWallet.UnknownMarket.selector, bytes32("new")));
        wallet.resolve("new", 0);
    }

    /// No moment has both: stakes open and a round that settles.
    function testFuzz_stakesAreOverBeforeAnythingCanSettle(uint256 at_, int256 value) public {
        at_ = bound(at_, T0, CLOSE - 1);
        value = int256(bound(uint256(value), 1, 1e12));
        uint80 round = feed.push(value, at_);
        vm.warp(bound(at_ + 1, T0, CLOSE - 1));
        bytes32[4] memory all = [OTHER, LATE, RANGED, UPDOWN];
        for (uint256 k; k < 4; ++k) {
            uint256 due = resolver.terms(all[k]).settlesAfter + 1;
            tooEarly(all[k], round, due);
            vm.expectRevert(tooEarlyError(all[k], due));
            resolver.voidMarket(all[k]);
        }
    }

    // Range

    function test_rangeBuckets() public {
        int256[8] memory values = [int256(1), 50e8 - 1, 50e8, 100e8 - 1, 100e8, 200e8 - 1, 200e8, 1e18];
        uint256 snapshot = vm.snapshotState();
        for (uint256 k; k < 8; ++k) {
            uint80 round = feed.push(values[k], END - 1);
            vm.warp(END + 1);
            bothWays(RANGED, round, uint8(k / 2), values[k], END - 1);
            vm.revertToState(snapshot);
        }
    }

    // Direction

    function test_directions() public {
        uint80 start = feed.push(100e8, START);
        uint256 snapshot = vm.snapshotState();
        for (uint8 k; k < 2; ++k) {
            int256 value = k == 0 ? int256(100e8 + 1) : int256(100e8 - 1);
            uint80 end = feed.push(value, END);
            vm.warp(END + 1);
            decidedBothWays(UPDOWN, end, start, false, k, reading(end, value, END), reading(start, 100e8, START));
            vm.revertToState(snapshot);
        }
    }

    /// W2 of rounds: nothing said before the start's memory can be known from what is read at the start.
    function test_aRoundTakesNoStakesOnceItsStartIsMeasured() public {
        uint256 closes = wallet.market(UPDOWN).closesAt;
        vm.assertLe(closes + MARGIN, START - MEMORY);
        vm.warp(START - MEMORY);
        ISettlementWallet.Bet memory b = bet(UPDOWN, YES, 10e6, alice);
        ISettlementWallet.Authorization memory a = authorizeReceive(ALICE_KEY, b);
        vm.expectRevert(abi.encodeWithSelector(ISettlementWallet.Closed.selector, UPDOWN, closes));
        wallet.settle(b, a);
    }

    function test_theStartMayBeNamedAndMustBeProven() public {
        uint80 before = feed.push(99e8, START - 10);
        uint80 start = feed.push(100e8, START);
        uint80 end = feed.push(101e8, END);
        vm.warp(END + 1);
        vm.expectRevert(abi.encodeWithSelector(IFeedResolver.NotInEffect.selector, before, START));
        resolver.resolveWith(UPDOWN, end, before);
        vm.expectRevert(abi.encodeWithSelector(IFeedResolver.NotInEffect.selector, end, START));
        resolver.resolveWith(UPDOWN, end, end);
        resolver.resolveWith(UPDOWN, end, start);
        vm.assertTrue(isResolved(UPDOWN, YES));
    }

    function test_aTieVoids() public {
        feed.push(100e8, START);
        feed.push(101e8, START + 1);
        uint80 round = feed.push(100e8, END);
        vm.warp(END + 1);
        nothingToVoidFor(UPDOWN, round);
        voidsByResolving(UPDOWN, round, IFeedResolver.VoidReason.Tie);
    }

    function test_theSameRoundVoids() public {
        vm.prank(SAFE);
        lister.setFeed(address(feed), true, MEMORY, 2 days, POT_CAP, FEED_CAP);
        IAgentLister.MarketSpec memory s = directionSpec();
        (s.closesAt, s.endsAt) = (uint64(T0 + 1 hours), uint64(START + 10 hours));
        list("slow", s);
        uint80 round = feed.push(100e8, START);
        vm.warp(END + 1);
        voidsByResolving("slow", round, IFeedResolver.VoidReason.Tie);
    }

    function test_aStartThatCannotCountVoids() public {
        feed.setRound(uint80(1 << 64 | 1), 0, 0); // nothing at the start
        uint80 end = feed.push(100e8, END);
        vm.warp(END + 1);
        vm.expectRevert(noReading(START, 4));
        resolver.resolveWith(UPDOWN, end, 0);
        voids(UPDOWN, end, IFeedResolver.VoidReason.NoReading);
    }

    function test_aStaleStartVoids() public {
        uint256 oldest = START - CLOSE - MARGIN;
        uint80 start = feed.push(99e8, START - oldest - 1);
        uint80 end = feed.push(100e8, END);
        vm.warp(END + 1);
        vm.expectRevert(abi.encodeWithSelector(IFeedResolver.ReadingTooOld.selector, start, oldest + 1, oldest));
        resolver.resolveWith(UPDOWN, end, 0);
        decidedVoid(UPDOWN, end, start, IFeedResolver.VoidReason.Stale, none, reading(start, 99e8, START - oldest - 1));
    }

    function test_aBadStartVoids() public {
        uint80 start = feed.push(0, START);
        uint80 end = feed.push(100e8, END);
        vm.warp(END + 1);
        vm.expectRevert(abi.encodeWithSelector(IFeedResolver.ReadingNotPositive.selector, start, int256(0)));
        resolver.resolveWith(UPDOWN, end, 0);
        decidedVoid(UPDOWN, end, start, IFeedResolver.VoidReason.BadAnswer, none, reading(start, 0, START));
    }

    // Faults of the reading at the end

    function test_staleness() public {
        uint80 round = feed.push(TARGET, END - MAX_AGE - 1);
        vm.warp(END);
        vm.expectRevert(tooEarlyError(LATE, END + 1));
        resolver.voidWith(LATE, round, 0);
        vm.warp(END + 1);
        vm.expectRevert(abi.encodeWithSelector(IFeedResolver.ReadingTooOld.selector, round, MAX_AGE + 1, MAX_AGE));
        resolver.resolveWith(LATE, round, 0);
        decidedVoid(LATE, round, 0, IFeedResolver.VoidReason.Stale, reading(round, TARGET, END - MAX_AGE - 1), none);
    }

    function test_aReadingJustYoungEnoughCounts() public {
        uint80 round = feed.push(TARGET, END - MAX_AGE);
        vm.warp(END + 1);
        nothingToVoidFor(LATE, round);
        bothWays(LATE, round, YES, TARGET, END - MAX_AGE);
    }

    function test_badAnswersVoidAtOnce() public {
        uint256 snapshot = vm.snapshotState();
        int256[2] memory bad = [int256(0), -1];
        for (uint256 k; k < 2; ++k) {
            uint80 round = feed.push(bad[k], END);
            vm.warp(END + 1);
            vm.expectRevert(abi.encodeWithSelector(IFeedResolver.ReadingNotPositive.selector, round, bad[k]));
            resolver.resolve(LATE);
            voids(LATE, round, IFeedResolver.VoidReason.BadAnswer);
            vm.revertToState(snapshot);
        }
    }

    function test_noRoundAtAllVoids() public {
        feed.setRound(uint80(1 << 64 | 1), 0, 0);
        feed.push(TARGET, END + 1);
        vm.warp(END + 2);
        decidedVoid(LATE, 0, 0, IFeedResolver.VoidReason.NoReading, none, none);
    }

    function test_aVoidNeedsTheRightRound() public {
        uint80 old = feed.push(TARGET, END - 2 * MAX_AGE);
        feed.push(TARGET, END - 1);
        vm.warp(END + 1);
        vm.expectRevert(abi.encodeWithSelector(IFeedResolver.NotInEffect.selector, old, END));
        resolver.voidWith(LATE, old, 0);
        nothingToVoidFor(LATE, 0);
    }

    function test_anUnreadableFeedProvesNothing() public {
        feed.startPhase(); // a new aggregator without a round cannot be read
        vm.warp(END + 1);
        vm.expectRevert(noReading(END, 2));
        resolver.resolve(LATE);
        vm.expectRevert(noReading(END, 2));
        resolver.voidMarket(LATE);
        vm.expectRevert(abi.encodeWithSelector(IFeedResolver.NotInEffect.selector, 1, END));
        resolver.voidWith(LATE, 1, 0);
        vm.warp(END + VOID_DELAY);
        vm.expectRevert(noReading(END, 2));
        resolver.voidMarket(LATE);
        vm.warp(END + VOID_DELAY + 1);
        decidedVoid(LATE, 0, 0, IFeedResolver.VoidReason.Timeout, none, none);
    }

    /// 63/64 of a starved call must not turn a round that is there into one that is absent.
    function test_starvedReadsFakeNothing() public {
        feed.push(90e8, END - 10);
        uint80 last = feed.push(TARGET, END);
        vm.warp(END + 1);
        for (uint256 gas_ = 60_000; gas_ < 700_000; gas_ += 9_973) {
            uint256 snapshot = vm.snapshotState();
            (bool ok,) = address(resolver).call{gas: gas_}(abi.encodeCall(resolver.resolveWith, (LATE, last - 1, 0)));
            vm.assertFalse(ok);
            (ok,) = address(resolver).call{gas: gas_}(abi.encodeCall(resolver.voidMarket, (LATE)));
            vm.assertFalse(ok);
            (ok,) = address(resolver).call{gas: gas_}(abi.encodeCall(resolver.resolve, (LATE)));
            if (ok) vm.assertTrue(isResolved(LATE, YES));
            vm.revertToState(snapshot);
        }
        vm.expectRevert();
        resolver.resolveWith{gas: GuardedRead.GAS_NEEDED}(LATE, last, 0);
    }

    // A feed that someone posts to

    /// W5: the lie stands on the feed and settles nothing before the lag and the dispute window are over, in none of the ways there are.
    function test_aPublishersLieWaitsForTheDisputeWindow() public {
        settle(POSTED, NO, 100e6, ALICE_KEY);
        uint256 lied = MEASURED_FROM + 100;
        vm.warp(lied);
        uint80 lie = post(TARGET * 10, lied);
        uint256 due = END + LAG + DISPUTE + 1;
        tooEarly(POSTED, lie, due);
        vm.expectRevert(tooEarlyError(POSTED, due));
        resolver.resolve(POSTED);
        vm.warp(END);
        uint80 last = post(TARGET * 10, END);
        vm.warp(due - 1);
        tooEarly(POSTED, last, due);
        vm.expectRevert(tooEarlyError(POSTED, due));
        resolver.voidMarket(POSTED);
        vm.warp(due);
        bothWays(POSTED, last, YES, TARGET * 10, END);
    }

    /// And in that window the Safe stops it for everybody: the market voids and every stake goes back whole.
    function test_condemningVoidsEveryUnsettledMarketOnTheFeed() public {
        IAgentLister.MarketSpec memory s = rangeSpec();
        s.feed = address(posted);
        list("other", s);
        uint256 a = settle(POSTED, NO, 100e6, ALICE_KEY);
        uint256 c = settle(POSTED, YES, 1e6, BOB_KEY);
        uint256 d = settle("other", 3, 7e6, CAROL_KEY);
        vm.warp(END);
        uint80 lie = post(TARGET * 10, END);
        vm.warp(END + LAG + DISPUTE);
        vm.prank(SAFE);
        lister.condemn(address(posted));
        vm.warp(END + LAG + DISPUTE + 1);
        bytes memory condemned = abi.encodeWithSelector(IFeedResolver.FeedIsCondemned.selector, posted);
        vm.expectRevert(condemned);
        resolver.resolveWith(POSTED, lie, 0);
        vm.expectRevert(condemned);
        resolver.resolve(POSTED);
        decidedVoid(POSTED, lie, 0, IFeedResolver.VoidReason.Condemned, none, none);
        resolver.voidMarket("other");
        vm.assertEq(wallet.pay(POSTED, ids(a, c)), 2);
        vm.assertEq(wallet.pay("other", ids(d)), 1);
        vm.assertEq(token.balanceOf(alice), 1e16);
        vm.assertEq(token.balanceOf(bob), 1e16);
        vm.assertEq(token.balanceOf(carol), 1e16);
        vm.assertEq(token.balanceOf(address(wallet)), 0);
    }

    /// Condemning acts on what is unsettled, at once, and on no other feed.
    function test_condemningTouchesNothingElse() public {
        list("done", postedSpec());
        vm.warp(END);
        post(TARGET, END);
        feed.push(TARGET, END);
        vm.warp(END + LAG + DISPUTE + 1);
        resolver.resolve("done");
        vm.prank(SAFE);
        lister.condemn(address(posted));
        vm.expectRevert(abi.encodeWithSelector(ISettlementWallet.AlreadySettled.selector, bytes32("done")));
        resolver.voidMarket("done");
        vm.assertTrue(isResolved("done", YES));
        resolver.voidMarket(POSTED); // while another of the same feed voids
        nothingToVoidFor(LATE, 0);
        resolver.resolve(LATE);
        vm.assertTrue(isResolved(LATE, YES));
    }

    function putOff() private returns (uint256 until) {
        vm.prank(GUARDIAN);
        lister.putOff(address(posted));
        return block.timestamp + 1 days;
    }

    /// A guardian who doubts a reading gives the Safe a day to look at it; then it decides, or the Safe has condemned.
    function test_aGuardianPutsOffAPublishedFeedsMarketsByADay() public {
        vm.warp(END);
        uint80 last = post(TARGET, END);
        vm.warp(END + LAG + DISPUTE);
        uint256 until = putOff();
        (uint64 settlesAfter, uint64 voidsAfter) = resolver.due(POSTED);
        vm.assertEq(settlesAfter, until);
        vm.assertEq(voidsAfter, END + LAG + DISPUTE + VOID_DELAY + 1 days);
        vm.warp(until);
        tooEarly(POSTED, last, until + 1);
        vm.expectRevert(tooEarlyError(POSTED, until + 1));
        resolver.voidMarket(POSTED);
        uint256 state = vm.snapshotState();
        vm.prank(SAFE);
        lister.condemn(address(posted));
        resolver.voidMarket(POSTED);
        vm.assertTrue(isVoid(POSTED));
        vm.revertToState(state);
        vm.warp(until + 1);
        bothWays(POSTED, last, YES, TARGET, END);
    }

    /// Whenever it is done, no market that could be settled can only be voided afterwards.
    function testFuzz_puttingOffTimesNothingOut(uint256 when) public {
        vm.warp(END);
        uint80 last = post(TARGET, END);
        uint256 due = END + LAG + DISPUTE;
        when = bound(when, END, due + VOID_DELAY + 2 days);
        vm.warp(when);
        uint256 until = putOff();
        vm.warp(until + 1);
        if (when >= due + VOID_DELAY) resolver.voidMarket(POSTED);
        else resolver.resolveWith(POSTED, last, 0);
        vm.assertEq(isResolved(POSTED, YES), when < due + VOID_DELAY);
    }

    /// What the thief of a guardian's key can do with it: once, a day, on a feed with a publisher.
    function test_aFeedIsPutOffOnceByAGuardianAndByADay() public {
        address[7] memory others = [SAFE, LISTER, RELAYER, CREDITOR, PUBLISHER, TREASURY, STRANGER];
        for (uint256 k; k < others.length; ++k) {
            vm.prank(others[k]);
            vm.expectRevert(abi.encodeWithSelector(IAgentLister.NotGuardian.selector, others[k]));
            lister.putOff(address(posted));
        }
        vm.prank(GUARDIAN);
        vm.expectRevert(abi.encodeWithSelector(IAgentLister.FeedHasNoPublisher.selector, feed));
        lister.putOff(address(feed));
        vm.warp(END + LAG + DISPUTE);
        uint256 until = putOff();
        for (uint256 k; k < 3; ++k) {
            vm.warp(block.timestamp + k * 2 days);
            vm.prank(GUARDIAN);
            vm.expectRevert(abi.encodeWithSelector(IAgentLister.AlreadyPutOff.selector, posted, until));
            lister.putOff(address(posted));
        }
        // What settles later anyway is as it was, and so are other feeds.
        IAgentLister.MarketSpec memory s = postedSpec();
        (s.opensAt, s.closesAt, s.endsAt) = (0, uint64(block.timestamp + 1 hours), uint64(block.timestamp + 3 hours));
        vm.prank(PUBLISHER);
        posted.post(90e8, uint64(block.timestamp));
        list("later", s);
        (uint64 settlesAfter,) = resolver.due("later");
        vm.assertEq(settlesAfter, s.endsAt + LAG + DISPUTE);
        (settlesAfter,) = resolver.due(LATE);
        vm.assertEq(settlesAfter, END);
    }

    function test_condemningIsPossibleFromTheFirstSecond() public {
        uint256 id = settle(POSTED, NO, 100e6, ALICE_KEY);
        address[6] memory others = [LISTER, RELAYER, CREDITOR, GUARDIAN, PUBLISHER, STRANGER];
        for (uint256 k; k < others.length; ++k) {
            vm.prank(others[k]);
            vm.expectRevert(abi.encodeWithSelector(Ownable.OwnableUnauthorizedAccount.selector, others[k]));
            lister.condemn(address(posted));
        }
        vm.prank(SAFE);
        lister.condemn(address(posted));
        resolver.voidMarket(POSTED);
        wallet.claim(id);
        vm.assertEq(token.balanceOf(alice), 1e16);
    }

    /// A publisher who falls silent voids what it should have decided; so says the powers table.
    function test_aSilentPublisherVoidsAndCannotChoose() public {
        settle(POSTED, YES, 10e6, ALICE_KEY);
        vm.warp(END + LAG + DISPUTE + 1);
        voids(POSTED, 0, IFeedResolver.VoidReason.Stale);
    }

    /// What was posted before stakes ended is known to every bettor, however fresh the feed's `maxAge` would call it: a publisher who falls
    /// silent for a short while cannot make it the answer.
    function test_aReadingFromBeforeStakesEndedDecidesNothing() public {
        IAgentLister.MarketSpec memory s = directionSpec();
        (s.feed, s.closesAt) = (address(posted), uint64(START - MARGIN - MEMORY));
        list("round", s);
        vm.warp(s.closesAt + MARGIN);
        uint80 known = post(TARGET, s.closesAt + MARGIN - 1);
        vm.warp(END);
        uint80 last = post(TARGET + 1, END);
        vm.warp(END + LAG + DISPUTE + 1);
        IFeedResolver.Reading memory early = reading(known, TARGET, s.closesAt + MARGIN - 1);
        decidedVoid("round", last, known, IFeedResolver.VoidReason.Stale, none, early);
    }

    function test_anObservationFeedIsWaitedFor() public {
        vm.warp(END - 50);
        uint80 first = post(TARGET - 1, END - 60);
        vm.warp(END + LAG);
        tooEarly(POSTED, first, END + LAG + DISPUTE + 1);
        uint80 last = post(TARGET, END); // the latest second it can still be posted in
        vm.warp(END + LAG + DISPUTE + 1);
        notInEffect(POSTED, first, END);
        bothWays(POSTED, last, YES, TARGET, END);
    }

    /// A feed that takes readings late and has no publisher is waited for as long.
    function test_aLongLagIsWaitedFor() public {
        vm.mockCall(address(feed), abi.encodeWithSignature("maxLag()"), abi.encode(900));
        vm.prank(SAFE);
        lister.setFeed(address(feed), true, 900, MAX_AGE, POT_CAP, FEED_CAP);
        list("late", thresholdSpec(false));
        vm.assertEq(resolver.terms("late").settlesAfter, END + 900);
    }

    function post(int256 value, uint256 at_) private returns (uint80) {
        vm.prank(PUBLISHER);
        return posted.post(value, uint64(at_));
    }

    // Helpers

    function reading(uint80 round, int256 answer, uint256 at_) private pure returns (IFeedResolver.Reading memory) {
        return IFeedResolver.Reading(round, answer, uint64(at_));
    }

    /// Settles by the given round, and again with the rounds found by the contract, with the same result.
    function bothWays(bytes32 m, uint80 round, uint8 outcome, int256 observed, uint256 at_) private {
        decidedBothWays(m, round, 0, false, outcome, reading(round, observed, at_), none);
        vm.assertTrue(isResolved(m, outcome));
    }

    function decidedVoid(
        bytes32 m,
        uint80 end,
        uint80 start,
        IFeedResolver.VoidReason reason,
        IFeedResolver.Reading memory endReading,
        IFeedResolver.Reading memory startReading
    ) private {
        decidedBothWays(m, end, start, true, uint8(reason), endReading, startReading);
        vm.assertTrue(isVoid(m));
    }

    function decidedBothWays(
        bytes32 m,
        uint80 end,
        uint80 start,
        bool isVoid_,
        uint8 code,
        IFeedResolver.Reading memory endReading,
        IFeedResolver.Reading memory startReading
    ) private {
        uint256 snapshot = vm.snapshotState();
        for (uint256 k; k < 2; ++k) {
            vm.revertToState(snapshot);
            snapshot = vm.snapshotState();
            vm.expectEmit(true, true, true, true, address(resolver));
            emit MarketDecided(m, isVoid_, code, endReading, startReading);
            vm.expectEmit(true, true, true, true, address(wallet));
            if (isVoid_) emit MarketVoided(m, code);
            else emit MarketResolved(m, code);
            vm.prank(STRANGER);
            if (isVoid_ && k == 0) resolver.voidMarket(m);
            else if (isVoid_) resolver.voidWith(m, end, start);
            else if (k == 0) resolver.resolve(m);
            else resolver.resolveWith(m, end, start);
        }
    }

    function resolves(bytes32 m, uint80 round, uint8 outcome, int256 observed, uint256 at_) private {
        vm.expectEmit(true, true, true, true, address(resolver));
        emit MarketDecided(m, false, outcome, reading(round, observed, at_), none);
        vm.prank(STRANGER);
        resolver.resolveWith(m, round, 0);
        vm.assertTrue(isResolved(m, outcome));
    }

    function resolvesFound(bytes32 m, uint8 outcome) private {
        vm.prank(STRANGER);
        resolver.resolve(m);
        vm.assertTrue(isResolved(m, outcome));
    }

    function voidsByResolving(bytes32 m, uint80 round, IFeedResolver.VoidReason reason) private {
        uint256 snapshot = vm.snapshotState();
        vm.expectEmit(true, true, true, true, address(wallet));
        emit MarketVoided(m, uint8(reason));
        resolver.resolve(m);
        vm.revertToState(snapshot);
        vm.expectEmit(true, true, true, true, address(wallet));
        emit MarketVoided(m, uint8(reason));
        vm.prank(STRANGER);
        resolver.resolveWith(m, round, 0);
        vm.assertTrue(isVoid(m));
    }

    /// By the named round, and again with the round found.
    function voids(bytes32 m, uint80 round, IFeedResolver.VoidReason reason) private {
        uint256 snapshot = vm.snapshotState();
        vm.expectEmit(true, true, true, true, address(wallet));
        emit MarketVoided(m, uint8(reason));
        resolver.voidMarket(m);
        vm.revertToState(snapshot);
        vm.expectEmit(true, true, true, true, address(wallet));
        emit MarketVoided(m, uint8(reason));
        vm.prank(STRANGER);
        resolver.voidWith(m, round, 0);
        vm.assertTrue(isVoid(m));
    }

    function tooEarlyError(bytes32 m, uint256 notBefore) private pure returns (bytes memory) {
        return abi.encodeWithSelector(IFeedResolver.TooEarly.selector, m, notBefore);
    }

    function tooEarly(bytes32 m, uint80 round, uint256 notBefore) private {
        vm.expectRevert(tooEarlyError(m, notBefore));
        resolver.resolveWith(m, round, 0);
    }

    function noReading(uint256 moment, uint8 problem) private view returns (bytes memory) {
        return abi.encodeWithSelector(IFeedResolver.NoReading.selector, address(feed), moment, problem);
    }

    function notInEffect(bytes32 m, uint80 round, uint256 moment) private {
        vm.expectRevert(abi.encodeWithSelector(IFeedResolver.NotInEffect.selector, round, moment));
        resolver.resolveWith(m, round, 0);
    }

    function nothingToVoidFor(bytes32 m, uint80 round) private {
        vm.expectRevert(abi.encodeWithSelector(IFeedResolver.NothingToVoidFor.selector, m));
        resolver.voidWith(m, round, 0);
    }
}
