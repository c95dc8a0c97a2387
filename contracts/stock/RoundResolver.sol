// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {GuardedRead} from "../lib/GuardedRead.sol";
import {RoundFinder} from "../lib/RoundFinder.sol";
import {IRoundResolver} from "./IRoundResolver.sol";

/// What the resolver may do to a market: name the winner of one that is frozen and unsettled, or void it. The settler
/// refuses anything else, so a market is settled once however often this contract is called.
interface IResolvable {
    function resolve(uint256 marketId, uint8 winner) external;
    function voidMarket(uint256 marketId) external;
}

interface IPausableOracle {
    function oraclePaused() external view returns (bool);
}

/// @title The implementation; see IRoundResolver for what it promises
contract RoundResolver is IRoundResolver {
    /// A spec in two slots.
    struct Terms {
        address feed;
        uint64 strikeTime;
        uint32 maxStrikeAge;
        address stockToken;
        uint64 finalTime;
        uint32 maxFinalAge;
    }

    /// What two readings make of a market; the numbers `preview` gives.
    enum Status {
        NotReady,
        Up,
        Down,
        Flat,
        Stale,
        BadProof,
        Paused,
        BadAnswer
    }

    // Outcomes of a settled market; UP and DOWN are the settler's outcome numbers too.
    uint8 private constant UP = 0;
    uint8 private constant DOWN = 1;
    uint8 private constant FLAT = 2;
    uint8 private constant VOID = 3;

    // Reasons in Settled.
    uint8 private constant BY_ROUNDS = 0;
    uint8 private constant BY_FLAT = 1;
    uint8 private constant BY_STALE = 2;
    uint8 private constant BY_PAUSED = 3;
    uint8 private constant BY_BAD_ANSWER = 4;

    /// A price is above 0 and below this, 1,000,000 in the feed's 8 decimals. Anything else is a broken feed.
    int256 private constant TOO_HIGH = 1e14;

    /// How long after its final time a market waits for a paused oracle.
    uint256 private constant PAUSE_PATIENCE = 24 hours;

    address public immutable settler;
    address public immutable lister;

    mapping(uint256 marketId => Terms) private _terms;

    /// @param settler_ the VestedMarkets whose markets this settles
    /// @param lister_ the only address that registers them
    constructor(address settler_, address lister_) {
        if (settler_ == address(0)) revert ZeroAddress("settler");
        if (lister_ == address(0)) revert ZeroAddress("lister");
        settler = settler_;
        lister = lister_;
    }

    // Registration

    /// @inheritdoc IRoundResolver
    function register(Spec calldata s) external returns (bytes32 specId) {
        if (msg.sender != lister) revert NotLister(msg.sender, lister);
        if (s.feed == address(0)) revert ZeroAddress("feed");
        if (s.stockToken == address(0)) revert ZeroAddress("stockToken");
        if (s.strikeTime <= block.timestamp) revert StrikeNotAhead(s.strikeTime, block.timestamp);
        if (s.finalTime <= s.strikeTime) revert FinalNotAfterStrike(s.strikeTime, s.finalTime);
        if (_terms[s.marketId].feed != address(0)) revert AlreadyRegistered(s.marketId);

        _terms[s.marketId] = Terms({
            feed: s.feed,
            strikeTime: s.strikeTime,
            maxStrikeAge: s.maxStrikeAge,
            stockToken: s.stockToken,
            finalTime: s.finalTime,
            maxFinalAge: s.maxFinalAge
        });
        specId = keccak256(abi.encode(block.chainid, address(this), s));
        emit SpecRegistered(
            s.marketId, specId, s.feed, s.stockToken, s.strikeTime, s.finalTime, s.maxStrikeAge, s.maxFinalAge
        );
    }

    // Settling

    /// @inheritdoc IRoundResolver
    function resolve(uint256 marketId) external {
        Terms memory t = _due(marketId, 0);
        (RoundFinder.Round memory strike, uint8 strikeProblem) = RoundFinder.inEffectAt(t.feed, t.strikeTime);
        if (strikeProblem != RoundFinder.OK) revert NoReading(t.feed, t.strikeTime, strikeProblem);
        (RoundFinder.Round memory last, uint8 lastProblem) = RoundFinder.inEffectAt(t.feed, t.finalTime);
        if (lastProblem != RoundFinder.OK) revert NoReading(t.feed, t.finalTime, lastProblem);
        _resolve(marketId, t, strike, last);
    }

    /// @inheritdoc IRoundResolver
    function resolveWith(uint256 marketId, uint80 strikeRound, uint80 finalRound) external {
        Terms memory t = _due(marketId, 0);
        (RoundFinder.Round memory strike, RoundFinder.Round memory last) = _prove(t, strikeRound, finalRound);
        _resolve(marketId, t, strike, last);
    }

    /// @inheritdoc IRoundResolver
    /// @dev Neither this nor voidBadAnswer looks at the oracle's pause: what they prove is about rounds in the past, which
    ///      waiting does not mend.
    function voidStale(uint256 marketId, uint80 strikeRound, uint80 finalRound) external {
        Terms memory t = _due(marketId, 0);
        (RoundFinder.Round memory strike, RoundFinder.Round memory last) = _prove(t, strikeRound, finalRound);
        if (!_isStale(t, strike, last)) {
            revert ReadingsFresh(t.strikeTime - strike.updatedAt, t.finalTime - last.updatedAt);
        }
        _void(marketId, VOID, BY_STALE, strike, last);
    }

    /// @inheritdoc IRoundResolver
    function voidBadAnswer(uint256 marketId, uint80 strikeRound, uint80 finalRound) external {
        Terms memory t = _due(marketId, 0);
        (RoundFinder.Round memory strike, RoundFinder.Round memory last) = _prove(t, strikeRound, finalRound);
        if (!_isOutOfBand(strike) && !_isOutOfBand(last)) revert AnswersInBand(strike.answer, last.answer);
        _void(marketId, VOID, BY_BAD_ANSWER, strike, last);
    }

    /// @inheritdoc IRoundResolver
    function voidPaused(uint256 marketId) external {
        Terms memory t = _due(marketId, PAUSE_PATIENCE);
        if (!_isPaused(t.stockToken)) revert OracleNotPaused(t.stockToken);
        RoundFinder.Round memory none = RoundFinder.Round(0, 0, 0);
        _void(marketId, VOID, BY_PAUSED, none, none);
    }

    // Views

    /// @inheritdoc IRoundResolver
    function findRound(address feed, uint64 at) external view returns (uint80 roundId, uint8 problem) {
        RoundFinder.Round memory round;
        (round, problem) = RoundFinder.inEffectAt(feed, at);
        roundId = round.id;
    }

    /// @inheritdoc IRoundResolver
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
        )
    {
        Terms memory t = _terms[marketId];
        if (t.feed == address(0) || block.timestamp <= t.finalTime) {
            return (uint8(Status.NotReady), 0, 0, 0, 0, 0, 0);
        }
        (RoundFinder.Round memory strike, uint8 strikeProblem) = RoundFinder.inEffectAt(t.feed, t.strikeTime);
        (RoundFinder.Round memory last, uint8 lastProblem) = RoundFinder.inEffectAt(t.feed, t.finalTime);
        Status s;
        if (strikeProblem == RoundFinder.OK && lastProblem == RoundFinder.OK) s = _judge(t, strike, last);
        else s = _isPaused(t.stockToken) ? Status.Paused : Status.BadProof;
        return (uint8(s), strike.id, strike.answer, strike.updatedAt, last.id, last.answer, last.updatedAt);
    }

    /// @inheritdoc IRoundResolver
    function spec(uint256 marketId) external view returns (Spec memory) {
        Terms memory t = _terms[marketId];
        return Spec(marketId, t.feed, t.stockToken, t.strikeTime, t.finalTime, t.maxStrikeAge, t.maxFinalAge);
    }

    // Internals

    /// The terms of a market whose final time lies more than `patience` seconds back. Strictly: a round
    /// written in the same second as the final time would still change the answer.
    function _due(uint256 marketId, uint256 patience) private view returns (Terms memory t) {
        t = _terms[marketId];
        if (t.feed == address(0)) revert UnknownMarket(marketId);
        uint256 possibleFrom = t.finalTime + patience + 1;
        if (block.timestamp < possibleFrom) revert TooEarly(possibleFrom, block.timestamp);
    }

    /// Both rounds, proven against one reading of the feed's current phase.
    function _prove(Terms memory t, uint80 strikeRound, uint80 finalRound)
        private
        view
        returns (RoundFinder.Round memory strike, RoundFinder.Round memory last)
    {
        (uint256 phaseNow,, uint8 problem) = RoundFinder.currentPhase(t.feed);
        if (problem != RoundFinder.OK) revert NoReading(t.feed, t.strikeTime, problem);
        bool ok;
        (ok, strike) = RoundFinder.proveInEffectAt(t.feed, phaseNow, strikeRound, t.strikeTime);
        if (!ok) revert NotInEffect(t.feed, strikeRound, t.strikeTime);
        (ok, last) = RoundFinder.proveInEffectAt(t.feed, phaseNow, finalRound, t.finalTime);
        if (!ok) revert NotInEffect(t.feed, finalRound, t.finalTime);
    }

    function _resolve(uint256 marketId, Terms memory t, RoundFinder.Round memory strike, RoundFinder.Round memory last)
        private
    {
        Status s = _judge(t, strike, last);
        if (s == Status.BadAnswer) revert AnswerOutOfBand(strike.answer, last.answer);
        if (s == Status.Stale) revert ReadingStale(t.strikeTime - strike.updatedAt, t.finalTime - last.updatedAt);
        if (s == Status.Paused) revert OraclePaused(t.stockToken);
        if (s == Status.Flat) return _void(marketId, FLAT, BY_FLAT, strike, last);
        uint8 winner = s == Status.Up ? UP : DOWN;
        _emitSettled(marketId, winner, BY_ROUNDS, strike, last);
        IResolvable(settler).resolve(marketId, winner);
    }

    function _void(
        uint256 marketId,
        uint8 outcome,
        uint8 reason,
        RoundFinder.Round memory strike,
        RoundFinder.Round memory last
    ) private {
        _emitSettled(marketId, outcome, reason, strike, last);
        IResolvable(settler).voidMarket(marketId);
    }

    /// What two proven rounds say. The same round twice has equal answers, so it is flat too.
    function _judge(Terms memory t, RoundFinder.Round memory strike, RoundFinder.Round memory last)
        private
        view
        returns (Status)
    {
        if (_isOutOfBand(strike) || _isOutOfBand(last)) return Status.BadAnswer;
        if (_isStale(t, strike, last)) return Status.Stale;
        if (_isPaused(t.stockToken)) return Status.Paused;
        if (last.answer == strike.answer) return Status.Flat;
        return last.answer > strike.answer ? Status.Up : Status.Down;
    }

    function _isOutOfBand(RoundFinder.Round memory round) private pure returns (bool) {
        return round.answer <= 0 || round.answer >= TOO_HIGH;
    }

    /// A round in effect at a time is not later than it, so the ages do not underflow.
    function _isStale(Terms memory t, RoundFinder.Round memory strike, RoundFinder.Round memory last)
        private
        pure
        returns (bool)
    {
        return t.strikeTime - strike.updatedAt > t.maxStrikeAge || t.finalTime - last.updatedAt > t.maxFinalAge;
    }

    /// Anything but a clear "no" counts as paused.
    function _isPaused(address stockToken) private view returns (bool) {
        (bool ok, uint256 paused) = GuardedRead.word(stockToken, IPausableOracle.oraclePaused.selector);
        return !ok || paused != 0;
    }

    function _emitSettled(
        uint256 marketId,
        uint8 outcome,
        uint8 reason,
        RoundFinder.Round memory strike,
        RoundFinder.Round memory last
    ) private {
        emit Settled(
            marketId, outcome, reason, strike.id, strike.answer, strike.updatedAt, last.id, last.answer, last.updatedAt
        );
    }
}
