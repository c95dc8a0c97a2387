// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {AgentLister} from "../../../../contracts/agent/AgentLister.sol";
import {FeedResolver} from "../../../../contracts/agent/FeedResolver.sol";
import {IAgentLister} from "../../../../contracts/agent/IAgentLister.sol";
import {IFeedResolver} from "../../../../contracts/agent/IFeedResolver.sol";
import {ISettlementWallet} from "../../../../contracts/agent/ISettlementWallet.sol";
import {SettlementWallet} from "../../../../contracts/agent/SettlementWallet.sol";
import {ObservationFeed} from "../../../../contracts/feeds/ObservationFeed.sol";
import {Pauser} from "../../../../contracts/lib/Pauser.sol";
import {LocalFeed} from "../../../../contracts/local/LocalFeed.sol";
import {Vm} from "../Base.sol";
import {Deployed, Deployer, ITestToken} from "./WalletBase.sol";

/// One settlement wallet on one token, and everything that anyone can do to it, in any order: payers who sign one nonce twice, cancel and
/// front-run; a relayer who stakes payments on other bets; a creditor who books what no one paid (unless it is honest); a lister of unfair
/// markets; a guardian; a publisher who lies or is silent; the Safe; strangers. What a call must do in the state it finds is asserted where
/// the call is made. `unbooked` follows the money that no one has booked yet.
contract World is Deployer {
    uint256 private constant PAYERS = 6;
    uint256 private constant MAX_OPEN = 8;
    uint64 private constant FEED_CAP = type(uint64).max;
    uint256 private constant MARGIN = 60;
    uint32 private constant MEMORY = 5 minutes;
    uint32 private constant MAX_AGE = 1 hours;
    uint32 private constant LAG = 1 minutes;
    bytes32 private constant TRANSFER_TYPEHASH = keccak256(
        "TransferWithAuthorization(address from,address to,uint256 value,uint256 validAfter,uint256 validBefore,bytes32 nonce)"
    );
    bytes32 private constant RECEIVE_TYPEHASH = keccak256(
        "ReceiveWithAuthorization(address from,address to,uint256 value,uint256 validAfter,uint256 validBefore,bytes32 nonce)"
    );
    bytes32 private constant CANCEL_TYPEHASH = keccak256("CancelAuthorization(address authorizer,bytes32 nonce)");
    bytes32 private constant PAID = keccak256("Paid(bytes32,uint256,address,uint256,bool)");
    address private constant TREASURY = address(0x7E);
    address private constant LISTER = address(0x11);
    address private constant RELAYER = address(0x12);
    address private constant GUARDIAN = address(0x13);
    address private constant CREDITOR = address(0x14);
    address private constant PUBLISHER = address(0x15);
    address private constant STRANGER = address(0x99);

    struct Payment {
        ISettlementWallet.Bet bet;
        ISettlementWallet.Authorization authorization;
    }

    bool public immutable honest; // the creditor
    ITestToken public immutable token;
    SettlementWallet public immutable wallet;
    FeedResolver public immutable resolver;
    AgentLister public immutable lister;
    Pauser public immutable pauser;
    LocalFeed public immutable feed;
    LocalFeed private immutable _rogue; // on no one's list
    bytes32 private immutable _domain;
    ObservationFeed public posted; // condemned ones are replaced

    uint256 public time;
    uint256 public unbooked;
    uint256 public waiting; // of it, what a payer paid for a bet, not yet credited
    uint256 public gifts; // and what no one can claim: donations, transfers under marked nonces
    bytes32[] private _markets; // unsettled ones first, up to `_open`
    uint256 private _open;
    Payment[] private _pending; // what really paid, not yet booked
    Payment[] private _baits; // signed with nonces that are used, for what they did not pay
    uint256 private _serial;
    mapping(address payer => mapping(bytes32 nonce => bool)) private _served;
    mapping(uint256 stakeId => bool) private _paid;
    mapping(bytes32 marketId => uint256) private _won;
    mapping(string what => uint256) public seen;

    /// This contract is the Safe.
    constructor(address token_, uint256 start, bool honest_) {
        time = start;
        honest = honest_;
        token = ITestToken(token_);
        _domain = token.DOMAIN_SEPARATOR();
        Deployed memory d = deployAll(
            token_,
            address(this),
            TREASURY,
            IAgentLister.Bounds({feeBps: 200, minWeight: 1e6, maxWeight: 1e9, disputeWindow: 600, voidDelay: 1 hours})
        );
        (wallet, resolver, lister, pauser) = (d.wallet, d.resolver, d.lister, d.pauser);
        feed = new LocalFeed();
        _rogue = new LocalFeed();
        feed.push(100e8, start);
        _rogue.push(100e8, start);
        wallet.setRole(keccak256("RELAYER"), RELAYER, true);
        wallet.setRole(keccak256("CREDITOR"), CREDITOR, true);
        lister.setLister(LISTER, true);
        pauser.setGuardian(GUARDIAN, true);
        lister.setFeed(address(feed), true, MEMORY, MAX_AGE, 5e17, FEED_CAP);
        newPosted();
        for (uint256 k; k < PAYERS; ++k) {
            token.mint(vm.addr(key(k)), 1e17);
        }
    }

    // The lister

    /// Half of the markets are meant to be fair; of the other half the contract lists those that are.
    function list(uint256 seed) public {
        if (_open >= MAX_OPEN) return;
        IAgentLister.MarketSpec memory s = seed % 2 == 0 ? fairSpec(seed >> 1) : anySpec(seed >> 1);
        bytes32 id = keccak256(abi.encode("market", ++_serial));
        bool fair_ = fair(s);
        vm.prank(LISTER);
        try lister.list(id, s, "") {
            vm.assertTrue(fair_, "an unfair market was listed");
            _markets.push(id);
            (_markets[_open], _markets[_markets.length - 1]) = (id, _markets[_open]);
            ++_open;
            ++seen["listed"];
        } catch {
            ++seen["not listed"];
        }
    }

    function fairSpec(uint256 seed) private view returns (IAgentLister.MarketSpec memory s) {
        s = shape(seed);
        s.opensAt = uint64(time);
        s.closesAt = uint64(time + 30 minutes + seed % 4 hours);
        s.endsAt = uint64(2 * uint256(s.closesAt) - time + MARGIN + MEMORY + seed % 1 hours);
        if (s.kind == IFeedResolver.Kind.Direction) {
            s.startAt = uint64(s.closesAt + MARGIN + MEMORY);
            s.endsAt = uint64(s.startAt + 2 * MEMORY + seed % 1 hours);
        }
        s.earlyResolvable = false;
    }

    /// Times a little off the limits, foreign feeds, weights out of bounds.
    function anySpec(uint256 seed) private view returns (IAgentLister.MarketSpec memory s) {
        s = fairSpec(seed);
        uint256 what = (seed >> 100) % 8;
        uint256 by = (seed >> 104) % 20 minutes;
        if (what == 0) s.closesAt = uint64(s.closesAt + by);
        if (what == 1) s.endsAt = uint64(s.endsAt - by);
        if (what == 2) s.startAt = uint64(s.startAt - (s.startAt < by ? 0 : by));
        if (what == 3) s.feed = address(_rogue);
        if (what == 4) s.weights[0] = uint32(seed >> 120);
        if (what == 5) s.earlyResolvable = true;
        if (what == 6) s.opensAt = uint64(s.opensAt + by);
        if (what == 7) s.closesAt = uint64(s.endsAt - (seed >> 120) % 3);
    }

    function shape(uint256 seed) private view returns (IAgentLister.MarketSpec memory s) {
        s.kind = IFeedResolver.Kind(seed % 3);
        s.feed = (seed >> 8) % 3 == 0 ? address(posted) : address(feed);
        uint256 outcomes = s.kind == IFeedResolver.Kind.Range ? 2 + (seed >> 16) % 7 : 2;
        s.weights = new uint32[](outcomes);
        for (uint256 k; k < outcomes; ++k) {
            s.weights[k] = uint32(1e6 + (seed >> (24 + 4 * k)) % 50e6);
        }
        if (s.kind == IFeedResolver.Kind.Threshold) {
            s.target = 105e8;
        } else if (s.kind == IFeedResolver.Kind.Range) {
            s.bounds = new int256[](outcomes - 1);
            for (uint256 k; k < s.bounds.length; ++k) {
                s.bounds[k] = int256(90e8 + 5e8 * k);
            }
        }
    }

    /// The rules of listing, written down once more.
    function fair(IAgentLister.MarketSpec memory s) private view returns (bool) {
        IAgentLister.Feed memory f = lister.feed(s.feed);
        if (!f.allowed || f.condemned || s.feed == address(_rogue)) return false;
        for (uint256 k; k < s.weights.length; ++k) {
            if (s.weights[k] < 1e6 || s.weights[k] > 1e9) return false;
        }
        uint256 opens = s.opensAt < time ? time : s.opensAt;
        uint256 closes = s.closesAt;
        if (closes <= opens) return false;
        if (s.kind == IFeedResolver.Kind.Direction) {
            return
                !s.earlyResolvable && closes + MARGIN + MEMORY <= s.startAt
                    && s.endsAt >= s.startAt + 2 * uint256(MEMORY);
        }
        if (s.startAt != 0) return false;
        if (s.earlyResolvable) return false; // neither is a grid feed
        return closes + MARGIN + MEMORY <= s.endsAt && 2 * closes + MEMORY <= s.endsAt + opens;
    }

    // Payers, the relayer, strangers

    /// In any form, by the relayer or by a stranger; now and then on another bet than the payer's.
    function stake(uint256 seed) public {
        if (_markets.length == 0) return;
        ISettlementWallet.Bet memory b = bet(seed);
        uint256 manner = (seed >> 200) % 3;
        Payment memory p = Payment(b, signedFor(b, seed, manner, b.amount));
        bool thief = (seed >> 210) % 4 == 0;
        if (thief) {
            b.outcome = uint8((b.outcome + 1) % 2);
            b.ref = "thief's";
        }
        bool byRelayer = (seed >> 220) % 2 == 0;
        vm.prank(byRelayer ? RELAYER : STRANGER);
        try wallet.settle(b, p.authorization) returns (uint256 id) {
            // Only the relayer changes a bet, and only one that its payer did not bind.
            bool binds = manner == 2 || p.authorization.validAfter == 3009;
            vm.assertTrue(!thief || (byRelayer && !binds), "not the payer's bet");
            vm.assertTrue(byRelayer || manner != 0, "a stranger sent a payment with a random nonce");
            serves(b.wallet, p.authorization.nonce);
            taken(b, id);
            ++seen[manner == 0 ? "settled" : manner == 1 ? "settled bound" : "settled in the receive form"];
            settlesNoMore(b, p.authorization);
        } catch {}
    }

    /// A payment becomes one stake or refund, once.
    function serves(address payer, bytes32 nonce) private {
        vm.assertFalse(_served[payer][nonce], "one payment served twice");
        _served[payer][nonce] = true;
    }

    /// A stake was booked: in its payer's name, in the market's hours, and not while stakes are paused.
    function taken(ISettlementWallet.Bet memory b, uint256 id) private view {
        ISettlementWallet.MarketView memory m = wallet.market(b.marketId);
        vm.assertTrue(time >= m.opensAt && time < m.closesAt && !wallet.paused(), "a stake out of hours");
        vm.assertTrue(m.status == ISettlementWallet.MarketStatus.Open, "a stake in a settled market");
        vm.assertLe(wallet.outcomeBook(b.marketId, b.outcome).net, uint256(m.potCap) / (m.outcomes - 1));
        ISettlementWallet.StakeView memory s = wallet.stake(id);
        vm.assertEq(s.wallet, b.wallet);
        vm.assertEq(s.amount, b.amount);
        vm.assertGe(s.shares + 1, s.amount - s.fee);
    }

    function settlesNoMore(ISettlementWallet.Bet memory b, ISettlementWallet.Authorization memory a) private {
        b.idemHash = keccak256(abi.encode("again", ++_serial));
        vm.prank(RELAYER);
        try wallet.settle(b, a) {
            vm.assertTrue(false, "a spent authorization was staked");
        } catch {}
    }

    /// Someone takes an authorization to the token first: the one that was handed in, or another of the same nonce and payer.
    function frontRun(uint256 seed) public {
        if (_markets.length == 0) return;
        ISettlementWallet.Bet memory b = bet(seed);
        uint256 manner = (seed >> 200) % 4;
        if (manner == 2) return takeReceived(b, seed);
        uint256 value = (seed >> 212) % 3 == 0 ? 1 + (seed >> 216) % b.amount : b.amount;
        Payment memory p = Payment(b, signedFor(b, seed, manner, value));
        if (!sent(p)) return;
        if (manner == 3 || value < wallet.MIN_STAKE()) {
            gifts += value; // under a marked nonce, or too little: refused everywhere
            ++seen["given away"];
            settlesNoMore(b, p.authorization);
            return;
        }
        waiting += value;
        _pending.push(p);
        ++seen["front-run"];
        if (value != b.amount) {
            p.authorization = signedWith(p.authorization.nonce, b.wallet, seed, manner, b.amount);
            _baits.push(p);
        }
        settlesNoMore(abi.decode(abi.encode(b), (ISettlementWallet.Bet)), p.authorization);
        if ((seed >> 230) % 2 == 0) creditPending(_pending.length - 1);
    }

    /// What is signed in the receive form cannot be taken by anyone.
    function takeReceived(ISettlementWallet.Bet memory b, uint256 seed) private {
        ISettlementWallet.Authorization memory a = signedFor(b, seed, 2, b.amount);
        try token.receiveWithAuthorization(
            b.wallet, address(wallet), a.value, a.validAfter, a.validBefore, a.nonce, a.signature
        ) {
            vm.assertTrue(false, "someone else than the payee received");
        } catch {}
        Payment memory p = Payment(b, a);
        vm.assertFalse(sent(p), "a received payment was transferred");
    }

    /// Whether it paid: a token may let a spent authorization pass and move nothing.
    function sent(Payment memory p) private returns (bool) {
        uint256 before = token.balanceOf(address(wallet));
        vm.prank(STRANGER);
        try token.transferWithAuthorization(
            p.bet.wallet,
            address(wallet),
            p.authorization.value,
            p.authorization.validAfter,
            p.authorization.validBefore,
            p.authorization.nonce,
            p.authorization.signature
        ) {}
        catch {
            return false;
        }
        uint256 moved = token.balanceOf(address(wallet)) - before;
        unbooked += moved;
        return moved != 0;
    }

    function cancel(uint256 seed) public {
        if (_markets.length == 0) return;
        ISettlementWallet.Bet memory b = bet(seed);
        ISettlementWallet.Authorization memory a = signedFor(b, seed, (seed >> 200) % 3, b.amount);
        bytes32 structHash = keccak256(abi.encode(CANCEL_TYPEHASH, b.wallet, a.nonce));
        try token.cancelAuthorization(b.wallet, a.nonce, signed(payerKey(seed), structHash)) {
            ++seen["cancelled"];
            _baits.push(Payment(b, a));
            settlesNoMore(abi.decode(abi.encode(b), (ISettlementWallet.Bet)), a);
        } catch {}
    }

    // The creditor

    /// Books what was really paid. With an honest creditor it can never fail, in any state of the market.
    function creditPending(uint256 seed) public {
        if (_pending.length == 0) return;
        uint256 k = seed % _pending.length;
        Payment memory p = _pending[k];
        vm.prank(CREDITOR);
        try wallet.credit(p.bet, p.authorization) returns (uint256 id) {
            _pending[k] = _pending[_pending.length - 1];
            _pending.pop();
            waiting -= p.authorization.value;
            booked(p, id);
        } catch {
            vm.assertFalse(honest, "a payment that is here could not be credited");
            ++seen["unbooked money was gone"];
        }
    }

    /// A dishonest one tries everything that was ever signed, also payments that were never made, in any market.
    function creditLie(uint256 seed) public {
        if (honest || _baits.length + _pending.length == 0) return;
        uint256 k = (seed >> 8) % (_baits.length + _pending.length);
        Payment memory p = k < _baits.length ? _baits[k] : _pending[k - _baits.length];
        if (seed % 2 == 0) {
            p.bet.marketId = _markets[(seed >> 64) % _markets.length];
            p.bet.idemHash = keccak256(abi.encode("lie", ++_serial));
        }
        bool spent = _served[p.bet.wallet][p.authorization.nonce];
        uint256 before = unbooked;
        vm.prank(CREDITOR);
        try wallet.credit(p.bet, p.authorization) returns (uint256 id) {
            vm.assertFalse(spent, "credited twice");
            vm.assertLe(p.authorization.value, before, "more than was unbooked");
            if (k >= _baits.length) {
                // Someone's payment, on a bet of the thief's choice (or the payer's own).
                waiting -= p.authorization.value;
                _pending[k - _baits.length] = _pending[_pending.length - 1];
                _pending.pop();
            }
            booked(p, id);
            ++seen["credited a lie"];
        } catch {}
    }

    function booked(Payment memory p, uint256 id) private {
        unbooked -= p.authorization.value;
        serves(p.bet.wallet, p.authorization.nonce);
        ISettlementWallet.StakeView memory s = wallet.stake(id);
        vm.assertEq(s.wallet, p.bet.wallet);
        vm.assertEq(s.amount, p.authorization.value);
        bool staked = s.status == ISettlementWallet.StakeStatus.InBook;
        if (staked) taken(p.bet, id);
        else vm.assertEq(s.payable_, p.authorization.value);
        ++seen[staked ? "credited" : "credited as a refund"];
        vm.prank(CREDITOR);
        try wallet.credit(p.bet, p.authorization) {
            vm.assertTrue(false, "credited twice");
        } catch {}
    }

    // Feeds

    function observe(uint256 seed) public {
        time += seed % 10 minutes;
        vm.warp(time);
        int256 value = seed % 40 == 0 ? int256(0) : int256(85e8 + seed % 50e8);
        feed.push(value, time - seed % 2);
        if (seed % 500 == 0) {
            feed.startPhase();
            feed.push(value, time);
        }
    }

    /// The publisher says what it likes.
    function publish(uint256 seed) public {
        vm.prank(PUBLISHER);
        try posted.post(
            int256(seed % 200e8) - (seed % 50 == 0 ? int256(200e8) : int256(0)), uint64(time - seed % 100)
        ) {
            ++seen["published"];
        } catch {}
    }

    function wait(uint256 seed) public {
        time += seed % 1 hours;
        vm.warp(time);
    }

    function newPosted() private {
        posted = new ObservationFeed(address(this), "posted", LAG);
        posted.setPublisher(PUBLISHER);
        vm.prank(PUBLISHER);
        posted.post(100e8, uint64(time));
        lister.setFeed(address(posted), true, MEMORY, MAX_AGE, 5e17, FEED_CAP);
    }

    // Settling

    /// A stranger settles one that is due, if there is any, by rounds found or named.
    function settle(uint256 seed, bool find) public {
        if (_open == 0) return;
        uint256 k = seed % _open;
        for (uint256 j; j < _open && resolver.terms(_markets[k]).settlesAfter >= time; ++j) {
            k = (k + 1) % _open;
        }
        bytes32 id = _markets[k];
        IFeedResolver.Terms memory t = resolver.terms(id);
        uint80 round = find ? 0 : aboutThen(t.feed, t.endsAt, seed >> 8);
        bool voiding = seed % 4 == 0 || lister.feed(t.feed).condemned;
        bytes memory call = voiding
            ? abi.encodeCall(resolver.voidWith, (id, round, 0))
            : abi.encodeCall(resolver.resolveWith, (id, round, 0));
        vm.prank(STRANGER);
        (bool done,) = address(resolver).call(call);
        if (!done) return;
        // Never while stakes are open, but for a condemned feed's.
        bool condemned = t.published && lister.feed(t.feed).condemned;
        vm.assertTrue(condemned || time > wallet.market(id).closesAt + MARGIN + MEMORY, "settled too early");
        bool isVoid = wallet.market(id).status == ISettlementWallet.MarketStatus.Void;
        vm.assertTrue(!condemned || isVoid, "a condemned feed decided");
        (uint64 settlesAfter, uint64 voidsAfter) = resolver.due(id);
        vm.assertTrue(condemned || time > settlesAfter || time > voidsAfter, "a market that was put off was settled");
        ++seen[isVoid ? "voided" : find ? "resolved" : "resolved by a round"];
        --_open;
        (_markets[k], _markets[_open]) = (_markets[_open], _markets[k]);
    }

    // Paying

    /// Any stakes of any market, in a batch or one by one; a market still open pays its refunds only.
    function pay(uint256 seed) public {
        if (_markets.length == 0) return;
        bytes32 id = _markets[seed % _markets.length];
        uint256[] memory stakes = wallet.stakesOf(id, seed >> 8 & 3, 1 + (seed >> 16 & 15));
        uint256 before = token.balanceOf(address(wallet));
        uint256 strangers = token.balanceOf(STRANGER);
        vm.recordLogs();
        bool done;
        bool claims = (seed >> 30) % 4 == 0 && stakes.length != 0;
        vm.prank(STRANGER);
        if (claims) {
            try wallet.claim(stakes[0]) {
                done = true;
                ++seen["claimed"];
            } catch {}
        } else {
            try wallet.pay(id, stakes) returns (uint256 paid) {
                done = true;
                seen["paid"] += paid;
                vm.prank(STRANGER);
                vm.assertLe(wallet.pay(id, stakes), stakes.length - paid, "paid twice");
            } catch {}
        }
        Vm.Log[] memory logs = vm.getRecordedLogs();
        if (!done) delete logs; // what a reverted call logged is recorded too
        uint256 gone = payments(id, logs);
        vm.assertEq(token.balanceOf(address(wallet)) + gone, before, "more left than was paid");
        vm.assertEq(token.balanceOf(STRANGER), strangers);
    }

    /// Each stake once, to its wallet; of a market no more than its pool.
    function payments(bytes32 id, Vm.Log[] memory logs) private returns (uint256 gone) {
        for (uint256 k; k < logs.length; ++k) {
            if (logs[k].emitter != address(wallet) || logs[k].topics[0] != PAID) continue;
            vm.assertEq(logs[k].topics[1], id);
            uint256 stakeId = uint256(logs[k].topics[2]);
            vm.assertFalse(_paid[stakeId], "a stake was paid twice");
            _paid[stakeId] = true;
            (uint256 amount, bool refund) = abi.decode(logs[k].data, (uint256, bool));
            ISettlementWallet.StakeView memory s = wallet.stake(stakeId);
            vm.assertEq(uint256(logs[k].topics[3]), uint256(uint160(s.wallet)));
            vm.assertEq(s.payable_, 0);
            gone += amount;
            if (refund) vm.assertEq(amount, s.amount, "a refund is not whole");
            else _won[id] += amount;
            if (!refund) vm.assertGe(amount + 1, s.amount - s.fee, "a right bet got less than its stake less its fee");
        }
        vm.assertLe(_won[id], wallet.market(id).netPool, "more than the pool was paid");
    }

    function sweep() public {
        (,, uint256 fees) = wallet.liabilities();
        uint256 before = token.balanceOf(TREASURY);
        try wallet.sweepFees() {
            vm.assertEq(token.balanceOf(TREASURY), before + fees);
            ++seen["swept"];
        } catch {
            vm.assertEq(token.balanceOf(TREASURY), before);
        }
    }

    // The issuer, the guardian, the Safe, donors

    function freeze(uint256 seed, bool thaw) public {
        address account = seed % 16 == 0 ? TREASURY : vm.addr(payerKey(seed));
        if (thaw) token.unfreeze(account);
        else token.freeze(account);
    }

    /// Once a feed, for a day.
    function putOff(uint256 seed) public {
        uint64 was = lister.feed(address(posted)).putOffUntil;
        vm.prank(GUARDIAN);
        try lister.putOff(seed % 8 == 0 ? address(feed) : address(posted)) {
            vm.assertTrue(seed % 8 != 0 && was == 0, "put off twice, or a feed without a publisher");
            vm.assertEq(lister.feed(address(posted)).putOffUntil, time + 1 days);
            ++seen["put off"];
        } catch {
            vm.assertTrue(seed % 8 == 0 || was != 0, "a guardian could not put off");
        }
    }

    function pause(uint256 seed) public {
        if (seed % 8 == 0) {
            vm.prank(GUARDIAN);
            pauser.pause();
            vm.assertTrue(wallet.paused());
        } else {
            pauser.resume();
        }
    }

    /// The Safe within its powers: nothing of it moves a unit or a market that is listed, but that a condemned feed's markets void.
    function safe(uint256 seed) public {
        if (seed % 8 == 0) {
            address was = address(posted);
            lister.condemn(was);
            newPosted();
            ++seen["condemned"];
            try lister.setFeed(was, true, MEMORY, MAX_AGE, 1e9, FEED_CAP) {
                vm.assertTrue(false, "a condemned feed was allowed");
            } catch {}
        } else if (seed % 8 == 1) {
            try lister.condemn(address(feed)) {
                vm.assertTrue(false, "a feed without a publisher was condemned");
            } catch {}
        } else if (seed % 8 < 5) {
            IAgentLister.Bounds memory b = lister.bounds();
            (b.feeBps, b.disputeWindow) = (uint16((seed >> 8) % 1200), uint32((seed >> 24) % 2 hours));
            try lister.setBounds(b) {
                vm.assertTrue(b.feeBps >= 175 && b.feeBps <= 1000);
            } catch {}
        } else {
            try lister.setFeed(
                address(feed), seed % 16 != 5, MEMORY, MAX_AGE, uint64(1e9 + (seed >> 8) % 5e17), FEED_CAP
            ) {}
                catch {} // it may not answer well just now
        }
    }

    /// Every key tries every door that is not its own.
    function meddle(uint256 seed) public {
        if (_markets.length == 0) return;
        bytes32 id = _markets[(seed >> 8) % _markets.length];
        address[9] memory keys = [
            LISTER, RELAYER, CREDITOR, GUARDIAN, PUBLISHER, TREASURY, STRANGER, address(this), vm.addr(payerKey(seed))
        ];
        address who = keys[seed % 9];
        ISettlementWallet.OpenParams memory p;
        Payment memory mine = _pending.length == 0 ? Payment(bet(seed), noAuthorization()) : _pending[0];
        bytes[14] memory doors = [
            abi.encodeCall(wallet.resolve, (id, uint8(seed >> 16) % 2)),
            abi.encodeCall(wallet.voidMarket, (id, 1)),
            abi.encodeCall(wallet.open, (id, p)),
            abi.encodeCall(wallet.setPaused, (true)),
            abi.encodeCall(resolver.register, (id, resolver.terms(id))),
            abi.encodeCall(wallet.settle, (mine.bet, mine.authorization)),
            abi.encodeCall(wallet.credit, (mine.bet, mine.authorization)),
            abi.encodeCall(lister.list, ("mine", fairSpec(seed), "")),
            abi.encodeCall(lister.setLister, (who, true)),
            abi.encodeCall(lister.condemn, (address(posted))),
            abi.encodeCall(lister.putOff, (address(posted))),
            abi.encodeCall(wallet.setRole, (keccak256("CREDITOR"), who, true)),
            abi.encodeCall(pauser.setGuardian, (who, true)),
            abi.encodeCall(pauser.resume, ())
        ];
        uint256 door = (seed >> 24) % 14;
        if (who == CREDITOR && door == 6 || who == LISTER && door == 7 || who == address(this) && door > 7) return;
        if (who == GUARDIAN && door == 10) return;
        address at_ = door == 4 ? address(resolver) : door >= 12 ? address(pauser) : address(wallet);
        if (door >= 7 && door < 11) at_ = address(lister);
        vm.prank(who);
        (bool ok,) = at_.call(doors[door]);
        vm.assertFalse(ok, "someone opened a door that is not theirs");
        ++seen["refused at a door"];
    }

    function donate(uint256 seed) public {
        uint256 amount = seed % 10e6;
        token.mint(address(wallet), amount);
        unbooked += amount;
        gifts += amount;
    }

    // What must hold after every call

    function check() external view {
        (uint256 open, uint256 unpaid, uint256 fees) = wallet.liabilities();
        uint256 balance = token.balanceOf(address(wallet));
        vm.assertGe(balance, open + unpaid + fees, "insolvent");
        vm.assertEq(balance, open + unpaid + fees + unbooked, "unaccounted money");
        // No one but its payer has used what is waiting; a dishonest creditor may have.
        if (honest) vm.assertEq(unbooked, waiting + gifts, "unbooked money is not its payer's");
    }

    /// The liabilities, added up from every stake of every market.
    function recount() external view {
        uint256 staked;
        uint256 unpaid;
        for (uint256 k; k < _markets.length; ++k) {
            (uint256 open_, uint256 owed_) = recounted(_markets[k]);
            staked += open_;
            unpaid += owed_;
        }
        (uint256 open, uint256 owed,) = wallet.liabilities();
        vm.assertEq(open, staked, "open stakes");
        vm.assertEq(owed, unpaid, "unpaid");
    }

    function recounted(bytes32 id) private view returns (uint256 open, uint256 unpaid) {
        ISettlementWallet.MarketView memory m = wallet.market(id);
        uint256 winners; // not yet paid
        uint256 inBook;
        for (uint256 j; j < m.stakes; ++j) {
            ISettlementWallet.StakeView memory s = wallet.stake(uint256(m.index) << 32 | j);
            if (s.status == ISettlementWallet.StakeStatus.InBook) winners += s.payable_;
            else unpaid += s.payable_;
            if (s.shares != 0) inBook += s.amount;
        }
        vm.assertEq(inBook, m.staked, "staked");
        if (m.status == ISettlementWallet.MarketStatus.Open) return (m.staked, unpaid);
        if (m.refunding) return (0, unpaid + winners);
        // While a winner waits, the rest that rounding down will leave is part of the liabilities.
        if (m.paidShares < wallet.outcomeBook(id, m.winner).shares) {
            vm.assertLe(winners, m.netPool - m.paidOut, "more owed than the pool has");
            return (0, unpaid + m.netPool - m.paidOut);
        }
        vm.assertEq(winners, 0);
    }

    // Internals

    /// The round in effect at a moment, mostly; else a neighbouring one.
    function aboutThen(address feed_, uint256 moment, uint256 seed) private view returns (uint80 round) {
        uint256 phase = feed_ == address(feed) ? feed.phaseId() : 1;
        uint256 number = feed_ == address(feed) ? feed.roundsIn(uint16(phase)) : ObservationFeed(feed_).roundCount();
        for (; number > 1; --number) {
            (,,, uint256 updatedAt,) = LocalFeed(feed_).getRoundData(uint80(phase << 64 | number));
            if (updatedAt <= moment) break;
        }
        return uint80(phase << 64 | (seed % 8 == 0 ? number + 1 : number));
    }

    function bet(uint256 seed) private returns (ISettlementWallet.Bet memory b) {
        vm.warp(time);
        // Mostly one that takes stakes.
        uint256 k = seed % (seed % 8 == 0 || _open == 0 ? _markets.length : _open);
        for (uint256 j; seed % 8 != 0 && j < _open && wallet.market(_markets[k]).closesAt <= time; ++j) {
            k = (k + 1) % _open;
        }
        b.marketId = _markets[k];
        b.outcome = uint8((seed >> 16) % (seed % 16 == 2 ? 20 : wallet.market(b.marketId).outcomes));
        b.amount = 10 ** (seed >> 24 & 7) * (1 + (seed >> 32) % 1e6) + 1e6 - (seed >> 60) % 2;
        b.wallet = vm.addr(payerKey(seed));
        b.idemHash = seed % 16 == 1 ? keccak256(abi.encode(seed % 64)) : keccak256(abi.encode("key", ++_serial));
    }

    /// 0 a transfer with a random nonce, 1 one bound to the bet, 2 the receive form, 3 a transfer with a marked nonce.
    function signedFor(ISettlementWallet.Bet memory b, uint256 seed, uint256 manner, uint256 value)
        private
        returns (ISettlementWallet.Authorization memory)
    {
        bytes32 nonce = keccak256(abi.encode("nonce", ++_serial));
        if (manner == 1) nonce = wallet.betHash(b);
        if (manner >= 2) nonce = wallet.boundNonce(b);
        return signedWith(nonce, b.wallet, seed, manner, value);
    }

    function signedWith(bytes32 nonce, address payer, uint256 seed, uint256 manner, uint256 value)
        private
        view
        returns (ISettlementWallet.Authorization memory a)
    {
        a.form = manner == 2 ? ISettlementWallet.Form.Receive : ISettlementWallet.Form.Transfer;
        (a.value, a.nonce, a.validBefore) = (value, nonce, type(uint256).max);
        a.validAfter = manner == 1 && seed % 2 == 0 ? 3009 : 0;
        a.signature = signed(
            payerKey(seed),
            keccak256(
                abi.encode(
                    manner == 2 ? RECEIVE_TYPEHASH : TRANSFER_TYPEHASH,
                    payer,
                    address(wallet),
                    value,
                    a.validAfter,
                    a.validBefore,
                    nonce
                )
            )
        );
    }

    function noAuthorization() private pure returns (ISettlementWallet.Authorization memory a) {}

    function signed(uint256 key_, bytes32 structHash) private view returns (bytes memory) {
        (uint8 v, bytes32 r, bytes32 s) = vm.sign(key_, keccak256(abi.encodePacked(hex"1901", _domain, structHash)));
        return abi.encodePacked(r, s, v);
    }

    function payerKey(uint256 seed) private pure returns (uint256) {
        return key((seed >> 8) % PAYERS);
    }

    function key(uint256 k) private pure returns (uint256) {
        return 0xFACE + k;
    }
}
