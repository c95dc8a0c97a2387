// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {ReentrancyGuardTransient} from "@openzeppelin/contracts/utils/ReentrancyGuardTransient.sol";

import {ISettlementWallet} from "../../../../contracts/settlement/ISettlementWallet.sol";
import {SettlementWallet} from "../../../../contracts/settlement/SettlementWallet.sol";
import {HookToken, ITokenHook, LyingToken} from "../vpm/HostileTokens.sol";
import {OnOpenZeppelin, OnUsdc, OnUsdg, SmartWallet, WalletBase} from "./WalletBase.sol";

abstract contract PayingSuite is WalletBase {
    event Paid(bytes32 indexed marketId, uint256 indexed stakeId, address indexed wallet, uint256 amount, bool refund);
    event PayoutFailed(bytes32 indexed marketId, uint256 indexed stakeId, address indexed wallet, uint256 amount);
    event FeesSwept(uint256 amount);

    function test_winnersSplitTheNetPoolByShares() public {
        uint256 a = settle(LATE, YES, 10e6 + 1, ALICE_KEY);
        uint256 b = settle(LATE, YES, 20e6 + 7, BOB_KEY);
        uint256 c = settle(LATE, NO, 33e6 + 3, CAROL_KEY);
        vm.expectRevert(abi.encodeWithSelector(ISettlementWallet.NotSettled.selector, LATE));
        wallet.pay(LATE, ids(a));
        yesWins();
        uint256 pool = wallet.market(LATE).netPool;
        (, uint256 issued,,) = wallet.outcomeBook(LATE, YES);
        uint256 toAlice = wallet.stake(a).shares * pool / issued;
        uint256 toBob = wallet.stake(b).shares * pool / issued;
        vm.assertEq(wallet.stake(a).payable_, toAlice);
        vm.assertEq(wallet.stake(c).payable_, 0);
        owes(0, pool, 63e6 + 11 - pool);

        {
            uint256 before = token.balanceOf(alice);
            vm.expectEmit(true, true, true, true, address(wallet));
            emit Paid(LATE, a, alice, toAlice, false);
            vm.prank(STRANGER);
            vm.assertEq(wallet.pay(LATE, ids(c, a, a)), 1);
            vm.assertEq(token.balanceOf(alice), before + toAlice);
        }
        vm.assertEq(token.balanceOf(STRANGER), 0);
        vm.assertEq(uint256(wallet.stake(a).status), 3);
        vm.assertEq(wallet.market(LATE).paidOut, toAlice);
        solvent();

        vm.assertEq(wallet.pay(LATE, ids(a, b, c)), 1);
        vm.assertEq(wallet.pay(LATE, ids(a, b, c)), 0);
        vm.assertEq(uint256(wallet.stake(c).status), 1); // a losing stake stays in the book
        // The last winner is paid: the dust of the floors joins the fees, and all of it can go.
        uint256 fees = 63e6 + 11 - toAlice - toBob;
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

    function test_withoutAWinnerEverythingGoesBackWhole() public {
        uint256 a = settle(LATE, NO, 10e6 + 1, ALICE_KEY);
        uint256 b = settle(LATE, NO, 20e6 + 7, BOB_KEY);
        yesWins();
        vm.assertTrue(wallet.market(LATE).refunding);
        vm.assertEq(uint256(wallet.market(LATE).status), 2);
        refundsWhole(a, b);
    }

    function test_voidGivesEverythingBackWhole() public {
        uint256 a = settle(LATE, YES, 10e6 + 1, ALICE_KEY);
        uint256 b = settle(LATE, NO, 20e6 + 7, BOB_KEY);
        feed.push(0, CLOSE);
        vm.warp(CLOSE + 1);
        wallet.voidMarket(LATE, 0);
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
        vm.assertEq(uint256(wallet.stake(a).status), 4);
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
        vm.assertEq(uint256(wallet.stake(a).status), 1);
        solvent();
        wallet.sweepFees(); // the fees do not wait for anybody
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
        yesWins();
        token.freeze(TREASURY);
        vm.expectRevert(abi.encodeWithSelector(ISettlementWallet.SweepFailed.selector, TREASURY, 0.2e6));
        wallet.sweepFees();
        vm.assertEq(wallet.pay(LATE, ids(a)), 1);
        token.unfreeze(TREASURY);
        wallet.sweepFees();
        vm.assertEq(token.balanceOf(TREASURY), 0.2e6);
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
        uint256 other = settle(EARLY, YES, 10e6, ALICE_KEY);
        yesWins();
        vm.expectRevert(abi.encodeWithSelector(ISettlementWallet.UnknownStake.selector, a + 1));
        wallet.pay(LATE, ids(a, a + 1));
        vm.expectRevert(abi.encodeWithSelector(ISettlementWallet.StakeOfAnotherMarket.selector, other, LATE));
        wallet.pay(LATE, ids(a, other));
        vm.assertEq(wallet.pay(LATE, new uint256[](0)), 0);
    }

    function test_marketsDoNotTouchEachOther() public {
        uint256 a = settle(LATE, YES, 10e6, ALICE_KEY);
        uint256 b = settle(RANGED, 3, 500e6, BOB_KEY);
        yesWins();
        wallet.pay(LATE, ids(a));
        wallet.sweepFees();
        (uint256 open, uint256 unpaid, uint256 fees) = wallet.liabilities();
        vm.assertEq(open, 500e6);
        vm.assertEq(unpaid + fees, 0);
        vm.assertEq(token.balanceOf(address(wallet)), 500e6);
        vm.warp(CLOSE + VOID_DELAY + 1);
        wallet.voidMarket(RANGED, 0);
        vm.assertEq(wallet.pay(RANGED, ids(b)), 1);
        vm.assertEq(token.balanceOf(address(wallet)), 0);
    }

    /// Starving the transfer must not look like a wallet that cannot be paid.
    function test_starvedPayoutsRevert() public {
        uint256 a = settle(LATE, YES, 10e6, ALICE_KEY);
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
                vm.assertEq(uint256(wallet.stake(a).status), 3);
                done = true;
            }
            vm.revertToState(snapshot);
        }
        vm.assertTrue(done);
    }

    function yesWins() internal {
        feed.push(TARGET, CLOSE);
        vm.warp(CLOSE + 1);
        vm.prank(STRANGER);
        wallet.resolve(LATE);
    }
}

