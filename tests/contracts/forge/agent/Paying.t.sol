// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {ReentrancyGuardTransient} from "@openzeppelin/contracts/utils/ReentrancyGuardTransient.sol";

import {ISettlementWallet} from "../../../../contracts/agent/ISettlementWallet.sol";
import {SettlementWallet} from "../../../../contracts/agent/SettlementWallet.sol";
import {LocalUSDC} from "../../../../contracts/local/LocalUSDC.sol";
import {HookToken, ITokenHook, LyingToken} from "../stock/HostileTokens.sol";
import {OnOpenZeppelin, OnUsdc, OnUsdg, SmartWallet, WalletBase} from "./WalletBase.sol";

abstract contract PayingSuite is WalletBase {
    event Paid(bytes32 indexed marketId, uint256 indexed stakeId, address indexed wallet, uint256 amount, bool refund);
    event PayoutFailed(bytes32 indexed marketId, uint256 indexed stakeId, address indexed wallet, uint256 amount);
    event FeesSwept(uint256 amount);

    /// N >= Q_w: much was lost to few, and shares are paid alike.
    function test_winnersSplitTheNetPoolByShares() public {
        uint256 a = settle(LATE, YES, 10e6 + 1, ALICE_KEY);
        uint256 b = settle(LATE, YES, 20e6 + 7, BOB_KEY);
        uint256 c = settle(LATE, NO, 333e6 + 3, CAROL_KEY);
        vm.expectRevert(abi.encodeWithSelector(ISettlementWallet.NotSettled.selector, LATE));
        wallet.pay(LATE, ids(a));
        yesWins();
        uint256 pool = wallet.market(LATE).netPool;
        uint256 issued = wallet.outcomeBook(LATE, YES).shares;
        vm.assertGe(pool, issued);
        uint256 toAlice = wallet.stake(a).shares * pool / issued;
        uint256 toBob = wallet.stake(b).shares * pool / issued;
        paysOut(a, b, c, toAlice, toBob);
    }

    /// N < Q_w: little was lost to many. Each gets the net stake and a part of what was lost by what the shares exceed it.
    function test_winnersGetTheirStakeAndSplitWhatWasLost() public {
        uint256 a = settle(LATE, YES, 100e6 + 1, ALICE_KEY);
        uint256 b = settle(LATE, YES, 20e6 + 7, BOB_KEY);
        uint256 c = settle(LATE, NO, 3e6 + 3, CAROL_KEY);
        yesWins();
        ISettlementWallet.BookView memory book = wallet.outcomeBook(LATE, YES);
        uint256 pool = wallet.market(LATE).netPool;
        vm.assertLt(pool, book.shares);
        uint256[2] memory to;
        for (uint256 k; k < 2; ++k) {
            ISettlementWallet.StakeView memory s = wallet.stake(k == 0 ? a : b);
            uint256 net = s.amount - s.fee;
            to[k] = net + (s.shares - net) * (pool - book.net) / book.excess;
            vm.assertGe(to[k], net);
        }
        paysOut(a, b, c, to[0], to[1]);
    }

    function paysOut(uint256 a, uint256 b, uint256 c, uint256 toAlice, uint256 toBob) private {
        uint256 pool = wallet.market(LATE).netPool;
        uint256 staked = wallet.market(LATE).staked;
        vm.assertEq(wallet.stake(a).payable_, toAlice);
        vm.assertEq(wallet.stake(b).payable_, toBob);
        vm.assertEq(wallet.stake(c).payable_, 0);
        owes(0, pool, staked - pool);

        {
            uint256 before = token.balanceOf(alice);
            vm.expectEmit(true, true, true, true, address(wallet));
            emit Paid(LATE, a, alice, toAlice, false);
            vm.prank(STRANGER);
            vm.assertEq(wallet.pay(LATE, ids(c, a, a)), 1);
            vm.assertEq(token.balanceOf(alice), before + toAlice);
        }
        vm.assertEq(token.balanceOf(STRANGER), 0);
        vm.assertTrue(wallet.stake(a).status == ISettlementWallet.StakeStatus.Paid);
        vm.assertEq(wallet.market(LATE).paidOut, toAlice);
        vm.assertEq(wallet.market(LATE).paidShares, wallet.stake(a).shares);
        solvent();

        vm.assertEq(wallet.pay(LATE, ids(a, b, c)), 1);
        vm.assertEq(wallet.pay(LATE, ids(a, b, c)), 0);
        vm.assertTrue(inBook(c)); // a losing stake stays in the book
        // The last winner is paid: the dust of the floors joins the fees, and all of it can go.
        uint256 fees = staked - toAlice - toBob;
        owes(0, 0, fees);
        vm.assertEq(token.balanceOf(address(wallet)), fees);
        vm.expectEmit(true, true, true, true, address(wallet));
        emit FeesSwept(fees);
        vm.prank(STRANGER);
        wallet.sweepFees();
        vm.assertEq(token.balanceOf(TREASURY), fees);
        vm.assertEq(token.balanceOf(address(wallet)), 0);
        vm.expectRevert(ISettlementWallet.NoFees.selector);
        wallet.sweepFees();
    }

    function owes(uint256 openStakes, uint256 unpaid, uint256 fees) private view {
        (uint256 open_, uint256 unpaid_, uint256 fees_) = wallet.liabilities();
        vm.assertEq(open_, openStakes);
        vm.assertEq(unpaid_, unpaid);
        vm.assertEq(fees_, fees);
    }

    function test_claimingIsPayingOne() public {
        uint256 a = settle(LATE, YES, 10e6 + 1, ALICE_KEY);
        uint256 b = settle(LATE, NO, 20e6 + 7, BOB_KEY);
        vm.expectRevert(abi.encodeWithSelector(ISettlementWallet.NotSettled.selector, LATE));
        wallet.claim(a);
        yesWins();
        uint256 owed = wallet.stake(a).payable_;
        uint256 before = token.balanceOf(alice);
        vm.expectEmit(true, true, true, true, address(wallet));
        emit Paid(LATE, a, alice, owed, false);
        vm.prank(STRANGER);
        wallet.claim(a);
        vm.assertEq(token.balanceOf(alice), before + owed);
        vm.assertEq(token.balanceOf(STRANGER), 0);
        vm.expectRevert(abi.encodeWithSelector(ISettlementWallet.NothingOwed.selector, a));
        wallet.claim(a);
        vm.assertEq(wallet.pay(LATE, ids(a)), 0);
        vm.expectRevert(abi.encodeWithSelector(ISettlementWallet.NothingOwed.selector, b));
        wallet.claim(b);
        vm.expectRevert(abi.encodeWithSelector(ISettlementWallet.UnknownStake.selector, b + 1));
        wallet.claim(b + 1);
        owes(0, 0, 30e6 + 8 - owed);
    }

    // W9: whole stakes back, fee included

    function test_withoutAWinnerEverythingGoesBackWhole() public {
        uint256 a = settle(LATE, NO, 10e6 + 1, ALICE_KEY);
        uint256 b = settle(LATE, NO, 20e6 + 7, BOB_KEY);
        yesWins();
        vm.assertTrue(wallet.market(LATE).refunding);
        vm.assertTrue(isResolved(LATE, YES));
        refundsWhole(a, b);
    }

    function test_aOneSidedMarketGivesEverythingBackWhole() public {
        uint256 a = settle(LATE, YES, 10e6 + 1, ALICE_KEY);
        uint256 b = settle(LATE, YES, 20e6 + 7, BOB_KEY);
        yesWins();
        vm.assertTrue(wallet.market(LATE).refunding);
        vm.assertTrue(isResolved(LATE, YES));
        refundsWhole(a, b);
    }

    function test_aMarketWithoutStakesOwesNothing() public {
        yesWins();
        vm.assertTrue(wallet.market(LATE).refunding);
        owes(0, 0, 0);
    }

    function test_voidGivesEverythingBackWhole() public {
        uint256 a = settle(LATE, YES, 10e6 + 1, ALICE_KEY);
        uint256 b = settle(LATE, NO, 20e6 + 7, BOB_KEY);
        feed.push(0, END);
        vm.warp(END + 1);
        resolver.voidMarket(LATE);
        vm.assertTrue(wallet.market(LATE).refunding);
        refundsWhole(a, b);
    }

    function refundsWhole(uint256 a, uint256 b) private {
        (uint256 beforeA, uint256 beforeB) = (token.balanceOf(alice), token.balanceOf(bob));
        (, uint256 unpaid, uint256 fees) = wallet.liabilities();
        vm.assertEq(unpaid, 30e6 + 8);
        vm.assertEq(fees, 0);
        vm.expectEmit(true, true, true, true, address(wallet));
        emit Paid(LATE, a, alice, 10e6 + 1, true);
        vm.assertEq(wallet.pay(LATE, ids(a, b)), 2);
        vm.assertEq(token.balanceOf(alice), beforeA + 10e6 + 1);
        vm.assertEq(token.balanceOf(bob), beforeB + 20e6 + 7);
        vm.assertTrue(wallet.stake(a).status == ISettlementWallet.StakeStatus.Refunded);
        vm.assertEq(liability(), 0);
        vm.assertEq(token.balanceOf(address(wallet)), 0);
        vm.assertEq(wallet.market(LATE).paidOut, 0);
        vm.expectRevert(ISettlementWallet.NoFees.selector);
        wallet.sweepFees();
    }

    function test_aFrozenPayeeFailsAlone() public {
        uint256 a = settle(LATE, YES, 10e6, ALICE_KEY);
        uint256 b = settle(LATE, YES, 10e6, BOB_KEY);
        settle(LATE, NO, 10e6, CAROL_KEY);
        yesWins();
        token.freeze(alice);
        uint256 owed = wallet.stake(a).payable_;
        vm.expectEmit(true, true, true, true, address(wallet));
        emit PayoutFailed(LATE, a, alice, owed);
        vm.assertEq(wallet.pay(LATE, ids(a, b)), 1);
        vm.assertEq(wallet.stake(a).payable_, owed);
        vm.assertTrue(inBook(a));
        solvent();
        wallet.sweepFees(); // the fees do not wait for anyone
        solvent();
        vm.assertEq(wallet.pay(LATE, ids(a)), 0);
        token.unfreeze(alice);
        vm.assertEq(wallet.pay(LATE, ids(a)), 1);
        solvent();
    }

    function test_aFrozenRefundFailsAlone() public {
        uint256 a = settle(LATE, NO, 10e6, ALICE_KEY);
        yesWins();
        token.freeze(alice);
        vm.assertEq(wallet.pay(LATE, ids(a)), 0);
        vm.assertEq(wallet.stake(a).payable_, 10e6);
        token.unfreeze(alice);
        vm.assertEq(wallet.pay(LATE, ids(a)), 1);
    }

    function test_aFrozenTreasuryHoldsUpNobody() public {
        uint256 a = settle(LATE, YES, 10e6, ALICE_KEY);
        settle(LATE, NO, 20e6, BOB_KEY);
        yesWins();
        token.freeze(TREASURY);
        vm.expectRevert(abi.encodeWithSelector(ISettlementWallet.PaymentFailed.selector, TREASURY, 0.6e6));
        wallet.sweepFees();
        vm.assertEq(wallet.pay(LATE, ids(a)), 1);
        token.unfreeze(TREASURY);
        wallet.sweepFees();
        vm.assertEq(token.balanceOf(TREASURY), 0.6e6);
        vm.assertEq(token.balanceOf(address(wallet)), 0);
    }

    function test_aFrozenWalletLosesNothing() public {
        uint256 a = settle(LATE, YES, 10e6, ALICE_KEY);
        yesWins();
        token.freeze(address(wallet));
        vm.assertEq(wallet.pay(LATE, ids(a)), 0);
        token.unfreeze(address(wallet));
        vm.assertEq(wallet.pay(LATE, ids(a)), 1);
    }

    function test_wrongStakesAreRefused() public {
        uint256 a = settle(LATE, YES, 10e6, ALICE_KEY);
        uint256 other = settle(OTHER, YES, 10e6, ALICE_KEY);
        yesWins();
        vm.expectRevert(abi.encodeWithSelector(ISettlementWallet.UnknownStake.selector, a + 1));
        wallet.pay(LATE, ids(a, a + 1));
        vm.expectRevert(abi.encodeWithSelector(ISettlementWallet.StakeOfAnotherMarket.selector, other, LATE));
        wallet.pay(LATE, ids(a, other));
        vm.assertEq(wallet.pay(LATE, new uint256[](0)), 0);
    }

    function test_marketsDoNotTouchEachOther() public {
        uint256 a = settle(LATE, YES, 10e6, ALICE_KEY);
        settle(LATE, NO, 10e6, CAROL_KEY);
        uint256 b = settle(RANGED, 3, 500e6, BOB_KEY);
        yesWins();
        wallet.pay(LATE, ids(a));
        wallet.sweepFees();
        (uint256 open, uint256 unpaid, uint256 fees) = wallet.liabilities();
        vm.assertEq(open, 500e6);
        vm.assertEq(unpaid + fees, 0);
        vm.assertEq(token.balanceOf(address(wallet)), 500e6);
        vm.warp(END + VOID_DELAY + 1);
        resolver.voidMarket(RANGED);
        vm.assertEq(wallet.pay(RANGED, ids(b)), 1);
        vm.assertEq(token.balanceOf(address(wallet)), 0);
    }

    /// Starving the transfer must not look like a wallet that cannot be paid.
    function test_starvedPayoutsRevert() public {
        uint256 a = settle(LATE, YES, 10e6, ALICE_KEY);
        settle(LATE, NO, 10e6, BOB_KEY);
        yesWins();
        bytes memory call = abi.encodeCall(wallet.pay, (LATE, ids(a)));
        (bool enough, bytes memory why) = address(wallet).call{gas: 150_000}(call);
        vm.assertFalse(enough);
        vm.assertEq(bytes32(bytes4(why)), bytes32(ISettlementWallet.PayGasTooLow.selector));
        bool done;
        for (uint256 gas_ = 30_000; gas_ < 320_000; gas_ += 4_999) {
            uint256 snapshot = vm.snapshotState();
            (bool ok,) = address(wallet).call{gas: gas_}(call);
            if (ok) {
                vm.assertTrue(wallet.stake(a).status == ISettlementWallet.StakeStatus.Paid);
                done = true;
            }
            vm.revertToState(snapshot);
        }
        vm.assertTrue(done);
    }

    /// The same for `claim`, which takes all the gas it is given.
    function test_starvedClaimsRevert() public {
        uint256 a = settle(LATE, YES, 10e6, ALICE_KEY);
        settle(LATE, NO, 10e6, BOB_KEY);
        yesWins();
        uint256 owed = wallet.stake(a).payable_;
        uint256 before = token.balanceOf(alice);
        bool done;
        for (uint256 gas_ = 30_000; gas_ < 200_000; gas_ += 2_999) {
            uint256 snapshot = vm.snapshotState();
            (bool ok,) = address(wallet).call{gas: gas_}(abi.encodeCall(wallet.claim, (a)));
            vm.assertEq(token.balanceOf(alice), ok ? before + owed : before);
            vm.assertEq(wallet.stake(a).payable_, ok ? 0 : owed);
            done = done || ok;
            vm.revertToState(snapshot);
        }
        vm.assertTrue(done);
    }

    function yesWins() internal {
        feed.push(TARGET, END);
        vm.warp(END + 1);
        vm.prank(STRANGER);
        resolver.resolve(LATE);
    }
}

