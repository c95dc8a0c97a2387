// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

/// @title The settlement wallet: takes stakes, keeps every market's book, pays winners from the same balance
/// @notice Holds all the money of the agent markets and never reads a feed. Stakes arrive as EIP-3009 authorizations (x402
///         payments). Markets are opened by the lister and settled by the resolver, both fixed at construction; no key chooses
///         an outcome, and no key moves a booked stake anywhere but back to the wallet that made it.
///
///         Amounts, weights and shares are token units (6 decimals). Prices are wads (1e18 is one). Times are Unix seconds. Events are
///         enough to rebuild every book, stake and payout from logs alone.
interface ISettlementWallet {
    // ---------------------------------------------------------------- Types

    enum MarketStatus {
        Unknown,
        Open, // takes stakes, or awaits its result
        Resolved,
        Void
    }

    enum StakeStatus {
        Unknown,
        InBook,
        OwedBack, // a late payment that never was in the book
        Paid,
        Refunded
    }

    /// Which of the token's two functions takes the payment.
    enum Form {
        Transfer, // transferWithAuthorization: anyone may send it directly to the token
        Receive // receiveWithAuthorization: this contract alone can take it; always bound to one bet
    }

    /// Why a late payment became a refund.
    enum RefundReason {
        None,
        Paused,
        NotOpen, // before opensAt
        Closed, // at or after closesAt, or settled
        Outcome,
        Amount, // over MAX_STAKE; what is under MIN_STAKE is not booked at all
        PotFull, // over what the outcome may hold
        KeyUsed, // the idempotency key has settled another payment
        Bound, // the payment is bound to another bet
        Shares, // fewer than minShares
        OtherAmount // the payment brought another amount than the bet says
    }

    /// @notice What the lister opens a market with; nothing in it can change.
    struct OpenParams {
        uint64 opensAt;
        uint64 closesAt; // stakes before here
        uint16 feeBps;
        uint64 potCap; // what all outcomes but one may hold together, less fees; each holds its share, potCap / (outcomes - 1)
        uint32[] weights; // virtual weight of each outcome; their share of the sum is the prior
    }

    /// @notice What a payer wants done with a payment.
    struct Bet {
        bytes32 marketId;
        uint8 outcome;
        uint256 amount;
        uint256 minShares;
        address wallet; // who pays, and who is paid
        bytes32 idemHash; // keccak256(bytes(idemKey)); settles once for ever for this wallet
        address builder; // for the record only
        bytes32 ref; // for the record only
    }

    /// @notice The payer's signed EIP-3009 authorization of `value` to this contract.
    struct Authorization {
        Form form;
        uint256 value;
        uint256 validAfter;
        uint256 validBefore;
        bytes32 nonce;
        bytes signature; // 65 or 64 bytes of ECDSA as the token takes them, or what the contract at `wallet` accepts
    }

    struct MarketView {
        uint32 index; // position in opening order, from 1; stake ids are `index << 32 | n`
        MarketStatus status;
        uint8 outcomes;
        uint8 winner; // meaningful once resolved
        bool refunding; // void, or resolved with no stake on the winner or none on anything else: every stake is refunded in full
        uint64 opensAt;
        uint64 closesAt;
        uint16 feeBps;
        uint64 potCap;
        uint32[] weights;
        uint32 stakes; // ids given out, refunds of late payments included
        uint256 staked; // all stakes in the book, fee included
        uint256 netPool; // all stakes less fees: what winners split
        uint256 paidShares; // of winners paid so far
        uint256 paidOut; // to winners so far
    }

    struct BookView {
        uint256 net; // stakes on it less fees
        uint256 shares; // issued
        uint256 excess; // sum over its stakes of what their shares exceed their net stake by
        uint256 weight; // virtual weight + net; its share of all weights is the price
        uint256 price; // wad, rounded down
    }

    struct StakeView {
        bytes32 marketId;
        address wallet;
        uint8 outcome;
        StakeStatus status;
        uint256 amount;
        uint256 fee;
        uint256 shares;
        uint256 payable_; // what `claim` would send now; 0 while the market is open, for losers, and once paid
    }

    // ---------------------------------------------------------------- Events

