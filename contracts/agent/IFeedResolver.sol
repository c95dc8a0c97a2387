// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

/// @title Settles agent markets from their feeds, and holds no money
/// @notice The same feed and the same clock give the same answer to anyone: it has no owner, no role and no key. Only it
///         can name an outcome to the settlement wallet. Feed values have 8 decimals, times are Unix seconds.
interface IFeedResolver {
    // ---------------------------------------------------------------- Types

    enum Kind {
        Threshold, // outcomes 0 yes, 1 no
        Range, // outcome k holds values from bounds[k-1], inclusive, to bounds[k], exclusive; open at both ends
        Direction // outcomes 0 up, 1 down
    }

    enum VoidReason {
        None,
        Stale, // a reading was older than maxAge
        BadAnswer, // a reading was zero or negative
        NoReading, // the feed had no round at or before the moment, or a grid feed none of maxAge or less
        Timeout, // nothing settled it until voidsAfter
        Tie, // start and end are equal, or the same round
        MetBeforeStart, // over the target since before its interval began, with no reading in the interval
        Condemned // the Safe condemned its feed, which has a publisher
    }

    /// @notice What decides a market; the lister worked it out and nothing in it can change.
    struct Terms {
        Kind kind;
        address feed;
        bool earlyResolvable; // threshold on a grid feed only: a crossing in [earlyFrom, endsAt] that counts settles it as YES
        bool published; // the feed has a publisher, so it can be condemned
        bool grid; // the feed is an IPoolFeed: readings of fixed times, which anyone may record
        uint32 maxAge; // a reading older than this many seconds cannot decide
        uint64 startAt; // direction only, else 0: the moment the end is compared with
        uint64 endsAt; // the moment that decides
        uint64 earlyFrom; // early-resolvable only, else 0
        uint64 settlesAfter; // the reading at endsAt counts strictly after this time, or later: see `due`
        uint64 voidsAfter; // an unsettled market can be voided strictly after this time, or later: see `due`
        int256 target; // threshold only, else 0
        int256[] bounds; // range only, strictly rising; else empty
    }

    struct Reading {
        uint80 round; // `phase << 64 | n`
        int256 answer;
        uint64 updatedAt;
    }

    // ---------------------------------------------------------------- Events

    event MarketRegistered(bytes32 indexed marketId, address indexed feed);
    /// @notice A market was settled, and by which readings. A reading that played no part is all zeros.
    /// @param isVoid whether `code` is a VoidReason; else it is the winning outcome
    event MarketDecided(bytes32 indexed marketId, bool isVoid, uint8 code, Reading end, Reading start);

    // ---------------------------------------------------------------- Errors

    error ZeroAddress(string what);
    error NotLister(address caller, address lister);
    error AlreadyRegistered(bytes32 marketId);
    error UnknownMarket(bytes32 marketId);
    error TooEarly(bytes32 marketId, uint256 notBefore);
    error NotInEffect(uint80 round, uint256 moment);
    /// @notice The feed answers nothing usable for that moment; `problem` is a code of RoundFinder.
    error NoReading(address feed, uint256 moment, uint8 problem);
    error ReadingTooOld(uint80 round, uint256 age, uint256 maxAge);
    error ReadingNotPositive(uint80 round, int256 answer);
    error FeedIsCondemned(address feed);
    /// @notice The grid feed's own error, passed on: that reading can still be computed from its pools, so record it first.
    error NotRecordedYet(uint256 gridTime);
    /// @notice The readings are there, fresh and positive, or a crossing counts: resolve instead.
    error NothingToVoidFor(bytes32 marketId);
    /// @notice Nothing settled it in time: void it instead.
    error TimedOut(bytes32 marketId, uint256 voidsAfter);

    // ---------------------------------------------------------------- Registration

    /// @notice The lister only, once per market.
    function register(bytes32 marketId, Terms calldata t) external;

    // ---------------------------------------------------------------- Settling

    /// @notice Settles a market from rounds that the contract finds itself. Anyone. A crossing that counts (see IPoolFeed) settles an
    ///         early-resolvable market as YES at any time, whichever function is called and with any rounds.
    function resolve(bytes32 marketId) external;

    /// @notice Settles a market from rounds that the caller names and the contract proves. Anyone.
    /// @param endRound the round in effect at endsAt. 0: found by the contract
    /// @param startRound the round in effect at startAt, direction only; 0: found by the contract
    function resolveWith(bytes32 marketId, uint80 endRound, uint80 startRound) external;

    /// @notice Voids a market on proof that a reading it needs is missing, too old or not positive; without proof after
    ///         voidsAfter, and at any time when its feed is condemned. Never one with a crossing that counts. Anyone.
    function voidMarket(bytes32 marketId) external;

    /// @notice The same from rounds that the caller names. No reading at all can only be shown with round 0.
    function voidWith(bytes32 marketId, uint80 endRound, uint80 startRound) external;

    // ---------------------------------------------------------------- Views

    function terms(bytes32 marketId) external view returns (Terms memory);

    /// @notice A market's settlesAfter and voidsAfter as they count: later than in its terms where a guardian has put off the settlement of
    ///         its feed's markets (see IAgentLister.putOff).
    function due(bytes32 marketId) external view returns (uint64 settlesAfter, uint64 voidsAfter);

    function settler() external view returns (address);

    function lister() external view returns (address);
}
