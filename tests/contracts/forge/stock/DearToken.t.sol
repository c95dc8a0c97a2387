// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {LyingToken} from "./HostileTokens.sol";
import {Paying} from "./Paying.sol";

/// Hole W6: a token that became dearer than a batch allows for locks no money, because calls that pay one and revert on failure
/// forward all their gas.
contract DearTokenTest is Paying {
    function tokenName() internal pure override returns (string memory) {
        return "LyingToken";
    }

    function test_dear_aBatchCannotPay() external {
        resolve(market, UP);
        becomeDear();
        vm.assertEq(deliverAll(market), 0);
    }

    function test_dear_claimPays() external {
        resolve(market, UP);
        becomeDear();
        markets.claim(alice);
        vm.assertTrue(markets.position(alice).claimed);
        markets.claim(bob);
        markets.claim(idOf(market, UP, 0));
        becomeDear();
        markets.sweepFees();
        vm.assertEq(markets.feesAccrued(), 0);
        markets.claimResidue(market);
        vm.assertEq(markets.liabilities(), 0);
    }

    function test_dear_withdrawRefundPays() external {
        becomeDear();
        markets.withdrawRefund(bob);
        vm.assertEq(token.balanceOf(BOB), 1010e6);
    }

    function becomeDear() private {
        LyingToken(address(token)).setMode(LyingToken.Mode.Dear);
    }
}