/// Once is enough for what does not depend on the token.
contract PayingOnUsdc is PayingSuite, OnUsdc {
    // W9: what a right bet gets

    /// On any book, for any winner: no right bet gets less than its stake less its fee rounded up, no one else gets anything, and all
    /// payouts together are at most the pool; or every stake goes back whole.
    function testFuzz_aRightBetNeverGetsLessThanItsStakeLessItsFee(uint256 seed, uint8 trades) public {
        uint256 count = 1 + trades % 12;
        for (uint256 k; k < count; ++k) {
            seed = uint256(keccak256(abi.encode(seed)));
            uint256 amount = 1e6 + (seed >> 8) % (10 ** (1 + (seed >> 64) % 10));
            settle(RANGED, uint8(seed % 8 < 5 ? seed % 2 : seed % 4), amount, ALICE_KEY);
        }
        uint256 snapshot = vm.snapshotState();
        for (uint8 winner; winner < 4; ++winner) {
            vm.prank(address(resolver));
            wallet.resolve(RANGED, winner);
            paysFairly(winner);
            vm.revertToState(snapshot);
        }
    }

    function paysFairly(uint8 winner) private {
        ISettlementWallet.MarketView memory m = wallet.market(RANGED);
        uint256[] memory all = wallet.stakesOf(RANGED, 0, m.stakes);
        uint256 sum;
        for (uint256 k; k < all.length; ++k) {
            ISettlementWallet.StakeView memory s = wallet.stake(all[k]);
            if (m.refunding) vm.assertEq(s.payable_, s.amount);
            else if (s.outcome != winner) vm.assertEq(s.payable_, 0);
            else vm.assertGe(s.payable_ + 1, s.amount - s.fee);
            sum += s.payable_;
        }
        uint256 winnersNet = wallet.outcomeBook(RANGED, winner).net;
        vm.assertEq(m.refunding, winnersNet == 0 || winnersNet == m.netPool);
        vm.assertLe(sum, m.refunding ? m.staked : m.netPool);
        wallet.pay(RANGED, all);
        (uint256 open, uint256 unpaid, uint256 fees) = wallet.liabilities();
        vm.assertEq(open + unpaid, 0);
        vm.assertEq(fees, m.refunding ? 0 : m.staked - sum);
        solvent();
    }

    /// An early holder adds a dollar on another side, at once or after the others, and is right: never a unit more than without it.
    /// (Under the first edition's rule, shares alone, this gained 24 to 114%, paid by the right bettors who came later.)
    function testFuzz_anEarlyHolderGainsNothingByADollarOnAnotherSide(uint256 seed, bool atOnce) public {
        uint256 early = 1e6 + seed % 200e6;
        uint256 id = settle(LATE, YES, early, ALICE_KEY);
        uint256 snapshot = vm.snapshotState();
        uint256 without = gainOfAlice(id, seed >> 64, false, false);
        vm.revertToState(snapshot);
        vm.assertLe(gainOfAlice(id, seed >> 64, true, atOnce), without, "a dollar elsewhere pays");
    }

    /// Alice's payout less what the extra dollar cost, when YES wins; others stake in between as the seed says, mostly on YES.
    function gainOfAlice(uint256 id, uint256 seed, bool dollar, bool atOnce) private returns (uint256) {
        uint256 before = token.balanceOf(alice);
        if (dollar && atOnce) settle(LATE, NO, 1e6, ALICE_KEY);
        uint256 later = seed % 5;
        uint256[] memory honest = new uint256[](later);
        for (uint256 k; k < later; ++k) {
            seed = uint256(keccak256(abi.encode(seed)));
            honest[k] = settle(LATE, seed % 5 == 0 ? NO : YES, 1e6 + (seed >> 8) % 100e6, BOB_KEY);
        }
        if (dollar && !atOnce) settle(LATE, NO, 1e6, ALICE_KEY);
        vm.prank(address(resolver));
        wallet.resolve(LATE, YES);
        for (uint256 k; k < later; ++k) {
            ISettlementWallet.StakeView memory s = wallet.stake(honest[k]);
            if (s.outcome == YES) vm.assertGe(s.payable_ + 1, s.amount - s.fee, "a later right bet pays for it");
        }
        wallet.claim(id);
        return token.balanceOf(alice) + 1e6 - before; // the dollar is on the losing side
    }

    function test_aPausedTokenLosesNothing() public {
        uint256 a = settle(LATE, YES, 10e6, ALICE_KEY);
        yesWins();
        (bool ok,) = address(token).call(abi.encodeWithSignature("setPaused(bool)", true));
        vm.assertEq(wallet.pay(LATE, ids(a)), 0);
        (ok,) = address(token).call(abi.encodeWithSignature("setPaused(bool)", false));
        vm.assertTrue(ok);
        vm.assertEq(wallet.pay(LATE, ids(a)), 1);
        solvent();
    }
}

