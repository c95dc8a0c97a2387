// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {IVestedMarkets} from "../../../../contracts/stock/IVestedMarkets.sol";
import {Paying} from "./Paying.sol";

contract TransferPositionTest is Paying {
    function test_transferPosition_changesTheOwnerAndNothingElse(address to) external {
        vm.assume(to != address(0) && to != address(markets));
        IVestedMarkets.PositionView memory was = markets.position(alice);
        vm.expectEmit(true, true, true, true, address(markets));
        emit IVestedMarkets.PositionTransferred(alice, ALICE, to);
        vm.prank(ALICE);
        markets.transferPosition(alice, to);
        was.owner = to;
        vm.assertEq(abi.encode(markets.position(alice)), abi.encode(was));
    }

    function test_transferPosition_failsForAnyoneButItsOwner(address caller) external {
        vm.assume(caller != ALICE);
        vm.expectRevert(abi.encodeWithSelector(IVestedMarkets.NotPositionOwner.selector, alice, caller, ALICE));
        vm.prank(caller);
        markets.transferPosition(alice, caller);
    }

    function test_transferPosition_failsForTheOldOwner() external {
        vm.startPrank(ALICE);
        markets.transferPosition(alice, CAROL);
        vm.expectRevert(abi.encodeWithSelector(IVestedMarkets.NotPositionOwner.selector, alice, ALICE, CAROL));
        markets.transferPosition(alice, ALICE);
    }

    function test_transferPosition_failsToAnOwnerNobodyCanPay() external {
        vm.startPrank(ALICE);
        vm.expectRevert(abi.encodeWithSelector(IVestedMarkets.InvalidOwner.selector, address(0)));
        markets.transferPosition(alice, address(0));
        vm.expectRevert(abi.encodeWithSelector(IVestedMarkets.InvalidOwner.selector, address(markets)));
        markets.transferPosition(alice, address(markets));
    }

    function test_transferPosition_failsForAnUnknownPosition() external {
        vm.expectRevert(abi.encodeWithSelector(IVestedMarkets.UnknownPosition.selector, 5));
        markets.transferPosition(5, ALICE);
    }

    /// The seed is a position like any other.
    function test_transferPosition_movesTheSeedToo() external {
        uint256 seed = idOf(market, UP, 0);
        vm.prank(OPENER);
        markets.transferPosition(seed, CAROL);
        resolve(market, UP);
        markets.claim(seed);
        vm.assertGt(token.balanceOf(CAROL), 20e6);
        vm.assertEq(token.balanceOf(OPENER), 0);
    }
}
