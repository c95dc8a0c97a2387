// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {FixedPointMathLib} from "solady/src/utils/FixedPointMathLib.sol";

import {Pricing} from "../../../../contracts/agent/Pricing.sol";
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
        uint256 weight = spread(virtualWeight, 1, type(uint32).max) + spread(net, 0, 1e17);
        uint256 total = weight + 1 + spread(others, 0, 9e17);
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
        uint256 weight = spread(w, 1, 1e17);
        uint256 total = weight + spread(r, 1, 9e17);
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
        uint256 weight = spread(w, 1, 1e17);
        uint256 total = weight + spread(r, 1, 9e17);
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

    // Rule 7 on the library alone

    /// The two branches meet: at N = Q_w they say the same.
    function testFuzz_theTwoBranchesMeet(uint256 s, uint256 more, uint256 lost, uint256 others) public pure {
        uint256 net = spread(s, 1e6, 1e12);
        uint256 shares = net + spread(more, 1, 1e12);
        uint256 othersNet = spread(others, 0, 1e12);
        lost = spread(lost, shares - net, 1e13);
        Pricing.Pool memory p;
        p.winnersNet = net + othersNet;
        p.net = p.winnersNet + lost;
        p.winnersShares = p.net; // and so the others' shares exceed their stakes by the rest
        p.winnersExcess = lost;
        vm.assertEq(Pricing.payout(p, net, shares), shares);
        p.net -= 1;
        if (lost == 0 || p.net == p.winnersNet) return;
        uint256 below = Pricing.payout(p, net, shares);
        vm.assertLe(below, shares);
        vm.assertGe(below + 2, shares); // a unit of the pool, and a floor
    }

    // No sure dollar for less

    uint256 private constant TRIES = 8;

    /// A book of 2 to 8 outcomes, any weights, any stakes before; then a bettor who is last stakes on every outcome. At 1.75%, the least
    /// fee there is, the outcome that is worst for him pays back at most what he staked.
    function testFuzz_noStakesOverAllOutcomesEarnForSure(uint256 seed) public pure {
        Arbitrage memory x = book(seed, 175);
        for (uint256 k; k < TRIES; ++k) {
            seed = mix(seed);
            (uint256 staked, uint256 back) = covered(copyOf(x), seed, k % 3);
            vm.assertLe(back, staked, "stakes over all outcomes earn for sure");
        }
    }

    /// Before a fee a sure dollar costs 98 cents at the least: rule 7 gives a late right bet its stake back, which is worth something
    /// together with a cheap bet on the other side. The search in tests/studies/test_settlement_study.py comes to 98.4 cents; the fee covers it.
    function testFuzz_aSureDollarCostsNearlyADollarBeforeTheFee(uint256 seed) public pure {
        Arbitrage memory x = book(seed, 0);
        for (uint256 k; k < TRIES; ++k) {
            seed = mix(seed);
            (uint256 staked, uint256 back) = covered(copyOf(x), seed, k % 3);
            vm.assertLe(back * 98, staked * 100, "a sure dollar for less than 98 cents");
        }
    }

    struct Arbitrage {
        uint256 feeBps;
        uint256[] weight; // virtual and net
        uint256[] net;
        uint256[] shares;
        uint256[] excess;
        uint256[] mine; // net stakes
        uint256[] myShares;
        uint256[] myExcess;
        uint256 pool;
        uint256 total; // of all weights
        uint256 paid; // by me, fee included
    }

    function book(uint256 seed, uint256 feeBps) private pure returns (Arbitrage memory x) {
        uint256 n = 2 + seed % 7;
        x.feeBps = feeBps;
        x.weight = new uint256[](n);
        x.net = new uint256[](n);
        x.shares = new uint256[](n);
        x.excess = new uint256[](n);
        x.mine = new uint256[](n);
        x.myShares = new uint256[](n);
        x.myExcess = new uint256[](n);
        for (uint256 o; o < n; ++o) {
            seed = mix(seed);
            x.weight[o] = spread(seed, 1e6, 4e9);
            x.total += x.weight[o];
        }
        uint256 stakes = mix(seed) % 12;
        for (uint256 k; k < stakes; ++k) {
            seed = mix(seed);
            buy(x, seed % n, spread(seed >> 8, 1e6, 1e11), false);
        }
    }

    function buy(Arbitrage memory x, uint256 o, uint256 amount, bool mine) private pure {
        uint256 s = amount - Pricing.feeOf(amount, x.feeBps);
        uint256 q = Pricing.sharesFor(Pricing.buying(amount, x.feeBps), x.weight[o], x.total);
        uint256 excess = Pricing.excessOf(s, q);
        x.weight[o] += s;
        x.total += s;
        x.pool += s;
        x.net[o] += s;
        x.shares[o] += q;
        x.excess[o] += excess;
        if (!mine) return;
        x.mine[o] += s;
        x.myShares[o] += q;
        x.myExcess[o] += excess;
        x.paid += amount;
    }

    /// The sizes are drawn over all orders of magnitude, or follow the prices, or then fill up the worst outcome step by step.
    /// @return staked what the last bettor paid
    /// @return back what he gets in the outcome worst for him
    function covered(Arbitrage memory x, uint256 seed, uint256 manner)
        private
        pure
        returns (uint256 staked, uint256 back)
    {
        uint256 n = x.weight.length;
        uint256 size = spread(seed, n * 1e6, 1e12);
        uint256[] memory amounts = new uint256[](n);
        for (uint256 o; o < n; ++o) {
            seed = mix(seed);
            amounts[o] = manner == 0 ? spread(seed, 1e6, size) : 1e6 + size * x.weight[o] / x.total;
        }
        uint256 first = mix(seed) % n; // in any order
        for (uint256 k; k < n; ++k) {
            buy(x, (first + k) % n, amounts[(first + k) % n], true);
        }
        for (uint256 k; manner == 2 && k < 24; ++k) {
            seed = mix(seed);
            (uint256 least,) = worstOutcome(x);
            buy(x, least, spread(seed, 1e6, size), true);
        }
        (, back) = worstOutcome(x);
        staked = x.paid;
    }

    /// All his bets on an outcome as one, which rounding can only favour.
    function worstOutcome(Arbitrage memory x) private pure returns (uint256 outcome, uint256 least) {
        least = type(uint256).max;
        for (uint256 o; o < x.weight.length; ++o) {
            uint256 back = x.mine[o];
            if (x.pool >= x.shares[o]) back = x.myShares[o] * x.pool / x.shares[o];
            else back += x.myExcess[o] * (x.pool - x.net[o]) / x.excess[o];
            if (back < least) (outcome, least) = (o, back);
        }
    }

    function copyOf(Arbitrage memory x) private pure returns (Arbitrage memory) {
        return abi.decode(abi.encode(x), (Arbitrage));
    }

    function mix(uint256 seed) private pure returns (uint256) {
        return uint256(keccak256(abi.encode(seed)));
    }

    function pricesOf() private view returns (uint256[4] memory prices) {
        uint256 sum;
        for (uint8 k; k < 4; ++k) {
            prices[k] = wallet.outcomeBook(RANGED, k).price;
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
