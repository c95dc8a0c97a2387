// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {LocalToken} from "../../../../contracts/local/LocalToken.sol";
import {IVestedMarkets} from "../../../../contracts/stock/IVestedMarkets.sol";
import {VestedMarkets} from "../../../../contracts/stock/VestedMarkets.sol";
import {Base} from "../Base.sol";

/// A settler whose lister and resolver are plain addresses, so that each test drives it directly. On USDC, unless `tokenName` is overridden.
abstract contract StockBase is Base {
    uint8 internal constant UP = 0;
    uint8 internal constant DOWN = 1;
    uint256 internal constant ONE = 1e6;
    uint256 internal constant S = 1e18;

    address internal constant LISTER = address(0x1157E2);
    address internal constant GUARDIAN = address(0x60A2D1);
    address internal constant TREASURY = address(0x72EA5);
    address internal constant RESOLVER = address(0x2E50);
    address internal constant OPENER = address(0x09E2);
    address internal constant ALICE = address(0xA11CE);
    address internal constant BOB = address(0xB0B);
    address internal constant CAROL = address(0xCA201);

    uint64 internal constant START = 1_800_000_000;
    uint64 internal constant FREEZE = START + 1 days;
    uint32 internal constant VOID_DELAY = 3 days;

    LocalToken internal token;
    VestedMarkets internal markets;

    /// Kept here because the optimizer may read block.number once and not again after a cheat changed it.
    uint256 internal blockNow = 21_000_000;

    function setUp() public virtual {
        vm.warp(START);
        vm.roll(blockNow);
        token = newToken();
        markets = VestedMarkets(deploy("VestedMarkets", abi.encode(token, LISTER, GUARDIAN, TREASURY)));
    }

    /// The name of the token under test.
    function tokenName() internal view virtual returns (string memory) {
        return "LocalUSDC";
    }

    function newToken() internal returns (LocalToken) {
        return LocalToken(deploy(tokenName(), ""));
    }

    // ---------------------------------------------------------------- Actions

    function terms() internal pure returns (IVestedMarkets.CreateParams memory) {
        return IVestedMarkets.CreateParams({
            opener: OPENER,
            resolver: RESOLVER,
            freezeTime: FREEZE,
            voidDelay: VOID_DELAY,
            feeBps: 0,
            kappa: 30,
            seedPerLeg: uint64(10 * ONE),
            minEntry: 1,
            maxEntry: 1e14,
            sideCap: type(uint48).max
        });
    }

    function create(IVestedMarkets.CreateParams memory p) internal returns (uint256 marketId) {
        token.mint(address(markets), 2 * uint256(p.seedPerLeg));
        vm.prank(LISTER);
        return markets.create(p);
    }

    /// Kappa 30, seed 10 tokens a leg, no fee.
    function create() internal returns (uint256 marketId) {
        return create(terms());
    }

    function createWithFee(uint16 feeBps) internal returns (uint256 marketId) {
        IVestedMarkets.CreateParams memory p = terms();
        p.feeBps = feeBps;
        return create(p);
    }

    function fund(address who, uint256 amount) internal {
        token.mint(who, amount);
        vm.prank(who);
        token.approve(address(markets), type(uint256).max);
    }

    function enter(address who, uint256 marketId, uint8 outcome, uint256 amount) internal returns (uint256 positionId) {
        fund(who, amount);
        vm.prank(who);
        return markets.enter(marketId, outcome, amount);
    }

    function nextBlock() internal {
        vm.roll(++blockNow);
    }

    function resolve(uint256 marketId, uint8 winner) internal {
        vm.warp(FREEZE);
        vm.prank(RESOLVER);
        markets.resolve(marketId, winner);
    }

    function voidMarket(uint256 marketId) internal {
        vm.warp(FREEZE);
        vm.prank(RESOLVER);
        markets.voidMarket(marketId);
    }

    function deliver(uint256 a) internal returns (uint256) {
        uint256[] memory ids = new uint256[](1);
        ids[0] = a;
        return markets.deliver(ids);
    }

    /// Every position of a market, in one call.
    function deliverAll(uint256 marketId) internal returns (uint256) {
        return markets.deliver(markets.positionsOf(marketId, 0, type(uint256).max));
    }

    // ---------------------------------------------------------------- Ids

    function idOf(uint256 marketId, uint256 outcome, uint256 n) internal pure returns (uint256) {
        return marketId << 32 | n << 1 | outcome;
    }

    // ---------------------------------------------------------------- Checks

    function assertSolvent() internal view {
        vm.assertGe(token.balanceOf(address(markets)), markets.liabilities(), "owes more than it holds");
    }

    function assertAccepted(uint256 positionId, uint256 accepted) internal view {
        IVestedMarkets.PositionView memory p = markets.position(positionId);
        vm.assertTrue(p.finalized, "vintage not finished");
        vm.assertEq(p.accepted, accepted, "accepted");
        vm.assertEq(p.refused, p.offered - accepted, "refused");
    }

    function assertBooks(uint256 marketId, uint256 principalUp, uint256 principalDown, uint256 accUp, uint256 accDown)
        internal
        view
    {
        IVestedMarkets.BookView[2] memory b = markets.books(marketId);
        vm.assertEq(b[0].principal, principalUp, "principal of UP");
        vm.assertEq(b[1].principal, principalDown, "principal of DOWN");
        vm.assertEq(b[0].acc, accUp, "accumulator of UP");
        vm.assertEq(b[1].acc, accDown, "accumulator of DOWN");
    }
}
