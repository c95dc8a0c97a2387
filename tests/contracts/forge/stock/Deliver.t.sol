// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {LocalToken} from "../../../../contracts/local/LocalToken.sol";
import {IVestedMarkets} from "../../../../contracts/stock/IVestedMarkets.sol";
import {HookToken, LyingToken, Reenterer} from "./HostileTokens.sol";
import {Paying} from "./Paying.sol";

contract DeliverTest is Paying {
    function test_deliver_paysRefusedPartsWhileOpen() external {
        vm.assertEq(deliverAll(market), 2);
        vm.assertEq(token.balanceOf(ALICE), 110e6);
        vm.assertEq(token.balanceOf(BOB), 1010e6);
        vm.assertEq(deliverAll(market), 0);
        assertSolvent();
    }

    function test_deliver_paysEverybodyOnceSettled() external {
        resolve(market, UP);
        vm.assertEq(deliverAll(market), 3);
        vm.assertEq(token.balanceOf(ALICE), 400e6 + ALICE_GAIN - ALICE_FEE);
        vm.assertEq(token.balanceOf(BOB), 1010e6);
        vm.assertEq(markets.market(market).unpaidPrincipal, 0);
        vm.assertEq(deliverAll(market), 0);
        assertSolvent();
    }

    /// Positions that are due nothing, were paid, do not exist or come twice are passed over without a log.
    function test_deliver_passesOverWhatIsDueNothing(uint256 unknown) external {
        vm.assume(unknown >> 32 != market || unknown & type(uint32).max > 3);
        resolve(market, UP);
        markets.claim(bob);
        uint256[] memory ids = new uint256[](5);
        ids[0] = unknown;
        ids[1] = alice;
        ids[2] = alice;
        ids[3] = bob;
        ids[4] = idOf(market, DOWN, 0);
        vm.recordLogs();
        vm.assertEq(markets.deliver(ids), 1);
        vm.assertEq(vm.getRecordedLogs().length, 2); // the token's Transfer and Delivered
    }

    function test_deliver_aFrozenOwnerFailsAlone() external {
        resolve(market, UP);
        token.freeze(ALICE);
        (,,,, uint256 total,) = markets.settlement(alice);
        uint256 owed = markets.liabilities();
        vm.expectEmit(true, true, true, true, address(markets));
        emit IVestedMarkets.DeliveryFailed(alice, ALICE, total);
        vm.assertEq(deliver(alice), 0);
        vm.assertEq(markets.liabilities(), owed);
        vm.assertEq(markets.feesAccrued(), 0);
        vm.assertEq(markets.market(market).unpaidPrincipal, 300e6);
        IVestedMarkets.PositionView memory p = markets.position(alice);
        vm.assertTrue(!p.claimed && !p.refunded);

        vm.assertEq(deliverAll(market), 2);
        vm.assertEq(token.balanceOf(BOB), 1010e6);
        token.unfreeze(ALICE);
        vm.assertEq(deliverAll(market), 1);
        vm.assertEq(token.balanceOf(ALICE), total);
    }

    /// Also while the market is open: a refused part that cannot be sent stays owed.
    function test_deliver_aFrozenOwnersRefundStaysOwed() external {
        token.freeze(ALICE);
        vm.assertEq(deliverAll(market), 1);
        vm.assertFalse(markets.position(alice).refunded);
        token.unfreeze(ALICE);
        vm.assertEq(deliverAll(market), 1);
    }

    function test_deliver_aPausedTokenLosesNothing() external {
        resolve(market, UP);
        token.setPaused(true);
        vm.assertEq(deliverAll(market), 0);
        token.setPaused(false);
        vm.assertEq(deliverAll(market), 3);
    }

    /// Enough for the transfer or not at all: otherwise a starved transfer would look like a refused one.
    function test_deliver_failsRatherThanStarveATransfer(uint256 gas) external {
        resolve(market, UP);
        gas = bound(gas, 60_000, 1_000_000);
        uint256[] memory ids = new uint256[](1);
        ids[0] = alice;
        vm.recordLogs();
        (bool ok, bytes memory result) = address(markets).call{gas: gas}(abi.encodeCall(markets.deliver, (ids)));
        if (ok) vm.assertEq(abi.decode(result, (uint256)), 1);
        else if (result.length != 0) vm.assertEq(bytes32(bytes4(result)), bytes32(IVestedMarkets.NotEnoughGas.selector));
        vm.assertEq(markets.position(alice).claimed, ok);
    }

    function test_deliver_failsByNameWhereATransferCouldStarve() external {
        resolve(market, UP);
        uint256[] memory ids = new uint256[](1);
        ids[0] = alice;
        // Enough for this token's transfer, not for what a transfer may use.
        (bool ok, bytes memory result) = address(markets).call{gas: 230_000}(abi.encodeCall(markets.deliver, (ids)));
        vm.assertFalse(ok);
        vm.assertEq(bytes32(bytes4(result)), bytes32(IVestedMarkets.NotEnoughGas.selector));
    }

    function test_deliver_ofNothingIsNothing() external {
        vm.assertEq(markets.deliver(new uint256[](0)), 0);
    }
}

