// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {IVestedMarkets} from "../../../../contracts/stock/IVestedMarkets.sol";
import {StockBase} from "./StockBase.sol";

contract ViewsTest is StockBase {
    uint256 private market;

    function setUp() public override {
        super.setUp();
        market = createWithFee(200);
    }

    // ---------------------------------------------------------------- A vintage that is finished but not on chain

    /// Finalizing a vintage whose block has passed changes no view.
    function test_views_seeAFinishedVintageBeforeItIsFinalized(uint256 seed, bool byTime) external {
        uint256 count = 1 + seed % 5;
        for (uint256 i = 0; i < count; ++i) {
            uint256 r = uint256(keccak256(abi.encode(seed, i)));
            enter(ALICE, market, uint8(r % 2), bound(r >> 8, 1, 1e12));
        }
        if (byTime) vm.warp(FREEZE);
        else nextBlock();
        bytes32 before = allViews();
        vm.assertGt(markets.market(market).vintageBlock, 0);
        markets.finalizeVintage(market);
        vm.assertEq(markets.market(market).vintageBlock, 0);
        vm.assertEq(before, allViews());
    }

    /// In its own block a vintage's demand is counted against the headroom, and nothing else.
    function test_headroom_countsTheOpenVintagesDemand(uint256 up, uint256 down) external {
        up = bound(up, 1, 1e10);
        down = bound(down, 1, 1e10);
        enter(ALICE, market, UP, up);
        enter(BOB, market, DOWN, down);
        (uint256 u, uint256 d) = markets.headroom(market);
        vm.assertEq(u, up < 290e6 ? 290e6 - up : 0);
        vm.assertEq(d, down < 290e6 ? 290e6 - down : 0);
        nextBlock();
        (u, d) = markets.headroom(market);
        uint256 pUp = 10e6 + (up < 290e6 ? up : 290e6);
        uint256 pDown = 10e6 + (down < 290e6 ? down : 290e6);
        vm.assertEq(u, 30 * pDown > pUp ? 30 * pDown - pUp : 0);
        vm.assertEq(d, 30 * pUp > pDown ? 30 * pUp - pDown : 0);
    }

    function test_books_showCapacityVestedDemandAndLive() external {
        enter(ALICE, market, UP, 400e6);
        IVestedMarkets.BookView[2] memory b = markets.books(market);
        vm.assertEq(b[0].principal, 10e6);
        vm.assertEq(b[0].capacity, 300e6);
        vm.assertEq(b[0].vested, 10e6);
        vm.assertEq(b[0].demand, 400e6);
        vm.assertEq(b[0].live, 300e6);
        vm.assertEq(b[1].demand, 0);
        vm.assertEq(b[1].live, 10e6);
        nextBlock();
        b = markets.books(market);
        vm.assertEq(b[0].principal, 300e6);
        vm.assertEq(b[0].demand, 0);
        vm.assertEq(b[0].live, 300e6);
        vm.assertEq(b[1].vested, 300e6);
        vm.assertEq(b[1].capacity, 300e6);
        vm.assertEq(b[1].acc, 30 * S);
    }

    // ---------------------------------------------------------------- positionsOf

    /// Every position once, by vintage and UP first within one, read from any page.
    function test_positionsOf_listsAllInOrderOnAnyPage(uint256 seed, uint256 from, uint256 count) external {
        uint256 entries = seed % 25;
        uint256[] memory vintages = new uint256[](2 * (entries + 1));
        uint256[2] memory n = [uint256(1), 1];
        for (uint256 i = 0; i < entries; ++i) {
            uint256 r = uint256(keccak256(abi.encode(seed, i)));
            if (r & 3 == 0) nextBlock();
            uint8 outcome = uint8(r >> 2 & 1);
            enter(ALICE, market, outcome, ONE);
            vintages[2 * n[outcome] + outcome] = blockNow;
            ++n[outcome];
        }
        // The order, worked out the slow way.
        uint256 total = entries + 2;
        uint256[] memory expected = new uint256[](total);
        uint256[2] memory next;
        for (uint256 i = 0; i < total; ++i) {
            bool up = next[1] == n[1] || (next[0] < n[0] && vintages[2 * next[0]] <= vintages[2 * next[1] + 1]);
            uint256 outcome = up ? 0 : 1;
            expected[i] = idOf(market, outcome, next[outcome]++);
        }
        from = bound(from, 0, total + 2);
        uint256[] memory ids = markets.positionsOf(market, from, count);
        uint256 length = from >= total ? 0 : count < total - from ? count : total - from;
        vm.assertEq(ids.length, length);
        for (uint256 i = 0; i < length; ++i) {
            vm.assertEq(ids[i], expected[from + i]);
        }
    }

    function test_positionsOf_failsForAnUnknownMarket() external {
        vm.expectRevert(abi.encodeWithSelector(IVestedMarkets.UnknownMarket.selector, 3));
        markets.positionsOf(3, 0, 1);
    }

    // ---------------------------------------------------------------- accrued

    function test_accrued_isNothingInItsOwnBlockAndTheStakeAfterIt(uint256 amount) external {
        amount = bound(amount, 1, 1e14);
        uint256 id = enter(ALICE, market, UP, amount);
        vm.assertEq(markets.accrued(id), 0);
        nextBlock();
        vm.assertEq(markets.accrued(id), markets.position(id).accepted);
    }

    function test_accrued_neverFallsWhileOpenAndKeepsItsLastValue(uint256 seed) external {
        uint256 id = enter(ALICE, market, UP, 50e6);
        uint256 last;
        for (uint256 i = 0; i < 8; ++i) {
            uint256 r = uint256(keccak256(abi.encode(seed, i)));
            if (r & 1 == 0) nextBlock();
            enter(BOB, market, uint8(r >> 1 & 1), bound(r >> 8, 1, 1e11));
            vm.assertGe(markets.accrued(id), last);
            last = markets.accrued(id);
        }
        vm.warp(FREEZE);
        vm.assertGe(markets.accrued(id), last);
        last = markets.accrued(id);
        resolve(market, DOWN);
        vm.assertEq(markets.accrued(id), last);
    }

    // ---------------------------------------------------------------- Unknown ids

    function test_views_failForUnknownIds(uint256 id) external {
        vm.assume(id != market && (id >> 32 != market || id & type(uint32).max > 1));
        bytes memory noMarket = abi.encodeWithSelector(IVestedMarkets.UnknownMarket.selector, id);
        bytes memory noPosition = abi.encodeWithSelector(IVestedMarkets.UnknownPosition.selector, id);
        vm.expectRevert(noMarket);
        markets.market(id);
        vm.expectRevert(noMarket);
        markets.books(id);
        vm.expectRevert(noMarket);
        markets.headroom(id);
        vm.expectRevert(noPosition);
        markets.position(id);
        vm.expectRevert(noPosition);
        markets.accrued(id);
        vm.expectRevert(noPosition);
        markets.settlement(id);
    }

    /// What the views say of the books and of every position.
    function allViews() private view returns (bytes32 digest) {
        (uint256 up, uint256 down) = markets.headroom(market);
        digest = keccak256(abi.encode(markets.books(market), up, down, markets.market(market).pool));
        uint256[] memory ids = markets.positionsOf(market, 0, 100);
        for (uint256 i = 0; i < ids.length; ++i) {
            digest = keccak256(abi.encode(digest, markets.position(ids[i]), markets.accrued(ids[i]), payout(ids[i])));
        }
    }

    function payout(uint256 id) private view returns (bytes memory) {
        (uint256 a, uint256 b, uint256 c, uint256 d, uint256 e, bool f) = markets.settlement(id);
        return abi.encode(a, b, c, d, e, f);
    }
}