contract PayingOnUsdg is PayingSuite, OnUsdg {}

contract PayingOnOpenZeppelin is PayingSuite, OnOpenZeppelin {}

/// Transfers that do not do what they say.
contract PayingOnALiar is OnUsdc {
    function newToken() internal override returns (address) {
        return address(new LyingToken());
    }

    function test_noTransferNoPayment() public {
        LyingToken liar = LyingToken(address(token));
        uint256 a = settle(LATE, YES, 10e6, ALICE_KEY);
        settle(LATE, NO, 10e6, BOB_KEY);
        feed.push(TARGET, END);
        vm.warp(END + 1);
        resolver.resolve(LATE);
        uint256 owed = wallet.stake(a).payable_;
        LyingToken.Mode[2] memory failing = [LyingToken.Mode.Refuses, LyingToken.Mode.BurnsGas];
        for (uint256 k; k < 2; ++k) {
            liar.setMode(failing[k]);
            vm.assertEq(wallet.pay(LATE, ids(a)), 0);
            vm.assertEq(wallet.stake(a).payable_, owed);
            vm.expectRevert(abi.encodeWithSelector(ISettlementWallet.PaymentFailed.selector, alice, owed));
            wallet.claim{gas: 1_000_000}(a);
            vm.expectRevert(abi.encodeWithSelector(ISettlementWallet.PaymentFailed.selector, TREASURY, 0.4e6));
            wallet.sweepFees{gas: 1_000_000}();
        }
        // A token that says yes but moves another amount has paid no one: everything is still owed.
        paysNobody(a, owed, LyingToken.Mode.Silent, 0);
        paysNobody(a, owed, LyingToken.Mode.Less, owed - 1);
        paysNobody(a, owed, LyingToken.Mode.More, owed + 1);
        liar.setMode(LyingToken.Mode.Honest);
        vm.assertEq(wallet.pay(LATE, ids(a)), 1);
        solvent();
    }

    function paysNobody(uint256 id, uint256 owed, LyingToken.Mode mode, uint256 moved) private {
        LyingToken(address(token)).setMode(mode);
        bytes memory why = abi.encodeWithSelector(ISettlementWallet.WrongAmountSent.selector, owed, moved);
        vm.expectRevert(why);
        wallet.pay(LATE, ids(id));
        vm.expectRevert(why);
        wallet.claim(id);
        vm.assertEq(wallet.stake(id).payable_, owed);
    }

    /// A token whose `transfer` answers nothing is taken at its balance.
    function test_aSilentAnswerIsEnoughWhenTheMoneyMoved() public {
        uint256 a = settle(LATE, YES, 10e6, ALICE_KEY);
        feed.push(TARGET, END);
        vm.warp(END + 1);
        resolver.resolve(LATE);
        vm.etch(address(token), address(new QuietToken()).code);
        vm.assertEq(wallet.pay(LATE, ids(a)), 1);
    }
}

