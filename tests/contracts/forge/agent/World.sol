// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {LocalFeed} from "../../../../contracts/local/LocalFeed.sol";
import {ISettlementWallet} from "../../../../contracts/settlement/ISettlementWallet.sol";
import {SettlementWallet} from "../../../../contracts/settlement/SettlementWallet.sol";
import {Base} from "../Base.sol";
import {ITestToken} from "./WalletBase.sol";

/// One settlement wallet on one token, and everything that can happen to it, in any order. What a call must do in the state it finds
/// is asserted where the call is made; `unbooked` follows the money that nobody has booked yet.
contract World is Base {
    uint256 private constant PAYERS = 6;
    uint256 private constant MOST_OPEN = 6;
    bytes32 private constant TRANSFER_TYPEHASH = keccak256(
        "TransferWithAuthorization(address from,address to,uint256 value,uint256 validAfter,uint256 validBefore,bytes32 nonce)"
    );
    bytes32 private constant CANCEL_TYPEHASH = keccak256("CancelAuthorization(address authorizer,bytes32 nonce)");
    address private constant TREASURY = address(0x7E);

    struct Payment {
        ISettlementWallet.Intent intent;
        ISettlementWallet.Authorization authorization;
    }

    ITestToken public immutable token;
    SettlementWallet public immutable wallet;
    LocalFeed public immutable feed;
    bytes32 private immutable _domain;

    uint256 public time;
    uint256 public unbooked;
    bytes32[] private _markets; // unsettled ones first, up to `_open`
    uint256 private _open;
    Payment[] private _pending; // delivered, not booked
    Payment[] private _cancelled;
    uint256 private _serial;
    mapping(string what => uint256) public seen;

    constructor(address token_, uint256 start) {
        time = start;
        token = ITestToken(token_);
        _domain = token.DOMAIN_SEPARATOR();
        wallet = new SettlementWallet(token_, address(this), TREASURY);
        feed = new LocalFeed();
        wallet.setRole(wallet.LISTER(), address(this), true);
        wallet.setRole(wallet.RELAYER(), address(this), true);
        wallet.setRole(wallet.GUARDIAN(), address(this), true);
        feed.push(100e8, start - 1);
        for (uint256 k; k < PAYERS; ++k) {
            token.mint(vm.addr(key(k)), 1e17);
        }
    }

    // What can happen

    function list(uint256 seed) public {
        if (_open >= MOST_OPEN) return;
        ISettlementWallet.MarketSpec memory s;
        s.kind = uint8(seed % 3);
        s.feed = address(feed);
        s.closesAt = uint64(time + 1 hours + seed % 1 days);
        s.maxAge = uint32(30 minutes + seed % 1 days);
        s.voidDelay = 1 hours;
        s.feeBps = uint16(seed % 1001);
        s.outcomes = 2;
        s.virtualLiquidity = uint64(1e6 + seed % 1e12);
        if (s.kind == 0) {
            s.target = 105e8;
            s.earlyResolvable = seed % 2 == 0;
        } else if (s.kind == 1) {
            s.outcomes = uint8(2 + seed % 15);
            s.bounds = new int256[](s.outcomes - 1);
            for (uint256 k; k < s.bounds.length; ++k) {
                s.bounds[k] = int256(90e8 + 3e8 * k);
            }
        } else {
            s.startAt = uint64(time + 1 + seed % 30 minutes);
        }
        bytes32 id = keccak256(abi.encode("market", ++_serial));
        wallet.list(id, s, "");
        _markets.push(id);
        (_markets[_open], _markets[_markets.length - 1]) = (id, _markets[_open]);
        ++_open;
        ++seen["listed"];
    }

    /// Through the relayer, or bound and through anyone.
    function stake(uint256 seed, bool bound_) public {
        Payment memory p = payment(seed, bound_);
        if (p.intent.wallet == address(0)) return;
        if (!bound_ || seed % 3 == 0) {
            try wallet.settle(p.intent, p.authorization) {
                ++seen["settled"];
            } catch {}
        } else {
            vm.prank(address(0x99));
            try wallet.settle(p.intent, p.authorization) {
                ++seen["settled by a stranger"];
            } catch {}
        }
    }

    /// Somebody takes the authorization to the token first. Booked now, or later by `creditPending`.
    function frontRun(uint256 seed, bool bound_, bool atOnce) public {
        Payment memory p = payment(seed, bound_);
        if (p.intent.wallet == address(0)) return;
        try token.transferWithAuthorization(
            p.intent.wallet,
            address(wallet),
            p.intent.amount,
            p.authorization.validAfter,
            p.authorization.validBefore,
            p.authorization.nonce,
            p.authorization.signature
        ) {
            unbooked += p.intent.amount;
            ++seen["front-run"];
            refusedSettle(p);
            if (atOnce) credit(p);
            else _pending.push(p);
        } catch {}
    }

    function creditPending(uint256 seed) public {
        if (_pending.length == 0) return;
        uint256 k = seed % _pending.length;
        Payment memory p = _pending[k];
        _pending[k] = _pending[_pending.length - 1];
        _pending.pop();
        credit(p);
    }

    /// A cancelled authorization settles nothing, and is credited only by a relayer that does not look, from money that is there.
    function cancel(uint256 seed) public {
        Payment memory p = payment(seed, seed % 2 == 0);
        if (p.intent.wallet == address(0)) return;
        bytes32 structHash = keccak256(abi.encode(CANCEL_TYPEHASH, p.intent.wallet, p.authorization.nonce));
        try token.cancelAuthorization(p.intent.wallet, p.authorization.nonce, signed(payerKey(seed), structHash)) {
            ++seen["cancelled"];
            refusedSettle(p);
            if (unbooked < p.intent.amount) {
                try wallet.credit(p.intent, p.authorization) {
                    vm.assertTrue(false, "a cancelled authorization was credited");
                } catch {}
            }
            vm.prank(address(0x99));
            try wallet.credit(p.intent, p.authorization) {
                vm.assertTrue(false, "a stranger credited");
            } catch {}
        } catch {}
    }

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

    function wait(uint256 seed) public {
        time += seed % 3 hours;
        vm.warp(time);
    }

    function settle(uint256 seed, bool find) public {
        if (_open == 0) return;
        // One that is due, if there is any.
        uint256 k = seed % _open;
        for (uint256 j; j < _open && wallet.market(_markets[k]).settlesAfter >= time; ++j) {
            k = (k + 1) % _open;
        }
        bytes32 id = _markets[k];
        uint80 round = find ? 0 : aboutThen(wallet.market(id).spec.closesAt, seed >> 8);
        bool done;
        if (seed % 4 == 0) {
            (done,) = address(wallet).call(abi.encodeCall(wallet.voidMarket, (id, round)));
            if (done) ++seen["voided"];
        } else if (find) {
            (done,) = address(wallet).call(abi.encodeWithSignature("resolve(bytes32)", id));
            if (done) ++seen["resolved"];
        } else {
            (done,) = address(wallet).call(abi.encodeWithSignature("resolve(bytes32,uint80)", id, round));
            if (done) ++seen["resolved by a round"];
        }
        if (done) {
            --_open;
            (_markets[k], _markets[_open]) = (_markets[_open], _markets[k]);
        }
    }

    /// Any stakes of any market; a market still open pays its refunds only.
    function pay(uint256 seed) public {
        if (_markets.length == 0) return;
        bytes32 id = _markets[seed % _markets.length];
        uint256[] memory stakes = wallet.stakesOf(id, seed >> 8 & 3, 1 + (seed >> 16 & 15));
        address caller = address(0x99);
        uint256 before = token.balanceOf(caller);
        vm.prank(caller);
        try wallet.pay(id, stakes) returns (uint256 paid) {
            seen["paid"] += paid;
            vm.prank(caller);
            vm.assertLe(wallet.pay(id, stakes), stakes.length - paid, "paid twice");
        } catch {}
        vm.assertEq(token.balanceOf(caller), before);
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

    function freeze(uint256 seed, bool thaw) public {
        address account = seed % 16 == 0 ? TREASURY : vm.addr(payerKey(seed));
        if (thaw) token.unfreeze(account);
        else token.freeze(account);
    }

    function pause(bool on) public {
        wallet.setStakesPaused(on);
    }

    function donate(uint256 seed) public {
        uint256 amount = seed % 10e6;
        token.mint(address(wallet), amount);
        unbooked += amount;
    }

    // What must hold after every call

    function check() external view {
        (uint256 open, uint256 unpaid, uint256 fees) = wallet.liabilities();
        uint256 balance = token.balanceOf(address(wallet));
        vm.assertGe(balance, open + unpaid + fees, "insolvent");
        vm.assertEq(balance, open + unpaid + fees + unbooked, "unaccounted money");
    }

    /// The liabilities, added up from every stake of every market.
    function recount() external view {
        uint256 staked;
        uint256 unpaid;
        for (uint256 k; k < _markets.length; ++k) {
            ISettlementWallet.MarketView memory m = wallet.market(_markets[k]);
            if (m.status == 1) staked += m.staked;
            else if (!m.refunding) unpaid += dustOf(_markets[k], m);
            for (uint256 j; j < m.stakes; ++j) {
                unpaid += wallet.stake(uint256(m.index) << 32 | j).payable_;
            }
        }
        (uint256 open, uint256 owed,) = wallet.liabilities();
        vm.assertEq(open, staked, "open stakes");
        vm.assertEq(owed, unpaid, "unpaid");
    }

    /// What floors leave of a pool, while a winner is still to be paid.
    function dustOf(bytes32 id, ISettlementWallet.MarketView memory m) private view returns (uint256) {
        (, uint256 issued,,) = wallet.outcomeBook(id, m.winner);
        uint256 all;
        bool waiting;
        for (uint256 j; j < m.stakes; ++j) {
            ISettlementWallet.StakeView memory s = wallet.stake(uint256(m.index) << 32 | j);
            if (s.outcome != m.winner || s.shares == 0) continue;
            all += s.shares * m.netPool / issued;
            if (s.status == 1) waiting = true;
        }
        return waiting ? m.netPool - all : 0;
    }

    // Internals

    /// The round in effect at a moment, mostly; else one beside it.
    function aboutThen(uint256 moment, uint256 seed) private view returns (uint80 round) {
        uint16 phase = feed.phaseId();
        uint256 number = feed.roundsIn(phase);
        for (; number > 1; --number) {
            (,,, uint256 updatedAt,) = feed.getRoundData(uint80(uint256(phase) << 64 | number));
            if (updatedAt <= moment) break;
        }
        return uint80(uint256(phase) << 64 | (seed % 8 == 0 ? number + 1 : number));
    }

    function credit(Payment memory p) private {
        uint256 id = wallet.credit(p.intent, p.authorization); // must not fail, whatever became of the market
        unbooked -= p.intent.amount;
        ++seen[wallet.stake(id).status == 1 ? "credited" : "credited as a refund"];
        try wallet.credit(p.intent, p.authorization) {
            vm.assertTrue(false, "credited twice");
        } catch {}
    }

    function refusedSettle(Payment memory p) private {
        try wallet.settle(p.intent, p.authorization) {
            vm.assertTrue(false, "a spent authorization was staked");
        } catch {}
    }

    function payment(uint256 seed, bool bound_) private returns (Payment memory p) {
        if (_markets.length == 0) return p;
        vm.warp(time);
        ISettlementWallet.Intent memory i = p.intent;
        // Mostly open markets.
        i.marketId = _markets[seed % (seed % 8 == 0 || _open == 0 ? _markets.length : _open)];
        i.outcome = uint8((seed >> 16) % (seed % 16 == 2 ? 20 : wallet.market(i.marketId).spec.outcomes));
        i.amount = 10 ** (seed >> 24 & 7) * (1 + (seed >> 32) % 1e6) + 1e6 - (seed >> 60) % 2;
        i.wallet = vm.addr(payerKey(seed));
        i.idemHash = seed % 16 == 1 ? keccak256(abi.encode(seed % 64)) : keccak256(abi.encode("key", ++_serial));
        p.authorization.validBefore = type(uint256).max;
        p.authorization.validAfter = bound_ && seed % 5 == 0 ? 3009 : 0;
        p.authorization.nonce = bound_ ? wallet.intentHash(i) : keccak256(abi.encode("nonce", ++_serial));
        p.authorization.signature = signed(
            payerKey(seed),
            keccak256(
                abi.encode(
                    TRANSFER_TYPEHASH,
                    i.wallet,
                    address(wallet),
                    i.amount,
                    p.authorization.validAfter,
                    type(uint256).max,
                    p.authorization.nonce
                )
            )
        );
    }

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