    event MarketOpened(
        bytes32 indexed marketId,
        uint32 index,
        uint64 opensAt,
        uint64 closesAt,
        uint16 feeBps,
        uint64 potCap,
        uint32[] weights
    );
    /// @notice A payment was staked. `nonce` is the authorization's that paid.
    event Staked(
        bytes32 indexed marketId,
        uint256 indexed stakeId,
        address indexed wallet,
        uint8 outcome,
        uint256 amount,
        uint256 fee,
        uint256 shares,
        bytes32 nonce,
        bytes32 betHash,
        bytes32 idemHash,
        address builder,
        bytes32 ref
    );
    /// @notice A payment that was sent directly to the token could not be staked; it is owed back in full at once, and
    ///         was never in the book. `amount` is what it brought.
    event RefundBooked(
        bytes32 indexed marketId,
        uint256 indexed stakeId,
        address indexed wallet,
        uint256 amount,
        RefundReason reason,
        bytes32 nonce,
        bytes32 betHash,
        bytes32 idemHash
    );
    event MarketResolved(bytes32 indexed marketId, uint8 outcome);
    /// @param reason IFeedResolver.VoidReason
    event MarketVoided(bytes32 indexed marketId, uint8 reason);
    event Paid(bytes32 indexed marketId, uint256 indexed stakeId, address indexed wallet, uint256 amount, bool refund);
    event PayoutFailed(bytes32 indexed marketId, uint256 indexed stakeId, address indexed wallet, uint256 amount);
    event FeesSwept(uint256 amount);
    event StakesPaused(bool paused);
    event RoleSet(bytes32 indexed role, address indexed account, bool allowed);

    // ---------------------------------------------------------------- Errors

    error ZeroAddress(string what);
    error NotLister(address caller, address lister);
    error NotResolver(address caller, address resolver);
    error NotGuardian(address caller, address guardian);
    error MissingRole(address account, bytes32 role);
    error UnknownRole(bytes32 role);
    error OwnershipCannotBeRenounced();

    error AlreadyOpened(bytes32 marketId);
    error UnknownMarket(bytes32 marketId);
    error UnknownOutcome(uint8 outcome, uint8 outcomes);
    error UnknownStake(uint256 stakeId);

    // Opening. The lister checks what is fair; these are what the arithmetic needs.
    error WrongNumberOfOutcomes(uint256 outcomes);
    error ClosesBeforeItOpens(uint256 opensAt, uint256 closesAt);
    error WeightOutOfBounds(uint256 outcome, uint256 weight, uint256 min, uint256 max);
    error FeeOutOfBounds(uint256 feeBps, uint256 max);
    error PotCapOutOfBounds(uint256 potCap, uint256 min, uint256 max);

    // Staking.
    error StakesArePaused();
    error AmountOutOfBounds(uint256 amount, uint256 min, uint256 max);
    error NotOpenYet(bytes32 marketId, uint256 opensAt);
    error Closed(bytes32 marketId, uint256 closesAt);
    error AlreadySettled(bytes32 marketId);
    /// @notice The stake would take its outcome over its share of the pot cap; `room` is what it still takes, less fees.
    error PotFull(bytes32 marketId, uint8 outcome, uint256 room);
    error IdempotencyKeyUsed(address wallet, bytes32 idemHash, uint256 stakeId);
    error TooFewShares(uint256 shares, uint256 minShares);
    /// @notice The payer signed that this payment serves one bet only, and this is another. In the receive form every nonce does.
    error BoundToAnotherBet(bytes32 nonce, bytes32 betHash);
    /// @notice A nonce with the mark of bound payments belongs to the receive form alone.
    error NonceIsMarked(bytes32 nonce);
    /// @notice Only this contract can take a payment in the receive form, so none is ever late.
    error ReceiveFormIsNeverCredited();
    /// @notice The payer signed another amount than the bet says.
    error WrongAmountSigned(uint256 amount, uint256 signed);
    error AuthorizationAlreadyUsed(address wallet, bytes32 nonce);
    error AuthorizationNotUsed(address wallet, bytes32 nonce);
    error AuthorizationAlreadyBooked(address wallet, bytes32 nonce);
    error NotSignedBy(address wallet);
    /// @notice The token let the call pass without delivering exactly the amount.
    error WrongAmountReceived(uint256 expected, uint256 received);
    /// @notice The contract holds no unbooked money to cover this credit.
    error NothingUnbooked(uint256 unbooked, uint256 needed);

    // Paying.
    error NotSettled(bytes32 marketId);
    error NothingOwed(uint256 stakeId);
    error StakeOfAnotherMarket(uint256 stakeId, bytes32 marketId);
    /// @notice Too little gas to distinguish a failing wallet from a starved call; send more.
    error PayGasTooLow(uint256 left, uint256 needed);
    error PaymentFailed(address to, uint256 amount);
    error WrongAmountSent(uint256 expected, uint256 sent);
    error NoFees();

    // ---------------------------------------------------------------- The lister and the resolver

    /// @notice Opens a market for good. The lister only.
    function open(bytes32 marketId, OpenParams calldata p) external returns (uint32 index);

    /// @notice Names the winner of an unsettled market. The resolver only.
    function resolve(bytes32 marketId, uint8 winner) external;

