// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

/// @title Settles UP/DOWN markets from two proven rounds of a price feed
/// @notice Nobody owns this contract and nobody gives it a price: anyone may settle a market, and everyone who does gets
///         the same outcome. The reading at a time is the round in effect then, as RoundFinder defines it. A market compares
///         the reading at its strike time with the reading at its final time.
interface IRoundResolver {
    /// What a market is settled by. All times are Unix seconds, ages seconds.
    struct Spec {
        uint256 marketId; // of the settler
        address feed; // a proxy in Chainlink's AggregatorV3 form, 8 decimals
        address stockToken; // has oraclePaused()
        uint64 strikeTime;
        uint64 finalTime;
        uint32 maxStrikeAge; // how old the round in effect at strikeTime may be then
        uint32 maxFinalAge; // the same at finalTime
    }

    event SpecRegistered(
        uint256 indexed marketId,
        bytes32 indexed specId,
        address feed,
        address stockToken,
        uint64 strikeTime,
        uint64 finalTime,
        uint32 maxStrikeAge,
        uint32 maxFinalAge
    );

    /// @param outcome 0 UP, 1 DOWN, 2 FLAT (void), 3 VOID
    /// @param reason 0 none: the rounds decided, 1 flat: the answers are equal, 2 stale: a round was too old, 3 the oracle
    ///        stayed paused (the rounds are then zeros: none was needed), 4 bad answer: out of band
    event Settled(
        uint256 indexed marketId,
        uint8 outcome,
        uint8 reason,
        uint80 strikeRound,
        int256 strikeAnswer,
        uint256 strikeAt,
        uint80 finalRound,
        int256 finalAnswer,
        uint256 finalAt
    );

    /// @notice The settler, the lister or the named contract of a spec is the zero address.
    error ZeroAddress(string what);
    /// @notice Only the lister registers markets, in the transaction that creates them.
    error NotLister(address caller, address lister);
    /// @notice A market's spec is written once and never changed.
    error AlreadyRegistered(uint256 marketId);
    /// @notice The strike must lie ahead: a strike in the past is a known answer.
    error StrikeNotAhead(uint64 strikeTime, uint256 nowIs);
    /// @notice The final time must lie after the strike.
    error FinalNotAfterStrike(uint64 strikeTime, uint64 finalTime);
    /// @notice No spec was registered for this market.
    error UnknownMarket(uint256 marketId);
    /// @notice The market can be settled (or voided this way) from `possibleFrom` on.
    error TooEarly(uint256 possibleFrom, uint256 nowIs);
    /// @notice The feed has no reading at `time`; `problem` is the code `findRound` gives.
    error NoReading(address feed, uint256 time, uint8 problem);
    /// @notice The round given is not the one in effect at `time`; `findRound` tells which is.
    error NotInEffect(address feed, uint80 round, uint256 time);
    /// @notice A reading is not a price; the market can be voided by `voidBadAnswer`.
    error AnswerOutOfBand(int256 strikeAnswer, int256 finalAnswer);
    /// @notice Both readings are prices, so this is no reason to void.
    error AnswersInBand(int256 strikeAnswer, int256 finalAnswer);
    /// @notice A reading was older than the market allows; the market can be voided by `voidStale`.
    error ReadingStale(uint256 strikeAge, uint256 finalAge);
    /// @notice Both readings were fresh enough, so this is no reason to void.
    error ReadingsFresh(uint256 strikeAge, uint256 finalAge);
    /// @notice The stock token says its oracle is paused, or does not say; wait, or void 24 hours after the final time.
    error OraclePaused(address stockToken);
    /// @notice The stock token says its oracle is running, so this is no reason to void.
    error OracleNotPaused(address stockToken);

    /// @notice Fixes what a market is settled by. The lister only, once per market, before its strike.
    /// @return specId keccak256(abi.encode(chainId, this contract, spec))
    function register(Spec calldata s) external returns (bytes32 specId);

    /// @notice The round in effect at `at`; for `at` not yet past, as things stand.
    /// @return roundId 0 when there is a problem
    /// @return problem 0 none, 1 no contract at the feed's address, 2 its latest round is unreadable, 3 its round ids carry no
    ///         phase, 4 no phase has a round at or before `at`, 5 neither have the last 8 phases and older ones are not read
    function findRound(address feed, uint64 at) external view returns (uint80 roundId, uint8 problem);

    /// @notice Settles a market after its final time, finding both rounds itself. Anyone.
    function resolve(uint256 marketId) external;

    /// @notice The same from two rounds that `findRound` gave: it only proves them, which costs less. Anyone.
    function resolveWith(uint256 marketId, uint80 strikeRound, uint80 finalRound) external;

    /// @notice Voids a market one of whose two rounds was older than its age bound. Anyone, after the final time.
    function voidStale(uint256 marketId, uint80 strikeRound, uint80 finalRound) external;

    /// @notice Voids a market one of whose two rounds holds an answer that is not a price. Anyone, after the final time.
    function voidBadAnswer(uint256 marketId, uint80 strikeRound, uint80 finalRound) external;

    /// @notice Voids a market whose stock token's oracle is still paused 24 hours after the final time. Anyone.
    function voidPaused(uint256 marketId) external;

    /// @notice What the rounds say now; never reverts (but for too little gas), also for an unknown market (status 0).
    ///         It does not look at whether the market has been settled already.
    /// @return status 0 not ready, 1 UP, 2 DOWN, 3 FLAT: `resolve` settles it. 4 STALE: `voidStale` does.
    ///         5 BAD PROOF: there is no round in effect at one of the times, which `findRound` explains.
    ///         6 PAUSED: `resolve` waits, `voidPaused` works 24 hours after the final time. 7 BAD ANSWER: `voidBadAnswer` does.
    ///         When several apply, the one that can be acted on: 7, then 4, then 6, then 5.
    /// @return strikeRound and the rest: the two readings, zeros where there is none and while not ready
    function preview(uint256 marketId)
        external
        view
        returns (
            uint8 status,
            uint80 strikeRound,
            int256 strikeAnswer,
            uint256 strikeAt,
            uint80 finalRound,
            int256 finalAnswer,
            uint256 finalAt
        );

    /// @notice What a market is settled by; `feed` is zero for a market that was never registered.
    function spec(uint256 marketId) external view returns (Spec memory);

    function settler() external view returns (address);

    function lister() external view returns (address);
}
