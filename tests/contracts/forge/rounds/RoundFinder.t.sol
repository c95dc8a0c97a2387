// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {GuardedRead} from "../../../../contracts/lib/GuardedRead.sol";
import {RoundFinder} from "../../../../contracts/lib/RoundFinder.sol";
import {LocalFeed} from "../../../../contracts/local/LocalFeed.sol";
import {Base} from "../Base.sol";
import {FinderProbe, HostileFeed} from "./Probe.sol";

/// The corners that random tapes do not reach: long phases, broken feeds, hostile feeds, starved calls.
contract RoundFinderTest is Base {
    FinderProbe private probe = new FinderProbe();
    LocalFeed private feed = new LocalFeed();
    HostileFeed private hostile = new HostileFeed();

    // Problems

    function test_every_problem_has_its_code() external {
        // The feed at an address without code, and one without the function.
        _expectProblem(address(0xdead), 1);
        _expectProblem(address(probe), 2);
        // An empty feed whose missing rounds revert cannot even say its phase.
        _expectProblem(address(feed), 2);
        feed.setMissingMode(LocalFeed.Missing.Zeros);
        _expectProblem(address(feed), 4);
        feed.push(1, 100);
        _expectReading(address(feed), 1 << 64 | 1, 100);
        // An aggregator without a proxy: no phase in its ids. Ids over 80 bits are no ids.
        hostile.setLatest(5, HostileFeed.Trick.None);
        _expectProblem(address(hostile), 3);
        vm.mockCall(address(0xf00d), abi.encodeWithSignature("latestRoundData()"), abi.encode(1 << 80, 1, 1, 1, 1));
        _expectProblem(address(0xf00d), 3);
    }

    function test_walk_is_bounded_at_eight_phases() external {
        feed.push(1, 100);
        for (uint256 p = 2; p <= 8; ++p) {
            feed.startPhase();
        }
        feed.push(2, 5000); // later than the time asked for
        _expectReading(address(feed), 1 << 64 | 1, 100);
        feed.startPhase();
        feed.push(3, 5000);
        _expectProblem(address(feed), 5);
        (bool ok,) = probe.prove(address(feed), 1 << 64 | 1, 1000);
        vm.assertFalse(ok);
        // Still in reach: the reading in the oldest of the last eight.
        feed.pushInto(2, 4, 200);
        _expectReading(address(feed), 2 << 64 | 1, 200);
    }

    // Lesson 3

    function test_overlapping_phases_have_one_reading() external {
        feed.push(1, 100);
        feed.push(2, 200);
        feed.startPhase();
        feed.push(3, 150); // restates the past
        feed.push(4, 300);
        vm.assertEq(uint256(_read(250).id), 2 << 64 | 1);
        (bool ok,) = probe.prove(address(feed), 1 << 64 | 2, 250);
        vm.assertFalse(ok, "a round of an overtaken phase proves");
        (ok,) = probe.prove(address(feed), 2 << 64 | 1, 250);
        vm.assertTrue(ok);
        // Before the new phase begins the old one holds.
        vm.assertEq(uint256(_read(149).id), 1 << 64 | 1);
        (ok,) = probe.prove(address(feed), 1 << 64 | 1, 149);
        vm.assertTrue(ok);
    }

    function test_round_of_a_phase_to_come_does_not_prove() external {
        hostile.setLatest(1 << 64 | 1, HostileFeed.Trick.None);
        hostile.setRound(1 << 64 | 1, 100, HostileFeed.Trick.None);
        hostile.setRound(2 << 64 | 1, 100, HostileFeed.Trick.None);
        (bool ok,) = probe.prove(address(hostile), 2 << 64 | 1, 1000);
        vm.assertFalse(ok);
        _expectReading(address(hostile), 1 << 64 | 1, 100);
    }

    // Long phases

    function testFuzz_long_phase(uint256 length, uint256 time, bool older) external {
        length = bound(length, 1, 300);
        time = bound(time, 1, 3100);
        for (uint256 n = 1; n <= length; ++n) {
            feed.push(int256(n), n * 10);
        }
        if (older) {
            feed.startPhase();
            feed.setMissingMode(LocalFeed.Missing.Zeros);
        }
        uint256 want = time / 10 < length ? time / 10 : length;
        (RoundFinder.Round memory round, uint8 problem) = probe.find(address(feed), time);
        vm.assertEq(uint256(problem), want == 0 ? 4 : 0);
        vm.assertEq(uint256(uint64(round.id)), want);
        if (want != 0) vm.assertEq(round.answer, int256(want));
    }

    function test_recent_reading_of_a_long_phase_takes_few_reads() external {
        for (uint256 n = 1; n <= 3000; ++n) {
            feed.push(int256(n), n * 10);
        }
        uint256 before = gasleft();
        vm.assertEq(uint256(uint64(_read(29_955).id)), 2995);
        vm.assertLt(before - gasleft(), 60_000);
    }

    function test_endless_phase_ends_at_the_highest_number() external {
        hostile.setEndless(100);
        uint64 highest = type(uint64).max - 1;
        hostile.setLatest(1 << 64 | 1, HostileFeed.Trick.None);
        _expectReading(address(hostile), 1 << 64 | uint80(highest), 100);
        hostile.setLatest(1 << 64 | uint80(type(uint64).max), HostileFeed.Trick.None);
        _expectReading(address(hostile), 1 << 64 | uint80(highest), 100);
        // The number after it is none, not even where a feed has a round there and nothing behind it.
        hostile.setEndless(0);
        hostile.setRound(1 << 64 | uint80(type(uint64).max), 100, HostileFeed.Trick.None);
        (bool ok,) = probe.prove(address(hostile), 1 << 64 | uint80(type(uint64).max), 1000);
        vm.assertFalse(ok);
    }

    function test_a_wrong_latest_number_misleads_nobody() external {
        for (uint256 n = 1; n <= 20; ++n) {
            hostile.setRound(uint80(3 << 64 | n), n * 10, HostileFeed.Trick.None);
        }
        uint80[6] memory hints = [uint80(0), 1, 7, 20, 21, type(uint64).max];
        for (uint256 i; i < hints.length; ++i) {
            hostile.setLatest(3 << 64 | hints[i], HostileFeed.Trick.None);
            for (uint256 time = 10; time < 230; ++time) {
                (RoundFinder.Round memory round,) = probe.find(address(hostile), time);
                vm.assertEq(uint256(uint64(round.id)), time < 200 ? time / 10 : 20);
            }
        }
    }

    // Broken and hostile feeds

    function test_a_round_that_cannot_be_read_is_absent() external {
        hostile.setLatest(1 << 64 | 2, HostileFeed.Trick.None);
        hostile.setRound(1 << 64 | 1, 100, HostileFeed.Trick.None);
        for (uint8 trick = 1; trick <= 6; ++trick) {
            if (HostileFeed.Trick(trick) == HostileFeed.Trick.Huge) continue;
            hostile.setRound(1 << 64 | 2, 200, HostileFeed.Trick(trick));
            (bool present, RoundFinder.Round memory round) = probe.read(address(hostile), 1 << 64 | 2);
            vm.assertFalse(present);
            vm.assertEq(abi.encode(round), new bytes(96));
            _expectReading(address(hostile), 1 << 64 | 1, 100);
            (bool ok,) = probe.prove(address(hostile), 1 << 64 | 1, 1000);
            vm.assertTrue(ok);
            (ok, round) = probe.prove(address(hostile), 1 << 64 | 2, 1000);
            vm.assertFalse(ok);
            vm.assertEq(abi.encode(round), new bytes(96));
        }
    }

    function test_a_feed_whose_latest_round_cannot_be_read_has_no_reading() external {
        hostile.setRound(1 << 64 | 1, 100, HostileFeed.Trick.None);
        for (uint8 trick = 1; trick <= 6; ++trick) {
            if (HostileFeed.Trick(trick) == HostileFeed.Trick.Huge) continue;
            hostile.setLatest(1 << 64 | 1, HostileFeed.Trick(trick));
            _expectProblem(address(hostile), 2);
            (bool ok,) = probe.prove(address(hostile), 1 << 64 | 1, 1000);
            vm.assertFalse(ok);
        }
    }

    function test_huge_answers_are_not_copied() external {
        hostile.setLatest(1 << 64 | 2, HostileFeed.Trick.None);
        hostile.setRound(1 << 64 | 1, 100, HostileFeed.Trick.None);
        hostile.setRound(1 << 64 | 2, 200, HostileFeed.Trick.None);
        uint256 modest = _gasOfRead(1 << 64 | 2);
        hostile.setRound(1 << 64 | 2, 200, HostileFeed.Trick.Huge);
        (bool present,) = probe.read(address(hostile), 1 << 64 | 2);
        vm.assertTrue(present); // longer than needed is not short
        _expectReading(address(hostile), 1 << 64 | 2, 200);
        // What the feed itself pays for 40,000 bytes of memory, and nothing for copying them.
        vm.assertLt(_gasOfRead(1 << 64 | 2), modest + 8_000);
        hostile.setRound(1 << 64 | 2, 200, HostileFeed.Trick.RevertHuge);
        vm.assertLt(_gasOfRead(1 << 64 | 2), modest + 8_000);
    }

    // Starvation: with any amount of gas, a wrong round never proves and the finder never finds another one.

    function test_starved_calls_revert_and_never_lie() external {
        hostile.setLatest(1 << 64 | 2, HostileFeed.Trick.None);
        hostile.setRound(1 << 64 | 1, 100, HostileFeed.Trick.None);
        hostile.setRound(1 << 64 | 2, 200, HostileFeed.Trick.Heavy);
        uint256 answered;
        for (uint256 gas_ = 20_000; gas_ < 700_000; gas_ += 700) {
            try probe.prove{gas: gas_}(address(hostile), 1 << 64 | 1, 1000) returns (
                bool ok, RoundFinder.Round memory
            ) {
                vm.assertFalse(ok, "a starved read passed for an absent round");
                ++answered;
            } catch {}
            try probe.find{gas: gas_}(address(hostile), 1000) returns (RoundFinder.Round memory round, uint8 problem) {
                vm.assertEq(uint256(problem), 0);
                vm.assertEq(uint256(round.id), 1 << 64 | 2);
                ++answered;
            } catch {}
        }
        vm.assertGt(answered, 100);
    }

    function test_too_little_gas_is_named() external {
        feed.push(1, 100);
        try probe.find{gas: 100_000}(address(feed), 1000) {
            revert("answered");
        } catch (bytes memory reason) {
            vm.assertEq(bytes32(bytes4(reason)), bytes32(GuardedRead.ReadGasTooLow.selector));
        }
    }

    // Internals

    function _read(uint256 time) private view returns (RoundFinder.Round memory round) {
        uint8 problem;
        (round, problem) = probe.find(address(feed), time);
        vm.assertEq(uint256(problem), 0);
    }

    function _gasOfRead(uint80 id) private view returns (uint256) {
        uint256 before = gasleft();
        probe.read(address(hostile), id);
        return before - gasleft();
    }

    function _expectProblem(address target, uint256 want) private view {
        (RoundFinder.Round memory round, uint8 problem) = probe.find(target, 1000);
        vm.assertEq(uint256(problem), want);
        vm.assertEq(abi.encode(round), new bytes(96));
    }

    function _expectReading(address target, uint256 id, uint256 updatedAt) private view {
        (RoundFinder.Round memory round, uint8 problem) = probe.find(target, 1000);
        vm.assertEq(uint256(problem), 0);
        vm.assertEq(uint256(round.id), id);
        vm.assertEq(round.updatedAt, updatedAt);
    }
}
