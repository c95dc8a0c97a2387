// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

/// @title Settles UP/DOWN markets from two proven rounds of a price feed
/// @notice This contract has no owner and takes no price from anyone: anyone may settle a market, and who does makes no
///         difference: the outcome follows from the feed's rounds, and from the pauses and splits of the stock that were witnessed until
///         then. The reading at a time is the round in effect then, as RoundFinder defines it. A market compares
///         the reading at its strike time with the reading at its final time.
///
///         Issuers pause a stock's oracle around splits and dividends, and then its price stands still. The chain does not remember
///         when, so anyone may make this contract remember it while it lasts: `witness`. A market is void if a pause was witnessed
///         over one of its readings: at or after the reading was made, and at or before the time it was read for. Successive witnesses
///         at most `JOIN` apart are one pause, unless one between them saw the oracle running. So a pause that ended
///         before the reading was made, or was first seen after the bell, changes nothing. A market is void too if the
///         stock's multiplier was seen to change between the reading at its strike and its bell.
interface IRoundResolver {
    /// What a market is settled by. All times are Unix seconds, ages seconds.
    struct Spec {
        uint256 marketId; // of the settler
        address feed; // a proxy in Chainlink's AggregatorV3 form, 8 decimals
        address stockToken; // has oraclePaused(), and uiMultiplier() where splits and dividends change it
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

    /// @notice What a call of `witness` saw, where it changed what this contract remembers.
    event Witnessed(address indexed stockToken, bool paused, uint256 multiplier);

    /// @param outcome 0 UP, 1 DOWN, 2 FLAT (void), 3 VOID
    /// @param reason 0 none: the rounds decided, 1 flat: the answers are equal, 2 stale: a round was too old, 3 paused: a pause was
    ///        witnessed over a round, 4 bad answer: out of band, 5 multiplier: it changed between the rounds, 6 outage: a
    ///        round was read while the sequencer was down
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
    /// @notice Only stocks that the lister has allowed are witnessed.
    error UnknownStockToken(address stockToken);
    /// @notice A round may be shown late, but not by more than an hour.
    error SettleDelayTooLong(uint256 delay, uint256 longest);
    /// @notice The sequencer is down, or its uptime feed cannot be read; wait.
    error SequencerDown(address sequencerFeed);
    /// @notice The market can be settled (or voided this way) from `possibleFrom` on.
    error TooEarly(uint256 possibleFrom, uint256 nowIs);
    /// @notice The feed has no reading at `time`; `problem` is the code `findRound` gives.
    error NoReading(address feed, uint256 time, uint8 problem);
    /// @notice The given round is not the one in effect at `time`; `findRound` returns that one.
    error NotInEffect(address feed, uint80 round, uint256 time);
    /// @notice A reading is not a price; the market can be voided by `voidBadAnswer`.
    error AnswerOutOfBand(int256 strikeAnswer, int256 finalAnswer);
    /// @notice Both readings are prices, so this is no reason to void.
    error AnswersInBand(int256 strikeAnswer, int256 finalAnswer);
    /// @notice A reading was older than the market allows; the market can be voided by `voidStale`.
    error ReadingStale(uint256 strikeAge, uint256 finalAge);
    /// @notice Both readings were fresh enough and the sequencer was up, so this is no reason to void.
    error ReadingsFresh(uint256 strikeAge, uint256 finalAge);
    /// @notice When a market is listed: the stock's oracle is paused, or does not say. When it is settled: a pause or a change of the
    ///         multiplier was witnessed over its readings; the market can be voided by `voidPaused`.
    error OraclePaused(address stockToken);
    /// @notice No pause and no change of the multiplier was witnessed over the readings, so this is no reason to void.
    error OracleNotPaused(address stockToken);

    /// @notice Reads the stock's pause and multiplier and remembers what is new. Anyone, for a stock that the lister has allowed.
    /// @return paused true also when the stock does not say
    function witness(address stockToken) external returns (bool paused);

    /// @notice Fixes what a market is settled by. The lister only, once per market, before its strike, and not while the
    ///         stock's oracle is paused.
    /// @return specId keccak256(abi.encode(chainId, this contract, spec))
    function register(Spec calldata s) external returns (bytes32 specId);

    /// @notice The round in effect at `at`; for `at` not yet past, as things stand.
    /// @return roundId 0 when there is a problem
    /// @return problem 0 none, 1 no contract at the feed's address, 2 its latest round is unreadable, 3 its round ids carry no
    ///         phase, 4 no phase has a round at or before `at`, 5 neither have the last 8 phases and older ones are not read
    function findRound(address feed, uint64 at) external view returns (uint80 roundId, uint8 problem);

    /// @notice Settles a market `settleDelay` after its final time, finding both rounds itself. Anyone.
    function resolve(uint256 marketId) external;

    /// @notice The same from two rounds that `findRound` gave: it only proves them, which costs less. Anyone.
    function resolveWith(uint256 marketId, uint80 strikeRound, uint80 finalRound) external;

    /// @notice Voids a market one of whose two rounds was older than its age bound, or was read while the sequencer was down or
    ///         less than an hour back up. Anyone, once it could be settled.
    function voidStale(uint256 marketId, uint80 strikeRound, uint80 finalRound) external;

    /// @notice Voids a market one of whose two rounds holds an answer that is not a price. Anyone, once it could be settled.
    function voidBadAnswer(uint256 marketId, uint80 strikeRound, uint80 finalRound) external;

    /// @notice Voids a market over one of whose readings a pause was witnessed, or between whose readings the stock's
    ///         multiplier changed. Finds both rounds itself. Anyone, once it could be settled.
    function voidPaused(uint256 marketId) external;

    /// @notice What the rounds say now; never reverts (but for too little gas), also for an unknown market (status 0).
    ///         It does not look at whether the market has been settled already.
    /// @return status 0 not ready, 1 UP, 2 DOWN, 3 FLAT: `resolve` settles it. 4 STALE: `voidStale` does.
    ///         5 BAD PROOF: there is no round in effect at one of the times, which `findRound` explains.
    ///         6 PAUSED: `voidPaused` does. 7 BAD ANSWER: `voidBadAnswer` does. When several apply: 7, then 4, then 6.
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

    /// @notice The stock's multiplier as it was last witnessed at or before `at`; 0 when it was not.
    function multiplierAt(address stockToken, uint64 at) external view returns (uint256);

    /// @notice The first and the last witness of the newest pause, zeros where none was seen, and whether it was seen to be over.
    function lastPause(address stockToken) external view returns (uint64 first, uint64 last, bool over);

    /// @notice Whether a pause was witnessed in effect between `from` and `to`, both included.
    function pausedBetween(address stockToken, uint64 from, uint64 to) external view returns (bool);

    function settler() external view returns (address);

    function lister() external view returns (address);

    /// @notice Chainlink's uptime feed of the chain's sequencer; 0 where there is none.
    function sequencerFeed() external view returns (address);

    /// @notice Seconds after its final time that a market waits for rounds which are shown late.
    function settleDelay() external view returns (uint32);
}
