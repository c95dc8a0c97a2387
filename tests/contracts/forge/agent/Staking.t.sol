// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {IAgentLister} from "../../../../contracts/agent/IAgentLister.sol";
import {ISettlementWallet} from "../../../../contracts/agent/ISettlementWallet.sol";
import {LocalToken} from "../../../../contracts/local/LocalToken.sol";
import {LyingToken} from "../stock/HostileTokens.sol";
import {OnOpenZeppelin, OnUsdc, OnUsdg, SmartWallet, WalletBase} from "./WalletBase.sol";

/// Payments that pass through the contract, in both forms.
abstract contract StakingSuite is WalletBase {
    event Staked(
        bytes32 indexed marketId,
        uint256 indexed stakeId,
        address indexed wallet,
        uint8 outcome,
        uint256 amount,
        uint256 fee,
        uint256 shares,
        bytes32 nonce,
        bytes32 betHash,
        bytes32 idemHash,
        address builder,
        bytes32 ref
    );

    function test_aStakeIsBookedAsQuoted() public {
        (uint256 shares, uint256 fee, uint256 before, uint256 after_) = wallet.quote(LATE, YES, 10e6);
        vm.assertEq(fee, 0.2e6);
        vm.assertEq(before, 0.5e18);
        vm.assertGt(after_, before);
        ISettlementWallet.Bet memory b = bet(LATE, YES, 10e6, alice);
        b.minShares = shares;
        ISettlementWallet.Authorization memory a = authorize(ALICE_KEY, b, freshNonce());
        uint256 expected = uint256(2) << 32; // the second market's first stake
        expectStaked(expected, b, a.nonce, fee, shares);
        vm.prank(RELAYER);
        uint256 id = wallet.settle(b, a);

        vm.assertEq(id, expected);
        vm.assertEq(token.balanceOf(address(wallet)), 10e6);
        vm.assertEq(wallet.stakeOf(alice, b.idemHash), id);
        vm.assertTrue(wallet.booked(alice, a.nonce));
        isBooked(id, fee, shares, after_);
    }

    function expectStaked(uint256 id, ISettlementWallet.Bet memory b, bytes32 nonce, uint256 fee, uint256 shares)
        internal
    {
        bytes32[2] memory hashes = [nonce, wallet.betHash(b)];
        vm.expectEmit(true, true, true, true, address(wallet));
        emitStaked(b, [id, fee, shares], hashes);
    }

    /// In arrays, so that the compiler's older pipeline has the stack for it.
    function emitStaked(ISettlementWallet.Bet memory b, uint256[3] memory n, bytes32[2] memory h) private {
        emit Staked(
            b.marketId, n[0], b.wallet, b.outcome, b.amount, n[1], n[2], h[0], h[1], b.idemHash, b.builder, b.ref
        );
    }

    /// Ten dollars of Alice's on YES are the only stake.
    function isBooked(uint256 id, uint256 fee, uint256 shares, uint256 price_) private view {
        ISettlementWallet.StakeView memory s = wallet.stake(id);
        vm.assertEq(s.marketId, LATE);
        vm.assertEq(s.wallet, alice);
        vm.assertEq(s.amount, 10e6);
        vm.assertEq(s.fee, fee);
        vm.assertEq(s.shares, shares);
        vm.assertTrue(s.status == ISettlementWallet.StakeStatus.InBook);
        vm.assertEq(s.payable_, 0);
        ISettlementWallet.BookView memory book = wallet.outcomeBook(LATE, YES);
        vm.assertEq(book.net, 9.8e6);
        vm.assertEq(book.shares, shares);
        vm.assertEq(book.excess, shares - 9.8e6);
        vm.assertEq(book.weight, WEIGHT + 9.8e6);
        vm.assertEq(book.price, price_);
        ISettlementWallet.MarketView memory m = wallet.market(LATE);
        vm.assertEq(m.staked, 10e6);
        vm.assertEq(m.netPool, 9.8e6);
        (uint256 open, uint256 unpaid, uint256 fees) = wallet.liabilities();
        vm.assertEq(open, 10e6);
        vm.assertEq(unpaid + fees, 0);
    }

    function test_theBookKeepsTheWinnersExcess() public {
        uint256 excess;
        for (uint256 k = 1; k < 6; ++k) {
            ISettlementWallet.StakeView memory s = wallet.stake(settle(LATE, YES, k * 7_777_777, ALICE_KEY));
            excess += s.shares - (s.amount - s.fee);
            settle(LATE, NO, k * 3_333_333, BOB_KEY);
        }
        vm.assertEq(wallet.outcomeBook(LATE, YES).excess, excess);
    }

    function test_stakesAreEnumerated() public {
        uint256[3] memory made =
            [settle(LATE, YES, 1e6, ALICE_KEY), settle(LATE, NO, 2e6, BOB_KEY), settle(LATE, YES, 3e6, ALICE_KEY)];
        vm.assertEq(wallet.stakeCount(LATE), 3);
        uint256[] memory some = wallet.stakesOf(LATE, 1, 5);
        vm.assertEq(some.length, 2);
        vm.assertEq(some[0], made[1]);
        vm.assertEq(some[1], made[2]);
        vm.assertEq(wallet.stakesOf(LATE, 0, 1).length, 1);
        vm.assertEq(wallet.stakesOf(LATE, 3, 1).length, 0);
        vm.expectRevert(abi.encodeWithSelector(ISettlementWallet.UnknownStake.selector, made[2] + 1));
        wallet.stake(made[2] + 1);
    }

    /// The hash that clients sign with, from its definition.
    function test_theHashOfABet() public {
        ISettlementWallet.Bet memory b = bet(LATE, NO, 12e6, alice);
        (b.minShares, b.builder, b.ref) = (7, STRANGER, "r");
        bytes32 domain = keccak256(
            abi.encode(
                keccak256("EIP712Domain(string name,string version,uint256 chainId,address verifyingContract)"),
                keccak256("Service Settlement"),
                keccak256("2"),
                block.chainid,
                address(wallet)
            )
        );
        bytes32 structHash = keccak256(
            abi.encode(
                keccak256(
                    "Bet(bytes32 marketId,uint8 outcome,uint256 amount,uint256 minShares,address wallet,bytes32 idemHash,address builder,bytes32 ref)"
                ),
                b.marketId,
                b.outcome,
                b.amount,
                b.minShares,
                b.wallet,
                b.idemHash,
                b.builder,
                b.ref
            )
        );
        bytes32 hash = keccak256(abi.encodePacked(hex"1901", domain, structHash));
        vm.assertEq(wallet.betHash(b), hash);
        vm.assertEq(wallet.boundNonce(b), MARK | bytes32(uint256(hash) & (type(uint256).max >> 64)));
    }

    // The transfer form: who may settle

    function test_aRandomNonceNeedsTheRelayer() public {
        ISettlementWallet.Bet memory b = bet(LATE, YES, 10e6, alice);
        ISettlementWallet.Authorization memory a = authorize(ALICE_KEY, b, freshNonce());
        address[4] memory others = [alice, CREDITOR, SAFE, STRANGER];
        for (uint256 k; k < 4; ++k) {
            vm.prank(others[k]);
            vm.expectRevert(abi.encodeWithSelector(ISettlementWallet.MissingRole.selector, others[k], RELAYER_ROLE));
            wallet.settle(b, a);
        }
    }

    function test_anyoneSettlesABoundTransfer() public {
        ISettlementWallet.Bet memory b = bet(LATE, YES, 10e6, alice);
        ISettlementWallet.Authorization memory a = authorize(ALICE_KEY, b, wallet.betHash(b));
        vm.prank(STRANGER);
        uint256 id = wallet.settle(b, a);
        vm.assertEq(wallet.stake(id).wallet, alice);
        vm.assertTrue(wallet.booked(alice, a.nonce));
    }

    /// A stranger who changes any field of the bet no longer holds its hash, and a changed nonce breaks the signature.
    function test_nobodyAltersABoundTransfer() public {
        ISettlementWallet.Bet memory b = bet(LATE, YES, 10e6, alice);
        ISettlementWallet.Authorization memory a = authorizeBound(ALICE_KEY, b);
        nobodyAlters(b, a);
        vm.prank(STRANGER);
        wallet.settle(b, a);
        vm.assertEq(token.balanceOf(address(wallet)), 10e6);
    }

    /// The same in the receive form.
    function test_nobodyAltersAReceivedPayment() public {
        ISettlementWallet.Bet memory b = bet(LATE, YES, 10e6, alice);
        ISettlementWallet.Authorization memory a = authorizeReceive(ALICE_KEY, b);
        nobodyAlters(b, a);
        vm.prank(STRANGER);
        wallet.settle(b, a);
        vm.assertEq(token.balanceOf(address(wallet)), 10e6);
    }

    function nobodyAlters(ISettlementWallet.Bet memory b, ISettlementWallet.Authorization memory a) private {
        bool receives = a.form == ISettlementWallet.Form.Receive;
        for (uint256 field; field < 8; ++field) {
            ISettlementWallet.Bet memory x = altered(b, field);
            bytes32 bound = a.nonce;
            vm.assertTrue(wallet.betHash(x) != wallet.betHash(b));
            uint256 value = a.value;
            a.value = x.amount; // else the amount is what is refused
            address[3] memory callers = [STRANGER, RELAYER, CREDITOR];
            for (uint256 k; k < 3; ++k) {
                bytes memory why =
                    abi.encodeWithSelector(ISettlementWallet.BoundToAnotherBet.selector, bound, wallet.betHash(x));
                vm.prank(callers[k]);
                vm.expectRevert(why);
                wallet.settle(x, a);
            }
            // With the altered bet's own nonce, the signature is another's.
            a.nonce = receives ? wallet.boundNonce(x) : wallet.betHash(x);
            vm.prank(RELAYER);
            vm.expectRevert();
            wallet.settle(x, a);
            (a.nonce, a.value) = (bound, value);
        }
    }

    function altered(ISettlementWallet.Bet memory b, uint256 field)
        private
        view
        returns (ISettlementWallet.Bet memory x)
    {
        x = abi.decode(abi.encode(b), (ISettlementWallet.Bet));
        if (field == 0) x.marketId = OTHER;
        if (field == 1) x.outcome = NO;
        if (field == 2) x.amount = 11e6;
        if (field == 3) x.minShares = 1;
        if (field == 4) x.wallet = bob;
        if (field == 5) x.idemHash = "other";
        if (field == 6) x.builder = STRANGER;
        if (field == 7) x.ref = "other";
    }

    /// With a random nonce the payer's signature fixes the amount alone: which bet it is, the relayer says.
    function test_withARandomNonceTheRelayerChoosesTheBet() public {
        ISettlementWallet.Bet memory b = bet(LATE, YES, 10e6, alice);
        ISettlementWallet.Authorization memory a = authorize(ALICE_KEY, b, freshNonce());
        (b.marketId, b.outcome, b.idemHash) = (RANGED, 3, "the relayer's");
        vm.prank(RELAYER);
        uint256 id = wallet.settle(b, a);
        vm.assertEq(wallet.stake(id).wallet, alice); // in her name all the same
        vm.assertEq(wallet.stake(id).marketId, RANGED);
        vm.assertEq(uint256(wallet.stake(id).outcome), 3);
    }

    // The receive form

    function test_anyoneSettlesAReceivedPayment() public {
        ISettlementWallet.Bet memory b = bet(LATE, YES, 10e6, alice);
        ISettlementWallet.Authorization memory a = authorizeReceive(ALICE_KEY, b);
        (uint256 shares, uint256 fee,,) = wallet.quote(LATE, YES, 10e6);
        expectStaked(uint256(2) << 32, b, a.nonce, fee, shares);
        vm.prank(STRANGER);
        uint256 id = wallet.settle(b, a);
        vm.assertTrue(inBook(id));
        vm.assertEq(token.balanceOf(address(wallet)), 10e6);
        vm.assertFalse(wallet.booked(alice, a.nonce)); // it needs no record: no other door takes this nonce
        vm.prank(STRANGER);
        vm.expectRevert(abi.encodeWithSelector(ISettlementWallet.IdempotencyKeyUsed.selector, alice, b.idemHash, id));
        wallet.settle(b, a);
    }

    /// W2 of payments: for anything a stranger does with the authorization, the token gives the money to this contract alone, when it asks.
    function test_aReceivedPaymentCannotBeFrontRun() public {
        ISettlementWallet.Bet memory b = bet(LATE, YES, 10e6, alice);
        ISettlementWallet.Authorization memory a = authorizeReceive(ALICE_KEY, b);
        address[3] memory attackers = [STRANGER, RELAYER, CREDITOR];
        for (uint256 k; k < 3; ++k) {
            vm.startPrank(attackers[k]);
            vm.expectRevert();
            token.receiveWithAuthorization(
                alice, address(wallet), a.value, a.validAfter, a.validBefore, a.nonce, a.signature
            );
            vm.expectRevert();
            token.transferWithAuthorization(
                alice, address(wallet), a.value, a.validAfter, a.validBefore, a.nonce, a.signature
            );
            vm.expectRevert();
            token.receiveWithAuthorization(
                alice, attackers[k], a.value, a.validAfter, a.validBefore, a.nonce, a.signature
            );
            vm.stopPrank();
        }
        vm.assertEq(token.balanceOf(address(wallet)), 0);
        vm.assertFalse(token.authorizationState(alice, a.nonce));
        vm.prank(STRANGER);
        vm.assertTrue(inBook(wallet.settle(b, a)));
    }

    /// In the receive form a nonce is the bet's, under the mark, or it is refused: RELAYER included.
    function test_theReceiveFormTakesNoOtherNonce() public {
        ISettlementWallet.Bet memory b = bet(LATE, YES, 10e6, alice);
        ISettlementWallet.Bet memory other = bet(LATE, NO, 10e6, alice);
        bytes32[4] memory nonces = [freshNonce(), wallet.betHash(b), wallet.boundNonce(other), bytes32(MARK)];
        for (uint256 k; k < 4; ++k) {
            ISettlementWallet.Authorization memory a =
                authorization(ALICE_KEY, alice, 10e6, ISettlementWallet.Form.Receive, nonces[k], 0);
            bytes memory why =
                abi.encodeWithSelector(ISettlementWallet.BoundToAnotherBet.selector, nonces[k], wallet.betHash(b));
            vm.prank(RELAYER);
            vm.expectRevert(why);
            wallet.settle(b, a);
            vm.prank(STRANGER);
            vm.expectRevert(why);
            wallet.settle(b, a);
        }
    }

    /// A marked nonce in the transfer form would leave a trace that a receive payment has no record against.
    function test_theTransferFormTakesNoMarkedNonce() public {
        ISettlementWallet.Bet memory b = bet(LATE, YES, 10e6, alice);
        bytes32[2] memory marked = [wallet.boundNonce(b), MARK | bytes32(uint256(7))];
        for (uint256 k; k < 2; ++k) {
            ISettlementWallet.Authorization memory a = authorize(ALICE_KEY, b, marked[k]);
            vm.prank(RELAYER);
            vm.expectRevert(abi.encodeWithSelector(ISettlementWallet.NonceIsMarked.selector, marked[k]));
            wallet.settle(b, a);
        }
    }

    /// A bet whose hash happened to begin with the mark could be paid in the receive form only.
    function test_theMarkIsTheFirstEightBytesOfItsName() public {
        ISettlementWallet.Bet memory b = bet(LATE, YES, 10e6, alice);
        vm.assertEq(bytes32(bytes8(wallet.boundNonce(b))), bytes32(MARK));
        vm.assertTrue(bytes8(wallet.betHash(b)) != MARK);
    }

    /// The form is said, not guessed: a signature of the one is nothing in the other.
    function test_aSignatureOfTheOtherFormIsRefused() public {
        ISettlementWallet.Bet memory b = bet(LATE, YES, 10e6, alice);
        ISettlementWallet.Authorization memory a =
            authorization(ALICE_KEY, alice, 10e6, ISettlementWallet.Form.Transfer, wallet.boundNonce(b), 0);
        a.form = ISettlementWallet.Form.Receive;
        vm.prank(RELAYER);
        vm.expectRevert();
        wallet.settle(b, a);
        a = authorization(ALICE_KEY, alice, 10e6, ISettlementWallet.Form.Receive, wallet.betHash(b), 0);
        a.form = ISettlementWallet.Form.Transfer;
        vm.prank(RELAYER);
        vm.expectRevert();
        wallet.settle(b, a);
        bytes memory call = abi.encodeCall(wallet.settle, (b, a));
        call[4 + 32 * 9 + 31] = 0x02; // selector, the bet's eight words, the offset of the authorization, then its form
        vm.prank(RELAYER);
        (bool ok,) = address(wallet).call(call);
        vm.assertFalse(ok);
        vm.assertEq(token.balanceOf(address(wallet)), 0);
    }

    /// Two copies of one bet, and two bets at once: who comes second changes nothing for who came first.
    function test_twoPayersRacing() public {
        ISettlementWallet.Bet memory b = bet(LATE, YES, 10e6, alice);
        ISettlementWallet.Bet memory c = bet(LATE, YES, 10e6, bob);
        ISettlementWallet.Authorization memory a = authorizeReceive(ALICE_KEY, b);
        ISettlementWallet.Authorization memory d = authorizeReceive(BOB_KEY, c);
        // Bob takes Alice's authorization for his own bet, and puts his name on hers.
        vm.startPrank(bob);
        vm.expectRevert(
            abi.encodeWithSelector(ISettlementWallet.BoundToAnotherBet.selector, a.nonce, wallet.betHash(c))
        );
        wallet.settle(c, a);
        vm.stopPrank();
        vm.prank(bob);
        wallet.settle(b, a); // it is hers, no matter who sends it
        vm.prank(alice);
        wallet.settle(c, d);
        vm.assertEq(wallet.stake(wallet.stakeOf(alice, b.idemHash)).wallet, alice);
        vm.assertEq(wallet.stake(wallet.stakeOf(bob, c.idemHash)).wallet, bob);
        vm.assertEq(token.balanceOf(address(wallet)), 20e6);
    }

    // Contracts that sign

    function test_aContractWalletStakesInEveryForm() public {
        SmartWallet smart = new SmartWallet(carol);
        token.mint(address(smart), 30e6);
        ISettlementWallet.Bet memory b = bet(LATE, NO, 10e6, address(smart));
        vm.prank(STRANGER);
        vm.assertEq(wallet.stake(wallet.settle(b, authorizeBound(CAROL_KEY, b))).wallet, address(smart));
        b = bet(LATE, NO, 10e6, address(smart));
        ISettlementWallet.Authorization memory a = authorize(CAROL_KEY, b, freshNonce());
        vm.prank(RELAYER);
        wallet.settle(b, a);
        b = bet(LATE, NO, 10e6, address(smart));
        a = authorizeReceive(CAROL_KEY, b);
        vm.prank(STRANGER);
        wallet.settle(b, a);
        vm.assertEq(token.balanceOf(address(wallet)), 30e6);
    }

    /// A signature may carry any bytes behind it, another payer's nonce among them. They change nothing: the nonce is the
    /// authorization's, and Alice's payment is still hers to make.
    function test_anothersNonceInsideASignatureIsNothing() public {
        ISettlementWallet.Bet memory hers = bet(LATE, YES, 10e6, alice);
        ISettlementWallet.Authorization memory herAuthorization = authorize(ALICE_KEY, hers, freshNonce());
        SmartWallet smart = new SmartWallet(carol);
        token.mint(address(smart), 10e6);
        ISettlementWallet.Bet memory b = bet(LATE, NO, 10e6, address(smart));
        ISettlementWallet.Authorization memory a = authorize(CAROL_KEY, b, freshNonce());
        a.signature = abi.encodePacked(a.signature, new bytes(31), herAuthorization.nonce, herAuthorization.signature);
        vm.prank(RELAYER);
        uint256 id = wallet.settle(b, a);
        vm.assertEq(wallet.stake(id).wallet, address(smart));
        vm.assertFalse(wallet.booked(alice, herAuthorization.nonce));
        vm.assertFalse(token.authorizationState(alice, herAuthorization.nonce));
        vm.prank(RELAYER);
        vm.assertEq(wallet.stake(wallet.settle(hers, herAuthorization)).wallet, alice);
    }

    // Once for ever

    function test_aKeySettlesOnce() public {
        ISettlementWallet.Bet memory b = bet(LATE, YES, 10e6, alice);
        ISettlementWallet.Authorization memory a = authorize(ALICE_KEY, b, freshNonce());
        vm.prank(RELAYER);
        uint256 id = wallet.settle(b, a);
        bytes memory used = abi.encodeWithSelector(ISettlementWallet.IdempotencyKeyUsed.selector, alice, b.idemHash, id);
        a = authorize(ALICE_KEY, b, freshNonce());
        vm.prank(RELAYER);
        vm.expectRevert(used);
        wallet.settle(b, a);
        b.marketId = OTHER; // nor on another market
        vm.prank(RELAYER);
        vm.expectRevert(used);
        wallet.settle(b, a);
        a = authorizeReceive(ALICE_KEY, b); // nor in the other form
        vm.prank(RELAYER);
        vm.expectRevert(used);
        wallet.settle(b, a);
        // Another wallet may use the same key.
        b.wallet = bob;
        a = authorize(BOB_KEY, b, freshNonce());
        vm.prank(RELAYER);
        wallet.settle(b, a);
    }

    function test_aSpentAuthorizationBuysNothing() public {
        ISettlementWallet.Bet memory b = bet(LATE, YES, 10e6, alice);
        ISettlementWallet.Authorization memory a = authorize(ALICE_KEY, b, freshNonce());
        vm.prank(RELAYER);
        wallet.settle(b, a);
        b.idemHash = "another";
        vm.prank(RELAYER);
        vm.expectRevert(abi.encodeWithSelector(ISettlementWallet.AuthorizationAlreadyUsed.selector, alice, a.nonce));
        wallet.settle(b, a);
    }

    function test_aCancelledAuthorizationBuysNothing() public {
        ISettlementWallet.Bet memory b = bet(LATE, YES, 10e6, alice);
        ISettlementWallet.Authorization[3] memory all =
            [authorize(ALICE_KEY, b, freshNonce()), authorizeBound(ALICE_KEY, b), authorizeReceive(ALICE_KEY, b)];
        for (uint256 k; k < 3; ++k) {
            cancel(ALICE_KEY, all[k].nonce);
            vm.prank(RELAYER);
            vm.expectRevert(
                abi.encodeWithSelector(ISettlementWallet.AuthorizationAlreadyUsed.selector, alice, all[k].nonce)
            );
            wallet.settle(b, all[k]);
        }
        vm.assertEq(liability(), 0);
    }

    // When and how much

    function test_minSharesHolds() public {
        (uint256 shares,,,) = wallet.quote(LATE, YES, 10e6);
        settle(LATE, YES, 5e6, BOB_KEY); // someone was faster
        (uint256 now_,,,) = wallet.quote(LATE, YES, 10e6);
        vm.assertLt(now_, shares);
        ISettlementWallet.Bet memory b = bet(LATE, YES, 10e6, alice);
        b.minShares = now_ + 1;
        refused(b, abi.encodeWithSelector(ISettlementWallet.TooFewShares.selector, now_, now_ + 1));
        b.minShares = now_;
        ISettlementWallet.Authorization memory a = authorize(ALICE_KEY, b, freshNonce());
        vm.prank(RELAYER);
        wallet.settle(b, a);
    }

    /// The holder of a bound signature chooses when it is sent; `minShares` is the payer's word on the worst moment.
    function test_whoHoldsASignatureChoosesTheMomentWithinMinShares() public {
        ISettlementWallet.Bet memory b = bet(LATE, YES, 10e6, alice);
        (b.minShares,,,) = wallet.quote(LATE, YES, 10e6);
        ISettlementWallet.Authorization memory a = authorizeReceive(ALICE_KEY, b);
        settle(LATE, YES, 500e6, BOB_KEY);
        (uint256 now_,,,) = wallet.quote(LATE, YES, 10e6);
        vm.prank(STRANGER);
        vm.expectRevert(abi.encodeWithSelector(ISettlementWallet.TooFewShares.selector, now_, b.minShares));
        wallet.settle(b, a);
    }

    /// Stakes end in that very second, for all senders and in both forms.
    function test_hours() public {
        IAgentLister.MarketSpec memory s = thresholdSpec(false);
        s.opensAt = uint64(T0 + 100);
        list("later", s);
        ISettlementWallet.Bet memory b = bet("later", YES, 10e6, alice);
        vm.warp(T0 + 99);
        refused(b, abi.encodeWithSelector(ISettlementWallet.NotOpenYet.selector, bytes32("later"), T0 + 100));
        vm.warp(T0 + 100);
        settle("later", YES, 10e6, ALICE_KEY);
        vm.warp(CLOSE - 1);
        settle("later", YES, 10e6, ALICE_KEY);
        bytes32[5] memory all = [OTHER, LATE, RANGED, UPDOWN, POSTED];
        for (uint256 k; k < 5; ++k) {
            settle(all[k], YES, 10e6, ALICE_KEY);
        }
        vm.warp(CLOSE);
        refused(b, abi.encodeWithSelector(ISettlementWallet.Closed.selector, bytes32("later"), CLOSE));
        for (uint256 k; k < 5; ++k) {
            refused(
                bet(all[k], YES, 10e6, alice), abi.encodeWithSelector(ISettlementWallet.Closed.selector, all[k], CLOSE)
            );
        }
    }

    function test_settledMarketsTakeNothing() public {
        vm.prank(SAFE);
        lister.condemn(address(posted));
        resolver.voidMarket(POSTED);
        refused(
            bet(POSTED, YES, 10e6, alice), abi.encodeWithSelector(ISettlementWallet.AlreadySettled.selector, POSTED)
        );
    }

    function test_amounts() public {
        ISettlementWallet.Bet memory b = bet(LATE, YES, 1e6 - 1, alice);
        bytes4 error_ = ISettlementWallet.AmountOutOfBounds.selector;
        uint256 most = wallet.MAX_STAKE();
        refused(b, abi.encodeWithSelector(error_, 1e6 - 1, 1e6, most));
        b.amount = most + 1;
        refused(b, abi.encodeWithSelector(error_, most + 1, 1e6, most));
        vm.expectRevert(abi.encodeWithSelector(error_, 1e6 - 1, 1e6, most));
        wallet.quote(LATE, YES, 1e6 - 1);
        vm.expectRevert(abi.encodeWithSelector(error_, most + 1, 1e6, most));
        wallet.quote(LATE, YES, most + 1);
        settle(LATE, YES, 1e6, ALICE_KEY);
    }

    function test_theSignedAmountIsTheBets() public {
        ISettlementWallet.Bet memory b = bet(LATE, YES, 10e6, alice);
        uint256[2] memory values = [uint256(1), 11e6];
        for (uint256 k; k < 2; ++k) {
            ISettlementWallet.Form[2] memory forms = [ISettlementWallet.Form.Transfer, ISettlementWallet.Form.Receive];
            for (uint256 j; j < 2; ++j) {
                ISettlementWallet.Authorization memory a = authorization(
                    ALICE_KEY, alice, values[k], forms[j], j == 0 ? freshNonce() : wallet.boundNonce(b), 0
                );
                vm.prank(RELAYER);
                vm.expectRevert(abi.encodeWithSelector(ISettlementWallet.WrongAmountSigned.selector, 10e6, values[k]));
                wallet.settle(b, a);
            }
        }
    }

    /// With a fee of 2% an outcome that may hold 98 takes stakes of 100.
    function test_fillingOneOutcomeLeavesTheOtherOpen() public {
        vm.prank(SAFE);
        lister.setFeed(address(feed), true, MEMORY, MAX_AGE, 98e6, FEED_CAP);
        list("small", thresholdSpec(false));
        settle("small", YES, 90e6, ALICE_KEY);
        refused(bet("small", YES, 10e6 + 1, alice), potFull("small", YES, 9.8e6));
        settle("small", YES, 10e6, ALICE_KEY);
        refused(bet("small", YES, 1e6, alice), potFull("small", YES, 0));

        settle("small", NO, 100e6, BOB_KEY);
        refused(bet("small", NO, 1e6, bob), potFull("small", NO, 0));
        vm.assertEq(wallet.market("small").staked, 200e6);
        vm.assertEq(wallet.market("small").netPool, 2 * 98e6);
    }

    /// An attacker who moves the price wins at most the stakes on the other outcomes.
    function testFuzz_theOtherOutcomesNeverHoldMoreThanTheCap(uint64 cap, uint256 seed) public {
        uint256 outcomes = 2 + seed % 7;
        cap = uint64(bound(cap, 7e6, 1e12));
        vm.prank(SAFE);
        lister.setFeed(address(feed), true, MEMORY, MAX_AGE, cap, FEED_CAP);
        list("many", rangeSpecOf(outcomes));
        for (uint256 k; k < 12; ++k) {
            seed = uint256(keccak256(abi.encode(seed)));
            uint8 outcome = uint8(seed % outcomes);
            ISettlementWallet.Bet memory b = bet("many", outcome, bound(seed >> 8, 1e6, cap), alice);
            ISettlementWallet.Authorization memory a = authorize(ALICE_KEY, b, freshNonce());
            vm.prank(RELAYER);
            try wallet.settle(b, a) {} catch {}
        }
        uint256 pool = wallet.market("many").netPool;
        for (uint8 winner; winner < outcomes; ++winner) {
            vm.assertLe(pool - wallet.outcomeBook("many", winner).net, cap);
        }
    }

    function potFull(bytes32 marketId, uint8 outcome, uint256 room) private pure returns (bytes memory) {
        return abi.encodeWithSelector(ISettlementWallet.PotFull.selector, marketId, outcome, room);
    }

    function test_outcomes() public {
        refused(bet(LATE, 2, 10e6, alice), abi.encodeWithSelector(ISettlementWallet.UnknownOutcome.selector, 2, 2));
        bytes memory unknown = abi.encodeWithSelector(ISettlementWallet.UnknownOutcome.selector, 4, 4);
        vm.expectRevert(unknown);
        wallet.quote(RANGED, 4, 10e6);
        vm.expectRevert(unknown);
        wallet.outcomeBook(RANGED, 4);
    }

    function test_pausedStakes() public {
        vm.prank(GUARDIAN);
        pauser.pause();
        vm.assertTrue(wallet.paused());
        refused(bet(LATE, YES, 10e6, alice), abi.encodeWithSelector(ISettlementWallet.StakesArePaused.selector));
        vm.prank(SAFE);
        pauser.resume();
        settle(LATE, YES, 10e6, ALICE_KEY);
    }

    function test_expiredOrForgedAuthorizationsDoNothing() public {
        ISettlementWallet.Bet memory b = bet(LATE, YES, 10e6, alice);
        ISettlementWallet.Authorization[3] memory bad = [
            authorize(BOB_KEY, b, freshNonce()),
            authorize(ALICE_KEY, b, freshNonce(), T0), // not valid yet
            authorizeReceive(BOB_KEY, b)
        ];
        for (uint256 k; k < 3; ++k) {
            vm.prank(RELAYER);
            vm.expectRevert();
            wallet.settle(b, bad[k]);
            vm.assertFalse(wallet.booked(alice, bad[k].nonce));
        }
        vm.assertEq(liability(), 0);
        vm.assertEq(wallet.stakeOf(alice, b.idemHash), 0);
    }

    function refused(ISettlementWallet.Bet memory b, bytes memory why) internal {
        ISettlementWallet.Authorization[2] memory both =
            [authorize(ALICE_KEY, b, freshNonce()), authorizeReceive(ALICE_KEY, b)];
        for (uint256 k; k < 2; ++k) {
            vm.prank(RELAYER);
            vm.expectRevert(why);
            wallet.settle(b, both[k]);
        }
    }
}

