// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {Pricing} from "../../../../contracts/agent/Pricing.sol";
import {Proof} from "../Proof.sol";

/// That the compiled functions are the formulas of the agent lemmas.
contract PricesProof is Proof {
    /// Fees, nets and what buys are their formulas.
    /// @custom:theorem agent.fee.formula
    /// @custom:bounds all values of the stored widths: 64 bits for amounts, 96 for accumulators, 16 for basis points
    function check_fees(uint64 amount, uint16 feeBps) public pure {
        vm.assume(feeBps <= Pricing.MAX_FEE_BPS);
        unchecked {
            uint256 fee = uint256(amount) * feeBps / 10_000;
            assert(Pricing.feeOf(amount, feeBps) == fee);
            assert(Pricing.netOf(amount, feeBps) == amount - fee);
            assert(Pricing.buying(amount, feeBps) == uint256(amount) * (10_000 - uint256(feeBps)) / 10_000);
        }
    }

    /// A payout is its formula.
    /// @custom:theorem agent.payout.formula
    /// @custom:bounds all values of the stored widths: 64 bits for amounts, 96 for accumulators, 16 for basis points
    function check_payout(
        uint80 net,
        uint80 winnersNet,
        uint88 winnersShares,
        uint88 excess,
        uint64 stake,
        uint88 shares
    ) public pure {
        vm.assume(winnersNet <= net && winnersShares != 0 && excess != 0);
        uint256 paid = Pricing.payout(Pricing.Pool(net, winnersNet, winnersShares, excess), stake, shares);
        unchecked {
            if (net >= winnersShares) {
                assert(paid == uint256(shares) * net / winnersShares);
            } else {
                assert(paid == stake + Pricing.excessOf(stake, shares) * (net - winnersNet) / excess);
            }
        }
    }

    /// An excess is max(0, q - s).
    /// @custom:theorem agent.excess
    /// @custom:bounds all values of the stored widths: 64 bits for amounts, 96 for accumulators, 16 for basis points
    function check_excess(uint64 stake, uint88 shares) public pure {
        assert(Pricing.excessOf(stake, shares) == (shares > stake ? shares - stake : 0));
    }
}
