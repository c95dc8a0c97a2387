// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {IERC20} from "@openzeppelin/contracts/token/ERC20/IERC20.sol";
import {SafeERC20} from "@openzeppelin/contracts/token/ERC20/utils/SafeERC20.sol";
import {ReentrancyGuardTransient} from "@openzeppelin/contracts/utils/ReentrancyGuardTransient.sol";
import {IERC3009} from "../lib/IERC3009.sol";
import {IVestedMarkets} from "./IVestedMarkets.sol";
import {
    Flow,
    PAID,
    Pool,
    Position,
    REFUNDED,
    SEEDED,
    Terms,
    Totals,
    packPool,
    packPoolParking,
    packPosition,
    packRation,
    packTerms,
    packVintage,
    parkedRation
} from "./PackedWords.sol";
import {VestedBooks} from "./VestedBooks.sol";
import {VestedMath} from "./VestedMath.sol";

/// @title The settler: holds every stake of every vested-parimutuel market and pays what the books say
/// @notice See IVestedMarkets for the interface, units, requirements and roles.
/// @dev All markets share one balance. What keeps them apart is that each market's payouts sum to at most its pool, and its
/// refunds to what it refused; `liabilities` counts all of it, and every payment is subtracted from it with a check.
contract VestedMarkets is VestedBooks, ReentrancyGuardTransient {
    // ---------------------------------------------------------------- Constants and immutables

    bytes32 public constant ENTER_TYPEHASH =
        keccak256("Enter(uint256 marketId,uint8 outcome,uint256 amount,bytes32 salt)");

    /// What one transfer of a batch may use, so that a token that calls its receivers cannot let one of them burn a batch's gas. A
    /// call that pays one and reverts on failure forwards all it has: should a token ever need more than this, no money is locked.
    uint256 public constant TRANSFER_GAS = 200_000;
    /// What must remain on top of it: 1/63 of it, which a call cannot pass on, and the work after the call.
    uint256 private constant TRANSFER_GAS_RESERVE = 40_000;

    /// What must be left when an entry is booked: more than booking and finalizing the dearest vintage use. Demanded of every
    /// entry, also of one that joins a vintage, so that a gas estimate still holds when the block before its own left one open.
    uint256 public constant BOOKING_GAS = 110_000;

    /// Ids number the positions of one outcome in 31 bits.
    uint256 private constant MAX_POSITIONS = 1 << 31;

    address public immutable token;
    address public immutable lister;
    address public immutable guardian;
    address public immutable treasury;

    constructor(address token_, address lister_, address guardian_, address treasury_) {
        if (token_ == address(0)) revert ZeroAddress("token");
        if (lister_ == address(0)) revert ZeroAddress("lister");
        if (guardian_ == address(0)) revert ZeroAddress("guardian");
        if (treasury_ == address(0)) revert ZeroAddress("treasury");
        token = token_;
        lister = lister_;
        guardian = guardian_;
        treasury = treasury_;
    }

    // ---------------------------------------------------------------- Creating

    /// @inheritdoc IVestedMarkets
    function create(CreateParams calldata p) external nonReentrant returns (uint256 marketId) {
        if (msg.sender != lister) revert NotLister(msg.sender, lister);
        Totals totals = _totals;
        if (totals.entriesPaused()) revert EntriesArePaused(guardian);
        _requireTerms(p);

        uint256 seed = 2 * uint256(p.seedPerLeg);
        uint256 held = _held();
        uint256 owed = totals.liabilities();
        uint256 unbooked = held > owed ? held - owed : 0;
        if (unbooked < seed) revert SeedNotReceived(seed, unbooked);

        totals = totals.addMarket().owe(seed);
        _totals = totals;
        marketId = totals.markets();
        Market storage m = _markets[marketId];
        m.terms = packTerms(
            uint32(p.minEntry),
            uint48(p.maxEntry),
            uint48(p.sideCap),
            uint40(p.freezeTime),
            p.kappa,
            p.voidDelay,
            p.feeBps,
            uint8(Status.Open)
        );
        m.flow = SEEDED;
        m.pool = packPool(p.seedPerLeg, p.seedPerLeg);
        m.opener = p.opener;
        m.seedPerLeg = p.seedPerLeg;
        m.resolver = p.resolver;
        _announce(marketId, p);
        for (uint256 outcome = 0; outcome < 2; ++outcome) {
            uint256 positionId = _positionId(marketId, outcome, 0);
            _positions[positionId] = packPosition(p.opener, p.seedPerLeg, 0);
            emit Entered(marketId, positionId, p.opener, uint8(outcome), p.seedPerLeg, 0);
        }
    }

    /// On its own, so that the compiler's older pipeline, which tests and coverage use, has the stack for it.
    function _announce(uint256 marketId, CreateParams calldata p) private {
        emit MarketCreated(
            marketId,
            p.opener,
            p.resolver,
            p.freezeTime,
            p.voidDelay,
            p.feeBps,
            p.kappa,
            p.seedPerLeg,
            p.minEntry,
            p.maxEntry,
            p.sideCap
        );
    }

    function _requireTerms(CreateParams calldata p) private view {
        if (p.opener == address(0) || p.opener == address(this)) revert InvalidOwner(p.opener);
        if (p.resolver == address(0)) revert ZeroAddress("resolver");
        _requireTerm("freezeTime", p.freezeTime, block.timestamp + 1, type(uint40).max);
        _requireTerm("feeBps", p.feeBps, 0, 1e4);
        _requireTerm("kappa", p.kappa, 1, VestedMath.MAX_KAPPA);
        _requireTerm("sideCap", p.sideCap, 1, VestedMath.MAX_SIDE_CAP);
        _requireTerm("seedPerLeg", p.seedPerLeg, 1, p.sideCap);
        _requireTerm("minEntry", p.minEntry, 1, type(uint32).max);
        _requireTerm("maxEntry", p.maxEntry, p.minEntry, type(uint48).max);
    }

    function _requireTerm(string memory term, uint256 given, uint256 min, uint256 max) private pure {
        if (given < min || given > max) revert TermOutOfBounds(term, given, min, max);
    }

    // ---------------------------------------------------------------- Entering

    /// @inheritdoc IVestedMarkets
    function enter(uint256 marketId, uint8 outcome, uint256 amount) external nonReentrant returns (uint256 positionId) {
        _requireEntry(marketId, outcome, amount);
        uint256 held = _held();
        SafeERC20.safeTransferFrom(IERC20(token), msg.sender, address(this), amount);
        _requireReceived(msg.sender, amount, held);
        return _book(marketId, outcome, amount, msg.sender);
    }

    /// @inheritdoc IVestedMarkets
    function enterWithAuthorization(
        address from,
        uint256 marketId,
        uint8 outcome,
        uint256 amount,
        uint256 validAfter,
        uint256 validBefore,
        bytes32 salt,
        bytes calldata signature
    ) external nonReentrant returns (uint256 positionId) {
        _requireEntry(marketId, outcome, amount);
        bytes32 nonce = entryNonce(marketId, outcome, amount, salt);
        // Some tokens return without paying for a spent authorization; the balance check below would stop that too.
        if (IERC3009(token).authorizationState(from, nonce)) revert AuthorizationSpent(from, nonce);
        uint256 held = _held();
        IERC3009(token).receiveWithAuthorization(from, address(this), amount, validAfter, validBefore, nonce, signature);
        _requireReceived(from, amount, held);
        return _book(marketId, outcome, amount, from);
    }

    /// @inheritdoc IVestedMarkets
    function entryNonce(uint256 marketId, uint8 outcome, uint256 amount, bytes32 salt) public view returns (bytes32) {
        return keccak256(abi.encode(ENTER_TYPEHASH, block.chainid, address(this), marketId, outcome, amount, salt));
    }

    function _requireEntry(uint256 marketId, uint8 outcome, uint256 amount) private view {
        if (_totals.entriesPaused()) revert EntriesArePaused(guardian);
        if (outcome > 1) revert InvalidOutcome(outcome);
        (, Terms t) = _openMarket(marketId);
        if (block.timestamp >= t.freezeTime()) revert MarketFrozen(marketId, t.freezeTime(), block.timestamp);
        if (amount < t.minEntry() || amount > t.maxEntry()) {
            revert AmountOutOfBounds(amount, t.minEntry(), t.maxEntry());
        }
    }

    function _requireReceived(address from, uint256 amount, uint256 heldBefore) private view {
        uint256 held = _held();
        if (held != heldBefore + amount) {
            revert PaymentNotReceived(from, amount, held > heldBefore ? held - heldBefore : 0);
        }
    }

    /// Numbers, stores and announces an entry whose money has arrived.
    function _book(uint256 marketId, uint256 outcome, uint256 amount, address owner)
        private
        returns (uint256 positionId)
    {
        if (gasleft() < BOOKING_GAS) revert NotEnoughGas(gasleft(), BOOKING_GAS);
        Market storage m = _markets[marketId];
        Flow f = m.flow;
        if (f.vintageBlock() != block.number) {
            f = _clear(marketId, m, f);
            if (f.vintages() == type(uint24).max) revert MarketFull(marketId);
            f = f.begin(block.number);
        }
        uint256 n = f.countOf(outcome);
        uint256 through = f.demandOf(outcome) + amount;
        if (n == MAX_POSITIONS || through > type(uint64).max) revert MarketFull(marketId);
        m.flow = f.join(outcome, amount);
        _totals = _totals.owe(amount);
        positionId = _positionId(marketId, outcome, n);
        _positions[positionId] = packPosition(owner, through, f.vintages());
        emit Entered(marketId, positionId, owner, uint8(outcome), amount, uint64(block.number));
    }

    // ---------------------------------------------------------------- Vintages

    /// @inheritdoc IVestedMarkets
    function finalizeVintage(uint256 marketId) external nonReentrant {
        (Market storage m, Terms t) = _market(marketId);
        Flow f = m.flow;
        if (f.vintageBlock() == 0) revert NoOpenVintage(marketId);
        if (!_finished(t, f)) revert VintageStillOpen(marketId, f.vintageBlock());
        m.flow = _finalize(marketId, m, f, true);
    }

    /// The flow with no vintage open and no ration parked, whose words the next vintage or the settlement needs. The caller
    /// stores it.
    function _clear(uint256 marketId, Market storage m, Flow f) private returns (Flow) {
        if (f.vintageBlock() != 0) return _finalize(marketId, m, f, false);
        if (!f.parks()) return f;
        Pool pool = m.pool;
        _vintages[_vintageKey(marketId, f.vintages())].ration = parkedRation(f, pool);
        m.pool = packPool(pool.principalUp(), pool.principalDown());
        return f.finalized();
    }

    /// Writes the open vintage into the books; if it was rationed, its ration too, in a word of its own or, with `park`, in
    /// the flow and the pool. Without a ration every entry was accepted whole.
    /// @return the flow without it, which the caller stores
    function _finalize(uint256 marketId, Market storage m, Flow f, bool park) private returns (Flow) {
        Books memory b = _books(marketId, m.terms, f, m.pool, true);
        StoredVintage storage stored = _vintages[_vintageKey(marketId, f.vintages())];
        bool rationed = b.acceptedUp != b.offeredUp || b.acceptedDown != b.offeredDown;
        stored.vintage = packVintage(b.accUp, b.accDown, f.vintageBlock(), rationed);
        park = park && rationed;
        if (park) {
            m.pool = packPoolParking(b.principalUp, b.principalDown, b.acceptedUp, b.acceptedDown);
        } else {
            m.pool = packPool(b.principalUp, b.principalDown);
            if (rationed) stored.ration = packRation(b.offeredUp, b.offeredDown, b.acceptedUp, b.acceptedDown);
        }
        emit VintageFinalized(
            marketId,
            uint64(f.vintageBlock()),
            b.offeredUp,
            b.offeredDown,
            b.acceptedUp,
            b.acceptedDown,
            b.accUp,
            b.accDown
        );
        return park ? f.finalizedParking() : f.finalized();
    }

    // ---------------------------------------------------------------- Settling

    /// @inheritdoc IVestedMarkets
    function resolve(uint256 marketId, uint8 winner) external nonReentrant {
        if (winner > 1) revert InvalidOutcome(winner);
        (Market storage m, Terms t) = _openMarket(marketId);
        if (msg.sender != m.resolver) revert NotResolver(marketId, msg.sender, m.resolver);
        if (block.timestamp < t.freezeTime()) revert MarketNotFrozen(marketId, t.freezeTime(), block.timestamp);
        _close(marketId, m, t, winner == 0 ? Status.Up : Status.Down);
        emit Resolved(marketId, winner);
    }

    /// @inheritdoc IVestedMarkets
    function voidMarket(uint256 marketId) external nonReentrant {
        (Market storage m, Terms t) = _openMarket(marketId);
        if (block.timestamp < t.freezeTime()) revert MarketNotFrozen(marketId, t.freezeTime(), block.timestamp);
        uint256 anyoneFrom = t.freezeTime() + t.voidDelay();
        if (block.timestamp < anyoneFrom && msg.sender != m.resolver) {
            revert TooEarlyToVoid(marketId, anyoneFrom, block.timestamp);
        }
        _close(marketId, m, t, Status.Void);
        emit Voided(marketId);
    }

    function _close(uint256 marketId, Market storage m, Terms t, Status status) private {
        // Even if the vintage's block goes on: after this, a stake not yet accepted or refused would be owed nothing, or twice.
        Flow f = m.flow;
        Flow cleared = _clear(marketId, m, f);
        if (Flow.unwrap(cleared) != Flow.unwrap(f)) m.flow = cleared;
        m.terms = t.withStatus(uint8(status));
    }

    // ---------------------------------------------------------------- Paying

    /// @inheritdoc IVestedMarkets
    function claim(uint256 positionId) external nonReentrant {
        (Position p, Snapshot memory snap, Stake memory s) = _position(positionId);
        if (snap.status == Status.Open) revert MarketNotSettled(snap.marketId);
        _payOrRevert(positionId, p, snap, s, true);
    }

    /// @inheritdoc IVestedMarkets
    function withdrawRefund(uint256 positionId) external nonReentrant {
        (Position p, Snapshot memory snap, Stake memory s) = _position(positionId);
        if (!s.matched) revert VintageStillOpen(snap.marketId, snap.pendingBlock);
        _payOrRevert(positionId, p, snap, s, false);
    }

    function _payOrRevert(uint256 positionId, Position p, Snapshot memory snap, Stake memory s, bool settle) private {
        uint256 held = _held();
        (uint256 total, uint256 left) = _pay(positionId, p, snap, s, settle, held, false);
        if (total == 0) revert NothingDue(positionId);
        if (left >= held) revert TransferFailed(p.owner(), total);
    }

    /// @inheritdoc IVestedMarkets
    function deliver(uint256[] calldata positionIds) external nonReentrant returns (uint256 delivered) {
        uint256 held = _held();
        Snapshot memory snap;
        for (uint256 i = 0; i < positionIds.length; ++i) {
            uint256 positionId = positionIds[i];
            Position p = _positions[positionId];
            if (p.owner() == address(0)) continue;
            // Nothing below changes the snapshot of a market.
            if (positionId >> 32 != snap.marketId) snap = _snapshot(positionId >> 32);
            Stake memory s = _stake(snap, positionId, p);
            (, uint256 left) = _pay(positionId, p, snap, s, snap.status != Status.Open, held, true);
            unchecked {
                if (left < held) ++delivered; // at most positionIds.length
            }
            held = left;
        }
    }

    /// Sends what is due of the refused part and, if `settle`, of the settlement. It is booked before the transfer and
    /// taken back when the token refuses, so that at no moment the same money is both sent and owed.
    /// @param held our balance before
    /// @param capped whether the transfer gets a fixed gas, as in a batch
    /// @return total what was due
    /// @return left our balance after; it went if that is less
    function _pay(
        uint256 positionId,
        Position p,
        Snapshot memory snap,
        Stake memory s,
        bool settle,
        uint256 held,
        bool capped
    ) private returns (uint256 total, uint256 left) {
        uint256 gross = _reckon(p, snap, s, settle);
        total = gross - s.fee + s.refund;
        if (total == 0) return (0, held);

        Market storage m = _markets[snap.marketId];
        Pool pool = m.pool;
        Totals totals = _totals;
        _positions[positionId] = p.withFlags(settle ? PAID | REFUNDED : REFUNDED);
        if (gross != 0) m.pool = pool.pay(s.accepted, gross);
        _totals = totals.settleDebt(total, s.fee);

        left = _send(p.owner(), total, held, capped);
        if (left < held) {
            emit Delivered(positionId, p.owner(), total - s.refund, s.fee, s.refund);
        } else {
            _positions[positionId] = p;
            m.pool = pool;
            _totals = totals;
            emit DeliveryFailed(positionId, p.owner(), total);
        }
    }

    /// What is due now and not paid yet: the fee and the refused part go into `s`.
    /// @return gross the payout before the fee
    function _reckon(Position p, Snapshot memory snap, Stake memory s, bool settle)
        private
        pure
        returns (uint256 gross)
    {
        uint256 flags = p.flags();
        if (settle && flags & PAID == 0) (gross, s.fee) = _payout(snap, s);
        // An accepted amount is a part of what was offered; most often all of it.
        if (flags & REFUNDED == 0 && s.matched && s.offered != s.accepted) s.refund = s.offered - s.accepted;
    }

    /// Our balance decides whether the money went, not what the token says: it may revert, or return anything, for an
    /// owner it has frozen. A receiver that sends a part back within the call has been paid; one that sends back all of it,
    /// or more, is still owed it.
    /// @return left our balance after; nothing went unless that is less
    function _send(address to, uint256 amount, uint256 held, bool capped) private returns (uint256 left) {
        uint256 gasLimit = gasleft();
        if (capped) {
            // All of it or nothing: a starved transfer would look like a refused one.
            uint256 needed = TRANSFER_GAS + TRANSFER_GAS_RESERVE;
            if (gasLimit < needed) revert NotEnoughGas(gasLimit, needed);
            gasLimit = TRANSFER_GAS;
        }
        address token_ = token;
        bytes4 selector = IERC3009.transfer.selector;
        // transfer(to, amount). What comes back is not copied, so it cannot be made expensive.
        assembly ("memory-safe") {
            let data := mload(0x40)
            mstore(data, selector)
            mstore(add(data, 4), shr(96, shl(96, to))) // nothing is promised about the bits above an address
            mstore(add(data, 36), amount)
            pop(call(gasLimit, token_, 0, data, 68, 0, 0))
        }
        left = _held();
        unchecked {
            if (left < held && held - left > amount) revert TokenOvercharged(amount, held - left);
        }
    }

    function _sendToTreasury(uint256 amount) private {
        uint256 held = _held();
        if (_send(treasury, amount, held, false) >= held) revert TransferFailed(treasury, amount);
    }

    function _held() private view returns (uint256) {
        return IERC3009(token).balanceOf(address(this));
    }

    /// @inheritdoc IVestedMarkets
    function claimResidue(uint256 marketId) external nonReentrant {
        (Market storage m, Terms t) = _market(marketId);
        if (Status(t.status()) == Status.Open) revert MarketNotSettled(marketId);
        Pool pool = m.pool;
        uint256 unpaid = _unpaidPrincipal(t, pool);
        if (unpaid != 0) revert WinnersUnpaid(marketId, unpaid);
        uint256 residue = pool.principalUp() + pool.principalDown() - pool.distributed();
        if (residue == 0) revert NoResidue(marketId);
        m.pool = pool.payResidue(residue);
        _totals = _totals.settleDebt(residue, 0);
        _sendToTreasury(residue);
        emit ResidueClaimed(marketId, residue);
    }

    /// @inheritdoc IVestedMarkets
    function sweepFees() external nonReentrant {
        Totals totals = _totals;
        uint256 amount = totals.fees();
        if (amount == 0) revert NoFees();
        _totals = totals.withoutFees();
        _sendToTreasury(amount);
        emit FeesSwept(amount);
    }

    // ---------------------------------------------------------------- Other

    /// @inheritdoc IVestedMarkets
    function setPaused(bool paused) external nonReentrant {
        if (msg.sender != guardian) revert NotGuardian(msg.sender, guardian);
        _totals = _totals.withPaused(paused);
        emit EntriesPaused(paused);
    }

    /// @inheritdoc IVestedMarkets
    function transferPosition(uint256 positionId, address to) external nonReentrant {
        Position p = _positions[positionId];
        address owner = p.owner();
        if (owner == address(0)) revert UnknownPosition(positionId);
        if (msg.sender != owner) revert NotPositionOwner(positionId, msg.sender, owner);
        if (to == address(0) || to == address(this)) revert InvalidOwner(to);
        _positions[positionId] = p.withOwner(to);
        emit PositionTransferred(positionId, owner, to);
    }
}