contract StakingOnUsdc is StakingSuite, OnUsdc {
    /// What the token says when someone else than the payee asks for a received payment.
    function test_theTokenAsksForThePayee() public {
        ISettlementWallet.Bet memory b = bet(LATE, YES, 10e6, alice);
        ISettlementWallet.Authorization memory a = authorizeReceive(ALICE_KEY, b);
        vm.prank(STRANGER);
        vm.expectRevert(abi.encodeWithSelector(LocalToken.CallerIsNotPayee.selector, STRANGER, address(wallet)));
        token.receiveWithAuthorization(
            alice, address(wallet), a.value, a.validAfter, a.validBefore, a.nonce, a.signature
        );
    }
}

contract StakingOnUsdg is StakingSuite, OnUsdg {}

contract StakingOnOpenZeppelin is StakingSuite, OnOpenZeppelin {}

/// Tokens that do not do what they say.
contract StakingOnALiar is OnUsdc {
    function newToken() internal override returns (address) {
        return address(new LyingToken());
    }

    function test_onlyTheExactAmountIsAStake() public {
        LyingToken liar = LyingToken(address(token));
        ISettlementWallet.Bet memory b = bet(LATE, YES, 10e6, alice);
        ISettlementWallet.Authorization[2] memory both =
            [authorize(ALICE_KEY, b, freshNonce()), authorizeReceive(ALICE_KEY, b)];
        LyingToken.Mode[3] memory modes = [LyingToken.Mode.Silent, LyingToken.Mode.Less, LyingToken.Mode.More];
        uint256[3] memory received = [uint256(0), 10e6 - 1, 10e6 + 1];
        for (uint256 k; k < 6; ++k) {
            liar.setMode(modes[k % 3]);
            vm.prank(RELAYER);
            vm.expectRevert(
                abi.encodeWithSelector(ISettlementWallet.WrongAmountReceived.selector, 10e6, received[k % 3])
            );
            wallet.settle(b, both[k / 3]);
        }
        liar.setMode(LyingToken.Mode.Honest);
        vm.prank(RELAYER);
        wallet.settle(b, both[1]);
    }
}
