// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {LocalFeed} from "../../../../contracts/local/LocalFeed.sol";
import {IMarketLister} from "../../../../contracts/stock/IMarketLister.sol";
import {IRoundResolver} from "../../../../contracts/stock/IRoundResolver.sol";
import {IVestedMarkets} from "../../../../contracts/stock/IVestedMarkets.sol";
import {RoundResolver} from "../../../../contracts/stock/RoundResolver.sol";
import {OddToken} from "../rounds/Probe.sol";
import {FullStack} from "./FullStack.sol";

/// Bets on an answer that everybody can read already: the price stands still because the stock's oracle is paused, the feed
/// hangs or the sequencer is down. On the whole venue, with the terms of a daily market.
contract InterruptedTest is FullStack {
    uint256 private market;

    function setUp() public override {
        super.setUp();
        market = open();
        vm.warp(STRIKE - 60);
        feed.push(100e8, STRIKE - 60);
    }

    // The pause

    function test_a_pause_over_the_bell_voids_though_it_is_lifted_before_anybody_settles() external {
        push(101e8, FINAL - 2 hours);
        pause(FINAL - 1 hours);
        vm.warp(FINAL + 30);
        stock.setOraclePaused(false);
        resolver.witness(address(stock));
        expectVoid(6);
    }

    function test_a_pause_that_began_after_an_orderly_bell_changes_nothing() external {
        push(101e8, FINAL - 1 hours);
        pause(FINAL + 30);
        vm.warp(FINAL + 25 hours);
        resolver.witness(address(stock));
        expectSettled(1);
        (bool ok,) = address(resolver).call(abi.encodeCall(resolver.voidPaused, (market)));
        vm.assertFalse(ok);
        resolver.resolve(market);
        vm.assertTrue(markets.market(market).status == IVestedMarkets.Status.Up);
    }

    function test_a_pause_with_a_round_after_it_changes_nothing() external {
        pause(FINAL - 5 hours);
        vm.warp(FINAL - 4 hours);
        resolver.witness(address(stock));
        stock.setOraclePaused(false);
        resolver.witness(address(stock));
        push(99e8, FINAL - 1 hours);
        vm.warp(FINAL + 121);
        expectSettled(2);
    }

    function test_a_pause_that_ended_before_the_bell_with_no_round_after_it_voids() external {
        push(99e8, FINAL - 2 hours);
        pause(FINAL - 1 hours);
        vm.warp(FINAL - 30 minutes);
        stock.setOraclePaused(false);
        resolver.witness(address(stock));
        vm.warp(FINAL + 121);
        expectVoid(6);
    }

    function test_a_pause_over_the_strike_voids() external {
        pause(STRIKE - 10);
        vm.warp(STRIKE + 10);
        stock.setOraclePaused(false);
        resolver.witness(address(stock));
        push(99e8, FINAL - 1 hours);
        vm.warp(FINAL + 121);
        expectVoid(6);
    }

    /// The flag is advice: a feed may write on while it is up.
    function test_a_pause_over_the_bell_voids_though_the_feed_writes_on() external {
        pause(FINAL - 30 minutes);
        push(101e8, FINAL - 10);
        vm.warp(FINAL + 10);
        resolver.witness(address(stock));
        stock.setOraclePaused(false);
        resolver.witness(address(stock));
        expectVoid(6);
    }

    /// Settling cannot come before the witness that would have shown that the pause still lasts.
    function test_settling_is_a_witness_itself() external {
        pause(FINAL - 30 minutes);
        push(101e8, FINAL - 10);
        vm.warp(FINAL + 10);
        expectVoid(6);
    }

    function test_two_pauses_around_the_bell_are_not_one() external {
        pause(FINAL - 30 minutes);
        vm.warp(FINAL - 20 minutes);
        stock.setOraclePaused(false);
        resolver.witness(address(stock));
        push(101e8, FINAL - 10 minutes);
        pause(FINAL + 10);
        expectSettled(1);
    }

    function test_witnesses_over_an_hour_apart_have_not_seen_one_pause() external {
        pause(FINAL - 30 minutes);
        push(101e8, FINAL - 10 minutes);
        vm.warp(FINAL + 30 minutes + 1); // lifted and set again in between, for all we know
        resolver.witness(address(stock));
        expectSettled(1);
        vm.assertTrue(resolver.pausedBetween(address(stock), FINAL - 30 minutes, FINAL - 30 minutes));
        vm.assertFalse(resolver.pausedBetween(address(stock), FINAL - 30 minutes + 1, FINAL));
    }

    /// A pause longer ago than both readings, which still goes on: the shortcut does not skip it.
    function test_a_pause_that_began_before_both_readings_and_goes_on_voids() external {
        IMarketLister.OpenParams memory p = listing();
        p.strikeTime = FINAL - 20 minutes;
        vm.prank(OPENER);
        (market,) = lister.open(p);
        pause(FINAL - 40 minutes);
        push(100e8, FINAL - 30 minutes);
        push(101e8, FINAL - 10 minutes);
        vm.warp(FINAL + 10);
        expectVoid(6);
    }

    /// Against the definition, by scanning every pair of witnesses: two of a pause, at most an hour apart and with none between them that saw
    /// the oracle running, have seen it paused in between; and so has who asks now, after the last of them.
    /// forge-config: default.fuzz.runs = 2000
    /// forge-config: quick.fuzz.runs = 300
    function testFuzz_pauses_equal_the_scan_of_all_witnesses(uint256 seed) external {
        uint256[] memory times = new uint256[](12);
        bool[] memory paused = new bool[](12);
        uint256 now_ = STRIKE;
        for (uint256 i; i < 12; ++i) {
            seed = uint256(keccak256(abi.encode(seed)));
            now_ += seed % 80 minutes;
            vm.warp(now_);
            paused[i] = seed >> 128 & 3 != 0;
            times[i] = now_;
            stock.setOraclePaused(paused[i]);
            resolver.witness(address(stock));
        }
        seed = uint256(keccak256(abi.encode(seed)));
        vm.warp(now_ + seed % 80 minutes);
        bool isPaused = seed >> 128 & 1 != 0;
        stock.setOraclePaused(isPaused);
        for (uint256 i; i < 40; ++i) {
            seed = uint256(keccak256(abi.encode(seed)));
            uint256 to = STRIKE + seed % (now_ + seed % 80 minutes - STRIKE + 1);
            if (to > block.timestamp) to = block.timestamp;
            uint256 from = to - (seed >> 128) % 2 hours;
            bool expected;
            for (uint256 j; j < 12; ++j) {
                if (!paused[j] || times[j] > to) continue;
                uint256 until = times[j];
                if (j == 11 && isPaused && block.timestamp - until <= 1 hours) until = block.timestamp;
                if (j < 11 && paused[j + 1] && times[j + 1] - until <= 1 hours) until = times[j + 1];
                if (until >= from) expected = true;
            }
            vm.assertEq(resolver.pausedBetween(address(stock), uint64(from), uint64(to)), expected);
        }
    }

    function test_only_stocks_of_the_venue_are_witnessed() external {
        vm.expectRevert(abi.encodeWithSelector(IRoundResolver.UnknownStockToken.selector, address(0xBAD)));
        resolver.witness(address(0xBAD));
    }

    function test_what_is_not_new_is_not_said() external {
        (uint64 none,,) = resolver.lastPause(address(stock));
        vm.assertEq(uint256(none), 0);
        vm.recordLogs();
        resolver.witness(address(stock));
        vm.assertEq(vm.getRecordedLogs().length, 0);
        stock.setOraclePaused(true);
        vm.expectEmit(true, true, true, true, address(resolver));
        emit IRoundResolver.Witnessed(address(stock), true, 1e18);
        vm.assertTrue(resolver.witness(address(stock)));
        (uint64 first, uint64 last, bool over) = resolver.lastPause(address(stock));
        vm.assertEq(abi.encode(first, last, over), abi.encode(STRIKE - 60, STRIKE - 60, false));
        stock.setOraclePaused(false);
        vm.expectEmit(true, true, true, true, address(resolver));
        emit IRoundResolver.Witnessed(address(stock), false, 1e18);
        vm.assertFalse(resolver.witness(address(stock)));
        (,, over) = resolver.lastPause(address(stock));
        vm.assertTrue(over);
    }

    // Listing

    function test_a_stock_that_does_not_answer_or_is_paused_is_not_listed() external {
        OddToken odd = new OddToken(); // a token without the flag
        bytes memory refusal = abi.encodeWithSelector(IRoundResolver.OraclePaused.selector, address(odd));
        vm.expectRevert(refusal);
        vm.prank(OWNER);
        lister.setFeed(address(feed), address(odd), "TSLA", 1 days, 3 hours, SIDE_CAP, true);
        vm.prank(OWNER);
        lister.setFeed(address(feed), address(odd), "TSLA", 1 days, 3 hours, SIDE_CAP, false);
        stock.setOraclePaused(true);
        refusal = abi.encodeWithSelector(IRoundResolver.OraclePaused.selector, address(stock));
        vm.expectRevert(refusal);
        vm.prank(OWNER);
        lister.setFeed(address(feed), address(stock), "TSLA", 1 days, 3 hours, SIDE_CAP, true);
    }

    function test_a_market_is_not_opened_while_its_stock_is_paused() external {
        stock.setOraclePaused(true);
        IMarketLister.OpenParams memory p = listing();
        (p.strikeTime, p.finalTime) = (p.strikeTime + 1 hours, p.finalTime + 1 hours);
        vm.expectRevert(abi.encodeWithSelector(IRoundResolver.OraclePaused.selector, address(stock)));
        vm.prank(OPENER);
        lister.open(p);
    }

    // The multiplier

    function test_a_split_between_strike_and_bell_voids() external {
        push(25e8, FINAL - 2 hours);
        vm.warp(FINAL - 1 hours);
        stock.setMultiplier(4e18);
        vm.expectEmit(true, true, true, true, address(resolver));
        emit IRoundResolver.Witnessed(address(stock), false, 4e18);
        resolver.witness(address(stock));
        vm.assertEq(resolver.multiplierAt(address(stock), STRIKE), 1e18);
        vm.assertEq(resolver.multiplierAt(address(stock), FINAL), 4e18);
        vm.warp(FINAL + 121);
        expectVoid(6);
        vm.expectEmit(true, false, false, false, address(resolver));
        emit IRoundResolver.Settled(market, 3, 5, 0, 0, 0, 0, 0, 0);
        resolver.voidPaused(market);
    }

    function test_a_split_before_the_strikes_reading_or_after_the_bell_changes_nothing() external {
        stock.setMultiplier(4e18);
        resolver.witness(address(stock));
        push(101e8, STRIKE - 10);
        push(102e8, FINAL - 1 hours);
        vm.warp(FINAL + 1);
        stock.setMultiplier(5e18);
        resolver.witness(address(stock));
        vm.warp(FINAL + 121);
        expectSettled(1);
    }

    /// Unknown is no change: a multiplier that cannot be read for a while leaves what was known.
    function test_a_multiplier_that_cannot_be_read_is_no_change() external {
        push(101e8, FINAL - 1 hours);
        vm.mockCallRevert(address(stock), abi.encodeWithSignature("uiMultiplier()"), "");
        resolver.witness(address(stock));
        vm.assertEq(resolver.multiplierAt(address(stock), FINAL), 1e18);
        vm.clearMockedCalls();
        resolver.witness(address(stock));
        vm.warp(FINAL + 121);
        expectSettled(1);
    }

    // Ages

    function test_a_reading_of_a_bell_is_at_most_three_hours_old() external {
        vm.expectRevert(abi.encodeWithSelector(IMarketLister.AgeOutOfBounds.selector, "final", 3 hours + 1, 3 hours));
        vm.prank(OWNER);
        lister.setFeed(address(feed), address(stock), "TSLA", 1 days, 3 hours + 1, SIDE_CAP, true);
        vm.expectRevert(abi.encodeWithSelector(IMarketLister.AgeOutOfBounds.selector, "strike", 5 days + 1, 5 days));
        vm.prank(OWNER);
        lister.setFeed(address(feed), address(stock), "TSLA", 5 days + 1, 3 hours, SIDE_CAP, true);
    }

    // Internals

    function push(int256 answer, uint256 at) private {
        vm.warp(at);
        feed.push(answer, at);
    }

    function pause(uint256 at) private {
        vm.warp(at);
        stock.setOraclePaused(true);
        resolver.witness(address(stock));
    }

    /// The market can only be voided, no matter who settles it.
    function expectVoid(uint8 status) private {
        (uint8 s, uint80 strike,,, uint80 last,,) = resolver.preview(market);
        vm.assertEq(uint256(s), status);
        bytes memory refusal = abi.encodeWithSelector(IRoundResolver.OraclePaused.selector, address(stock));
        vm.expectRevert(refusal);
        resolver.resolve(market);
        vm.expectRevert(refusal);
        resolver.resolveWith(market, strike, last);
        uint256 start = vm.snapshotState();
        resolver.voidPaused(market);
        vm.assertTrue(markets.market(market).status == IVestedMarkets.Status.Void);
        vm.revertToState(start);
    }

    function expectSettled(uint8 status) private view {
        (uint8 s,,,,,,) = resolver.preview(market);
        vm.assertEq(uint256(s), status);
    }
}