/// Moves by `transfer` and answers nothing; the layout is LocalToken's.
contract QuietToken {
    mapping(address account => uint256 value) private _accounts;

    function balanceOf(address account) external view returns (uint256) {
        return _accounts[account];
    }

    function transfer(address to, uint256 value) external {
        _accounts[msg.sender] -= value;
        _accounts[to] += value;
    }
}

/// A payee that calls back while it is paid, on a token that lets it.
contract Reenterer is SmartWallet, ITokenHook {
    SettlementWallet private immutable _wallet;
    bytes public data;
    bytes public answer;

    constructor(address owner_, SettlementWallet wallet_) SmartWallet(owner_) {
        _wallet = wallet_;
    }

    function aim(bytes calldata data_) external {
        data = data_;
    }

    function onMove() external {
        if (data.length == 0) return;
        (bool ok, bytes memory out) = address(_wallet).call(data);
        require(!ok, "reentered");
        answer = out;
    }
}

/// A payee that burns all gas it is given.
contract Burner is SmartWallet, ITokenHook {
    constructor(address owner_) SmartWallet(owner_) {}

    function onMove() external pure {
        while (true) {}
    }
}

/// A payee whose transfers cost 400,000 gas.
contract Dear is SmartWallet, ITokenHook {
    constructor(address owner_) SmartWallet(owner_) {}

    function onMove() external view {
        uint256 end = gasleft() - 400_000;
        while (gasleft() > end) {}
    }
}

