// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {ISettlementWallet} from "../../../../contracts/agent/ISettlementWallet.sol";
import {IERC3009} from "../../../../contracts/lib/IERC3009.sol";
import {Vm} from "../Base.sol";
import {OnOpenZeppelin, OnUsdc, OnUsdg, SmartWallet, WalletBase} from "./WalletBase.sol";

/// Everything an attacker does to the token, in one transaction.
contract Batch {
    function run(address target, bytes[] calldata calls) external {
        for (uint256 k; k < calls.length; ++k) {
            (bool ok,) = target.call(calls[k]);
            require(ok, "a call of the batch failed");
        }
    }
}

/// Payments that reach the contract without passing through it.
abstract contract CreditSuite is WalletBase {
    event RefundBooked(
        bytes32 indexed marketId,
        uint256 indexed stakeId,
        address indexed wallet,
        uint256 amount,
        ISettlementWallet.RefundReason reason,
        bytes32 nonce,
        bytes32 betHash,
        bytes32 idemHash
    );

    ISettlementWallet.Bet internal b;
    ISettlementWallet.Authorization internal a;

    function setUp() public virtual override {
        super.setUp();
        b = bet(LATE, YES, 10e6, alice);
        a = authorize(ALICE_KEY, b, freshNonce());
    }

    function test_aFrontRunPaymentIsBookedExactlyOnce() public {
        frontRun(alice, a);
        vm.assertEq(liability(), 0);
        vm.prank(RELAYER);
        vm.expectRevert(abi.encodeWithSelector(ISettlementWallet.AuthorizationAlreadyUsed.selector, alice, a.nonce));
        wallet.settle(b, a);

        (uint256 shares,,,) = wallet.quote(LATE, YES, 10e6);
        uint256 id = credited();
        ISettlementWallet.StakeView memory s = wallet.stake(id);
        vm.assertTrue(s.status == ISettlementWallet.StakeStatus.InBook);
        vm.assertEq(s.shares, shares);
        vm.assertEq(wallet.stakeOf(alice, b.idemHash), id);
        vm.assertTrue(wallet.booked(alice, a.nonce));
        vm.assertEq(liability(), 10e6);

        // Not again, even with unbooked money of someone else around and another key.
        token.mint(address(wallet), 10e6);
        bytes memory booked =
            abi.encodeWithSelector(ISettlementWallet.AuthorizationAlreadyBooked.selector, alice, a.nonce);
        refused(booked);
        b.idemHash = "other";
        b.marketId = OTHER;
        refused(booked);
        solvent();
    }

    function test_aSettledPaymentIsNotCredited() public {
        vm.prank(RELAYER);
        wallet.settle(b, a);
        token.mint(address(wallet), 10e6);
        b.idemHash = "other";
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

    /// Unbooked money is someone's, so no stranger, not its signer and not the relayer may credit; a bound payment is no exception.
    function test_onlyTheCreditorCredits() public {
        ISettlementWallet.Bet memory mine = bet(LATE, YES, 10e6, bob);
        ISettlementWallet.Authorization memory cancelled = authorizeBound(BOB_KEY, mine);
        frontRun(alice, a); // alice's money, not yet booked
        cancel(BOB_KEY, cancelled.nonce);
        address[6] memory others = [bob, alice, RELAYER, SAFE, LISTER, STRANGER];
        for (uint256 k; k < others.length; ++k) {
            bytes memory why = abi.encodeWithSelector(ISettlementWallet.MissingRole.selector, others[k], CREDITOR_ROLE);
            vm.prank(others[k]);
            vm.expectRevert(why);
            wallet.credit(mine, cancelled);
            vm.prank(others[k]);
            vm.expectRevert(why);
            wallet.credit(b, a);
        }
        vm.assertTrue(inBook(credited()));
    }

    function test_creditChecksTheSignature() public {
        frontRun(alice, a);
        bytes memory notSigned = abi.encodeWithSelector(ISettlementWallet.NotSignedBy.selector, alice);
        bytes memory good = a.signature;
        a.signature = authorize(BOB_KEY, b, a.nonce).signature;
        refused(notSigned);
        a.signature = "";
        refused(notSigned);
        a.signature = good;
        a.value -= 1; // not what was signed
        refused(notSigned);
        a.value += 1;
        a.validBefore += 1;
        refused(notSigned);
        a.validBefore -= 1;
        a.validAfter = 1;
        refused(notSigned);
        a.validAfter = 0;
        credited();
    }

    function test_creditChecksTheWallet() public {
        frontRun(alice, a);
        b.wallet = bob; // bob never used that nonce
        refused(abi.encodeWithSelector(ISettlementWallet.AuthorizationNotUsed.selector, bob, a.nonce));
    }

    /// A signature that recovers to the zero address is invalid: whether or not the token says otherwise, that address has signed nothing.
    function test_nobodyHasSignedNothing() public {
        frontRun(alice, a);
        b.wallet = address(0);
        a.signature = new bytes(65);
        vm.mockCall(
            address(token), abi.encodeCall(IERC3009.authorizationState, (address(0), a.nonce)), abi.encode(true)
        );
        refused(abi.encodeWithSelector(ISettlementWallet.NotSignedBy.selector, address(0)));
    }

    function test_amountsThatCannotBe() public {
        a.value = 0;
        refused(abi.encodeWithSelector(ISettlementWallet.AmountOutOfBounds.selector, 0, 1e6, type(uint64).max));
        a.value = uint256(type(uint64).max) + 1;
        refused(abi.encodeWithSelector(ISettlementWallet.AmountOutOfBounds.selector, a.value, 1e6, type(uint64).max));
    }

    // The receive form has no door here

    /// A payment in the receive form leaves no record, so what paid in it must never be credited: not by its nonce in the other form,
    /// not by its own signature, however much money of others is here.
    function test_aReceivedPaymentIsNeverCredited() public {
        a = authorizeReceive(ALICE_KEY, b);
        vm.prank(STRANGER);
        wallet.settle(b, a);
        token.mint(address(wallet), 100e6);
        refused(abi.encodeWithSelector(ISettlementWallet.ReceiveFormIsNeverCredited.selector));
        a.form = ISettlementWallet.Form.Transfer;
        refused(abi.encodeWithSelector(ISettlementWallet.NonceIsMarked.selector, a.nonce));
        a = authorize(ALICE_KEY, b, a.nonce); // her own signature of the other form over the same nonce
        refused(abi.encodeWithSelector(ISettlementWallet.NonceIsMarked.selector, a.nonce));
        vm.assertEq(liability(), 10e6);
        vm.assertEq(unbooked(), 100e6);
    }

    function test_theReceiveFormIsNotCreditedWhateverItsNonce() public {
        frontRun(alice, a);
        a.form = ISettlementWallet.Form.Receive;
        refused(abi.encodeWithSelector(ISettlementWallet.ReceiveFormIsNeverCredited.selector));
        a.form = ISettlementWallet.Form.Transfer;
        credited();
    }

    /// A payer who signs a plain transfer with a marked nonce has given it away; no one else loses by it.
    function test_aTransferWithAMarkedNonceIsNobodysToBook() public {
        a = authorize(ALICE_KEY, b, wallet.boundNonce(b));
        frontRun(alice, a);
        refused(abi.encodeWithSelector(ISettlementWallet.NonceIsMarked.selector, a.nonce));
        vm.prank(RELAYER);
        vm.expectRevert(abi.encodeWithSelector(ISettlementWallet.NonceIsMarked.selector, a.nonce));
        wallet.settle(b, a);
        vm.prank(STRANGER);
        ISettlementWallet.Authorization memory received = authorizeReceive(ALICE_KEY, b);
        vm.expectRevert(abi.encodeWithSelector(ISettlementWallet.AuthorizationAlreadyUsed.selector, alice, a.nonce));
        wallet.settle(b, received);
        vm.assertEq(unbooked(), 10e6);
    }

    // The payment stolen by its nonce: W1

    /// Alice hands in an authorization of 4 USDC and spends its nonce on the token for one. Bob's payment is unbooked at that moment.
    /// With a creditor who looks at what the nonce brought, she gets that one back and Bob keeps his 10 USDC.
    function test_aNonceSpentForOneDollarIsWorthOneDollar() public {
        vm.recordLogs();
        ISettlementWallet.Bet memory bobs = bet(LATE, NO, 10e6, bob);
        ISettlementWallet.Authorization memory his = authorize(BOB_KEY, bobs, freshNonce());
        frontRun(bob, his);
        b = bet(LATE, YES, 4e6, alice);
        a = authorize(ALICE_KEY, b, freshNonce());
        ISettlementWallet.Authorization memory spent =
            authorization(ALICE_KEY, alice, 1e6, ISettlementWallet.Form.Transfer, a.nonce, 0);
        frontRun(alice, spent);

        Vm.Log[] memory logs = vm.getRecordedLogs();
        vm.assertEq(broughtBy(logs, alice, a.nonce), 1e6);
        vm.assertEq(broughtBy(logs, bob, his.nonce), 10e6);
        honestCredit(logs, bobs, his);
        vm.assertTrue(inBook(wallet.stakeOf(bob, bobs.idemHash)));
        // Not what was handed in, but what was really used, with its own signature.
        vm.expectEmit(true, true, true, true, address(wallet));
        emit RefundBooked(
            LATE,
            uint256(2) << 32 | 1,
            alice,
            1e6,
            ISettlementWallet.RefundReason.OtherAmount,
            a.nonce,
            wallet.betHash(b),
            b.idemHash
        );
        vm.prank(CREDITOR);
        uint256 id = wallet.credit(b, spent);
        vm.assertEq(wallet.stake(id).payable_, 1e6);
        vm.assertEq(wallet.stake(id).amount, 1e6);
        vm.assertEq(unbooked(), 0);
        vm.assertEq(wallet.pay(LATE, ids(id)), 1);
        vm.assertEq(token.balanceOf(alice), 1e16);
        // Her nonce is booked now, so the 4 USDC can never be.
        token.mint(address(wallet), 50e6);
        refused(abi.encodeWithSelector(ISettlementWallet.AuthorizationAlreadyBooked.selector, alice, a.nonce));
        solvent();
    }

    /// The same the other way: more came than the bet says, and all of it goes back.
    function test_aNonceSpentForMoreGoesBackWhole() public {
        ISettlementWallet.Authorization memory spent =
            authorization(ALICE_KEY, alice, 25e6, ISettlementWallet.Form.Transfer, a.nonce, 0);
        frontRun(alice, spent);
        vm.prank(CREDITOR);
        uint256 id = wallet.credit(b, spent);
        vm.assertEq(wallet.stake(id).payable_, 25e6);
        vm.assertEq(wallet.market(LATE).staked, 0);
        vm.assertEq(wallet.pay(LATE, ids(id)), 1);
        vm.assertEq(token.balanceOf(alice), 1e16);
    }

    /// After such a refund the wallet's other bets go on.
    function test_thePayerOfAnotherAmountGoesOn() public {
        ISettlementWallet.Authorization memory spent =
            authorization(ALICE_KEY, alice, 1e6, ISettlementWallet.Form.Transfer, a.nonce, 0);
        frontRun(alice, spent);
        vm.prank(CREDITOR);
        wallet.credit(b, spent);
        settle(LATE, YES, 10e6, ALICE_KEY);
        b = bet(LATE, NO, 10e6, alice);
        a = authorizeReceive(ALICE_KEY, b);
        vm.prank(STRANGER);
        vm.assertTrue(inBook(wallet.settle(b, a)));
    }

    /// What the thief of CREDITOR takes: all unbooked money, through a nonce of his own that brought one unit; never a unit of what is
    /// booked. Putting money in makes the payer whole.
    function test_aDishonestCreditorTakesAllUnbookedMoneyAndNoMore() public {
        settle(LATE, NO, 500e6, CAROL_KEY);
        frontRun(alice, a); // 10 USDC of Alice's, unbooked
        bytes32 nonce = freshNonce();
        ISettlementWallet.Authorization memory one =
            authorization(BOB_KEY, bob, 1, ISettlementWallet.Form.Transfer, nonce, 0);
        frontRun(bob, one);
        vm.assertEq(unbooked(), 10e6 + 1);

        ISettlementWallet.Bet memory his = bet(LATE, YES, 10e6 + 2, bob);
        ISettlementWallet.Authorization memory more = authorize(BOB_KEY, his, nonce);
        vm.startPrank(CREDITOR);
        vm.expectRevert(abi.encodeWithSelector(ISettlementWallet.NothingUnbooked.selector, 10e6 + 1, 10e6 + 2));
        wallet.credit(his, more);
        (his.amount, his.marketId) = (10e6 + 1, LATE);
        his.outcome = 7; // no such outcome: owed back at once
        uint256 id = wallet.credit(his, authorize(BOB_KEY, his, nonce));
        vm.stopPrank();
        uint256 before = token.balanceOf(bob);
        wallet.pay(LATE, ids(id));
        vm.assertEq(token.balanceOf(bob), before + 10e6 + 1);
        vm.assertEq(unbooked(), 0);
        vm.assertEq(liability(), 500e6);
        solvent();
        refused(abi.encodeWithSelector(ISettlementWallet.NothingUnbooked.selector, 0, 10e6));
        token.mint(address(wallet), 10e6);
        credited();
        solvent();
    }

    /// Alice brings an authorization of 10 USDC. In one transaction she cancels its nonce, sends 10 USDC plainly, and spends another
    /// nonce for 10 USDC: three transfers' worth of noise, and only the last two stand side by side.
    function test_onlyAPairInTheLogIsAPayment() public {
        ISettlementWallet.Bet memory second = bet(LATE, NO, 10e6, alice);
        ISettlementWallet.Authorization memory used = authorize(ALICE_KEY, second, freshNonce());
        Batch batch = new Batch();
        vm.prank(alice);
        token.transfer(address(batch), 10e6);
        bytes[] memory calls = new bytes[](3);
        calls[0] = abi.encodeCall(
            token.cancelAuthorization,
            (alice, a.nonce, signed(ALICE_KEY, keccak256(abi.encode(CANCEL_TYPEHASH, alice, a.nonce))))
        );
        calls[1] = abi.encodeCall(token.transfer, (address(wallet), 10e6));
        calls[2] = abi.encodeWithSignature(
            "transferWithAuthorization(address,address,uint256,uint256,uint256,bytes32,bytes)",
            alice,
            address(wallet),
            used.value,
            used.validAfter,
            used.validBefore,
            used.nonce,
            used.signature
        );
        vm.recordLogs();
        batch.run(address(token), calls);
        Vm.Log[] memory logs = vm.getRecordedLogs();
        vm.assertEq(broughtBy(logs, alice, a.nonce), 0);
        vm.assertEq(broughtBy(logs, alice, used.nonce), 10e6);
        honestCredit(logs, b, a);
        vm.assertEq(wallet.stakeOf(alice, b.idemHash), 0);
        honestCredit(logs, second, used);
        vm.assertTrue(inBook(wallet.stakeOf(alice, second.idemHash)));
        vm.assertEq(unbooked(), 10e6); // the plain transfer pays for nothing
    }

    /// Two payers' payments in one transaction: each pair is one payer's.
    function test_twoPaymentsInOneTransactionAreTwoPairs() public {
        ISettlementWallet.Bet memory bobs = bet(LATE, NO, 10e6, bob);
        ISettlementWallet.Authorization memory his = authorize(BOB_KEY, bobs, freshNonce());
        bytes[] memory calls = new bytes[](2);
        calls[0] = transferCall(alice, a);
        calls[1] = transferCall(bob, his);
        vm.recordLogs();
        new Batch().run(address(token), calls);
        Vm.Log[] memory logs = vm.getRecordedLogs();
        honestCredit(logs, bobs, his);
        honestCredit(logs, b, a);
        vm.assertTrue(inBook(wallet.stakeOf(alice, b.idemHash)));
        vm.assertTrue(inBook(wallet.stakeOf(bob, bobs.idemHash)));
        vm.assertEq(unbooked(), 0);
    }

    /// A wallet contract's signature carries the nonce of Alice's payment. Its own nonce was cancelled; it gets nothing.
    function test_anothersNonceInsideASignatureIsNoPayment() public {
        SmartWallet smart = new SmartWallet(carol);
        ISettlementWallet.Bet memory thief = bet(LATE, YES, 10e6, address(smart));
        ISettlementWallet.Authorization memory bait = authorize(CAROL_KEY, thief, freshNonce());
        vm.recordLogs();
        token.cancelAuthorization(
            address(smart),
            bait.nonce,
            signed(CAROL_KEY, keccak256(abi.encode(CANCEL_TYPEHASH, address(smart), bait.nonce)))
        );
        frontRun(alice, a);
        bait.signature = abi.encodePacked(bait.signature, new bytes(31), a.nonce);
        Vm.Log[] memory logs = vm.getRecordedLogs();
        vm.assertEq(broughtBy(logs, address(smart), bait.nonce), 0);
        honestCredit(logs, thief, bait);
        vm.assertEq(wallet.stakeOf(address(smart), thief.idemHash), 0);
        honestCredit(logs, b, a);
        vm.assertTrue(inBook(wallet.stakeOf(alice, b.idemHash)));
    }

    // Who signs how

    function test_aContractWalletIsCredited() public {
        SmartWallet smart = new SmartWallet(carol);
        token.mint(address(smart), 10e6);
        b.wallet = address(smart);
        a = authorize(CAROL_KEY, b, freshNonce());
        frontRun(address(smart), a);
        smart.revoke(true);
        refused(abi.encodeWithSelector(ISettlementWallet.NotSignedBy.selector, address(smart)));
        smart.revoke(false);
        vm.assertTrue(inBook(credited()));
    }

    /// The account became a contract after it signed and paid; its own key still says whose money it is.
    function test_anAccountThatBecameAContractIsCredited() public {
        frontRun(alice, a);
        vm.etch(alice, hex"60006000fd");
        vm.assertTrue(inBook(credited()));
    }

    function test_shortSignaturesAreCredited() public {
        frontRun(alice, a);
        (bytes32 r, bytes32 s, uint8 v) = split(a.signature);
        a.signature = abi.encodePacked(r, bytes32(uint256(s) | (v == 28 ? 1 << 255 : 0)));
        vm.assertTrue(inBook(credited()));
    }

    // What cannot be a stake any more goes back

    function test_whilePausedItGoesBack() public {
        frontRun(alice, a);
        vm.prank(GUARDIAN);
        pauser.pause();
        goesBack(ISettlementWallet.RefundReason.Paused);
    }

    function test_beforeTheOpeningItGoesBack() public {
        b.marketId = "later";
        later();
        frontRun(alice, a);
        goesBack(ISettlementWallet.RefundReason.NotOpen);
    }

    function later() private {
        vm.prank(address(lister));
        ISettlementWallet.OpenParams memory p;
        (p.opensAt, p.closesAt, p.feeBps, p.potCap) = (uint64(T0 + 100), uint64(CLOSE), FEE_BPS, POT_CAP);
        p.weights = new uint32[](2);
        (p.weights[0], p.weights[1]) = (WEIGHT, WEIGHT);
        wallet.open("later", p);
    }

    function test_afterTheCloseItGoesBack() public {
        frontRun(alice, a);
        vm.warp(CLOSE);
        goesBack(ISettlementWallet.RefundReason.Closed);
    }

    function test_afterTheResultItGoesBack() public {
        settle(LATE, YES, 10e6, BOB_KEY);
        settle(LATE, NO, 10e6, BOB_KEY);
        frontRun(alice, a);
        feed.push(TARGET, END);
        vm.warp(END + 1);
        resolver.resolve(LATE);
        uint256 pool = wallet.market(LATE).netPool;
        goesBack(ISettlementWallet.RefundReason.Closed);
        vm.assertEq(wallet.market(LATE).netPool, pool);
    }

    function test_afterAVoidItGoesBack() public {
        b.marketId = POSTED;
        frontRun(alice, a);
        vm.prank(SAFE);
        lister.condemn(address(posted));
        resolver.voidMarket(POSTED);
        goesBack(ISettlementWallet.RefundReason.Closed);
    }

    function test_unknownOutcomesGoBack() public {
        b.outcome = 2;
        frontRun(alice, a);
        goesBack(ISettlementWallet.RefundReason.Outcome);
    }

    function test_aboveTheLargestStakeItGoesBack() public {
        b = bet(LATE, YES, wallet.MAX_STAKE() + 1, alice);
        a = authorize(ALICE_KEY, b, freshNonce());
        frontRun(alice, a);
        goesBack(ISettlementWallet.RefundReason.Amount);
    }

    function test_whatTheFullPotCannotHoldGoesBack() public {
        vm.prank(SAFE);
        lister.setFeed(address(feed), true, MEMORY, MAX_AGE, 15e6, FEED_CAP);
        list("small", thresholdSpec(false));
        settle("small", b.outcome, 6e6, BOB_KEY);
        b.marketId = "small";
        frontRun(alice, a);
        goesBack(ISettlementWallet.RefundReason.PotFull);
    }

    function test_aSecondPaymentForAUsedKeyGoesBack() public {
        vm.prank(RELAYER);
        uint256 first = wallet.settle(b, a);
        a = authorize(ALICE_KEY, b, freshNonce());
        frontRun(alice, a);
        goesBack(ISettlementWallet.RefundReason.KeyUsed);
        vm.assertEq(wallet.stakeOf(alice, b.idemHash), first);
    }

    /// Booking it and paying it back would cost more than it is worth, so what is under the least stake is a gift.
    function test_dustIsNeverBooked() public {
        uint64[3] memory dust = [uint64(1), 500_000, 999_999];
        for (uint256 k; k < 3; ++k) {
            a = authorization(ALICE_KEY, alice, dust[k], ISettlementWallet.Form.Transfer, freshNonce(), 0);
            frontRun(alice, a);
            refused(
                abi.encodeWithSelector(ISettlementWallet.AmountOutOfBounds.selector, dust[k], 1e6, type(uint64).max)
            );
        }
        vm.assertEq(wallet.stakeCount(LATE), 0);
        vm.assertEq(liability(), 0);
        vm.assertEq(unbooked(), 1_500_000);
        a = authorization(ALICE_KEY, alice, 1e6, ISettlementWallet.Form.Transfer, freshNonce(), 0);
        frontRun(alice, a);
        vm.assertEq(wallet.stake(credited()).payable_, 1e6);
        vm.assertEq(unbooked(), 1_500_000);
    }

    function test_aRefundUsesItsKey() public {
        frontRun(alice, a);
        vm.warp(CLOSE);
        uint256 id = goesBack(ISettlementWallet.RefundReason.Closed);
        vm.assertEq(wallet.stakeOf(alice, b.idemHash), id);
        b.marketId = OTHER;
        a = authorize(ALICE_KEY, b, freshNonce());
        vm.warp(T0);
        vm.prank(RELAYER);
        vm.expectRevert(abi.encodeWithSelector(ISettlementWallet.IdempotencyKeyUsed.selector, alice, b.idemHash, id));
        wallet.settle(b, a);
    }

    function test_aBoundPaymentIsStakedAsSignedOrGoesBack() public {
        a = authorizeBound(ALICE_KEY, b);
        frontRun(alice, a);
        uint256 snapshot = vm.snapshotState();
        vm.assertTrue(inBook(credited()));
        vm.revertToState(snapshot);
        b.outcome = NO;
        goesBack(ISettlementWallet.RefundReason.Bound);
    }

    function test_minSharesHoldsForACreditToo() public {
        (b.minShares,,,) = wallet.quote(LATE, YES, 10e6);
        frontRun(alice, a);
        settle(LATE, YES, 10e6, BOB_KEY);
        goesBack(ISettlementWallet.RefundReason.Shares);
    }

    /// The refund is booked at once, in full and outside the book, and paid while the market is still open.
    function goesBack(ISettlementWallet.RefundReason reason) private returns (uint256 id) {
        uint256 before = token.balanceOf(alice);
        uint256 owed = liability();
        uint256 staked = wallet.market(b.marketId).staked;
        uint256 expected = uint256(wallet.market(b.marketId).index) << 32 | wallet.stakeCount(b.marketId);
        vm.expectEmit(true, true, true, true, address(wallet));
        emit RefundBooked(b.marketId, expected, alice, b.amount, reason, a.nonce, wallet.betHash(b), b.idemHash);
        id = credited();
        vm.assertEq(id, expected);
        vm.assertEq(wallet.market(b.marketId).staked, staked);
        vm.assertEq(liability(), owed + b.amount);
        vm.assertEq(wallet.stake(id).payable_, b.amount);
        vm.assertEq(wallet.stake(id).fee, 0);
        vm.assertTrue(wallet.stake(id).status == ISettlementWallet.StakeStatus.OwedBack);
        solvent();
        uint256 snapshot = vm.snapshotState();
        vm.prank(STRANGER);
        vm.assertEq(wallet.pay(b.marketId, ids(id)), 1);
        vm.assertEq(token.balanceOf(alice), before + b.amount);
        vm.assertEq(liability(), owed);
        vm.assertTrue(wallet.stake(id).status == ISettlementWallet.StakeStatus.Refunded);
        vm.assertEq(wallet.pay(b.marketId, ids(id)), 0);
        solvent();
        vm.revertToState(snapshot);
        vm.prank(STRANGER);
        wallet.claim(id);
        vm.assertEq(token.balanceOf(alice), before + b.amount);
        vm.revertToState(snapshot);
    }

    /// What an honest creditor does: it books what the pair in the log brought, and nothing without a pair.
    function honestCredit(
        Vm.Log[] memory logs,
        ISettlementWallet.Bet memory bet_,
        ISettlementWallet.Authorization memory auth
    ) private {
        if (broughtBy(logs, bet_.wallet, auth.nonce) != auth.value) return;
        vm.prank(CREDITOR);
        wallet.credit(bet_, auth);
    }

    /// AuthorizationUsed of this payer and nonce, directly before the Transfer from the payer to us.
    function broughtBy(Vm.Log[] memory logs, address payer, bytes32 nonce) private view returns (uint256) {
        for (uint256 k; k + 1 < logs.length; ++k) {
            Vm.Log memory used = logs[k];
            Vm.Log memory moved = logs[k + 1];
            if (used.emitter != address(token) || moved.emitter != address(token)) continue;
            if (used.topics[0] != IERC3009.AuthorizationUsed.selector) continue;
            if (moved.topics[0] != IERC3009.Transfer.selector) continue;
            if (used.topics[1] != word(payer) || used.topics[2] != nonce) continue;
            if (moved.topics[1] != word(payer) || moved.topics[2] != word(address(wallet))) continue;
            return abi.decode(moved.data, (uint256));
        }
        return 0;
    }

    function word(address account) private pure returns (bytes32) {
        return bytes32(uint256(uint160(account)));
    }

    function transferCall(address payer, ISettlementWallet.Authorization memory auth)
        private
        view
        returns (bytes memory)
    {
        return abi.encodeWithSignature(
            "transferWithAuthorization(address,address,uint256,uint256,uint256,bytes32,bytes)",
            payer,
            address(wallet),
            auth.value,
            auth.validAfter,
            auth.validBefore,
            auth.nonce,
            auth.signature
        );
    }

    function credited() private returns (uint256) {
        vm.prank(CREDITOR);
        return wallet.credit(b, a);
    }

    function refused(bytes memory why) private {
        vm.prank(CREDITOR);
        vm.expectRevert(why);
        wallet.credit(b, a);
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
