// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {IVestedMarkets} from "../../../../contracts/stock/IVestedMarkets.sol";
import {Paying} from "./Paying.sol";

contract SweepFeesTest is Paying {
    function test_sweepFees_sendsThemToTheTreasury(address caller) external {
        resolve(market, UP);
        markets.claim(alice);
        uint256 owed = markets.liabilities();
        vm.expectEmit(true, true, true, true, address(markets));
        emit IVestedMarkets.FeesSwept(ALICE_FEE);
        vm.prank(caller);
        markets.sweepFees();
        vm.assertEq(token.balanceOf(TREASURY), ALICE_FEE);
        vm.assertEq(markets.feesAccrued(), 0);
        vm.assertEq(markets.liabilities(), owed - ALICE_FEE);
        vm.expectRevert(abi.encodeWithSelector(IVestedMarkets.NoFees.selector));
        markets.sweepFees();
    }

    function test_sweepFees_hasNothingBeforeAWinnerIsPaid() external {
        resolve(market, UP);
        vm.expectRevert(abi.encodeWithSelector(IVestedMarkets.NoFees.selector));
        markets.sweepFees();
    }

    /// A treasury that cannot be paid delays its own money only.
    function test_sweepFees_aFrozenTreasuryBlocksNobody() external {
        resolve(market, UP);
        token.freeze(TREASURY);
        markets.claim(alice);
        vm.expectRevert(abi.encodeWithSelector(IVestedMarkets.TransferFailed.selector, TREASURY, ALICE_FEE));
        markets.sweepFees();
        vm.assertEq(markets.feesAccrued(), ALICE_FEE);
        vm.assertEq(deliverAll(market), 2);
        token.unfreeze(TREASURY);
        markets.sweepFees();
        vm.assertGt(token.balanceOf(TREASURY), ALICE_FEE);
    }
}
