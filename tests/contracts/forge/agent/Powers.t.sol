// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {Ownable} from "@openzeppelin/contracts/access/Ownable.sol";

import {AgentLister} from "../../../../contracts/agent/AgentLister.sol";
import {FeedResolver} from "../../../../contracts/agent/FeedResolver.sol";
import {IAgentLister} from "../../../../contracts/agent/IAgentLister.sol";
import {IFeedResolver} from "../../../../contracts/agent/IFeedResolver.sol";
import {ISettlementWallet} from "../../../../contracts/agent/ISettlementWallet.sol";
import {SettlementWallet} from "../../../../contracts/agent/SettlementWallet.sol";
import {IPauser} from "../../../../contracts/lib/IPauser.sol";
import {Pauser} from "../../../../contracts/lib/Pauser.sol";
import {OnUsdc} from "./WalletBase.sol";

/// Each row of the powers table: what a key can, and what its thief cannot.
contract PowersTest is OnUsdc {
    event RoleSet(bytes32 indexed role, address indexed account, bool allowed);
    event StakesPaused(bool paused);
    event GuardianSet(address indexed account, bool allowed);
    event PausedBy(address indexed account);
    event ResumedBy(address indexed account);
    event ListerSet(address indexed account, bool allowed);
    event FeedCondemned(address indexed feed);

    // The Safe appoints

    function test_onlyTheSafeSetsRoles() public {
        address[6] memory others = [LISTER, RELAYER, CREDITOR, GUARDIAN, PUBLISHER, STRANGER];
        for (uint256 k; k < others.length; ++k) {
            bytes memory why = abi.encodeWithSelector(Ownable.OwnableUnauthorizedAccount.selector, others[k]);
            vm.startPrank(others[k]);
            vm.expectRevert(why);
            wallet.setRole(RELAYER_ROLE, STRANGER, true);
            vm.expectRevert(why);
            wallet.setRole(CREDITOR_ROLE, STRANGER, true);
            vm.expectRevert(why);
            lister.setLister(STRANGER, true);
            vm.expectRevert(why);
            pauser.setGuardian(STRANGER, true);
            vm.stopPrank();
        }
        bytes32[2] memory roles = [RELAYER_ROLE, CREDITOR_ROLE];
        for (uint256 k; k < 2; ++k) {
            vm.expectEmit(true, true, true, true, address(wallet));
            emit RoleSet(roles[k], STRANGER, true);
            vm.prank(SAFE);
            wallet.setRole(roles[k], STRANGER, true);
            vm.assertTrue(wallet.hasRole(roles[k], STRANGER));
            vm.assertFalse(wallet.hasRole(roles[1 - k], STRANGER));
            vm.prank(SAFE);
            wallet.setRole(roles[k], STRANGER, false);
            vm.assertFalse(wallet.hasRole(roles[k], STRANGER));
        }
        vm.startPrank(SAFE);
        bytes32[3] memory unknown = [bytes32("X"), keccak256("LISTER"), keccak256("GUARDIAN")];
        for (uint256 k; k < 3; ++k) {
            vm.expectRevert(abi.encodeWithSelector(ISettlementWallet.UnknownRole.selector, unknown[k]));
            wallet.setRole(unknown[k], STRANGER, true);
        }
        vm.expectRevert(abi.encodeWithSelector(ISettlementWallet.ZeroAddress.selector, "account"));
        wallet.setRole(RELAYER_ROLE, address(0), true);
        vm.expectRevert(abi.encodeWithSelector(IAgentLister.ZeroAddress.selector, "account"));
        lister.setLister(address(0), true);
        vm.expectRevert(abi.encodeWithSelector(IPauser.ZeroAddress.selector, "account"));
        pauser.setGuardian(address(0), true);
        vm.expectEmit(true, true, true, true, address(lister));
        emit ListerSet(STRANGER, true);
        lister.setLister(STRANGER, true);
        vm.assertTrue(lister.isLister(STRANGER));
        vm.expectEmit(true, true, true, true, address(pauser));
        emit GuardianSet(STRANGER, true);
        pauser.setGuardian(STRANGER, true);
        vm.assertTrue(pauser.isGuardian(STRANGER));
        vm.stopPrank();
    }

    function test_ownershipMovesInTwoSteps() public {
        address[3] memory owned = [address(wallet), address(lister), address(pauser)];
        for (uint256 k; k < 3; ++k) {
            AgentLister c = AgentLister(owned[k]); // all three have OpenZeppelin's two steps
            vm.prank(SAFE);
            c.transferOwnership(STRANGER);
            vm.assertEq(c.owner(), SAFE);
            vm.prank(LISTER);
            vm.expectRevert(abi.encodeWithSelector(Ownable.OwnableUnauthorizedAccount.selector, LISTER));
            c.acceptOwnership();
            vm.prank(STRANGER);
            c.acceptOwnership();
            vm.assertEq(c.owner(), STRANGER);
            vm.prank(STRANGER);
            vm.expectRevert(ISettlementWallet.OwnershipCannotBeRenounced.selector);
            c.renounceOwnership();
        }
    }

    function test_constructorsRefuseNothing() public {
        string[5] memory names = ["token", "lister", "resolver", "guardian", "treasury"];
        for (uint256 k; k < 5; ++k) {
            address[5] memory a = [address(token), address(lister), address(resolver), address(pauser), TREASURY];
            a[k] = address(0);
            vm.expectRevert(abi.encodeWithSelector(ISettlementWallet.ZeroAddress.selector, names[k]));
            new SettlementWallet(a[0], a[1], a[2], a[3], SAFE, a[4]);
        }
        bytes memory noOwner = abi.encodeWithSelector(Ownable.OwnableInvalidOwner.selector, address(0));
        vm.expectRevert(noOwner);
        new SettlementWallet(address(token), address(lister), address(resolver), address(pauser), address(0), TREASURY);
        vm.expectRevert();
        new SettlementWallet(address(feed), address(lister), address(resolver), address(pauser), SAFE, TREASURY); // not a token
        vm.expectRevert(abi.encodeWithSelector(IFeedResolver.ZeroAddress.selector, "settler"));
        new FeedResolver(address(0), address(lister));
        vm.expectRevert(abi.encodeWithSelector(IFeedResolver.ZeroAddress.selector, "lister"));
        new FeedResolver(address(wallet), address(0));
        vm.expectRevert(abi.encodeWithSelector(IAgentLister.ZeroAddress.selector, "settler"));
        new AgentLister(address(0), address(resolver), SAFE, defaultBounds());
        vm.expectRevert(abi.encodeWithSelector(IAgentLister.ZeroAddress.selector, "resolver"));
        new AgentLister(address(wallet), address(0), SAFE, defaultBounds());
        vm.expectRevert(noOwner);
        new AgentLister(address(wallet), address(resolver), address(0), defaultBounds());
        IAgentLister.Bounds memory b = defaultBounds();
        b.feeBps = 1001;
        vm.expectRevert(
            abi.encodeWithSelector(IAgentLister.OutOfBounds.selector, IAgentLister.Field.FeeBps, 1001, 175, 1000)
        );
        new AgentLister(address(wallet), address(resolver), SAFE, b);
        vm.expectRevert(abi.encodeWithSelector(IPauser.ZeroAddress.selector, "target"));
        new Pauser(address(0), SAFE);
        vm.expectRevert(noOwner);
        new Pauser(address(wallet), address(0));
    }

    function test_theContractsKnowEachOther() public view {
        vm.assertEq(wallet.token(), address(token));
        vm.assertEq(wallet.lister(), address(lister));
        vm.assertEq(wallet.resolver(), address(resolver));
        vm.assertEq(wallet.guardian(), address(pauser));
        vm.assertEq(wallet.treasury(), TREASURY);
        vm.assertEq(resolver.settler(), address(wallet));
        vm.assertEq(resolver.lister(), address(lister));
        vm.assertEq(lister.settler(), address(wallet));
        vm.assertEq(lister.resolver(), address(resolver));
        vm.assertEq(pauser.target(), address(wallet));
    }

    /// The bounds that the arithmetic needs hold for any input of the lister's contract.
    function test_theSettlerChecksWhatItsArithmeticNeeds() public {
        ISettlementWallet.OpenParams memory p = openParams(2);
        p.weights = new uint32[](1);
        openRefused(p, abi.encodeWithSelector(ISettlementWallet.WrongNumberOfOutcomes.selector, 1));
        p.weights = new uint32[](9);
        openRefused(p, abi.encodeWithSelector(ISettlementWallet.WrongNumberOfOutcomes.selector, 9));
        p = openParams(2);
        p.closesAt = p.opensAt;
        openRefused(p, abi.encodeWithSelector(ISettlementWallet.ClosesBeforeItOpens.selector, p.opensAt, p.opensAt));
        p = openParams(3);
        p.weights[1] = 0;
        openRefused(p, abi.encodeWithSelector(ISettlementWallet.WeightOutOfBounds.selector, 1, 0, 1, type(uint32).max));
        p = openParams(2);
        p.feeBps = 1001;
        openRefused(p, abi.encodeWithSelector(ISettlementWallet.FeeOutOfBounds.selector, 1001, 1000));
        p = openParams(2);
        p.potCap = 1e6 - 1;
        openRefused(p, abi.encodeWithSelector(ISettlementWallet.PotCapOutOfBounds.selector, 1e6 - 1, 1e6, 5e17));
        p.potCap = 5e17 + 1;
        openRefused(p, abi.encodeWithSelector(ISettlementWallet.PotCapOutOfBounds.selector, 5e17 + 1, 1e6, 5e17));
    }

    function openParams(uint256 outcomes) private pure returns (ISettlementWallet.OpenParams memory p) {
        (p.opensAt, p.closesAt, p.feeBps, p.potCap) = (uint64(T0), uint64(CLOSE), FEE_BPS, POT_CAP);
        p.weights = new uint32[](outcomes);
        for (uint256 k; k < outcomes; ++k) {
            p.weights[k] = WEIGHT;
        }
    }

    function openRefused(ISettlementWallet.OpenParams memory p, bytes memory why) private {
        vm.prank(address(lister));
        vm.expectRevert(why);
        wallet.open("new", p);
    }

    // Pausing

    function test_guardiansPauseAndOnlyTheSafeResumes() public {
        address[6] memory others = [LISTER, RELAYER, CREDITOR, PUBLISHER, TREASURY, STRANGER];
        for (uint256 k; k < others.length; ++k) {
            vm.startPrank(others[k]);
            vm.expectRevert(abi.encodeWithSelector(IPauser.NotGuardian.selector, others[k]));
            pauser.pause();
            vm.expectRevert(abi.encodeWithSelector(Ownable.OwnableUnauthorizedAccount.selector, others[k]));
            pauser.resume();
            vm.expectRevert(abi.encodeWithSelector(ISettlementWallet.NotGuardian.selector, others[k], address(pauser)));
            wallet.setPaused(true);
            vm.stopPrank();
        }
        vm.expectEmit(true, true, true, true, address(wallet));
        emit StakesPaused(true);
        vm.expectEmit(true, true, true, true, address(pauser));
        emit PausedBy(GUARDIAN);
        vm.prank(GUARDIAN);
        pauser.pause();
        vm.assertTrue(wallet.paused());
        vm.prank(GUARDIAN);
        vm.expectRevert(abi.encodeWithSelector(Ownable.OwnableUnauthorizedAccount.selector, GUARDIAN));
        pauser.resume();
        vm.expectEmit(true, true, true, true, address(pauser));
        emit ResumedBy(SAFE);
        vm.prank(SAFE);
        pauser.resume();
        vm.assertFalse(wallet.paused());
        vm.prank(SAFE);
        pauser.pause();
        vm.assertTrue(wallet.paused());
        vm.startPrank(SAFE);
        pauser.setGuardian(GUARDIAN, false);
        pauser.resume();
        // Nor does the Safe reach past the pauser.
        vm.expectRevert(abi.encodeWithSelector(ISettlementWallet.NotGuardian.selector, SAFE, address(pauser)));
        wallet.setPaused(true);
        vm.stopPrank();
        vm.prank(GUARDIAN);
        vm.expectRevert(abi.encodeWithSelector(IPauser.NotGuardian.selector, GUARDIAN));
        pauser.pause();
    }

    /// Said in the powers table: a guardian can bet and pause, so that no one bets against it any more.
    function test_aGuardianCanPauseRightAfterABetOfItsOwn() public {
        uint256 mine = settle(LATE, YES, 10e6, ALICE_KEY); // alice is the guardian's friend
        vm.prank(GUARDIAN);
        pauser.pause();
        ISettlementWallet.Bet memory b = bet(LATE, NO, 10e6, bob);
        ISettlementWallet.Authorization memory a = authorizeReceive(BOB_KEY, b);
        vm.expectRevert(ISettlementWallet.StakesArePaused.selector);
        wallet.settle(b, a);
        // It wins nothing by it: with no one on the other side its stake goes back.
        feed.push(TARGET, END);
        vm.warp(END + 1);
        resolver.resolve(LATE);
        vm.assertEq(wallet.stake(mine).payable_, 10e6);
    }

    /// While paused: listing, crediting, settling, condemning, paying, refunding, sweeping all go on.
    function test_thePauseStopsStakesOnly() public {
        uint256 a = settle(LATE, YES, 10e6, ALICE_KEY);
        settle(LATE, NO, 10e6, CAROL_KEY);
        uint256 b = settle(RANGED, 0, 10e6, ALICE_KEY);
        uint256 d = settle(POSTED, 0, 10e6, ALICE_KEY);
        ISettlementWallet.Bet memory late = bet(LATE, YES, 10e6, bob);
        ISettlementWallet.Authorization memory auth = authorize(BOB_KEY, late, freshNonce());
        frontRun(bob, auth);
        vm.prank(GUARDIAN);
        pauser.pause();
        list("new", thresholdSpec(false));
        vm.prank(CREDITOR);
        uint256 c = wallet.credit(late, auth);
        wallet.claim(c);
        vm.prank(SAFE);
        lister.condemn(address(posted));
        resolver.voidMarket(POSTED);
        wallet.claim(d);
        feed.push(TARGET, END);
        vm.warp(END + 1);
        resolver.resolve(LATE);
        wallet.pay(LATE, ids(a));
        wallet.sweepFees();
        vm.warp(END + VOID_DELAY + 1);
        resolver.voidMarket(RANGED);
        wallet.pay(RANGED, ids(b));
        vm.assertEq(token.balanceOf(address(wallet)), 0);
    }

    // What no one can

    /// Every function of the four contracts, called by every key with a market's stakes in, moves no money and settles nothing.
    function test_nobodyMovesAStakeOrChoosesAnOutcome() public {
        settle(LATE, YES, 10e6, ALICE_KEY);
        settle(LATE, NO, 10e6, BOB_KEY);
        feed.push(TARGET, T0 + 10);
        vm.warp(T0 + 20);
        bytes32 book = snapshotOf(LATE);
        address[8] memory callers = [SAFE, LISTER, RELAYER, CREDITOR, GUARDIAN, PUBLISHER, TREASURY, STRANGER];
        uint256[] memory stakes = wallet.stakesOf(LATE, 0, 2);
        for (uint256 k; k < callers.length; ++k) {
            vm.startPrank(callers[k]);
            attempt(address(resolver), abi.encodeCall(resolver.resolve, (LATE)));
            attempt(address(resolver), abi.encodeCall(resolver.resolveWith, (LATE, uint80(1 << 64 | 2), 0)));
            attempt(address(resolver), abi.encodeCall(resolver.voidMarket, (LATE)));
            attempt(address(resolver), abi.encodeCall(resolver.voidWith, (LATE, uint80(1 << 64 | 2), 0)));
            attempt(address(resolver), abi.encodeCall(resolver.register, (LATE, resolver.terms(OTHER))));
            attempt(address(wallet), abi.encodeCall(wallet.resolve, (LATE, YES)));
            attempt(address(wallet), abi.encodeCall(wallet.voidMarket, (LATE, 1)));
            attempt(address(wallet), abi.encodeCall(wallet.open, (LATE, openParams(2))));
            attempt(address(wallet), abi.encodeCall(wallet.pay, (LATE, stakes)));
            attempt(address(wallet), abi.encodeCall(wallet.claim, (stakes[0])));
            attempt(address(wallet), abi.encodeCall(wallet.sweepFees, ()));
            attempt(address(lister), abi.encodeCall(lister.list, (LATE, thresholdSpec(true), "")));
            attempt(address(lister), abi.encodeCall(lister.condemn, (address(feed))));
            vm.stopPrank();
            vm.assertEq(snapshotOf(LATE), book);
        }
    }

    /// The Safe's whole power over money that is staked: it gives a feed's open bets back, once, and picks no market.
    function test_theSafeCanCancelAFeedsOpenBetsOnceAndNothingElse() public {
        uint256 a = settle(POSTED, YES, 10e6, ALICE_KEY);
        settle(LATE, YES, 10e6, BOB_KEY);
        bytes32 book = snapshotOf(LATE);
        vm.startPrank(SAFE);
        // New bounds and a feed off the list touch nothing that is listed.
        IAgentLister.Bounds memory b = defaultBounds();
        (b.feeBps, b.voidDelay, b.disputeWindow) = (1000, 1 hours, 1 minutes);
        lister.setBounds(b);
        lister.setFeed(address(feed), false, 0, 0, 0, 0);
        lister.setFeed(address(posted), false, 0, 0, 0, 0);
        vm.expectEmit(true, true, true, true, address(lister));
        emit FeedCondemned(address(posted));
        lister.condemn(address(posted)); // off the list, and still accountable
        vm.stopPrank();
        vm.assertEq(snapshotOf(LATE), book);
        vm.assertEq(resolver.terms(LATE).voidsAfter, END + VOID_DELAY);
        resolver.voidMarket(POSTED);
        wallet.claim(a);
        vm.assertEq(token.balanceOf(alice), 1e16);
        vm.expectRevert(abi.encodeWithSelector(IFeedResolver.TooEarly.selector, LATE, END + 1));
        resolver.voidMarket(LATE);
    }

    /// W4: the thief of RELAYER takes payments with random nonces: he stakes them on his friend's losing side. He takes no bound
    /// payment, nothing of what is booked, and nothing that is unbooked.
    function test_whatTheThiefOfTheRelayerTakes() public {
        // Alice wants YES on LATE. The thief stakes her money on the side that will lose, after his friend's.
        ISettlementWallet.Bet memory hers = bet(LATE, YES, 100e6, alice);
        ISettlementWallet.Authorization memory random = authorize(ALICE_KEY, hers, freshNonce());
        uint256 friends = settle(LATE, YES, 10e6, BOB_KEY);
        hers.outcome = NO;
        vm.prank(RELAYER);
        wallet.settle(hers, random);
        vm.prank(address(resolver));
        wallet.resolve(LATE, YES);
        uint256 before = token.balanceOf(bob);
        wallet.claim(friends);
        vm.assertGt(token.balanceOf(bob), before + 100e6); // the whole of it, in the worst case
        // Bound, it is as she signed or not at all.
        hers = bet(RANGED, 1, 100e6, alice);
        ISettlementWallet.Authorization[2] memory bound =
            [authorizeBound(ALICE_KEY, hers), authorizeReceive(ALICE_KEY, hers)];
        hers.outcome = 2;
        for (uint256 k; k < 2; ++k) {
            vm.prank(RELAYER);
            vm.expectRevert(
                abi.encodeWithSelector(
                    ISettlementWallet.BoundToAnotherBet.selector, bound[k].nonce, wallet.betHash(hers)
                )
            );
            wallet.settle(hers, bound[k]);
        }
    }

    /// Unbooked money has no door but `credit`, and that needs a used authorization and its payer's signature.
    function test_unbookedMoneyIsNobodys() public {
        token.mint(address(wallet), 77e6);
        uint256 a = settle(LATE, YES, 10e6, ALICE_KEY);
        settle(LATE, NO, 10e6, BOB_KEY);
        feed.push(TARGET, END);
        vm.warp(END + 1);
        resolver.resolve(LATE);
        wallet.pay(LATE, ids(a));
        wallet.sweepFees();
        vm.assertEq(token.balanceOf(address(wallet)), 77e6);
        address[8] memory callers = [SAFE, LISTER, RELAYER, CREDITOR, GUARDIAN, PUBLISHER, TREASURY, STRANGER];
        ISettlementWallet.Bet memory b = bet(OTHER, YES, 77e6, carol);
        ISettlementWallet.Authorization memory unused = authorize(CAROL_KEY, b, freshNonce());
        for (uint256 k; k < callers.length; ++k) {
            vm.startPrank(callers[k]);
            attempt(address(wallet), abi.encodeCall(wallet.sweepFees, ()));
            attempt(address(wallet), abi.encodeCall(wallet.credit, (b, unused)));
            attempt(address(wallet), abi.encodeCall(wallet.claim, (a)));
            vm.stopPrank();
        }
        vm.assertEq(token.balanceOf(address(wallet)), 77e6);
    }

    /// The lister's key chooses what is asked, with what prior, and when; not who wins, not the fee, and nothing afterwards.
    function test_whatTheThiefOfTheListerCanDo() public {
        IAgentLister.MarketSpec memory s = thresholdSpec(false);
        s.target = 1; // as good as answered, and priced even: the first bettor against it can see that from the question
        list("rigged", s);
        vm.assertEq(wallet.outcomeBook("rigged", YES).price, 0.5e18);
        vm.assertEq(wallet.market("rigged").feeBps, FEE_BPS);
        vm.startPrank(LISTER);
        vm.expectRevert(abi.encodeWithSelector(ISettlementWallet.AlreadyOpened.selector, bytes32("rigged")));
        lister.list("rigged", s, "");
        bytes memory notOwner = abi.encodeWithSelector(Ownable.OwnableUnauthorizedAccount.selector, LISTER);
        vm.expectRevert(notOwner);
        lister.setBounds(defaultBounds());
        vm.expectRevert(notOwner);
        lister.setFeed(address(feed), true, 1, 1, 1e6, FEED_CAP);
        vm.stopPrank();
    }

    /// The treasury gets fees of what was resolved with winners and losers, and the dust of the fully paid.
    function test_openMarketsPayNoFees() public {
        settle(LATE, YES, 10e6, ALICE_KEY);
        vm.expectRevert(ISettlementWallet.NoFees.selector);
        wallet.sweepFees();
    }

    function attempt(address target, bytes memory data) private {
        (bool ok,) = target.call(data);
        vm.assertFalse(ok);
    }

    function snapshotOf(bytes32 m) private view returns (bytes32) {
        (uint256 open, uint256 unpaid, uint256 fees) = wallet.liabilities();
        return keccak256(
            abi.encode(wallet.market(m), resolver.terms(m), open, unpaid, fees, token.balanceOf(address(wallet)))
        );
    }
}
