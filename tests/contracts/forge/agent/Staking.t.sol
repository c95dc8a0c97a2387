// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {ISettlementWallet} from "../../../../contracts/settlement/ISettlementWallet.sol";
import {HookToken, LyingToken} from "../vpm/HostileTokens.sol";
import {OnOpenZeppelin, OnUsdc, OnUsdg, SmartWallet, WalletBase} from "./WalletBase.sol";

abstract contract StakingSuite is WalletBase {
    event Staked(
        bytes32 indexed marketId,
        uint256 indexed stakeId,
        address indexed wallet,
        uint8 outcome,
        uint256 amount,
        uint256 fee,
        uint256 shares,
        bytes32 intentHash,
        bytes32 idemHash,
        address builder,
        bytes32 ref
    );

    function test_aStakeIsBookedAsQuoted() public {
        (uint256 shares, uint256 fee, uint256 before, uint256 after_) = wallet.quote(LATE, YES, 10e6);
        vm.assertEq(fee, 0.2e6);
        vm.assertEq(before, 0.5e18);
        vm.assertGt(after_, before);
        ISettlementWallet.Intent memory i = intent(LATE, YES, 10e6, alice);
        i.minShares = shares;
        bytes32 hash = wallet.intentHash(i);
        uint256 expected = uint256(2) << 32; // the second market's first stake
        vm.expectEmit(true, true, true, true, address(wallet));
        emit Staked(LATE, expected, alice, YES, 10e6, fee, shares, hash, i.idemHash, i.builder, i.ref);
        ISettlementWallet.Authorization memory a = authorize(ALICE_KEY, i, freshNonce());
        vm.prank(RELAYER);
        uint256 id = wallet.settle(i, a);

        vm.assertEq(id, expected);
        vm.assertEq(token.balanceOf(address(wallet)), 10e6);
        vm.assertEq(wallet.stakeOf(alice, i.idemHash), id);
        vm.assertTrue(wallet.booked(alice, a.nonce));
        isBooked(id, fee, shares, after_);
    }

    /// Ten dollars of Alice's on YES are the only stake.
    function isBooked(uint256 id, uint256 fee, uint256 shares, uint256 price_) private view {
        ISettlementWallet.StakeView memory s = wallet.stake(id);
        vm.assertEq(s.marketId, LATE);
        vm.assertEq(s.wallet, alice);
        vm.assertEq(s.amount, 10e6);
        vm.assertEq(s.fee, fee);
        vm.assertEq(s.shares, shares);
        vm.assertEq(uint256(s.status), 1);
        vm.assertEq(s.payable_, 0);
        (uint256 net, uint256 issued, uint256 weight, uint256 price) = wallet.outcomeBook(LATE, YES);
        vm.assertEq(net, 9.8e6);
        vm.assertEq(issued, shares);
        vm.assertEq(weight, 500e6 + 9.8e6);
        vm.assertEq(price, price_);
        ISettlementWallet.MarketView memory m = wallet.market(LATE);
        vm.assertEq(m.staked, 10e6);
        vm.assertEq(m.netPool, 9.8e6);
        (uint256 open, uint256 unpaid, uint256 fees) = wallet.liabilities();
        vm.assertEq(open, 10e6);
        vm.assertEq(unpaid + fees, 0);
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

    // Who may settle

    function test_aRandomNonceNeedsTheRelayer() public {
        ISettlementWallet.Intent memory i = intent(LATE, YES, 10e6, alice);
        ISettlementWallet.Authorization memory a = authorize(ALICE_KEY, i, freshNonce());
        vm.prank(alice);
        vm.expectRevert(abi.encodeWithSelector(ISettlementWallet.MissingRole.selector, alice, "RELAYER"));
        wallet.settle(i, a);
    }

    function test_anyoneSettlesABoundIntent() public {
        ISettlementWallet.Intent memory i = intent(LATE, YES, 10e6, alice);
        ISettlementWallet.Authorization memory a = authorize(ALICE_KEY, i, wallet.intentHash(i));
        vm.prank(STRANGER);
        uint256 id = wallet.settle(i, a);
        vm.assertEq(wallet.stake(id).wallet, alice);
    }

    /// A stranger who changes any field of the intent no longer holds its hash, and a changed nonce breaks the signature.
    function test_nobodyAltersABoundIntent() public {
        ISettlementWallet.Intent memory i = intent(LATE, YES, 10e6, alice);
        ISettlementWallet.Authorization memory a = authorize(ALICE_KEY, i, wallet.intentHash(i), BOUND_ONLY);
        for (uint256 field; field < 8; ++field) {
            refusedAltered(altered(i, field), a);
        }
        vm.prank(STRANGER);
        wallet.settle(i, a);
        vm.assertEq(token.balanceOf(address(wallet)), 10e6);
    }

    function refusedAltered(ISettlementWallet.Intent memory x, ISettlementWallet.Authorization memory a) private {
        bytes32 bound = a.nonce;
        bytes32 hash = wallet.intentHash(x);
        vm.assertTrue(hash != bound);
        bytes memory why = abi.encodeWithSelector(ISettlementWallet.BoundToAnotherIntent.selector, bound, hash);
        vm.prank(STRANGER);
        vm.expectRevert(why);
        wallet.settle(x, a);
        vm.prank(RELAYER);
        vm.expectRevert(why);
        wallet.settle(x, a);
        // With the altered intent's hash for a nonce, the signature is another's.
        a.nonce = hash;
        vm.prank(STRANGER);
        vm.expectRevert();
        wallet.settle(x, a);
        a.nonce = bound;
    }

    function altered(ISettlementWallet.Intent memory i, uint256 field)
        private
        view
        returns (ISettlementWallet.Intent memory x)
    {
        x = ISettlementWallet.Intent(
            i.marketId, i.outcome, i.amount, i.minShares, i.wallet, i.idemHash, i.builder, i.ref
        );
        if (field == 0) x.marketId = EARLY;
        if (field == 1) x.outcome = NO;
        if (field == 2) x.amount = 11e6;
        if (field == 3) x.minShares = 1;
        if (field == 4) x.wallet = bob;
        if (field == 5) x.idemHash = "other";
        if (field == 6) x.builder = STRANGER;
        if (field == 7) x.ref = "other";
    }

    function test_aContractWalletStakes() public {
        SmartWallet smart = new SmartWallet(carol);
        token.mint(address(smart), 10e6);
        ISettlementWallet.Intent memory i = intent(LATE, NO, 10e6, address(smart));
        ISettlementWallet.Authorization memory a = authorize(CAROL_KEY, i, wallet.intentHash(i));
        vm.prank(STRANGER);
        uint256 id = wallet.settle(i, a);
        vm.assertEq(wallet.stake(id).wallet, address(smart));
    }

    // Once for ever

    function test_aKeySettlesOnce() public {
        ISettlementWallet.Intent memory i = intent(LATE, YES, 10e6, alice);
        ISettlementWallet.Authorization memory a = authorize(ALICE_KEY, i, freshNonce());
        vm.prank(RELAYER);
        uint256 id = wallet.settle(i, a);
        bytes memory used = abi.encodeWithSelector(ISettlementWallet.IdempotencyKeyUsed.selector, alice, i.idemHash, id);
        a = authorize(ALICE_KEY, i, freshNonce());
        vm.prank(RELAYER);
        vm.expectRevert(used);
        wallet.settle(i, a);
        i.marketId = EARLY; // nor on another market
        vm.prank(RELAYER);
        vm.expectRevert(used);
        wallet.settle(i, a);
        // Another wallet may use the same key.
        i.wallet = bob;
        a = authorize(BOB_KEY, i, freshNonce());
        vm.prank(RELAYER);
        wallet.settle(i, a);
    }

    function test_aSpentAuthorizationBuysNothing() public {
        ISettlementWallet.Intent memory i = intent(LATE, YES, 10e6, alice);
        ISettlementWallet.Authorization memory a = authorize(ALICE_KEY, i, freshNonce());
        vm.prank(RELAYER);
        wallet.settle(i, a);
        i.idemHash = "another";
        vm.prank(RELAYER);
        vm.expectRevert(abi.encodeWithSelector(ISettlementWallet.AuthorizationAlreadyUsed.selector, alice, a.nonce));
        wallet.settle(i, a);
    }

    function test_aCancelledAuthorizationBuysNothing() public {
        ISettlementWallet.Intent memory i = intent(LATE, YES, 10e6, alice);
        ISettlementWallet.Authorization memory a = authorize(ALICE_KEY, i, freshNonce());
        cancel(ALICE_KEY, a.nonce);
        vm.prank(RELAYER);
        vm.expectRevert(abi.encodeWithSelector(ISettlementWallet.AuthorizationAlreadyUsed.selector, alice, a.nonce));
        wallet.settle(i, a);
    }

    // When and how much

    function test_minSharesHolds() public {
        (uint256 shares,,,) = wallet.quote(LATE, YES, 10e6);
        settle(LATE, YES, 5e6, BOB_KEY); // somebody was faster
        (uint256 now_,,,) = wallet.quote(LATE, YES, 10e6);
        vm.assertLt(now_, shares);
        ISettlementWallet.Intent memory i = intent(LATE, YES, 10e6, alice);
        i.minShares = now_ + 1;
        refused(i, abi.encodeWithSelector(ISettlementWallet.TooFewShares.selector, now_, now_ + 1));
        i.minShares = now_;
        ISettlementWallet.Authorization memory a = authorize(ALICE_KEY, i, freshNonce());
        vm.prank(RELAYER);
        wallet.settle(i, a);
    }

    function test_hours() public {
        ISettlementWallet.MarketSpec memory s = thresholdSpec(false);
        s.opensAt = uint64(T0 + 100);
        list("later", s);
        ISettlementWallet.Intent memory i = intent("later", YES, 10e6, alice);
        vm.warp(T0 + 99);
        refused(i, abi.encodeWithSelector(ISettlementWallet.NotOpenYet.selector, bytes32("later"), T0 + 100));
        vm.warp(T0 + 100);
        settle("later", YES, 10e6, ALICE_KEY);
        vm.warp(CLOSE - 1);
        settle("later", YES, 10e6, ALICE_KEY);
        vm.warp(CLOSE);
        refused(i, abi.encodeWithSelector(ISettlementWallet.Closed.selector, bytes32("later"), CLOSE));
    }

    function test_settledMarketsTakeNothing() public {
        feed.push(TARGET, T0 + 10);
        vm.warp(T0 + 11);
        wallet.resolve(EARLY);
        refused(
            intent(EARLY, YES, 10e6, alice), abi.encodeWithSelector(ISettlementWallet.AlreadySettled.selector, EARLY)
        );
    }

    function test_amounts() public {
        ISettlementWallet.Intent memory i = intent(LATE, YES, 1e6 - 1, alice);
        bytes4 error_ = ISettlementWallet.AmountOutOfBounds.selector;
        refused(i, abi.encodeWithSelector(error_, 1e6 - 1, 1e6, 1e15));
        i.amount = 1e15 + 1;
        refused(i, abi.encodeWithSelector(error_, 1e15 + 1, 1e6, 1e15));
        vm.expectRevert(abi.encodeWithSelector(error_, 1e6 - 1, 1e6, 1e15));
        wallet.quote(LATE, YES, 1e6 - 1);
        vm.expectRevert(abi.encodeWithSelector(error_, 1e15 + 1, 1e6, 1e15));
        wallet.quote(LATE, YES, 1e15 + 1);
        settle(LATE, YES, 1e6, ALICE_KEY);
        settle(LATE, YES, 1e15, ALICE_KEY);
    }

    function test_aPoolIsNeverLargerThanPricingCanTell() public {
        bytes32 m = EARLY;
        // The packed slot of totals: staked, netPool, stakes. Found by its content.
        settle(m, YES, 5e6, ALICE_KEY);
        setStaked(m, 5e6, 1e21 - 2e6 + 1);
        refused(
            intent(m, YES, 2e6, alice),
            abi.encodeWithSelector(ISettlementWallet.PoolFull.selector, m, 1e21 - 2e6 + 1, 1e21)
        );
        setStaked(m, 1e21 - 2e6 + 1, 1e21 - 2e6);
        settle(m, YES, 2e6, ALICE_KEY);
    }

    function setStaked(bytes32 m, uint256 was, uint256 is_) private {
        bytes32 at0 = keccak256(abi.encode(m, uint256(4))); // _markets
        for (uint256 k; k < 8; ++k) {
            bytes32 slot = bytes32(uint256(at0) + k);
            uint256 word = uint256(vm.load(address(wallet), slot));
            for (uint256 shift; shift <= 168; shift += 8) {
                if ((word >> shift) & type(uint80).max != was || word == was) continue;
                if (wallet.market(m).staked != was) continue;
                vm.store(address(wallet), slot, bytes32((word & ~(uint256(type(uint80).max) << shift)) | is_ << shift));
                if (wallet.market(m).staked == is_) return;
                vm.store(address(wallet), slot, bytes32(word));
            }
        }
        vm.assertTrue(false, "slot not found");
    }

    function test_outcomes() public {
        refused(intent(LATE, 2, 10e6, alice), abi.encodeWithSelector(ISettlementWallet.UnknownOutcome.selector, 2, 2));
        bytes memory unknown = abi.encodeWithSelector(ISettlementWallet.UnknownOutcome.selector, 4, 4);
        vm.expectRevert(unknown);
        wallet.quote(RANGED, 4, 10e6);
        vm.expectRevert(unknown);
        wallet.outcomeBook(RANGED, 4);
    }

    function test_pausedStakes() public {
        vm.prank(GUARDIAN);
        wallet.setStakesPaused(true);
        vm.assertTrue(wallet.stakesPaused());
        refused(intent(LATE, YES, 10e6, alice), abi.encodeWithSelector(ISettlementWallet.StakesArePaused.selector));
        vm.prank(GUARDIAN);
        wallet.setStakesPaused(false);
        settle(LATE, YES, 10e6, ALICE_KEY);
    }

    function test_expiredOrForgedAuthorizationsDoNothing() public {
        ISettlementWallet.Intent memory i = intent(LATE, YES, 10e6, alice);
        ISettlementWallet.Authorization memory a = authorize(BOB_KEY, i, freshNonce());
        vm.prank(RELAYER);
        vm.expectRevert();
        wallet.settle(i, a);
        a = authorize(ALICE_KEY, i, freshNonce(), T0);
        vm.prank(RELAYER);
        vm.expectRevert();
        wallet.settle(i, a);
        vm.assertEq(liability(), 0);
        vm.assertEq(wallet.stakeOf(alice, i.idemHash), 0);
        vm.assertFalse(wallet.booked(alice, a.nonce));
    }

    function refused(ISettlementWallet.Intent memory i, bytes memory why) internal {
        ISettlementWallet.Authorization memory a = authorize(ALICE_KEY, i, freshNonce());
        vm.prank(RELAYER);
        vm.expectRevert(why);
        wallet.settle(i, a);
    }
}

contract StakingOnUsdc is StakingSuite, OnUsdc {}

contract StakingOnUsdg is StakingSuite, OnUsdg {}

contract StakingOnOpenZeppelin is StakingSuite, OnOpenZeppelin {}

/// Tokens that do not do what they say.
contract StakingOnALiar is OnUsdc {
    function newToken() internal override returns (address) {
        return address(new LyingToken());
    }

    function test_onlyTheExactAmountIsAStake() public {
        LyingToken liar = LyingToken(address(token));
        ISettlementWallet.Intent memory i = intent(LATE, YES, 10e6, alice);
        ISettlementWallet.Authorization memory a = authorize(ALICE_KEY, i, freshNonce());
        LyingToken.Mode[3] memory modes = [LyingToken.Mode.Silent, LyingToken.Mode.Less, LyingToken.Mode.More];
        uint256[3] memory received = [uint256(0), 10e6 - 1, 10e6 + 1];
        for (uint256 k; k < 3; ++k) {
            liar.setMode(modes[k]);
            vm.prank(RELAYER);
            vm.expectRevert(abi.encodeWithSelector(ISettlementWallet.WrongAmountReceived.selector, 10e6, received[k]));
            wallet.settle(i, a);
        }
        liar.setMode(LyingToken.Mode.Honest);
        vm.prank(RELAYER);
        wallet.settle(i, a);
    }
}
