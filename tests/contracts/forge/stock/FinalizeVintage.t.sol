// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {IVestedMarkets} from "../../../../contracts/stock/IVestedMarkets.sol";
import {StockBase} from "./StockBase.sol";

contract FinalizeVintageTest is StockBase {
    uint256 private market;

    function setUp() public override {
        super.setUp();
        market = create();
    }

    /// Both sides of a vintage are matched against the books before it, and never vest to each other.
    function test_finalizeVintage_matchesBothSidesAgainstTheOldBooks(uint256 up, uint256 down) external {
        up = bound(up, 1, 1e14);
        down = bound(down, 1, 1e14);
        uint256 u = enter(ALICE, market, UP, up);
        uint256 d = enter(BOB, market, DOWN, down);
        nextBlock();
        uint256 takenUp = up < 290e6 ? up : 290e6;
        uint256 takenDown = down < 290e6 ? down : 290e6;
        uint256 accUp = S + takenDown * S / 10e6;
        uint256 accDown = S + takenUp * S / 10e6;

        vm.expectEmit(true, true, true, true, address(markets));
        emit IVestedMarkets.VintageFinalized(market, uint64(blockNow - 1), up, down, takenUp, takenDown, accUp, accDown);
        markets.finalizeVintage(market);
        assertBooks(market, 10e6 + takenUp, 10e6 + takenDown, accUp, accDown);
        assertAccepted(u, takenUp);
        assertAccepted(d, takenDown);
        vm.assertEq(markets.position(u).entryAcc, accUp);
        vm.assertEq(markets.position(d).entryAcc, accDown);
        vm.assertEq(markets.accrued(u), takenUp);
        vm.assertEq(markets.accrued(d), takenDown);
    }

    /// However many entries share a rationed vintage, their accepted parts sum to what it took, to the unit.
    function test_finalizeVintage_rationsWithoutDust(uint256[12] memory amounts, uint256 count, uint32 kappa) external {
        IVestedMarkets.CreateParams memory p = terms();
        p.kappa = uint32(bound(kappa, 1, 1e9));
        uint256 id = create(p);
        count = bound(count, 1, 12);
        uint256 demand;
        for (uint256 i = 0; i < count; ++i) {
            uint256 amount = bound(amounts[i], 1, 1e14);
            enter(ALICE, id, DOWN, amount);
            demand += amount;
        }
        (, uint256 room) = markets.headroom(id);
        uint256 capacity = uint256(p.kappa) * 10e6;
        if (capacity > p.sideCap) capacity = p.sideCap;
        vm.assertEq(room, subOrZero(capacity - 10e6, demand));
        nextBlock();
        markets.finalizeVintage(id);
        uint256 taken = markets.books(id)[1].principal - 10e6;
        uint256 sum;
        for (uint256 i = 0; i < count; ++i) {
            IVestedMarkets.PositionView memory v = markets.position(idOf(id, DOWN, i + 1));
            vm.assertLe(v.accepted, v.offered);
            // Its proportional part, but for one unit of rounding.
            vm.assertLe(v.accepted, v.offered * taken / demand + 1);
            vm.assertGe(v.accepted + 1, v.offered * taken / demand);
            sum += v.accepted;
        }
        vm.assertEq(sum, taken);
        vm.assertLe(taken, demand);
    }

    function test_finalizeVintage_costsTheSameWhateverTheCrowd() external {
        uint256 small = create();
        enter(ALICE, small, UP, 500 * ONE);
        enter(ALICE, small, DOWN, 500 * ONE);
        for (uint256 i = 0; i < 100; ++i) {
            enter(BOB, market, UP, 5 * ONE);
            enter(BOB, market, DOWN, 5 * ONE);
        }
        nextBlock();
        vm.cool(address(markets));
        markets.finalizeVintage(market);
        uint256 crowd = vm.lastCallGas().gasTotalUsed;
        vm.cool(address(markets));
        markets.finalizeVintage(small);
        vm.assertEq(crowd, vm.lastCallGas().gasTotalUsed);
    }

    function test_finalizeVintage_failsWhenThereIsNone() external {
        vm.expectRevert(abi.encodeWithSelector(IVestedMarkets.NoOpenVintage.selector, market));
        markets.finalizeVintage(market);
        enter(ALICE, market, UP, ONE);
        nextBlock();
        markets.finalizeVintage(market);
        vm.expectRevert(abi.encodeWithSelector(IVestedMarkets.NoOpenVintage.selector, market));
        markets.finalizeVintage(market);
        vm.expectRevert(abi.encodeWithSelector(IVestedMarkets.UnknownMarket.selector, 99));
        markets.finalizeVintage(99);
    }

    function test_finalizeVintage_waitsForTheNextBlockOrTheFreeze(uint256 time) external {
        time = bound(time, START, FREEZE - 1);
        enter(ALICE, market, UP, ONE);
        vm.warp(time);
        vm.expectRevert(abi.encodeWithSelector(IVestedMarkets.VintageStillOpen.selector, market, blockNow));
        markets.finalizeVintage(market);
        vm.assertFalse(markets.position(idOf(market, UP, 1)).finalized);
        vm.warp(FREEZE);
        markets.finalizeVintage(market);
        assertAccepted(idOf(market, UP, 1), ONE);
    }

    /// One bettor fills UP to its cap; what does not fit is given back, and DOWN takes bets as before.
    function test_finalizeVintage_aSideTakesNoMoreThanItsCapAndTheOtherGoesOn() external {
        IVestedMarkets.CreateParams memory p = terms();
        p.sideCap = uint64(100 * ONE);
        uint256 id = create(p);
        uint256 filler = enter(ALICE, id, UP, 200 * ONE);
        nextBlock();
        assertAccepted(filler, 90 * ONE);
        IVestedMarkets.BookView[2] memory b = markets.books(id);
        vm.assertEq(b[0].capacity, 100 * ONE);
        vm.assertEq(b[1].capacity, 100 * ONE);
        (uint256 up, uint256 down) = markets.headroom(id);
        vm.assertEq(up, 0);
        vm.assertEq(down, 90 * ONE);
        uint256 late = enter(BOB, id, UP, ONE);
        uint256 other = enter(CAROL, id, DOWN, 50 * ONE);
        nextBlock();
        assertAccepted(late, 0);
        assertAccepted(other, 50 * ONE);
        resolve(id, UP);
        deliverAll(id);
        // What moving the price can win is at most what the other side holds, so at most its cap.
        vm.assertLe(token.balanceOf(ALICE), 200 * ONE + p.sideCap);
        assertSolvent();
    }

    /// The bound that lets an accumulator take 96 bits: kappa at its most, the least seed, each side pushed by the other.
    function test_finalizeVintage_accumulatorsStayInTheirBounds() external {
        IVestedMarkets.CreateParams memory p = terms();
        p.kappa = 1e9;
        p.seedPerLeg = 1;
        p.maxEntry = type(uint48).max;
        uint256 id = create(p);
        for (uint256 i = 0; i < 40; ++i) {
            enter(ALICE, id, uint8(i % 2), type(uint48).max);
            nextBlock();
            markets.finalizeVintage(id);
        }
        IVestedMarkets.BookView[2] memory b = markets.books(id);
        vm.assertEq(b[0].principal, type(uint48).max);
        vm.assertEq(b[1].principal, type(uint48).max);
        vm.assertLt(b[0].acc, type(uint96).max);
        vm.assertLt(b[1].acc, type(uint96).max);
        (uint256 up, uint256 down) = markets.headroom(id);
        vm.assertEq(up + down, 0);
        resolve(id, DOWN);
        deliverAll(id);
        assertSolvent();
        vm.assertEq(markets.market(id).unpaidPrincipal, 0);
    }

    /// Finalized on its own, a rationed vintage keeps its ration where the next vintage, or the settlement, needs the room.
    function test_finalizeVintage_aParkedRationSurvives(uint8 then_) external {
        uint256 id = create();
        uint256 up = enter(ALICE, id, UP, 400e6);
        uint256 second = enter(CAROL, id, UP, 180e6);
        uint256 down = enter(BOB, id, DOWN, 435e6);
        nextBlock();
        markets.finalizeVintage(id);
        assertRation(id, up, second, down);
        // It is not the demand of a vintage, and nothing was paid.
        IVestedMarkets.BookView[2] memory b = markets.books(id);
        vm.assertEq(b[0].demand + b[1].demand, 0);
        (uint256 roomUp, uint256 roomDown) = markets.headroom(id);
        vm.assertEq(roomUp, 30 * 300e6 - 300e6);
        vm.assertEq(roomDown, roomUp);
        vm.assertEq(markets.market(id).distributed, 0);
        markets.withdrawRefund(second);

        if (then_ % 3 == 1) {
            nextBlock();
            enter(BOB, id, DOWN, 5e6);
            assertRation(id, up, second, down);
            nextBlock();
            markets.finalizeVintage(id);
        }
        assertRation(id, up, second, down);
        if (then_ % 3 == 2) voidMarket(id);
        else resolve(id, UP);
        assertRation(id, up, second, down);
        deliverAll(id);
        assertSolvent();
        IVestedMarkets.MarketView memory v = markets.market(id);
        vm.assertEq(v.unpaidPrincipal, 0);
        vm.assertLe(v.pool - v.distributed, 2);
        uint256 elsewhere = markets.market(market).pool;
        vm.assertEq(token.balanceOf(address(markets)), elsewhere + v.pool - v.distributed);
    }

    /// 580 were offered on UP and 435 on DOWN; 290 fitted on each.
    function assertRation(uint256 id, uint256 up, uint256 second, uint256 down) private view {
        assertAccepted(up, 200e6);
        assertAccepted(second, 90e6);
        assertAccepted(down, 290e6);
        vm.assertEq(markets.position(second).entryAcc, markets.position(up).entryAcc);
        (,,, uint256 refund,,) = markets.settlement(up);
        vm.assertEq(refund, 200e6);
        vm.assertGe(markets.books(id)[0].principal, 300e6);
    }

    function subOrZero(uint256 a, uint256 b) private pure returns (uint256) {
        return a > b ? a - b : 0;
    }
}
