// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

/// @title Vested-parimutuel markets on two outcomes, 0 = UP and 1 = DOWN
/// @notice Every accepted stake is promised at once, and for good, to the principal already standing on the other
/// outcome; the winners are paid their stake and what was promised to it. contracts/README.md explains the mechanism.
///
/// Units: amounts are token units (6 decimals); accumulators are token units promised per unit of principal, times 1e18;
/// times are Unix seconds; a vintage is the `block.number` its entries were made in.
///
/// Ids: markets count from 1. A position id is `marketId << 32 | n << 1 | outcome`, where n counts the positions of one
/// outcome from 0; the two with n = 0 are the seed. No id is ever reused.
///
/// TOKEN REQUIREMENTS. One unit sent is one unit received: no fee on transfer, no rebasing. `balanceOf` is honest. A token
/// that calls its receivers, that reports success without paying, or that is frozen or paused for some or for all,
/// delays the payouts it refuses and does no other harm.
///
/// LIVENESS REQUIREMENTS. Someone has to call: anyone may call every function but the four that name a caller. The
/// market's resolver settles it, or anyone voids it `voidDelay` after the freeze.
///
/// ROLES. The lister creates markets and names their resolver. A resolver settles its own market after the freeze. The
/// guardian stops new entries and new markets. The treasury receives fees and dust. None of them can move a stake, change
/// a market's terms or keep a payout from its owner; there is no owner and no upgrade.
interface IVestedMarkets {
    // ---------------------------------------------------------------- Types

    enum Status {
        None,
        Open,
        Up, // UP won
        Down, // DOWN won
        Void
    }

    struct CreateParams {
        address opener; // owns both seed positions
        address resolver;
        uint64 freezeTime; // no entries from then on
        uint32 voidDelay; // anyone may void this many seconds after freezeTime
        uint16 feeBps; // of winners' gains
        uint32 kappa; // an outcome takes at most kappa times its principal from the other
        uint64 seedPerLeg;
        uint64 minEntry;
        uint64 maxEntry;
        uint64 sideCap; // the most an outcome takes in all, the seed counted
    }

    struct MarketView {
        address opener;
        address resolver;
        uint64 freezeTime;
        uint32 voidDelay;
        uint16 feeBps;
        uint32 kappa;
        uint64 seedPerLeg;
        uint64 minEntry;
        uint64 maxEntry;
        uint64 sideCap;
        Status status;
        uint64 vintageBlock; // of the vintage that is not finalized on chain yet, 0 when there is none
        uint256 vintages; // begun so far, the seed not counted
        uint256 positions; // the seed's two counted
        uint256 pool; // principal of both outcomes, a finished vintage counted
        uint256 distributed; // of the pool: winners' payouts before fees, and the residue once claimed; refunds of a void market
        uint256 unpaidPrincipal; // principal still to be paid: of the winner, of both when void, 0 while open
    }

    struct BookView {
        uint256 principal; // accepted stakes
        uint256 acc; // promised to one unit of principal since the beginning, times 1e18
        uint256 capacity; // what may vest into this outcome in all: kappa x principal, at most the cap of a side
        uint256 vested; // what has vested into it: the other outcome's principal
        uint256 demand; // offered in the open vintage
        uint256 live; // principal, and what the open vintage would add to it if it closed now
    }

    struct PositionView {
        address owner;
        uint256 marketId;
        uint8 outcome;
        uint256 offered;
        uint256 accepted; // 0 until its vintage is finished
        uint256 refused; // 0 until its vintage is finished
        uint64 vintage; // block.number of entry, 0 for the seed
        uint256 entryAcc; // its side's accumulator after its vintage, 0 for the seed
        bool seed;
        bool finalized; // its vintage is finished: accepted, refused and entryAcc will not change
        bool refunded; // the refused part was sent
        bool claimed; // the settlement was sent
    }

    // ---------------------------------------------------------------- Events

