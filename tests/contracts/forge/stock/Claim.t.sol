// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {LocalToken} from "../../../../contracts/local/LocalToken.sol";
import {IVestedMarkets} from "../../../../contracts/stock/IVestedMarkets.sol";
import {Paying} from "./Paying.sol";

contract ClaimTest is Paying {
    function test_claim_paysTheWinnerWhoeverCalls(address caller) external {
        resolve(market, UP);
        uint256 net = ALICE_ACCEPTED + ALICE_GAIN - ALICE_FEE;
        assertSettlement(alice, ALICE_ACCEPTED + ALICE_GAIN, ALICE_FEE, 110e6, net + 110e6);
        vm.expectEmit(true, true, true, true, address(markets));
        emit IVestedMarkets.Delivered(alice, ALICE, net, ALICE_FEE, 110e6);
        vm.prank(caller);
        markets.claim(alice);
        vm.assertEq(token.balanceOf(ALICE), net + 110e6);
        vm.assertEq(markets.feesAccrued(), ALICE_FEE);
        assertSettlement(alice, ALICE_ACCEPTED + ALICE_GAIN, ALICE_FEE, 110e6, 0);
        IVestedMarkets.PositionView memory p = markets.position(alice);
        vm.assertTrue(p.claimed && p.refunded);
        assertSolvent();
    }

    function test_claim_leavesOutARefundSentBefore() external {
        markets.withdrawRefund(alice);
        resolve(market, UP);
        uint256 net = ALICE_ACCEPTED + ALICE_GAIN - ALICE_FEE;
        assertSettlement(alice, ALICE_ACCEPTED + ALICE_GAIN, ALICE_FEE, 110e6, net);
        vm.expectEmit(true, true, true, true, address(markets));
        emit IVestedMarkets.Delivered(alice, ALICE, net, ALICE_FEE, 0);
        markets.claim(alice);
        vm.assertEq(token.balanceOf(ALICE), net + 110e6);
    }

    function test_claim_paysALoserItsRefusedPartOnly() external {
        resolve(market, UP);
        assertSettlement(bob, 0, 0, 1010e6, 1010e6);
        markets.claim(bob);
        vm.assertEq(token.balanceOf(BOB), 1010e6);
        vm.assertEq(markets.feesAccrued(), 0);
        vm.expectRevert(nothingDue(bob));
        markets.claim(bob);
    }

    function test_claim_failsForALoserDueNothing() external {
        resolve(market, DOWN);
        uint256 seed = idOf(market, UP, 0);
        assertSettlement(seed, 0, 0, 0, 0);
        vm.expectRevert(nothingDue(seed));
        markets.claim(seed);
    }

    function test_claim_failsTheSecondTime() external {
        resolve(market, UP);
        markets.claim(alice);
        vm.expectRevert(nothingDue(alice));
        markets.claim(alice);
    }

    function test_claim_failsWhileTheMarketIsOpen() external {
        vm.expectRevert(abi.encodeWithSelector(IVestedMarkets.MarketNotSettled.selector, market));
        markets.claim(alice);
    }

    function test_claim_failsForAnUnknownPosition(uint256 id) external {
        vm.assume(id >> 32 != market || id & type(uint32).max > 3);
        vm.expectRevert(abi.encodeWithSelector(IVestedMarkets.UnknownPosition.selector, id));
        markets.claim(id);
    }

    function test_claim_paysTheNewOwnerOfATransferredPosition() external {
        vm.prank(ALICE);
        markets.transferPosition(alice, CAROL);
        resolve(market, UP);
        markets.claim(alice);
        vm.assertEq(token.balanceOf(ALICE), 0);
        vm.assertGt(token.balanceOf(CAROL), 400e6);
    }

    /// Frozen or paused, nothing is lost: the claim fails, and works again later.
    function test_claim_waitsForAFrozenOwner() external {
        resolve(market, UP);
        token.freeze(ALICE);
        (,,,, uint256 total,) = markets.settlement(alice);
        vm.expectRevert(abi.encodeWithSelector(IVestedMarkets.TransferFailed.selector, ALICE, total));
        markets.claim(alice);
        token.unfreeze(ALICE);
        markets.claim(alice);
        vm.assertEq(token.balanceOf(ALICE), total);
    }

    function test_claim_takesNoFeeWhereThereIsNoGain() external {
        resolve(market, DOWN);
        // BOB came last, so nothing vested to him.
        assertSettlement(bob, BOB_ACCEPTED, 0, 1010e6, BOB_ACCEPTED + 1010e6);
        markets.claim(bob);
        vm.assertEq(token.balanceOf(BOB), 10_000e6);
    }
}

contract ClaimOnUSDGTest is ClaimTest {
    function tokenName() internal pure override returns (string memory) {
        return "LocalUSDG";
    }
}
