// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {IVestedMarkets} from "../../../../contracts/stock/IVestedMarkets.sol";
import {Paying} from "./Paying.sol";

contract SetPausedTest is Paying {
    function test_setPaused_turnsOnAndOff() external {
        vm.assertFalse(markets.entriesPaused());
        vm.expectEmit(true, true, true, true, address(markets));
        emit IVestedMarkets.EntriesPaused(true);
        vm.prank(GUARDIAN);
        markets.setPaused(true);
        vm.assertTrue(markets.entriesPaused());
        vm.prank(GUARDIAN);
        markets.setPaused(false);
        vm.assertFalse(markets.entriesPaused());
        vm.assertEq(markets.marketCount(), 1);
    }

    function test_setPaused_failsForAnyoneButTheGuardian(address caller) external {
        vm.assume(caller != GUARDIAN);
        vm.expectRevert(abi.encodeWithSelector(IVestedMarkets.NotGuardian.selector, caller, GUARDIAN));
        vm.prank(caller);
        markets.setPaused(true);
    }
}