/// The token was upgraded: every transfer costs 400,000 gas.
contract DearToken is LocalUSDC {
    bool public dear;

    function upgrade() external {
        dear = true;
    }

    function _move(address from, address to, uint256 value) internal override {
        super._move(from, to, value);
        if (!dear) return;
        uint256 end = gasleft() - 400_000;
        while (gasleft() > end) {}
    }
}

/// W6: what a batch cannot pay is not lost.
contract PayingOnADearToken is OnUsdc {
    function newToken() internal override returns (address) {
        return address(new DearToken());
    }

    function test_aTokenThatNeeds400kGasIsClaimedAndSwept() public {
        uint256 a = settle(LATE, YES, 10e6, ALICE_KEY);
        uint256 b = settle(LATE, NO, 10e6, BOB_KEY);
        uint256 c = settle(RANGED, 0, 5e6, CAROL_KEY);
        vm.prank(address(resolver));
        wallet.resolve(LATE, YES);
        vm.prank(address(resolver));
        wallet.voidMarket(RANGED, 4);
        DearToken(address(token)).upgrade();
        vm.assertEq(wallet.pay(LATE, ids(a, b)), 0);
        vm.assertEq(wallet.pay(RANGED, ids(c)), 0);
        uint256 owed = wallet.stake(a).payable_;
        uint256 before = token.balanceOf(alice);
        vm.expectRevert(abi.encodeWithSelector(ISettlementWallet.PaymentFailed.selector, alice, owed));
        wallet.claim{gas: 400_000}(a);
        wallet.claim{gas: 700_000}(a);
        vm.assertEq(token.balanceOf(alice), before + owed);
        wallet.claim{gas: 700_000}(c);
        vm.assertEq(token.balanceOf(carol), 1e16);
        wallet.sweepFees{gas: 700_000}();
        vm.assertEq(token.balanceOf(address(wallet)), 0);
    }

    function test_itsStakesAreStillTaken() public {
        DearToken(address(token)).upgrade();
        vm.assertTrue(inBook(settle(LATE, YES, 10e6, ALICE_KEY)));
    }
}

