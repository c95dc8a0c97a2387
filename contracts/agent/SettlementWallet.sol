// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {Ownable, Ownable2Step} from "@openzeppelin/contracts/access/Ownable2Step.sol";
import {ECDSA} from "solady/src/utils/ECDSA.sol";
import {EIP712} from "solady/src/utils/EIP712.sol";
import {SignatureCheckerLib} from "solady/src/utils/SignatureCheckerLib.sol";

import {IERC3009} from "../lib/IERC3009.sol";
import {ISettlementWallet} from "./ISettlementWallet.sol";
import {Pricing} from "./Pricing.sol";
import {SettlementPayments} from "./SettlementPayments.sol";

/// The token's own EIP-712 domain; USDC and USDG both publish it.
interface IDomain {
    function DOMAIN_SEPARATOR() external view returns (bytes32);
}

/// @title The settler of the agent markets; see ISettlementWallet for what it promises
/// @dev Money in the contract is one of: stakes of open markets, payouts and refunds not yet sent, fees, and unbooked money (what
///      arrived without passing through `settle` and has not been credited). The first three are `_liabilities`.
contract SettlementWallet is SettlementPayments, Ownable2Step, EIP712 {
    // ---------------------------------------------------------------- Constants and immutables

    bytes32 public constant RELAYER = keccak256("RELAYER");
    bytes32 public constant CREDITOR = keccak256("CREDITOR");

    bytes32 private constant BET_TYPEHASH = keccak256(
        "Bet(bytes32 marketId,uint8 outcome,uint256 amount,uint256 minShares,address wallet,bytes32 idemHash,address builder,bytes32 ref)"
    );
    bytes32 private constant TRANSFER_WITH_AUTHORIZATION_TYPEHASH = keccak256(
        "TransferWithAuthorization(address from,address to,uint256 value,uint256 validAfter,uint256 validBefore,bytes32 nonce)"
    );

    bytes4 private constant TRANSFER_WITH_AUTHORIZATION =
        bytes4(keccak256("transferWithAuthorization(address,address,uint256,uint256,uint256,bytes32,bytes)"));
    bytes4 private constant RECEIVE_WITH_AUTHORIZATION =
        bytes4(keccak256("receiveWithAuthorization(address,address,uint256,uint256,uint256,bytes32,bytes)"));

    /// A transfer signed with this `validAfter` (long past, so it delays nothing; no client picks it by chance)
    /// says that its nonce is the hash of a bet and that the payment may not be staked on any other.
    uint256 public constant BOUND_ONLY = 3009;

    /// What the nonce of every payment in the receive form begins with. Refused in the other form, so that a nonce which paid here
    /// in the receive form, and left no record, can never be credited.
    bytes8 public constant NONCE_MARK = bytes8(keccak256("service-settlement-bound-payment"));

    uint256 public constant MIN_STAKE = Pricing.MIN_STAKE;
    uint256 public constant MAX_STAKE = Pricing.MAX_STAKE;

    address public immutable lister;
    address public immutable resolver;
    address public immutable guardian;

    // ---------------------------------------------------------------- Construction

    /// @param token_ EIP-3009 with the `bytes` form
    /// @param lister_ the only one who opens markets
    /// @param resolver_ the only one who names winners and voids
    /// @param guardian_ the only one who pauses and resumes: a Pauser
    /// @param owner_ appoints relayers and creditors, nothing else; a Safe
    /// @param treasury_ gets fees and dust, nothing else
    constructor(
        address token_,
        address lister_,
        address resolver_,
        address guardian_,
        address owner_,
        address treasury_
    ) SettlementPayments(token_, treasury_) Ownable(owner_) {
        if (lister_ == address(0)) revert ZeroAddress("lister");
        if (resolver_ == address(0)) revert ZeroAddress("resolver");
        if (guardian_ == address(0)) revert ZeroAddress("guardian");
        lister = lister_;
        resolver = resolver_;
        guardian = guardian_;
        IDomain(token_).DOMAIN_SEPARATOR(); // `credit` could not check a signature without it
    }

    // ---------------------------------------------------------------- Administration

    /// @inheritdoc ISettlementWallet
    function setRole(bytes32 role, address account, bool allowed) external onlyOwner {
        if (role != RELAYER && role != CREDITOR) revert UnknownRole(role);
        if (account == address(0)) revert ZeroAddress("account");
        hasRole[role][account] = allowed;
        emit RoleSet(role, account, allowed);
    }

    /// @inheritdoc ISettlementWallet
    function setPaused(bool paused_) external nonReentrant {
        if (msg.sender != guardian) revert NotGuardian(msg.sender, guardian);
        _liabilities.paused = paused_;
        emit StakesPaused(paused_);
    }

    /// @notice Without an owner a lost creditor could not be replaced, and late payments would be stuck for ever.
    function renounceOwnership() public pure override {
        revert OwnershipCannotBeRenounced();
    }

    // ---------------------------------------------------------------- The lister and the resolver

    /// @inheritdoc ISettlementWallet
    function open(bytes32 marketId, OpenParams calldata p) external nonReentrant returns (uint32 index) {
        if (msg.sender != lister) revert NotLister(msg.sender, lister);
        Market storage m = _markets[marketId];
        if (m.status != MarketStatus.Unknown) revert AlreadyOpened(marketId);
        uint256 outcomes = p.weights.length;
        if (outcomes < Pricing.MIN_OUTCOMES || outcomes > Pricing.MAX_OUTCOMES) revert WrongNumberOfOutcomes(outcomes);
        if (p.closesAt <= p.opensAt) revert ClosesBeforeItOpens(p.opensAt, p.closesAt);
        if (p.feeBps > Pricing.MAX_FEE_BPS) revert FeeOutOfBounds(p.feeBps, Pricing.MAX_FEE_BPS);
        if (p.potCap < MIN_STAKE || p.potCap > Pricing.MAX_POT_CAP) {
            revert PotCapOutOfBounds(p.potCap, MIN_STAKE, Pricing.MAX_POT_CAP);
        }
        uint256 packed;
        uint256 sum;
        for (uint256 k; k < outcomes; ++k) {
            uint256 weight = p.weights[k];
            if (weight == 0) revert WeightOutOfBounds(k, 0, 1, type(uint32).max);
            packed |= weight << 32 * k;
            sum += weight;
        }

        _marketIds.push(marketId);
        index = uint32(_marketIds.length);
        (m.opensAt, m.closesAt, m.index, m.feeBps) = (p.opensAt, p.closesAt, index, p.feeBps);
        (m.outcomes, m.weightSum, m.status) = (uint8(outcomes), uint40(sum), MarketStatus.Open);
        m.weights = packed;
        m.potCap = p.potCap;
        emit MarketOpened(marketId, index, p.opensAt, p.closesAt, p.feeBps, p.potCap, p.weights);
    }

    /// @inheritdoc ISettlementWallet
    function resolve(bytes32 marketId, uint8 winner) external nonReentrant {
        Market storage m = _forResolver(marketId);
        if (winner >= m.outcomes) revert UnknownOutcome(winner, m.outcomes);
        (m.status, m.winner) = (MarketStatus.Resolved, winner);
        uint80 staked = m.staked;
        uint80 net = m.netPool;
        _liabilities.openStakes -= staked;
        Pricing.Pool memory pool = _pool(m, winner);
        if (Pricing.refunds(pool)) {
            _liabilities.unpaid += staked;
        } else {
            m.unpaidShares = uint128(pool.winnersShares);
            _liabilities.unpaid += net;
            _liabilities.fees += staked - net;
        }
        emit MarketResolved(marketId, winner);
    }

    /// @inheritdoc ISettlementWallet
    function voidMarket(bytes32 marketId, uint8 reason) external nonReentrant {
        Market storage m = _forResolver(marketId);
        m.status = MarketStatus.Void;
        uint80 staked = m.staked;
        _liabilities.openStakes -= staked;
        _liabilities.unpaid += staked;
        emit MarketVoided(marketId, reason);
    }

    function _forResolver(bytes32 marketId) private view returns (Market storage) {
        if (msg.sender != resolver) revert NotResolver(msg.sender, resolver);
        return _unsettled(marketId);
    }

    // ---------------------------------------------------------------- Staking

    /// @inheritdoc ISettlementWallet
    function betHash(Bet calldata b) public view returns (bytes32) {
        return _hashTypedData(
            keccak256(
                abi.encode(
                    BET_TYPEHASH, b.marketId, b.outcome, b.amount, b.minShares, b.wallet, b.idemHash, b.builder, b.ref
                )
            )
        );
    }

    /// @inheritdoc ISettlementWallet
    function boundNonce(Bet calldata b) external view returns (bytes32) {
        return _boundNonce(betHash(b));
    }

    function _boundNonce(bytes32 hash) private pure returns (bytes32) {
        return NONCE_MARK | (hash << 64 >> 64);
    }

    function _isMarked(bytes32 nonce) private pure returns (bool) {
        return bytes8(nonce) == NONCE_MARK;
    }

    /// @inheritdoc ISettlementWallet
    function settle(Bet calldata b, Authorization calldata a) external nonReentrant returns (uint256 stakeId) {
        bytes32 hash = betHash(b);
        _requireServes(a, hash);
        if (a.value != b.amount) revert WrongAmountSigned(b.amount, a.value);
        Market storage m = _known(b.marketId);
        (RefundReason refusal, uint256 shares) = _refusal(m, b);
        if (refusal != RefundReason.None) _revertFor(refusal, m, b, shares);

        // Some tokens let a spent authorization pass without paying, hence both this and the balances.
        if (_isUsed(b.wallet, a.nonce)) revert AuthorizationAlreadyUsed(b.wallet, a.nonce);
        if (a.form == Form.Transfer) booked[b.wallet][a.nonce] = true;
        stakeId = _book(m, b, shares, a.nonce, hash);
        _pull(b.wallet, a);
    }

    /// Whether the caller may stake this payment on this bet.
    function _requireServes(Authorization calldata a, bytes32 hash) private view {
        if (a.form == Form.Receive) {
            if (a.nonce != _boundNonce(hash)) revert BoundToAnotherBet(a.nonce, hash);
            return;
        }
        if (_isMarked(a.nonce)) revert NonceIsMarked(a.nonce);
        if (a.nonce == hash) return;
        if (a.validAfter == BOUND_ONLY) revert BoundToAnotherBet(a.nonce, hash);
        _requireRole(RELAYER);
    }

    /// Both forms take the same arguments. The token's answer does not matter, only what it moved.
    function _pull(address from, Authorization calldata a) private {
        uint256 before = _balance();
        (bool ok, bytes memory why) = token.call(
            abi.encodeWithSelector(
                a.form == Form.Receive ? RECEIVE_WITH_AUTHORIZATION : TRANSFER_WITH_AUTHORIZATION,
                from,
                address(this),
                a.value,
                a.validAfter,
                a.validBefore,
                a.nonce,
                a.signature
            )
        );
        if (!ok) {
            assembly ("memory-safe") {
                revert(add(why, 32), mload(why))
            }
        }
        uint256 now_ = _balance();
        if (now_ != before + a.value) revert WrongAmountReceived(a.value, now_ > before ? now_ - before : 0);
    }

    /// @inheritdoc ISettlementWallet
    function credit(Bet calldata b, Authorization calldata a) external nonReentrant returns (uint256 stakeId) {
        _requireRole(CREDITOR);
        if (a.form == Form.Receive) revert ReceiveFormIsNeverCredited();
        if (_isMarked(a.nonce)) revert NonceIsMarked(a.nonce);
        Market storage m = _known(b.marketId);
        if (a.value < MIN_STAKE || a.value > type(uint64).max) {
            revert AmountOutOfBounds(a.value, MIN_STAKE, type(uint64).max);
        }
        if (booked[b.wallet][a.nonce]) revert AuthorizationAlreadyBooked(b.wallet, a.nonce);
        if (!_isUsed(b.wallet, a.nonce)) revert AuthorizationNotUsed(b.wallet, a.nonce);
        if (!_isSigned(b.wallet, a)) revert NotSignedBy(b.wallet);
        uint256 unbooked = _unbooked();
        if (unbooked < a.value) revert NothingUnbooked(unbooked, a.value);

        booked[b.wallet][a.nonce] = true;
        bytes32 hash = betHash(b);
        (RefundReason refusal, uint256 shares) = _refusal(m, b);
        if (a.value != b.amount) refusal = RefundReason.OtherAmount;
        if (a.validAfter == BOUND_ONLY && a.nonce != hash) refusal = RefundReason.Bound;
        if (refusal == RefundReason.None) return _book(m, b, shares, a.nonce, hash);
        return _bookRefund(m, b, refusal, a, hash);
    }

    /// Why a bet cannot be a stake now, if it cannot; and the shares it would get.
    function _refusal(Market storage m, Bet calldata b) private view returns (RefundReason, uint256 shares) {
        if (_liabilities.paused) return (RefundReason.Paused, 0);
        if (m.status != MarketStatus.Open || block.timestamp >= m.closesAt) return (RefundReason.Closed, 0);
        if (block.timestamp < m.opensAt) return (RefundReason.NotOpen, 0);
        if (b.outcome >= m.outcomes) return (RefundReason.Outcome, 0);
        if (b.amount < MIN_STAKE || b.amount > MAX_STAKE) return (RefundReason.Amount, 0);
        if (Pricing.netOf(b.amount, m.feeBps) > _room(m, b.outcome)) return (RefundReason.PotFull, 0);
        if (stakeOf[b.wallet][b.idemHash] != 0) return (RefundReason.KeyUsed, 0);
        (uint256 weight, uint256 total) = _weights(m, b.outcome);
        shares = Pricing.sharesFor(Pricing.buying(b.amount, m.feeBps), weight, total);
        return (shares < b.minShares ? RefundReason.Shares : RefundReason.None, shares);
    }

    /// The same refusals as errors.
    function _revertFor(RefundReason refusal, Market storage m, Bet calldata b, uint256 shares) private view {
        if (refusal == RefundReason.Paused) revert StakesArePaused();
        if (refusal == RefundReason.Closed) {
            if (m.status != MarketStatus.Open) revert AlreadySettled(b.marketId);
            revert Closed(b.marketId, m.closesAt);
        }
        if (refusal == RefundReason.NotOpen) revert NotOpenYet(b.marketId, m.opensAt);
        if (refusal == RefundReason.Outcome) revert UnknownOutcome(b.outcome, m.outcomes);
        if (refusal == RefundReason.Amount) revert AmountOutOfBounds(b.amount, MIN_STAKE, MAX_STAKE);
        if (refusal == RefundReason.PotFull) {
            revert PotFull(b.marketId, b.outcome, _room(m, b.outcome));
        }
        if (refusal == RefundReason.KeyUsed) {
            revert IdempotencyKeyUsed(b.wallet, b.idemHash, stakeOf[b.wallet][b.idemHash]);
        }
        revert TooFewShares(shares, b.minShares);
    }

    /// Nothing refuses the bet, so its amount is in bounds and fits the pot: every cast below fits (see SettlementBooks).
    function _book(Market storage m, Bet calldata b, uint256 shares, bytes32 nonce, bytes32 hash)
        private
        returns (uint256 stakeId)
    {
        Booking memory k = Booking({
            stakeId: _record(m, b, b.amount, StakeStatus.InBook, shares),
            fee: Pricing.feeOf(b.amount, m.feeBps),
            shares: shares,
            nonce: nonce,
            hash: hash
        });
        uint256 net = b.amount - k.fee;
        m.staked += uint64(b.amount);
        m.netPool += uint64(net);
        Book memory book = m.books[b.outcome];
        m.books[b.outcome] = Book({
            net: book.net + uint80(net),
            shares: book.shares + uint88(shares),
            excess: book.excess + uint88(Pricing.excessOf(net, shares))
        });
        _liabilities.openStakes += uint80(b.amount);
        _announce(b, k);
        return k.stakeId;
    }

    /// On its own, as is its argument, so that the compiler's older pipeline, which tests and coverage use, has the stack for it.
    function _announce(Bet calldata b, Booking memory k) private {
        emit Staked(
            b.marketId,
            k.stakeId,
            b.wallet,
            b.outcome,
            b.amount,
            k.fee,
            k.shares,
            k.nonce,
            k.hash,
            b.idemHash,
            b.builder,
            b.ref
        );
    }

    struct Booking {
        uint256 stakeId;
        uint256 fee;
        uint256 shares;
        bytes32 nonce;
        bytes32 hash;
    }

    /// The refund is what the payment brought, not the amount in the bet.
    function _bookRefund(Market storage m, Bet calldata b, RefundReason reason, Authorization calldata a, bytes32 hash)
        private
        returns (uint256 stakeId)
    {
        stakeId = _record(m, b, a.value, StakeStatus.OwedBack, 0);
        _liabilities.unpaid += uint80(a.value);
        emit RefundBooked(b.marketId, stakeId, b.wallet, a.value, reason, a.nonce, hash, b.idemHash);
    }

    /// The key stays with the first payment booked under it.
    function _record(Market storage m, Bet calldata b, uint256 amount, StakeStatus status, uint256 shares)
        private
        returns (uint256 stakeId)
    {
        uint32 number = m.stakes;
        m.stakes = number + 1;
        stakeId = uint256(m.index) << 32 | number;
        Stake storage s = _stakes[stakeId];
        (s.wallet, s.amount, s.outcome, s.status) = (b.wallet, uint64(amount), b.outcome, status);
        if (shares != 0) s.shares = uint88(shares);
        if (stakeOf[b.wallet][b.idemHash] == 0) stakeOf[b.wallet][b.idemHash] = stakeId;
    }

    /// A contract may have changed its mind since it paid, and an account may have become a contract since it signed (EIP-7702);
    /// the money is here already, so either form of signature says whose it is.
    function _isSigned(address from, Authorization calldata a) private view returns (bool) {
        if (from == address(0)) return false;
        bytes32 structHash = keccak256(
            abi.encode(
                TRANSFER_WITH_AUTHORIZATION_TYPEHASH, from, address(this), a.value, a.validAfter, a.validBefore, a.nonce
            )
        );
        bytes32 digest = keccak256(abi.encodePacked(hex"1901", IDomain(token).DOMAIN_SEPARATOR(), structHash));
        if (ECDSA.tryRecoverCalldata(digest, a.signature) == from) return true;
        return SignatureCheckerLib.isValidERC1271SignatureNowCalldata(from, digest, a.signature);
    }

    // ---------------------------------------------------------------- Internals

    function _requireRole(bytes32 role) private view {
        if (!hasRole[role][msg.sender]) revert MissingRole(msg.sender, role);
    }

    /// Used or cancelled: the token keeps one bit for both.
    function _isUsed(address from, bytes32 nonce) private view returns (bool) {
        return IERC3009(token).authorizationState(from, nonce);
    }

    /// Money in the contract that the books owe to no one.
    function _unbooked() private view returns (uint256) {
        Liabilities memory l = _liabilities;
        uint256 owed = uint256(l.openStakes) + l.unpaid + l.fees;
        uint256 balance = _balance();
        return balance > owed ? balance - owed : 0;
    }

    function _domainNameAndVersion() internal pure override returns (string memory, string memory) {
        return ("Service Settlement", "2");
    }
}
