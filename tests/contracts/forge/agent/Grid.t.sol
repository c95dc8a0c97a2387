// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {IAgentLister} from "../../../../contracts/agent/IAgentLister.sol";
import {IFeedResolver} from "../../../../contracts/agent/IFeedResolver.sol";
import {ISettlementWallet} from "../../../../contracts/agent/ISettlementWallet.sol";
import {IPoolFeed} from "../../../../contracts/feeds/IPoolFeed.sol";
import {PoolFeed} from "../../../../contracts/feeds/PoolFeed.sol";
import {FeedCheck} from "../../../../contracts/lib/FeedCheck.sol";
import {LocalFeed} from "../../../../contracts/local/LocalFeed.sol";
import {Coin, IPool, Pools} from "../feeds/Pools.sol";
import {OnUsdc} from "./WalletBase.sol";

/// A feed behind a proxy, which becomes a grid feed after it was allowed.
contract TurningFeed is LocalFeed {
    uint32 public step;

    function turn(uint32 step_) external {
        step = step_;
    }
}

/// Agent markets on a feed that no one posts: a real pool, strangers who record and resolve, and times at which no one did.
contract GridTest is OnUsdc, Pools {
    uint32 private constant WINDOW = 2 minutes;
    uint32 private constant STEP = 1 minutes;
    uint32 private constant GRID_MEMORY = WINDOW + STEP;
    uint32 private constant GRID_AGE = 5 minutes;
    uint256 private constant OUTAGE = 1 hours;
    uint256 private constant GRID_EARLY_FROM = CLOSE + MARGIN + GRID_MEMORY;
    uint64 private constant CAP = 200e6;
    int24 private constant ONE_USD = -276_324;
    int24 private constant UP_5 = ONE_USD + 488; // five per cent higher
    int256 private constant CROSSED = 1_040_000e8; // 1.04 million USD

    bytes32 private constant G_EARLY = keccak256("grid: early threshold");
    bytes32 private constant G_LATE = keccak256("grid: threshold");
    bytes32 private constant G_UPDOWN = keccak256("grid: direction");
    bytes32 private constant G_RANGED = keccak256("grid: range");

    IPool private pool;
    PoolFeed private grid;
    Coin private coin;

    function setUp() public override {
        super.setUp();
        newFactory();
        Coin usd;
        (coin, usd) = coins(18, 6, true);
        pool = newPool(coin, usd, ONE_USD);
        grow(pool, uint256(GRID_MEMORY) + OUTAGE + 1);
        provide(pool, -WIDEST, WIDEST, 1e17);
        coin.mint(address(0xCAFE), 1_000_000e18 - coin.totalSupply());
        grid = new PoolFeed(config(coin, usd, 1_000_000e18, pool, WINDOW, STEP));
        trade(T0 + 100, ONE_USD + 1);
        trade(T0 + 200, ONE_USD);
        vm.warp(T0 + 241);
        grid.record(times(T0 + 240));
        allow(GRID_MEMORY, GRID_AGE);
        list(G_EARLY, on(thresholdSpec(true)));
        list(G_LATE, on(thresholdSpec(false)));
        list(G_UPDOWN, on(directionSpec()));
        list(G_RANGED, on(rangeSpec()));
    }

    function on(IAgentLister.MarketSpec memory s) private view returns (IAgentLister.MarketSpec memory) {
        s.feed = address(grid);
        if (s.kind == IFeedResolver.Kind.Threshold) s.target = CROSSED;
        return s;
    }

    function allow(uint32 memory_, uint32 maxAge) private {
        vm.prank(SAFE);
        lister.setFeed(address(grid), true, memory_, maxAge, CAP, FEED_CAP);
    }

    function trade(uint256 time, int24 tick) private {
        vm.warp(time);
        moveTo(pool, tick, time % 1_000);
    }

    /// The pool trades around a price for three minutes up to a moment, and a little after it.
    function around(uint256 moment, int24 tick) private {
        for (uint256 t = moment - 180; t <= moment + 20; t += 40) {
            trade(t, t / 40 % 2 == 0 ? tick : tick + 2);
        }
    }

    function answerAt(uint256 time) private view returns (int256 answer) {
        (, answer,,,) = grid.getRoundData(uint80(time / STEP));
    }

    function notRecorded(uint256 time) private pure returns (bytes memory) {
        return abi.encodeWithSelector(IPoolFeed.NotRecordedYet.selector, time);
    }

    function tooEarlyAt(bytes32 id, uint256 notBefore) private pure returns (bytes memory) {
        return abi.encodeWithSelector(IFeedResolver.TooEarly.selector, id, notBefore);
    }

    // Resolved by strangers

    /// Three calls, and no daemon of ours: record, resolve, pay.
    function test_aStrangerSettlesItInThreeCalls() public {
        uint256 won = settle(G_LATE, YES, 10e6, ALICE_KEY);
        settle(G_LATE, NO, 10e6, BOB_KEY);
        around(END, UP_5);
        uint256 before = token.balanceOf(alice);
        vm.startPrank(STRANGER);
        vm.expectRevert(notRecorded(END));
        resolver.resolve(G_LATE);
        grid.record(times(END));
        resolver.resolve(G_LATE);
        wallet.pay(G_LATE, ids(won));
        vm.stopPrank();
        vm.assertTrue(isResolved(G_LATE, YES));
        vm.assertEq(token.balanceOf(alice) - before, 20e6 - 2 * 200_000);
    }

    /// While the right reading can be recorded, no one settles by an older one or voids for want of it.
    function test_anOlderReadingNeverStandsInEarly() public {
        around(END, UP_5);
        grid.record(times(END - STEP));
        vm.warp(END + 30 minutes);
        vm.expectRevert(notRecorded(END));
        resolver.resolve(G_LATE);
        vm.expectRevert(notRecorded(END));
        resolver.resolveWith(G_LATE, uint80(END / STEP - 1), 0);
        vm.expectRevert(notRecorded(END));
        resolver.voidMarket(G_LATE);
        grid.record(times(END));
        vm.expectRevert(abi.encodeWithSelector(IFeedResolver.NotInEffect.selector, END / STEP - 1, END));
        resolver.resolveWith(G_LATE, uint80(END / STEP - 1), 0);
        resolver.resolveWith(G_LATE, uint80(END / STEP), 0);
        vm.assertTrue(isResolved(G_LATE, YES));
    }

    /// A full ring of newer observations.
    function forget() private {
        forgetUntil(END);
    }

    function forgetUntil(uint256 moment) private {
        for (uint256 k; k <= GRID_MEMORY + OUTAGE + 1; ++k) {
            trade(moment + 100 + k, k % 2 == 0 ? ONE_USD : ONE_USD + 2);
        }
    }

    function test_whenItIsForgottenTheOneBeforeDecides() public {
        around(END - 210, ONE_USD);
        around(END, UP_5);
        grid.record(times(END - 4 * STEP)); // before the price went up
        forget();
        vm.assertTrue(answerAt(END - 4 * STEP) < CROSSED && answerAt(END - 4 * STEP) > 0);
        resolver.resolve(G_LATE);
        vm.assertTrue(isResolved(G_LATE, NO));
    }

    function test_whenNothingIsLeftItIsVoid() public {
        around(END, UP_5);
        grid.record(times(END - 6 * STEP)); // older than the market takes
        forget();
        vm.expectRevert(abi.encodeWithSelector(IFeedResolver.NoReading.selector, address(grid), END, 4));
        resolver.resolve(G_LATE);
        vm.expectRevert(abi.encodeWithSelector(IFeedResolver.NotInEffect.selector, END / STEP - 6, END));
        resolver.voidWith(G_LATE, uint80(END / STEP - 6), 0);
        resolver.voidMarket(G_LATE);
        vm.assertTrue(isVoid(G_LATE));
    }

    /// The one before decides only if its whole window lies after the end of stakes.
    function test_whatTheOneBeforeMeasuresIsLaterThanStakes() public {
        IAgentLister.MarketSpec memory s = on(thresholdSpec(false));
        vm.assertEq(lister.preview(s).maxAge, GRID_AGE);
        s.closesAt = uint64(END - MARGIN - GRID_MEMORY);
        s.opensAt = s.closesAt - 1;
        vm.assertEq(END - lister.preview(s).maxAge - WINDOW, s.closesAt + MARGIN);
        vm.assertEq(lister.preview(s).maxAge, STEP);
        s.closesAt -= 2 * STEP + 1;
        s.opensAt = s.closesAt - 1;
        vm.assertEq(END - lister.preview(s).maxAge - WINDOW, s.closesAt + MARGIN);
    }

    function test_aReadingThatIsNotGoodVoids() public {
        around(END - 2 * STEP, UP_5);
        vm.warp(END - 90);
        pool.burn(-WIDEST, WIDEST, 1e17);
        vm.warp(END + 10);
        grid.record(times(END));
        vm.assertEq(answerAt(END), 0);
        vm.expectRevert(abi.encodeWithSelector(IFeedResolver.ReadingNotPositive.selector, END / STEP, 0));
        resolver.resolve(G_LATE);
        resolver.voidMarket(G_LATE);
        vm.assertTrue(isVoid(G_LATE));
    }

    function test_nothingIsVoidedForAGoodReading() public {
        around(END, UP_5);
        grid.record(times(END));
        vm.expectRevert(abi.encodeWithSelector(IFeedResolver.NothingToVoidFor.selector, G_LATE));
        resolver.voidMarket(G_LATE);
    }

    function test_aDirectionComparesTwoReadings() public {
        around(START, ONE_USD);
        grid.record(times(START));
        around(END, UP_5);
        vm.expectRevert(notRecorded(END));
        resolver.resolve(G_UPDOWN);
        grid.record(times(END));
        resolver.resolveWith(G_UPDOWN, uint80(END / STEP), uint80(START / STEP));
        vm.assertTrue(isResolved(G_UPDOWN, 0));
    }

    function test_aRangeTakesTheReadingAtItsEnd() public {
        around(END, UP_5);
        grid.record(times(END));
        resolver.resolve(G_RANGED);
        vm.assertTrue(isResolved(G_RANGED, 3));
    }

    // Early

    function test_aRecordedCrossingSettlesAtOnce() public {
        uint256 at = GRID_EARLY_FROM + 10 minutes;
        around(at, UP_5);
        vm.expectRevert(tooEarlyAt(G_EARLY, END + OUTAGE + 1));
        resolver.resolve(G_EARLY); // no one has recorded it
        grid.record(times(at));
        uint256 state = vm.snapshotState();
        resolver.resolve(G_EARLY);
        vm.assertTrue(isResolved(G_EARLY, YES));
        vm.revertToState(state);
        around(at + 1 hours, ONE_USD); // it has passed again
        grid.record(times(at + 1 hours));
        resolver.resolve(G_EARLY);
        vm.assertTrue(isResolved(G_EARLY, YES));
    }

    /// Not before the interval, nor at its end's far side.
    function test_aCrossingOutsideTheIntervalDecidesNothing() public {
        uint256 before = GRID_EARLY_FROM - GRID_EARLY_FROM % STEP - STEP;
        around(before, UP_5);
        grid.record(times(before));
        vm.assertTrue(answerAt(before) > CROSSED);
        vm.expectRevert(tooEarlyAt(G_EARLY, END + OUTAGE + 1));
        resolver.resolveWith(G_EARLY, uint80(before / STEP), 0);
        around(END + STEP, UP_5);
        grid.record(times(END + STEP));
        vm.expectRevert(tooEarlyAt(G_EARLY, END + OUTAGE + 1));
        resolver.resolveWith(G_EARLY, uint80(END / STEP + 1), 0);
    }

    function test_aCrossingAtEitherEdgeOfTheIntervalCounts() public {
        uint256 first = GRID_EARLY_FROM + (STEP - GRID_EARLY_FROM % STEP) % STEP;
        uint256 state = vm.snapshotState();
        for (uint256 k; k < 2; ++k) {
            vm.revertToState(state);
            state = vm.snapshotState();
            uint256 at = k == 0 ? first : END;
            around(at, UP_5);
            grid.record(times(at));
            resolver.resolve(G_EARLY);
            vm.assertTrue(isResolved(G_EARLY, YES));
        }
    }

    /// A recorded crossing that no one has used yet, then a last reading under the target, or one that is no good: every call by anyone ends
    /// in YES, or does nothing.
    function test_aRecordedCrossingDecidesWhoeverCallsWhat() public {
        uint256 at = END - 20 minutes;
        around(at, UP_5);
        grid.record(times(at));
        uint256 state = vm.snapshotState();
        for (uint256 k; k < 16; ++k) {
            vm.revertToState(state);
            state = vm.snapshotState();
            around(END - 2 * STEP, ONE_USD);
            vm.warp(END - 90);
            if (k % 2 == 1) pool.burn(-WIDEST, WIDEST, 1e17);
            vm.warp(END + 1);
            grid.record(times(END));
            vm.assertEq(answerAt(END) == 0, k % 2 == 1);
            vm.assertTrue(answerAt(END) < CROSSED);
            vm.warp(END + OUTAGE + 1 + (k / 8) * VOID_DELAY);
            called(k / 2 % 4, END);
            if (k / 2 % 4 < 2) vm.assertTrue(isResolved(G_EARLY, YES));
            else vm.assertTrue(isOpen(G_EARLY));
        }
    }

    function called(uint256 how, uint256 moment) private returns (bool done) {
        uint80 round = uint80(moment / STEP);
        bytes[4] memory calls = [
            abi.encodeCall(resolver.resolve, (G_EARLY)),
            abi.encodeCall(resolver.resolveWith, (G_EARLY, round, 0)),
            abi.encodeCall(resolver.voidMarket, (G_EARLY)),
            abi.encodeCall(resolver.voidWith, (G_EARLY, round, 0))
        ];
        vm.prank(STRANGER);
        (done,) = address(resolver).call(calls[how]);
    }

    /// What was crossed counts if it is recorded within an hour of its time; later it does not, so no one can be first with it.
    function test_whatIsRecordedLateIsNoCrossing() public {
        uint256 at = END - 20 minutes;
        around(at, UP_5);
        around(END, ONE_USD);
        grid.record(times(END));
        uint256 state = vm.snapshotState();
        vm.warp(at + OUTAGE);
        grid.record(times(at));
        resolver.resolve(G_EARLY);
        vm.assertTrue(isResolved(G_EARLY, YES));
        vm.revertToState(state);
        vm.warp(at + OUTAGE + 1);
        grid.record(times(at));
        vm.assertTrue(answerAt(at) > CROSSED);
        vm.expectRevert(tooEarlyAt(G_EARLY, END + OUTAGE + 1));
        resolver.resolve(G_EARLY);
        vm.warp(END + OUTAGE + 1);
        resolver.resolve(G_EARLY);
        vm.assertTrue(isResolved(G_EARLY, NO));
    }

    function test_aLastReadingOverTheTargetIsYesHoweverLate() public {
        around(END, UP_5);
        vm.warp(END + OUTAGE + 1);
        vm.expectRevert(notRecorded(END));
        resolver.resolve(G_EARLY);
        vm.expectRevert(notRecorded(END));
        resolver.voidMarket(G_EARLY);
        grid.record(times(END));
        resolver.resolve(G_EARLY);
        vm.assertTrue(isResolved(G_EARLY, YES));
    }

    /// Over the target before its interval began, and nothing recorded since: no one crossed anything.
    function test_metBeforeItsIntervalVoids() public {
        allow(GRID_MEMORY, 1_440 * STEP);
        IAgentLister.MarketSpec memory s = on(thresholdSpec(true));
        (s.closesAt, s.endsAt) = (uint64(T0 + 10 minutes), uint64(T0 + 10 minutes + MARGIN + GRID_MEMORY + 11 minutes));
        list("met", s);
        uint256 before = resolver.terms("met").earlyFrom - STEP - resolver.terms("met").earlyFrom % STEP;
        vm.assertGe(before, s.endsAt - resolver.terms("met").maxAge);
        around(before, UP_5);
        grid.record(times(before));
        forgetUntil(s.endsAt);
        resolver.resolve("met");
        vm.assertTrue(isVoid("met"));
    }

    /// After the void delay there is one answer as well: void, but where a crossing counts.
    function test_afterTheVoidDelayNobodyChooses() public {
        around(END, UP_5);
        grid.record(times(END));
        uint256 due = resolver.terms(G_LATE).voidsAfter;
        vm.warp(due + 1);
        vm.expectRevert(abi.encodeWithSelector(IFeedResolver.TimedOut.selector, G_LATE, due));
        resolver.resolve(G_LATE);
        vm.expectRevert(abi.encodeWithSelector(IFeedResolver.TimedOut.selector, G_LATE, due));
        resolver.resolveWith(G_LATE, uint80(END / STEP), 0);
        resolver.voidMarket(G_LATE);
        vm.assertTrue(isVoid(G_LATE));
    }

    /// A feed that cannot say whether there was a crossing keeps nothing for ever, and a starved call does not make it one.
    function test_aFeedThatCannotBeReadLocksNothing() public {
        vm.mockCallRevert(address(grid), abi.encodeWithSelector(IPoolFeed.crossing.selector), "");
        uint256 due = resolver.terms(G_EARLY).voidsAfter;
        vm.warp(due);
        vm.expectRevert();
        resolver.voidMarket(G_EARLY);
        vm.warp(due + 1);
        resolver.voidMarket(G_EARLY);
        vm.assertTrue(isVoid(G_EARLY));
    }

    function test_aStarvedCallDoesNotHideACrossing() public {
        around(END - 20 minutes, UP_5);
        grid.record(times(END - 20 minutes));
        vm.warp(resolver.terms(G_EARLY).voidsAfter + 1);
        for (uint256 gas_ = 60_000; gas_ < 4_500_000; gas_ += 49_973) {
            (bool ok,) = address(resolver).call{gas: gas_}(abi.encodeCall(resolver.voidMarket, (G_EARLY)));
            vm.assertFalse(ok);
        }
        resolver.resolve(G_EARLY);
        vm.assertTrue(isResolved(G_EARLY, YES));
    }

    /// Prices, recordings in time and late, and strangers' calls, at random: one history of recordings has one outcome, however the market is
    /// called, by whom and when. The expected outcome is computed here from the list of recordings alone.
    function testFuzz_oneOutcomeWhoeverCallsWhat(uint256 seed) public {
        uint256 first = GRID_EARLY_FROM + (STEP - GRID_EARLY_FROM % STEP) % STEP;
        bool crossed;
        bool voids;
        for (uint256 k; k < 12; ++k) {
            seed = uint256(keccak256(abi.encode(seed)));
            uint256 at = k == 11 ? END : first + (END - first) / 11 / STEP * STEP * k;
            bool dry = k == 11 && seed % 4 == 1;
            around(dry ? at - 2 * STEP : at, seed % 8 == 0 ? UP_5 : ONE_USD);
            if (dry) vm.warp(at - 90);
            if (dry) pool.burn(-WIDEST, WIDEST, 1e17);
            if (k != 11 && (seed >> 40) % 4 == 0) continue; // no one records it
            vm.warp(at + 21 + (seed >> 16) % (k == 11 ? 3 hours : 65 minutes));
            grid.record(times(at));
            if (answerAt(at) >= CROSSED && (k == 11 || at + OUTAGE >= block.timestamp)) crossed = true;
            if (k == 11) voids = answerAt(at) == 0;
            if (!crossed && k != 11) vm.assertFalse(called((seed >> 50) % 4, at));
        }
        if (block.timestamp <= END + OUTAGE) vm.warp(END + OUTAGE + 1 + (seed >> 60) % 1 days);
        uint256 state = vm.snapshotState();
        for (uint256 order; order < 4; ++order) {
            vm.revertToState(state);
            state = vm.snapshotState();
            for (uint256 k; k < 4; ++k) {
                called((order + k) % 4, END);
            }
            if (crossed) vm.assertTrue(isResolved(G_EARLY, YES), "a crossing did not decide");
            else if (voids) vm.assertTrue(isVoid(G_EARLY), "a bad reading did not void");
            else vm.assertTrue(isResolved(G_EARLY, NO), "there was no crossing");
        }
    }

    // Listing

    function test_itIsRegisteredAsAGrid() public view {
        vm.assertTrue(resolver.terms(G_LATE).grid);
        vm.assertEq(uint256(resolver.terms(G_LATE).endsAt), END);
        vm.assertFalse(resolver.terms(LATE).grid);
        vm.assertEq(lister.feed(address(grid)).step, STEP);
        vm.assertEq(resolver.terms(G_EARLY).settlesAfter, END + OUTAGE);
        vm.assertEq(resolver.terms(G_LATE).settlesAfter, END);
    }

    /// Readings count from the moment none of them looks back at a second in which stakes were taken.
    function test_anEarlyMarketCountsFromWhereStakesNoLongerShow() public {
        vm.assertEq(resolver.terms(G_EARLY).earlyFrom, CLOSE + MARGIN + GRID_MEMORY);
        uint256 span = END - GRID_MEMORY - MARGIN - block.timestamp;
        IAgentLister.MarketSpec memory s = on(thresholdSpec(true));
        s.closesAt = uint64(block.timestamp + span / 2 + 1);
        vm.expectRevert(abi.encodeWithSelector(IAgentLister.OpenForTooLong.selector, span / 2 + 1, span - span / 2 - 1));
        lister.preview(s);
        s.closesAt = uint64(END - 1);
        vm.expectRevert(
            abi.encodeWithSelector(IAgentLister.ClosesTooLate.selector, END - 1, END - GRID_MEMORY - MARGIN)
        );
        lister.preview(s);
        s.closesAt = uint64(block.timestamp + span / 2);
        vm.assertEq(lister.preview(s).earlyFrom, s.closesAt + MARGIN + GRID_MEMORY);
    }

    /// So that looking for a crossing ends.
    function test_anEarlyMarketIsAtMostAMillionSteps() public {
        PoolFeed fine = new PoolFeed(config(coin, Coin(grid.quote()), 1_000_000e18, pool, WINDOW, 10));
        fine.record(times(T0 + 240));
        vm.prank(SAFE);
        lister.setFeed(address(fine), true, WINDOW + 10, GRID_AGE, CAP, CAP);
        IAgentLister.MarketSpec memory s = on(thresholdSpec(true));
        s.feed = address(fine);
        uint256 most = CLOSE + MARGIN + WINDOW + 10 + (1 << 20) * 10;
        s.endsAt = uint64(most);
        lister.preview(s);
        s.endsAt += 1;
        vm.expectRevert(outside(IAgentLister.Field.EndsAt, most + 1, 1, most));
        lister.preview(s);
    }

    /// An hour in which a crossing may be recorded, and a pool that is alive: both when a market is listed.
    function test_aSilentPoolTakesNoMarkets() public {
        IAgentLister.MarketSpec memory s = on(thresholdSpec(false));
        vm.warp(T0 + 200 + WINDOW - 1);
        lister.preview(s);
        vm.warp(T0 + 200 + WINDOW);
        vm.expectRevert(abi.encodeWithSelector(IPoolFeed.PoolIsQuiet.selector, address(pool), WINDOW, WINDOW));
        lister.preview(s);
        trade(T0 + 200 + WINDOW, ONE_USD + 2);
        lister.preview(s);
    }

    /// Readings were good down to a tenth, so markets were listed at the same cap where a push cost an eighth.
    function test_nothingIsListedOnceMoreThanHalfOfTheLiquidityHasLeft() public {
        IAgentLister.MarketSpec memory s = on(thresholdSpec(false));
        vm.warp(T0 + 250);
        pool.burn(-WIDEST, WIDEST, 0.49e17);
        trade(T0 + 260, ONE_USD + 1);
        trade(T0 + 360, ONE_USD);
        vm.warp(T0 + 421);
        grid.record(times(T0 + 420));
        lister.preview(s); // half of it and a little
        pool.burn(-WIDEST, WIDEST, 0.39e17);
        trade(T0 + 430, ONE_USD + 1);
        lister.preview(s); // it counts as in a reading, over the newest window that is over
        trade(T0 + 530, ONE_USD);
        vm.warp(T0 + 601);
        (,, IPoolFeed.Measure[] memory m) = grid.measure(uint64(T0 + 600));
        vm.assertTrue(m[0].liquidity < 0.13e17);
        vm.prank(LISTER);
        vm.expectRevert(abi.encodeWithSelector(IPoolFeed.PoolIsShallow.selector, address(pool), m[0].liquidity, 1e17));
        lister.list("new", s, "");
    }

    function test_theFeedsCapHoldsAtEveryStake() public {
        vm.assertEq(wallet.market(G_LATE).potCap, CAP);
        uint256 fits = uint256(CAP) * 10_000 / 9_800;
        settle(G_LATE, YES, fits - 1e6, ALICE_KEY);
        ISettlementWallet.Bet memory b = bet(G_LATE, YES, 1e6 + 1, alice);
        ISettlementWallet.Authorization memory a = authorize(ALICE_KEY, b, freshNonce());
        vm.prank(RELAYER);
        vm.expectRevert(abi.encodeWithSelector(ISettlementWallet.PotFull.selector, G_LATE, YES, 0.98e6));
        wallet.settle(b, a);
        settle(G_LATE, YES, 1e6, ALICE_KEY);
    }

    function refusedToAllow(bytes memory why, uint32 memory_, uint32 maxAge) private {
        vm.prank(SAFE);
        vm.expectRevert(why);
        lister.setFeed(address(grid), true, memory_, maxAge, CAP, FEED_CAP);
    }

    function outside(IAgentLister.Field field, uint256 value, uint256 min, uint256 max)
        private
        pure
        returns (bytes memory)
    {
        return abi.encodeWithSelector(IAgentLister.OutOfBounds.selector, field, value, min, max);
    }

    function test_theMemoryIsAtLeastTheWindowAndAStep() public {
        bytes memory why = outside(IAgentLister.Field.Memory, GRID_MEMORY - 1, GRID_MEMORY, 30 days);
        refusedToAllow(why, GRID_MEMORY - 1, GRID_AGE);
        allow(GRID_MEMORY + 1, GRID_AGE);
    }

    function test_theAgeBoundIsSoManySteps() public {
        uint32 most = 1_440 * STEP;
        refusedToAllow(outside(IAgentLister.Field.MaxAge, most + 1, STEP, most), GRID_MEMORY, most + 1);
        allow(GRID_MEMORY, most);
        vm.warp(T0 + 240 + STEP - 1);
        refusedToAllow(outside(IAgentLister.Field.MaxAge, STEP - 1, STEP, most), GRID_MEMORY, STEP - 1);
    }

    function test_aFeedRecordsAReadingBeforeItIsAllowed() public {
        PoolFeed fresh = new PoolFeed(config(coin, Coin(grid.quote()), 1_000_000e18, pool, WINDOW, STEP));
        vm.prank(SAFE);
        vm.expectRevert(abi.encodeWithSelector(FeedCheck.FeedUnreadable.selector, address(fresh)));
        lister.setFeed(address(fresh), true, GRID_MEMORY, GRID_AGE, CAP, FEED_CAP);
        fresh.record(times(T0 + 240));
        vm.prank(SAFE);
        lister.setFeed(address(fresh), true, GRID_MEMORY, GRID_AGE, CAP, FEED_CAP);
    }

    function test_theReferenceIsCheckedWhenItIsAllowed() public {
        IPoolFeed.Config memory c = config(coin, Coin(grid.quote()), 1_000_000e18, pool, WINDOW, STEP);
        c.referenceLiquidity[0] = 3e17;
        PoolFeed shallow = new PoolFeed(c);
        shallow.record(times(T0 + 240));
        (,, IPoolFeed.Measure[] memory m) = shallow.measure(uint64(T0 + 240));
        vm.prank(SAFE);
        vm.expectRevert(abi.encodeWithSelector(IPoolFeed.PoolIsShallow.selector, address(pool), m[0].liquidity, 3e17));
        lister.setFeed(address(shallow), true, GRID_MEMORY, GRID_AGE, CAP, FEED_CAP);
    }

    function test_theSupplyIsCheckedWhenAMarketIsListed() public {
        coin.mint(address(0xCAFE), 20_000e18);
        bytes memory why = abi.encodeWithSelector(IPoolFeed.SupplyMoved.selector, coin.totalSupply(), 1_000_000e18);
        vm.prank(LISTER);
        vm.expectRevert(why);
        lister.list("new", on(thresholdSpec(false)), "");
    }

    /// The ring that outlasts the hour in which a crossing may be recorded.
    function test_theRingIsCheckedWhenAFeedIsAllowed() public {
        Coin usd = Coin(grid.quote());
        Coin other = new Coin(18);
        IPool small = newPool(other, usd, 0);
        provide(small, -WIDEST, WIDEST, 1e17);
        grow(small, uint256(GRID_MEMORY) + OUTAGE);
        PoolFeed f = new PoolFeed(config(other, usd, other.totalSupply(), small, WINDOW, STEP));
        vm.warp(T0 + 400);
        moveTo(small, 1);
        vm.warp(T0 + 481);
        f.record(times(T0 + 480));
        uint256 size = uint256(GRID_MEMORY) + OUTAGE;
        vm.prank(SAFE);
        vm.expectRevert(abi.encodeWithSelector(IPoolFeed.RingTooShort.selector, address(small), size, size + 1));
        lister.setFeed(address(f), true, GRID_MEMORY, GRID_AGE, CAP, FEED_CAP);
    }

    function test_aFeedDoesNotTurnIntoAGrid() public {
        TurningFeed turning = new TurningFeed();
        turning.push(90e8, block.timestamp);
        vm.prank(SAFE);
        lister.setFeed(address(turning), true, MEMORY, MAX_AGE, CAP, FEED_CAP);
        IAgentLister.MarketSpec memory s = thresholdSpec(false);
        s.feed = address(turning);
        vm.assertEq(lister.preview(s).maxAge, MAX_AGE);
        turning.turn(60);
        vm.expectRevert(abi.encodeWithSelector(IAgentLister.FeedChanged.selector, address(turning)));
        lister.preview(s);
    }

    /// No one posts to it, so there is nothing to condemn: the Safe can list no more on it, and that is all.
    function test_theSafeCannotCondemnIt() public {
        vm.prank(SAFE);
        vm.expectRevert(abi.encodeWithSelector(IAgentLister.FeedHasNoPublisher.selector, address(grid)));
        lister.condemn(address(grid));
    }
}
