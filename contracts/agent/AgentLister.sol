// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {Ownable, Ownable2Step} from "@openzeppelin/contracts/access/Ownable2Step.sol";

import {IObservationFeed} from "../feeds/IObservationFeed.sol";
import {IPoolFeed, PROMPT} from "../feeds/IPoolFeed.sol";
import {FeedCheck} from "../lib/FeedCheck.sol";
import {GuardedRead} from "../lib/GuardedRead.sol";
import {IPauser} from "../lib/IPauser.sol";
import {IAgentLister} from "./IAgentLister.sol";
import {IFeedResolver} from "./IFeedResolver.sol";
import {ISettlementWallet} from "./ISettlementWallet.sol";
import {Pricing} from "./Pricing.sol";

/// @title The lister of the agent markets; see IAgentLister for what it promises
contract AgentLister is IAgentLister, Ownable2Step {
    // ---------------------------------------------------------------- Constants and storage

    /// Between the end of stakes and the first second that a deciding reading looks at.
    uint256 public constant MARGIN = 60;

    /// How long after the end of an early-resolvable market NO can be declared: as long as a crossing can still be recorded so that it
    /// counts. The pools of its feed must remember for as long.
    uint256 public constant CHALLENGE_DELAY = PROMPT;

    /// For how long a guardian can put off the settlement of a feed's markets.
    uint256 public constant PUT_OFF = 1 days;

    /// Before the fee some books sell a sure dollar for 98.4 cents; less of a fee than this would not take that back.
    uint256 public constant MIN_FEE_BPS = 175;

    /// How much higher than its lower bound a bucket's upper one must be. A narrower bucket near the price is cheap to hit, and the caps of
    /// pool feeds are worked out for buckets of this width.
    uint256 public constant MIN_BUCKET_BPS = 400;

    uint256 private constant MAX_LAG = 30 minutes;
    uint256 private constant MAX_STEPS_BACK = 1_440; // of a grid feed, so that looking for a reading ends
    uint256 private constant MAX_CROSSING_STEPS = 1 << 20; // of an early-resolvable market, so that looking for a crossing ends
    uint256 private constant MAX_MEMORY = 30 days;
    uint256 private constant MIN_POT_CAP = (Pricing.MAX_OUTCOMES - 1) * Pricing.MIN_STAKE; // a share of it takes the least stake
    uint256 private constant MIN_DISPUTE_WINDOW = 1 minutes;
    uint256 private constant MAX_DISPUTE_WINDOW = 7 days;
    uint256 private constant MIN_VOID_DELAY = 1 hours;
    uint256 private constant MAX_VOID_DELAY = 90 days;
    uint256 private constant MAX_AHEAD = 366 days; // a stolen lister's key takes up a feed's cap for so long and the void delay

    uint256 private constant MAX_VALUE = type(uint96).max; // what the resolver stores

    address public immutable settler;
    address public immutable resolver;

    Bounds private _bounds;
    mapping(address feed => Feed) private _feeds;
    mapping(address feed => uint32[]) private _open; // indexes of the markets in Feed.counted
    mapping(address account => bool) public isLister;

    constructor(address settler_, address resolver_, address owner_, Bounds memory bounds_) Ownable(owner_) {
        if (settler_ == address(0)) revert ZeroAddress("settler");
        if (resolver_ == address(0)) revert ZeroAddress("resolver");
        settler = settler_;
        resolver = resolver_;
        _setBounds(bounds_);
    }

    // ---------------------------------------------------------------- Listing

    /// @inheritdoc IAgentLister
    function list(bytes32 marketId, MarketSpec memory spec, string calldata metadata) external {
        if (!isLister[msg.sender]) revert NotLister(msg.sender);
        MarketTerms memory terms = _terms(spec);
        uint32 index = ISettlementWallet(settler)
            .open(
                marketId,
                ISettlementWallet.OpenParams({
                opensAt: spec.opensAt,
                closesAt: spec.closesAt,
                feeBps: terms.feeBps,
                potCap: terms.potCap,
                weights: spec.weights
            })
            );
        _count(spec.feed, index, terms.potCap);
        IFeedResolver(resolver)
            .register(
                marketId,
                IFeedResolver.Terms({
                kind: spec.kind,
                feed: spec.feed,
                earlyResolvable: spec.earlyResolvable,
                published: terms.published,
                grid: _feeds[spec.feed].step != 0,
                maxAge: terms.maxAge,
                startAt: spec.startAt,
                endsAt: spec.endsAt,
                earlyFrom: terms.earlyFrom,
                settlesAfter: terms.settlesAfter,
                voidsAfter: terms.voidsAfter,
                target: spec.target,
                bounds: spec.bounds
            })
            );
        emit MarketListed(marketId, spec.feed, msg.sender, spec, terms, metadata);
    }

    /// @inheritdoc IAgentLister
    function preview(MarketSpec memory spec) external view returns (MarketTerms memory terms) {
        terms = _terms(spec);
        _requireRoom(spec.feed, openOn(spec.feed), terms.potCap);
    }

    /// One push may decide all markets of a feed, so all that nothing has settled count, whenever they end.
    function _count(address feed_, uint32 index, uint64 potCap) private {
        Feed storage f = _feeds[feed_];
        uint256 open = f.counted;
        if (open + potCap > f.feedCap) {
            open = _forgetSettled(feed_);
            _requireRoom(feed_, open, potCap);
        }
        f.counted = uint64(open + potCap);
        _open[feed_].push(index);
    }

    /// @return open the pot caps of those that are left
    function _forgetSettled(address feed_) private returns (uint256 open) {
        uint32[] storage indexes = _open[feed_];
        for (uint256 k = indexes.length; k != 0; --k) {
            uint256 cap = ISettlementWallet(settler).openCap(indexes[k - 1]);
            open += cap;
            if (cap != 0) continue;
            indexes[k - 1] = indexes[indexes.length - 1];
            indexes.pop();
        }
    }

    function _requireRoom(address feed_, uint256 open, uint64 potCap) private view {
        uint256 feedCap = _feeds[feed_].feedCap;
        if (open + potCap > feedCap) revert FeedIsFull(feed_, feedCap, open, potCap);
    }

    /// The terms of a market that may be listed now, or a revert that says why it may not. Sets `opensAt` as it counts.
    function _terms(MarketSpec memory s) private view returns (MarketTerms memory t) {
        Feed memory f = _feeds[s.feed];
        if (f.condemned) revert FeedIsCondemned(s.feed);
        if (!f.allowed) revert FeedNotAllowed(s.feed);
        FeedCheck.check(s.feed, f.maxAge);
        (uint256 lag, bool published, uint256 step) = _probe(s.feed);
        if (lag != f.lag || (published && !f.published) || step != f.step) revert FeedChanged(s.feed);
        if (step != 0) IPoolFeed(s.feed).requireListable(CHALLENGE_DELAY);

        Bounds memory b = _bounds;
        _checkOutcomes(s, b);
        _checkTimes(s, f);
        if (s.earlyResolvable) t.earlyFrom = uint64(s.closesAt + MARGIN + f.memory_);
        uint256 wait = f.lag;
        if (f.published) wait += b.disputeWindow;
        else if (s.earlyResolvable && wait < CHALLENGE_DELAY) wait = CHALLENGE_DELAY;
        t.settlesAfter = uint64(s.endsAt + wait);
        t.voidsAfter = t.settlesAfter + b.voidDelay;
        (t.feeBps, t.potCap, t.published, t.maxAge) = (b.feeBps, f.potCap, f.published, _maxAge(s, f));
    }

    /// Oldest deciding reading, in seconds: none looks back at a second in which stakes were taken, even if no reading was posted since.
    function _maxAge(MarketSpec memory s, Feed memory f) private pure returns (uint32) {
        uint256 moment = s.kind == IFeedResolver.Kind.Direction ? s.startAt : s.endsAt;
        uint256 looksBack = f.step == 0 ? 0 : f.memory_ - f.step; // a grid reading, from its own time
        uint256 since = moment - s.closesAt - MARGIN - looksBack; // at least the memory, or a step: the rules of times
        return since < f.maxAge ? uint32(since) : f.maxAge;
    }

    function _checkOutcomes(MarketSpec memory s, Bounds memory b) private pure {
        uint256 outcomes = s.weights.length;
        if (s.kind == IFeedResolver.Kind.Range) {
            if (outcomes < Pricing.MIN_OUTCOMES || outcomes > Pricing.MAX_OUTCOMES) {
                revert WrongNumberOfOutcomes(outcomes, Pricing.MIN_OUTCOMES, Pricing.MAX_OUTCOMES);
            }
            if (s.bounds.length != outcomes - 1) revert BoundsDoNotMatchOutcomes(s.bounds.length, outcomes);
            uint256 least = 1; // readings are positive, so a bucket under zero could never win
            for (uint256 k; k < s.bounds.length; ++k) {
                int256 bound = s.bounds[k];
                if (bound < int256(least)) revert BoundsMustRise(k, bound, int256(least));
                _requireWithin(Field.Bounds, uint256(bound), 1, MAX_VALUE);
                least = uint256(bound) + (uint256(bound) * MIN_BUCKET_BPS + Pricing.BPS - 1) / Pricing.BPS; // up
            }
        } else {
            if (outcomes != 2) revert WrongNumberOfOutcomes(outcomes, 2, 2);
            if (s.bounds.length != 0) revert FieldNotUsedByKind(Field.Bounds, s.kind);
        }
        if (s.kind == IFeedResolver.Kind.Threshold) {
            if (s.target <= 0) revert TargetMustBePositive(s.target);
            _requireWithin(Field.Target, uint256(s.target), 1, MAX_VALUE);
        } else {
            if (s.target != 0) revert FieldNotUsedByKind(Field.Target, s.kind);
            if (s.earlyResolvable) revert FieldNotUsedByKind(Field.EarlyResolvable, s.kind);
        }
        for (uint256 k; k < outcomes; ++k) {
            _requireWithin(Field.Weight, s.weights[k], b.minWeight, b.maxWeight);
        }
    }

    /// The rules at the top of IAgentLister.
    function _checkTimes(MarketSpec memory s, Feed memory f) private view {
        if (s.opensAt < block.timestamp) s.opensAt = uint64(block.timestamp);
        if (s.closesAt <= block.timestamp) revert ClosesInThePast(s.closesAt, block.timestamp);
        if (s.closesAt <= s.opensAt) revert ClosesBeforeItOpens(s.opensAt, s.closesAt);
        _requireWithin(Field.EndsAt, s.endsAt, 1, block.timestamp + MAX_AHEAD);
        uint256 memory_ = f.memory_;

        if (s.kind == IFeedResolver.Kind.Direction) {
            _requireClosesBy(s, s.startAt, MARGIN + memory_);
            uint256 length = s.endsAt > s.startAt ? s.endsAt - s.startAt : 0;
            if (length < 2 * memory_) revert RoundTooShort(length, 2 * memory_);
            return;
        }
        if (s.startAt != 0) revert FieldNotUsedByKind(Field.StartAt, s.kind);
        _requireClosesBy(s, s.endsAt, MARGIN + memory_);
        uint256 longest = s.endsAt - memory_ - s.closesAt;
        if (s.earlyResolvable) {
            if (f.published || f.step == 0) revert NotEarlyOnThisFeed(s.feed);
            longest -= MARGIN; // from earlyFrom to endsAt
            _requireWithin(Field.EndsAt, s.endsAt, 1, s.endsAt - longest + MAX_CROSSING_STEPS * f.step);
        }
        uint256 length_ = s.closesAt - s.opensAt;
        if (length_ > longest) revert OpenForTooLong(length_, longest);
    }

    /// Stakes must end `before` seconds ahead of `moment`.
    function _requireClosesBy(MarketSpec memory s, uint256 moment, uint256 before) private pure {
        uint256 latest = moment > before ? moment - before : 0;
        if (s.closesAt > latest) revert ClosesTooLate(s.closesAt, latest);
    }

    function _requireWithin(Field field, uint256 value, uint256 min, uint256 max) private pure {
        if (value < min || value > max) revert OutOfBounds(field, value, min, max);
    }

    // ---------------------------------------------------------------- The owner's part

    /// @inheritdoc IAgentLister
    function setBounds(Bounds calldata bounds_) external onlyOwner {
        _setBounds(bounds_);
    }

    function _setBounds(Bounds memory b) private {
        _requireWithin(Field.FeeBps, b.feeBps, MIN_FEE_BPS, Pricing.MAX_FEE_BPS);
        _requireWithin(Field.MaxWeight, b.maxWeight, 1, type(uint32).max);
        _requireWithin(Field.MinWeight, b.minWeight, 1, b.maxWeight);
        _requireWithin(Field.DisputeWindow, b.disputeWindow, MIN_DISPUTE_WINDOW, MAX_DISPUTE_WINDOW);
        _requireWithin(Field.VoidDelay, b.voidDelay, MIN_VOID_DELAY, MAX_VOID_DELAY);
        _bounds = b;
        emit BoundsSet(b);
    }

    /// @inheritdoc IAgentLister
    function setFeed(address feed_, bool allowed, uint32 memory_, uint32 maxAge, uint64 potCap, uint64 feedCap)
        external
        onlyOwner
    {
        Feed memory f = _feeds[feed_];
        f.allowed = allowed;
        if (allowed) {
            if (f.condemned) revert FeedIsCondemned(feed_);
            FeedCheck.check(feed_, maxAge);
            (uint256 lag, bool published, uint256 step) = _probe(feed_);
            if (lag > MAX_LAG) revert FeedLagTooLong(lag, MAX_LAG);
            uint256 minMemory = lag == 0 ? 1 : lag;
            if (step != 0) {
                IPoolFeed(feed_).requireAllowable(CHALLENGE_DELAY);
                minMemory = step + IPoolFeed(feed_).window();
                _requireWithin(Field.MaxAge, maxAge, step, MAX_STEPS_BACK * step);
            }
            _requireWithin(Field.Memory, memory_, minMemory, MAX_MEMORY);
            _requireWithin(Field.PotCap, potCap, MIN_POT_CAP, Pricing.MAX_POT_CAP);
            _requireWithin(Field.FeedCap, feedCap, potCap, type(uint64).max);
            (f.memory_, f.maxAge, f.lag, f.step) = (memory_, maxAge, uint32(lag), uint32(step));
            (f.potCap, f.feedCap) = (potCap, feedCap);
            // Once published it stays so: markets were listed with the promise that the Safe can condemn it.
            f.published = f.published || published;
        }
        _feeds[feed_] = f;
        emit FeedSet(feed_, allowed, f.published, f.memory_, f.maxAge, f.lag, f.potCap, f.step, f.feedCap);
    }

    /// How late readings may be posted to the feed, whether it has a publisher, and the step of its grid. Feeds without these functions write
    /// rounds at block time.
    function _probe(address feed_) private view returns (uint256 lag, bool published, uint256 step) {
        bool ok;
        (ok, lag) = GuardedRead.word(feed_, IObservationFeed.maxLag.selector);
        if (!ok) lag = 0;
        (published,) = GuardedRead.word(feed_, IObservationFeed.publisher.selector);
        (ok, step) = GuardedRead.word(feed_, IPoolFeed.step.selector);
        if (!ok || step > MAX_MEMORY) step = 0;
    }

    /// @inheritdoc IAgentLister
    function condemn(address feed_) external onlyOwner {
        Feed storage f = _feeds[feed_];
        if (!f.published) revert FeedHasNoPublisher(feed_);
        if (f.condemned) revert FeedIsCondemned(feed_);
        (f.allowed, f.condemned) = (false, true);
        emit FeedCondemned(feed_);
    }

    /// @inheritdoc IAgentLister
    function putOff(address feed_) external {
        IPauser guardians = IPauser(ISettlementWallet(settler).guardian());
        if (!guardians.isGuardian(msg.sender)) revert NotGuardian(msg.sender);
        Feed storage f = _feeds[feed_];
        if (!f.published) revert FeedHasNoPublisher(feed_);
        if (f.putOffUntil != 0) revert AlreadyPutOff(feed_, f.putOffUntil);
        f.putOffUntil = uint40(block.timestamp + PUT_OFF);
        emit SettlementPutOff(feed_, msg.sender, f.putOffUntil);
    }

    /// @inheritdoc IAgentLister
    function setLister(address account, bool allowed) external onlyOwner {
        if (account == address(0)) revert ZeroAddress("account");
        isLister[account] = allowed;
        emit ListerSet(account, allowed);
    }

    /// @notice Without an owner a publisher's lie could not be condemned.
    function renounceOwnership() public pure override {
        revert OwnershipCannotBeRenounced();
    }

    // ---------------------------------------------------------------- Views

    /// @inheritdoc IAgentLister
    function feed(address feed_) external view returns (Feed memory) {
        return _feeds[feed_];
    }

    /// @inheritdoc IAgentLister
    function openOn(address feed_) public view returns (uint256 open) {
        uint32[] storage indexes = _open[feed_];
        for (uint256 k; k < indexes.length; ++k) {
            open += ISettlementWallet(settler).openCap(indexes[k]);
        }
    }

    /// @inheritdoc IAgentLister
    function bounds() external view returns (Bounds memory) {
        return _bounds;
    }

    /// @inheritdoc IAgentLister
    function standing(address feed_) external view returns (bool condemned, uint64 putOffUntil) {
        Feed storage f = _feeds[feed_];
        return (f.condemned, f.putOffUntil);
    }
}
