// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {IVestedMarkets} from "../../../../contracts/stock/IVestedMarkets.sol";
import {Paying} from "./Paying.sol";

contract WithdrawRefundTest is Paying {
    function test_withdrawRefund_paysTheRefusedPartWhileOpen(address caller) external {
        assertSettlement(alice, 0, 0, 110e6, 110e6);
        vm.expectEmit(true, true, true, true, address(markets));
        emit IVestedMarkets.Delivered(alice, ALICE, 0, 0, 110e6);
        vm.prank(caller);
        markets.withdrawRefund(alice);
        vm.assertEq(token.balanceOf(ALICE), 110e6);
        assertSettlement(alice, 0, 0, 110e6, 0);
        IVestedMarkets.PositionView memory p = markets.position(alice);
        vm.assertTrue(p.refunded && !p.claimed);
        vm.expectRevert(nothingDue(alice));
        markets.withdrawRefund(alice);
    }

    /// BOB's vintage is finished but not on chain; what he is paid is what it will be matched at.
    function test_withdrawRefund_seesAVintageFinishedButNotFinalized() external {
        vm.assertGt(markets.market(market).vintageBlock, 0);
        markets.withdrawRefund(bob);
        vm.assertEq(token.balanceOf(BOB), 1010e6);
        markets.finalizeVintage(market);
        assertAccepted(bob, BOB_ACCEPTED);
        assertSettlement(bob, 0, 0, 1010e6, 0);
        assertSolvent();
    }

    function test_withdrawRefund_failsInItsOwnBlock() external {
        uint256 id = enter(CAROL, market, UP, 1e14);
        assertSettlement(id, 0, 0, 0, 0);
        vm.expectRevert(abi.encodeWithSelector(IVestedMarkets.VintageStillOpen.selector, market, blockNow));
        markets.withdrawRefund(id);
    }

    function test_withdrawRefund_failsWhereNothingWasRefused() external {
        uint256 id = enter(CAROL, market, UP, ONE);
        nextBlock();
        vm.expectRevert(nothingDue(id));
        markets.withdrawRefund(id);
        uint256 seed = idOf(market, UP, 0);
        vm.expectRevert(nothingDue(seed));
        markets.withdrawRefund(seed);
    }

    function test_withdrawRefund_afterSettlementLeavesThePayout() external {
        resolve(market, UP);
        markets.withdrawRefund(alice);
        vm.assertEq(token.balanceOf(ALICE), 110e6);
        vm.assertFalse(markets.position(alice).claimed);
        markets.claim(alice);
        vm.assertEq(token.balanceOf(ALICE), 110e6 + ALICE_ACCEPTED + ALICE_GAIN - ALICE_FEE);
    }

    function test_withdrawRefund_failsForAnUnknownPosition(uint256 id) external {
        vm.assume(id >> 32 != market || id & type(uint32).max > 3);
        vm.expectRevert(abi.encodeWithSelector(IVestedMarkets.UnknownPosition.selector, id));
        markets.withdrawRefund(id);
    }

    function test_withdrawRefund_waitsForAFrozenOwner() external {
        token.freeze(ALICE);
        vm.expectRevert(abi.encodeWithSelector(IVestedMarkets.TransferFailed.selector, ALICE, 110e6));
        markets.withdrawRefund(alice);
        token.unfreeze(ALICE);
        markets.withdrawRefund(alice);
        vm.assertEq(token.balanceOf(ALICE), 110e6);
    }
}
