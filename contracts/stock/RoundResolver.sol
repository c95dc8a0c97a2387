// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {GuardedRead} from "../lib/GuardedRead.sol";
import {RoundFinder} from "../lib/RoundFinder.sol";
import {SequencerCheck} from "../lib/SequencerCheck.sol";
import {IRoundResolver} from "./IRoundResolver.sol";

/// What the resolver may do to a market: name the winner of one that is frozen and unsettled, or void it. The settler
/// refuses anything else, so a market is settled once however often this contract is called.
interface IResolvable {
    function resolve(uint256 marketId, uint8 winner) external;
    function voidMarket(uint256 marketId) external;
}

/// Of a tokenized stock, what says whether its price can be relied upon.
interface IStockToken {
    function oraclePaused() external view returns (bool);
    function uiMultiplier() external view returns (uint256);
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

    /// Witnesses of one pause: the first, the last so far, and whether one after them saw the oracle running.
    struct Pause {
        uint64 first;
        uint64 last;
        bool over;
    }

    /// A multiplier and when it was first seen.
    struct Multiplier {
        uint64 from;
        uint192 value;
    }

    /// What has been witnessed of a stock. `disturbedAt` is when a pause or another multiplier was last seen: readings
    /// made after it need no look at the rest.
    struct Watch {
        bool known;
        uint64 disturbedAt;
        Pause[] pauses;
        Multiplier[] multipliers;
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
    uint8 private constant BY_MULTIPLIER = 5;
    uint8 private constant BY_OUTAGE = 6;

    /// A price is above 0 and below this, 1,000,000 in the feed's 8 decimals. Anything else is a broken feed.
    int256 private constant TOO_HIGH = 1e14;

    /// How far apart two witnesses may be and still have seen one pause.
    uint256 public constant JOIN = 1 hours;

    uint256 private constant MAX_SETTLE_DELAY = 1 hours;

    address public immutable settler;
    address public immutable lister;
    address public immutable sequencerFeed;
    uint32 public immutable settleDelay;

    mapping(uint256 marketId => Terms) private _terms;
    mapping(address stockToken => Watch) private _watches;

    /// @param settler_ the VestedMarkets whose markets this settles
    /// @param lister_ the only address that registers them
    /// @param sequencerFeed_ Chainlink's uptime feed of this chain's sequencer, 0 where there is none
    /// @param settleDelay_ seconds to wait after a final time for rounds that are shown late
    constructor(address settler_, address lister_, address sequencerFeed_, uint32 settleDelay_) {
        if (settler_ == address(0)) revert ZeroAddress("settler");
        if (lister_ == address(0)) revert ZeroAddress("lister");
        if (settleDelay_ > MAX_SETTLE_DELAY) revert SettleDelayTooLong(settleDelay_, MAX_SETTLE_DELAY);
        settler = settler_;
        lister = lister_;
        sequencerFeed = sequencerFeed_;
        settleDelay = settleDelay_;
    }

    // Witnessing

    /// @inheritdoc IRoundResolver
    function witness(address stockToken) public returns (bool paused) {
        Watch storage w = _watches[stockToken];
        if (!w.known) {
            if (msg.sender != lister) revert UnknownStockToken(stockToken);
            w.known = true;
        }
        paused = _isPaused(stockToken);
        bool isNew;
        uint256 count = w.pauses.length;
        if (paused) {
            isNew = true;
            w.disturbedAt = uint64(block.timestamp);
            if (count != 0 && _mayGoOn(w.pauses[count - 1])) w.pauses[count - 1].last = uint64(block.timestamp);
            else w.pauses.push(Pause(uint64(block.timestamp), uint64(block.timestamp), false));
        } else if (count != 0 && !w.pauses[count - 1].over) {
            isNew = true;
            w.pauses[count - 1].over = true;
        }
        uint256 multiplier = multiplierAt(stockToken, uint64(block.timestamp));
        // One that cannot be read, or is no number of this kind, is unknown, which is no change.
        (bool ok, uint256 value) = GuardedRead.word(stockToken, IStockToken.uiMultiplier.selector);
        if (ok && value != multiplier && value <= type(uint192).max) {
            isNew = true;
            if (multiplier != 0) w.disturbedAt = uint64(block.timestamp);
            multiplier = value;
            w.multipliers.push(Multiplier(uint64(block.timestamp), uint192(value)));
        }
        if (isNew) emit Witnessed(stockToken, paused, multiplier);
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
        // A change from before the listing is seen now, so that no later witness makes it one of this market's time.
        if (witness(s.stockToken)) revert OraclePaused(s.stockToken);

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
        Terms memory t = _due(marketId);
        (RoundFinder.Round memory strike, RoundFinder.Round memory last) = _find(t);
        _resolve(marketId, t, strike, last);
    }

