// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

/// @title Lists a market in one transaction: seed, market and settlement spec together
/// @notice The owner (a Safe; two-step transfer) decides which feeds may be listed and who may list. It cannot touch a
/// market that was listed. Kappa, fee and void delay are fixed at deployment.
///
/// Units: amounts are token units (6 decimals); times are Unix seconds; ages are seconds.
///
/// An opener allows this contract to spend `2 * seedPerLeg` of the token; the seed goes from the opener straight to the
/// settler and both seed positions belong to the opener. This contract never holds tokens.
interface IMarketLister {
    // ---------------------------------------------------------------- Types

    struct OpenParams {
        address feed;
        uint64 strikeTime;
        uint64 finalTime; // entries end then
        uint32 maxStrikeAge; // at most the feed's
        uint32 maxFinalAge; // at most the feed's
        uint64 seedPerLeg;
        uint64 minEntry;
        uint64 maxEntry;
        uint8 family; // 0 daily, 1 weekly, 2 drill
    }

    struct Listing {
        uint256 marketId;
        bytes32 specId;
        address feed;
        uint8 family;
        uint64 openedAt;
    }

    struct Feed {
        address stockToken;
        uint32 maxStrikeAge;
        uint32 maxFinalAge;
        bool allowed;
        uint64 sideCap; // the most an outcome of its markets takes in all
        string ticker;
    }

    // ---------------------------------------------------------------- Events

    event MarketOpened(
        uint256 indexed marketId,
        bytes32 indexed specId,
        address indexed feed,
        string ticker,
        uint8 family,
        uint64 strikeTime,
        uint64 finalTime,
        uint64 seedPerLeg,
        uint64 minEntry,
        uint64 maxEntry
    );
    event FeedSet(
        address indexed feed,
        address indexed stockToken,
        string ticker,
        uint32 maxStrikeAge,
        uint32 maxFinalAge,
        uint64 sideCap,
        bool allowed
    );
    event OpenerSet(address indexed opener, bool allowed);

    // ---------------------------------------------------------------- Errors

    error ZeroAddress(string what);
    error NotOpener(address caller);
    error FeedNotAllowed(address feed);
    /// @notice A strike that has passed is a known answer.
    error StrikeNotAhead(uint256 strikeTime, uint256 timestamp);
    error FinalNotAfterStrike(uint256 strikeTime, uint256 finalTime);
    error WindowTooLong(uint256 window, uint256 longest);
    error SeedTooSmall(uint256 seedPerLeg, uint256 smallest);
    error MinEntryTooSmall(uint256 minEntry, uint256 smallest);
    error MaxEntryBelowMin(uint256 maxEntry, uint256 minEntry);
    error SideCapTooSmall(uint256 sideCap, uint256 smallest);
    /// @notice A market may ask for fresher rounds than its feed's bounds, never for staler ones, and a feed's bounds have their own; 0 is no
    /// bound at all.
    error AgeOutOfBounds(string which, uint256 age, uint256 longest);
    error UnknownFamily(uint8 family);
    /// @notice The token reported success, but the settler's balance did not rise by the seed.
    error SeedNotReceived(uint256 needed, uint256 received);
    error TickerLength(uint256 length, uint256 longest);
    error UnknownListing(uint256 index, uint256 count);

    // ---------------------------------------------------------------- Functions

    /// @notice Opens a market: moves `2 * seedPerLeg` from the caller to the settler, creates the market and registers what
    /// settles it. Openers only; refused while the settler's guardian has stopped new markets.
    function open(OpenParams calldata p) external returns (uint256 marketId, bytes32 specId);

    /// @notice Sets a feed's terms for markets opened from now on. Owner only. A feed that is allowed must have code, 8 decimals and a
    /// positive reading of the last days (see FeedCheck; stock feeds rest at weekends), and a stock token whose oracle says that it is not
    /// paused; so must it when a market is opened.
    /// @param maxStrikeAge at most 5 days
    /// @param maxFinalAge at most 3 hours
    /// @param sideCap the most an outcome of such a market takes in all: what moving its price at the bell can win
    /// @param ticker 1 to 31 bytes
    function setFeed(
        address feed,
        address stockToken,
        string calldata ticker,
        uint32 maxStrikeAge,
        uint32 maxFinalAge,
        uint64 sideCap,
        bool allowed
    ) external;

    /// @notice Lets an address open markets, or no longer. Owner only.
    function setOpener(address opener, bool allowed) external;

    /// @notice Listings count from 0, in the order they were opened.
    function listing(uint256 index) external view returns (Listing memory);

    function listingCount() external view returns (uint256);

    function feed(address feed_) external view returns (Feed memory);

    function isOpener(address account) external view returns (bool);

    function settler() external view returns (address);

    function resolver() external view returns (address);

    function kappa() external view returns (uint32);

    function feeBps() external view returns (uint16);

    function voidDelay() external view returns (uint32);
}
