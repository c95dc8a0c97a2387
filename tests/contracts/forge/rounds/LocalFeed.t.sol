// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {LocalFeed} from "../../../../contracts/local/LocalFeed.sol";
import {LocalStockToken} from "../../../../contracts/local/LocalStockToken.sol";
import {Base} from "../Base.sol";

/// The local feed and stock token, put in place as a genesis file does it: runtime code over untouched storage.
contract LocalFeedTest is Base {
    LocalFeed private feed = LocalFeed(address(0xfeed));
    LocalStockToken private stock = LocalStockToken(address(0x570c));

    function setUp() external {
        vm.etch(address(feed), type(LocalFeed).runtimeCode);
        vm.etch(address(stock), type(LocalStockToken).runtimeCode);
    }

    function test_starts_in_phase_one_without_rounds() external view {
        vm.assertEq(uint256(feed.phaseId()), 1);
        vm.assertEq(uint256(feed.roundsIn(1)), 0);
        vm.assertEq(uint256(feed.decimals()), 8);
        vm.assertEq(feed.version(), 1);
    }

    function test_pushes_rounds_and_phases() external {
        feed.setDescription("TSLA / USD");
        vm.assertEq(feed.description(), "TSLA / USD");
        vm.expectEmit(true, true, false, true, address(feed));
        emit LocalFeed.AnswerUpdated(-5, 1 << 64 | 1, 100);
        vm.assertEq(uint256(feed.push(-5, 100)), 1 << 64 | 1);
        int256[] memory answers = new int256[](2);
        uint256[] memory times = new uint256[](2);
        (answers[0], answers[1], times[0], times[1]) = (6, 7, 110, 120);
        feed.pushMany(answers, times);
        _expectLatest(1 << 64 | 3, 7, 120);
        vm.expectEmit(true, false, false, true, address(feed));
        emit LocalFeed.PhaseStarted(2);
        vm.assertEq(uint256(feed.startPhase()), 2);
        vm.assertEq(uint256(feed.push(8, 105)), 2 << 64 | 1);
        _expectLatest(2 << 64 | 1, 8, 105);
        vm.assertEq(uint256(feed.pushInto(1, 9, 130)), 1 << 64 | 4);
        _expectLatest(2 << 64 | 1, 8, 105);
        feed.setRound(2 << 64 | 1, 88, 106);
        _expectLatest(2 << 64 | 1, 88, 106);
    }

    function test_missing_rounds_revert_or_read_as_zeros() external {
        (bool ok, bytes memory out) = address(feed).staticcall(abi.encodeCall(feed.latestRoundData, ()));
        vm.assertFalse(ok);
        vm.assertEq(out, abi.encodeWithSelector(LocalFeed.NoDataPresent.selector, 1 << 64));
        feed.setMissingMode(LocalFeed.Missing.Zeros);
        _expectLatest(1 << 64, 0, 0);
        (, int256 answer,, uint256 updatedAt,) = feed.getRoundData(3 << 64 | 4);
        vm.assertEq(answer, 0);
        vm.assertEq(updatedAt, 0);
        feed.push(1, 100);
        feed.setRound(1 << 64 | 1, 1, 0); // made absent
        feed.setMissingMode(LocalFeed.Missing.Reverts);
        (ok,) = address(feed).staticcall(abi.encodeCall(feed.getRoundData, (1 << 64 | 1)));
        vm.assertFalse(ok);
    }

    function test_refuses_what_it_cannot_hold() external {
        int256 large = int256(type(int192).max) + 1;
        vm.expectRevert(abi.encodeWithSelector(LocalFeed.RoundTooLarge.selector, large, 1));
        feed.push(large, 1);
        vm.expectRevert(abi.encodeWithSelector(LocalFeed.RoundTooLarge.selector, 1, 1 << 64));
        feed.push(1, 1 << 64);
        vm.expectRevert(abi.encodeWithSelector(LocalFeed.UnknownPhase.selector, 2, 1));
        feed.pushInto(2, 1, 1);
        vm.expectRevert(abi.encodeWithSelector(LocalFeed.UnknownPhase.selector, 0, 1));
        feed.pushInto(0, 1, 1);
        vm.expectRevert(abi.encodeWithSelector(LocalFeed.LengthMismatch.selector, 1, 2));
        feed.pushMany(new int256[](1), new uint256[](2));
    }

    function test_stock_token_switch() external {
        vm.assertFalse(stock.oraclePaused());
        vm.expectEmit(false, false, false, true, address(stock));
        emit LocalStockToken.OraclePausedSet(true);
        stock.setOraclePaused(true);
        vm.assertTrue(stock.oraclePaused());
        stock.setSymbol("TSLA");
        vm.assertEq(stock.symbol(), "TSLA");
    }

    function _expectLatest(uint256 id, int256 want, uint256 at_) private view {
        (uint80 roundId, int256 answer, uint256 startedAt, uint256 updatedAt, uint80 answeredIn) =
            feed.latestRoundData();
        vm.assertEq(uint256(roundId), id);
        vm.assertEq(answer, want);
        vm.assertEq(startedAt, at_);
        vm.assertEq(updatedAt, at_);
        vm.assertEq(uint256(answeredIn), id);
    }
}