    /// @inheritdoc IRoundResolver
    function resolveWith(uint256 marketId, uint80 strikeRound, uint80 finalRound) external {
        Terms memory t = _due(marketId);
        (RoundFinder.Round memory strike, RoundFinder.Round memory last) = _prove(t, strikeRound, finalRound);
        _resolve(marketId, t, strike, last);
    }

    /// @inheritdoc IRoundResolver
    function voidStale(uint256 marketId, uint80 strikeRound, uint80 finalRound) external {
        Terms memory t = _due(marketId);
        (RoundFinder.Round memory strike, RoundFinder.Round memory last) = _prove(t, strikeRound, finalRound);
        bool tooOld = _isTooOld(t, strike, last);
        if (!tooOld && !_isReadThroughOutage(t, strike, last)) {
            revert ReadingsFresh(t.strikeTime - strike.updatedAt, t.finalTime - last.updatedAt);
        }
        _void(marketId, VOID, tooOld ? BY_STALE : BY_OUTAGE, strike, last);
    }

    /// @inheritdoc IRoundResolver
    function voidBadAnswer(uint256 marketId, uint80 strikeRound, uint80 finalRound) external {
        Terms memory t = _due(marketId);
        (RoundFinder.Round memory strike, RoundFinder.Round memory last) = _prove(t, strikeRound, finalRound);
        if (!_isOutOfBand(strike) && !_isOutOfBand(last)) revert AnswersInBand(strike.answer, last.answer);
        _void(marketId, VOID, BY_BAD_ANSWER, strike, last);
    }

    /// @inheritdoc IRoundResolver
    function voidPaused(uint256 marketId) external {
        Terms memory t = _due(marketId);
        (RoundFinder.Round memory strike, RoundFinder.Round memory last) = _find(t);
        bool paused = _isPausedOver(t, strike, last);
        if (!paused && !_hasMultiplierChanged(t, strike)) revert OracleNotPaused(t.stockToken);
        _void(marketId, VOID, paused ? BY_PAUSED : BY_MULTIPLIER, strike, last);
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
        (bool known, uint256 possibleFrom) = _possibleFrom(t);
        if (!known || block.timestamp < possibleFrom) return (uint8(Status.NotReady), 0, 0, 0, 0, 0, 0);
        (RoundFinder.Round memory strike, uint8 strikeProblem) = RoundFinder.inEffectAt(t.feed, t.strikeTime);
        (RoundFinder.Round memory last, uint8 lastProblem) = RoundFinder.inEffectAt(t.feed, t.finalTime);
        Status s = Status.BadProof;
        if (strikeProblem == RoundFinder.OK && lastProblem == RoundFinder.OK) s = _judge(t, strike, last);
        return (uint8(s), strike.id, strike.answer, strike.updatedAt, last.id, last.answer, last.updatedAt);
    }

    /// @inheritdoc IRoundResolver
    function spec(uint256 marketId) external view returns (Spec memory) {
        Terms memory t = _terms[marketId];
        return Spec(marketId, t.feed, t.stockToken, t.strikeTime, t.finalTime, t.maxStrikeAge, t.maxFinalAge);
    }

    /// @inheritdoc IRoundResolver
    function multiplierAt(address stockToken, uint64 at) public view returns (uint256) {
        Multiplier[] storage all = _watches[stockToken].multipliers;
        for (uint256 i = all.length; i != 0; --i) {
            Multiplier memory m = all[i - 1];
            if (m.from <= at) return m.value;
        }
        return 0;
    }

    /// @inheritdoc IRoundResolver
    /// @dev Pauses do not overlap, so of those that began in time only the newest can reach furthest. The newest of all may still go on;
    ///      only then is the stock asked.
    function pausedBetween(address stockToken, uint64 from, uint64 to) public view returns (bool) {
        Pause[] storage all = _watches[stockToken].pauses;
        uint256 count = all.length;
        for (uint256 i = count; i != 0; --i) {
            Pause memory p = all[i - 1];
            if (p.first > to) continue;
            return p.last >= from || (i == count && _mayGoOn(p) && _isPaused(stockToken));
        }
        return false;
    }

