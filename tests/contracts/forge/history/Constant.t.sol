// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {StockBase} from "../stock/StockBase.sol";

/// The cost of a call must not depend on how many entries a vintage has, or someone could stuff a block until its market
/// cannot be settled any more.
/// forge-config: default.isolate = true
/// forge-config: quick.isolate = true
/// forge-config: long.isolate = true
contract ConstantCostTest is StockBase {
    uint256 private constant FEW = 2;
    uint256 private constant MANY = 2000;

    /// Offered a side, against a headroom of 290 tokens.
    uint256 private constant FITS = 200 * ONE;
    uint256 private constant OVERFLOWS = 2000 * ONE;

    function setUp() public override {
        super.setUp();
        token.mint(ALICE, 1e15);
        vm.prank(ALICE);
        token.approve(address(markets), type(uint256).max);
    }

    /// Accepted whole: the same gas to the unit, and within the gas table's limit, without the base cost and calldata.
    function test_finalizing_2000_entries_costs_what_2_cost() external {
        uint256 few = finalizing(crowded(FEW, FITS));
        uint256 many = finalizing(crowded(MANY, FITS));
        vm.assertEq(many, few, "gas of finalizing");
        vm.assertLe(many, 60_000 + 21_000 + 36 * 16, "the gas table's row");
    }

    /// The same with both sides rationed.
    function test_finalizing_2000_rationed_entries_costs_what_2_cost() external {
        uint256 few = finalizing(crowded(FEW, OVERFLOWS));
        uint256 many = finalizing(crowded(MANY, OVERFLOWS));
        vm.assertEq(many, few, "gas of finalizing");
        vm.assertLe(many, 60_000 + 21_000 + 36 * 16, "the gas table's row");
    }

    function test_resolving_2000_entries_costs_what_2_cost() external {
        uint256 few = crowded(FEW, OVERFLOWS);
        uint256 many = crowded(MANY, OVERFLOWS);
        vm.warp(FREEZE);
        vm.assertEq(resolving(many), resolving(few), "gas of resolving");
    }

    function test_voiding_2000_entries_costs_what_2_cost() external {
        uint256 few = crowded(FEW, OVERFLOWS);
        uint256 many = crowded(MANY, OVERFLOWS);
        vm.warp(FREEZE);
        vm.assertEq(voiding(many), voiding(few), "gas of voiding");
    }

    /// Paying one of many costs what paying one of two does, whichever it is.
    function test_paying_one_of_2000_costs_what_one_of_2_costs() external {
        uint256 few = crowded(FEW, OVERFLOWS);
        uint256 many = crowded(MANY, OVERFLOWS);
        vm.warp(FREEZE);
        resolving(few);
        resolving(many);
        uint256 first = paying(markets.positionsOf(few, 2, 1)[0]);
        uint256 last = paying(markets.positionsOf(many, 2 + MANY / 2 - 1, 1)[0]);
        // Calldata differs in its zero bytes, at most 32 of them.
        vm.assertLe(last > first ? last - first : first - last, 32 * 12, "gas of paying");
    }

    // ---------------------------------------------------------------- Steps

    /// A market whose open vintage has `entries`, half of them a side, which offer `demand` a side however many they are.
    function crowded(uint256 entries, uint256 demand) private returns (uint256 marketId) {
        marketId = create();
        uint256 each = 2 * demand / entries;
        vm.startPrank(ALICE);
        for (uint256 i = 0; i < entries; ++i) {
            markets.enter(marketId, uint8(i % 2), each);
        }
        vm.stopPrank();
        vm.assertEq(markets.books(marketId)[0].demand, demand, "demand of UP");
        vm.assertEq(markets.books(marketId)[1].demand, demand, "demand of DOWN");
    }

    function finalizing(uint256 marketId) private returns (uint256) {
        vm.roll(++blockNow);
        markets.finalizeVintage(marketId);
        return gasOf();
    }

    function resolving(uint256 marketId) private returns (uint256) {
        vm.prank(RESOLVER);
        markets.resolve(marketId, UP);
        return gasOf();
    }

    function voiding(uint256 marketId) private returns (uint256) {
        vm.prank(RESOLVER);
        markets.voidMarket(marketId);
        return gasOf();
    }

    function paying(uint256 positionId) private returns (uint256) {
        markets.claim(positionId);
        return gasOf();
    }

    function gasOf() private view returns (uint256) {
        return vm.lastCallGas().gasTotalUsed;
    }
}
