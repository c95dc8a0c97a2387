// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

/// @title The settlement wallet: takes stakes, keeps every market's book, pays winners from the same balance
/// @notice Stakes arrive as EIP-3009 authorizations (x402 payments). What a market pays is decided by a price feed and by
///         arithmetic; no key chooses an outcome, and no key moves a stake anywhere but back to the wallet that made it.
///
///         Amounts and shares are token units (6 decimals). Prices are wads (1e18 is one). Times are Unix seconds. Feed
///         values have 8 decimals. Events are enough to rebuild every book, stake and payout from logs alone.
interface ISettlementWallet {
    // ---------------------------------------------------------------- Types

    /// @notice What a market is; nothing in it can change after `list`.
    /// @dev `kind` 0 threshold (outcomes 0 yes, 1 no), 1 range (outcome k holds values from bounds[k-1], inclusive, to
    ///      bounds[k], exclusive; open at both ends), 2 direction (outcomes 0 up, 1 down).
    struct MarketSpec {
        uint8 kind;
        address feed; // AggregatorV3, 8 decimals, rounds numbered `phase << 64 | n`
        int256 target; // threshold only, else 0
        int256[] bounds; // range only, one less than outcomes, strictly rising; else empty
        bool earlyResolvable; // threshold only: the first round at or over the target settles it
        uint64 opensAt; // stakes from here on; a time already past means the listing block
        uint64 closesAt; // stakes before here; also the deadline (the end of a direction market)
        uint64 startAt; // direction only, else 0: the moment the end is compared with
        uint32 maxAge; // oldest reading that may decide, seconds
        uint32 voidDelay; // after the deadline, when anyone may void what nothing settled, seconds
        uint16 feeBps;
        uint8 outcomes;
        uint64 virtualLiquidity; // no money; damps the price. Each outcome carries floor(virtualLiquidity / outcomes)
    }

    /// @notice What a payer wants done with a payment.
    struct Intent {
        bytes32 marketId;
        uint8 outcome;
        uint256 amount;
        uint256 minShares;
        address wallet; // who pays, and who is paid
        bytes32 idemHash; // keccak256(bytes(idemKey)); settles once for ever for this wallet
        address builder; // for the record only
        bytes32 ref; // for the record only
    }

    /// @notice The payer's signed EIP-3009 TransferWithAuthorization of `amount` to this contract.
    struct Authorization {
        uint256 validAfter;
        uint256 validBefore;
        bytes32 nonce;
        bytes signature; // 65 or 64 bytes of ECDSA as the token takes them, or whatever the contract at `wallet` accepts
    }

    struct MarketView {
        MarketSpec spec; // opensAt as it counts
        uint32 index; // position in listing order, from 1; stake ids are `index << 32 | n`
        uint8 status; // 0 unknown, 1 open or awaiting its result, 2 resolved, 3 void
        uint8 winner; // meaningful once resolved
        bool refunding; // void, or resolved without a winning stake: every stake is given back whole
        uint32 stakes; // ids given out, refunds of late payments included
        uint64 settlesAfter; // a deadline reading counts strictly after this time
        uint256 staked; // all stakes, fee included
        uint256 netPool; // all stakes less fees: what winners split
        uint256 paidOut; // payouts to winners so far
    }

    struct StakeView {
        bytes32 marketId;
        address wallet;
        uint8 outcome;
        uint8 status; // 0 unknown, 1 in the book, 2 owed back, 3 paid, 4 refunded
        uint256 amount;
        uint256 fee;
        uint256 shares;
        uint256 payable_; // what `pay` would send now; 0 while the market is open, for losers, and once paid
    }

    // ---------------------------------------------------------------- Events