    /// @inheritdoc IRoundResolver
    function lastPause(address stockToken) external view returns (uint64, uint64, bool) {
        Pause[] storage all = _watches[stockToken].pauses;
        if (all.length == 0) return (0, 0, false);
        Pause memory p = all[all.length - 1];
        return (p.first, p.last, p.over);
    }

    // Internals

    /// The terms of a market that can be settled now. Its final time lies more than `settleDelay` back; strictly, as a round
    /// written in the same second as the final time would still change the answer.
    function _due(uint256 marketId) private view returns (Terms memory t) {
        t = _terms[marketId];
        if (t.feed == address(0)) revert UnknownMarket(marketId);
        (bool known, uint256 possibleFrom) = _possibleFrom(t);
        if (!known) revert SequencerDown(sequencerFeed);
        if (block.timestamp < possibleFrom) revert TooEarly(possibleFrom, block.timestamp);
    }

    /// When a market can be settled, as things stand; not known of an unregistered one, or while the sequencer is down.
    function _possibleFrom(Terms memory t) private view returns (bool known, uint256 from) {
        if (t.feed == address(0)) return (false, 0);
        (known, from) = SequencerCheck.backFrom(sequencerFeed);
        uint256 shown = uint256(t.finalTime) + settleDelay + 1;
        if (from < shown) from = shown;
    }

    /// Both rounds, searched for.
    function _find(Terms memory t)
        private
        view
        returns (RoundFinder.Round memory strike, RoundFinder.Round memory last)
    {
        uint8 problem;
        (strike, problem) = RoundFinder.inEffectAt(t.feed, t.strikeTime);
        if (problem != RoundFinder.OK) revert NoReading(t.feed, t.strikeTime, problem);
        (last, problem) = RoundFinder.inEffectAt(t.feed, t.finalTime);
        if (problem != RoundFinder.OK) revert NoReading(t.feed, t.finalTime, problem);
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
        if (_isTooOld(t, strike, last) || _isReadThroughOutage(t, strike, last)) return Status.Stale;
        if (_isPausedOver(t, strike, last) || _hasMultiplierChanged(t, strike)) return Status.Paused;
        if (last.answer == strike.answer) return Status.Flat;
        return last.answer > strike.answer ? Status.Up : Status.Down;
    }

    function _isOutOfBand(RoundFinder.Round memory round) private pure returns (bool) {
        return round.answer <= 0 || round.answer >= TOO_HIGH;
    }

    /// A round in effect at a time is not later than it, so the ages do not underflow.
    function _isTooOld(Terms memory t, RoundFinder.Round memory strike, RoundFinder.Round memory last)
        private
        pure
        returns (bool)
    {
        return t.strikeTime - strike.updatedAt > t.maxStrikeAge || t.finalTime - last.updatedAt > t.maxFinalAge;
    }

    function _isReadThroughOutage(Terms memory t, RoundFinder.Round memory strike, RoundFinder.Round memory last)
        private
        view
        returns (bool)
    {
        return SequencerCheck.wasDown(sequencerFeed, strike.updatedAt, t.strikeTime)
            || SequencerCheck.wasDown(sequencerFeed, last.updatedAt, t.finalTime);
    }

    function _isPausedOver(Terms memory t, RoundFinder.Round memory strike, RoundFinder.Round memory last)
        private
        view
        returns (bool)
    {
        // A pause that was last seen longer ago than `JOIN` cannot go on either.
        uint256 reachesTo = _watches[t.stockToken].disturbedAt + JOIN;
        if (reachesTo < strike.updatedAt && reachesTo < last.updatedAt) return false;
        return pausedBetween(t.stockToken, uint64(strike.updatedAt), t.strikeTime)
            || pausedBetween(t.stockToken, uint64(last.updatedAt), t.finalTime);
    }

    /// After the reading at the strike was made, and before the bell. The first multiplier ever seen is no change.
    function _hasMultiplierChanged(Terms memory t, RoundFinder.Round memory strike) private view returns (bool) {
        if (_watches[t.stockToken].disturbedAt < strike.updatedAt) return false;
        uint256 before = multiplierAt(t.stockToken, uint64(strike.updatedAt));
        return before != 0 && before != multiplierAt(t.stockToken, t.finalTime);
    }

    /// Whether a pause seen now would be this one, not another.
    function _mayGoOn(Pause memory p) private view returns (bool) {
        return !p.over && block.timestamp - p.last <= JOIN;
    }

    /// Anything but a clear "no" counts as paused.
    function _isPaused(address stockToken) private view returns (bool) {
        (bool ok, uint256 paused) = GuardedRead.word(stockToken, IStockToken.oraclePaused.selector);
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
