// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {FixedPointMathLib} from "solady/src/utils/FixedPointMathLib.sol";

import {ISettlementWallet} from "../../../../contracts/settlement/ISettlementWallet.sol";
import {Pricing} from "../../../../contracts/settlement/Pricing.sol";
import {OnUsdc} from "./WalletBase.sol";

contract PricingTest is OnUsdc {
    uint256 private constant PARTS = 50;

    /// One stake against the same stake in 2 to 50 pieces, on any book and fee: never more shares.
    function testFuzz_splittingBuysNothing(
        uint256 virtualWeight,
        uint256 net,
        uint256 others,
        uint256 amount,
        uint256 feeBps,
        uint256 parts,
        uint256 seed
    ) public pure {
        parts = bound(parts, 2, PARTS);
        // Small books and large ones alike: exponents are drawn first.
        uint256 weight = spread(virtualWeight, 62_500, 5e14) + spread(net, 0, 1e20);
        uint256 total = weight + 62_500 + spread(others, 0, 9e20);
        amount = spread(amount, parts * 1e6, 1e15);
        feeBps = bound(feeBps, 0, 1000);
        uint256 whole = Pricing.sharesFor(Pricing.buying(amount, feeBps), weight, total);

        uint256 left = amount;
        uint256 sum;
        for (uint256 k = parts; k != 0; --k) {
            seed = uint256(keccak256(abi.encode(seed)));
            uint256 most = left - (k - 1) * 1e6;
            uint256 piece = k == 1 ? left : spread(seed, 1e6, most);
            sum += Pricing.sharesFor(Pricing.buying(piece, feeBps), weight, total);
            uint256 enters = piece - Pricing.feeOf(piece, feeBps);
            weight += enters;
            total += enters;
            left -= piece;
        }
        vm.assertLe(sum, whole, "splitting pays");
    }

    /// Equal pieces sit closest to the whole, and a unit either way is where floors would pay.
    function testFuzz_splittingInEqualPiecesBuysNothing(uint256 w, uint256 r, uint256 piece, uint256 parts, uint256 fee)
        public
        pure
    {
        parts = bound(parts, 2, PARTS);
        fee = bound(fee, 0, 1000);
        piece = spread(piece, 1e6, 1e15 / parts);
        uint256 weight = spread(w, 62_500, 1e20);
        uint256 total = weight + spread(r, 62_500, 9e20);
        uint256 whole = Pricing.sharesFor(Pricing.buying(piece * parts, fee), weight, total);
        uint256 sum;
        for (uint256 k; k < parts; ++k) {
            sum += Pricing.sharesFor(Pricing.buying(piece, fee), weight, total);
            uint256 enters = piece - Pricing.feeOf(piece, fee);
            weight += enters;
            total += enters;
        }
        vm.assertLe(sum, whole, "splitting pays");
    }

    /// The same through the contract itself.
    function test_splittingAStakeOnChain() public {
        uint256[3] memory amounts = [uint256(50e6 + 49), 1_234_567_891, 999_999_999_999_999];
        for (uint256 k; k < 3; ++k) {
            uint256 snapshot = vm.snapshotState();
            settle(LATE, YES, 7_777_777, BOB_KEY);
            settle(LATE, NO, 123_456_789_012, BOB_KEY);
            (uint256 whole,,,) = wallet.quote(LATE, YES, amounts[k]);
            uint256 left = amounts[k];
            uint256 sum;
            for (uint256 j; j < PARTS; ++j) {
                uint256 piece = j == PARTS - 1 ? left : amounts[k] / PARTS;
                left -= piece;
                sum += wallet.stake(settle(LATE, YES, piece, ALICE_KEY)).shares;
            }
            vm.assertLe(sum, whole);
            vm.revertToState(snapshot);
        }
    }

    function testFuzz_moreMoneyNeverBuysFewerShares(uint256 w, uint256 r, uint256 s, uint256 more) public pure {
        uint256 weight = spread(w, 62_500, 1e20);
        uint256 total = weight + spread(r, 62_500, 9e20);
        s = spread(s, 9e5, 1e15);
        more = spread(more, 1, 1e15);
        uint256 shares = Pricing.sharesFor(s, weight, total);
        vm.assertGe(shares, s, "fewer shares than money");
        vm.assertGe(Pricing.sharesFor(s + more, weight, total), shares);
    }

    /// A stake moves the price of its outcome up and every other down.
    function testFuzz_thePriceMovesTheBuyersWay(uint256 amount, uint8 outcome) public {
        amount = spread(amount, 1e6, 1e15);
        outcome = uint8(outcome % 4);
        (,, uint256 before, uint256 after_) = wallet.quote(RANGED, outcome, amount);
        vm.assertGt(after_, before);
        uint256[4] memory prices = pricesOf();
        settle(RANGED, outcome, amount, ALICE_KEY);
        uint256[4] memory then = pricesOf();
        vm.assertEq(then[outcome], after_);
        for (uint8 k; k < 4; ++k) {
            if (k != outcome) vm.assertLt(then[k], prices[k]);
        }
    }

    /// LN_MARGIN rests on this: before the floor lnWad is off by less than 0.06. Its floor cannot then sit a whole unit above.
    function test_lnOfOneIsNothing() public pure {
        vm.assertEq(FixedPointMathLib.lnWad(1e18), 0);
        vm.assertEq(FixedPointMathLib.lnWad(1e18 + 1), 1);
        vm.assertEq(Pricing.sharesFor(1e6, 1e24, 2e24), 1e6); // so small a move that its logarithm is inside the margin
    }

    function pricesOf() private view returns (uint256[4] memory prices) {
        uint256 sum;
        for (uint8 k; k < 4; ++k) {
            (,,, prices[k]) = wallet.outcomeBook(RANGED, k);
            sum += prices[k];
        }
        vm.assertLe(sum, 1e18);
        vm.assertGe(sum, 1e18 - 4);
    }

    /// A number in [min, max] with every order of magnitude about as likely.
    function spread(uint256 seed, uint256 min, uint256 max) private pure returns (uint256) {
        uint256 range = max - min;
        if (range == 0) return min;
        uint256 bits = FixedPointMathLib.log2(range) + 1;
        uint256 size = uint256(1) << (uint256(keccak256(abi.encode(seed, "size"))) % bits + 1);
        uint256 x = uint256(keccak256(abi.encode(seed, "value"))) % size;
        return min + (x > range ? range : x);
    }
}