contract PayingOnUsdc is PayingSuite, OnUsdc {
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
        feed.push(TARGET, CLOSE);
        vm.warp(CLOSE + 1);
        wallet.resolve(LATE);
        uint256 owed = wallet.stake(a).payable_;
        LyingToken.Mode[3] memory failing = [LyingToken.Mode.Silent, LyingToken.Mode.Refuses, LyingToken.Mode.BurnsGas];
        for (uint256 k; k < 3; ++k) {
            liar.setMode(failing[k]);
            vm.assertEq(wallet.pay(LATE, ids(a)), 0);
            vm.assertEq(wallet.stake(a).payable_, owed);
            vm.expectRevert();
            wallet.sweepFees();
        }
        liar.setMode(LyingToken.Mode.More);
        vm.expectRevert(abi.encodeWithSelector(ISettlementWallet.WrongAmountSent.selector, owed, owed + 1));
        wallet.pay(LATE, ids(a));
        liar.setMode(LyingToken.Mode.Less);
        vm.expectRevert(abi.encodeWithSelector(ISettlementWallet.WrongAmountSent.selector, owed, owed - 1));
        wallet.pay(LATE, ids(a));
        liar.setMode(LyingToken.Mode.Honest);
        vm.assertEq(wallet.pay(LATE, ids(a)), 1);
        solvent();
    }

    /// A token whose `transfer` answers nothing is taken at its balance.
    function test_aSilentAnswerIsEnoughWhenTheMoneyMoved() public {
        uint256 a = settle(LATE, YES, 10e6, ALICE_KEY);
        feed.push(TARGET, CLOSE);
        vm.warp(CLOSE + 1);
        wallet.resolve(LATE);
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

contract Hooked is OnUsdc {
    function newToken() internal override returns (address) {
        return address(new HookToken());
    }

    /// In a batch with gas for it, one that burns what it gets takes nothing from those after it.
    function test_aPayeeThatBurnsGasFailsAlone() public {
        Burner burner = new Burner(carol);
        token.mint(address(burner), 10e6);
        ISettlementWallet.Intent memory i = intent(LATE, YES, 10e6, address(burner));
        ISettlementWallet.Authorization memory a = authorize(CAROL_KEY, i, wallet.intentHash(i));
        uint256 first = wallet.settle(i, a);
        uint256 second = settle(LATE, YES, 10e6, ALICE_KEY);
        uint256 third = settle(LATE, YES, 10e6, BOB_KEY);
        feed.push(TARGET, CLOSE);
        vm.warp(CLOSE + 1);
        wallet.resolve(LATE);
        HookToken(address(token)).setHooked(address(burner), true);
        vm.assertEq(wallet.pay{gas: 600_000}(LATE, ids(first, second, third)), 2);
        vm.assertEq(uint256(wallet.stake(first).status), 1);
        solvent();
    }

    function test_nothingCanBeReentered() public {
        Reenterer thief = new Reenterer(carol, wallet);
        token.mint(address(thief), 100e6);
        ISettlementWallet.Intent memory i = intent(LATE, YES, 10e6, address(thief));
        ISettlementWallet.Authorization memory a = authorize(CAROL_KEY, i, wallet.intentHash(i));
        wallet.settle(i, a);
        uint256 id = wallet.stakeOf(address(thief), i.idemHash);
        settle(LATE, NO, 10e6, ALICE_KEY);
        feed.push(TARGET, CLOSE);
        vm.warp(CLOSE + 1);
        wallet.resolve(LATE);
        HookToken(address(token)).setHooked(address(thief), true);

        ISettlementWallet.Intent memory j = intent(EARLY, YES, 10e6, address(thief));
        ISettlementWallet.Authorization memory b = authorize(CAROL_KEY, j, wallet.intentHash(j));
        vm.prank(OWNER);
        wallet.setRole(keccak256("RELAYER"), address(thief), true);
        bytes[6] memory calls = [
            abi.encodeCall(wallet.pay, (LATE, ids(id))),
            abi.encodeCall(wallet.sweepFees, ()),
            abi.encodeCall(wallet.settle, (j, b)),
            abi.encodeCall(wallet.credit, (j, b)),
            abi.encodeWithSignature("resolve(bytes32,uint80)", EARLY, 0),
            abi.encodeCall(wallet.voidMarket, (EARLY, 0))
        ];
        for (uint256 k; k < calls.length; ++k) {
            uint256 snapshot = vm.snapshotState();
            thief.aim(calls[k]);
            vm.assertEq(wallet.pay(LATE, ids(id)), 1);
            vm.assertEq(
                bytes32(thief.answer()), bytes32(ReentrancyGuardTransient.ReentrancyGuardReentrantCall.selector)
            );
            solvent();
            vm.revertToState(snapshot);
        }
    }
}
