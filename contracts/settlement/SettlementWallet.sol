// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {Ownable} from "@openzeppelin/contracts/access/Ownable.sol";
import {Ownable2Step} from "@openzeppelin/contracts/access/Ownable2Step.sol";
import {ReentrancyGuardTransient} from "@openzeppelin/contracts/utils/ReentrancyGuardTransient.sol";
import {ECDSA} from "solady/src/utils/ECDSA.sol";
import {EIP712} from "solady/src/utils/EIP712.sol";
import {SignatureCheckerLib} from "solady/src/utils/SignatureCheckerLib.sol";

import {IERC3009} from "../lib/IERC3009.sol";
import {ISettlementWallet} from "./ISettlementWallet.sol";
import {MarketJudge} from "./MarketJudge.sol";
import {MarketRules} from "./MarketRules.sol";
import {Pricing} from "./Pricing.sol";

/// The token's own EIP-712 domain; USDC and USDG both publish it.
interface IDomain {
    function DOMAIN_SEPARATOR() external view returns (bytes32);
}

/// @title The implementation; see ISettlementWallet for what it promises
/// @dev Money in the contract is one of: stakes of open markets, payouts and refunds not yet sent, fees, and unbooked money (what
///      arrived without passing through `settle` and has not been credited). The first three are `_liabilities`.
contract SettlementWallet is ISettlementWallet, Ownable2Step, EIP712, ReentrancyGuardTransient {
    // ---------------------------------------------------------------- Constants

    bytes32 public constant LISTER = keccak256("LISTER");
    bytes32 public constant RELAYER = keccak256("RELAYER");
    bytes32 public constant GUARDIAN = keccak256("GUARDIAN");

    bytes32 public constant INTENT_TYPEHASH = keccak256(
        "Intent(bytes32 marketId,uint8 outcome,uint256 amount,uint256 minShares,address wallet,bytes32 idemHash,address builder,bytes32 ref)"
    );
    bytes32 private constant TRANSFER_WITH_AUTHORIZATION_TYPEHASH = keccak256(
        "TransferWithAuthorization(address from,address to,uint256 value,uint256 validAfter,uint256 validBefore,bytes32 nonce)"
    );

    /// An authorization signed with this `validAfter` (long past, so it delays nothing; no client picks it by chance)
    /// says that its nonce is an intent hash and that nobody may stake the payment on any other intent.
    uint256 public constant BOUND_ONLY = 3009;

    uint256 public constant MIN_STAKE = 1e6;
    uint256 public constant MAX_STAKE = 1e15;
    /// All stakes of one market, a thousand times more dollars than there are USDC. Pricing's rounding argument needs a bound.
    uint256 public constant MAX_POOL = 1e21;

    // Why a late payment became a refund.
    uint8 public constant REFUND_PAUSED = 1;
    uint8 public constant REFUND_NOT_OPEN = 2; // before opensAt
    uint8 public constant REFUND_CLOSED = 3; // at or after closesAt, or settled
    uint8 public constant REFUND_OUTCOME = 4;
    uint8 public constant REFUND_AMOUNT = 5; // under MIN_STAKE, over MAX_STAKE, or over what the pool takes
    uint8 public constant REFUND_KEY_USED = 6; // the idempotency key has settled another payment
    uint8 public constant REFUND_BOUND = 7; // the payment is bound to another intent
    uint8 public constant REFUND_SHARES = 8; // fewer than minShares

    /// What one payout may burn: a transfer of the real USDC to a fresh account needs about 60,000.
    uint256 private constant PAY_GAS = 150_000;
    /// PAY_GAS * 64 / 63 and the instructions around the call.
    uint256 private constant PAY_GAS_NEEDED = 160_000;

    // Status of a market.
    uint8 private constant OPEN = 1;
    uint8 private constant RESOLVED = 2;
    uint8 private constant VOIDED = 3;

    // Status of a stake.
    uint8 private constant IN_BOOK = 1;
    uint8 private constant OWED_BACK = 2;
    uint8 private constant PAID = 3;
    uint8 private constant REFUNDED = 4;

    // ---------------------------------------------------------------- Storage

    /// One slot.
    struct Book {
        uint128 net;
        uint128 shares;
    }

    struct Market {
        // What every stake reads.
        address feed;
        uint40 opensAt;
        uint40 closesAt;
        uint8 outcomes;
        uint8 status;
        // The other terms, and the result.
        uint64 virtualLiquidity;
        uint32 index;
        uint16 feeBps;
        uint8 kind;
        bool earlyResolvable;
        uint8 winner;
        uint32 maxAge;
        uint32 voidDelay;
        uint32 lag;
        // Zero, and so unwritten, for kinds that do not use it.
        uint128 target;
        uint40 startAt;
        // What every stake writes.
        uint80 staked;
        uint80 netPool;
        uint32 stakes;
        // What payouts write: winners paid so far.
        uint128 paidShares;
        uint128 paidOut;
        uint128[] bounds;
        Book[16] books;
    }

    struct Stake {
        address wallet;
        uint64 amount;
        uint8 outcome;
        uint8 status;
        uint128 shares;
    }

    /// One slot: what is owed, and the pause that every stake reads with it.
    struct Liabilities {
        uint80 openStakes;
        uint80 unpaid;
        uint80 fees;
        bool paused;
    }

    address public immutable token;
    address public immutable treasury;
    /// Decides what a feed's rounds make of a market; has no state.
    MarketJudge public immutable judge;

    Liabilities private _liabilities;
    bytes32[] private _marketIds;
    mapping(bytes32 marketId => Market) private _markets;
    mapping(uint256 stakeId => Stake) private _stakes; // id = market index << 32 | n
    mapping(address wallet => mapping(bytes32 idemHash => uint256 stakeId)) public stakeOf;
    mapping(address wallet => mapping(bytes32 nonce => bool)) public booked;
    mapping(bytes32 role => mapping(address account => bool)) public hasRole;

    // ---------------------------------------------------------------- Construction

    /// @param token_ EIP-3009 with the `bytes` form; fixed, as is the treasury
    /// @param owner_ appoints roles, nothing else; a Safe
    /// @param treasury_ gets fees and dust, nothing else
    constructor(address token_, address owner_, address treasury_) Ownable(owner_) {
        if (token_ == address(0)) revert ZeroAddress("token");
        if (treasury_ == address(0)) revert ZeroAddress("treasury");
        token = token_;
        treasury = treasury_;
        judge = new MarketJudge();
        IDomain(token_).DOMAIN_SEPARATOR(); // `credit` could not check a signature without it
    }

    // ---------------------------------------------------------------- Administration

    /// @inheritdoc ISettlementWallet
    function setRole(bytes32 role, address account, bool allowed) external onlyOwner {
        if (role != LISTER && role != RELAYER && role != GUARDIAN) revert UnknownRole(role);
        if (account == address(0)) revert ZeroAddress("account");
        hasRole[role][account] = allowed;
        emit RoleSet(role, account, allowed);
    }

    /// @inheritdoc ISettlementWallet
    function setStakesPaused(bool paused) external {
        _requireRole(GUARDIAN, "GUARDIAN");
        _liabilities.paused = paused;
        emit StakesPaused(paused);
    }

    /// @notice Without an owner a lost relayer could not be replaced, and late payments would wait for ever.
    function renounceOwnership() public pure override {
        revert OwnershipCannotBeRenounced();
    }

    // ---------------------------------------------------------------- Listing

    /// @inheritdoc ISettlementWallet
    function list(bytes32 marketId, MarketSpec memory spec, string calldata metadata) external {
        _requireRole(LISTER, "LISTER");
        Market storage m = _markets[marketId];
        if (m.status != 0) revert AlreadyListed(marketId);
        uint256 lag;
        (spec.opensAt, lag) = judge.check(spec);

        _marketIds.push(marketId);
        m.feed = spec.feed;
        m.opensAt = uint40(spec.opensAt);
        m.closesAt = uint40(spec.closesAt);
        m.outcomes = spec.outcomes;
        m.status = OPEN;
        m.virtualLiquidity = spec.virtualLiquidity;
        m.index = uint32(_marketIds.length);
        m.feeBps = spec.feeBps;
        m.kind = spec.kind;
        m.earlyResolvable = spec.earlyResolvable;
        m.maxAge = spec.maxAge;
        m.voidDelay = spec.voidDelay;
        m.lag = uint32(lag);
        if (spec.kind != MarketRules.RANGE) {
            (m.target, m.startAt) = (uint128(uint256(spec.target)), uint40(spec.startAt));
        }
        for (uint256 k; k < spec.bounds.length; ++k) {
            m.bounds.push(uint128(uint256(spec.bounds[k])));
        }
        emit MarketListed(
            marketId,
            spec.kind,
            spec.feed,
            spec.closesAt,
            spec.feeBps,
            spec.outcomes,
            spec.virtualLiquidity,
            abi.encode(spec),
            metadata
        );
    }

    // ---------------------------------------------------------------- Staking

    /// @inheritdoc ISettlementWallet
    function intentHash(Intent memory i) public view returns (bytes32) {
        return _hashTypedData(
            keccak256(
                abi.encode(
                    INTENT_TYPEHASH,
                    i.marketId,
                    i.outcome,
                    i.amount,
                    i.minShares,
                    i.wallet,
                    i.idemHash,
                    i.builder,
                    i.ref
                )
            )
        );
    }

    /// @inheritdoc ISettlementWallet
    function settle(Intent memory i, Authorization calldata a) external nonReentrant returns (uint256 stakeId) {
        bytes32 hash = intentHash(i);
        if (a.nonce != hash) {
            if (a.validAfter == BOUND_ONLY) revert BoundToAnotherIntent(a.nonce, hash);
            _requireRole(RELAYER, "RELAYER");
        }
        Market storage m = _listed(i.marketId);
        (uint8 refusal, uint256 shares) = _refusal(m, i);
        if (refusal != 0) _revertFor(refusal, m, i, shares);

        // Some tokens let a spent authorization pass without paying, hence both this and the balances.
        if (IERC3009(token).authorizationState(i.wallet, a.nonce)) revert AuthorizationAlreadyUsed(i.wallet, a.nonce);
        booked[i.wallet][a.nonce] = true;
        stakeId = _book(m, i, shares, hash);

        uint256 before = _balance();
        IERC3009(token)
            .transferWithAuthorization(
                i.wallet, address(this), i.amount, a.validAfter, a.validBefore, a.nonce, a.signature
            );
        uint256 received = _balance() - before;
        if (received != i.amount) revert WrongAmountReceived(i.amount, received);
    }

    /// @inheritdoc ISettlementWallet
    function credit(Intent memory i, Authorization calldata a) external nonReentrant returns (uint256 stakeId) {
        _requireRole(RELAYER, "RELAYER");
        Market storage m = _listed(i.marketId);
        if (i.amount == 0 || i.amount > type(uint64).max) revert AmountOutOfBounds(i.amount, 1, type(uint64).max);
        if (booked[i.wallet][a.nonce]) revert AuthorizationAlreadyBooked(i.wallet, a.nonce);
        if (!IERC3009(token).authorizationState(i.wallet, a.nonce)) revert AuthorizationNotUsed(i.wallet, a.nonce);
        if (!_signed(i, a)) revert NotSignedBy(i.wallet);
        uint256 unbooked = _unbooked();
        if (unbooked < i.amount) revert NothingUnbooked(unbooked, i.amount);

        booked[i.wallet][a.nonce] = true;
        bytes32 hash = intentHash(i);
        (uint8 refusal, uint256 shares) = _refusal(m, i);
        if (a.validAfter == BOUND_ONLY && a.nonce != hash) refusal = REFUND_BOUND;
        return refusal == 0 ? _book(m, i, shares, hash) : _bookRefund(m, i, refusal, hash);
    }

    /// Why an intent cannot be a stake now: 0 or a REFUND_ code; and the shares it would get.
    function _refusal(Market storage m, Intent memory i) private view returns (uint8 refusal, uint256 shares) {
        if (_liabilities.paused) return (REFUND_PAUSED, 0);
        if (m.status != OPEN || block.timestamp >= m.closesAt) return (REFUND_CLOSED, 0);
        if (block.timestamp < m.opensAt) return (REFUND_NOT_OPEN, 0);
        if (i.outcome >= m.outcomes) return (REFUND_OUTCOME, 0);
        if (i.amount < MIN_STAKE || i.amount > MAX_STAKE || m.staked + i.amount > MAX_POOL) return (REFUND_AMOUNT, 0);
        if (stakeOf[i.wallet][i.idemHash] != 0) return (REFUND_KEY_USED, 0);
        (uint256 weight, uint256 total) = _weights(m, i.outcome);
        shares = Pricing.sharesFor(Pricing.buying(i.amount, m.feeBps), weight, total);
        if (shares < i.minShares) return (REFUND_SHARES, shares);
    }

    /// The same refusals, in words.
    function _revertFor(uint8 refusal, Market storage m, Intent memory i, uint256 shares) private view {
        if (refusal == REFUND_PAUSED) revert StakesArePaused();
        if (refusal == REFUND_CLOSED) {
            if (m.status != OPEN) revert AlreadySettled(i.marketId);
            revert Closed(i.marketId, m.closesAt);
        }
        if (refusal == REFUND_NOT_OPEN) revert NotOpenYet(i.marketId, m.opensAt);
        if (refusal == REFUND_OUTCOME) revert UnknownOutcome(i.outcome, m.outcomes);
        if (refusal == REFUND_AMOUNT) {
            if (i.amount < MIN_STAKE || i.amount > MAX_STAKE) {
                revert AmountOutOfBounds(i.amount, MIN_STAKE, MAX_STAKE);
            }
            revert PoolFull(i.marketId, m.staked, MAX_POOL);
        }
        if (refusal == REFUND_KEY_USED) {
            revert IdempotencyKeyUsed(i.wallet, i.idemHash, stakeOf[i.wallet][i.idemHash]);
        }
        revert TooFewShares(shares, i.minShares);
    }

    /// Amounts are at most MAX_STAKE here, and pools at most MAX_POOL, which bounds shares by 40 * MAX_POOL: every cast fits.
    function _book(Market storage m, Intent memory i, uint256 shares, bytes32 hash) private returns (uint256 stakeId) {
        uint256 fee = Pricing.feeOf(i.amount, m.feeBps);
        stakeId = _record(m, i, IN_BOOK, shares);
        m.staked += uint80(i.amount);
        m.netPool += uint80(i.amount - fee);
        Book storage book = m.books[i.outcome];
        (book.net, book.shares) = (book.net + uint128(i.amount - fee), book.shares + uint128(shares));
        _liabilities.openStakes += uint80(i.amount);
        _announce(i, stakeId, fee, shares, hash);
    }

    /// On its own, so that the compiler's older pipeline, which tests and coverage use, has the stack for it.
    function _announce(Intent memory i, uint256 stakeId, uint256 fee, uint256 shares, bytes32 hash) private {
        emit Staked(i.marketId, stakeId, i.wallet, i.outcome, i.amount, fee, shares, hash, i.idemHash, i.builder, i.ref);
    }

    function _bookRefund(Market storage m, Intent memory i, uint8 reason, bytes32 hash)
        private
        returns (uint256 stakeId)
    {
        stakeId = _record(m, i, OWED_BACK, 0);
        _liabilities.unpaid += uint80(i.amount);
        emit RefundBooked(i.marketId, stakeId, i.wallet, i.amount, reason, hash, i.idemHash);
    }

    /// The key stays with the first payment booked under it.
    function _record(Market storage m, Intent memory i, uint8 status, uint256 shares)
        private
        returns (uint256 stakeId)
    {
        uint32 number = m.stakes;
        m.stakes = number + 1;
        stakeId = uint256(m.index) << 32 | number;
        Stake storage s = _stakes[stakeId];
        (s.wallet, s.amount, s.outcome, s.status) = (i.wallet, uint64(i.amount), i.outcome, status);
        if (shares != 0) s.shares = uint128(shares);
        if (stakeOf[i.wallet][i.idemHash] == 0) stakeOf[i.wallet][i.idemHash] = stakeId;
    }

    /// A contract may have changed its mind since it paid, and an account may have become a contract since it signed (EIP-7702);
    /// the money is here already, so either form of signature says whose it is.
    function _signed(Intent memory i, Authorization calldata a) private view returns (bool) {
        bytes32 structHash = keccak256(
            abi.encode(
                TRANSFER_WITH_AUTHORIZATION_TYPEHASH,
                i.wallet,
                address(this),
                i.amount,
                a.validAfter,
                a.validBefore,
                a.nonce
            )
        );
        bytes32 digest = keccak256(abi.encodePacked(hex"1901", IDomain(token).DOMAIN_SEPARATOR(), structHash));
        if (i.wallet == address(0)) return false;
        if (ECDSA.tryRecoverCalldata(digest, a.signature) == i.wallet) return true;
        return SignatureCheckerLib.isValidERC1271SignatureNowCalldata(i.wallet, digest, a.signature);
    }

    // ---------------------------------------------------------------- Settling

    /// @inheritdoc ISettlementWallet
    function resolve(bytes32 marketId, uint80 round) external nonReentrant {
        _resolve(marketId, round);
    }

    /// @inheritdoc ISettlementWallet
    function resolve(bytes32 marketId) external nonReentrant {
        _resolve(marketId, 0);
    }

    /// @inheritdoc ISettlementWallet
    function voidMarket(bytes32 marketId, uint80 round) external nonReentrant {
        Market storage m = _unsettled(marketId);
        bool timeout = block.timestamp > uint256(m.closesAt) + m.voidDelay;
        _void(marketId, m, timeout ? MarketRules.VOID_TIMEOUT : judge.fault(_terms(marketId, m), round));
    }

    function _resolve(bytes32 marketId, uint80 round) private {
        Market storage m = _unsettled(marketId);
        MarketRules.Verdict memory v = judge.decide(_terms(marketId, m), round);
        if (!v.settled) return _void(marketId, m, v.code);

        m.status = RESOLVED;
        m.winner = v.code;
        uint80 staked = m.staked;
        uint80 netPool = m.netPool;
        _liabilities.openStakes -= staked;
        if (m.books[v.code].shares == 0) {
            _liabilities.unpaid += staked; // nobody won: all of it goes back
        } else {
            _liabilities.unpaid += netPool;
            _liabilities.fees += staked - netPool;
        }
        emit MarketResolved(marketId, v.code, v.round.answer, v.round.id, v.round.updatedAt);
    }

    function _void(bytes32 marketId, Market storage m, uint8 reason) private {
        m.status = VOIDED;
        uint80 staked = m.staked;
        _liabilities.openStakes -= staked;
        _liabilities.unpaid += staked;
        emit MarketVoided(marketId, reason);
    }

    function _terms(bytes32 marketId, Market storage m) private view returns (MarketRules.Terms memory) {
        return MarketRules.Terms({
            marketId: marketId,
            kind: m.kind,
            feed: m.feed,
            earlyResolvable: m.earlyResolvable,
            opensAt: m.opensAt,
            closesAt: m.closesAt,
            startAt: m.startAt,
            maxAge: m.maxAge,
            lag: m.lag,
            target: m.target,
            bounds: m.bounds
        });
    }

    // ---------------------------------------------------------------- Paying

    /// @inheritdoc ISettlementWallet
    function pay(bytes32 marketId, uint256[] calldata stakeIds) external nonReentrant returns (uint256 paid) {
        Market storage m = _listed(marketId);
        Terms memory t = _payTerms(marketId, m);
        uint256 balance = _balance();
        uint256 sent;
        for (uint256 k; k < stakeIds.length; ++k) {
            uint256 id = stakeIds[k];
            Stake storage s = _stakes[id];
            (uint256 owed, bool refund) = _owed(t, id, s);
            if (owed == 0) continue;
            uint8 status = s.status;
            s.status = refund ? REFUNDED : PAID;
            if (_send(s.wallet, owed, balance)) {
                balance -= owed;
                sent += owed;
                if (!refund) (t.paidShares, t.paidOut) = (t.paidShares + s.shares, t.paidOut + owed);
                ++paid;
                emit Paid(marketId, id, s.wallet, owed, refund);
            } else {
                s.status = status;
                emit PayoutFailed(marketId, id, s.wallet, owed);
            }
        }
        if (sent == 0) return 0;
        _liabilities.unpaid -= uint80(sent);
        if (t.paidShares != m.paidShares) {
            (m.paidShares, m.paidOut) = (uint128(t.paidShares), uint128(t.paidOut));
            if (t.paidShares == t.winningShares) {
                // Every winner has been paid, so what the floors left is nobody's.
                uint80 dust = uint80(t.netPool - t.paidOut);
                _liabilities.unpaid -= dust;
                _liabilities.fees += dust;
            }
        }
    }

    /// @inheritdoc ISettlementWallet
    function sweepFees() external nonReentrant {
        uint256 fees = _liabilities.fees;
        if (fees == 0) revert NoFees();
        _liabilities.fees = 0;
        if (!_send(treasury, fees, _balance())) revert SweepFailed(treasury, fees);
        emit FeesSwept(fees);
    }

    /// What paying reads of a market once for a batch.
    struct Terms {
        bytes32 marketId;
        uint256 index;
        uint8 status;
        uint8 winner;
        uint256 winningShares;
        uint256 netPool;
        uint256 paidShares;
        uint256 paidOut;
    }

    function _payTerms(bytes32 marketId, Market storage m) private view returns (Terms memory t) {
        (t.marketId, t.index, t.status, t.winner) = (marketId, m.index, m.status, m.winner);
        if (t.status == RESOLVED) {
            t.winningShares = m.books[t.winner].shares;
            (t.netPool, t.paidShares, t.paidOut) = (m.netPool, m.paidShares, m.paidOut);
        }
    }

    /// What a stake is owed now, and whether that gives its amount back rather than pays it out.
    function _owed(Terms memory t, uint256 id, Stake storage s) private view returns (uint256 owed, bool refund) {
        uint8 status = s.status;
        if (status == 0) revert UnknownStake(id);
        if (id >> 32 != t.index) revert StakeOfAnotherMarket(id, t.marketId);
        if (status == OWED_BACK) return (s.amount, true);
        if (status != IN_BOOK) return (0, false);
        if (t.status == OPEN) revert NotSettled(t.marketId);
        if (t.status == VOIDED || t.winningShares == 0) return (s.amount, true);
        if (s.outcome == t.winner) return (Pricing.payout(s.shares, t.netPool, t.winningShares), false);
    }

    /// Sends with a fixed gas, so that nobody but the token decides whether it fails and none can burn what the next one needs.
    /// What the token answers does not matter, what it moved does.
    function _send(address to, uint256 amount, uint256 balance) private returns (bool) {
        uint256 left = gasleft();
        if (left < PAY_GAS_NEEDED) revert PayGasTooLow(left, PAY_GAS_NEEDED);
        (bool ok,) = token.call{gas: PAY_GAS}(abi.encodeCall(IERC3009.transfer, (to, amount)));
        uint256 moved = balance - _balance();
        if (!ok || moved == 0) return false;
        if (moved != amount) revert WrongAmountSent(amount, moved);
        return true;
    }

    // ---------------------------------------------------------------- Views

    /// @inheritdoc ISettlementWallet
    function market(bytes32 marketId) external view returns (MarketView memory v) {
        Market storage m = _listed(marketId);
        v.spec = MarketSpec({
            kind: m.kind,
            feed: m.feed,
            target: int256(uint256(m.target)),
            bounds: new int256[](m.bounds.length),
            earlyResolvable: m.earlyResolvable,
            opensAt: m.opensAt,
            closesAt: m.closesAt,
            startAt: m.startAt,
            maxAge: m.maxAge,
            voidDelay: m.voidDelay,
            feeBps: m.feeBps,
            outcomes: m.outcomes,
            virtualLiquidity: m.virtualLiquidity
        });
        for (uint256 k; k < v.spec.bounds.length; ++k) {
            v.spec.bounds[k] = int256(uint256(m.bounds[k]));
        }
        v.index = m.index;
        v.status = m.status;
        v.winner = m.winner;
        v.refunding = m.status == VOIDED || (m.status == RESOLVED && m.books[m.winner].shares == 0);
        v.stakes = m.stakes;
        v.settlesAfter = uint64(MarketRules.settlesAfter(m.closesAt, m.earlyResolvable, m.lag));
        v.staked = m.staked;
        v.netPool = m.netPool;
        v.paidOut = m.paidOut;
    }

    /// @inheritdoc ISettlementWallet
    function marketCount() external view returns (uint256) {
        return _marketIds.length;
    }

    /// @inheritdoc ISettlementWallet
    function marketIdAt(uint256 position) external view returns (bytes32) {
        return _marketIds[position];
    }

    /// @inheritdoc ISettlementWallet
    function outcomeBook(bytes32 marketId, uint8 outcome)
        external
        view
        returns (uint256 net, uint256 shares, uint256 weight, uint256 price)
    {
        Market storage m = _listed(marketId);
        if (outcome >= m.outcomes) revert UnknownOutcome(outcome, m.outcomes);
        uint256 total;
        (weight, total) = _weights(m, outcome);
        return (m.books[outcome].net, m.books[outcome].shares, weight, Pricing.price(weight, total));
    }

    /// @inheritdoc ISettlementWallet
    function stake(uint256 stakeId) external view returns (StakeView memory v) {
        Stake storage s = _stakes[stakeId];
        if (s.status == 0) revert UnknownStake(stakeId);
        v.marketId = _marketIds[(stakeId >> 32) - 1];
        Market storage m = _markets[v.marketId];
        (v.wallet, v.outcome, v.status, v.amount, v.shares) = (s.wallet, s.outcome, s.status, s.amount, s.shares);
        if (s.shares != 0) v.fee = Pricing.feeOf(s.amount, m.feeBps);
        if (s.status == OWED_BACK || m.status != OPEN) (v.payable_,) = _owed(_payTerms(v.marketId, m), stakeId, s);
    }

    /// @inheritdoc ISettlementWallet
    function stakeCount(bytes32 marketId) external view returns (uint256) {
        return _listed(marketId).stakes;
    }

    /// @inheritdoc ISettlementWallet
    function stakesOf(bytes32 marketId, uint256 from, uint256 count) external view returns (uint256[] memory ids) {
        Market storage m = _listed(marketId);
        uint256 stakes = m.stakes;
        uint256 left = from < stakes ? stakes - from : 0;
        ids = new uint256[](count < left ? count : left);
        for (uint256 k; k < ids.length; ++k) {
            ids[k] = uint256(m.index) << 32 | (from + k);
        }
    }

    /// @inheritdoc ISettlementWallet
    function quote(bytes32 marketId, uint8 outcome, uint256 amount)
        external
        view
        returns (uint256 shares, uint256 feePaid, uint256 priceBefore, uint256 priceAfter)
    {
        Market storage m = _listed(marketId);
        if (outcome >= m.outcomes) revert UnknownOutcome(outcome, m.outcomes);
        if (amount < MIN_STAKE || amount > MAX_STAKE) revert AmountOutOfBounds(amount, MIN_STAKE, MAX_STAKE);
        (uint256 weight, uint256 total) = _weights(m, outcome);
        shares = Pricing.sharesFor(Pricing.buying(amount, m.feeBps), weight, total);
        feePaid = Pricing.feeOf(amount, m.feeBps);
        priceBefore = Pricing.price(weight, total);
        priceAfter = Pricing.price(weight + amount - feePaid, total + amount - feePaid);
    }

    /// @inheritdoc ISettlementWallet
    function liabilities() external view returns (uint256 openStakes, uint256 unpaid, uint256 fees) {
        return (_liabilities.openStakes, _liabilities.unpaid, _liabilities.fees);
    }

    /// @inheritdoc ISettlementWallet
    function stakesPaused() external view returns (bool) {
        return _liabilities.paused;
    }

    // ---------------------------------------------------------------- Internals

    function _requireRole(bytes32 role, string memory name) private view {
        if (!hasRole[role][msg.sender]) revert MissingRole(msg.sender, name);
    }

    function _listed(bytes32 marketId) private view returns (Market storage m) {
        m = _markets[marketId];
        if (m.status == 0) revert UnknownMarket(marketId);
    }

    function _unsettled(bytes32 marketId) private view returns (Market storage m) {
        m = _listed(marketId);
        if (m.status != OPEN) revert AlreadySettled(marketId);
    }

    /// The virtual part is floor(virtualLiquidity / outcomes) an outcome, and so `outcomes` times that in all: prices sum to one.
    function _weights(Market storage m, uint8 outcome) private view returns (uint256 weight, uint256 total) {
        uint256 virtualWeight = m.virtualLiquidity / m.outcomes;
        return (virtualWeight + m.books[outcome].net, virtualWeight * m.outcomes + m.netPool);
    }

    function _balance() private view returns (uint256) {
        return IERC3009(token).balanceOf(address(this));
    }

    /// Money that is here and owed to nobody on the books.
    function _unbooked() private view returns (uint256) {
        Liabilities memory l = _liabilities;
        return _balance() - l.openStakes - l.unpaid - l.fees;
    }

    function _domainNameAndVersion() internal pure override returns (string memory, string memory) {
        return ("Service Settlement", "1");
    }
}
