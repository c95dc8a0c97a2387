// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {IERC20} from "@openzeppelin/contracts/token/ERC20/IERC20.sol";
import {SafeERC20} from "@openzeppelin/contracts/token/ERC20/utils/SafeERC20.sol";
import {ReentrancyGuardTransient} from "@openzeppelin/contracts/utils/ReentrancyGuardTransient.sol";
import {IERC3009} from "../lib/IERC3009.sol";
import {IVestedMarkets} from "./IVestedMarkets.sol";
import {PAID, REFUNDED, VestedBooks} from "./VestedBooks.sol";
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
        Totals memory totals = _totals;
        if (totals.entriesPaused) revert EntriesArePaused(guardian);
        _requireTerms(p);

        uint256 seed = 2 * uint256(p.seedPerLeg);
        uint256 held = _held();
        uint256 owed = totals.liabilities;
        uint256 unbooked = held > owed ? held - owed : 0;
        if (unbooked < seed) revert SeedNotReceived(seed, unbooked);

        marketId = ++totals.markets;
        totals.liabilities += uint128(seed); // two of 64 bits
        _totals = totals;
        Market storage m = _markets[marketId];
        // _requireTerms has checked the widths.
        m.terms = Terms({
            minEntry: uint32(p.minEntry),
            maxEntry: uint48(p.maxEntry),
            sideCap: uint48(p.sideCap),
            freezeTime: uint40(p.freezeTime),
            kappa: p.kappa,
            voidDelay: p.voidDelay,
            feeBps: p.feeBps,
            status: Status.Open
        });
        (m.flow.countUp, m.flow.countDown) = (1, 1);
        (m.pool.principalUp, m.pool.principalDown) = (p.seedPerLeg, p.seedPerLeg);
        m.opener = p.opener;
        m.seedPerLeg = p.seedPerLeg;
        m.resolver = p.resolver;
        _announce(marketId, p);
        for (uint256 outcome = 0; outcome < 2; ++outcome) {
            uint256 positionId = _positionId(marketId, outcome, 0);
            _positions[positionId] = Position(p.opener, p.seedPerLeg, 0, 0);
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
        if (_totals.entriesPaused) revert EntriesArePaused(guardian);
        if (outcome > 1) revert InvalidOutcome(outcome);
        Terms storage t = _openMarket(marketId).terms;
        if (block.timestamp >= t.freezeTime) revert MarketFrozen(marketId, t.freezeTime, block.timestamp);
        if (amount < t.minEntry || amount > t.maxEntry) {
            revert AmountOutOfBounds(amount, t.minEntry, t.maxEntry);
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
        Flow storage f = m.flow;
        if (f.vintageBlock != block.number) {
            _clear(marketId, m);
            if (f.vintages == type(uint24).max) revert MarketFull(marketId);
            ++f.vintages;
            f.vintageBlock = uint40(block.number); // 40 bits are enough for ever
        }
        uint256 n = _countOf(f, outcome);
        uint256 through = _demandOf(f, outcome) + amount;
        if (n == MAX_POSITIONS || through > type(uint64).max) revert MarketFull(marketId);
        if (outcome == 0) (f.demandUp, f.countUp) = (uint64(through), uint32(n + 1));
        else (f.demandDown, f.countDown) = (uint64(through), uint32(n + 1));
        _totals.liabilities += uint128(amount); // at most the market's maxEntry, 48 bits
        positionId = _positionId(marketId, outcome, n);
        _positions[positionId] = Position(owner, uint64(through), f.vintages, 0);
        emit Entered(marketId, positionId, owner, uint8(outcome), amount, uint64(block.number));
    }

    // ---------------------------------------------------------------- Vintages

    /// @inheritdoc IVestedMarkets
    function finalizeVintage(uint256 marketId) external nonReentrant {
        Market storage m = _market(marketId);
        Flow storage f = m.flow;
        if (f.vintageBlock == 0) revert NoOpenVintage(marketId);
        if (!_finished(m)) revert VintageStillOpen(marketId, f.vintageBlock);
        _finalize(marketId, m, true);
    }

    /// Ends the open vintage and gives a parked ration its word, since the next vintage or the settlement needs theirs in
    /// the flow and the pool.
    function _clear(uint256 marketId, Market storage m) private {
        Flow storage f = m.flow;
        if (f.vintageBlock != 0) {
            _finalize(marketId, m, false);
        } else if (_parks(f)) {
            _vintages[_vintageKey(marketId, f.vintages)].ration = _parkedRation(f, m.pool);
            (m.pool.paidPrincipal, m.pool.distributed) = (0, 0);
            (f.demandUp, f.demandDown) = (0, 0);
        }
    }

    /// Writes the open vintage into the books; if it was rationed, its ration too, in a word of its own or, with `park`, in
    /// the flow and the pool. Without a ration every entry was accepted whole.
    function _finalize(uint256 marketId, Market storage m, bool park) private {
        Flow storage f = m.flow;
        Books memory b = _books(marketId, m, true);
        StoredVintage storage stored = _vintages[_vintageKey(marketId, f.vintages)];
        bool rationed = b.acceptedUp != b.offeredUp || b.acceptedDown != b.offeredDown;
        stored.vintage = Vintage(uint96(b.accUp), uint96(b.accDown), f.vintageBlock, rationed);
        // Principals are within the side cap, and what was accepted is a part of them.
        (m.pool.principalUp, m.pool.principalDown) = (uint64(b.principalUp), uint64(b.principalDown));
        if (rationed && park) {
            (m.pool.paidPrincipal, m.pool.distributed) = (uint64(b.acceptedUp), uint64(b.acceptedDown));
        } else {
            if (rationed) {
                stored.ration = Ration(f.demandUp, f.demandDown, uint64(b.acceptedUp), uint64(b.acceptedDown));
            }
            (f.demandUp, f.demandDown) = (0, 0);
        }
        emit VintageFinalized(
            marketId, f.vintageBlock, b.offeredUp, b.offeredDown, b.acceptedUp, b.acceptedDown, b.accUp, b.accDown
        );
        f.vintageBlock = 0;
    }

    // ---------------------------------------------------------------- Settling

    /// @inheritdoc IVestedMarkets
    function resolve(uint256 marketId, uint8 winner) external nonReentrant {
        if (winner > 1) revert InvalidOutcome(winner);
        Market storage m = _openMarket(marketId);
        Terms storage t = m.terms;
        if (msg.sender != m.resolver) revert NotResolver(marketId, msg.sender, m.resolver);
        if (block.timestamp < t.freezeTime) revert MarketNotFrozen(marketId, t.freezeTime, block.timestamp);
        _close(marketId, m, winner == 0 ? Status.Up : Status.Down);
        emit Resolved(marketId, winner);
    }

    /// @inheritdoc IVestedMarkets
    function voidMarket(uint256 marketId) external nonReentrant {
        Market storage m = _openMarket(marketId);
        Terms storage t = m.terms;
        if (block.timestamp < t.freezeTime) revert MarketNotFrozen(marketId, t.freezeTime, block.timestamp);
        uint256 anyoneFrom = uint256(t.freezeTime) + t.voidDelay;
        if (block.timestamp < anyoneFrom && msg.sender != m.resolver) {
            revert TooEarlyToVoid(marketId, anyoneFrom, block.timestamp);
        }
        _close(marketId, m, Status.Void);
        emit Voided(marketId);
    }

    function _close(uint256 marketId, Market storage m, Status status) private {
        // Even if the vintage's block goes on: after this, a stake not yet accepted or refused would be owed nothing, or twice.
        _clear(marketId, m);
        m.terms.status = status;
    }

    // ---------------------------------------------------------------- Paying

    /// @inheritdoc IVestedMarkets
    function claim(uint256 positionId) external nonReentrant {
        (Position storage p, Snapshot memory snap, Stake memory s) = _position(positionId);
        if (snap.status == Status.Open) revert MarketNotSettled(snap.marketId);
        _payOrRevert(positionId, p, snap, s, true);
    }

    /// @inheritdoc IVestedMarkets
    function withdrawRefund(uint256 positionId) external nonReentrant {
        (Position storage p, Snapshot memory snap, Stake memory s) = _position(positionId);
        if (!s.matched) revert VintageStillOpen(snap.marketId, snap.pendingBlock);
        _payOrRevert(positionId, p, snap, s, false);
    }

    function _payOrRevert(uint256 positionId, Position storage p, Snapshot memory snap, Stake memory s, bool settle)
        private
    {
        uint256 held = _held();
        (uint256 total, uint256 left) = _pay(positionId, p, snap, s, settle, held, false);
        if (total == 0) revert NothingDue(positionId);
        if (left >= held) revert TransferFailed(p.owner, total);
    }

    /// @inheritdoc IVestedMarkets
    function deliver(uint256[] calldata positionIds) external nonReentrant returns (uint256 delivered) {
        uint256 held = _held();
        Snapshot memory snap;
        for (uint256 i = 0; i < positionIds.length; ++i) {
            uint256 positionId = positionIds[i];
            Position storage p = _positions[positionId];
            if (p.owner == address(0)) continue;
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
        Position storage p,
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
        uint8 flags = p.flags;
        p.flags = flags | (settle ? PAID | REFUNDED : REFUNDED);
        if (gross != 0) {
            // All that is paid of a market is at most its two principals, which are below 2^64 together.
            m.pool.paidPrincipal += uint64(s.accepted);
            m.pool.distributed += uint64(gross);
        }
        _totals.liabilities -= uint128(total);
        _totals.fees += uint88(s.fee);

        left = _send(p.owner, total, held, capped);
        if (left < held) {
            emit Delivered(positionId, p.owner, total - s.refund, s.fee, s.refund);
        } else {
            p.flags = flags;
            if (gross != 0) {
                m.pool.paidPrincipal -= uint64(s.accepted);
                m.pool.distributed -= uint64(gross);
            }
            _totals.liabilities += uint128(total);
            _totals.fees -= uint88(s.fee);
            emit DeliveryFailed(positionId, p.owner, total);
        }
    }

    /// What is due now and not paid yet: the fee and the refused part go into `s`.
    /// @return gross the payout before the fee
    function _reckon(Position storage p, Snapshot memory snap, Stake memory s, bool settle)
        private
        view
        returns (uint256 gross)
    {
        if (settle && p.flags & PAID == 0) (gross, s.fee) = _payout(snap, s);
        // An accepted amount is a part of what was offered; most often all of it.
        if (p.flags & REFUNDED == 0 && s.matched && s.offered != s.accepted) s.refund = s.offered - s.accepted;
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
        Market storage m = _market(marketId);
        if (m.terms.status == Status.Open) revert MarketNotSettled(marketId);
        uint256 unpaid = _unpaidPrincipal(m);
        if (unpaid != 0) revert WinnersUnpaid(marketId, unpaid);
        uint256 residue = m.pool.principalUp + m.pool.principalDown - m.pool.distributed;
        if (residue == 0) revert NoResidue(marketId);
        m.pool.distributed += uint64(residue); // a part of the two principals
        _totals.liabilities -= uint128(residue);
        _sendToTreasury(residue);
        emit ResidueClaimed(marketId, residue);
    }

    /// @inheritdoc IVestedMarkets
    function sweepFees() external nonReentrant {
        uint128 amount = _totals.fees;
        if (amount == 0) revert NoFees();
        _totals.fees = 0;
        _totals.liabilities -= amount;
        _sendToTreasury(amount);
        emit FeesSwept(amount);
    }

    // ---------------------------------------------------------------- Other

    /// @inheritdoc IVestedMarkets
    function setPaused(bool paused) external nonReentrant {
        if (msg.sender != guardian) revert NotGuardian(msg.sender, guardian);
        _totals.entriesPaused = paused;
        emit EntriesPaused(paused);
    }

    /// @inheritdoc IVestedMarkets
    function transferPosition(uint256 positionId, address to) external nonReentrant {
        address owner = _positions[positionId].owner;
        if (owner == address(0)) revert UnknownPosition(positionId);
        if (msg.sender != owner) revert NotPositionOwner(positionId, msg.sender, owner);
        if (to == address(0) || to == address(this)) revert InvalidOwner(to);
        _positions[positionId].owner = to;
        emit PositionTransferred(positionId, owner, to);
    }
}
