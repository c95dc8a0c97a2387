// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {Ownable} from "@openzeppelin/contracts/access/Ownable.sol";

import {IAgentLister} from "../../../../contracts/agent/IAgentLister.sol";
import {IFeedResolver} from "../../../../contracts/agent/IFeedResolver.sol";
import {ISettlementWallet} from "../../../../contracts/agent/ISettlementWallet.sol";
import {ObservationFeed} from "../../../../contracts/feeds/ObservationFeed.sol";
import {FeedCheck} from "../../../../contracts/lib/FeedCheck.sol";
import {LocalFeed} from "../../../../contracts/local/LocalFeed.sol";
import {OnUsdc} from "./WalletBase.sol";

contract SixDecimals {
    function decimals() external pure returns (uint8) {
        return 6;
    }
}

contract NoDecimals {}

/// A feed in all but its readings.
contract NoReadings {
    function decimals() external pure returns (uint8) {
        return 8;
    }
}

/// What can be listed, by whom and on what; and everything that cannot.
contract ListingTest is OnUsdc {
    bytes32 private constant NEW = keccak256("new");

    event MarketListed(
        bytes32 indexed marketId,
        address indexed feed,
        address indexed lister,
        IAgentLister.MarketSpec spec,
        IAgentLister.MarketTerms terms,
        string metadata
    );
    event MarketOpened(
        bytes32 indexed marketId,
        uint32 index,
        uint64 opensAt,
        uint64 closesAt,
        uint16 feeBps,
        uint64 potCap,
        uint32[] weights
    );
    event MarketRegistered(bytes32 indexed marketId, address indexed feed);
    event FeedSet(
        address indexed feed,
        bool allowed,
        bool published,
        uint32 memory_,
        uint32 maxAge,
        uint32 lag,
        uint64 potCap,
        uint32 step,
        uint64 feedCap
    );
    event BoundsSet(IAgentLister.Bounds bounds);

    // What a listed market is

    function test_aListedMarketReadsBack() public {
        IAgentLister.MarketSpec memory s = rangeSpec();
        s.weights[2] = 30e6;
        IAgentLister.MarketTerms memory t = lister.preview(s);
        vm.assertEq(t.feeBps, FEE_BPS);
        vm.assertEq(t.potCap, POT_CAP);
        vm.assertFalse(t.published);
        vm.assertEq(t.maxAge, MAX_AGE);
        vm.assertEq(t.earlyFrom, 0);
        vm.assertEq(t.settlesAfter, END);
        vm.assertEq(t.voidsAfter, END + VOID_DELAY);

        vm.expectEmit(true, true, true, true, address(wallet));
        emit MarketOpened(NEW, 6, s.opensAt, s.closesAt, FEE_BPS, POT_CAP, s.weights);
        vm.expectEmit(true, true, true, true, address(resolver));
        emit MarketRegistered(NEW, s.feed);
        vm.expectEmit(true, true, true, true, address(lister));
        emit MarketListed(NEW, s.feed, LISTER, s, t, '{"id":"m"}');
        list(NEW, s);

        ISettlementWallet.MarketView memory v = wallet.market(NEW);
        vm.assertEq(v.index, 6);
        vm.assertTrue(v.status == ISettlementWallet.MarketStatus.Open);
        vm.assertEq(v.outcomes, 4);
        vm.assertEq(v.opensAt, s.opensAt);
        vm.assertEq(v.closesAt, s.closesAt);
        vm.assertEq(v.feeBps, FEE_BPS);
        vm.assertEq(v.potCap, POT_CAP);
        vm.assertEq(keccak256(abi.encode(v.weights)), keccak256(abi.encode(s.weights)));
        vm.assertEq(wallet.marketCount(), 6);
        vm.assertEq(wallet.marketIdAt(5), NEW);
        vm.assertEq(wallet.stakeCount(NEW), 0);
        resolvesBy(NEW, s, t);
    }

    function test_theTermsOfEachKindReadBack() public view {
        resolvesBy(LATE, thresholdSpec(false), lister.preview(thresholdSpec(false)));
        resolvesBy(UPDOWN, directionSpec(), lister.preview(directionSpec()));
        resolvesBy(POSTED, postedSpec(), lister.preview(postedSpec()));
        vm.assertEq(resolver.terms(LATE).settlesAfter, END);
        vm.assertEq(resolver.terms(UPDOWN).settlesAfter, END);
        vm.assertTrue(resolver.terms(POSTED).published);
        vm.assertEq(resolver.terms(POSTED).settlesAfter, END + LAG + DISPUTE);
        vm.assertEq(resolver.terms(POSTED).voidsAfter, END + LAG + DISPUTE + VOID_DELAY);
    }

    function resolvesBy(bytes32 id, IAgentLister.MarketSpec memory s, IAgentLister.MarketTerms memory t) private view {
        IFeedResolver.Terms memory got = resolver.terms(id);
        IFeedResolver.Terms memory expected = IFeedResolver.Terms({
            kind: s.kind,
            feed: s.feed,
            earlyResolvable: s.earlyResolvable,
            published: t.published,
            grid: false,
            maxAge: t.maxAge,
            startAt: s.startAt,
            endsAt: s.endsAt,
            earlyFrom: t.earlyFrom,
            settlesAfter: t.settlesAfter,
            voidsAfter: t.voidsAfter,
            target: s.target,
            bounds: s.bounds
        });
        vm.assertEq(keccak256(abi.encode(got)), keccak256(abi.encode(expected)));
    }

    function test_openingInThePastMeansNow() public {
        IAgentLister.MarketSpec memory s = thresholdSpec(false);
        s.opensAt = uint64(T0 - 1 days);
        list(NEW, s);
        vm.assertEq(wallet.market(NEW).opensAt, T0);
    }

    function test_weightsArePrices() public {
        IAgentLister.MarketSpec memory s = rangeSpec();
        (s.weights[0], s.weights[1], s.weights[2], s.weights[3]) = (1e6, 2e6, 3e6, 4e6);
        list(NEW, s);
        for (uint8 k; k < 4; ++k) {
            vm.assertEq(wallet.outcomeBook(NEW, k).price, 0.1e18 * (uint256(k) + 1));
            vm.assertEq(wallet.outcomeBook(NEW, k).weight, s.weights[k]);
        }
    }

    // Who lists

    function test_onlyAListerLists() public {
        address[6] memory others = [SAFE, RELAYER, CREDITOR, GUARDIAN, PUBLISHER, STRANGER];
        for (uint256 k; k < others.length; ++k) {
            vm.prank(others[k]);
            vm.expectRevert(abi.encodeWithSelector(IAgentLister.NotLister.selector, others[k]));
            lister.list(NEW, thresholdSpec(false), "");
        }
        vm.prank(SAFE);
        lister.setLister(LISTER, false);
        refused(thresholdSpec(false), abi.encodeWithSelector(IAgentLister.NotLister.selector, LISTER));
    }

    function test_onlyTheListerOpensAndRegisters() public {
        ISettlementWallet.OpenParams memory p;
        p.closesAt = uint64(CLOSE);
        p.potCap = 1e9;
        p.weights = new uint32[](2);
        (p.weights[0], p.weights[1]) = (WEIGHT, WEIGHT);
        IFeedResolver.Terms memory t = resolver.terms(LATE);
        address[6] memory others = [SAFE, LISTER, RELAYER, CREDITOR, GUARDIAN, STRANGER];
        for (uint256 k; k < others.length; ++k) {
            vm.startPrank(others[k]);
            vm.expectRevert(abi.encodeWithSelector(ISettlementWallet.NotLister.selector, others[k], address(lister)));
            wallet.open(NEW, p);
            vm.expectRevert(abi.encodeWithSelector(IFeedResolver.NotLister.selector, others[k], address(lister)));
            resolver.register(NEW, t);
            vm.stopPrank();
        }
    }

    function test_aMarketIsListedOnce() public {
        refused(OTHER, thresholdSpec(false), abi.encodeWithSelector(ISettlementWallet.AlreadyOpened.selector, OTHER));
        feed.push(90e8, END);
        vm.warp(END + 1);
        resolver.resolve(LATE);
        IAgentLister.MarketSpec memory s = thresholdSpec(false);
        (s.closesAt, s.endsAt) = (s.closesAt + 7 days, s.endsAt + 14 days);
        refused(LATE, s, abi.encodeWithSelector(ISettlementWallet.AlreadyOpened.selector, LATE));
        // Nor does the resolver take other terms for a market it has.
        IFeedResolver.Terms memory t = resolver.terms(LATE);
        vm.prank(address(lister));
        vm.expectRevert(abi.encodeWithSelector(IFeedResolver.AlreadyRegistered.selector, LATE));
        resolver.register(LATE, t);
    }

    // Stakes end before the answer is being measured

    function test_aDirectionMarketOpenWhileItsStartIsMeasuredCannotBeListed() public {
        uint256 latest = START - MEMORY - 60;
        IAgentLister.MarketSpec memory s = directionSpec();
        s.opensAt = uint64(latest - 1 hours);
        s.closesAt = uint64(latest + 1);
        refused(s, closesTooLate(latest + 1, latest));
        s.closesAt = uint64(START - 1);
        refused(s, closesTooLate(START - 1, latest));
        s.closesAt = uint64(START);
        refused(s, closesTooLate(START, latest));
        s.closesAt = uint64(END - 1); // as the first edition had it: until the last second, with the price in view
        refused(s, closesTooLate(END - 1, latest));
        s.closesAt = uint64(latest);
        list(NEW, s);
    }

    function test_aDirectionRoundShorterThanTwiceTheMemoryCannotBeListed() public {
        IAgentLister.MarketSpec memory s = directionSpec();
        s.endsAt = uint64(START + 2 * MEMORY - 1);
        refused(s, abi.encodeWithSelector(IAgentLister.RoundTooShort.selector, 2 * MEMORY - 1, 2 * MEMORY));
        s.endsAt = uint64(START - 1);
        refused(s, abi.encodeWithSelector(IAgentLister.RoundTooShort.selector, 0, 2 * MEMORY));
        s.endsAt = uint64(START + 2 * MEMORY);
        list(NEW, s);
    }

    function test_aMarketOpenWhileItsEndIsMeasuredCannotBeListed() public {
        uint256 latest = END - MEMORY - 60;
        IAgentLister.MarketSpec[2] memory both = [thresholdSpec(false), rangeSpec()];
        for (uint256 k; k < 2; ++k) {
            IAgentLister.MarketSpec memory s = both[k];
            s.opensAt = uint64(latest - 30);
            s.closesAt = uint64(latest + 1);
            refused(s, closesTooLate(latest + 1, latest));
            s.closesAt = uint64(END);
            refused(s, closesTooLate(END, latest));
            s.closesAt = uint64(latest);
            list(keccak256(abi.encode(k)), s);
        }
    }

    function test_stakesForMoreThanHalfOfWhatCanMoveCannotBeListed() public {
        IAgentLister.MarketSpec[2] memory both = [thresholdSpec(false), rangeSpec()];
        uint256 span = END - MEMORY - T0;
        for (uint256 k; k < 2; ++k) {
            IAgentLister.MarketSpec memory s = both[k];
            s.closesAt = uint64(T0 + span / 2 + 1);
            refused(s, openForTooLong(span / 2 + 1, span - span / 2 - 1));
            s.closesAt = uint64(T0 + span / 2);
            list(keccak256(abi.encode(k)), s);
        }
    }

    /// Every time of every kind, against the rules written down here on their own: listed if and only if fair.
    function testFuzz_whatCanBeListedIsFair(uint8 kind, bool early, uint256 seed) public view {
        kind %= 3;
        IAgentLister.MarketSpec memory s = kind == 1 ? rangeSpec() : kind == 2 ? directionSpec() : thresholdSpec(early);
        uint256 unit = [uint256(1), 60, 600, 3600][seed & 3];
        s.opensAt = uint64(T0 + (seed >> 8) % 40 * unit);
        s.closesAt = uint64(T0 + (seed >> 16) % 60 * unit);
        uint256 start = s.closesAt + (seed >> 24) % 30 * unit + edge(seed >> 32);
        if (kind == 2) s.startAt = uint64(start);
        s.endsAt = uint64(start + (seed >> 40) % 60 * unit + edge(seed >> 48));
        bool listed;
        try lister.preview(s) returns (IAgentLister.MarketTerms memory t) {
            listed = true;
            vm.assertTrue(t.maxAge <= MAX_AGE, "older than the feed's");
            vm.assertTrue((kind == 2 ? s.startAt : s.endsAt) - t.maxAge >= s.closesAt + MARGIN, "it was known");
        } catch {}
        vm.assertEq(listed, fair(s), "listed and fair are not the same");
    }

    /// Near the limits: the margin and the memory, once or twice, and a second more or less.
    function edge(uint256 seed) private pure returns (uint256) {
        uint256 base = [uint256(1), MARGIN + MEMORY + 1, MEMORY + 1, 2 * uint256(MEMORY) + 1][seed & 3];
        return base + (seed >> 2) % 3 - 1;
    }

    function fair(IAgentLister.MarketSpec memory s) private view returns (bool) {
        uint256 opens = s.opensAt < block.timestamp ? block.timestamp : s.opensAt;
        uint256 closes = s.closesAt;
        uint256 ends = s.endsAt;
        if (closes <= opens) return false;
        if (s.kind == IFeedResolver.Kind.Direction) {
            return closes + 60 + MEMORY <= s.startAt && ends >= uint256(s.startAt) + 2 * MEMORY;
        }
        if (s.earlyResolvable) return false; // it is no grid feed
        return closes + 60 + MEMORY <= ends && 2 * closes + MEMORY <= ends + opens;
    }

    function test_times() public {
        IAgentLister.MarketSpec memory s = thresholdSpec(false);
        s.closesAt = uint64(T0 + 100);
        s.opensAt = uint64(T0 + 100);
        refused(s, abi.encodeWithSelector(IAgentLister.ClosesBeforeItOpens.selector, T0 + 100, T0 + 100));
        s.opensAt = uint64(T0 - 1000);
        s.closesAt = uint64(T0);
        refused(s, abi.encodeWithSelector(IAgentLister.ClosesInThePast.selector, T0, T0));
        s.closesAt = uint64(T0 - 10);
        refused(s, abi.encodeWithSelector(IAgentLister.ClosesInThePast.selector, T0 - 10, T0));
        s = thresholdSpec(false);
        uint256 most = block.timestamp + 366 days;
        s.endsAt = uint64(most + 1);
        refused(s, outOfBounds(IAgentLister.Field.EndsAt, most + 1, 1, most));
    }

    // What a market asks

    function test_kinds() public {
        bytes memory call = abi.encodeCall(lister.list, (NEW, thresholdSpec(false), ""));
        call[4 + 32 * 3 + 31] = 0x03; // selector, three words of the call's head, then `kind`
        vm.prank(LISTER);
        (bool ok,) = address(lister).call(call);
        vm.assertFalse(ok);
        call[4 + 32 * 3 + 31] = 0x00;
        vm.prank(LISTER);
        (ok,) = address(lister).call(call);
        vm.assertTrue(ok);
    }

    function test_threshold() public {
        IAgentLister.MarketSpec memory s = thresholdSpec(false);
        s.target = 0;
        refused(s, abi.encodeWithSelector(IAgentLister.TargetMustBePositive.selector, 0));
        s.target = -1;
        refused(s, abi.encodeWithSelector(IAgentLister.TargetMustBePositive.selector, -1));
        s.target = int256(uint256(1) << 96);
        refused(s, outOfBounds(IAgentLister.Field.Target, 1 << 96, 1, (1 << 96) - 1));
        s = thresholdSpec(false);
        s.bounds = new int256[](1);
        refused(s, unused(IAgentLister.Field.Bounds, IFeedResolver.Kind.Threshold));
        s = thresholdSpec(false);
        s.weights = new uint32[](3);
        refused(s, abi.encodeWithSelector(IAgentLister.WrongNumberOfOutcomes.selector, 3, 2, 2));
        s = thresholdSpec(false);
        s.startAt = 1;
        refused(s, unused(IAgentLister.Field.StartAt, IFeedResolver.Kind.Threshold));
    }

    function test_range() public {
        IAgentLister.MarketSpec memory s = rangeSpec();
        s.target = 1;
        refused(s, unused(IAgentLister.Field.Target, IFeedResolver.Kind.Range));
        s = rangeSpec();
        s.earlyResolvable = true;
        refused(s, unused(IAgentLister.Field.EarlyResolvable, IFeedResolver.Kind.Range));
        s = rangeSpec();
        s.startAt = 1;
        refused(s, unused(IAgentLister.Field.StartAt, IFeedResolver.Kind.Range));
        s = rangeSpec();
        s.bounds = new int256[](2);
        refused(s, abi.encodeWithSelector(IAgentLister.BoundsDoNotMatchOutcomes.selector, 2, 4));
        s = rangeSpec();
        s.weights = new uint32[](1);
        s.weights[0] = WEIGHT;
        refused(s, abi.encodeWithSelector(IAgentLister.WrongNumberOfOutcomes.selector, 1, 2, 8));
        s.weights = new uint32[](9);
        refused(s, abi.encodeWithSelector(IAgentLister.WrongNumberOfOutcomes.selector, 9, 2, 8));
        s = rangeSpec();
        s.bounds[1] = s.bounds[0];
        refused(s, abi.encodeWithSelector(IAgentLister.BoundsMustRise.selector, 1, s.bounds[1], 52e8));
        s.bounds[0] = 0;
        refused(s, abi.encodeWithSelector(IAgentLister.BoundsMustRise.selector, 0, 0, 1));
        s = rangeSpec();
        s.bounds[2] = int256(uint256(1) << 96);
        refused(s, outOfBounds(IAgentLister.Field.Bounds, 1 << 96, 1, (1 << 96) - 1));
    }

    /// A bucket just wider than what the cap of a pool feed is worked out for is listed, and one just narrower is not.
    function test_aBucketNarrowerThanFourPercentIsRefused() public {
        IAgentLister.MarketSpec memory s = rangeSpec();
        s.bounds[1] = s.bounds[0] * 104 / 100 - 1;
        refused(s, abi.encodeWithSelector(IAgentLister.BoundsMustRise.selector, 1, s.bounds[1], s.bounds[1] + 1));
        s.bounds[1] += 1;
        lister.preview(s);
    }

    function test_direction() public {
        IAgentLister.MarketSpec memory s = directionSpec();
        s.target = 1;
        refused(s, unused(IAgentLister.Field.Target, IFeedResolver.Kind.Direction));
        s = directionSpec();
        s.earlyResolvable = true;
        refused(s, unused(IAgentLister.Field.EarlyResolvable, IFeedResolver.Kind.Direction));
        s = directionSpec();
        s.bounds = new int256[](1);
        refused(s, unused(IAgentLister.Field.Bounds, IFeedResolver.Kind.Direction));
        s = directionSpec();
        s.weights = new uint32[](3);
        refused(s, abi.encodeWithSelector(IAgentLister.WrongNumberOfOutcomes.selector, 3, 2, 2));
    }

    // What the Safe alone chooses

    /// W3: an outcome cannot be chosen by listing on a feed of one's own.
    function test_aFeedThatTheSafeDidNotAllowCannotBeListedOn() public {
        LocalFeed own = new LocalFeed();
        own.push(90e8, T0);
        IAgentLister.MarketSpec memory s = thresholdSpec(false);
        s.feed = address(own);
        refused(s, abi.encodeWithSelector(IAgentLister.FeedNotAllowed.selector, s.feed));
        vm.startPrank(LISTER);
        vm.expectRevert(abi.encodeWithSelector(Ownable.OwnableUnauthorizedAccount.selector, LISTER));
        lister.setFeed(address(own), true, MEMORY, MAX_AGE, POT_CAP, FEED_CAP);
        vm.stopPrank();
        vm.prank(SAFE);
        lister.setFeed(address(own), true, MEMORY, MAX_AGE, POT_CAP, FEED_CAP);
        list(NEW, s);
        vm.prank(SAFE);
        lister.setFeed(address(own), false, MEMORY, MAX_AGE, POT_CAP, FEED_CAP);
        refused("another", s, abi.encodeWithSelector(IAgentLister.FeedNotAllowed.selector, s.feed));
        // The market that was listed goes on.
        vm.assertTrue(isOpen(NEW));
        settle(NEW, YES, 10e6, ALICE_KEY);
    }

    /// The lister names neither fee nor ages nor delays nor pot: they are what the Safe has set when the market is listed.
    function test_feeAgesDelaysAndPotAreTheSafes() public {
        IAgentLister.Bounds memory b = defaultBounds();
        (b.feeBps, b.disputeWindow, b.voidDelay) = (350, 2 hours, 5 days);
        vm.prank(LISTER);
        vm.expectRevert(abi.encodeWithSelector(Ownable.OwnableUnauthorizedAccount.selector, LISTER));
        lister.setBounds(b);
        vm.startPrank(SAFE);
        vm.expectEmit(true, true, true, true, address(lister));
        emit BoundsSet(b);
        lister.setBounds(b);
        vm.expectEmit(true, true, true, true, address(lister));
        emit FeedSet(address(posted), true, true, 20 minutes, 30 minutes, LAG, 5e9, 0, FEED_CAP);
        lister.setFeed(address(posted), true, 20 minutes, 30 minutes, 5e9, FEED_CAP);
        vm.stopPrank();
        vm.assertEq(keccak256(abi.encode(lister.bounds())), keccak256(abi.encode(b)));
        list(NEW, postedSpec());
        vm.assertEq(wallet.market(NEW).feeBps, 350);
        vm.assertEq(wallet.market(NEW).potCap, 5e9);
        vm.assertEq(resolver.terms(NEW).maxAge, 30 minutes);
        vm.assertEq(resolver.terms(NEW).settlesAfter, END + LAG + 2 hours);
        vm.assertEq(resolver.terms(NEW).voidsAfter, END + LAG + 2 hours + 5 days);
        // A market listed before stays as it was.
        vm.assertEq(wallet.market(POSTED).feeBps, FEE_BPS);
        vm.assertEq(resolver.terms(POSTED).settlesAfter, END + LAG + DISPUTE);
    }

    function test_weightsAreWithinTheSafesBounds() public {
        IAgentLister.MarketSpec memory s = rangeSpec();
        s.weights[2] = 1e6 - 1;
        refused(s, outOfBounds(IAgentLister.Field.Weight, 1e6 - 1, 1e6, 1e9));
        s.weights[2] = 1e9 + 1;
        refused(s, outOfBounds(IAgentLister.Field.Weight, 1e9 + 1, 1e6, 1e9));
        s.weights[2] = 1e9;
        s.weights[1] = 1e6;
        list(NEW, s);
    }

    function test_theSafesBoundsHaveBounds() public {
        IAgentLister.Bounds memory b = defaultBounds();
        b.feeBps = 1001;
        boundsRefused(b, outOfBounds(IAgentLister.Field.FeeBps, 1001, 175, 1000));
        b.feeBps = 174;
        boundsRefused(b, outOfBounds(IAgentLister.Field.FeeBps, 174, 175, 1000));
        b = defaultBounds();
        b.voidDelay = 1 hours - 1;
        boundsRefused(b, outOfBounds(IAgentLister.Field.VoidDelay, 1 hours - 1, 1 hours, 90 days));
        b.voidDelay = 90 days + 1;
        boundsRefused(b, outOfBounds(IAgentLister.Field.VoidDelay, 90 days + 1, 1 hours, 90 days));
        b = defaultBounds();
        b.minWeight = 0;
        boundsRefused(b, outOfBounds(IAgentLister.Field.MinWeight, 0, 1, 1e9));
        b.minWeight = 1e9 + 1;
        boundsRefused(b, outOfBounds(IAgentLister.Field.MinWeight, 1e9 + 1, 1, 1e9));
        b.maxWeight = 0;
        boundsRefused(b, outOfBounds(IAgentLister.Field.MaxWeight, 0, 1, type(uint32).max));
        b = defaultBounds();
        b.disputeWindow = 1 minutes - 1;
        boundsRefused(b, outOfBounds(IAgentLister.Field.DisputeWindow, 1 minutes - 1, 1 minutes, 7 days));
        b.disputeWindow = 7 days + 1;
        boundsRefused(b, outOfBounds(IAgentLister.Field.DisputeWindow, 7 days + 1, 1 minutes, 7 days));
    }

    function boundsRefused(IAgentLister.Bounds memory b, bytes memory why) private {
        vm.prank(SAFE);
        vm.expectRevert(why);
        lister.setBounds(b);
    }

    // Which feeds the Safe can allow

    function test_onlyFeedsThatCanDecideAreAllowed() public {
        feedRefused(address(0xDEAD), abi.encodeWithSelector(FeedCheck.FeedHasNoCode.selector, address(0xDEAD)));
        address f = address(new SixDecimals());
        feedRefused(f, abi.encodeWithSelector(FeedCheck.FeedDecimalsMustBe8.selector, f));
        f = address(new NoDecimals());
        feedRefused(f, abi.encodeWithSelector(FeedCheck.FeedDecimalsMustBe8.selector, f));
        f = address(new NoReadings());
        feedRefused(f, abi.encodeWithSelector(FeedCheck.FeedUnreadable.selector, f));
        LocalFeed own = new LocalFeed();
        feedRefused(address(own), abi.encodeWithSelector(FeedCheck.FeedUnreadable.selector, own));
        own.push(0, T0);
        feedRefused(address(own), abi.encodeWithSelector(FeedCheck.FeedNotPositive.selector, own, 0));
        own.push(-1, T0);
        feedRefused(address(own), abi.encodeWithSelector(FeedCheck.FeedNotPositive.selector, own, -1));
        own.push(90e8, T0 - MAX_AGE - 1);
        feedRefused(address(own), abi.encodeWithSelector(FeedCheck.FeedNotFresh.selector, own, MAX_AGE + 1, MAX_AGE));
        own.push(90e8, T0 - MAX_AGE);
        vm.prank(SAFE);
        lister.setFeed(address(own), true, MEMORY, MAX_AGE, POT_CAP, FEED_CAP);
        vm.assertTrue(lister.feed(address(own)).allowed);
        vm.assertFalse(lister.feed(address(own)).published);
    }

    /// The same, when a market is listed: a feed may have died since it was allowed.
    function test_aFeedIsCheckedAgainWhenAMarketIsListed() public {
        IAgentLister.MarketSpec memory s = thresholdSpec(false);
        feed.push(0, T0);
        refused(s, abi.encodeWithSelector(FeedCheck.FeedNotPositive.selector, feed, 0));
        feed.push(90e8, T0);
        vm.warp(T0 + MAX_AGE + 1);
        s.opensAt = uint64(block.timestamp);
        refused(s, abi.encodeWithSelector(FeedCheck.FeedNotFresh.selector, feed, MAX_AGE + 1, MAX_AGE));
        feed.push(90e8, block.timestamp);
        list(NEW, s);
        vm.etch(address(feed), address(new SixDecimals()).code);
        refused("six", s, abi.encodeWithSelector(FeedCheck.FeedDecimalsMustBe8.selector, feed));
        vm.etch(address(feed), address(new NoReadings()).code);
        refused("none", s, abi.encodeWithSelector(FeedCheck.FeedUnreadable.selector, feed));
        vm.etch(address(feed), "");
        refused("gone", s, abi.encodeWithSelector(FeedCheck.FeedHasNoCode.selector, feed));
    }

    function test_lagMemoryAgeAndPotOfAFeed() public {
        ObservationFeed slow = observationFeed(1801);
        feedRefused(address(slow), abi.encodeWithSelector(IAgentLister.FeedLagTooLong.selector, 1801, 1800));
        slow = observationFeed(1800);
        vm.startPrank(SAFE);
        lister.setFeed(address(slow), true, 1800, MAX_AGE, POT_CAP, FEED_CAP);
        vm.assertEq(lister.feed(address(slow)).lag, 1800);
        vm.assertTrue(lister.feed(address(slow)).published);
        // What can still be written back belongs to what a reading remembers.
        vm.expectRevert(outOfBounds(IAgentLister.Field.Memory, 1799, 1800, 30 days));
        lister.setFeed(address(slow), true, 1799, MAX_AGE, POT_CAP, FEED_CAP);
        vm.expectRevert(outOfBounds(IAgentLister.Field.Memory, 0, 1, 30 days));
        lister.setFeed(address(feed), true, 0, MAX_AGE, POT_CAP, FEED_CAP);
        vm.expectRevert(outOfBounds(IAgentLister.Field.Memory, 30 days + 1, 1, 30 days));
        lister.setFeed(address(feed), true, 30 days + 1, MAX_AGE, POT_CAP, FEED_CAP);
        vm.expectRevert(outOfBounds(IAgentLister.Field.PotCap, 7e6 - 1, 7e6, 5e17));
        lister.setFeed(address(feed), true, MEMORY, MAX_AGE, 7e6 - 1, FEED_CAP);
        vm.expectRevert(outOfBounds(IAgentLister.Field.PotCap, 5e17 + 1, 7e6, 5e17));
        lister.setFeed(address(feed), true, MEMORY, MAX_AGE, 5e17 + 1, FEED_CAP);
        vm.expectRevert(outOfBounds(IAgentLister.Field.FeedCap, 5e9 - 1, 5e9, FEED_CAP));
        lister.setFeed(address(feed), true, MEMORY, MAX_AGE, 5e9, 5e9 - 1);
        vm.stopPrank();
        vm.assertTrue(lister.feed(address(feed)).allowed);
        vm.assertEq(lister.feed(address(feed)).memory_, MEMORY);
    }

    function observationFeed(uint32 lag) private returns (ObservationFeed own) {
        own = new ObservationFeed(SAFE, "m", lag);
        vm.prank(SAFE);
        own.setPublisher(PUBLISHER);
        vm.prank(PUBLISHER);
        own.post(90e8, uint64(block.timestamp));
    }

    // Feeds that someone posts to

    /// W5: a publisher's lie would settle such a market before anyone could say so.
    function test_aPublishedFeedIsNeverEarlyResolvable() public {
        IAgentLister.MarketSpec memory s = postedSpec();
        s.earlyResolvable = true;
        refused(s, abi.encodeWithSelector(IAgentLister.NotEarlyOnThisFeed.selector, posted));
        // Nor does it help to leave the post empty for the moment of listing.
        vm.prank(SAFE);
        posted.setPublisher(address(0));
        refused(s, abi.encodeWithSelector(IAgentLister.NotEarlyOnThisFeed.selector, posted));
    }

    /// A feed of rounds cannot say whether there was a crossing.
    function test_aFeedOfRoundsIsNeverEarlyResolvable() public {
        refused(thresholdSpec(true), abi.encodeWithSelector(IAgentLister.NotEarlyOnThisFeed.selector, feed));
    }

    /// A feed whose lag or publisher is another than when the Safe looked at it takes no new markets until the Safe looks again.
    function test_aFeedThatChangedCannotBeListedOn() public {
        vm.mockCall(address(feed), abi.encodeWithSignature("maxLag()"), abi.encode(60));
        refused(thresholdSpec(false), abi.encodeWithSelector(IAgentLister.FeedChanged.selector, feed));
        vm.clearMockedCalls();
        vm.mockCall(address(feed), abi.encodeWithSignature("publisher()"), abi.encode(PUBLISHER));
        refused(thresholdSpec(false), abi.encodeWithSelector(IAgentLister.FeedChanged.selector, feed));
        vm.prank(SAFE);
        lister.setFeed(address(feed), true, MEMORY, MAX_AGE, POT_CAP, FEED_CAP);
        vm.assertTrue(lister.preview(thresholdSpec(false)).published);
        vm.clearMockedCalls();
        // Once published it stays so: the promise that it can be condemned was given.
        vm.assertTrue(lister.preview(thresholdSpec(false)).published);
    }

    function test_aCondemnedFeedCannotBeListedOnAgain() public {
        bytes memory condemned = abi.encodeWithSelector(IAgentLister.FeedIsCondemned.selector, posted);
        vm.startPrank(SAFE);
        lister.condemn(address(posted));
        vm.assertTrue(lister.feed(address(posted)).condemned);
        vm.assertTrue(lister.feed(address(posted)).condemned);
        vm.expectRevert(condemned);
        lister.setFeed(address(posted), true, MEMORY, MAX_AGE, POT_CAP, FEED_CAP);
        vm.expectRevert(condemned);
        lister.condemn(address(posted));
        vm.stopPrank();
        refused(postedSpec(), condemned);
    }

    function test_aFeedWithoutAPublisherCannotBeCondemned() public {
        vm.startPrank(SAFE);
        vm.expectRevert(abi.encodeWithSelector(IAgentLister.FeedHasNoPublisher.selector, feed));
        lister.condemn(address(feed));
        vm.expectRevert(abi.encodeWithSelector(IAgentLister.FeedHasNoPublisher.selector, STRANGER));
        lister.condemn(STRANGER);
        vm.stopPrank();
        vm.assertFalse(lister.feed(address(feed)).condemned);
    }

    // Unknown markets

    function test_unknownMarketsAreRefusedEverywhere() public {
        bytes memory unknown = abi.encodeWithSelector(ISettlementWallet.UnknownMarket.selector, NEW);
        vm.expectRevert(unknown);
        wallet.market(NEW);
        vm.expectRevert(unknown);
        wallet.outcomeBook(NEW, 0);
        vm.expectRevert(unknown);
        wallet.quote(NEW, 0, 1e6);
        vm.expectRevert(unknown);
        wallet.stakeCount(NEW);
        vm.expectRevert(unknown);
        wallet.stakesOf(NEW, 0, 1);
        vm.expectRevert(unknown);
        wallet.pay(NEW, new uint256[](0));
        unknown = abi.encodeWithSelector(IFeedResolver.UnknownMarket.selector, NEW);
        vm.expectRevert(unknown);
        resolver.terms(NEW);
        vm.expectRevert(unknown);
        resolver.resolve(NEW);
        vm.expectRevert(unknown);
        resolver.resolveWith(NEW, 1, 0);
        vm.expectRevert(unknown);
        resolver.voidMarket(NEW);
        vm.expectRevert(unknown);
        resolver.voidWith(NEW, 1, 0);
    }

    function refused(IAgentLister.MarketSpec memory s, bytes memory why) private {
        refused(NEW, s, why);
    }

    function refused(bytes32 id, IAgentLister.MarketSpec memory s, bytes memory why) private {
        vm.prank(LISTER);
        vm.expectRevert(why);
        lister.list(id, s, "");
    }

    function feedRefused(address feed_, bytes memory why) private {
        vm.prank(SAFE);
        vm.expectRevert(why);
        lister.setFeed(feed_, true, 1800, MAX_AGE, POT_CAP, FEED_CAP);
        vm.assertFalse(lister.feed(feed_).allowed);
    }

    function closesTooLate(uint256 closesAt, uint256 latest) private pure returns (bytes memory) {
        return abi.encodeWithSelector(IAgentLister.ClosesTooLate.selector, closesAt, latest);
    }

    function openForTooLong(uint256 open, uint256 longest) private pure returns (bytes memory) {
        return abi.encodeWithSelector(IAgentLister.OpenForTooLong.selector, open, longest);
    }

    function outOfBounds(IAgentLister.Field field, uint256 value, uint256 min, uint256 max)
        private
        pure
        returns (bytes memory)
    {
        return abi.encodeWithSelector(IAgentLister.OutOfBounds.selector, field, value, min, max);
    }

    function unused(IAgentLister.Field field, IFeedResolver.Kind kind) private pure returns (bytes memory) {
        return abi.encodeWithSelector(IAgentLister.FieldNotUsedByKind.selector, field, kind);
    }
}
