// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {Math} from "@openzeppelin/contracts/utils/math/Math.sol";

/// @title The arithmetic of vested-parimutuel books
/// @notice Amounts are token units; accumulators are units promised per unit of principal, times `S`. Every division
/// rounds down, in favour of the pool; what is left over in the end is the market's residue.
/// @dev Products are unchecked because none reaches 256 bits: amounts and sums of offers are below 2^64, principals at most
/// `MAX_SIDE_CAP`, accumulators below 2^96, basis points below 2^16. Sums and differences are checked.
library VestedMath {
    uint256 internal constant S = 1e18;

    /// Bounds that keep an accumulator below 2^96 for any entries. Let V be what has vested into an outcome and P
    /// its principal. A vintage adds T / P, and the capacity rule gives V + T <= kappa * P, so it adds at most
    /// kappa * T / (V + T) <= kappa * (ln(V + T) - ln(V)). All vintages together add at most kappa * ln(MAX_SIDE_CAP), less
    /// than 1e9 * 34, and (1 + 34e9) * S < 2^96.
    uint256 internal constant MAX_KAPPA = 1e9;
    uint256 internal constant MAX_SIDE_CAP = type(uint48).max;

    /// @notice What may vest into an outcome in all, so what the other outcome may hold.
    function capacityOf(uint256 kappa, uint256 sideCap, uint256 principal) internal pure returns (uint256) {
        return Math.min(kappa * principal, sideCap);
    }

    /// @notice What outcome o may still accept: the capacity of the other outcome's book, less what has vested into it.
    function headroom(uint256 kappa, uint256 sideCap, uint256 principal, uint256 otherPrincipal)
        internal
        pure
        returns (uint256)
    {
        uint256 capacity = capacityOf(kappa, sideCap, otherPrincipal);
        return capacity > principal ? capacity - principal : 0;
    }

    /// @notice An accumulator after `accepted` was promised to the principal on its outcome.
    function vestDown(uint256 acc, uint256 accepted, uint256 principal) internal pure returns (uint256) {
        unchecked {
            return acc + accepted * S / principal;
        }
    }

    /// @notice One entry's part of what its side was accepted in total. Rounding the running totals, not the parts, makes
    /// the parts sum exactly to `accepted`.
    /// @param ahead offered on its side in its vintage before it
    function shareDown(uint256 ahead, uint256 offered, uint256 accepted, uint256 demand)
        internal
        pure
        returns (uint256)
    {
        uint256 through = ahead + offered;
        unchecked {
            return through * accepted / demand - ahead * accepted / demand;
        }
    }

    /// @notice What a position gets if its side wins: its stake, and what was promised to it since it entered.
    function payoutDown(uint256 accepted, uint256 acc, uint256 entryAcc) internal pure returns (uint256) {
        uint256 promised = S + acc - entryAcc;
        unchecked {
            return accepted * promised / S;
        }
    }

    function feeDown(uint256 gain, uint256 feeBps) internal pure returns (uint256) {
        unchecked {
            return gain * feeBps / 1e4;
        }
    }
}
