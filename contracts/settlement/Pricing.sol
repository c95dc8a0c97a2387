// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {FixedPointMathLib} from "solady/src/utils/FixedPointMathLib.sol";

/// @title What a stake costs and buys
/// @notice An outcome of weight `w` among a total `W` has the price `w / W`. A net stake `s` on it buys the integral of
///         ds / price along its own path,
///
///             shares = s + (W - w) * ln((w + s) / w)
///
///         so how a bet is cut into pieces does not matter. In integers every rounding goes against the buyer, far enough that pieces
///         never get more than the whole:
///
///         - the fee is floor(amount * feeBps / 1e4), but shares are bought with amount - ceil(amount * feeBps / 1e4). Cutting
///           can lower the sum of the fees by rounding; it can only lower the sum of what buys shares. (The pool receives amount - fee, so
///           the price moves at least as far as what bought the shares.)
///         - ln is computed as L = lnWad(floor(1e18 * (w + s) / w)) - LN_MARGIN, in wads. The ratio loses less than 1 wad unit,
///           lnWad floors, losing less than 1, and its approximation is off by less than 0.06 either way. So L lies under the true
///           logarithm by at least 3 - 0.06 and by less than 3 + 2.06. Pieces are each at least 2.94 under, their sum (two or more) at
///           least 5.88 under, and the whole less than 5.06 under: the sum of the pieces' L is below the whole's.
///         - (W - w) * L / 1e18 is floored, and floors of parts never add up to more than the floor of the sum.
///
///         The margin costs a buyer (W - w) * 5e-18 units at most: with a billion dollars in the pool, a hundredth of a unit.
///         The argument needs L >= 0, which holds while s / w >= 4e-18; the wallet's smallest stake and largest pool keep it
///         above 8e-16.
library Pricing {
    uint256 internal constant BPS = 10_000;
    uint256 internal constant WAD = 1e18;

    /// Taken off every logarithm, in wad units; see above.
    uint256 internal constant LN_MARGIN = 3;

    /// @notice The fee of a stake, rounded down.
    function feeOf(uint256 amount, uint256 feeBps) internal pure returns (uint256) {
        return amount * feeBps / BPS;
    }

    /// @notice The part of a stake that buys shares: what is left after the fee rounded up. At most a unit less than the
    ///         stake less its fee.
    function buying(uint256 amount, uint256 feeBps) internal pure returns (uint256) {
        return amount * (BPS - feeBps) / BPS;
    }

    /// @notice Shares bought by `s`, rounded down; never more than the exact integral.
    /// @param s what buys, more than 0
    /// @param weight of the outcome before it, more than 0
    /// @param total weight of all outcomes before it
    function sharesFor(uint256 s, uint256 weight, uint256 total) internal pure returns (uint256) {
        uint256 ratio = (weight + s) * WAD / weight; // floor
        uint256 ln = uint256(FixedPointMathLib.lnWad(int256(ratio))); // ratio >= 1e18, so not negative
        ln = FixedPointMathLib.zeroFloorSub(ln, LN_MARGIN);
        return s + (total - weight) * ln / WAD; // floor
    }

    /// @notice The price of an outcome as a wad, rounded down; prices of a market sum to at most 1.
    function price(uint256 weight, uint256 total) internal pure returns (uint256) {
        return weight * WAD / total;
    }

    /// @notice A winning stake's part of the pool, rounded down.
    function payout(uint256 shares, uint256 netPool, uint256 winningShares) internal pure returns (uint256) {
        return shares * netPool / winningShares;
    }
}
