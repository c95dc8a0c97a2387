// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {VestedMath} from "../../../../contracts/stock/VestedMath.sol";
import {Proof} from "../Proof.sol";

/// That the compiled functions are the formulas of the lemmas.
contract ArithmeticProof is Proof {
    uint256 private constant S = 1e18;

    /// An outcome never takes more than its capacity, nor its cap.
    /// @custom:theorem stock.headroom
    /// @custom:guard contracts/stock/VestedMath.sol `capacityOf(kappa, sideCap, otherPrincipal);`
    ///     becomes `capacityOf(kappa, sideCap, otherPrincipal + 1);`
    /// @custom:guard contracts/stock/VestedMath.sol `return Math.min(kappa * principal, sideCap);`
    ///     becomes `return kappa * principal;`
    function check_headroom(uint32 kappa, uint48 sideCap, uint64 principal, uint64 other) public pure {
        uint256 capacity = uint256(kappa) * other;
        uint256 room = VestedMath.headroom(kappa, sideCap, principal, other);
        if (capacity > sideCap) capacity = sideCap;
        assert(room == (capacity > principal ? capacity - principal : 0));
        // What is accepted never takes a book beyond its capacity, nor beyond the cap of a side.
        assert(room == 0 || principal + room <= capacity);
        assert(room == 0 || principal + room <= sideCap);
    }

    /// An accumulator grows by floor(T S / P).
    /// @custom:theorem stock.vest.formula
    /// @custom:bounds all values of the stored widths: 64 bits for amounts, 96 for accumulators, 16 for basis points
    /// @custom:guard contracts/stock/VestedMath.sol `return acc + accepted * S / principal;`
    ///     becomes `return acc + (accepted * S + principal - 1) / principal;`
    function check_vestDown(uint96 acc, uint64 accepted, uint64 principal) public pure {
        vm.assume(principal != 0);
        uint256 later = VestedMath.vestDown(acc, accepted, principal);
        unchecked {
            assert(later == acc + uint256(accepted) * S / principal);
        }
        assert(later >= acc);
    }

    /// An accepted part is a difference of one running total.
    /// @custom:theorem stock.parts.formula
    /// @custom:guard contracts/stock/VestedMath.sol `return through * accepted / demand - ahead * accepted / demand;`
    ///     becomes `return through * accepted / demand;`
    function check_shareDown(uint64 x, uint64 y, uint64 z, uint64 accepted, uint64 demand) public pure {
        vm.assume(demand != 0);
        unchecked {
            uint256 before = uint256(x) * accepted / demand;
            uint256 through = (uint256(x) + y) * accepted / demand;
            uint256 beyond = (uint256(x) + y + z) * accepted / demand;
            assert(VestedMath.shareDown(x, y, accepted, demand) == through - before);
            assert(
                VestedMath.shareDown(x, y, accepted, demand) + VestedMath.shareDown(uint256(x) + y, z, accepted, demand)
                    == beyond - before
            );
            assert(VestedMath.shareDown(0, x, accepted, demand) == before);
        }
    }

    /// A payout is floor(a (S + acc - e) / S).
    /// @custom:theorem stock.payout.formula
    /// @custom:bounds all values of the stored widths: 64 bits for amounts, 96 for accumulators, 16 for basis points
    /// @custom:guard contracts/stock/VestedMath.sol `uint256 promised = S + acc - entryAcc;`
    ///     becomes `uint256 promised = S + acc + 0 * entryAcc;`
    function check_payoutDown(uint64 accepted, uint96 acc, uint96 entryAcc) public pure {
        vm.assume(entryAcc <= acc);
        unchecked {
            assert(VestedMath.payoutDown(accepted, acc, entryAcc) == uint256(accepted) * (S + acc - entryAcc) / S);
        }
    }

    /// A fee is floor(gain bps / 10000).
    /// @custom:theorem stock.fee.formula
    /// @custom:bounds all values of the stored widths: 64 bits for amounts, 96 for accumulators, 16 for basis points
    /// @custom:guard contracts/stock/VestedMath.sol `return gain * feeBps / 1e4;`
    ///     becomes `return gain * feeBps / 1e3;`
    function check_feeDown(uint64 gain, uint16 feeBps) public pure {
        unchecked {
            assert(VestedMath.feeDown(gain, feeBps) == uint256(gain) * feeBps / 10_000);
        }
    }
}
