// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {IPoolFeed} from "../../../../contracts/feeds/IPoolFeed.sol";
import {PoolFeed} from "../../../../contracts/feeds/PoolFeed.sol";
import {PoolHistory} from "../../../../contracts/feeds/PoolHistory.sol";
import {Vm} from "../Base.sol";
import {OnePool} from "./OnePool.sol";
import {Coin, IPool} from "./Pools.sol";
import {Ticks} from "./Ticks.sol";

/// One token against USDC in a real pool: what a reading is, when it can be recorded, and what cannot move it.
contract PoolFeedTest is OnePool {
    using PoolHistory for PoolHistory.Ring;

    int256 private constant ANSWER = 100_858_889_103_362; // 85 and a half ticks over the start
    int256 private constant TWO = 2_028_237_249_593_744; // 20.28 million USD

    // What a reading is

    /// 90 s at 100 ticks over the start and 30 s at 40: 85 and a half, of a million tokens at 1 USD.
    function test_aReadingIsTheMeanOfItsWindow() public {
        swap(T0 + 60, START + 100);
        swap(T0 + 150, START + 40);
        vm.warp(T0 + 181);
        (IPoolFeed.Quality quality, int256 answer, IPoolFeed.Measure[] memory m) = feed.measure(uint64(T0 + 180));
        vm.assertEq(int256(m[0].endCumulative - m[0].startCumulative), 120 * int256(START) + 90 * 100 + 30 * 40);
        vm.assertEq(m[0].quiet, 30);
        vm.assertGe(m[0].liquidity, DEPTH - 1);
        vm.assertLe(m[0].liquidity, DEPTH);
        isQuality(quality, IPoolFeed.Quality.Good);
        vm.assertEq(answer, ANSWER);
        vm.assertEq(read(T0 + 180), answer);
    }

    /// The same market the other way round is worth the same: half a tick is added to a price, not to a tick.
    function test_theOrderOfTokensDoesNotMatter() public {
        fresh(false);
        swap(T0 + 60, -START - 100 - 1);
        swap(T0 + 150, -START - 40 - 1);
        vm.warp(T0 + 181);
        vm.assertEq(read(T0 + 180), ANSWER);
    }

    function test_whatIsRecordedReadsBack() public {
        live(T0 + 401);
        vm.recordLogs();
        vm.assertEq(feed.record(times(T0 + 120, 5, STEP)), 5);
        vm.assertEq(vm.getRecordedLogs().length, 10);
        for (uint256 t = T0 + 120; t <= T0 + 360; t += STEP) {
            (, int256 expected,) = feed.measure(uint64(t));
            (uint80 id, int256 answer, uint256 startedAt, uint256 updatedAt, uint80 answeredIn) =
                feed.getRoundData(uint80(t / STEP));
            vm.assertEq(abi.encode(id, answer, startedAt), abi.encode(t / STEP, expected, t));
            vm.assertEq(abi.encode(updatedAt, answeredIn), abi.encode(t, id));
            (uint80 round, int256 said, uint64 gridTime) = feed.readingAt(t + STEP - 1, STEP);
            vm.assertEq(abi.encode(round, said, gridTime), abi.encode(id, answer, updatedAt));
        }
        (uint80 latest,,,,) = feed.latestRoundData();
        vm.assertEq(latest, (T0 + 360) / STEP);
        vm.expectRevert(abi.encodeWithSelector(IPoolFeed.NoSuchRound.selector, latest + 1));
        feed.getRoundData(latest + 1);
    }

    function test_theLogSaysWhatItWasComputedFrom() public {
        live(T0 + 181);
        (IPoolFeed.Quality quality, int256 answer, IPoolFeed.Measure[] memory m) = feed.measure(uint64(T0 + 180));
        vm.recordLogs();
        feed.record(times(T0 + 180));
        Vm.Log[] memory logs = vm.getRecordedLogs();
        vm.assertEq(logs[0].topics[0], IPoolFeed.AnswerUpdated.selector);
        vm.assertEq(uint256(logs[0].topics[1]), uint256(answer));
        vm.assertEq(uint256(logs[0].topics[2]), (T0 + 180) / STEP);
        vm.assertEq(logs[0].data, abi.encode(T0 + 180));
        vm.assertEq(logs[1].topics[0], IPoolFeed.ReadingMeasured.selector);
        vm.assertEq(logs[1].data, abi.encode(quality, m));
    }

    function test_theLatestIsTheHighestHoweverTheyCome() public {
        live(T0 + 401);
        vm.expectRevert(abi.encodeWithSelector(IPoolFeed.NoSuchRound.selector, 0));
        feed.latestRoundData();
        feed.record(times(T0 + 300));
        feed.record(times(T0 + 180));
        (uint80 latest,,,,) = feed.latestRoundData();
        vm.assertEq(latest, (T0 + 300) / STEP);
    }

    /// 0.0067 WETH at 2,994 USD: both means, and half a tick of each.
    function test_twoPoolsMultiply() public {
        (Coin x, Coin weth) = coins(18, 18, true);
        bool straight = address(weth) < address(usdc);
        IPool a = newPool(x, weth, -50_000);
        IPool b = newPool(weth, usdc, straight ? int24(-196_256) : int24(196_255));
        provide(a, -WIDEST, WIDEST, DEPTH);
        provide(b, -WIDEST, WIDEST, DEPTH);
        grow(a, 10);
        grow(b, 10);
        PoolFeed two = new PoolFeed(configOfTwo(config(x, usdc, SUPPLY, a, WINDOW, STEP), b));
        vm.warp(T0 + 60);
        moveTo(a, -49_990);
        vm.warp(T0 + 90);
        moveTo(b, straight ? int24(-196_156) : int24(196_155)); // 100 up; the lower end of a tick either way
        vm.warp(T0 + 121);
        (, int256 answer, IPoolFeed.Measure[] memory m) = two.measure(uint64(T0 + 120));
        vm.assertEq(int256(m[0].endCumulative - m[0].startCumulative), 60 * -50_000 + 60 * -49_990);
        vm.assertEq(m[0].quiet, 60);
        vm.assertEq(m[1].quiet, 30);
        vm.assertEq(answer, TWO);
        isQuality(qualityAt(two, T0 + 120), IPoolFeed.Quality.Good);
    }

    // When

    function test_aSecondCountsOnceItIsOver() public {
        live(T0 + 180);
        bytes memory early = abi.encodeWithSelector(IPoolFeed.NotOverYet.selector, T0 + 180, T0 + 180);
        vm.expectRevert(early);
        feed.record(times(T0 + 180));
        vm.expectRevert(early);
        feed.measure(uint64(T0 + 180));
        vm.expectRevert(early);
        feed.readingAt(T0 + 200, 1 hours);
        vm.warp(T0 + 181);
        vm.assertEq(feed.record(times(T0 + 180)), 1);
    }

    function test_onlyGridTimesAreRecorded() public {
        live(T0 + 190);
        vm.expectRevert(abi.encodeWithSelector(IPoolFeed.NotOnGrid.selector, T0 + 179, STEP));
        feed.record(times(T0 + 179));
        isQuality(feed.qualityOf(uint64(T0 + 179)), IPoolFeed.Quality.Unrecorded);
    }

    function test_recordingAgainDoesNothing() public {
        live(T0 + 190);
        int256 answer = read(T0 + 180);
        vm.recordLogs();
        vm.assertEq(feed.record(times(T0 + 180)), 0);
        vm.assertEq(vm.getRecordedLogs().length, 0);
        vm.assertEq(read(T0 + 180), answer);
    }

    /// Not by the next observation either, which rounds what the pool says of liquidity another way.
    function test_waitingChangesNothing() public {
        for (uint256 k; k < 40; ++k) {
            vm.warp(T0 + 181 + 60 * k);
            if (k % 3 == 0) provide(pool, -WIDEST, WIDEST, uint128(1e16 + 7 ** (k / 2)));
            moveTo(pool, START + int24(int256(k)), k);
            uint256 time = block.timestamp - 1;
            vm.warp(time + 29);
            bytes32 early = measured(time);
            vm.warp(time + 41);
            moveTo(pool, START - 50, k + 1);
            vm.assertEq(measured(time), early);
            time = time + 30 - (time + 30) % STEP;
            vm.warp(time + 100);
            vm.assertEq(measured(time), measured(time));
        }
    }

    /// What fails the bound on liquidity by a hair before the next observation fails it after, and the other way round. Of a pool so deep that
    /// a second adds little to the accumulator, and `observe` rounds noticeably.
    function test_theBoundOnLiquidityIsNotCrossedByWaiting() public {
        provide(pool, -WIDEST, WIDEST, 1e29);
        for (uint256 n; n < 10; ++n) {
            uint256 t = T0 + 300 * n;
            swap(t + 110, START + 10);
            vm.warp(t + 150);
            provide(pool, -WIDEST, WIDEST, uint128(1e28 + 777 ** n));
            vm.warp(t + 181);
            PoolHistory.Window memory w = PoolHistory.open(address(pool)).window(t + 180, WINDOW);
            PoolFeed[5] memory feeds;
            for (uint256 k; k < 5; ++k) {
                IPoolFeed.Config memory c = plain();
                c.referenceLiquidity[0] = uint128((uint256(3 * WINDOW) << 128) / (w.secondsPerLiquidity + k - 2));
                feeds[k] = new PoolFeed(c);
                isQuality(qualityAt(feeds[k], t + 180), k < 2 ? IPoolFeed.Quality.Thin : IPoolFeed.Quality.Good);
            }
            swap(t + 187 + n, START + 20);
            for (uint256 k; k < 5; ++k) {
                isQuality(qualityAt(feeds[k], t + 180), k < 2 ? IPoolFeed.Quality.Thin : IPoolFeed.Quality.Good);
            }
        }
    }

    // Absent, or not recorded yet

    function test_nothingStandsInForAReadingThatCanBeRecorded() public {
        live(T0 + 401);
        feed.record(times(T0 + 240));
        vm.expectRevert(abi.encodeWithSelector(IPoolFeed.NotRecordedYet.selector, T0 + 300));
        feed.readingAt(T0 + 359, 1 hours);
        int256 answer = read(T0 + 300);
        (uint80 round, int256 said, uint64 gridTime) = feed.readingAt(T0 + 359, 1 hours);
        vm.assertEq(abi.encode(round, said, gridTime), abi.encode((T0 + 300) / STEP, answer, T0 + 300));
    }

    /// T0 + 180 to 360, of which only 240 was recorded in time.
    function forgotten() private {
        live(T0 + 301);
        feed.record(times(T0 + 240));
        for (uint256 k; k < 101; ++k) {
            swap(T0 + 400 + k, START + (k % 2 == 0 ? int24(40) : int24(50)));
        }
        vm.assertEq(feed.oldestTellable(), T0 + 540);
    }

    function test_whatThePoolHasForgottenIsAbsent() public {
        forgotten();
        vm.expectRevert(abi.encodeWithSelector(IPoolFeed.ReadingAbsent.selector, T0 + 300, address(pool), T0 + 401));
        feed.measure(uint64(T0 + 300));
        vm.assertEq(feed.record(times(T0 + 180, 5, STEP)), 0);
        isQuality(feed.qualityOf(uint64(T0 + 300)), IPoolFeed.Quality.Unrecorded);
    }

    function test_theOneBeforeStandsInForAnAbsentOne() public {
        forgotten();
        (uint80 round,, uint64 gridTime) = feed.readingAt(T0 + 310, 70);
        vm.assertEq(abi.encode(round, gridTime), abi.encode((T0 + 240) / STEP, T0 + 240));
        (round,, gridTime) = feed.readingAt(T0 + 310, 69); // up to the age bound
        vm.assertEq(abi.encode(round, gridTime), abi.encode(0, 0));
        (round,,) = feed.readingAt(T0 + 239, 1 hours);
        vm.assertEq(round, 0);
    }

    function test_growingTheRingBringsNothingBack() public {
        forgotten();
        grow(pool, 300);
        for (uint256 k; k < 250; ++k) {
            swap(T0 + 600 + k, START + (k % 2 == 0 ? int24(40) : int24(50)));
            vm.assertGe(feed.oldestTellable(), T0 + 540);
            vm.assertEq(feed.record(times(T0 + 300)), 0);
            (uint80 round,,) = feed.readingAt(T0 + 300, 60);
            vm.assertEq(round, (T0 + 240) / STEP);
        }
    }

    function test_beforeThePoolThereIsNothing() public {
        live(T0 + 181);
        vm.assertEq(feed.oldestTellable(), T0 + 120);
        vm.assertEq(feed.record(times(T0 + 60)), 0);
        vm.assertEq(feed.record(times(0)), 0);
        vm.assertEq(feed.record(times(T0 + 120)), 1);
        (uint80 round,,) = feed.readingAt(59, type(uint256).max);
        vm.assertEq(round, 0);
    }

    /// A reading needs both pools: what one has forgotten is absent and can no longer be recorded.
    function test_eitherPoolCanForget() public {
        (Coin x, Coin weth) = coins(18, 18, true);
        IPool a = newPool(x, weth, 0);
        IPool b = newPool(weth, usdc, 0);
        provide(a, -WIDEST, WIDEST, DEPTH);
        provide(b, -WIDEST, WIDEST, DEPTH);
        PoolFeed two = new PoolFeed(configOfTwo(config(x, usdc, SUPPLY, a, WINDOW, STEP), b));
        grow(a, 50);
        vm.warp(T0 + 100);
        moveTo(a, 10);
        moveTo(b, 10);
        vm.warp(T0 + 200);
        vm.expectRevert(abi.encodeWithSelector(IPoolFeed.ReadingAbsent.selector, T0 + 180, address(b), T0 + 100));
        two.measure(uint64(T0 + 180));
        vm.assertEq(two.record(times(T0 + 180)), 0);
        vm.assertEq(two.oldestTellable(), T0 + 240);
        (uint80 round,,) = two.readingAt(T0 + 190, 100);
        vm.assertEq(round, 0);
    }

    // Crossings

    /// Readings here and there over three stretches of 1,024 steps, some of them recorded too late to count, against a list of them.
    function testFuzz_theFirstCrossingThatCountsIsFound(uint256 seed) public {
        grow(pool, 200);
        uint256[] memory at = new uint256[](80);
        int256[] memory counted = new int256[](80);
        uint256 time = T0 + 180 - T0 % STEP;
        for (uint256 k; k < at.length; ++k) {
            seed = uint256(keccak256(abi.encode(seed)));
            at[k] = time += STEP * (3 + seed % (seed % 3 == 0 ? 4 : 80));
            swap(time - 130, START + int24(int256((seed >> 16) % 40)));
            swap(time - 60, START + int24(int256((seed >> 32) % 40)));
            bool late = (seed >> 48) % 4 == 0;
            vm.warp(late ? time + 1 hours + 1 : time + 1);
            feed.record(times(time));
            if (!late) (, counted[k],,,) = feed.getRoundData(uint80(time / STEP));
            if (late) time += 1 hours + 120;
        }
        for (uint256 j; j < 40; ++j) {
            seed = uint256(keccak256(abi.encode(seed)));
            uint256 from = at[seed % 80] - (seed >> 8) % 3 * 37;
            uint256 to = j % 4 == 0 ? at[79] + 1e6 : at[(seed >> 16) % 80] + (seed >> 24) % 3 * 37;
            int256 target = counted[(seed >> 32) % 80] + int256((seed >> 40) % 3) - 1;
            uint256 first;
            while (
                first < 80 && !(counted[first] >= target && counted[first] > 0 && at[first] >= from && at[first] <= to)
            ) {
                ++first;
            }
            (uint80 round, int256 answer, uint64 when) = feed.crossing(target, from, to);
            vm.assertEq(when, first == 80 ? 0 : at[first]);
            vm.assertEq(uint256(round), when / STEP);
            vm.assertEq(answer, first == 80 ? int256(0) : counted[first]);
        }
    }

    // Good or not

    /// An observation costs gas and nothing else: a unit of liquidity in the last second, or none, gives the same reading.
    function test_theLastMinuteDoesNotChooseBetweenVoidAndResult() public {
        swap(T0 + 60, START + 5);
        uint256 silent = T0 + 3_600; // far over maxQuiet, which is the window here
        uint256 state = vm.snapshotState();
        for (uint256 k; k < 3; ++k) {
            vm.revertToState(state);
            state = vm.snapshotState();
            vm.warp(silent - 1);
            if (k == 1) provide(pool, -WIDEST, WIDEST, 1);
            if (k == 2) moveTo(pool, START + 6);
            vm.warp(silent + 1);
            isQuality(qualityAt(feed, silent), IPoolFeed.Quality.Good);
            vm.assertTrue(read(silent) > 0);
        }
    }

    function test_readingsAreGoodFromAThirdOfTheReferenceOn() public {
        live(T0 + 181);
        IPoolFeed.Config memory c = plain();
        c.referenceLiquidity[0] = 3 * DEPTH;
        isQuality(qualityAt(new PoolFeed(c), T0 + 180), IPoolFeed.Quality.Good);
        c.referenceLiquidity[0] = 3 * DEPTH + DEPTH / 1e9;
        isQuality(qualityAt(new PoolFeed(c), T0 + 180), IPoolFeed.Quality.Thin);
    }

    function test_withoutLiquidityNothingIsGood() public {
        vm.warp(T0 + 100);
        pool.burn(-WIDEST, WIDEST, DEPTH);
        vm.warp(T0 + 181);
        isQuality(qualityAt(feed, T0 + 180), IPoolFeed.Quality.Thin);
        vm.assertEq(read(T0 + 180), 0);
        moveTo(pool, START + 500);
        vm.warp(T0 + 241);
        isQuality(qualityAt(feed, T0 + 240), IPoolFeed.Quality.Thin);
    }

    /// A market cap over what fits, or under one unit, is a bad answer and not an error: an error could not be recorded, and would not void.
    function test_whatDoesNotFitIsNotGood() public {
        int24[3] memory ticks = [int24(800_000), 500_000, -800_000];
        uint256[3] memory supplies = [uint256(1e33), 1e20, 1];
        for (uint256 k; k < 3; ++k) {
            vm.warp(T0);
            (Coin x, Coin y) = coins(18, 6, true);
            IPool extreme = newPool(x, y, ticks[k]);
            provide(extreme, -WIDEST, WIDEST, 1e10);
            PoolFeed f = new PoolFeed(config(x, y, supplies[k], extreme, WINDOW, STEP));
            grow(extreme, 20);
            vm.warp(T0 + 60);
            moveTo(extreme, ticks[k] + 60, 1);
            vm.warp(T0 + 121);
            isQuality(qualityAt(f, T0 + 120), IPoolFeed.Quality.OutOfRange);
            vm.assertEq(f.record(times(T0 + 120)), 1);
            (, int256 answer,) = f.readingAt(T0 + 120, 0);
            vm.assertEq(answer, 0);
        }
    }

    // Accumulators that wrap

    function test_accumulatorsMayWrap() public {
        live(T0 + 601);
        bytes32 plainly = differences();
        vm.warp(T0);
        fresh(true);
        // The ring begins just before both accumulators wrap; the pool goes on from there.
        layRing(pool, 0, uint32(T0), type(int56).min + 100 * 276_324, type(uint160).max - uint160((60 << 128) / DEPTH));
        live(T0 + 601);
        vm.assertEq(differences(), plainly);
    }

    function differences() private view returns (bytes32 all) {
        for (uint256 t = T0 + 120; t <= T0 + 600; t += STEP) {
            (IPoolFeed.Quality quality, int256 answer, IPoolFeed.Measure[] memory m) = feed.measure(uint64(t));
            isQuality(quality, IPoolFeed.Quality.Good);
            all = keccak256(abi.encode(all, answer, m[0].liquidity, m[0].quiet));
        }
    }

    /// The pool keeps 32 bits of a time, which are used up in 2106.
    function test_timesMayWrap() public {
        uint256 end = 2 ** 32;
        vm.warp(end - 120);
        fresh(true);
        vm.warp(end - 60);
        moveTo(pool, START + 100);
        vm.warp(end + 30);
        moveTo(pool, START + 40);
        vm.warp(end + 200);
        uint256 time = end + 60 - (end + 60) % STEP;
        (,, IPoolFeed.Measure[] memory m) = feed.measure(uint64(time));
        uint256 at100 = end + 30 - (time - WINDOW > end - 60 ? time - WINDOW : end - 60);
        uint256 before = WINDOW - at100 - (time - end - 30);
        int256 ticks = int256(at100) * 100 + int256(time - end - 30) * 40 + 120 * int256(START);
        vm.assertLe(before, 60);
        vm.assertEq(int256(m[0].endCumulative) - int256(m[0].startCumulative), ticks);
        vm.assertEq(m[0].quiet, time - end - 30);
    }

    // What cannot move it, and what can, by how much

    /// What the reading would have been without `what`, and is with it. That someone was there in its very second may show.
    modifier withAndWithout() {
        live(T0 + 130);
        uint256 state = vm.snapshotState();
        vm.warp(T0 + 181);
        bytes32 without = price(T0 + 180);
        vm.revertToState(state);
        _;
        vm.warp(T0 + 181);
        vm.assertEq(price(T0 + 180), without);
    }

    function price(uint256 time) private view returns (bytes32) {
        (IPoolFeed.Quality quality, int256 answer, IPoolFeed.Measure[] memory m) = feed.measure(uint64(time));
        vm.assertLe(DEPTH - m[0].liquidity, 1);
        return keccak256(abi.encode(quality, answer, m[0].startCumulative, m[0].endCumulative));
    }

    function test_aSwapInItsVeryBlockMovesNothing() public withAndWithout {
        swap(T0 + 180, START + 9_000);
        vm.expectRevert(abi.encodeWithSelector(IPoolFeed.NotOverYet.selector, T0 + 180, T0 + 180));
        feed.record(times(T0 + 180));
    }

    /// Nor its reversal, nor the recording of it in the middle.
    function test_aSwapAfterItMovesNothing() public withAndWithout {
        vm.warp(T0 + 181);
        pool.swap(address(this), false, 1e15, type(uint160).max >> 14, "record");
        vm.assertEq(uint256(uint8(feed.qualityOf(uint64(T0 + 180)))), uint256(uint8(IPoolFeed.Quality.Good)));
        moveTo(pool, START - 9_000, 1);
    }

    function test_aGiftMovesNothing() public withAndWithout {
        vm.warp(T0 + 150);
        usdc.mint(address(pool), 1e15);
        token.mint(address(pool), 1e27);
        pool.flash(address(this), 0, 0, abi.encode(0, 0));
    }

    /// A pool's own flash loan, with a recording inside it.
    function test_aFlashLoanMovesNothing() public withAndWithout {
        vm.warp(T0 + 181);
        pool.flash(address(this), 1e18, 1e6, abi.encode(1e18, 1e6));
        vm.assertEq(uint256(uint8(feed.qualityOf(uint64(T0 + 180)))), uint256(uint8(IPoolFeed.Quality.Good)));
    }

    /// A swapper or flash borrower records in the middle of it.
    function within(bytes calldata) internal override {
        uint256 time = block.timestamp - 1;
        if (time % STEP == 0) feed.record(times(time));
    }

    /// As far as one likes, and back in the same block: the mean does not see it, only that someone was there.
    function test_thereAndBackInABlockMovesNoPrice() public {
        live(T0 + 130);
        int24 before = tickOf(pool);
        uint256 state = vm.snapshotState();
        vm.warp(T0 + 181);
        int256 without = read(T0 + 180);
        vm.revertToState(state);
        swap(T0 + 150, START + 60_000);
        moveTo(pool, before, 1);
        vm.warp(T0 + 181);
        vm.assertEq(read(T0 + 180), without);
    }

    /// Twenty per cent for a block of two seconds: 2/120 of it.
    function test_aPushCountsForItsSecondsOnly() public {
        live(T0 + 130);
        int24 before = tickOf(pool);
        swap(T0 + 150, before + 1_823);
        swap(T0 + 152, before);
        vm.warp(T0 + 181);
        (,, IPoolFeed.Measure[] memory m) = feed.measure(uint64(T0 + 180));
        int256 ticks = int256(m[0].endCumulative) - int256(m[0].startCumulative);
        vm.assertEq(int256(before), int256(START));
        vm.assertEq(ticks, 120 * int256(START) + 10 * 10 + 2 * 1_823);
    }

    /// The mean that a block at an extreme price would move takes no liquidity to push; so it is refused.
    function test_liquidityPulledForABlockIsRefused() public {
        provide(pool, -WIDEST, WIDEST, DEPTH / 1_000);
        live(T0 + 130);
        vm.warp(T0 + 150);
        pool.burn(-WIDEST, WIDEST, DEPTH);
        moveTo(pool, START + 200_000);
        vm.warp(T0 + 152);
        moveTo(pool, START, 1);
        provide(pool, -WIDEST, WIDEST, DEPTH);
        vm.warp(T0 + 181);
        isQuality(qualityAt(feed, T0 + 180), IPoolFeed.Quality.Thin);
        vm.assertEq(read(T0 + 180), 0);
    }

    /// A limit of that bound, which the cap of a feed has to cover: where no liquidity is left, the attacker who has pushed the price there brings his
    /// own for next to nothing. So pushing all of it out must cost more than what a market on it can pay.
    function test_whoBringsLiquidityToAnEmptyPriceIsNotRefused() public {
        int24 lower = START - START % SPACING - 600;
        provide(pool, lower, lower + 1_200, DEPTH);
        pool.burn(-WIDEST, WIDEST, DEPTH);
        live(T0 + 130);
        vm.warp(T0 + 150);
        int24 empty = lower - 199_980;
        pool.swap(address(this), true, type(int128).max, Ticks.ratioAt(empty) - 1, "");
        uint256 held = usdc.balanceOf(address(pool));
        uint256 tokens = token.balanceOf(address(pool));
        provide(pool, empty - SPACING, empty, DEPTH);
        vm.assertLt(usdc.balanceOf(address(pool)) - held, 1e6);
        vm.assertLt(token.balanceOf(address(pool)) - tokens, 1e18);
        vm.warp(T0 + 152);
        moveTo(pool, START, 1);
        vm.warp(T0 + 181);
        isQuality(qualityAt(feed, T0 + 180), IPoolFeed.Quality.Good);
        vm.assertTrue(read(T0 + 180) < ANSWER * 3 / 4); // two seconds of a hundred and twenty
    }
}
