// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {IVestedMarkets} from "../../../../contracts/stock/IVestedMarkets.sol";
import {StockBase} from "./StockBase.sol";

/// The mechanism written down a second time, entry by entry and with loops, and random histories compared with it.
contract ReferenceTest is StockBase {
    struct Entry {
        uint256 id;
        uint256 outcome;
        uint256 offered;
        uint256 accepted;
        uint256 entryAcc;
    }

    uint256 private constant MAX_COUNT = 24;

    Entry[] private entries;
    uint256 private matchedCount;
    uint256[2] private principal;
    uint256[2] private acc;
    uint256 private market;
    IVestedMarkets.CreateParams private p;

    function test_reference_randomHistories(
        uint256 seed,
        uint64 seedPerLeg,
        uint32 kappa,
        uint16 feeBps,
        uint64 sideCap,
        uint8 largest,
        uint8 end
    ) external {
        p = terms();
        p.seedPerLeg = uint64(bound(seedPerLeg, 1, 1e13));
        p.kappa = uint32(bound(kappa, 1, seed & 1 == 0 ? 50 : 1e9));
        p.feeBps = uint16(bound(feeBps, 0, 10_000));
        p.sideCap = uint64(bound(sideCap, p.seedPerLeg, type(uint48).max));
        uint256 most = 10 ** bound(largest, 1, 14);
        market = create(p);
        principal = [uint256(p.seedPerLeg), p.seedPerLeg];
        acc = [S, S];
        seedEntry(0);
        seedEntry(1);
        matchedCount = 2;

        uint256 count = seed % MAX_COUNT;
        for (uint256 i = 0; i < count; ++i) {
            uint256 r = uint256(keccak256(abi.encode(seed, i)));
            if (r & 1 == 0) {
                matchAll();
                nextBlock();
                if (r & 2 == 0) compare();
            }
            uint8 outcome = uint8(r >> 2 & 1);
            uint256 offered = bound(r >> 16, 1, most);
            entries.push(Entry(enter(ALICE, market, outcome, offered), outcome, offered, 0, 0));
        }
        matchAll();
        end = uint8(bound(end, 0, 2));
        if (end == 2) voidMarket(market);
        else resolve(market, end);
        compare();
        settle(end);
    }

    function seedEntry(uint256 outcome) private {
        entries.push(Entry(idOf(market, outcome, 0), outcome, p.seedPerLeg, p.seedPerLeg, 0));
    }

    /// Section 1 of the mechanism, word for word.
    function matchAll() private {
        uint256[2] memory demand;
        uint256[2] memory taken;
        for (uint256 i = matchedCount; i < entries.length; ++i) {
            demand[entries[i].outcome] += entries[i].offered;
        }
        for (uint256 o = 0; o < 2; ++o) {
            uint256 capacity = p.kappa * principal[1 - o];
            if (capacity > p.sideCap) capacity = p.sideCap;
            uint256 room = capacity > principal[o] ? capacity - principal[o] : 0;
            taken[o] = demand[o] < room ? demand[o] : room;
        }
        for (uint256 o = 0; o < 2; ++o) {
            acc[1 - o] += taken[o] * S / principal[1 - o];
        }
        uint256[2] memory before;
        for (uint256 i = matchedCount; i < entries.length; ++i) {
            Entry storage e = entries[i];
            uint256 o = e.outcome;
            e.accepted = (before[o] + e.offered) * taken[o] / demand[o] - before[o] * taken[o] / demand[o];
            e.entryAcc = acc[o];
            before[o] += e.offered;
        }
        for (uint256 o = 0; o < 2; ++o) {
            principal[o] += taken[o];
        }
        matchedCount = entries.length;
    }

    function compare() private view {
        assertBooks(market, principal[0], principal[1], acc[0], acc[1]);
        for (uint256 i = 0; i < matchedCount; ++i) {
            Entry memory e = entries[i];
            IVestedMarkets.PositionView memory v = markets.position(e.id);
            vm.assertEq(v.offered, e.offered, "offered");
            vm.assertEq(v.accepted, e.accepted, "accepted");
            vm.assertEq(v.entryAcc, e.entryAcc, "entry accumulator");
            vm.assertEq(markets.accrued(e.id), e.accepted * (S + acc[e.outcome] - e.entryAcc) / S, "accrued");
        }
    }

    /// Pays everybody and compares; then conservation, the seed's floor, and nothing left behind.
    function settle(uint256 end) private {
        uint256 pool = principal[0] + principal[1];
        uint256 payouts;
        for (uint256 i = 0; i < entries.length; ++i) {
            Entry memory e = entries[i];
            uint256 gross =
                end == 2 ? e.accepted : e.outcome == end ? e.accepted * (S + acc[e.outcome] - e.entryAcc) / S : 0;
            uint256 fee = end == 2 || gross < e.accepted ? 0 : (gross - (gross == 0 ? 0 : e.accepted)) * p.feeBps / 1e4;
            (uint256 g, uint256 f,, uint256 refund,,) = markets.settlement(e.id);
            vm.assertEq(g, gross, "gross");
            vm.assertEq(f, fee, "fee");
            vm.assertEq(refund, e.offered - e.accepted, "refund");
            if (e.outcome == end && i < 2) vm.assertGe(gross, 2 * uint256(p.seedPerLeg), "the seed lost");
            payouts += gross;
        }
        vm.assertLe(payouts, pool, "pays more than the pool");
        deliverAll(market);
        vm.assertEq(markets.market(market).distributed, payouts);
        vm.assertEq(markets.market(market).unpaidPrincipal, 0);
        if (pool > payouts) markets.claimResidue(market);
        if (markets.feesAccrued() != 0) markets.sweepFees();
        vm.assertEq(markets.liabilities(), 0);
        vm.assertEq(token.balanceOf(address(markets)), 0);
    }

    /// The last entry before the bell gets its stake back and no more: nothing that stood before it is its.
    function test_reference_aBuzzerEntryGetsExactlyItsStake(uint256 before, uint256 amount, uint8 side) external {
        side = uint8(bound(side, 0, 1));
        market = create();
        enter(ALICE, market, UP, bound(before, 1, 1e12));
        enter(BOB, market, DOWN, bound(before >> 128, 1, 1e12));
        nextBlock();
        vm.warp(FREEZE - 1);
        uint256 id = enter(CAROL, market, side, bound(amount, 1, 1e12));
        resolve(market, side);
        (uint256 gross,,, uint256 refund,,) = markets.settlement(id);
        vm.assertEq(gross, markets.position(id).accepted);
        vm.assertEq(gross + refund, markets.position(id).offered);
    }

    /// ... and plus everything the other side adds after it.
    function test_reference_aLateEntryGetsItsPartOfWhatComesAfterIt(uint256 amount, uint256 later) external {
        market = create();
        uint256 id = enter(CAROL, market, UP, bound(amount, 1, 290e6));
        nextBlock();
        uint256 other = enter(BOB, market, DOWN, bound(later, 1, 1e12));
        resolve(market, UP);
        uint256 accepted = markets.position(id).accepted;
        uint256 added = markets.position(other).accepted;
        vm.assertEq(markets.accrued(id), accepted * (S + added * S / (10e6 + accepted)) / S);
    }
}
