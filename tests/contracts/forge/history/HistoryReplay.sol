// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {IVestedMarkets} from "../../../../contracts/stock/IVestedMarkets.sol";
import {VestedMarkets} from "../../../../contracts/stock/VestedMarkets.sol";
import {LocalToken} from "../../../../contracts/local/LocalToken.sol";
import {LocalUSDC} from "../../../../contracts/local/LocalUSDC.sol";
import {LocalUSDG} from "../../../../contracts/local/LocalUSDG.sol";
import {Base} from "../Base.sol";

/// Leads a `VestedMarkets` through histories written by tests/contracts/model/encoding.py and holds it to every number the
/// model expects: each position, the books, the headroom, every balance. This contract is lister and resolver.
abstract contract HistoryReplay is Base {
    /// `expected` is the model's; `step` counts the history's steps from 1.
    error Differs(uint256 history, uint256 step, string what, uint256 expected, uint256 found);

    uint256 private constant START = 1_000_000;
    uint256 private constant FREEZE = START + 100_000;
    uint32 private constant VOID_DELAY = 3600;

    uint256 private constant ENTER = 1;
    uint256 private constant BLOCK = 2;
    uint256 private constant TIME = 3;
    uint256 private constant FINALIZE = 4;
    uint256 private constant TRANSFER = 5;
    uint256 private constant RESOLVE = 6;
    uint256 private constant VOID = 7;
    uint256 private constant REFUND = 8;
    uint256 private constant CLAIM = 9;
    uint256 private constant DELIVER = 10;
    uint256 private constant RESIDUE = 11;
    uint256 private constant CHECK = 12;
    uint256 private constant ORDER = 13;

    /// Actors 0 to 7 enter, actor 8 is the opener.
    uint256 private constant ACTORS = 9;
    uint256 private constant OPENER = 8;
    uint256 private constant MAX_ENTRIES = 64;

    address private constant TREASURY = address(0x7EA5);

    VestedMarkets internal settler;
    LocalToken internal token;

    /// One history under way.
    struct Run {
        uint256 history;
        uint256 step;
        uint256 next; // word to read
        uint256 block; // kept here: the optimizer may read block.number once and not again after a cheat changed it
        uint256 marketId;
        uint256 entries;
        uint256[] ids;
        uint256[] owners;
        uint256[] offered;
        uint256[] blocks;
        uint256[] balances; // of the actors, as they must be
        uint256 feesBefore; // of other markets
        uint256 treasury;
    }

    // ---------------------------------------------------------------- Files

    /// A fresh settler and token, then every history of the file. Returns how many there were. Called, like `replay`, so that
    /// its memory is given back.
    function replayFile(uint256 file) external returns (uint256 count) {
        uint256[][] memory histories = abi.decode(vm.readFileBinary(path(file)), (uint256[][]));
        token = file % 2 == 0 ? LocalToken(new LocalUSDG()) : LocalToken(new LocalUSDC());
        settler = new VestedMarkets(address(token), address(this), address(0x6A2D), TREASURY);
        for (uint256 i = 0; i < ACTORS; ++i) {
            vm.prank(actor(i));
            token.approve(address(settler), type(uint256).max);
        }
        count = histories.length;
        for (uint256 i = 0; i < count; ++i) {
            this.replay(histories[i]);
        }
        uint256 fees = settler.feesAccrued();
        uint256 before = token.balanceOf(TREASURY);
        if (fees > 0) settler.sweepFees();
        if (token.balanceOf(TREASURY) - before != fees) revert Differs(0, 0, "fees swept", fees, 0);
        // Everything of every market was paid out.
        if (token.balanceOf(address(settler)) != 0) {
            revert Differs(0, 0, "left over", 0, token.balanceOf(address(settler)));
        }
        if (settler.liabilities() != 0) revert Differs(0, 0, "liabilities left", 0, settler.liabilities());
    }

    /// Where the histories are; empty when no one wrote any.
    function folder() internal view returns (string memory) {
        return vm.envOr("VPM_HISTORIES", string(""));
    }

    function path(uint256 file) internal view returns (string memory) {
        return string.concat(folder(), digits(file), ".bin");
    }

    function digits(uint256 n) private pure returns (string memory) {
        bytes memory digit = new bytes(1);
        digit[0] = bytes1(uint8(48 + n % 10));
        return n < 10 ? string(digit) : string.concat(digits(n / 10), string(digit));
    }

    function actor(uint256 i) internal pure returns (address) {
        return address(uint160(0xAC700 + i));
    }

    // ---------------------------------------------------------------- One history

    function replay(uint256[] calldata words) external {
        Run memory r;
        r.history = words[0];
        r.ids = new uint256[](MAX_ENTRIES);
        r.owners = new uint256[](MAX_ENTRIES);
        r.offered = new uint256[](MAX_ENTRIES);
        r.blocks = new uint256[](MAX_ENTRIES);
        r.balances = new uint256[](ACTORS);
        for (uint256 i = 0; i < ACTORS; ++i) {
            r.balances[i] = token.balanceOf(actor(i));
        }
        r.feesBefore = settler.feesAccrued();
        r.treasury = token.balanceOf(TREASURY);
        open(r, words[1], words[2], words[3], words[4]);
        r.next = 5;
        while (r.next < words.length) {
            ++r.step;
            uint256 op = words[r.next++];
            if (op == ENTER) enter(r, words[r.next++], words[r.next++], words[r.next++]);
            else if (op == BLOCK) vm.roll(r.block = words[r.next++]);
            else if (op == TIME) vm.warp(words[r.next++]);
            else if (op == FINALIZE) finalize(r, words[r.next++] == 1);
            else if (op == TRANSFER) transfer(r, words[r.next++], words[r.next++]);
            else if (op == RESOLVE) settler.resolve(r.marketId, uint8(words[r.next++]));
            else if (op == VOID) voidMarket(r, words[r.next++] == 1);
            else if (op == REFUND) refund(r, words[r.next++], words[r.next++]);
            else if (op == CLAIM) claim(r, words[r.next++], words[r.next++]);
            else if (op == DELIVER) deliver(r, words);
            else if (op == RESIDUE) takeResidue(r, words[r.next++]);
            else if (op == CHECK) check(r, words);
            else if (op == ORDER) checkOrder(r, words);
            else revert Differs(r.history, r.step, "opcode", 0, op);
        }
        checkBalances(r);
    }

    function open(Run memory r, uint256 kappa, uint256 feeBps, uint256 seed, uint256 sideCap) private {
        vm.roll(r.block = 1);
        vm.warp(START);
        token.mint(address(settler), 2 * seed);
        r.marketId = settler.create(
            IVestedMarkets.CreateParams({
                opener: actor(OPENER),
                resolver: address(this),
                freezeTime: uint64(FREEZE),
                voidDelay: VOID_DELAY,
                feeBps: uint16(feeBps),
                kappa: uint32(kappa),
                seedPerLeg: uint64(seed),
                minEntry: 1,
                maxEntry: type(uint48).max,
                sideCap: uint64(sideCap)
            })
        );
        uint256[] memory seeds = settler.positionsOf(r.marketId, 0, 10);
        expect(r, "seed positions", 2, seeds.length);
        for (uint256 side = 0; side < 2; ++side) {
            r.ids[side] = seeds[side];
            r.owners[side] = OPENER;
            r.offered[side] = seed;
        }
        r.entries = 2;
    }

    function enter(Run memory r, uint256 who, uint256 side, uint256 amount) private {
        token.mint(actor(who), amount);
        vm.prank(actor(who));
        uint256 id = settler.enter(r.marketId, uint8(side), amount);
        uint256 n = r.entries++;
        r.ids[n] = id;
        r.owners[n] = who;
        r.offered[n] = amount;
        r.blocks[n] = r.block;
        expect(r, "side of a new id", side, id & 1);
    }

    function finalize(Run memory r, bool possible) private {
        (bool done,) = address(settler).call(abi.encodeCall(settler.finalizeVintage, (r.marketId)));
        expect(r, "finalizes", possible ? 1 : 0, done ? 1 : 0);
    }

    function transfer(Run memory r, uint256 entry, uint256 to) private {
        vm.prank(actor(r.owners[entry]));
        settler.transferPosition(r.ids[entry], actor(to));
        r.owners[entry] = to;
    }

    function voidMarket(Run memory r, bool byResolver) private {
        if (!byResolver) vm.prank(address(0xB0B));
        settler.voidMarket(r.marketId);
    }

    // ---------------------------------------------------------------- Payments

    function refund(Run memory r, uint256 entry, uint256 amount) private {
        (bool done,) = address(settler).call(abi.encodeCall(settler.withdrawRefund, (r.ids[entry])));
        expect(r, "refund sent", amount > 0 ? 1 : 0, done ? 1 : 0);
        r.balances[r.owners[entry]] += amount;
        checkBalances(r);
    }

    function claim(Run memory r, uint256 entry, uint256 amount) private {
        (bool done,) = address(settler).call(abi.encodeCall(settler.claim, (r.ids[entry])));
        expect(r, "claim sent", amount > 0 ? 1 : 0, done ? 1 : 0);
        r.balances[r.owners[entry]] += amount;
        checkBalances(r);
    }

    function deliver(Run memory r, uint256[] calldata words) private {
        uint256[] memory batch = new uint256[](words[r.next++]);
        uint256 paid;
        for (uint256 i = 0; i < batch.length; ++i) {
            uint256 entry = words[r.next++];
            uint256 amount = words[r.next++];
            batch[i] = r.ids[entry];
            r.balances[r.owners[entry]] += amount;
            if (amount > 0) ++paid;
        }
        expect(r, "delivered", paid, settler.deliver(batch));
        checkBalances(r);
    }

    function takeResidue(Run memory r, uint256 amount) private {
        (bool done,) = address(settler).call(abi.encodeCall(settler.claimResidue, (r.marketId)));
        expect(r, "residue taken", amount > 0 ? 1 : 0, done ? 1 : 0);
        r.treasury += amount;
        checkBalances(r);
    }

    function checkBalances(Run memory r) private view {
        for (uint256 i = 0; i < ACTORS; ++i) {
            expect(r, "balance of an actor", r.balances[i], token.balanceOf(actor(i)));
        }
        expect(r, "balance of the treasury", r.treasury, token.balanceOf(TREASURY));
        expect(r, "liabilities against the balance", settler.liabilities(), token.balanceOf(address(settler)));
    }

    // ---------------------------------------------------------------- Comparing

    function check(Run memory r, uint256[] calldata words) private view {
        IVestedMarkets.MarketView memory m = settler.market(r.marketId);
        expect(r, "status", words[r.next++], uint256(m.status));
        expect(r, "pool", words[r.next++], m.pool);
        expect(r, "distributed", words[r.next++], m.distributed);
        expect(r, "unpaid principal", words[r.next++], m.unpaidPrincipal);
        expect(r, "vintage block", words[r.next++], m.vintageBlock);
        expect(r, "vintages", words[r.next++], m.vintages);
        expect(r, "positions", r.entries, m.positions);
        expect(r, "fees", words[r.next++], settler.feesAccrued() - r.feesBefore);

        IVestedMarkets.BookView[2] memory b = settler.books(r.marketId);
        uint256[2] memory room;
        (room[0], room[1]) = settler.headroom(r.marketId);
        for (uint256 side = 0; side < 2; ++side) {
            expect(r, "principal", words[r.next++], b[side].principal);
            expect(r, "acc", words[r.next++], b[side].acc);
            expect(r, "capacity", words[r.next++], b[side].capacity);
            expect(r, "demand", words[r.next++], b[side].demand);
            expect(r, "live", words[r.next++], b[side].live);
            expect(r, "headroom", words[r.next++], room[side]);
            expect(r, "vested", b[1 - side].principal, b[side].vested);
        }
        for (uint256 entry = 0; entry < r.entries; ++entry) {
            checkPosition(r, entry, words[r.next++], words[r.next++]);
        }
    }

    function checkPosition(Run memory r, uint256 entry, uint256 first, uint256 second) private view {
        uint256 id = r.ids[entry];
        IVestedMarkets.PositionView memory p = settler.position(id);
        bool matched = second >> 224 == 1;
        expect(r, "owner", uint160(actor(r.owners[entry])), uint160(p.owner));
        expect(r, "market", r.marketId, p.marketId);
        expect(r, "outcome", id & 1, p.outcome);
        expect(r, "offered", r.offered[entry], p.offered);
        expect(r, "vintage", r.blocks[entry], p.vintage);
        expect(r, "seed", entry < 2 ? 1 : 0, p.seed ? 1 : 0);
        expect(r, "matched", matched ? 1 : 0, p.finalized ? 1 : 0);
        expect(r, "accepted", uint64(first), p.accepted);
        expect(r, "refused", uint64(first >> 64), p.refused);
        if (matched) expect(r, "entry accumulator", uint96(second >> 128), p.entryAcc);
        expect(r, "accrued", uint64(second), settler.accrued(id));
        (uint256 gross, uint256 fee, uint256 net, uint256 refused, uint256 total, bool deliverable) =
            settler.settlement(id);
        expect(r, "gross", uint64(second >> 64), gross);
        expect(r, "fee", first >> 192, fee);
        expect(r, "net", gross - fee, net);
        expect(r, "refund", uint64(first >> 64), refused);
        expect(r, "total", uint64(first >> 128), total);
        expect(r, "deliverable", total > 0 ? 1 : 0, deliverable ? 1 : 0);
    }

    /// The list of a market's positions, whole and in two pages.
    function checkOrder(Run memory r, uint256[] calldata words) private view {
        uint256 count = words[r.next++];
        uint256 half = count / 2;
        uint256[] memory whole = settler.positionsOf(r.marketId, 0, count + 5);
        uint256[] memory first = settler.positionsOf(r.marketId, 0, half);
        uint256[] memory second = settler.positionsOf(r.marketId, half, count);
        expect(r, "ids", count, whole.length);
        expect(r, "ids of the first page", half, first.length);
        expect(r, "ids of the second page", count - half, second.length);
        for (uint256 i = 0; i < count; ++i) {
            uint256 id = r.ids[words[r.next++]];
            expect(r, "id in order", id, whole[i]);
            expect(r, "id on its page", id, i < half ? first[i] : second[i - half]);
        }
    }

    function expect(Run memory r, bytes32 what, uint256 expected, uint256 found) private pure {
        if (expected != found) revert Differs(r.history, r.step, words32(what), expected, found);
    }

    /// A short text without its zeros.
    function words32(bytes32 text) private pure returns (string memory) {
        uint256 length;
        while (length < 32 && text[length] != 0) ++length;
        bytes memory out = new bytes(length);
        for (uint256 i = 0; i < length; ++i) {
            out[i] = text[i];
        }
        return string(out);
    }
}