contract Hooked is OnUsdc {
    function newToken() internal override returns (address) {
        return address(new HookToken());
    }

    /// In a batch with gas for it, one that burns what it gets takes nothing from those after it.
    function test_aPayeeThatBurnsGasFailsAlone() public {
        Burner burner = new Burner(carol);
        token.mint(address(burner), 10e6);
        ISettlementWallet.Bet memory i = bet(LATE, YES, 10e6, address(burner));
        ISettlementWallet.Authorization memory a = authorize(CAROL_KEY, i, wallet.betHash(i));
        uint256 first = wallet.settle(i, a);
        uint256 second = settle(LATE, YES, 10e6, ALICE_KEY);
        uint256 third = settle(LATE, YES, 10e6, BOB_KEY);
        feed.push(TARGET, END);
        vm.warp(END + 1);
        resolver.resolve(LATE);
        HookToken(address(token)).setHooked(address(burner), true);
        vm.assertEq(wallet.pay{gas: 600_000}(LATE, ids(first, second, third)), 2);
        vm.assertTrue(inBook(first));
        solvent();
    }

    /// W6: in a batch the dear payee fails alone; claimed, it is paid.
    function test_aPayeeThatNeeds400kGasFailsAloneAndClaims() public {
        Dear dear = new Dear(carol);
        token.mint(address(dear), 10e6);
        ISettlementWallet.Bet memory b = bet(LATE, YES, 10e6, address(dear));
        uint256 first = wallet.settle(b, authorizeReceive(CAROL_KEY, b));
        uint256 second = settle(LATE, YES, 10e6, ALICE_KEY);
        settle(LATE, NO, 10e6, BOB_KEY);
        vm.prank(address(resolver));
        wallet.resolve(LATE, YES);
        HookToken(address(token)).setHooked(address(dear), true);
        uint256 owed = wallet.stake(first).payable_;
        vm.assertEq(wallet.pay(LATE, ids(first, second)), 1);
        vm.assertEq(wallet.stake(first).payable_, owed);
        vm.assertEq(wallet.stake(second).payable_, 0);
        wallet.claim(first);
        vm.assertEq(token.balanceOf(address(dear)), owed);
        vm.etch(TREASURY, address(dear).code);
        HookToken(address(token)).setHooked(TREASURY, true);
        wallet.sweepFees();
        vm.assertEq(token.balanceOf(address(wallet)), 0);
    }

    function test_nothingCanBeReentered() public {
        Reenterer thief = new Reenterer(carol, wallet);
        token.mint(address(thief), 100e6);
        ISettlementWallet.Bet memory i = bet(LATE, YES, 10e6, address(thief));
        ISettlementWallet.Authorization memory a = authorize(CAROL_KEY, i, wallet.betHash(i));
        wallet.settle(i, a);
        uint256 id = wallet.stakeOf(address(thief), i.idemHash);
        settle(LATE, NO, 10e6, ALICE_KEY);
        feed.push(TARGET, END);
        vm.warp(END + 1);
        resolver.resolve(LATE);
        HookToken(address(token)).setHooked(address(thief), true);

        ISettlementWallet.Bet memory j = bet(OTHER, YES, 10e6, address(thief));
        ISettlementWallet.Authorization memory b = authorize(CAROL_KEY, j, wallet.betHash(j));
        vm.prank(SAFE);
        wallet.setRole(RELAYER_ROLE, address(thief), true);
        vm.prank(SAFE);
        wallet.setRole(CREDITOR_ROLE, address(thief), true);
        bytes[8] memory calls = [
            abi.encodeCall(wallet.pay, (LATE, ids(id))),
            abi.encodeCall(wallet.claim, (id)),
            abi.encodeCall(wallet.sweepFees, ()),
            abi.encodeCall(wallet.settle, (j, b)),
            abi.encodeCall(wallet.credit, (j, b)),
            abi.encodeCall(wallet.resolve, (OTHER, 0)),
            abi.encodeCall(wallet.voidMarket, (OTHER, 1)),
            abi.encodeCall(wallet.setPaused, (true))
        ];
        for (uint256 k; k < 2 * calls.length; ++k) {
            uint256 snapshot = vm.snapshotState();
            thief.aim(calls[k / 2]);
            if (k % 2 == 0) vm.assertEq(wallet.pay(LATE, ids(id)), 1);
            else wallet.claim(id);
            vm.assertEq(
                bytes32(thief.answer()), bytes32(ReentrancyGuardTransient.ReentrancyGuardReentrantCall.selector)
            );
            solvent();
            vm.revertToState(snapshot);
        }
    }
}
