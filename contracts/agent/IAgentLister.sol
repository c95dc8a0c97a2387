// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {IFeedResolver} from "./IFeedResolver.sol";

/// @title What may be listed, and by whom
/// @notice The owner (a Safe; two-step transfer) sets bounds, allows feeds and appoints listers. A lister can list only what is fair by
///         the rules below, on feeds of the Safe's list; it cannot touch a market that was listed. Nor can the Safe, but for one
///         act: condemning a feed that has a publisher, which voids every unsettled market on it.
///
///         Stakes end before anything that decides is being measured. `memory` is how far back a feed's reading looks; MARGIN is 60 s:
///         - direction: closesAt + MARGIN <= startAt - memory, and endsAt - startAt >= 2 * memory
///         - range, and threshold at the end: closesAt + MARGIN <= endsAt - memory, and
///           closesAt - opensAt <= endsAt - memory - closesAt
///         - early-resolvable threshold: readings count from earlyFrom = closesAt + MARGIN + memory to endsAt, and
///           endsAt - earlyFrom >= closesAt - opensAt
///         And none that decides was known while stakes were taken. It is dated closesAt + MARGIN or later, a grid's with its whole window,
///         however much older the feed's maxAge would let it be; of a direction the reading at the end may be as old as the one at the
///         start. A feed that is silent for longer voids. So on a feed that people post to, `memory` is also how long it may be silent.
interface IAgentLister {
    // ---------------------------------------------------------------- Types

    /// @notice What a lister chooses; everything else comes from the Safe's bounds.
    struct MarketSpec {
        IFeedResolver.Kind kind;
        address feed;
        int256 target; // threshold only, else 0
        int256[] bounds; // range only, one less than outcomes, each at least 4% over the one before it; else empty
        bool earlyResolvable; // threshold on a grid feed without a publisher only
        uint64 opensAt; // stakes from here on; a time already past means the listing block
        uint64 closesAt; // stakes before here
        uint64 startAt; // direction only, else 0
        uint64 endsAt; // the moment that decides
        uint32[] weights; // virtual weight of each outcome; their share of the sum is the stated prior
    }

    /// @notice What the Safe's bounds made of it, as it will settle.
    struct MarketTerms {
        uint16 feeBps;
        uint64 potCap;
        bool published;
        uint32 maxAge; // the feed's, or what keeps readings of before closesAt + MARGIN out
        uint64 earlyFrom;
        uint64 settlesAfter;
        uint64 voidsAfter;
    }

    /// @notice The Safe's bounds; for markets listed from then on.
    struct Bounds {
        uint16 feeBps; // of every market, 175 to 1,000: a smaller fee would let books be played against themselves
        uint32 minWeight; // of an outcome
        uint32 maxWeight;
        uint32 disputeWindow; // on feeds with a publisher: between the last possible reading and the result
        uint32 voidDelay; // from then until anyone may void what nothing settled; at least an hour
    }

    struct Feed {
        bool allowed;
        bool condemned;
        bool published; // it answers publisher()
        uint32 memory_; // seconds a reading looks back; at least the lag
        uint32 maxAge; // oldest reading that may decide a market, seconds
        uint32 lag; // its maxLag(), 0 without one
        uint64 potCap; // of each market on it
        uint32 step; // of its grid; 0: it writes rounds
        uint40 putOffUntil; // until when a guardian put off the settlement of its markets; 0: never
        uint64 feedCap; // of the pot caps of all its unsettled markets together
        uint64 counted; // of pot caps; those of markets that have been settled leave it when room is needed
    }

    // ---------------------------------------------------------------- Events

    /// @param spec with `opensAt` as it counts
    /// @param metadata canonical JSON: id, series, links; only in the log, and nothing in it decides anything
    event MarketListed(
        bytes32 indexed marketId,
        address indexed feed,
        address indexed lister,
        MarketSpec spec,
        MarketTerms terms,
        string metadata
    );
    event BoundsSet(Bounds bounds);
    event FeedSet(
        address indexed feed,
        bool allowed,
        bool published,
        uint32 memory_,
        uint32 maxAge,
        uint32 lag,
        uint64 potCap,
        uint32 step,
        uint64 feedCap
    );
    event FeedCondemned(address indexed feed);
    event SettlementPutOff(address indexed feed, address indexed guardian, uint64 until);
    event ListerSet(address indexed account, bool allowed);

    // ---------------------------------------------------------------- Errors

    error ZeroAddress(string what);
    error OwnershipCannotBeRenounced();
    error NotLister(address caller);
    error FeedNotAllowed(address feed);
    error FeedIsCondemned(address feed);
    /// @notice Only a feed that has a publisher can be condemned or put off.
    error FeedHasNoPublisher(address feed);
    /// @notice Only a guardian of the settler's Pauser puts off.
    error NotGuardian(address caller);
    /// @notice A feed is put off once, for good.
    error AlreadyPutOff(address feed, uint256 until);

