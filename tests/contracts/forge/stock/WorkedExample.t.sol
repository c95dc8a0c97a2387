// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {StockBase} from "./StockBase.sol";

/// The example in contracts/README.md, to the unit: kappa 30, seed 10/10, no fee, each entry in its own block.
contract WorkedExampleTest is StockBase {
    uint256 private market;

    function setUp() public override {
        super.setUp();
        market = create();
    }

    function test_workedExample_booksAndPayouts() external {
        assertBooks(market, 10e6, 10e6, 1e18, 1e18);

        uint256 a = next(UP, 20e6);
        assertBooks(market, 30e6, 10e6, 1e18, 3e18);
        uint256 b = next(DOWN, 30e6);
        assertBooks(market, 30e6, 40e6, 2e18, 3e18);
        uint256 c = next(DOWN, 40e6);
        assertBooks(market, 30e6, 80e6, 3_333333333333333333, 3e18);
        uint256 d = next(UP, 50e6);
        assertBooks(market, 80e6, 80e6, 3_333333333333333333, 3.625e18);
        uint256 e = next(DOWN, 10e6);
        assertBooks(market, 80e6, 90e6, 3_458333333333333333, 3.625e18);

        vm.assertEq(markets.position(idOf(market, UP, 0)).entryAcc, 0);
        vm.assertEq(markets.position(idOf(market, DOWN, 0)).entryAcc, 0);
        vm.assertEq(markets.position(a).entryAcc, 1e18);
        vm.assertEq(markets.position(b).entryAcc, 3e18);
        vm.assertEq(markets.position(c).entryAcc, 3e18);
        vm.assertEq(markets.position(d).entryAcc, 3_333333333333333333);
        vm.assertEq(markets.position(e).entryAcc, 3.625e18);

        resolve(market, UP);
        vm.assertEq(markets.market(market).pool, 170e6);
        vm.assertEq(deliverAll(market), 3);
        vm.assertEq(token.balanceOf(OPENER), 44_583333);
        vm.assertEq(token.balanceOf(address(uint160(0xE000 + a))), 69_166666);
        vm.assertEq(token.balanceOf(address(uint160(0xE000 + d))), 56_250000);

        markets.claimResidue(market);
        vm.assertEq(token.balanceOf(TREASURY), 1);
        vm.assertEq(token.balanceOf(address(markets)), 0);
        vm.assertEq(markets.liabilities(), 0);
    }

    function test_workedExample_firstHeadroomIs290AndAnEntryOf400IsAccepted290() external {
        (uint256 up, uint256 down) = markets.headroom(market);
        vm.assertEq(up, 290e6);
        vm.assertEq(down, 290e6);
        uint256 id = next(UP, 400e6);
        assertAccepted(id, 290e6);
        (,,, uint256 refund,,) = markets.settlement(id);
        vm.assertEq(refund, 110e6);
    }

    /// Enters in the next block, then goes one further, so that the entry's vintage is finished. Each owner is its own.
    function next(uint8 outcome, uint256 amount) private returns (uint256 id) {
        nextBlock();
        uint256 n = markets.market(market).positions;
        address who = address(uint160(0xF000 + n));
        id = enter(who, market, outcome, amount);
        vm.prank(who);
        markets.transferPosition(id, address(uint160(0xE000 + id)));
        nextBlock();
    }
}
