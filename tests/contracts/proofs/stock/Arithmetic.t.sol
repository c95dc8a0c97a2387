// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {VestedMath} from "../../../../contracts/stock/VestedMath.sol";
import {Proof} from "../Proof.sol";

/// That the compiled functions are the formulas of the lemmas.
contract ArithmeticProof is Proof {
    uint256 private constant S = 1e18;

    function check_headroom(uint32 kappa, uint48 sideCap, uint64 principal, uint64 other) public pure {
        uint256 capacity = uint256(kappa) * other;
        uint256 room = VestedMath.headroom(kappa, sideCap, principal, other);
        if (capacity > sideCap) capacity = sideCap;
        assert(room == (capacity > principal ? capacity - principal : 0));
        // What is accepted never takes a book beyond its capacity, nor beyond the cap of a side.
        assert(room == 0 || principal + room <= capacity);
        assert(room == 0 || principal + room <= sideCap);
    }

    function check_vestDown(uint96 acc, uint64 accepted, uint64 principal) public pure {
        vm.assume(principal != 0);
        uint256 later = VestedMath.vestDown(acc, accepted, principal);
        unchecked {
            assert(later == acc + uint256(accepted) * S / principal);
        }
        assert(later >= acc);
    }

    /// The parts of neighbours are differences of one running total, which begins at 0.
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

    function check_payoutDown(uint64 accepted, uint96 acc, uint96 entryAcc) public pure {
        vm.assume(entryAcc <= acc);
        unchecked {
            assert(VestedMath.payoutDown(accepted, acc, entryAcc) == uint256(accepted) * (S + acc - entryAcc) / S);
        }
    }

    function check_feeDown(uint64 gain, uint16 feeBps) public pure {
        unchecked {
            assert(VestedMath.feeDown(gain, feeBps) == uint256(gain) * feeBps / 10_000);
        }
    }
}
