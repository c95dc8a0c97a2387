// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {IVestedMarkets} from "../../../../contracts/stock/IVestedMarkets.sol";
import {StockBase} from "./StockBase.sol";

/// A market with a fee of 2 %, ALICE on UP and BOB on DOWN a block later, both rationed; in the block after.
abstract contract Paying is StockBase {
    uint256 internal market;
    uint256 internal alice;
    uint256 internal bob;

    // ALICE offers 400, 290 are accepted. BOB then offers 10,000: 30 x 300 - 10 = 8,990 are accepted.
    uint256 internal constant ALICE_ACCEPTED = 290e6;
    uint256 internal constant BOB_ACCEPTED = 8990e6;
    // Per unit of the 300 on UP.
    uint256 internal constant ALICE_GAIN = ALICE_ACCEPTED * (BOB_ACCEPTED * 1e18 / 300e6) / 1e18;
    uint256 internal constant ALICE_FEE = ALICE_GAIN * 200 / 10_000;

    function setUp() public virtual override {
        super.setUp();
        market = createWithFee(200);
        alice = enter(ALICE, market, UP, 400e6);
        nextBlock();
        bob = enter(BOB, market, DOWN, 10_000e6);
        nextBlock();
    }

    function assertSettlement(uint256 id, uint256 gross, uint256 fee, uint256 refund, uint256 total) internal view {
        (uint256 g, uint256 f, uint256 n, uint256 r, uint256 t, bool deliverable) = markets.settlement(id);
        vm.assertEq(g, gross, "gross");
        vm.assertEq(f, fee, "fee");
        vm.assertEq(n, gross - fee, "net");
        vm.assertEq(r, refund, "refund");
        vm.assertEq(t, total, "total");
        vm.assertEq(deliverable, total != 0);
    }

    function nothingDue(uint256 id) internal pure returns (bytes memory) {
        return abi.encodeWithSelector(IVestedMarkets.NothingDue.selector, id);
    }
}
