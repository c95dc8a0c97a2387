// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {ISettlementWallet} from "./ISettlementWallet.sol";
import {Pricing} from "./Pricing.sol";

/// @title The books of all agent markets: how they are stored, how they are read
/// @dev Nothing loops over the stakes of a market. SettlementWallet writes what is declared here.
///
///      The widths: a pot less fees is at most Pricing.MAX_POT, which fits 60 bits, and so do its stakes with the highest fee. Shares of an outcome are below
///      (weights + pot) * (1 + ln(pot / 1)), which fits 66 bits. Liabilities are covered by money that is here.
abstract contract SettlementBooks is ISettlementWallet {
    // ---------------------------------------------------------------- Storage

    /// One slot.
    struct Book {
        uint80 net;
        uint88 shares;
        uint88 excess;
    }

    struct Market {
        // What every stake reads; opened with it and, but for the last two, never changed.
        uint64 opensAt;
        uint64 closesAt;
        uint32 index;
        uint16 feeBps;
        uint8 outcomes;
        uint40 weightSum;
        MarketStatus status;
        uint8 winner;
        // Virtual weights: outcome k in the bits from 32 * k.
        uint256 weights;
        // What every stake writes, and the cap that each outcome has its share of.
        uint64 potCap;
        uint64 staked;
        uint64 netPool;
        uint32 stakes;
        // Once resolved with winners, what payouts write: shares of winners not paid yet, and what winners were paid.
        uint128 unpaidShares;
        uint128 paidOut;
        Book[8] books;
    }

    struct Stake {
        address wallet;
        uint64 amount;
        uint8 outcome;
        StakeStatus status;
        uint88 shares;
    }

    /// One slot: the liabilities, and the pause that every stake reads with them.
    struct Liabilities {
        uint80 openStakes;
        uint80 unpaid;
        uint80 fees;
        bool paused;
    }

    Liabilities internal _liabilities;
    bytes32[] internal _marketIds;
    mapping(bytes32 marketId => Market) internal _markets;
    mapping(uint256 stakeId => Stake) internal _stakes; // id = market index << 32 | n
    mapping(address wallet => mapping(bytes32 idemHash => uint256 stakeId)) public stakeOf;
    mapping(address wallet => mapping(bytes32 nonce => bool)) public booked;
    mapping(bytes32 role => mapping(address account => bool)) public hasRole;

    // ---------------------------------------------------------------- Amounts owed

    /// What paying reads of a market once for a batch, and what it has paid.
    struct Settlement {
        bytes32 marketId;
        uint256 index;
        MarketStatus status;
        bool refunding;
        uint8 winner;
        uint256 feeBps;
        Pricing.Pool pool;
        // What this call has paid so far.
        uint256 sent;
        uint256 paidShares; // of winners
        uint256 paidOut; // to them
    }

    function _settlement(bytes32 marketId, Market storage m) internal view returns (Settlement memory s) {
        (s.marketId, s.index, s.status, s.feeBps) = (marketId, m.index, m.status, m.feeBps);
        if (s.status == MarketStatus.Void) s.refunding = true;
        if (s.status != MarketStatus.Resolved) return s;
        s.winner = m.winner;
        s.pool = _pool(m, s.winner);
        s.refunding = Pricing.refunds(s.pool);
    }

    function _pool(Market storage m, uint8 winner) internal view returns (Pricing.Pool memory) {
        Book memory b = m.books[winner];
        return Pricing.Pool(m.netPool, b.net, b.shares, b.excess);
    }

    /// The amount owed to a stake now, and whether it is a refund rather than a payout.
    function _owed(Settlement memory t, uint256 id, Stake memory s) internal pure returns (uint256 owed, bool refund) {
        if (s.status == StakeStatus.Unknown) revert UnknownStake(id);
        if (id >> 32 != t.index) revert StakeOfAnotherMarket(id, t.marketId);
        if (s.status == StakeStatus.OwedBack) return (s.amount, true);
        if (s.status != StakeStatus.InBook) return (0, false);
        if (t.status == MarketStatus.Open) revert NotSettled(t.marketId);
        if (t.refunding) return (s.amount, true);
        if (s.outcome != t.winner) return (0, false);
        return (Pricing.payout(t.pool, Pricing.netOf(s.amount, t.feeBps), s.shares), false);
    }

    // ---------------------------------------------------------------- Reading storage

    function _known(bytes32 marketId) internal view returns (Market storage m) {
        m = _markets[marketId];
        if (m.status == MarketStatus.Unknown) revert UnknownMarket(marketId);
    }

    function _unsettled(bytes32 marketId) internal view returns (Market storage m) {
        m = _known(marketId);
        if (m.status != MarketStatus.Open) revert AlreadySettled(marketId);
    }

    function _marketOfStake(uint256 stakeId) internal view returns (bytes32 marketId, Market storage m) {
        if (_stakes[stakeId].status == StakeStatus.Unknown) revert UnknownStake(stakeId);
        marketId = _marketIds[(stakeId >> 32) - 1];
        m = _markets[marketId];
    }

    /// What an outcome still takes, in stakes less fees.
    function _room(Market storage m, uint256 outcome) internal view returns (uint256) {
        return Pricing.outcomeCap(m.potCap, m.outcomes) - m.books[outcome].net;
    }

    /// The weight of an outcome, and of all.
    function _weights(Market storage m, uint256 outcome) internal view returns (uint256 weight, uint256 total) {
        return (uint32(m.weights >> 32 * outcome) + uint256(m.books[outcome].net), uint256(m.weightSum) + m.netPool);
    }

    // ---------------------------------------------------------------- Views

    /// @inheritdoc ISettlementWallet
    function market(bytes32 marketId) external view returns (MarketView memory v) {
        Market storage m = _known(marketId);
        v.index = m.index;
        v.status = m.status;
        v.outcomes = m.outcomes;
        v.winner = m.winner;
        Settlement memory t = _settlement(marketId, m);
        v.refunding = t.refunding;
        v.opensAt = m.opensAt;
        v.closesAt = m.closesAt;
        v.feeBps = m.feeBps;
        v.potCap = m.potCap;
        v.weights = new uint32[](v.outcomes);
        for (uint256 k; k < v.outcomes; ++k) {
            v.weights[k] = uint32(m.weights >> 32 * k);
        }
        v.stakes = m.stakes;
        v.staked = m.staked;
        v.netPool = m.netPool;
        if (v.status == MarketStatus.Resolved && !t.refunding) v.paidShares = t.pool.winnersShares - m.unpaidShares;
        v.paidOut = m.paidOut;
    }

    /// @inheritdoc ISettlementWallet
    function marketCount() external view returns (uint256) {
        return _marketIds.length;
    }

    /// @inheritdoc ISettlementWallet
    function marketIdAt(uint256 position) external view returns (bytes32) {
        return _marketIds[position];
    }

    /// @inheritdoc ISettlementWallet
    function openCap(uint256 index) external view returns (uint256) {
        Market storage m = _markets[_marketIds[index - 1]];
        return m.status == MarketStatus.Open ? m.potCap : 0;
    }

    /// @inheritdoc ISettlementWallet
    function outcomeBook(bytes32 marketId, uint8 outcome) external view returns (BookView memory v) {
        Market storage m = _known(marketId);
        if (outcome >= m.outcomes) revert UnknownOutcome(outcome, m.outcomes);
        Book memory b = m.books[outcome];
        (v.net, v.shares, v.excess) = (b.net, b.shares, b.excess);
        uint256 total;
        (v.weight, total) = _weights(m, outcome);
        v.price = Pricing.price(v.weight, total);
    }

    /// @inheritdoc ISettlementWallet
    function stake(uint256 stakeId) external view returns (StakeView memory v) {
        (bytes32 marketId, Market storage m) = _marketOfStake(stakeId);
        Stake memory s = _stakes[stakeId];
        v.marketId = marketId;
        (v.wallet, v.outcome, v.status, v.amount, v.shares) = (s.wallet, s.outcome, s.status, s.amount, s.shares);
        if (s.shares != 0) v.fee = Pricing.feeOf(s.amount, m.feeBps);
        if (s.status == StakeStatus.OwedBack || m.status != MarketStatus.Open) {
            (v.payable_,) = _owed(_settlement(marketId, m), stakeId, s);
        }
    }

    /// @inheritdoc ISettlementWallet
    function stakeCount(bytes32 marketId) external view returns (uint256) {
        return _known(marketId).stakes;
    }

    /// @inheritdoc ISettlementWallet
    function stakesOf(bytes32 marketId, uint256 from, uint256 count) external view returns (uint256[] memory ids) {
        Market storage m = _known(marketId);
        uint256 stakes = m.stakes;
        uint256 left = from < stakes ? stakes - from : 0;
        ids = new uint256[](count < left ? count : left);
        for (uint256 k; k < ids.length; ++k) {
            ids[k] = uint256(m.index) << 32 | (from + k);
        }
    }

    /// @inheritdoc ISettlementWallet
    function quote(bytes32 marketId, uint8 outcome, uint256 amount)
        external
        view
        returns (uint256 shares, uint256 feePaid, uint256 priceBefore, uint256 priceAfter)
    {
        Market storage m = _known(marketId);
        if (outcome >= m.outcomes) revert UnknownOutcome(outcome, m.outcomes);
        if (amount < Pricing.MIN_STAKE || amount > Pricing.MAX_STAKE) {
            revert AmountOutOfBounds(amount, Pricing.MIN_STAKE, Pricing.MAX_STAKE);
        }
        (uint256 weight, uint256 total) = _weights(m, outcome);
        shares = Pricing.sharesFor(Pricing.buying(amount, m.feeBps), weight, total);
        feePaid = Pricing.feeOf(amount, m.feeBps);
        priceBefore = Pricing.price(weight, total);
        priceAfter = Pricing.price(weight + amount - feePaid, total + amount - feePaid);
    }

    /// @inheritdoc ISettlementWallet
    function liabilities() external view returns (uint256 openStakes, uint256 unpaid, uint256 fees) {
        return (_liabilities.openStakes, _liabilities.unpaid, _liabilities.fees);
    }

    /// @inheritdoc ISettlementWallet
    function paused() external view returns (bool) {
        return _liabilities.paused;
    }
}