    /// @param spec abi.encode(MarketSpec), with `opensAt` as it counts
    event MarketListed(
        bytes32 indexed marketId,
        uint8 kind,
        address indexed feed,
        uint64 closesAt,
        uint16 feeBps,
        uint8 outcomes,
        uint64 virtualLiquidity,
        bytes spec,
        string metadata
    );
    event Staked(
        bytes32 indexed marketId,
        uint256 indexed stakeId,
        address indexed wallet,
        uint8 outcome,
        uint256 amount,
        uint256 fee,
        uint256 shares,
        bytes32 intentHash,
        bytes32 idemHash,
        address builder,
        bytes32 ref
    );
    /// @notice A payment that reached the contract by itself could not be staked; it is owed back whole and at once, and
    ///         never was in the book. `reason` is one of the REFUND_ codes.
    event RefundBooked(
        bytes32 indexed marketId,
        uint256 indexed stakeId,
        address indexed wallet,
        uint256 amount,
        uint8 reason,
        bytes32 intentHash,
        bytes32 idemHash
    );
    event MarketResolved(bytes32 indexed marketId, uint8 outcome, int256 observed, uint80 round, uint256 observedAt);
    /// @param reason one of the VOID_ codes
    event MarketVoided(bytes32 indexed marketId, uint8 reason);
    event Paid(bytes32 indexed marketId, uint256 indexed stakeId, address indexed wallet, uint256 amount, bool refund);
    event PayoutFailed(bytes32 indexed marketId, uint256 indexed stakeId, address indexed wallet, uint256 amount);
    event FeesSwept(uint256 amount);
    event StakesPaused(bool paused);
    event RoleSet(bytes32 indexed role, address indexed account, bool allowed);

    // ---------------------------------------------------------------- Errors

    error ZeroAddress(string argument);
    error MissingRole(address account, string role);
    error UnknownRole(bytes32 role);
    error OwnershipCannotBeRenounced();

    error AlreadyListed(bytes32 marketId);
    error UnknownMarket(bytes32 marketId);
    error UnknownOutcome(uint8 outcome, uint8 outcomes);
    error UnknownStake(uint256 stakeId);

    // Listing.
    error UnknownKind(uint8 kind);
    error FeedHasNoCode(address feed);
    error FeedDecimalsMustBe8(address feed);
    error FeedLagTooLong(uint256 lag, uint256 max);
    error WrongNumberOfOutcomes(uint256 outcomes);
    error TargetMustBePositive(int256 target);
    error NumberTooLarge(string field);
    error BoundsDoNotMatchOutcomes(uint256 bounds, uint256 outcomes);
    error BoundsMustRise(uint256 position, int256 bound);
    error FieldNotUsedByKind(string field, uint8 kind);
    error ClosesBeforeItOpens(uint256 opensAt, uint256 closesAt);
    error ClosesInThePast(uint256 closesAt, uint256 nowIs);
    error StartOutsideTheMarket(uint256 startAt, uint256 earliest, uint256 latest);
    error OutOfBounds(string field, uint256 value, uint256 min, uint256 max);

    // Staking.
    error StakesArePaused();
    error AmountOutOfBounds(uint256 amount, uint256 min, uint256 max);
    error NotOpenYet(bytes32 marketId, uint256 opensAt);
    error Closed(bytes32 marketId, uint256 closesAt);
    error AlreadySettled(bytes32 marketId);
    error PoolFull(bytes32 marketId, uint256 staked, uint256 max);
    error IdempotencyKeyUsed(address wallet, bytes32 idemHash, uint256 stakeId);
    error TooFewShares(uint256 shares, uint256 minShares);
    /// @notice The payer signed that this payment serves one intent only, and this is another.
    error BoundToAnotherIntent(bytes32 nonce, bytes32 intentHash);
    error AuthorizationAlreadyUsed(address wallet, bytes32 nonce);
    error AuthorizationNotUsed(address wallet, bytes32 nonce);
    error AuthorizationAlreadyBooked(address wallet, bytes32 nonce);
    error NotSignedBy(address wallet);
    /// @notice The token let the call pass without delivering exactly the amount.
    error WrongAmountReceived(uint256 expected, uint256 received);
    /// @notice The contract holds no unbooked money to cover this credit.
    error NothingUnbooked(uint256 unbooked, uint256 needed);

    // Settling.
    error TooEarly(bytes32 marketId, uint256 notBefore);
    error NotInEffect(uint80 round, uint256 moment);
    /// @notice The feed answers nothing usable for that moment; `problem` is a code of RoundFinder.
    error NoReading(address feed, uint256 moment, uint8 problem);
    error ReadingTooOld(uint80 round, uint256 age, uint256 maxAge);
    error ReadingNotPositive(uint80 round, int256 answer);
    /// @notice The readings are there, fresh and positive: resolve instead.
    error NothingToVoidFor(bytes32 marketId);

    // Paying.
    error NotSettled(bytes32 marketId);
    error StakeOfAnotherMarket(uint256 stakeId, bytes32 marketId);
    /// @notice Too little gas to tell a failing wallet from a starved call; send more.
    error PayGasTooLow(uint256 left, uint256 needed);
    error WrongAmountSent(uint256 expected, uint256 sent);
    error NoFees();
    error SweepFailed(address treasury, uint256 amount);

    // ---------------------------------------------------------------- Listing