    /// @notice The feed's unsettled markets and this one would be over its cap: list once enough of them are settled.
    error FeedIsFull(address feed, uint256 feedCap, uint256 open, uint256 potCap);

    // What makes a feed unfit for any market: see FeedCheck.
    error FeedLagTooLong(uint256 lag, uint256 max);
    /// @notice It answers maxLag(), publisher() or step() otherwise than when it was allowed.
    error FeedChanged(address feed);

    /// @notice A number is outside its bounds; the code says which: see Field.
    error OutOfBounds(Field field, uint256 value, uint256 min, uint256 max);
    error FieldNotUsedByKind(Field field, IFeedResolver.Kind kind);
    error WrongNumberOfOutcomes(uint256 outcomes, uint256 min, uint256 max);
    error BoundsDoNotMatchOutcomes(uint256 bounds, uint256 outcomes);
    /// @notice The first bound must be positive and each further one 4% over the one before it: `least`, rounded up.
    error BoundsMustRise(uint256 position, int256 bound, int256 least);
    error TargetMustBePositive(int256 target);
    error ClosesBeforeItOpens(uint256 opensAt, uint256 closesAt);
    error ClosesInThePast(uint256 closesAt, uint256 nowIs);
    /// @notice Stakes would be open while the answer is being measured.
    error ClosesTooLate(uint256 closesAt, uint256 latest);
    /// @notice Stakes would be open for more than half of what can still move the answer.
    error OpenForTooLong(uint256 open, uint256 longest);
    /// @notice A direction round must be at least twice as long as its feed's memory.
    error RoundTooShort(uint256 length, uint256 least);
    /// @notice Early resolution needs a grid feed without a publisher: a publisher's lie could not be disputed in time, and a feed of
    ///         rounds cannot say whether there was a crossing.
    error NotEarlyOnThisFeed(address feed);

    enum Field {
        FeeBps,
        MinWeight,
        MaxWeight,
        Weight,
        DisputeWindow,
        VoidDelay,
        Memory,
        MaxAge,
        PotCap,
        Target,
        Bounds,
        EarlyResolvable,
        StartAt,
        EndsAt,
        FeedCap
    }

    // ---------------------------------------------------------------- Listing

    /// @notice Lists a market for good: opens it in the settlement wallet and registers it with the resolver. A lister only. The pot
    ///         caps of a feed's unsettled markets never add up to more than its cap, since one push may decide them all.
    /// @param marketId keccak256 of the market's public id
    function list(bytes32 marketId, MarketSpec calldata spec, string calldata metadata) external;

    // ---------------------------------------------------------------- The owner's part

    function setBounds(Bounds calldata bounds) external;

    /// @notice Allows a feed with these numbers, or takes it off the list; markets already listed are not touched. A feed that is
    ///         allowed must have code, 8 decimals and a fresh positive reading. A grid feed (IPoolFeed) must also be fit for listing, its
    ///         reference liquidity near what its pools hold, and `memory_` at least its window and step. A condemned feed is never
    ///         allowed again.
    /// @param potCap of each market from then on
    /// @param feedCap of all unsettled markets together, at least the pot cap. Where it is under what is open, nothing is listed until
    ///        enough is settled. As many markets as fit in it are looked at where room is needed
    function setFeed(address feed, bool allowed, uint32 memory_, uint32 maxAge, uint64 potCap, uint64 feedCap) external;

    /// @notice Voids every unsettled market on a feed that has a publisher, for good and in public.
    function condemn(address feed) external;

    function setLister(address account, bool allowed) external;

    // ---------------------------------------------------------------- The guardians' part

    /// @notice Puts off the settlement of a published feed's unsettled markets until a day from now, so that the Safe has time to look at a
    ///         reading. Any guardian of the settler's Pauser, once per feed. It chooses no outcome and moves nothing; the time after
    ///         which a market that nothing settled is void moves by a day as well.
    function putOff(address feed) external;

    // ---------------------------------------------------------------- Views

    function feed(address feed_) external view returns (Feed memory);

    /// @notice What the pot caps of a feed's unsettled markets add up to.
    function openOn(address feed_) external view returns (uint256);

    function bounds() external view returns (Bounds memory);

    function isLister(address account) external view returns (bool);

    /// @notice What the resolver asks of a feed with a publisher.
    function standing(address feed_) external view returns (bool condemned, uint64 putOffUntil);

    /// @notice What a market would be listed with now, or the error that `list` would end with.
    function preview(MarketSpec calldata spec) external view returns (MarketTerms memory);

    function settler() external view returns (address);

    function resolver() external view returns (address);
}
