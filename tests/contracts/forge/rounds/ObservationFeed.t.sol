// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {Ownable} from "@openzeppelin/contracts/access/Ownable.sol";

import {RoundFinder} from "../../../../contracts/lib/RoundFinder.sol";
import {IObservationFeed} from "../../../../contracts/feeds/IObservationFeed.sol";
import {ObservationFeed} from "../../../../contracts/feeds/ObservationFeed.sol";
import {Base} from "../Base.sol";
import {FinderProbe} from "./Probe.sol";

contract ObservationFeedTest is Base {
    address private constant PUBLISHER = address(0xb0b);
    uint32 private constant LAG = 300;
    uint64 private constant NOW = 100_000;

    ObservationFeed private feed = new ObservationFeed(address(this), "BNKR / USD market cap", LAG);
    FinderProbe private probe = new FinderProbe();

    function setUp() external {
        vm.warp(NOW);
        feed.setPublisher(PUBLISHER);
    }

    function test_reads_as_a_price_feed() external {
        vm.assertEq(uint256(feed.decimals()), 8);
        vm.assertEq(feed.version(), 1);
        vm.assertEq(uint256(feed.phaseId()), 1);
        vm.assertEq(feed.description(), "BNKR / USD market cap");
        vm.assertEq(uint256(feed.maxLag()), LAG);
        vm.expectEmit(true, true, false, true, address(feed));
        emit IObservationFeed.AnswerUpdated(-5, 1 << 64 | 1, NOW - 1);
        uint80 id = _post(-5, NOW - 1);
        vm.assertEq(uint256(id), 1 << 64 | 1);
        vm.assertEq(uint256(_post(7, NOW)), 1 << 64 | 2);
        vm.assertEq(uint256(feed.roundCount()), 2);
        bytes memory second = abi.encode(1 << 64 | 2, 7, NOW, NOW, 1 << 64 | 2);
        vm.assertEq(_read(abi.encodeCall(feed.latestRoundData, ())), second);
        vm.assertEq(_read(abi.encodeCall(feed.getRoundData, (1 << 64 | 2))), second);
        (RoundFinder.Round memory round, uint8 problem) = probe.find(address(feed), NOW - 1);
        vm.assertEq(uint256(problem), 0);
        vm.assertEq(uint256(round.id), id);
        vm.assertEq(round.answer, -5);
    }

    function test_missing_rounds_revert() external {
        _expectMissing(abi.encodeCall(feed.latestRoundData, ()), 1 << 64);
        _post(1, NOW);
        uint80[5] memory missing = [uint80(0), 1, 1 << 64, 1 << 64 | 2, 2 << 64 | 1];
        for (uint256 i; i < missing.length; ++i) {
            _expectMissing(abi.encodeCall(feed.getRoundData, (missing[i])), missing[i]);
        }
    }

    // Append only

    function test_observations_only_move_forward() external {
        _post(1, NOW - 10);
        vm.prank(PUBLISHER);
        vm.expectRevert(abi.encodeWithSelector(IObservationFeed.NotAfterLast.selector, NOW - 10, NOW - 10));
        feed.post(2, NOW - 10);
        vm.prank(PUBLISHER);
        vm.expectRevert(abi.encodeWithSelector(IObservationFeed.NotAfterLast.selector, NOW - 11, NOW - 10));
        feed.post(2, NOW - 11);
        _post(2, NOW - 9);
    }

    function test_nothing_is_observed_in_the_future() external {
        vm.prank(PUBLISHER);
        vm.expectRevert(abi.encodeWithSelector(IObservationFeed.ObservedInFuture.selector, NOW + 1, NOW));
        feed.post(1, NOW + 1);
        _post(1, NOW);
    }

    function test_nothing_is_back_dated_beyond_the_lag() external {
        vm.prank(PUBLISHER);
        vm.expectRevert(abi.encodeWithSelector(IObservationFeed.ObservedTooLongAgo.selector, NOW - LAG - 1, NOW - LAG));
        feed.post(1, NOW - LAG - 1);
        _post(1, NOW - LAG);
    }

    function test_a_value_has_to_fit() external {
        int256 highest = type(int192).max;
        vm.startPrank(PUBLISHER);
        vm.expectRevert(abi.encodeWithSelector(IObservationFeed.ValueTooLarge.selector, highest + 1));
        feed.post(highest + 1, NOW);
        int256 lowest = type(int192).min;
        vm.expectRevert(abi.encodeWithSelector(IObservationFeed.ValueTooLarge.selector, lowest - 1));
        feed.post(lowest - 1, NOW);
        feed.post(highest, NOW - 1);
        feed.post(lowest, NOW);
        vm.stopPrank();
        (, int256 answer,,,) = feed.latestRoundData();
        vm.assertEq(answer, lowest);
    }

    /// No call changes what was posted, and the reading at a time is fixed `maxLag` after it.
    function testFuzz_the_past_never_changes(uint256 seed) external {
        uint256 time = NOW;
        uint80[] memory ids = new uint80[](40);
        bytes[] memory rounds = new bytes[](40);
        uint256 count;
        for (uint256 i; i < 40; ++i) {
            seed = uint256(keccak256(abi.encode(seed)));
            time += seed % 50;
            vm.warp(time);
            RoundFinder.Round memory before;
            if (time > LAG) (before,) = probe.find(address(feed), time - LAG - 1);
            uint64 observedAt = uint64(time + 20 - (seed >> 8) % 400);
            vm.prank(PUBLISHER);
            try feed.post(int256(seed >> 128), observedAt) returns (uint80 id) {
                (ids[count], rounds[count]) = (id, _read(abi.encodeCall(feed.getRoundData, (id))));
                vm.assertEq(uint256(id), 1 << 64 | ++count);
            } catch {}
            (RoundFinder.Round memory current,) = probe.find(address(feed), time - LAG - 1);
            vm.assertEq(abi.encode(current), abi.encode(before));
        }
        vm.assertEq(uint256(feed.roundCount()), count);
        for (uint256 i; i < count; ++i) {
            vm.assertEq(_read(abi.encodeCall(feed.getRoundData, (ids[i]))), rounds[i]);
        }
    }

    // Batches

    function test_a_batch_is_posted_in_order_or_not_at_all() external {
        int256[] memory values = new int256[](3);
        uint64[] memory times = new uint64[](3);
        (values[0], values[1], values[2]) = (10, 11, 12);
        (times[0], times[1], times[2]) = (NOW - 2, NOW - 1, NOW);
        vm.prank(PUBLISHER);
        vm.assertEq(uint256(feed.postMany(values, times)), 1 << 64 | 3);
        (, int256 answer,,,) = feed.getRoundData(1 << 64 | 2);
        vm.assertEq(answer, 11);

        vm.warp(NOW + 10);
        (times[0], times[1], times[2]) = (NOW + 1, NOW + 3, NOW + 2);
        vm.prank(PUBLISHER);
        vm.expectRevert(abi.encodeWithSelector(IObservationFeed.NotAfterLast.selector, NOW + 2, NOW + 3));
        feed.postMany(values, times);
        vm.assertEq(uint256(feed.roundCount()), 3);
    }

    function test_a_batch_needs_a_time_for_each_value() external {
        vm.startPrank(PUBLISHER);
        vm.expectRevert(abi.encodeWithSelector(IObservationFeed.LengthMismatch.selector, 2, 1));
        feed.postMany(new int256[](2), new uint64[](1));
        vm.assertEq(uint256(feed.postMany(new int256[](0), new uint64[](0))), 1 << 64);
        vm.stopPrank();
    }

    // Roles

    function test_only_the_publisher_posts() external {
        bytes memory refusal = abi.encodeWithSelector(IObservationFeed.NotPublisher.selector, address(this), PUBLISHER);
        vm.expectRevert(refusal); // not even the owner
        feed.post(1, NOW);
        vm.expectRevert(refusal);
        feed.postMany(new int256[](0), new uint64[](0));
        vm.expectEmit(true, true, false, true, address(feed));
        emit IObservationFeed.PublisherSet(PUBLISHER, address(0));
        feed.setPublisher(address(0));
        vm.prank(PUBLISHER);
        vm.expectRevert(abi.encodeWithSelector(IObservationFeed.NotPublisher.selector, PUBLISHER, address(0)));
        feed.post(1, NOW);
    }

    function test_only_the_owner_appoints_and_hands_over_in_two_steps() external {
        address next = address(0xace);
        vm.prank(PUBLISHER);
        vm.expectRevert(abi.encodeWithSelector(Ownable.OwnableUnauthorizedAccount.selector, PUBLISHER));
        feed.setPublisher(next);
        feed.transferOwnership(next);
        vm.assertEq(feed.owner(), address(this));
        vm.prank(next);
        feed.acceptOwnership();
        vm.assertEq(feed.owner(), next);
        vm.expectRevert(abi.encodeWithSelector(Ownable.OwnableUnauthorizedAccount.selector, address(this)));
        feed.setPublisher(address(this));
    }

    /// One storage slot a round, plus the length.
    function test_gas_of_a_post() external {
        _post(1, NOW - 1);
        vm.cool(address(feed));
        vm.prank(PUBLISHER);
        feed.post(2, NOW);
        vm.assertLe(uint256(vm.lastCallGas().gasTotalUsed), 38_000, "gas");
    }

    // Internals

    function _post(int256 value, uint64 observedAt) private returns (uint80) {
        vm.prank(PUBLISHER);
        return feed.post(value, observedAt);
    }

    function _read(bytes memory call) private view returns (bytes memory out) {
        bool ok;
        (ok, out) = address(feed).staticcall(call);
        vm.assertTrue(ok);
    }

    function _expectMissing(bytes memory call, uint80 id) private view {
        (bool ok, bytes memory out) = address(feed).staticcall(call);
        vm.assertFalse(ok);
        vm.assertEq(out, abi.encodeWithSelector(IObservationFeed.NoSuchRound.selector, id));
    }
}