    /// @notice Lists a market for good. LISTER only; a listed market can be neither changed nor taken down.
    /// @param marketId keccak256 of the market's public id; the lister's choice
    /// @param metadata canonical JSON: slug, question, labels, symbols; only in the log
    function list(bytes32 marketId, MarketSpec calldata spec, string calldata metadata) external;

    // ---------------------------------------------------------------- Staking

    /// @notice EIP-712 hash of an intent: domain "Service Settlement" version "1". Also the public id of the trade, and
    ///         in bound mode the nonce of the payer's authorization.
    function intentHash(Intent calldata i) external view returns (bytes32);

    /// @notice Pulls the payment and stakes it. Whoever holds RELAYER, or anyone when `a.nonce == intentHash(i)`.
    /// @dev A payer who also signs `validAfter == BOUND_ONLY` binds every caller, RELAYER included, to that one intent.
    function settle(Intent calldata i, Authorization calldata a) external returns (uint256 stakeId);

    /// @notice Books a payment that was sent straight through the token, as a stake if it can be one now, else as a refund
    ///         owed at once. RELAYER only, because a token does not tell a used authorization from a cancelled one:
    ///         the relayer must have seen AuthorizationUsed with the matching Transfer. If it errs, the books stay covered.
    function credit(Intent calldata i, Authorization calldata a) external returns (uint256 stakeId);

    // ---------------------------------------------------------------- Settling

    /// @notice Settles a market from the feed. Anyone.
    /// @param round the round in effect at the deadline; or, for an earlyResolvable market, any round at or over the target
    ///        that came into effect during its life. 0: found by the contract.
    function resolve(bytes32 marketId, uint80 round) external;

    /// @notice Settles a market from rounds that the contract finds itself. Anyone. Before the deadline of an earlyResolvable market it
    ///         looks at the feed's latest round only; a crossing that has passed again must be named by its round.
    function resolve(bytes32 marketId) external;

    /// @notice Voids a market on proof that its deadline reading is missing, too old or not positive, or, `voidDelay` after the
    ///         deadline, without proof. Anyone. No reading at all can only be shown with `round` 0.
    /// @param round the round in effect at the deadline, or 0: found by the contract
    function voidMarket(bytes32 marketId, uint80 round) external;

    // ---------------------------------------------------------------- Paying

    /// @notice Pays stakes of one market, each to its own wallet. Anyone. Stakes owed nothing and stakes already
    ///         paid are passed over; a wallet that cannot be paid fails alone and can be tried again.
    /// @return paid how many stakes were paid by this call
    function pay(bytes32 marketId, uint256[] calldata stakeIds) external returns (uint256 paid);

    /// @notice Sends the fees of resolved markets, and the dust of fully paid ones, to the treasury. Anyone.
    function sweepFees() external;

    // ---------------------------------------------------------------- Administration

    /// @notice Stops or allows new stakes, and nothing else. GUARDIAN only.
    function setStakesPaused(bool paused) external;

    /// @notice Gives or takes a role. Owner only.
    function setRole(bytes32 role, address account, bool allowed) external;

    // ---------------------------------------------------------------- Views

    function market(bytes32 marketId) external view returns (MarketView memory);

    function marketCount() external view returns (uint256);

    /// @param position from 0, in listing order
    function marketIdAt(uint256 position) external view returns (bytes32);

    /// @return net stakes on it less fees
    /// @return shares issued
    /// @return weight floor(virtualLiquidity / outcomes) + net; its share of all weights is the price
    /// @return price wad, rounded down
    function outcomeBook(bytes32 marketId, uint8 outcome)
        external
        view
        returns (uint256 net, uint256 shares, uint256 weight, uint256 price);

    function stake(uint256 stakeId) external view returns (StakeView memory);

    /// @notice How many stake ids a market has given out.
    function stakeCount(bytes32 marketId) external view returns (uint256);

    /// @notice Ids of a market's stakes in order, `count` of them at most, from position `from`.
    function stakesOf(bytes32 marketId, uint256 from, uint256 count) external view returns (uint256[] memory ids);

    /// @notice The stake (or refund) booked under a wallet's idempotency key; 0 when there is none.
    function stakeOf(address wallet, bytes32 idemHash) external view returns (uint256 stakeId);

    /// @notice Whether a payment with this nonce has been booked, by `settle` or by `credit`.
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

    function hasRole(bytes32 role, address account) external view returns (bool);

    function stakesPaused() external view returns (bool);

    function token() external view returns (address);

    function treasury() external view returns (address);
}
