// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {Ownable} from "@openzeppelin/contracts/access/Ownable.sol";
import {IMarketLister} from "../../../../contracts/stock/IMarketLister.sol";
import {IVestedMarkets} from "../../../../contracts/stock/IVestedMarkets.sol";
import {FullStack} from "./FullStack.sol";

/// What each role cannot do: the table in contracts/README.md names these tests.
contract PowersTest is FullStack {
    uint256 private market;
    uint256 private alice;

    function setUp() public override {
        super.setUp();
        market = open();
        alice = enter(ALICE, market, UP, 100e6);
        nextBlock();
        enter(BOB, market, DOWN, 70e6);
        nextBlock();
    }

    /// No one but the resolver chooses an outcome, in any role and at any time.
    function test_powers_nobodyChoosesAnOutcome(uint256 time, uint8 winner) external {
        vm.warp(bound(time, START, FREEZE + 3650 days));
        winner = uint8(bound(winner, 0, 1));
        address[7] memory everybody = roles();
        for (uint256 i = 0; i < everybody.length; ++i) {
            vm.expectRevert(
                abi.encodeWithSelector(IVestedMarkets.NotResolver.selector, market, everybody[i], address(resolver))
            );
            vm.prank(everybody[i]);
            markets.resolve(market, winner);
        }
    }

    /// A market cannot be voided by hand before the delay has passed.
    function test_powers_nobodyVoidsByHandBeforeTheDelay(uint256 time) external {
        vm.warp(bound(time, START, FREEZE + 72 hours - 1));
        address[7] memory everybody = roles();
        for (uint256 i = 0; i < everybody.length; ++i) {
            vm.expectRevert();
            vm.prank(everybody[i]);
            markets.voidMarket(market);
        }
        vm.assertEq(uint8(markets.market(market).status), uint8(IVestedMarkets.Status.Open));
    }

    /// No role moves a position that is not its own.
    function test_powers_nobodyMovesAnothersPosition() external {
        address[7] memory everybody = roles();
        for (uint256 i = 0; i < everybody.length; ++i) {
            if (everybody[i] == ALICE) continue;
            vm.expectRevert(
                abi.encodeWithSelector(IVestedMarkets.NotPositionOwner.selector, alice, everybody[i], ALICE)
            );
            vm.prank(everybody[i]);
            markets.transferPosition(alice, everybody[i]);
        }
    }

    /// For any caller that triggers payments, the money goes to the owners and the treasury; the caller's balance stays.
    function test_powers_callersOfPaymentsGetNothing(address caller) external {
        vm.assume(caller != ALICE && caller != BOB && caller != OPENER && caller != TREASURY);
        vm.assume(caller != address(markets) && caller != address(token));
        feed.push(100e8, STRIKE);
        feed.push(101e8, FINAL - 10);
        vm.warp(FINAL + 1);
        resolver.resolve(market);
        uint256 had = token.balanceOf(caller);
        uint256[] memory ids = markets.positionsOf(market, 0, 100);
        vm.startPrank(caller);
        markets.claim(alice);
        markets.deliver(ids);
        markets.sweepFees();
        vm.assertEq(token.balanceOf(caller), had);
        vm.assertGt(token.balanceOf(ALICE), 100e6);
    }

    /// The seed stays in the market until it is settled: its owner has nothing to withdraw.
    function test_powers_openerCannotWithdrawTheSeed() external {
        uint256 seed = idOf(market, UP, 0);
        vm.startPrank(OPENER);
        vm.expectRevert(abi.encodeWithSelector(IVestedMarkets.NothingDue.selector, seed));
        markets.withdrawRefund(seed);
        vm.expectRevert(abi.encodeWithSelector(IVestedMarkets.MarketNotSettled.selector, market));
        markets.claim(seed);
    }

    /// The venue's owner decides about future markets only.
    function test_powers_listerOwnerCannotTouchAListedMarket() external {
        bytes32 was = keccak256(abi.encode(markets.market(market), markets.books(market), resolver.spec(market)));
        vm.startPrank(OWNER);
        lister.setFeed(address(feed), address(0xBAD), "EVIL", 1, 1, SIDE_CAP, false);
        lister.setOpener(OPENER, false);
        lister.setOpener(OWNER, true);
        lister.transferOwnership(BOB);
        vm.stopPrank();
        vm.assertEq(was, keccak256(abi.encode(markets.market(market), markets.books(market), resolver.spec(market))));
    }

    /// The lister spends the allowance of the account that opens, never another's.
    function test_powers_openersCannotSpendOthersAllowances() external {
        token.mint(BOB, 1000e6);
        vm.prank(BOB);
        token.approve(address(lister), type(uint256).max);
        vm.prank(OWNER);
        lister.setOpener(CAROL, true);
        IMarketLister.OpenParams memory p = listing();
        vm.expectRevert();
        vm.prank(CAROL);
        lister.open(p);
        open();
        vm.assertEq(token.balanceOf(BOB), 1000e6);
        vm.assertEq(token.balanceOf(address(lister)), 0);
    }

    function test_powers_guardianOnlyPauses() external {
        vm.startPrank(GUARDIAN);
        markets.setPaused(true);
        vm.expectRevert(abi.encodeWithSelector(IVestedMarkets.NotLister.selector, GUARDIAN, address(lister)));
        markets.create(terms());
        vm.expectRevert(abi.encodeWithSelector(IMarketLister.NotOpener.selector, GUARDIAN));
        lister.open(listing());
        vm.expectRevert(abi.encodeWithSelector(Ownable.OwnableUnauthorizedAccount.selector, GUARDIAN));
        lister.setOpener(GUARDIAN, true);
    }

    /// No one creates a market past the lister's rules.
    function test_powers_nobodyCreatesPastTheLister() external {
        address[7] memory everybody = roles();
        IVestedMarkets.CreateParams memory p = terms();
        token.mint(address(markets), 20e6);
        for (uint256 i = 0; i < everybody.length; ++i) {
            vm.expectRevert(abi.encodeWithSelector(IVestedMarkets.NotLister.selector, everybody[i], address(lister)));
            vm.prank(everybody[i]);
            markets.create(p);
        }
    }

    function roles() private pure returns (address[7] memory) {
        return [OWNER, GUARDIAN, TREASURY, OPENER, ALICE, BOB, CAROL];
    }
}
