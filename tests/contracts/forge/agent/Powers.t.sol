// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {Ownable} from "@openzeppelin/contracts/access/Ownable.sol";

import {ISettlementWallet} from "../../../../contracts/settlement/ISettlementWallet.sol";
import {SettlementWallet} from "../../../../contracts/settlement/SettlementWallet.sol";
import {OnUsdc} from "./WalletBase.sol";

/// Each row of the powers table in contracts/README.md: what a role can, and what nobody can.
contract PowersTest is OnUsdc {
    event RoleSet(bytes32 indexed role, address indexed account, bool allowed);
    event StakesPaused(bool paused);

    function test_onlyTheOwnerSetsRoles() public {
        bytes32 role = wallet.LISTER();
        address[4] memory others = [LISTER, RELAYER, GUARDIAN, STRANGER];
        for (uint256 k; k < 4; ++k) {
            vm.prank(others[k]);
            vm.expectRevert(abi.encodeWithSelector(Ownable.OwnableUnauthorizedAccount.selector, others[k]));
            wallet.setRole(role, STRANGER, true);
        }
        vm.expectEmit(true, true, true, true, address(wallet));
        emit RoleSet(role, STRANGER, true);
        vm.prank(OWNER);
        wallet.setRole(role, STRANGER, true);
        vm.assertTrue(wallet.hasRole(role, STRANGER));
        vm.prank(OWNER);
        wallet.setRole(role, STRANGER, false);
        vm.assertFalse(wallet.hasRole(role, STRANGER));
        vm.prank(OWNER);
        vm.expectRevert(abi.encodeWithSelector(ISettlementWallet.UnknownRole.selector, bytes32("X")));
        wallet.setRole("X", STRANGER, true);
        vm.prank(OWNER);
        vm.expectRevert(abi.encodeWithSelector(ISettlementWallet.ZeroAddress.selector, "account"));
        wallet.setRole(role, address(0), true);
    }

    function test_ownershipMovesInTwoSteps() public {
        vm.prank(OWNER);
        wallet.transferOwnership(STRANGER);
        vm.assertEq(wallet.owner(), OWNER);
        vm.prank(LISTER);
        vm.expectRevert();
        wallet.acceptOwnership();
        vm.prank(STRANGER);
        wallet.acceptOwnership();
        vm.assertEq(wallet.owner(), STRANGER);
        vm.prank(STRANGER);
        vm.expectRevert(ISettlementWallet.OwnershipCannotBeRenounced.selector);
        wallet.renounceOwnership();
    }

    function test_constructorRefusesNothing() public {
        vm.expectRevert(abi.encodeWithSelector(ISettlementWallet.ZeroAddress.selector, "token"));
        new SettlementWallet(address(0), OWNER, TREASURY);
        vm.expectRevert(abi.encodeWithSelector(ISettlementWallet.ZeroAddress.selector, "treasury"));
        new SettlementWallet(address(token), OWNER, address(0));
        vm.expectRevert(abi.encodeWithSelector(Ownable.OwnableInvalidOwner.selector, address(0)));
        new SettlementWallet(address(token), address(0), TREASURY);
        vm.expectRevert();
        new SettlementWallet(address(feed), OWNER, TREASURY); // not a token
    }

    function test_onlyTheGuardianPauses() public {
        address[4] memory others = [OWNER, LISTER, RELAYER, STRANGER];
        for (uint256 k; k < 4; ++k) {
            vm.prank(others[k]);
            vm.expectRevert(abi.encodeWithSelector(ISettlementWallet.MissingRole.selector, others[k], "GUARDIAN"));
            wallet.setStakesPaused(true);
        }
        vm.expectEmit(true, true, true, true, address(wallet));
        emit StakesPaused(true);
        vm.prank(GUARDIAN);
        wallet.setStakesPaused(true);
    }

    /// While paused: listing, settling, paying, refunding, sweeping all go on.
    function test_thePauseStopsStakesOnly() public {
        uint256 a = settle(LATE, YES, 10e6, ALICE_KEY);
        uint256 b = settle(RANGED, 0, 10e6, ALICE_KEY);
        ISettlementWallet.Intent memory late = intent(LATE, YES, 10e6, bob);
        ISettlementWallet.Authorization memory auth = authorize(BOB_KEY, late, freshNonce());
        frontRun(late, auth);
        vm.prank(GUARDIAN);
        wallet.setStakesPaused(true);
        list("new", thresholdSpec(true));
        vm.prank(RELAYER);
        uint256 c = wallet.credit(late, auth);
        wallet.pay(LATE, ids(c));
        feed.push(TARGET, CLOSE);
        vm.warp(CLOSE + 1);
        wallet.resolve(LATE);
        wallet.pay(LATE, ids(a));
        wallet.sweepFees();
        vm.warp(CLOSE + VOID_DELAY + 1);
        wallet.voidMarket(RANGED, 0);
        wallet.pay(RANGED, ids(b));
        vm.assertEq(token.balanceOf(address(wallet)), 0);
    }

    /// Every function of the contract, called by every role with a market's state open, moves no money and settles nothing.
    function test_nobodyMovesAStakeOrChoosesAnOutcome() public {
        settle(LATE, YES, 10e6, ALICE_KEY);
        settle(LATE, NO, 10e6, BOB_KEY);
        feed.push(TARGET, T0 + 10);
        vm.warp(T0 + 20);
        bytes32 book = snapshotOf(LATE);
        address[6] memory callers = [OWNER, LISTER, RELAYER, GUARDIAN, TREASURY, STRANGER];
        ISettlementWallet.MarketSpec memory s = thresholdSpec(true);
        for (uint256 k; k < callers.length; ++k) {
            vm.startPrank(callers[k]);
            attempt(abi.encodeWithSignature("resolve(bytes32,uint80)", LATE, uint80(1 << 64 | 1)));
            attempt(abi.encodeWithSignature("resolve(bytes32)", LATE));
            attempt(abi.encodeCall(wallet.voidMarket, (LATE, uint80(1 << 64 | 1))));
            attempt(abi.encodeCall(wallet.voidMarket, (LATE, 0)));
            attempt(abi.encodeCall(wallet.pay, (LATE, wallet.stakesOf(LATE, 0, 2))));
            attempt(abi.encodeCall(wallet.sweepFees, ()));
            attempt(abi.encodeCall(wallet.list, (LATE, s, "")));
            vm.stopPrank();
            vm.assertEq(snapshotOf(LATE), book);
        }
    }

    /// Unbooked money has no door but `credit`, and that needs its payer's signature.
    function test_unbookedMoneyIsNobodys() public {
        token.mint(address(wallet), 77e6);
        uint256 a = settle(LATE, YES, 10e6, ALICE_KEY);
        feed.push(TARGET, CLOSE);
        vm.warp(CLOSE + 1);
        wallet.resolve(LATE);
        wallet.pay(LATE, ids(a));
        wallet.sweepFees();
        vm.assertEq(token.balanceOf(address(wallet)), 77e6);
        address[5] memory callers = [OWNER, LISTER, RELAYER, GUARDIAN, TREASURY];
        for (uint256 k; k < callers.length; ++k) {
            vm.prank(callers[k]);
            attempt(abi.encodeCall(wallet.sweepFees, ()));
        }
        vm.assertEq(token.balanceOf(address(wallet)), 77e6);
    }

    /// Fees of markets still open stay where they are.
    function test_openMarketsPayNoFees() public {
        settle(LATE, YES, 10e6, ALICE_KEY);
        vm.expectRevert(ISettlementWallet.NoFees.selector);
        wallet.sweepFees();
    }

    function attempt(bytes memory data) private {
        (bool ok,) = address(wallet).call(data);
        vm.assertFalse(ok);
    }

    function snapshotOf(bytes32 m) private view returns (bytes32) {
        (uint256 open, uint256 unpaid, uint256 fees) = wallet.liabilities();
        return keccak256(abi.encode(wallet.market(m), open, unpaid, fees, token.balanceOf(address(wallet))));
    }
}
