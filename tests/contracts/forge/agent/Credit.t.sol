// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {IERC3009} from "../../../../contracts/lib/IERC3009.sol";
import {ISettlementWallet} from "../../../../contracts/settlement/ISettlementWallet.sol";
import {OnOpenZeppelin, OnUsdc, OnUsdg, SmartWallet, WalletBase} from "./WalletBase.sol";

/// Payments that reach the contract without passing through it.
abstract contract CreditSuite is WalletBase {
    event RefundBooked(
        bytes32 indexed marketId,
        uint256 indexed stakeId,
        address indexed wallet,
        uint256 amount,
        uint8 reason,
        bytes32 intentHash,
        bytes32 idemHash
    );

    ISettlementWallet.Intent internal i;
    ISettlementWallet.Authorization internal a;

    function setUp() public virtual override {
        super.setUp();
        i = intent(LATE, YES, 10e6, alice);
        a = authorize(ALICE_KEY, i, freshNonce());
    }

    function test_aFrontRunPaymentIsBookedExactlyOnce() public {
        frontRun(i, a);
        vm.assertEq(liability(), 0);
        vm.prank(RELAYER);
        vm.expectRevert(abi.encodeWithSelector(ISettlementWallet.AuthorizationAlreadyUsed.selector, alice, a.nonce));
        wallet.settle(i, a);

        (uint256 shares,,,) = wallet.quote(LATE, YES, 10e6);
        uint256 id = credited();
        ISettlementWallet.StakeView memory s = wallet.stake(id);
        vm.assertEq(uint256(s.status), 1);
        vm.assertEq(s.shares, shares);
        vm.assertEq(wallet.stakeOf(alice, i.idemHash), id);
        vm.assertEq(liability(), 10e6);

        // Not again, even with unbooked money of somebody else around and another key.
        token.mint(address(wallet), 10e6);
        bytes memory booked =
            abi.encodeWithSelector(ISettlementWallet.AuthorizationAlreadyBooked.selector, alice, a.nonce);
        refused(booked);
        i.idemHash = "other";
        i.marketId = EARLY;
        refused(booked);
        solvent();
    }

    function test_aSettledPaymentIsNotCredited() public {
        vm.prank(RELAYER);
        wallet.settle(i, a);
        token.mint(address(wallet), 10e6);
        i.idemHash = "other";
        refused(abi.encodeWithSelector(ISettlementWallet.AuthorizationAlreadyBooked.selector, alice, a.nonce));
    }

    function test_aPaymentNotSentIsNotCredited() public {
        token.mint(address(wallet), 10e6);
        refused(abi.encodeWithSelector(ISettlementWallet.AuthorizationNotUsed.selector, alice, a.nonce));
    }

    function test_aCancelledAuthorizationIsNotCredited() public {
        settle(LATE, NO, 50e6, BOB_KEY);
        cancel(ALICE_KEY, a.nonce);
        refused(abi.encodeWithSelector(ISettlementWallet.NothingUnbooked.selector, 0, 10e6));
        token.mint(address(wallet), 10e6 - 1);
        refused(abi.encodeWithSelector(ISettlementWallet.NothingUnbooked.selector, 10e6 - 1, 10e6));
    }

    /// Another payer's unbooked money would cover it, so no stranger and not its signer may credit, in bound mode neither.
    function test_onlyTheRelayerCredits() public {
        ISettlementWallet.Intent memory mine = intent(LATE, YES, 10e6, bob);
        ISettlementWallet.Authorization memory cancelled = authorize(BOB_KEY, mine, wallet.intentHash(mine));
        frontRun(i, a); // alice's money, not yet booked
        cancel(BOB_KEY, cancelled.nonce);
        vm.prank(bob);
        vm.expectRevert(abi.encodeWithSelector(ISettlementWallet.MissingRole.selector, bob, "RELAYER"));
        wallet.credit(mine, cancelled);
        vm.prank(STRANGER);
        vm.expectRevert(abi.encodeWithSelector(ISettlementWallet.MissingRole.selector, STRANGER, "RELAYER"));
        wallet.credit(i, a);
        vm.assertEq(uint256(wallet.stake(credited()).status), 1);
    }

    /// The relayer's worst mistake: what is owed stays covered, and money put in makes the other payer whole.
    function test_aWrongCreditLeavesTheBooksCovered() public {
        ISettlementWallet.Intent memory wrong = intent(LATE, YES, 10e6, bob);
        ISettlementWallet.Authorization memory cancelled = authorize(BOB_KEY, wrong, freshNonce());
        frontRun(i, a);
        cancel(BOB_KEY, cancelled.nonce);
        vm.prank(RELAYER);
        wallet.credit(wrong, cancelled);
        solvent();
        refused(abi.encodeWithSelector(ISettlementWallet.NothingUnbooked.selector, 0, 10e6));
        token.mint(address(wallet), 10e6);
        credited();
        solvent();
    }

    function test_creditChecksTheSignature() public {
        frontRun(i, a);
        bytes memory notSigned = abi.encodeWithSelector(ISettlementWallet.NotSignedBy.selector, alice);
        bytes memory good = a.signature;
        a.signature = authorize(BOB_KEY, i, a.nonce).signature;
        refused(notSigned);
        a.signature = "";
        refused(notSigned);
        a.signature = good;
        i.amount -= 1; // not what was signed
        refused(notSigned);
        i.amount += 1;
        a.validBefore += 1;
        refused(notSigned);
        a.validBefore -= 1;
        credited();
    }

    function test_creditChecksTheWallet() public {
        frontRun(i, a);
        i.wallet = bob; // bob never used that nonce
        refused(abi.encodeWithSelector(ISettlementWallet.AuthorizationNotUsed.selector, bob, a.nonce));
    }

    /// A signature that recovers to nobody is not nobody's: whatever a token says about the zero address, it has signed nothing.
    function test_nobodyHasSignedNothing() public {
        frontRun(i, a);
        i.wallet = address(0);
        a.signature = new bytes(65);
        vm.mockCall(
            address(token), abi.encodeCall(IERC3009.authorizationState, (address(0), a.nonce)), abi.encode(true)
        );
        refused(abi.encodeWithSelector(ISettlementWallet.NotSignedBy.selector, address(0)));
    }

    function test_amountsThatCannotBe() public {
        i.amount = 0;
        refused(abi.encodeWithSelector(ISettlementWallet.AmountOutOfBounds.selector, 0, 1, type(uint64).max));
        i.amount = uint256(type(uint64).max) + 1;
        refused(abi.encodeWithSelector(ISettlementWallet.AmountOutOfBounds.selector, i.amount, 1, type(uint64).max));
    }

    function test_aContractWalletIsCredited() public {
        SmartWallet smart = new SmartWallet(carol);
        token.mint(address(smart), 10e6);
        i.wallet = address(smart);
        a = authorize(CAROL_KEY, i, freshNonce());
        frontRun(i, a);
        smart.revoke();
        refused(abi.encodeWithSelector(ISettlementWallet.NotSignedBy.selector, address(smart)));
        vm.etch(address(smart), address(new SmartWallet(carol)).code);
        vm.store(address(smart), bytes32(0), bytes32(0));
        vm.assertEq(uint256(wallet.stake(credited()).status), 1);
    }

    /// The account became a contract after it signed and paid; its own key still says whose money it is.
    function test_anAccountThatBecameAContractIsCredited() public {
        frontRun(i, a);
        vm.etch(alice, hex"60006000fd");
        vm.assertEq(uint256(wallet.stake(credited()).status), 1);
    }

    function test_shortSignaturesAreCredited() public {
        frontRun(i, a);
        (bytes32 r, bytes32 s, uint8 v) = split(a.signature);
        a.signature = abi.encodePacked(r, bytes32(uint256(s) | (v == 28 ? 1 << 255 : 0)));
        vm.assertEq(uint256(wallet.stake(credited()).status), 1);
    }

    // What cannot be a stake any more goes back

    function test_whilePausedItGoesBack() public {
        frontRun(i, a);
        vm.prank(GUARDIAN);
        wallet.setStakesPaused(true);
        goesBack(1);
    }

    function test_beforeTheOpeningItGoesBack() public {
        ISettlementWallet.MarketSpec memory s = thresholdSpec(false);
        s.opensAt = uint64(T0 + 100);
        list("later", s);
        i.marketId = "later";
        frontRun(i, a);
        goesBack(2);
    }

    function test_afterTheCloseItGoesBack() public {
        frontRun(i, a);
        vm.warp(CLOSE);
        goesBack(3);
    }

    function test_afterTheResultItGoesBack() public {
        settle(LATE, YES, 10e6, BOB_KEY);
        frontRun(i, a);
        feed.push(TARGET, CLOSE);
        vm.warp(CLOSE + 1);
        wallet.resolve(LATE);
        uint256 pool = wallet.market(LATE).netPool;
        goesBack(3);
        vm.assertEq(wallet.market(LATE).netPool, pool);
    }

    function test_afterAnEarlyResultItGoesBack() public {
        i.marketId = EARLY;
        frontRun(i, a);
        feed.push(TARGET, T0 + 10);
        vm.warp(T0 + 11);
        wallet.resolve(EARLY);
        goesBack(3);
    }

    function test_unknownOutcomesGoBack() public {
        i.outcome = 2;
        frontRun(i, a);
        goesBack(4);
    }

    function test_amountsOutOfBoundsGoBack() public {
        i.amount = 1e6 - 1;
        a = authorize(ALICE_KEY, i, freshNonce());
        frontRun(i, a);
        goesBack(5);
        i = intent(LATE, YES, 1e15 + 1, alice);
        a = authorize(ALICE_KEY, i, freshNonce());
        frontRun(i, a);
        goesBack(5);
    }

    function test_aSecondPaymentForAUsedKeyGoesBack() public {
        vm.prank(RELAYER);
        uint256 first = wallet.settle(i, a);
        a = authorize(ALICE_KEY, i, freshNonce());
        frontRun(i, a);
        goesBack(6);
        vm.assertEq(wallet.stakeOf(alice, i.idemHash), first);
    }

    function test_aRefundUsesItsKey() public {
        frontRun(i, a);
        vm.warp(CLOSE);
        uint256 id = goesBack(3);
        vm.assertEq(wallet.stakeOf(alice, i.idemHash), id);
        i.marketId = EARLY;
        a = authorize(ALICE_KEY, i, freshNonce());
        vm.warp(T0);
        vm.prank(RELAYER);
        vm.expectRevert(abi.encodeWithSelector(ISettlementWallet.IdempotencyKeyUsed.selector, alice, i.idemHash, id));
        wallet.settle(i, a);
    }

    function test_aBoundPaymentIsStakedAsSignedOrGoesBack() public {
        a = authorize(ALICE_KEY, i, wallet.intentHash(i), BOUND_ONLY);
        frontRun(i, a);
        uint256 snapshot = vm.snapshotState();
        vm.assertEq(uint256(wallet.stake(credited()).status), 1);
        vm.revertToState(snapshot);
        i.outcome = NO;
        goesBack(7);
    }

    function test_minSharesHoldsForACreditToo() public {
        (i.minShares,,,) = wallet.quote(LATE, YES, 10e6);
        frontRun(i, a);
        settle(LATE, YES, 10e6, BOB_KEY);
        goesBack(8);
    }

    /// The refund is owed at once, whole and outside the book, and paid while the market is still open.
    function goesBack(uint8 reason) private returns (uint256 id) {
        uint256 before = token.balanceOf(alice);
        uint256 owed = liability();
        uint256 staked = wallet.market(i.marketId).staked;
        uint256 expected = uint256(wallet.market(i.marketId).index) << 32 | wallet.stakeCount(i.marketId);
        vm.expectEmit(true, true, true, true, address(wallet));
        emit RefundBooked(i.marketId, expected, alice, i.amount, reason, wallet.intentHash(i), i.idemHash);
        id = credited();
        vm.assertEq(id, expected);
        vm.assertEq(wallet.market(i.marketId).staked, staked);
        vm.assertEq(liability(), owed + i.amount);
        vm.assertEq(wallet.stake(id).payable_, i.amount);
        vm.assertEq(wallet.stake(id).fee, 0);
        solvent();
        uint256 snapshot = vm.snapshotState();
        vm.prank(STRANGER);
        vm.assertEq(wallet.pay(i.marketId, ids(id)), 1);
        vm.assertEq(token.balanceOf(alice), before + i.amount);
        vm.assertEq(liability(), owed);
        vm.assertEq(uint256(wallet.stake(id).status), 4);
        vm.assertEq(wallet.pay(i.marketId, ids(id)), 0);
        solvent();
        vm.revertToState(snapshot);
    }

    function credited() private returns (uint256) {
        vm.prank(RELAYER);
        return wallet.credit(i, a);
    }

    function refused(bytes memory why) private {
        vm.prank(RELAYER);
        vm.expectRevert(why);
        wallet.credit(i, a);
    }

    function split(bytes memory signature) private pure returns (bytes32 r, bytes32 s, uint8 v) {
        assembly ("memory-safe") {
            r := mload(add(signature, 32))
            s := mload(add(signature, 64))
            v := byte(0, mload(add(signature, 96)))
        }
    }
}

contract CreditOnUsdc is OnUsdc, CreditSuite {
    function setUp() public override(WalletBase, CreditSuite) {
        super.setUp();
    }
}

contract CreditOnUsdg is OnUsdg, CreditSuite {
    function setUp() public override(WalletBase, CreditSuite) {
        super.setUp();
    }
}

contract CreditOnOpenZeppelin is OnOpenZeppelin, CreditSuite {
    function setUp() public override(WalletBase, CreditSuite) {
        super.setUp();
    }
}
