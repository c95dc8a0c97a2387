// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {FixedPointMathLib} from "solady/src/utils/FixedPointMathLib.sol";

/// @title What a stake costs, buys and wins
/// @notice Each outcome has a virtual weight `v`, which is no money, and a net pool `N` of stakes less fees. Its weight is `w = v + N`;
///         among a total of all weights `W` its price is `w / W`. A net stake `s` on it buys the integral of ds / price along its own path,
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
///         The argument needs L >= 0, which holds while s / w >= 4e-18; MIN_STAKE, MAX_FEE_BPS, MAX_POT and 32 bits of virtual weight
///         keep it above 8e-13.
///
///         Of a settled market with net pool `N`, whose winners' net stakes add up to `N_w` and their shares to `Q_w`, a winning bet of
///         net stake `s` and shares `q` is paid
///
///             q * N / Q_w                                    if N >= Q_w
///             s + max(0, q - s) * (N - N_w) / X_w            else, with X_w the sum of max(0, q - s) over the winners
///
///         both rounded down. The first adds up to at most N. So does the second: N_w, and at most N - N_w split in proportion. X_w is at
///         least Q_w - N_w, so it is not 0 where Q_w > N >= N_w. No winner gets less than the stake less the fee rounded up: in the
///         first case at least q, in the second at least s.
library Pricing {
    uint256 internal constant BPS = 10_000;
    uint256 internal constant WAD = 1e18;

    /// Taken off every logarithm, in wad units; see above.
    uint256 internal constant LN_MARGIN = 3;

    // The range that the arguments above, and the widths of what is stored, hold for.
    uint256 internal constant MIN_STAKE = 1e6;
    uint256 internal constant MAX_STAKE = 1e15;
    uint256 internal constant MAX_POT = 1e18; // all stakes of a market less fees: more dollars than there are
    uint256 internal constant MAX_POT_CAP = MAX_POT / 2; // all outcomes together hold at most twice the cap
    uint256 internal constant MAX_FEE_BPS = 1_000;
    uint256 internal constant MIN_OUTCOMES = 2;
    uint256 internal constant MAX_OUTCOMES = 8; // of which eight weights of 32 bits fill a word

    /// What decides the payouts of a settled market.
    struct Pool {
        uint256 net; // of all outcomes
        uint256 winnersNet;
        uint256 winnersShares;
        uint256 winnersExcess;
    }

    /// @notice The fee of a stake, rounded down.
    function feeOf(uint256 amount, uint256 feeBps) internal pure returns (uint256) {
        return amount * feeBps / BPS;
    }

    /// @notice What the pool receives of a stake in the book, whose amount fits 64 bits.
    function netOf(uint256 amount, uint256 feeBps) internal pure returns (uint256) {
        unchecked {
            return amount - amount * feeBps / BPS;
        }
    }

    /// @notice The part of a stake that buys shares: what is left after the fee rounded up. At most a unit less than the
    ///         stake less its fee.
    function buying(uint256 amount, uint256 feeBps) internal pure returns (uint256) {
        return amount * (BPS - feeBps) / BPS; // floor
    }

    /// @notice How much one outcome may hold, in stakes less fees, of a market whose other outcomes may together hold `potCap`.
    /// @dev Rounded down, so that no n - 1 outcomes hold more than the cap: that is what an attacker who moves the price could win.
    function outcomeCap(uint256 potCap, uint256 outcomes) internal pure returns (uint256) {
        return potCap / (outcomes - 1); // floor
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
        return weight * WAD / total; // floor
    }

    /// @notice What a bet's shares exceed its net stake by.
    function excessOf(uint256 net, uint256 shares) internal pure returns (uint256) {
        return FixedPointMathLib.zeroFloorSub(shares, net);
    }

    /// @notice Whether every stake of a resolved market is refunded in full: no one holds the winner, or no one holds anything else.
    function refunds(Pool memory p) internal pure returns (bool) {
        return p.winnersShares == 0 || p.winnersNet == p.net;
    }

    /// @notice What a winning bet is paid in a market that does not refund; at least 1.
    function payout(Pool memory p, uint256 net, uint256 shares) internal pure returns (uint256) {
        unchecked {
            // Nets fit 60 bits and shares 66, so products fit 126; the divisors are not 0, as the title says.
            if (p.net >= p.winnersShares) return shares * p.net / p.winnersShares; // floor
            return net + excessOf(net, shares) * (p.net - p.winnersNet) / p.winnersExcess; // floor
        }
    }
}