    event MarketCreated(
        uint256 indexed marketId,
        address indexed opener,
        address resolver,
        uint64 freezeTime,
        uint32 voidDelay,
        uint16 feeBps,
        uint32 kappa,
        uint64 seedPerLeg,
        uint64 minEntry,
        uint64 maxEntry,
        uint64 sideCap
    );
    /// @notice Also sent for the two seed positions, with vintage 0; those are accepted whole.
    event Entered(
        uint256 indexed marketId,
        uint256 indexed positionId,
        address indexed owner,
        uint8 outcome,
        uint256 offered,
        uint64 vintage
    );
    /// @param accUp the accumulators after the vintage, which are its entries' entry accumulators
    event VintageFinalized(
        uint256 indexed marketId,
        uint64 indexed vintage,
        uint256 offeredUp,
        uint256 offeredDown,
        uint256 acceptedUp,
        uint256 acceptedDown,
        uint256 accUp,
        uint256 accDown
    );
    event Resolved(uint256 indexed marketId, uint8 winner);
    event Voided(uint256 indexed marketId);
    /// @notice `payout + refund` was sent to the owner. A refused part sent ahead of the settlement has payout 0.
    event Delivered(uint256 indexed positionId, address indexed owner, uint256 payout, uint256 fee, uint256 refund);
    event DeliveryFailed(uint256 indexed positionId, address indexed owner, uint256 amount);
    event PositionTransferred(uint256 indexed positionId, address indexed from, address indexed to);
    event ResidueClaimed(uint256 indexed marketId, uint256 amount);
    event FeesSwept(uint256 amount);
    event EntriesPaused(bool paused);

    // ---------------------------------------------------------------- Errors

    /// @notice A constructor argument is the zero address.
    error ZeroAddress(string what);
    /// @notice A term of a new market is out of its bounds.
    error TermOutOfBounds(string term, uint256 given, uint256 min, uint256 max);
    /// @notice No one can be paid at this address.
    error InvalidOwner(address owner);
    error NotLister(address caller, address lister);
    error NotGuardian(address caller, address guardian);
    error NotResolver(uint256 marketId, address caller, address resolver);
    error NotPositionOwner(uint256 positionId, address caller, address owner);
    error UnknownMarket(uint256 marketId);
    error UnknownPosition(uint256 positionId);
    error InvalidOutcome(uint8 outcome);
    /// @notice The guardian has stopped new entries and new markets.
    error EntriesArePaused(address guardian);
    error AmountOutOfBounds(uint256 amount, uint256 minEntry, uint256 maxEntry);
    /// @notice The market was settled or voided before.
    error MarketNotOpen(uint256 marketId, Status status);
    error MarketFrozen(uint256 marketId, uint256 freezeTime, uint256 timestamp);
    error MarketNotFrozen(uint256 marketId, uint256 freezeTime, uint256 timestamp);
    error TooEarlyToVoid(uint256 marketId, uint256 possibleFrom, uint256 timestamp);
    error MarketNotSettled(uint256 marketId);
    /// @notice More entries or vintages than an id can number; the market takes no more entries.
    error MarketFull(uint256 marketId);
    /// @notice The authorization was used or cancelled before, so it cannot pay.
    error AuthorizationSpent(address from, bytes32 nonce);
    /// @notice The token reported success, but this contract's balance did not rise by the amount.
    error PaymentNotReceived(address from, uint256 amount, uint256 received);
    /// @notice The lister must bring both legs of the seed in before it creates the market.
    error SeedNotReceived(uint256 needed, uint256 received);
    error NoOpenVintage(uint256 marketId);
    /// @notice Entries of this block may still come.
    error VintageStillOpen(uint256 marketId, uint256 vintage);
    error NothingDue(uint256 positionId);
    error TransferFailed(address to, uint256 amount);
    /// @notice The token took more than the payment.
    error TokenOvercharged(uint256 amount, uint256 taken);
    /// @notice The gas limit is too low: a transfer starved of gas would look like one that the token refused, and an entry
    /// may have to finalize a vintage (`BOOKING_GAS`).
    error NotEnoughGas(uint256 left, uint256 needed);
    /// @notice Winning principal waits for payment; the residue is known only after it.
    error WinnersUnpaid(uint256 marketId, uint256 unpaidPrincipal);
    error NoResidue(uint256 marketId);
    error NoFees();

    // ---------------------------------------------------------------- Creating and entering

    /// @notice Opens a market with the same seed on both outcomes, owned by `p.opener`. Lister only; stopped by the guardian.
    /// @dev The lister must have transferred `2 * p.seedPerLeg` to this contract in the same transaction; any unbooked balance is
    /// taken as that transfer.
    function create(CreateParams calldata p) external returns (uint256 marketId);

    /// @notice Stakes `amount` of the caller on `outcome`. What the market cannot take is given back: see `withdrawRefund`.
    /// @dev An entry uses 87,000 to 141,000 gas on USDG and needs a limit of 165,000 or more: `BOOKING_GAS` must be left when it is
    /// booked, so an estimate of `eth_estimateGas` always suffices. What is not used is given back.
    function enter(uint256 marketId, uint8 outcome, uint256 amount) external returns (uint256 positionId);