contract DeliverOnUSDGTest is DeliverTest {
    function tokenName() internal pure override returns (string memory) {
        return "LocalUSDG";
    }
}

contract DeliverWithALyingTokenTest is Paying {
    function tokenName() internal pure override returns (string memory) {
        return "LyingToken";
    }

    function test_deliver_stillOwesWhatTheTokenDidNotMove() external {
        resolve(market, UP);
        stillOwes(LyingToken.Mode.Silent);
        stillOwes(LyingToken.Mode.Refuses);
        stillOwes(LyingToken.Mode.BurnsGas);
        LyingToken(address(token)).setMode(LyingToken.Mode.Honest);
        vm.assertEq(deliverAll(market), 3);
    }

    function test_deliver_failsIfTheTokenTakesMoreThanItIsTold() external {
        resolve(market, UP);
        LyingToken(address(token)).setMode(LyingToken.Mode.More);
        (,,,, uint256 total,) = markets.settlement(alice);
        vm.expectRevert(abi.encodeWithSelector(IVestedMarkets.TokenOvercharged.selector, total, total + 1));
        deliver(alice);
    }

    /// A token that pays less than asked has still paid: booking it as unpaid would let it be paid again and again.
    function test_deliver_paysNobodyTwiceWhateverTheTokenKeeps() external {
        resolve(market, UP);
        LyingToken(address(token)).setMode(LyingToken.Mode.Less);
        vm.assertEq(deliver(alice), 1);
        vm.assertEq(deliver(alice), 0);
        assertSolvent();
    }

    function test_deliver_aTransferBurnsNoMoreThanItsOwnGas() external {
        resolve(market, UP);
        LyingToken(address(token)).setMode(LyingToken.Mode.BurnsGas);
        vm.assertEq(markets.deliver{gas: 2_000_000}(markets.positionsOf(market, 0, 10)), 0);
    }

    function stillOwes(LyingToken.Mode mode) private {
        LyingToken(address(token)).setMode(mode);
        uint256 owed = markets.liabilities();
        vm.assertEq(deliverAll(market), 0);
        vm.assertEq(markets.liabilities(), owed);
        vm.assertFalse(markets.position(alice).claimed);
    }
}

contract DeliverWithAHookTokenTest is Paying {
    Reenterer private reenterer;

    function tokenName() internal pure override returns (string memory) {
        return "HookToken";
    }

    function setUp() public override {
        super.setUp();
        reenterer = new Reenterer();
        vm.prank(ALICE);
        markets.transferPosition(alice, address(reenterer));
        HookToken(address(token)).setHooked(address(reenterer), true);
        resolve(market, UP);
    }

    function test_deliver_cannotBeReentered() external {
        uint256[] memory ids = new uint256[](1);
        ids[0] = alice;
        reenterer.set(address(markets), abi.encodeCall(markets.deliver, (ids)));
        (,,,, uint256 total,) = markets.settlement(alice);
        vm.assertEq(deliver(alice), 1);
        vm.assertEq(reenterer.calls(), 1);
        vm.assertFalse(reenterer.succeeded());
        vm.assertEq(token.balanceOf(address(reenterer)), total);
        assertSolvent();
    }

    /// A receiver that sends part of it back is paid; one that sends all of it back is still owed it.
    function test_deliver_toleratesAReceiverThatSendsSomeBack(uint256 back) external {
        (,,,, uint256 total,) = markets.settlement(alice);
        back = bound(back, 0, total);
        reenterer.set(address(token), abi.encodeCall(token.transfer, (address(markets), back)));
        vm.assertEq(deliver(alice), back == total ? 0 : 1);
        vm.assertEq(token.balanceOf(address(reenterer)), total - back);
        vm.assertGe(token.balanceOf(address(markets)), markets.liabilities());
        // The others are paid.
        vm.assertEq(deliver(bob), 1);
    }
}