/// The sequencer of a rollup stands still: no feed can write, and what was read last is everybody's answer.
contract SequencerTest is FullStack {
    LocalFeed private uptime;
    uint256 private market;

    function sequencer() internal override returns (address) {
        uptime = LocalFeed(deploy("LocalFeed", ""));
        uptime.push(0, START - 30 days);
        return address(uptime);
    }

    function settleDelay() internal pure override returns (uint32) {
        return 120;
    }

    function setUp() public override {
        super.setUp();
        market = open();
        feed.push(100e8, STRIKE - 60);
    }

    function test_a_sequencer_that_is_up_changes_nothing() external {
        play(FINAL - 1 hours);
        vm.warp(FINAL + 121);
        expectPreview(1);
        resolver.resolve(market);
    }

    /// Rounds may be shown late: one that belongs before the bell, shown a minute after it.
    function test_nothing_settles_in_the_two_minutes_in_which_rounds_may_still_be_shown() external {
        play(FINAL - 1 hours);
        vm.warp(FINAL + 120);
        expectPreview(0);
        vm.expectRevert(abi.encodeWithSelector(IRoundResolver.TooEarly.selector, FINAL + 121, FINAL + 120));
        resolver.resolve(market);
        feed.push(99e8, FINAL - 5);
        vm.warp(FINAL + 121);
        expectPreview(2);
    }

    function test_nothing_settles_while_it_is_down_or_its_feed_is_silent() external {
        play(FINAL - 1 hours);
        uptime.push(1, FINAL + 60);
        vm.warp(FINAL + 121);
        expectPreview(0);
        vm.expectRevert(abi.encodeWithSelector(IRoundResolver.SequencerDown.selector, address(uptime)));
        resolver.resolve(market);
        vm.mockCallRevert(address(uptime), abi.encodeWithSignature("latestRoundData()"), "");
        expectPreview(0);
        vm.expectRevert(abi.encodeWithSelector(IRoundResolver.SequencerDown.selector, address(uptime)));
        resolver.voidStale(market, R1, R2);
    }

    function test_a_price_read_through_an_outage_decides_nothing() external {
        play(FINAL - 2 hours);
        uptime.push(1, FINAL - 1 hours);
        uptime.push(0, FINAL + 10 minutes);
        vm.warp(FINAL + 20 minutes);
        expectPreview(0);
        bytes memory early =
            abi.encodeWithSelector(IRoundResolver.TooEarly.selector, FINAL + 70 minutes, FINAL + 20 minutes);
        vm.expectRevert(early);
        resolver.resolve(market);
        vm.warp(FINAL + 70 minutes);
        expectPreview(4);
        bytes memory stale = abi.encodeWithSelector(IRoundResolver.ReadingStale.selector, 60, 2 hours);
        vm.expectRevert(stale);
        resolver.resolve(market);
        vm.expectRevert(stale);
        resolver.resolveWith(market, R1, R2);
        vm.expectEmit(true, true, true, true, address(resolver));
        emit IRoundResolver.Settled(market, 3, 6, R1, 100e8, STRIKE - 60, R2, 101e8, FINAL - 2 hours);
        resolver.voidStale(market, R1, R2);
    }

    function test_an_outage_that_ended_just_before_the_bell_with_no_round_since_voids() external {
        play(FINAL - 2 hours);
        uptime.push(1, FINAL - 90 minutes);
        uptime.push(0, FINAL - 30 minutes);
        vm.warp(FINAL + 31 minutes);
        expectPreview(4);
    }

    function test_an_outage_changes_nothing_with_a_round_or_an_hour_after_it_or_past_the_bell() external {
        uptime.push(1, FINAL - 3 hours);
        uptime.push(0, FINAL - 61 minutes);
        play(FINAL - 61 minutes - 1); // an hour to write in, and it did not have to
        vm.warp(FINAL + 121);
        expectPreview(1);
        uptime.push(1, FINAL - 30 minutes);
        uptime.push(0, FINAL - 20 minutes);
        vm.warp(FINAL + 41 minutes);
        expectPreview(4);
        feed.push(99e8, FINAL - 20 minutes);
        expectPreview(2);
        uptime.push(1, FINAL + 42 minutes);
        uptime.push(0, FINAL + 43 minutes);
        vm.warp(FINAL + 43 minutes + 1 hours);
        expectPreview(2);
    }

    function test_an_outage_over_the_strike_voids_though_others_came_after_it() external {
        uptime.push(1, STRIKE - 30);
        uptime.push(0, STRIKE + 30);
        uptime.push(1, STRIKE + 60);
        uptime.push(0, STRIKE + 90);
        play(FINAL - 1 hours);
        vm.warp(FINAL + 121);
        expectPreview(4);
    }

    /// A feed that says more than can be looked at is not believed, and one whose past is gone says nothing of it.
    function test_the_edges_of_what_is_looked_at() external {
        play(FINAL - 1 hours);
        uptime.startPhase();
        uptime.push(0, FINAL + 1);
        vm.warp(FINAL + 2 hours);
        expectPreview(1);
        for (uint256 i; i < 8; ++i) {
            uptime.push(1, FINAL + 10 + i * 20);
            uptime.push(0, FINAL + 20 + i * 20);
        }
        expectPreview(4);
    }

    function test_the_delay_has_a_bound() external {
        vm.expectRevert(abi.encodeWithSelector(IRoundResolver.SettleDelayTooLong.selector, 3601, 3600));
        new RoundResolver(address(1), address(2), address(0), 3601);
        vm.assertEq(uint256(resolver.settleDelay()), 120);
        vm.assertEq(resolver.sequencerFeed(), address(uptime));
    }

    uint80 private constant R1 = 1 << 64 | 2; // the first round is the one that the feed was allowed with
    uint80 private constant R2 = 1 << 64 | 3;

    function play(uint256 readAt) private {
        feed.push(101e8, readAt);
    }

    function expectPreview(uint8 status) private view {
        (uint8 s,,,,,,) = resolver.preview(market);
        vm.assertEq(uint256(s), status);
    }

    /// A change from before the listing, witnessed only after it, must not void the market.
    function test_a_change_before_the_listing_is_no_option() public {
        vm.warp(START + 10);
        stock.setMultiplier(1.005e18);
        feed.push(100e8, START + 10);
        vm.warp(START + 30 minutes);
        market = open();
        vm.warp(STRIKE - 60);
        feed.push(100e8, STRIKE - 60);
        vm.warp(FINAL - 1 hours);
        feed.push(101e8, FINAL - 1 hours);
        vm.warp(FINAL - 1);
        resolver.witness(address(stock));
        vm.warp(FINAL + resolver.settleDelay() + 1);
        vm.expectRevert(abi.encodeWithSelector(IRoundResolver.OracleNotPaused.selector, address(stock)));
        resolver.voidPaused(market);
        resolver.resolve(market);
        vm.assertTrue(markets.market(market).status == IVestedMarkets.Status.Up);
    }
}