    /// @notice Stakes `amount` of `from`, who signed the token's ReceiveWithAuthorization with this contract as payee and
    /// `entryNonce(marketId, outcome, amount, salt)` as nonce. The sender can change nothing.
    /// @param signature 65 bytes r, s, v, or what the contract at `from` accepts (ERC-1271)
    function enterWithAuthorization(
        address from,
        uint256 marketId,
        uint8 outcome,
        uint256 amount,
        uint256 validAfter,
        uint256 validBefore,
        bytes32 salt,
        bytes calldata signature
    ) external returns (uint256 positionId);

    /// @notice The EIP-3009 nonce that binds a signature to one entry of this contract on this chain.
    function entryNonce(uint256 marketId, uint8 outcome, uint256 amount, bytes32 salt) external view returns (bytes32);

    /// @notice Matches the entries of a block that has passed. Anyone; the next entry, resolving and voiding do it too.
    function finalizeVintage(uint256 marketId) external;

    // ---------------------------------------------------------------- Settling

    /// @notice Names the winner, once, after the freeze. The market's resolver only.
    function resolve(uint256 marketId, uint8 winner) external;

    /// @notice Gives every stake back. The resolver after the freeze, anyone from `freezeTime + voidDelay` on.
    function voidMarket(uint256 marketId) external;

    // ---------------------------------------------------------------- Paying

    /// @notice Pays a settled position's owner all it is due: payout less fee, and the refused part if that was not sent yet.
    /// A losing position is due its refused part only. Anyone.
    function claim(uint256 positionId) external;

    /// @notice Pays the owner the part that was refused, any time after its vintage finished. Anyone.
    function withdrawRefund(uint256 positionId) external;

    /// @notice For each position pays what is due now, as `claim` does when its market is settled and as `withdrawRefund`
    /// does while it is open. Positions that are due nothing, or do not exist, are passed over; an owner whom the token
    /// refuses stays owed and is reported by DeliveryFailed. Anyone.
    /// @return delivered how many positions were paid
    function deliver(uint256[] calldata positionIds) external returns (uint256 delivered);

    /// @notice Sends the rounding dust of a resolved market to the treasury, once every winning position is paid. Anyone.
    /// @dev Known without a loop: accepted amounts sum exactly to the principal, so every winning position is paid when the
    /// accepted amounts of the paid ones reach the winner's principal.
    function claimResidue(uint256 marketId) external;

    /// @notice Sends the fees of all payouts made since the last sweep to the treasury. Anyone.
    function sweepFees() external;

    // ---------------------------------------------------------------- Other

    /// @notice Stops or allows new entries and new markets, nothing else. Guardian only.
    function setPaused(bool paused) external;

    /// @notice Gives a position, and all it is due, to `to`. Its owner only.
    function transferPosition(uint256 positionId, address to) external;

    // ---------------------------------------------------------------- Views
    // They see a vintage whose block has passed as matched, whether or not it was finalized on chain.

    function market(uint256 marketId) external view returns (MarketView memory);

    function books(uint256 marketId) external view returns (BookView[2] memory);

    /// @notice What each outcome would still accept in this block, the open vintage's demand counted.
    function headroom(uint256 marketId) external view returns (uint256 up, uint256 down);

    function position(uint256 positionId) external view returns (PositionView memory);

    /// @notice Up to `count` ids of a market's positions, from the `from`-th on: by vintage, UP before DOWN within one.
    /// Order and ids of finished vintages never change.
    function positionsOf(uint256 marketId, uint256 from, uint256 count) external view returns (uint256[] memory ids);

    /// @notice What the position would be paid, before the fee, if its side won now; 0 until its vintage is finished. Never
    /// falls while the market is open, and keeps its last value after.
    function accrued(uint256 positionId) external view returns (uint256);

    /// @notice What a position gets.
    /// @return gross its payout before the fee, 0 while the market is open
    /// @return fee taken from the gain of a winner
    /// @return net gross less fee
    /// @return refund the part that was refused
    /// @return total what of net and refund is not sent yet, so what `deliver` would send now
    /// @return deliverable total > 0
    function settlement(uint256 positionId)
        external
        view
        returns (uint256 gross, uint256 fee, uint256 net, uint256 refund, uint256 total, bool deliverable);

    function marketCount() external view returns (uint256);

    function entriesPaused() external view returns (bool);

    /// @notice All this contract owes: stakes, payouts, refunds, residue and fees. Its token balance is never below it.
    function liabilities() external view returns (uint256);

    /// @notice Fees taken and not swept yet; part of `liabilities`.
    function feesAccrued() external view returns (uint256);

    function token() external view returns (address);

    function lister() external view returns (address);

    function guardian() external view returns (address);

    function treasury() external view returns (address);
}
