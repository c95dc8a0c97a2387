// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {Ownable} from "@openzeppelin/contracts/access/Ownable.sol";
import {Ownable2Step} from "@openzeppelin/contracts/access/Ownable2Step.sol";

import {IAggregatorV3} from "../lib/IAggregatorV3.sol";
import {IObservationFeed} from "./IObservationFeed.sol";

/// @title The implementation; see IObservationFeed for what it promises
contract ObservationFeed is IObservationFeed, Ownable2Step {
    /// One slot a round.
    struct Observation {
        int192 value;
        uint64 observedAt;
    }

    uint8 public constant decimals = 8;
    uint256 public constant version = 1;
    uint16 public constant phaseId = 1;

    uint32 public immutable maxLag;

    string public description;
    address public publisher;
    Observation[] private _observations; // round number n stands at n - 1

    /// @param owner_ appoints the publisher; two-step transfer
    /// @param description_ what is observed, in Chainlink's style: "BNKR / USD market cap"
    /// @param maxLag_ seconds between an observation and the latest moment it may be posted
    constructor(address owner_, string memory description_, uint32 maxLag_) Ownable(owner_) {
        description = description_;
        maxLag = maxLag_;
    }

    // Owner

    /// @inheritdoc IObservationFeed
    function setPublisher(address next) external onlyOwner {
        emit PublisherSet(publisher, next);
        publisher = next;
    }

    // Publisher

    modifier onlyPublisher() {
        if (msg.sender != publisher) revert NotPublisher(msg.sender, publisher);
        _;
    }

    /// @inheritdoc IObservationFeed
    function post(int256 value, uint64 observedAt) external onlyPublisher returns (uint80 roundId) {
        return _append(value, observedAt);
    }

    /// @inheritdoc IObservationFeed
    function postMany(int256[] calldata values, uint64[] calldata observedAt)
        external
        onlyPublisher
        returns (uint80 lastRoundId)
    {
        if (values.length != observedAt.length) revert LengthMismatch(values.length, observedAt.length);
        for (uint256 i; i < values.length; ++i) {
            _append(values[i], observedAt[i]);
        }
        return _id(_observations.length);
    }

    // Views

    /// @inheritdoc IObservationFeed
    function roundCount() external view returns (uint64) {
        return uint64(_observations.length);
    }

    /// @inheritdoc IAggregatorV3
    function getRoundData(uint80 id) external view returns (uint80, int256, uint256, uint256, uint80) {
        return _round(id);
    }

    /// @inheritdoc IAggregatorV3
    function latestRoundData() external view returns (uint80, int256, uint256, uint256, uint80) {
        return _round(_id(_observations.length));
    }

    // Internals

    function _append(int256 value, uint64 observedAt) private returns (uint80 roundId) {
        uint256 count = _observations.length;
        if (count != 0) {
            uint64 last = _observations[count - 1].observedAt;
            if (observedAt <= last) revert NotAfterLast(observedAt, last);
        }
        if (observedAt > block.timestamp) revert ObservedInFuture(observedAt, block.timestamp);
        if (uint256(observedAt) + maxLag < block.timestamp) {
            revert ObservedTooLongAgo(observedAt, block.timestamp - maxLag);
        }
        if (int192(value) != value) revert ValueTooLarge(value);
        _observations.push(Observation(int192(value), observedAt));
        roundId = _id(count + 1);
        emit AnswerUpdated(value, roundId, observedAt);
    }

    function _round(uint80 id) private view returns (uint80, int256, uint256, uint256, uint80) {
        uint256 number = uint64(id);
        if (id >> 64 != phaseId || number == 0 || number > _observations.length) revert NoSuchRound(id);
        Observation memory o = _observations[number - 1];
        return (id, o.value, o.observedAt, o.observedAt, id);
    }

    function _id(uint256 number) private pure returns (uint80) {
        return uint80(uint256(phaseId) << 64 | number);
    }
}
