// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {LocalToken} from "../../../../contracts/local/LocalToken.sol";
import {IVestedMarkets} from "../../../../contracts/stock/IVestedMarkets.sol";
import {LyingToken} from "./HostileTokens.sol";
import {StockBase} from "./StockBase.sol";

contract EnterTest is StockBase {
    uint256 internal market;

    function setUp() public override {
        super.setUp();
        market = create();
    }

    function test_enter_booksTheOffer(address who, uint8 outcome, uint256 amount) external {
        vm.assume(who != address(0) && who != address(markets));
        outcome = uint8(bound(outcome, 0, 1));
        amount = bound(amount, 1, 1e14);
        fund(who, amount);
        vm.expectEmit(true, true, true, true, address(markets));
        emit IVestedMarkets.Entered(market, idOf(market, outcome, 1), who, outcome, amount, uint64(blockNow));
        vm.prank(who);
        uint256 id = markets.enter(market, outcome, amount);

        vm.assertEq(id, idOf(market, outcome, 1));
        IVestedMarkets.PositionView memory p = markets.position(id);
        vm.assertEq(p.owner, who);
        vm.assertEq(p.marketId, market);
        vm.assertEq(p.outcome, outcome);
        vm.assertEq(p.offered, amount);
        vm.assertEq(p.vintage, blockNow);
        vm.assertTrue(!p.finalized && !p.seed);
        vm.assertEq(p.accepted + p.refused, 0);
        vm.assertEq(markets.books(market)[outcome].demand, amount);
        vm.assertEq(markets.market(market).vintageBlock, blockNow);
        vm.assertEq(markets.liabilities(), 20 * ONE + amount);
        vm.assertEq(token.balanceOf(address(markets)), 20 * ONE + amount);
    }

    function test_enter_entriesOfOneBlockShareAVintage(uint256 a, uint256 b) external {
        a = bound(a, 1, 1e14);
        b = bound(b, 1, 1e14);
        uint256 first = enter(ALICE, market, UP, a);
        uint256 second = enter(BOB, market, UP, b);
        nextBlock();
        uint256 accepted = a + b < 290e6 ? a + b : 290e6;
        // Rounded by running totals, so that the two sum exactly.
        assertAccepted(first, a * accepted / (a + b));
        assertAccepted(second, accepted - a * accepted / (a + b));
        vm.assertEq(markets.position(first).entryAcc, markets.position(second).entryAcc);
    }

    /// In either order of two entries of a block, each is accepted the same but for one unit of rounding.
    function test_enter_noAdvantageFromOrderInsideABlock(uint256 a, uint256 b, bool sameSide) external {
        a = bound(a, 1, 1e12);
        b = bound(b, 1, 1e12);
        uint8 other = sameSide ? UP : DOWN;
        uint256 reversed = create();
        uint256 a1 = enter(ALICE, market, UP, a);
        uint256 b1 = enter(BOB, market, other, b);
        uint256 b2 = enter(BOB, reversed, other, b);
        uint256 a2 = enter(ALICE, reversed, UP, a);
        nextBlock();
        assertNear(markets.position(a1).accepted, markets.position(a2).accepted, 1);
        assertNear(markets.position(b1).accepted, markets.position(b2).accepted, 1);
        vm.assertEq(markets.position(a1).entryAcc, markets.position(a2).entryAcc);
        vm.assertEq(markets.position(b1).entryAcc, markets.position(b2).entryAcc);
    }

    function test_enter_theFirstOfABlockFinalizesTheLastVintage() external {
        enter(ALICE, market, UP, 20 * ONE);
        uint256 first = blockNow;
        nextBlock();
        fund(BOB, 30 * ONE);
        vm.expectEmit(true, true, true, true, address(markets));
        emit IVestedMarkets.VintageFinalized(market, uint64(first), 20 * ONE, 0, 20 * ONE, 0, S, 3 * S);
        vm.prank(BOB);
        markets.enter(market, DOWN, 30 * ONE);
        IVestedMarkets.MarketView memory m = markets.market(market);
        vm.assertEq(m.vintageBlock, blockNow);
        vm.assertEq(m.vintages, 2);
    }

    function test_enter_untilTheLastSecondBeforeTheFreeze() external {
        vm.warp(FREEZE - 1);
        enter(ALICE, market, UP, ONE);
        vm.warp(FREEZE);
        refuse(market, UP, ONE, abi.encodeWithSelector(IVestedMarkets.MarketFrozen.selector, market, FREEZE, FREEZE));
    }

    function test_enter_failsOutsideTheMarketsBounds(uint64 min, uint64 max, uint64 amount) external {
        min = uint64(bound(min, 1, type(uint32).max));
        max = uint64(bound(max, min, type(uint48).max));
        IVestedMarkets.CreateParams memory p = terms();
        p.minEntry = min;
        p.maxEntry = max;
        uint256 id = create(p);
        if (amount >= min && amount <= max) {
            enter(ALICE, id, UP, amount);
        } else {
            refuse(id, UP, amount, abi.encodeWithSelector(IVestedMarkets.AmountOutOfBounds.selector, amount, min, max));
        }
    }

    function test_enter_failsForAnUnknownMarket(uint256 id) external {
        vm.assume(id != market);
        refuse(id, UP, ONE, abi.encodeWithSelector(IVestedMarkets.UnknownMarket.selector, id));
    }

    function test_enter_failsForAnUnknownOutcome(uint8 outcome) external {
        outcome = uint8(bound(outcome, 2, 255));
        refuse(market, outcome, ONE, abi.encodeWithSelector(IVestedMarkets.InvalidOutcome.selector, outcome));
    }

    function test_enter_failsOnceSettled() external {
        resolve(market, UP);
        refuse(market, UP, ONE, notOpen(market, IVestedMarkets.Status.Up));
        uint256 other = create2();
        voidMarket2(other);
        refuse(other, UP, ONE, notOpen(other, IVestedMarkets.Status.Void));
    }

    function test_enter_failsWhilePaused() external {
        vm.prank(GUARDIAN);
        markets.setPaused(true);
        refuse(market, UP, ONE, abi.encodeWithSelector(IVestedMarkets.EntriesArePaused.selector, GUARDIAN));
        vm.prank(GUARDIAN);
        markets.setPaused(false);
        enter(ALICE, market, UP, ONE);
    }

    function test_enter_failsWithTheTokensReason() external {
        token.mint(ALICE, ONE);
        vm.expectRevert(
            abi.encodeWithSelector(LocalToken.InsufficientAllowance.selector, ALICE, address(markets), 0, ONE)
        );
        vm.prank(ALICE);
        markets.enter(market, UP, ONE);
        token.setPaused(true);
        vm.prank(ALICE);
        token.approve(address(markets), ONE);
        refuse(market, UP, ONE, abi.encodeWithSelector(LocalToken.TokenPaused.selector));
    }

    /// An id numbers 2^31 positions a side and 2^24 vintages, a vintage adds up 2^64 units a side: never reached, and refused.
    function test_enter_failsWhenTheMarketIsFull() external {
        uint256 slot = uint256(keccak256(abi.encode(market, uint256(1)))) + 1;
        bytes32 flow = vm.load(address(markets), bytes32(slot));
        bytes memory full = abi.encodeWithSelector(IVestedMarkets.MarketFull.selector, market);

        vm.store(address(markets), bytes32(slot), flow | bytes32(uint256(type(uint24).max) << 40));
        refuse(market, UP, ONE, full);
        vm.store(address(markets), bytes32(slot), bytes32(uint256(1) << 31 << 192));
        refuse(market, UP, ONE, full);
        vm.store(address(markets), bytes32(slot), flow);

        enter(ALICE, market, DOWN, 1);
        flow = vm.load(address(markets), bytes32(slot));
        vm.store(address(markets), bytes32(slot), flow | bytes32(uint256(type(uint64).max - 5) << 128));
        refuse(market, DOWN, 6, full);
        enter(ALICE, market, DOWN, 4);
    }

    function refuse(uint256 id, uint8 outcome, uint256 amount, bytes memory why) internal {
        fund(ALICE, amount);
        vm.expectRevert(why);
        vm.prank(ALICE);
        markets.enter(id, outcome, amount);
    }

    function notOpen(uint256 id, IVestedMarkets.Status status) internal pure returns (bytes memory) {
        return abi.encodeWithSelector(IVestedMarkets.MarketNotOpen.selector, id, status);
    }

    function create2() internal returns (uint256) {
        IVestedMarkets.CreateParams memory p = terms();
        p.freezeTime = FREEZE + 100;
        return create(p);
    }

    function voidMarket2(uint256 id) internal {
        vm.warp(FREEZE + 100);
        vm.prank(RESOLVER);
        markets.voidMarket(id);
    }

    function assertNear(uint256 a, uint256 b, uint256 slack) internal pure {
        vm.assertLe(a, b + slack);
        vm.assertLe(b, a + slack);
    }
}

contract EnterOnUSDGTest is EnterTest {
    function tokenName() internal pure override returns (string memory) {
        return "LocalUSDG";
    }
}

contract EnterWithALyingTokenTest is StockBase {
    function tokenName() internal pure override returns (string memory) {
        return "LyingToken";
    }

    function test_enter_failsUnlessTheBalanceRoseByTheAmount() external {
        uint256 market = create();
        fund(ALICE, 10 * ONE);
        expectShort(market, LyingToken.Mode.Silent, 0);
        expectShort(market, LyingToken.Mode.Less, ONE - 1);
        expectShort(market, LyingToken.Mode.More, ONE + 1);
        vm.assertEq(markets.liabilities(), 20 * ONE);
    }

    function expectShort(uint256 market, LyingToken.Mode mode, uint256 received) private {
        LyingToken(address(token)).setMode(mode);
        vm.expectRevert(abi.encodeWithSelector(IVestedMarkets.PaymentNotReceived.selector, ALICE, ONE, received));
        vm.prank(ALICE);
        markets.enter(market, UP, ONE);
    }
}
