// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {Ownable, Ownable2Step} from "@openzeppelin/contracts/access/Ownable2Step.sol";
import {IERC20} from "@openzeppelin/contracts/token/ERC20/IERC20.sol";
import {SafeERC20} from "@openzeppelin/contracts/token/ERC20/utils/SafeERC20.sol";
import {ReentrancyGuardTransient} from "@openzeppelin/contracts/utils/ReentrancyGuardTransient.sol";
import {FeedCheck} from "../lib/FeedCheck.sol";
import {IMarketLister} from "./IMarketLister.sol";
import {IRoundResolver} from "./IRoundResolver.sol";
import {IVestedMarkets} from "./IVestedMarkets.sol";

/// @title The venue's listing rules
/// @notice See IMarketLister.
contract MarketLister is IMarketLister, Ownable2Step, ReentrancyGuardTransient {
    // ---------------------------------------------------------------- Constants and immutables

    uint256 public constant MAX_WINDOW = 8 days;
    /// One token: the least seed per leg, the least minimum entry and the least cap of a side.
    uint256 public constant ONE_TOKEN = 1e6;
    /// Of the latest reading when a feed is allowed and when a market is opened: feeds rest over weekends and holidays.
    uint256 public constant MAX_FEED_AGE = 5 days;
    /// Of the reading at a strike: what lies before an open, and over four days of it the longest closures.
    uint32 public constant MAX_STRIKE_AGE = 5 days;
    /// Of the reading at a bell: the exchange was open all that time.
    uint32 public constant MAX_FINAL_AGE = 3 hours;
    uint256 private constant MAX_TICKER = 31;
    uint8 private constant LAST_FAMILY = 2;

    address public immutable settler;
    address public immutable resolver;
    address private immutable token;
    uint32 public immutable kappa;
    uint16 public immutable feeBps;
    uint32 public immutable voidDelay;

    // ---------------------------------------------------------------- Storage

    struct StoredListing {
        address feed;
        uint8 family;
        uint40 openedAt;
        uint48 marketId;
    }

    mapping(address feed => Feed) private _feeds;
    mapping(address account => bool) public isOpener;
    StoredListing[] private _listings;

    constructor(address settler_, address resolver_, address owner_, uint32 kappa_, uint16 feeBps_, uint32 voidDelay_)
        Ownable(owner_)
    {
        if (settler_ == address(0)) revert ZeroAddress("settler");
        if (resolver_ == address(0)) revert ZeroAddress("resolver");
        settler = settler_;
        resolver = resolver_;
        token = IVestedMarkets(settler_).token();
        kappa = kappa_;
        feeBps = feeBps_;
        voidDelay = voidDelay_;
    }

    // ---------------------------------------------------------------- Opening

    /// @inheritdoc IMarketLister
    function open(OpenParams calldata p) external nonReentrant returns (uint256 marketId, bytes32 specId) {
        if (!isOpener[msg.sender]) revert NotOpener(msg.sender);
        Feed memory f = _feeds[p.feed];
        if (!f.allowed) revert FeedNotAllowed(p.feed);
        FeedCheck.check(p.feed, MAX_FEED_AGE);
        _requireTimes(p, f);
        _requireAmounts(p);
        if (p.family > LAST_FAMILY) revert UnknownFamily(p.family);

        _bringSeed(2 * uint256(p.seedPerLeg));
        marketId = IVestedMarkets(settler)
            .create(
                IVestedMarkets.CreateParams({
                opener: msg.sender,
                resolver: resolver,
                freezeTime: p.finalTime,
                voidDelay: voidDelay,
                feeBps: feeBps,
                kappa: kappa,
                seedPerLeg: p.seedPerLeg,
                minEntry: p.minEntry,
                maxEntry: p.maxEntry,
                sideCap: f.sideCap
            })
            );
        // In the transaction that creates the market, so no one can register another spec for it first.
        specId = IRoundResolver(resolver)
            .register(
                IRoundResolver.Spec({
                marketId: marketId,
                feed: p.feed,
                stockToken: f.stockToken,
                strikeTime: p.strikeTime,
                finalTime: p.finalTime,
                maxStrikeAge: p.maxStrikeAge,
                maxFinalAge: p.maxFinalAge
            })
            );
        _listings.push(
            StoredListing({
                feed: p.feed, family: p.family, openedAt: uint40(block.timestamp), marketId: uint48(marketId)
            })
        );
        emit MarketOpened(
            marketId,
            specId,
            p.feed,
            f.ticker,
            p.family,
            p.strikeTime,
            p.finalTime,
            p.seedPerLeg,
            p.minEntry,
            p.maxEntry
        );
    }

    function _requireTimes(OpenParams calldata p, Feed memory f) private view {
        if (p.strikeTime <= block.timestamp) revert StrikeNotAhead(p.strikeTime, block.timestamp);
        if (p.finalTime <= p.strikeTime) revert FinalNotAfterStrike(p.strikeTime, p.finalTime);
        uint256 window = p.finalTime - p.strikeTime;
        if (window > MAX_WINDOW) revert WindowTooLong(window, MAX_WINDOW);
        _requireAge("strike", p.maxStrikeAge, f.maxStrikeAge);
        _requireAge("final", p.maxFinalAge, f.maxFinalAge);
    }

    function _requireAge(string memory which, uint256 age, uint256 longest) private pure {
        if (age == 0 || age > longest) revert AgeOutOfBounds(which, age, longest);
    }

    function _requireAmounts(OpenParams calldata p) private pure {
        if (p.seedPerLeg < ONE_TOKEN) revert SeedTooSmall(p.seedPerLeg, ONE_TOKEN);
        if (p.minEntry < ONE_TOKEN) revert MinEntryTooSmall(p.minEntry, ONE_TOKEN);
        if (p.maxEntry < p.minEntry) revert MaxEntryBelowMin(p.maxEntry, p.minEntry);
    }

    /// Only ever from the caller: an allowance to this contract is spent by its owner alone.
    function _bringSeed(uint256 seed) private {
        uint256 before = IERC20(token).balanceOf(settler);
        SafeERC20.safeTransferFrom(IERC20(token), msg.sender, settler, seed);
        uint256 held = IERC20(token).balanceOf(settler);
        if (held != before + seed) revert SeedNotReceived(seed, held > before ? held - before : 0);
    }

    // ---------------------------------------------------------------- The owner's part

    /// @inheritdoc IMarketLister
    function setFeed(
        address feed_,
        address stockToken,
        string calldata ticker,
        uint32 maxStrikeAge,
        uint32 maxFinalAge,
        uint64 sideCap,
        bool allowed
    ) external onlyOwner {
        if (feed_ == address(0)) revert ZeroAddress("feed");
        if (stockToken == address(0)) revert ZeroAddress("stockToken");
        uint256 length = bytes(ticker).length;
        if (length == 0 || length > MAX_TICKER) revert TickerLength(length, MAX_TICKER);
        _requireAge("strike", maxStrikeAge, MAX_STRIKE_AGE);
        _requireAge("final", maxFinalAge, MAX_FINAL_AGE);
        if (sideCap < ONE_TOKEN) revert SideCapTooSmall(sideCap, ONE_TOKEN);
        if (allowed) {
            FeedCheck.check(feed_, MAX_FEED_AGE);
            if (IRoundResolver(resolver).witness(stockToken)) revert IRoundResolver.OraclePaused(stockToken);
        }
        _feeds[feed_] = Feed({
            stockToken: stockToken,
            maxStrikeAge: maxStrikeAge,
            maxFinalAge: maxFinalAge,
            allowed: allowed,
            sideCap: sideCap,
            ticker: ticker
        });
        emit FeedSet(feed_, stockToken, ticker, maxStrikeAge, maxFinalAge, sideCap, allowed);
    }

    /// @inheritdoc IMarketLister
    function setOpener(address opener, bool allowed) external onlyOwner {
        if (opener == address(0)) revert ZeroAddress("opener");
        isOpener[opener] = allowed;
        emit OpenerSet(opener, allowed);
    }

    // ---------------------------------------------------------------- Views

    /// @inheritdoc IMarketLister
    function listing(uint256 index) external view returns (Listing memory) {
        if (index >= _listings.length) revert UnknownListing(index, _listings.length);
        StoredListing memory l = _listings[index];
        return Listing({
            marketId: l.marketId,
            specId: keccak256(abi.encode(block.chainid, resolver, IRoundResolver(resolver).spec(l.marketId))),
            feed: l.feed,
            family: l.family,
            openedAt: l.openedAt
        });
    }

    /// @inheritdoc IMarketLister
    function listingCount() external view returns (uint256) {
        return _listings.length;
    }

    /// @inheritdoc IMarketLister
    function feed(address feed_) external view returns (Feed memory) {
        return _feeds[feed_];
    }
}
