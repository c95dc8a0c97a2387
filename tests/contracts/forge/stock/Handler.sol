// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {LocalToken} from "../../../../contracts/local/LocalToken.sol";
import {IVestedMarkets} from "../../../../contracts/stock/IVestedMarkets.sol";
import {HookToken, Reenterer} from "./HostileTokens.sol";
import {SignedEntries} from "./SignedEntries.sol";

/// Plays a venue at random and foretells of every call whether it succeeds: entries, blocks and time apart, settling, paying,
/// transfers, freezes, pauses, and an actor that calls back into the settler whenever tokens move. What it can check of
/// one call it checks there; `audit` checks the rest of what must hold at any time.
contract Handler is SignedEntries {
    uint256 private constant MAX_MARKETS = 8;
    /// So that audits stay short.
    uint256 private constant MAX_POSITIONS = 60;

    string private tokenArtifact;
    address[] private actors;
    Reenterer private reenterer;
    uint256 private timeNow = START;
    uint256 private salts;

    /// The least accrual each position may show from now on.
    mapping(uint256 positionId => uint256) private accruedBefore;
    uint256 public calls;

    constructor(string memory tokenArtifact_) {
        tokenArtifact = tokenArtifact_;
        setUp();
        reenterer = new Reenterer();
        actors = [vm.addr(KEY), vm.addr(KEY + 1), ALICE, BOB, CAROL, address(reenterer)];
        for (uint256 i = 0; i < actors.length; ++i) {
            fund(actors[i], 1e18);
        }
        if (hooks()) HookToken(address(token)).setHooked(address(reenterer), true);
        open(10e6, 30, 200, 45 minutes);
    }

    function tokenName() internal view override returns (string memory) {
        return tokenArtifact;
    }

    function hooks() private view returns (bool) {
        return keccak256(bytes(tokenArtifact)) == keccak256("HookToken");
    }

    // ---------------------------------------------------------------- The world

    function passBlocks(uint8 n) external counted {
        blockNow += uint256(n) % 3;
        vm.roll(blockNow);
    }

    function passTime(uint16 dt) external counted {
        timeNow += dt % 20 minutes;
        vm.warp(timeNow);
    }

    function freeze(uint256 who, uint8 on) external counted {
        address a = who % 8 == 7 ? TREASURY : actor(who);
        if (on % 4 == 0) token.freeze(a);
        else token.unfreeze(a);
    }

    function pauseToken(uint8 on) external counted {
        token.setPaused(on % 8 == 0);
    }

    function pauseEntries(uint8 on) external counted {
        vm.prank(GUARDIAN);
        markets.setPaused(on % 8 == 0);
    }

    /// What the reentering actor tries whenever the token calls it.
    function plot(uint8 which, uint256 p) external counted {
        uint256 id = pickPosition(p);
        uint256[] memory ids = new uint256[](1);
        ids[0] = id;
        which %= 6;
        bytes memory data = which == 0
            ? abi.encodeCall(markets.deliver, (ids))
            : which == 1
                ? abi.encodeCall(markets.withdrawRefund, (id))
                : which == 2
                    ? abi.encodeCall(markets.enter, (id >> 32, 0, 1e6))
                    : which == 3
                        ? abi.encodeCall(markets.finalizeVintage, (id >> 32))
                        : which == 4 ? abi.encodeCall(markets.claim, (id)) : abi.encodeCall(markets.sweepFees, ());
        reenterer.set(address(markets), data);
    }

    // ---------------------------------------------------------------- Markets

    function createMarket(uint64 seed, uint32 kappa, uint16 feeBps, uint16 life) external counted {
        // Seldom, so that some are open until the end of a long sequence.
        if (markets.marketCount() >= MAX_MARKETS || life % 3 != 0) return;
        bool ok =
            open(bound(seed, 1, 1e9), bound(kappa, 1, kappa & 1 == 0 ? 50 : 1e9), feeBps % 10_001, 1 + life % 6 hours);
        vm.assertEq(ok, !markets.entriesPaused());
    }

    function open(uint256 seed, uint256 kappa, uint256 feeBps, uint256 life) private returns (bool ok) {
        IVestedMarkets.CreateParams memory p = terms();
        p.opener = ALICE;
        p.freezeTime = uint64(timeNow + life);
        p.voidDelay = 30 minutes;
        p.seedPerLeg = uint64(seed);
        p.kappa = uint32(kappa);
        p.feeBps = uint16(feeBps);
        p.maxEntry = 1e12;
        if (!markets.entriesPaused()) token.mint(address(markets), 2 * seed);
        vm.prank(LISTER);
        (ok,) = address(markets).call(abi.encodeCall(markets.create, (p)));
    }

    // ---------------------------------------------------------------- Entries

    function enterNow(uint256 who, uint256 m, uint8 outcome, uint256 amount) external counted {
        address a = actor(who);
        (m, outcome, amount) = shape(m, outcome, amount);
        if (markets.market(m).positions >= MAX_POSITIONS) return;
        bool expected = canEnter(a, m);
        vm.prank(a);
        (bool ok,) = address(markets).call(abi.encodeCall(markets.enter, (m, outcome, amount)));
        vm.assertEq(ok, expected, "enter");
    }

    function enterSigned(bool second, uint256 m, uint8 outcome, uint256 amount, bool again, bool cancelled)
        external
        counted
    {
        (m, outcome, amount) = shape(m, outcome, amount);
        if (markets.market(m).positions >= MAX_POSITIONS) return;
        Entry memory e = entry(m, outcome, amount);
        uint256 key = second ? KEY + 1 : KEY;
        e.from = vm.addr(key);
        e.validBefore = timeNow + 1;
        e.salt = bytes32(++salts);
        bytes memory signature = sign(e, key);
        if (cancelled && !token.paused()) cancel(e, key);
        bool expected = canEnter(e.from, m) && !(cancelled && !token.paused());
        vm.assertEq(trySend(e, signature), expected, "enterWithAuthorization");
        if (again && expected) vm.assertFalse(trySend(e, signature), "a signature was used twice");
    }

    function trySend(Entry memory e, bytes memory signature) private returns (bool ok) {
        (ok,) = address(markets)
            .call(
                abi.encodeCall(
                    markets.enterWithAuthorization,
                    (e.from, e.marketId, e.outcome, e.amount, e.validAfter, e.validBefore, e.salt, signature)
                )
            );
    }

    function shape(uint256 m, uint8 outcome, uint256 amount) private view returns (uint256, uint8, uint256) {
        // Mostly the newest, which is likely to be open.
        m = m % 4 == 0 ? pickMarket(m >> 8) : markets.marketCount();
        return (m, outcome & 1, bound(amount, 1, amount & 1 == 0 ? 1e12 : 1e8));
    }

    function canEnter(address a, uint256 m) private view returns (bool) {
        IVestedMarkets.MarketView memory v = markets.market(m);
        return !markets.entriesPaused() && isOpen(v) && timeNow < v.freezeTime && canMove(a);
    }

    // ---------------------------------------------------------------- Settling

    function finalize(uint256 m) external counted {
        m = pickMarket(m);
        IVestedMarkets.MarketView memory v = markets.market(m);
        bool expected = v.vintageBlock != 0 && (v.vintageBlock != blockNow || timeNow >= v.freezeTime);
        (bool ok,) = address(markets).call(abi.encodeCall(markets.finalizeVintage, (m)));
        vm.assertEq(ok, expected, "finalizeVintage");
    }

    function resolveOne(uint256 m, uint8 winner) external counted {
        m = pickMarket(m);
        IVestedMarkets.MarketView memory v = markets.market(m);
        vm.prank(RESOLVER);
        (bool ok,) = address(markets).call(abi.encodeCall(markets.resolve, (m, winner & 1)));
        vm.assertEq(ok, isOpen(v) && timeNow >= v.freezeTime, "resolve");
    }

    function voidOne(uint256 m, bool byAnyone) external counted {
        m = pickMarket(m);
        IVestedMarkets.MarketView memory v = markets.market(m);
        uint256 from = v.freezeTime + (byAnyone ? v.voidDelay : 0);
        if (!byAnyone) vm.prank(RESOLVER);
        (bool ok,) = address(markets).call(abi.encodeCall(markets.voidMarket, (m)));
        vm.assertEq(ok, isOpen(v) && timeNow >= from, "voidMarket");
    }

    // ---------------------------------------------------------------- Paying

    function claimOne(uint256 p) external counted {
        p = pickPosition(p);
        (bool due, address to) = dueNow(p);
        bool expected = due && !isOpen(markets.market(p >> 32)) && canMove(to);
        (bool ok,) = address(markets).call(abi.encodeCall(markets.claim, (p)));
        vm.assertEq(ok, expected, "claim");
    }

    function withdrawOne(uint256 p) external counted {
        p = pickPosition(p);
        IVestedMarkets.PositionView memory v = markets.position(p);
        bool expected = v.refused != 0 && !v.refunded && canMove(v.owner);
        (bool ok,) = address(markets).call(abi.encodeCall(markets.withdrawRefund, (p)));
        vm.assertEq(ok, expected, "withdrawRefund");
    }

    /// Each owner gets what was said to be due, or nothing if it cannot be paid; no one stops another.
    function deliverMany(uint256 m, uint256 from, uint256 count) external counted {
        m = pickMarket(m);
        uint256[] memory ids = markets.positionsOf(m, from % (markets.market(m).positions + 1), count % 12);
        uint256 expected;
        uint256 sum;
        for (uint256 i = 0; i < ids.length; ++i) {
            (bool due, address to) = dueNow(ids[i]);
            (,,,, uint256 total,) = markets.settlement(ids[i]);
            if (!due || !canMove(to)) continue;
            ++expected;
            sum += total;
        }
        uint256 held = token.balanceOf(address(markets));
        vm.assertEq(markets.deliver(ids), expected, "delivered");
        vm.assertEq(held - token.balanceOf(address(markets)), sum, "sent");
    }

    function claimResidueOne(uint256 m) external counted {
        m = pickMarket(m);
        IVestedMarkets.MarketView memory v = markets.market(m);
        bool expected = !isOpen(v) && v.unpaidPrincipal == 0 && v.pool > v.distributed && canMove(TREASURY);
        (bool ok,) = address(markets).call(abi.encodeCall(markets.claimResidue, (m)));
        vm.assertEq(ok, expected, "claimResidue");
    }

    function sweep() external counted {
        bool expected = markets.feesAccrued() != 0 && canMove(TREASURY);
        (bool ok,) = address(markets).call(abi.encodeCall(markets.sweepFees, ()));
        vm.assertEq(ok, expected, "sweepFees");
    }

    function transferOne(uint256 p, uint256 to, bool byOwner) external counted {
        p = pickPosition(p);
        address owner = markets.position(p).owner;
        if (byOwner) vm.prank(owner);
        (bool ok,) = address(markets).call(abi.encodeCall(markets.transferPosition, (p, actor(to))));
        vm.assertEq(ok, byOwner, "transferPosition");
    }

    // ---------------------------------------------------------------- What holds at any time

    /// The settler holds exactly what it owes, to the unit.
    function checkSolvency() external view {
        vm.assertEq(token.balanceOf(address(markets)), markets.liabilities(), "holds other than it owes");
        vm.assertFalse(reenterer.succeeded(), "a call within a call succeeded");
    }

    /// Worked out position by position: what all markets owe is `liabilities`; accepted amounts sum to the principals;
    /// payouts never pass the pool; accruals never fall.
    function audit() external {
        uint256 owed = markets.feesAccrued();
        uint256 n = markets.marketCount();
        for (uint256 m = 1; m <= n; ++m) {
            owed += auditMarket(m);
        }
        vm.assertEq(owed, markets.liabilities(), "liabilities are not the sum of the debts");
    }

    /// Sums over the positions of a market.
    struct Audit {
        uint256[2] accepted;
        uint256[2] pending;
        uint256 gross;
        uint256 owed;
    }

    function auditMarket(uint256 m) private returns (uint256 owed) {
        IVestedMarkets.MarketView memory v = markets.market(m);
        IVestedMarkets.BookView[2] memory b = markets.books(m);
        uint256[] memory ids = markets.positionsOf(m, 0, type(uint256).max);
        vm.assertEq(ids.length, v.positions);
        Audit memory sum;
        for (uint256 i = 0; i < ids.length; ++i) {
            auditPosition(ids[i], isOpen(v), sum);
        }
        for (uint256 o = 0; o < 2; ++o) {
            vm.assertEq(sum.accepted[o], b[o].principal, "accepted amounts are not the principal");
            vm.assertEq(sum.pending[o], b[o].demand, "demand");
        }
        vm.assertEq(v.pool, b[0].principal + b[1].principal);
        if (isOpen(v)) return sum.owed;
        vm.assertLe(sum.gross, v.pool, "pays more than the pool");
        vm.assertLe(v.distributed, v.pool);
        // The residue, unless it was taken: then all of the pool went out.
        owed = sum.owed + (v.distributed == v.pool ? 0 : v.pool - sum.gross);
    }

    function auditPosition(uint256 id, bool open, Audit memory sum) private {
        IVestedMarkets.PositionView memory p = markets.position(id);
        (uint256 gross, uint256 fee, uint256 net, uint256 refund, uint256 total,) = markets.settlement(id);
        sum.accepted[p.outcome] += p.accepted;
        sum.gross += gross;
        // A fee is the treasury's once its winner is paid, and set aside until then.
        sum.owed += total + (p.claimed ? 0 : fee);
        if (!p.finalized) sum.pending[p.outcome] += p.offered;
        if (open) {
            sum.owed += p.finalized ? p.accepted : p.offered;
            uint256 accrued = markets.accrued(id);
            vm.assertGe(accrued, accruedBefore[id], "an accrual fell");
            accruedBefore[id] = accrued;
        } else {
            vm.assertEq(total, (p.claimed ? 0 : net) + (p.refunded ? 0 : refund));
            if (gross != 0) vm.assertGe(gross, p.accepted, "a winner lost");
        }
        if (p.finalized) vm.assertEq(p.accepted + p.refused, p.offered);
    }

    // ---------------------------------------------------------------- Helpers

    modifier counted() {
        ++calls;
        _;
    }

    function actor(uint256 who) private view returns (address) {
        return actors[who % actors.length];
    }

    function pickMarket(uint256 m) private view returns (uint256) {
        return 1 + m % markets.marketCount();
    }

    function pickPosition(uint256 p) private view returns (uint256) {
        uint256 m = pickMarket(p);
        return markets.positionsOf(m, (p >> 16) % markets.market(m).positions, 1)[0];
    }

    function dueNow(uint256 p) private view returns (bool due, address to) {
        (,,,,, due) = markets.settlement(p);
        to = markets.position(p).owner;
    }

    function isOpen(IVestedMarkets.MarketView memory v) private pure returns (bool) {
        return v.status == IVestedMarkets.Status.Open;
    }

    function canMove(address a) private view returns (bool) {
        return !token.paused() && !token.isFrozen(a);
    }
}
