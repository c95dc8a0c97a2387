// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {LocalToken} from "../../../../contracts/local/LocalToken.sol";
import {IVestedMarkets} from "../../../../contracts/stock/IVestedMarkets.sol";
import {VestedMarkets} from "../../../../contracts/stock/VestedMarkets.sol";
import {LyingToken} from "./HostileTokens.sol";
import {StockBase} from "./StockBase.sol";

contract CreateTest is StockBase {
    function tokenName() internal pure override returns (string memory) {
        return "LyingToken";
    }

    function test_create_keepsItsTerms(IVestedMarkets.CreateParams memory p) external {
        p = valid(p);
        uint256 id = create(p);
        vm.assertEq(id, 1);
        IVestedMarkets.MarketView memory m = markets.market(id);
        vm.assertEq(m.opener, p.opener);
        vm.assertEq(m.resolver, p.resolver);
        vm.assertEq(m.freezeTime, p.freezeTime);
        vm.assertEq(m.voidDelay, p.voidDelay);
        vm.assertEq(m.feeBps, p.feeBps);
        vm.assertEq(m.kappa, p.kappa);
        vm.assertEq(m.seedPerLeg, p.seedPerLeg);
        vm.assertEq(m.minEntry, p.minEntry);
        vm.assertEq(m.maxEntry, p.maxEntry);
        vm.assertEq(m.sideCap, p.sideCap);
        vm.assertEq(uint8(m.status), uint8(IVestedMarkets.Status.Open));
        vm.assertEq(m.vintageBlock, 0);
        vm.assertEq(m.positions, 2);
        vm.assertEq(m.pool, 2 * uint256(p.seedPerLeg));
        vm.assertEq(markets.liabilities(), 2 * uint256(p.seedPerLeg));
    }

    function test_create_seedsBothSidesForTheOpener(IVestedMarkets.CreateParams memory p) external {
        p = valid(p);
        uint256 id = create(p);
        assertBooks(id, p.seedPerLeg, p.seedPerLeg, S, S);
        uint256[] memory ids = markets.positionsOf(id, 0, 10);
        vm.assertEq(ids.length, 2);
        for (uint8 outcome = 0; outcome < 2; ++outcome) {
            vm.assertEq(ids[outcome], idOf(id, outcome, 0));
            IVestedMarkets.PositionView memory v = markets.position(ids[outcome]);
            vm.assertEq(v.owner, p.opener);
            vm.assertEq(v.marketId, id);
            vm.assertEq(v.outcome, outcome);
            vm.assertEq(v.offered, p.seedPerLeg);
            vm.assertEq(v.accepted, p.seedPerLeg);
            vm.assertEq(v.entryAcc, 0);
            vm.assertEq(v.vintage, 0);
            vm.assertTrue(v.seed && v.finalized && !v.refunded && !v.claimed);
            vm.assertEq(markets.accrued(ids[outcome]), 2 * uint256(p.seedPerLeg));
        }
    }

    function test_create_tellsAllInItsLogs() external {
        IVestedMarkets.CreateParams memory p = terms();
        token.mint(address(markets), 20 * ONE);
        vm.expectEmit(true, true, true, true, address(markets));
        emit IVestedMarkets.MarketCreated(
            1, OPENER, RESOLVER, FREEZE, VOID_DELAY, 0, 30, uint64(10 * ONE), 1, 1e14, type(uint48).max
        );
        vm.expectEmit(true, true, true, true, address(markets));
        emit IVestedMarkets.Entered(1, idOf(1, UP, 0), OPENER, UP, 10 * ONE, 0);
        vm.expectEmit(true, true, true, true, address(markets));
        emit IVestedMarkets.Entered(1, idOf(1, DOWN, 0), OPENER, DOWN, 10 * ONE, 0);
        vm.prank(LISTER);
        markets.create(p);
    }

    function test_create_numbersMarketsFromOne() external {
        vm.assertEq(markets.marketCount(), 0);
        vm.assertEq(create(), 1);
        vm.assertEq(create(), 2);
        vm.assertEq(markets.marketCount(), 2);
    }

    function test_create_failsForAnyoneButTheLister(address caller) external {
        vm.assume(caller != LISTER);
        token.mint(address(markets), 20 * ONE);
        IVestedMarkets.CreateParams memory p = terms();
        vm.expectRevert(abi.encodeWithSelector(IVestedMarkets.NotLister.selector, caller, LISTER));
        vm.prank(caller);
        markets.create(p);
    }

    function test_create_failsWhilePaused() external {
        vm.prank(GUARDIAN);
        markets.setPaused(true);
        refuse(terms(), abi.encodeWithSelector(IVestedMarkets.EntriesArePaused.selector, GUARDIAN));
    }

    function test_create_failsWithoutItsSeed(uint256 brought) external {
        brought = bound(brought, 0, 20 * ONE - 1);
        // Another market's money does not count.
        enter(ALICE, create(), UP, 500 * ONE);
        token.mint(address(markets), brought);
        refuse(terms(), abi.encodeWithSelector(IVestedMarkets.SeedNotReceived.selector, 20 * ONE, brought));
    }

    function test_create_failsWhenMoneyIsMissing() external {
        create();
        LyingToken(address(token)).seize(address(markets), 5 * ONE);
        refuse(terms(), abi.encodeWithSelector(IVestedMarkets.SeedNotReceived.selector, 20 * ONE, 0));
    }

    function test_create_failsForAnOwnerNobodyCanPay() external {
        IVestedMarkets.CreateParams memory p = terms();
        p.opener = address(0);
        refuse(p, abi.encodeWithSelector(IVestedMarkets.InvalidOwner.selector, p.opener));
        p.opener = address(markets);
        refuse(p, abi.encodeWithSelector(IVestedMarkets.InvalidOwner.selector, p.opener));
    }

    function test_create_failsForTermsOutOfBounds() external {
        IVestedMarkets.CreateParams memory p = terms();
        p.resolver = address(0);
        refuse(p, abi.encodeWithSelector(IVestedMarkets.ZeroAddress.selector, "resolver"));

        p = terms();
        p.freezeTime = START;
        refuse(p, outOfBounds("freezeTime", START, START + 1, type(uint40).max));
        p.freezeTime = uint64(1) << 40;
        refuse(p, outOfBounds("freezeTime", p.freezeTime, START + 1, type(uint40).max));

        p = terms();
        p.feeBps = 10_001;
        refuse(p, outOfBounds("feeBps", 10_001, 0, 10_000));

        p = terms();
        p.kappa = 0;
        refuse(p, outOfBounds("kappa", 0, 1, 1e9));
        p.kappa = 1e9 + 1;
        refuse(p, outOfBounds("kappa", 1e9 + 1, 1, 1e9));

        p = terms();
        p.seedPerLeg = 0;
        refuse(p, outOfBounds("seedPerLeg", 0, 1, type(uint48).max));
        p.sideCap = 5;
        p.seedPerLeg = 6;
        refuse(p, outOfBounds("seedPerLeg", 6, 1, 5));

        p = terms();
        p.sideCap = 0;
        refuse(p, outOfBounds("sideCap", 0, 1, type(uint48).max));
        p.sideCap = uint64(1) << 48;
        refuse(p, outOfBounds("sideCap", p.sideCap, 1, type(uint48).max));

        p = terms();
        p.minEntry = 0;
        refuse(p, outOfBounds("minEntry", 0, 1, type(uint32).max));
        p.minEntry = uint64(1) << 32;
        refuse(p, outOfBounds("minEntry", p.minEntry, 1, type(uint32).max));

        p = terms();
        p.minEntry = 5;
        p.maxEntry = 4;
        refuse(p, outOfBounds("maxEntry", 4, 5, type(uint48).max));
    }

    function test_constructor_failsForZeroAddresses() external {
        address a = address(1);
        vm.expectRevert(abi.encodeWithSelector(IVestedMarkets.ZeroAddress.selector, "token"));
        new VestedMarkets(address(0), a, a, a);
        vm.expectRevert(abi.encodeWithSelector(IVestedMarkets.ZeroAddress.selector, "lister"));
        new VestedMarkets(a, address(0), a, a);
        vm.expectRevert(abi.encodeWithSelector(IVestedMarkets.ZeroAddress.selector, "guardian"));
        new VestedMarkets(a, a, address(0), a);
        vm.expectRevert(abi.encodeWithSelector(IVestedMarkets.ZeroAddress.selector, "treasury"));
        new VestedMarkets(a, a, a, address(0));
        vm.assertEq(markets.token(), address(token));
        vm.assertEq(markets.lister(), LISTER);
        vm.assertEq(markets.guardian(), GUARDIAN);
        vm.assertEq(markets.treasury(), TREASURY);
    }

    function refuse(IVestedMarkets.CreateParams memory p, bytes memory why) private {
        vm.expectRevert(why);
        vm.prank(LISTER);
        markets.create(p);
    }

    function outOfBounds(string memory term, uint256 given, uint256 min, uint256 max)
        private
        pure
        returns (bytes memory)
    {
        return abi.encodeWithSelector(IVestedMarkets.TermOutOfBounds.selector, term, given, min, max);
    }

    function valid(IVestedMarkets.CreateParams memory p) private view returns (IVestedMarkets.CreateParams memory) {
        if (p.opener == address(0) || p.opener == address(markets)) p.opener = OPENER;
        if (p.resolver == address(0)) p.resolver = RESOLVER;
        p.freezeTime = uint64(bound(p.freezeTime, START + 1, type(uint40).max));
        p.feeBps = uint16(bound(p.feeBps, 0, 10_000));
        p.kappa = uint32(bound(p.kappa, 1, 1e9));
        p.sideCap = uint64(bound(p.sideCap, 1, type(uint48).max));
        p.seedPerLeg = uint64(bound(p.seedPerLeg, 1, p.sideCap));
        p.minEntry = uint64(bound(p.minEntry, 1, type(uint32).max));
        p.maxEntry = uint64(bound(p.maxEntry, p.minEntry, type(uint48).max));
        return p;
    }
}
