// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {LocalFeed} from "../../../../contracts/local/LocalFeed.sol";
import {LocalStockToken} from "../../../../contracts/local/LocalStockToken.sol";
import {IRoundResolver} from "../../../../contracts/stock/IRoundResolver.sol";
import {RoundResolver} from "../../../../contracts/stock/RoundResolver.sol";
import {Base} from "../Base.sol";
import {HostileFeed, OddToken, RecordingSettler} from "./Probe.sol";

contract RoundResolverTest is Base {
    uint256 private constant MARKET = 7;
    uint64 private constant STRIKE = 10_000;
    uint64 private constant FINAL = 20_000;
    uint80 private constant R1 = 1 << 64 | 1;
    uint80 private constant R2 = 1 << 64 | 2;

    address private constant LISTER = address(0x115);

    LocalFeed private feed = new LocalFeed();
    LocalStockToken private stock = new LocalStockToken();
    RecordingSettler private settler = new RecordingSettler();
    RoundResolver private resolver = new RoundResolver(address(settler), LISTER, address(0), 0);

    function setUp() external {
        vm.warp(9_000);
    }

    // Registration: lessons 4 and 7

    function test_constructor_refuses_zero_addresses() external {
        vm.expectRevert(abi.encodeWithSelector(IRoundResolver.ZeroAddress.selector, "settler"));
        new RoundResolver(address(0), LISTER, address(0), 0);
        vm.expectRevert(abi.encodeWithSelector(IRoundResolver.ZeroAddress.selector, "lister"));
        new RoundResolver(address(settler), address(0), address(0), 0);
        vm.assertEq(resolver.settler(), address(settler));
        vm.assertEq(resolver.lister(), LISTER);
    }

    function test_register_keeps_the_spec_and_says_so() external {
        IRoundResolver.Spec memory s = _spec();
        bytes32 id = keccak256(abi.encode(block.chainid, address(resolver), s));
        vm.expectEmit(true, true, false, true, address(resolver));
        emit IRoundResolver.SpecRegistered(MARKET, id, address(feed), address(stock), STRIKE, FINAL, 3600, 7200);
        vm.prank(LISTER);
        vm.assertEq(resolver.register(s), id);
        vm.assertEq(abi.encode(resolver.spec(MARKET)), abi.encode(s));
    }

    function test_only_the_lister_registers() external {
        IRoundResolver.Spec memory s = _spec();
        vm.expectRevert(abi.encodeWithSelector(IRoundResolver.NotLister.selector, address(this), LISTER));
        resolver.register(s);
    }

    function test_a_market_is_registered_once() external {
        _register();
        IRoundResolver.Spec memory s = _spec();
        s.finalTime += 1;
        _refuse(s, abi.encodeWithSelector(IRoundResolver.AlreadyRegistered.selector, MARKET));
        vm.assertEq(uint256(resolver.spec(MARKET).finalTime), FINAL);
    }

    function test_a_strike_now_or_in_the_past_is_refused() external {
        IRoundResolver.Spec memory s = _spec();
        vm.warp(STRIKE);
        _refuse(s, abi.encodeWithSelector(IRoundResolver.StrikeNotAhead.selector, STRIKE, STRIKE));
        vm.warp(STRIKE + 1);
        _refuse(s, abi.encodeWithSelector(IRoundResolver.StrikeNotAhead.selector, STRIKE, STRIKE + 1));
        vm.warp(STRIKE - 1);
        _register();
    }

    function test_impossible_specs_are_refused() external {
        IRoundResolver.Spec memory s = _spec();
        s.finalTime = STRIKE;
        _refuse(s, abi.encodeWithSelector(IRoundResolver.FinalNotAfterStrike.selector, STRIKE, STRIKE));
        s = _spec();
        s.feed = address(0);
        _refuse(s, abi.encodeWithSelector(IRoundResolver.ZeroAddress.selector, "feed"));
        s = _spec();
        s.stockToken = address(0);
        _refuse(s, abi.encodeWithSelector(IRoundResolver.ZeroAddress.selector, "stockToken"));
    }

    // Settling

    function test_higher_is_up() external {
        _play(100e8, 101e8);
        _expectSettled(0, 0, 100e8, 101e8);
        resolver.resolve(MARKET);
        vm.assertEq(uint256(settler.settledAs(MARKET)), 1);
        vm.assertEq(settler.caller(), address(resolver));
    }

    function test_lower_is_down_by_given_rounds() external {
        _play(100e8, 99e8);
        _expectSettled(1, 0, 100e8, 99e8);
        resolver.resolveWith(MARKET, R1, R2);
        vm.assertEq(uint256(settler.settledAs(MARKET)), 2);
    }

    function test_equal_answers_are_flat_and_void() external {
        _play(100e8, 100e8);
        _expectPreview(3, R1, R2);
        _expectSettled(2, 1, 100e8, 100e8);
        resolver.resolve(MARKET);
        vm.assertEq(uint256(settler.settledAs(MARKET)), 3);
    }

    function test_the_same_round_is_flat_and_void() external {
        _register();
        feed.push(100e8, STRIKE - 1);
        vm.warp(FINAL + 1);
        IRoundResolver.Spec memory s = resolver.spec(MARKET);
        vm.assertGt(uint256(FINAL - (STRIKE - 1)), s.maxFinalAge); // too old for this market's bound
        _expectPreview(4, R1, R1);
        // A market that allows the age sees it as flat.
        vm.warp(9_000);
        s.marketId = MARKET + 1;
        s.maxFinalAge = 1 days;
        vm.prank(LISTER);
        resolver.register(s);
        vm.warp(FINAL + 1);
        resolver.resolveWith(MARKET + 1, R1, R1);
        vm.assertEq(uint256(settler.settledAs(MARKET + 1)), 3);
    }

    function test_a_settled_market_is_not_settled_again() external {
        _play(100e8, 101e8);
        resolver.resolve(MARKET);
        bytes memory refusal = abi.encodeWithSelector(RecordingSettler.AlreadySettled.selector, MARKET);
        vm.expectRevert(refusal);
        resolver.resolve(MARKET);
        vm.expectRevert(refusal);
        resolver.resolveWith(MARKET, R1, R2);
    }

    function test_nothing_happens_before_the_final_time_is_over() external {
        _play(100e8, 101e8);
        vm.warp(FINAL); // a round written in this second would still count
        bytes memory refusal = abi.encodeWithSelector(IRoundResolver.TooEarly.selector, FINAL + 1, FINAL);
        vm.expectRevert(refusal);
        resolver.resolve(MARKET);
        vm.expectRevert(refusal);
        resolver.resolveWith(MARKET, R1, R2);
        vm.expectRevert(refusal);
        resolver.voidStale(MARKET, R1, R2);
        vm.expectRevert(refusal);
        resolver.voidBadAnswer(MARKET, R1, R2);
        _expectPreview(0, 0, 0);
        vm.warp(FINAL + 1);
        _expectPreview(1, R1, R2);
        resolver.resolve(MARKET);
    }

    function test_a_round_written_in_the_final_second_counts() external {
        _play(100e8, 101e8);
        feed.push(99e8, FINAL);
        vm.expectRevert(abi.encodeWithSelector(IRoundResolver.NotInEffect.selector, address(feed), R2, FINAL));
        resolver.resolveWith(MARKET, R1, R2);
        resolver.resolveWith(MARKET, R1, R2 + 1);
        vm.assertEq(uint256(settler.settledAs(MARKET)), 2);
    }

    function test_unknown_markets() external {
        vm.warp(FINAL + 2 days);
        bytes memory refusal = abi.encodeWithSelector(IRoundResolver.UnknownMarket.selector, 8);
        vm.expectRevert(refusal);
        resolver.resolve(8);
        vm.expectRevert(refusal);
        resolver.resolveWith(8, R1, R2);
        vm.expectRevert(refusal);
        resolver.voidStale(8, R1, R2);
        vm.expectRevert(refusal);
        resolver.voidBadAnswer(8, R1, R2);
        vm.expectRevert(refusal);
        resolver.voidPaused(8);
        (uint8 status,,,,,,) = resolver.preview(8);
        vm.assertEq(uint256(status), 0);
        vm.assertEq(resolver.spec(8).feed, address(0));
    }

    // Proofs: lesson 3

    function test_a_pair_that_is_not_in_effect_proves_nothing() external {
        _play(100e8, 101e8);
        bytes memory wrongStrike =
            abi.encodeWithSelector(IRoundResolver.NotInEffect.selector, address(feed), R2, STRIKE);
        bytes memory wrongFinal = abi.encodeWithSelector(IRoundResolver.NotInEffect.selector, address(feed), R1, FINAL);
        vm.expectRevert(wrongStrike);
        resolver.resolveWith(MARKET, R2, R2);
        vm.expectRevert(wrongFinal);
        resolver.resolveWith(MARKET, R1, R1);
        vm.expectRevert(wrongFinal);
        resolver.voidStale(MARKET, R1, R1);
        vm.expectRevert(wrongFinal);
        resolver.voidBadAnswer(MARKET, R1, R1);
    }

    function test_overlapping_phases_settle_one_way_only() external {
        _play(100e8, 101e8);
        // A new aggregator that restates the window the other way round.
        feed.startPhase();
        feed.push(100e8, STRIKE - 10);
        feed.push(99e8, FINAL - 10);
        vm.expectRevert(abi.encodeWithSelector(IRoundResolver.NotInEffect.selector, address(feed), R1, STRIKE));
        resolver.resolveWith(MARKET, R1, R2);
        resolver.resolveWith(MARKET, 2 << 64 | 1, 2 << 64 | 2);
        vm.assertEq(uint256(settler.settledAs(MARKET)), 2);
    }

    function test_a_missing_reading_settles_nothing() external {
        _register();
        feed.push(100e8, STRIKE + 1);
        vm.warp(FINAL + 1);
        _expectPreview(5, 0, R1);
        vm.expectRevert(abi.encodeWithSelector(IRoundResolver.NoReading.selector, address(feed), STRIKE, 4));
        resolver.resolve(MARKET);
        vm.expectRevert(abi.encodeWithSelector(IRoundResolver.NotInEffect.selector, address(feed), 0, STRIKE));
        resolver.voidStale(MARKET, 0, R1);
        (uint80 id, uint8 problem) = resolver.findRound(address(feed), STRIKE);
        vm.assertEq(uint256(id), 0);
        vm.assertEq(uint256(problem), 4);
        (id, problem) = resolver.findRound(address(feed), STRIKE + 1);
        vm.assertEq(uint256(id), R1);
        vm.assertEq(uint256(problem), 0);
    }

    function test_a_feed_that_breaks_between_strike_and_final() external {
        HostileFeed h = new HostileFeed();
        h.setLatest(1 << 64 | 1, HostileFeed.Trick.None);
        h.setRound(R1, STRIKE - 10, HostileFeed.Trick.None);
        IRoundResolver.Spec memory s = _spec();
        s.feed = address(h);
        vm.prank(LISTER);
        resolver.register(s);
        vm.warp(FINAL + 1);
        h.setLatest(1 << 64 | 1, HostileFeed.Trick.Revert);
        bytes memory refusal = abi.encodeWithSelector(IRoundResolver.NoReading.selector, address(h), STRIKE, 2);
        vm.expectRevert(refusal);
        resolver.resolve(MARKET);
        vm.expectRevert(refusal);
        resolver.resolveWith(MARKET, R1, R1);
        _expectPreview(5, 0, 0);
        _pause();
        _expectPreview(5, 0, 0);
    }

    /// Only a feed that changes between two reads of one call has a strike and then no final; it settles nothing.
    function test_a_feed_that_changes_its_phase_between_two_reads() external {
        FlickeringFeed h = new FlickeringFeed();
        IRoundResolver.Spec memory s = _spec();
        s.feed = address(h);
        vm.prank(LISTER);
        resolver.register(s);
        vm.warp(FINAL + 1);
        vm.expectRevert(abi.encodeWithSelector(IRoundResolver.NoReading.selector, address(h), FINAL, 2));
        resolver.resolve{gas: 2_000_000}(MARKET);
    }

    // Staleness

    function test_stale_readings_void_and_never_resolve() external {
        _register();
        feed.push(100e8, STRIKE - 3601); // one second too old
        feed.push(101e8, FINAL);
        vm.warp(FINAL + 1);
        _expectPreview(4, R1, R2);
        vm.expectRevert(abi.encodeWithSelector(IRoundResolver.ReadingStale.selector, 3601, 0));
        resolver.resolve(MARKET);
        vm.expectRevert(abi.encodeWithSelector(IRoundResolver.ReadingStale.selector, 3601, 0));
        resolver.resolveWith(MARKET, R1, R2);
        vm.expectEmit(true, true, true, true, address(resolver));
        emit IRoundResolver.Settled(MARKET, 3, 2, R1, 100e8, STRIKE - 3601, R2, 101e8, FINAL);
        resolver.voidStale(MARKET, R1, R2);
        vm.assertEq(uint256(settler.settledAs(MARKET)), 3);
    }

    function test_a_stale_final_voids_too() external {
        _register();
        feed.push(100e8, STRIKE);
        feed.push(101e8, FINAL - 7201);
        vm.warp(FINAL + 1);
        _expectPreview(4, R1, R2);
        resolver.voidStale(MARKET, R1, R2);
        vm.assertEq(uint256(settler.settledAs(MARKET)), 3);
    }

    function test_readings_exactly_at_their_bounds_are_fresh() external {
        _register();
        feed.push(100e8, STRIKE - 3600);
        feed.push(101e8, FINAL - 7200);
        vm.warp(FINAL + 1);
        vm.expectRevert(abi.encodeWithSelector(IRoundResolver.ReadingsFresh.selector, 3600, 7200));
        resolver.voidStale(MARKET, R1, R2);
        resolver.resolveWith(MARKET, R1, R2);
        vm.assertEq(uint256(settler.settledAs(MARKET)), 1);
    }

    // Bad answers: lesson 5

    function test_a_garbage_answer_refunds_at_once() external {
        int256[4] memory garbage = [int256(0), -1, 1e14, type(int192).max];
        for (uint256 i; i < garbage.length; ++i) {
            for (uint256 side; side < 2; ++side) {
                uint256 start = vm.snapshotState();
                int256 first = side == 0 ? garbage[i] : int256(100e8);
                int256 second = side == 0 ? int256(100e8) : garbage[i];
                _play(first, second);
                _expectPreview(7, R1, R2);
                bytes memory refusal = abi.encodeWithSelector(IRoundResolver.AnswerOutOfBand.selector, first, second);
                vm.expectRevert(refusal);
                resolver.resolve(MARKET);
                vm.expectRevert(refusal);
                resolver.resolveWith(MARKET, R1, R2);
                _expectSettled(3, 4, first, second);
                resolver.voidBadAnswer(MARKET, R1, R2);
                vm.assertEq(uint256(settler.settledAs(MARKET)), 3);
                vm.revertToState(start);
            }
        }
    }

    function test_the_edges_of_the_band_are_prices() external {
        _play(1, 1e14 - 1);
        vm.expectRevert(abi.encodeWithSelector(IRoundResolver.AnswersInBand.selector, 1, 1e14 - 1));
        resolver.voidBadAnswer(MARKET, R1, R2);
        resolver.resolve(MARKET);
        vm.assertEq(uint256(settler.settledAs(MARKET)), 1);
    }

    function test_bad_and_stale_rounds_void_even_while_the_oracle_is_paused() external {
        _play(0, 100e8);
        vm.warp(FINAL);
        _pause();
        vm.warp(FINAL + 1);
        _expectPreview(7, R1, R2);
        resolver.voidBadAnswer(MARKET, R1, R2);
        vm.assertEq(uint256(settler.settledAs(MARKET)), 3);
    }

    // Pause; over the whole venue in stock/Interrupted.t.sol

    function test_a_paused_oracle_is_not_registered() external {
        stock.setOraclePaused(true);
        _refuse(_spec(), abi.encodeWithSelector(IRoundResolver.OraclePaused.selector, address(stock)));
    }

    function test_a_witnessed_pause_voids_with_both_rounds() external {
        _play(100e8, 101e8);
        vm.warp(FINAL);
        _pause();
        vm.warp(FINAL + 1);
        stock.setOraclePaused(false);
        _expectPreview(6, R1, R2);
        _expectSettled(3, 3, 100e8, 101e8);
        resolver.voidPaused(MARKET);
        vm.assertEq(uint256(settler.settledAs(MARKET)), 3);
    }

    function test_a_pause_that_is_first_seen_after_the_bell_voids_nothing() external {
        _play(100e8, 101e8);
        _pause();
        vm.warp(FINAL + 3 days);
        vm.expectRevert(abi.encodeWithSelector(IRoundResolver.OracleNotPaused.selector, address(stock)));
        resolver.voidPaused(MARKET);
        resolver.resolve(MARKET);
        vm.assertEq(uint256(settler.settledAs(MARKET)), 1);
    }

    function test_an_unreadable_pause_counts_as_paused() external {
        OddToken odd = new OddToken();
        odd.set(new bytes(32), false, false);
        IRoundResolver.Spec memory s = _spec();
        s.stockToken = address(odd);
        vm.startPrank(LISTER);
        resolver.register(s);
        vm.assertFalse(resolver.witness(address(odd)));
        vm.stopPrank();
        _pushPair(100e8, 101e8);
        vm.warp(FINAL);
        odd.set("", false, false); // no data
        _expectWitness(address(odd), true);
        odd.set(new bytes(31), false, false); // short
        _expectWitness(address(odd), true);
        odd.set(new bytes(32), true, false); // reverts
        _expectWitness(address(odd), true);
        odd.set(abi.encode(2), false, false); // neither true nor false
        _expectWitness(address(odd), true);
        odd.set(new bytes(64), false, false); // a clear no, with more behind it
        _expectWitness(address(odd), false);
        vm.etch(address(odd), "");
        _expectWitness(address(odd), true);
        resolver.witness(address(odd));
        vm.warp(FINAL + 1);
        _expectPreview(6, R1, R2);
    }

    /// With any amount of gas, a running oracle is never taken for a paused one, nor a round for absent.
    function test_starved_calls_never_change_the_answer() external {
        OddToken odd = new OddToken();
        odd.set(new bytes(32), false, true);
        IRoundResolver.Spec memory s = _spec();
        s.stockToken = address(odd);
        vm.startPrank(LISTER);
        resolver.register(s);
        resolver.witness(address(odd));
        vm.stopPrank();
        _pushPair(100e8, 101e8);
        vm.warp(FINAL + 1);
        uint256 answered;
        for (uint256 gas_ = 100_000; gas_ < 600_000; gas_ += 500) {
            try resolver.preview{gas: gas_}(MARKET) returns (
                uint8 status, uint80, int256, uint256, uint80, int256, uint256
            ) {
                vm.assertEq(uint256(status), 1, "preview changed its mind");
                ++answered;
            } catch {}
            try resolver.witness{gas: gas_}(address(odd)) returns (bool paused) {
                vm.assertFalse(paused, "a starved witness saw a pause");
                ++answered;
            } catch {}
            (bool ok,) = address(resolver).call{gas: gas_}(abi.encodeCall(resolver.voidPaused, (MARKET)));
            vm.assertFalse(ok);
        }
        vm.assertGt(answered, 200);
    }

    // Cost

    // Internals

    function _spec() private view returns (IRoundResolver.Spec memory) {
        return IRoundResolver.Spec(MARKET, address(feed), address(stock), STRIKE, FINAL, 3600, 7200);
    }

    function _register() private {
        IRoundResolver.Spec memory s = _spec();
        vm.prank(LISTER);
        resolver.register(s);
    }

    function _refuse(IRoundResolver.Spec memory s, bytes memory why) private {
        vm.prank(LISTER);
        vm.expectRevert(why);
        resolver.register(s);
    }

    function _pushPair(int256 strikeAnswer, int256 finalAnswer) private {
        feed.push(strikeAnswer, STRIKE - 100);
        feed.push(finalAnswer, FINAL - 200);
    }

    /// A registered market whose window has passed, R1 in effect at the strike and R2 at the end.
    function _play(int256 strikeAnswer, int256 finalAnswer) private {
        _register();
        _pushPair(strikeAnswer, finalAnswer);
        vm.warp(FINAL + 1);
    }

    function _pause() private {
        stock.setOraclePaused(true);
        vm.prank(LISTER);
        resolver.witness(address(stock));
    }

    /// What a witness would see; it is undone.
    function _expectWitness(address token, bool paused) private {
        uint256 start = vm.snapshotState();
        vm.assertEq(resolver.witness(token), paused);
        vm.revertToState(start);
    }

    function _expectSettled(uint8 outcome, uint8 reason, int256 strikeAnswer, int256 finalAnswer) private {
        vm.expectEmit(true, true, true, true, address(resolver));
        emit IRoundResolver.Settled(
            MARKET, outcome, reason, R1, strikeAnswer, STRIKE - 100, R2, finalAnswer, FINAL - 200
        );
    }

    function _expectPreview(uint256 status, uint256 strike, uint256 last) private view {
        (uint8 s, uint80 a,,, uint80 b,,) = resolver.preview(MARKET);
        vm.assertEq(uint256(s), status);
        vm.assertEq(uint256(a), strike);
        vm.assertEq(uint256(b), last);
    }
}

/// Says its latest round to the first cold call and fails the warm ones: a view can distinguish them by gas.
contract FlickeringFeed {
    uint256 private _slot;

    function latestRoundData() external view returns (uint80, int256, uint256, uint256, uint80) {
        uint256 before = gasleft();
        uint256 value = _slot;
        require(before - gasleft() > 2000 || value > 0);
        return (1 << 64 | 1, 1, 1, 1, 1 << 64 | 1);
    }

    function getRoundData(uint80 id) external pure returns (uint80, int256, uint256, uint256, uint80) {
        require(id == (1 << 64 | 1));
        return (id, 1, 9_990, 9_990, id);
    }
}