    /// @notice Voids an unsettled market: every stake goes back whole. The resolver only.
    function voidMarket(bytes32 marketId, uint8 reason) external;

    // ---------------------------------------------------------------- Staking

    /// @notice EIP-712 hash of a bet: domain "Service Settlement" version "2". Also the public id of the trade, and
    ///         the nonce of a bound transfer.
    function betHash(Bet calldata b) external view returns (bytes32);

    /// @notice The nonce of a payment in the receive form: the bet's hash with its first eight bytes replaced by NONCE_MARK.
    function boundNonce(Bet calldata b) external view returns (bytes32);

    /// @notice Pulls the payment and stakes it. Anyone for a bound payment (the receive form, or a transfer whose nonce is the
    ///         bet's hash); only holders of RELAYER for any other.
    /// @dev A transfer signed with `validAfter == BOUND_ONLY` binds every caller, RELAYER included, to that one bet.
    function settle(Bet calldata b, Authorization calldata a) external returns (uint256 stakeId);

    /// @notice Books a transfer that was sent straight through the token, as a stake if it can be one now, else as a refund owed at
    ///         once; a payment of another amount than the bet's is always refunded. One of less than MIN_STAKE is a gift: booking it and
    ///         paying it back costs more than it is worth. CREDITOR only: the token keeps one bit per
    ///         nonce, so this contract cannot see what a used authorization brought. The creditor must have seen
    ///         AuthorizationUsed directly before the Transfer of exactly `value` in the log.
    function credit(Bet calldata b, Authorization calldata a) external returns (uint256 stakeId);

    // ---------------------------------------------------------------- Paying

    /// @notice Pays stakes of one market, each to its own wallet. Anyone. Stakes owed nothing and stakes already
    ///         paid are passed over; a wallet that cannot be paid fails alone and can be tried again.
    /// @return paid how many stakes were paid by this call
    function pay(bytes32 marketId, uint256[] calldata stakeIds) external returns (uint256 paid);

    /// @notice Pays one stake with all the gas of the call, or reverts. Anyone.
    function claim(uint256 stakeId) external;

    /// @notice Sends the fees of resolved markets, and the dust of fully paid ones, to the treasury. Anyone.
    function sweepFees() external;

    // ---------------------------------------------------------------- Administration

    /// @notice Stops or allows new stakes, and nothing else. The guardian only: a pauser owned by the Safe.
    function setPaused(bool paused) external;

    /// @notice Gives or takes RELAYER or CREDITOR. Owner only.
    function setRole(bytes32 role, address account, bool allowed) external;

    // ---------------------------------------------------------------- Views

    function market(bytes32 marketId) external view returns (MarketView memory);

    function marketCount() external view returns (uint256);

    /// @param position from 0, in opening order
    function marketIdAt(uint256 position) external view returns (bytes32);

    /// @notice The pot cap of the market with this index while it is unsettled, then 0.
    function openCap(uint256 index) external view returns (uint256);

    function outcomeBook(bytes32 marketId, uint8 outcome) external view returns (BookView memory);

    function stake(uint256 stakeId) external view returns (StakeView memory);

    /// @notice How many stake ids a market has given out.
    function stakeCount(bytes32 marketId) external view returns (uint256);

    /// @notice Ids of a market's stakes in order, `count` of them at most, from position `from`.
    function stakesOf(bytes32 marketId, uint256 from, uint256 count) external view returns (uint256[] memory ids);

    /// @notice The stake (or refund) booked under a wallet's idempotency key; 0 when there is none.
    function stakeOf(address wallet, bytes32 idemHash) external view returns (uint256 stakeId);

    /// @notice Whether a transfer with this nonce has been booked, by `settle` or by `credit`. Always false in the receive form.
    function booked(address wallet, bytes32 nonce) external view returns (bool);

    /// @notice What a stake would get now; the same arithmetic as `settle`, without its conditions.
    /// @return shares rounded down
    /// @return feePaid rounded down
    /// @return priceBefore wad, rounded down
    /// @return priceAfter wad, rounded down
    function quote(bytes32 marketId, uint8 outcome, uint256 amount)
        external
        view
        returns (uint256 shares, uint256 feePaid, uint256 priceBefore, uint256 priceAfter);

    /// @notice What the contract owes; its balance is never less than the sum.
    /// @return openStakes stakes of unsettled markets, fee included
    /// @return unpaid payouts and refunds not yet sent
    /// @return fees ready for the treasury
    function liabilities() external view returns (uint256 openStakes, uint256 unpaid, uint256 fees);

    function paused() external view returns (bool);

    function hasRole(bytes32 role, address account) external view returns (bool);

    function token() external view returns (address);

    function lister() external view returns (address);

    function resolver() external view returns (address);

    function guardian() external view returns (address);

    function treasury() external view returns (address);
}
