// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

/// @title The part of a Chainlink price feed that the contracts read
/// @notice A feed is a proxy whose round ids are `phase << 64 | n`: a phase is one aggregator behind the proxy, and
///         the rounds of a phase are numbered consecutively from 1.
interface IAggregatorV3 {
    function decimals() external view returns (uint8);

    function description() external view returns (string memory);

    function version() external view returns (uint256);

    /// @return roundId `phase << 64 | n`
    /// @return answer the value, in `decimals()` decimals
    /// @return startedAt when the round began, Unix seconds
    /// @return updatedAt when the round was written, Unix seconds; 0 means there is no such round
    /// @return answeredInRound the round that carried the answer
    function getRoundData(uint80 id)
        external
        view
        returns (uint80 roundId, int256 answer, uint256 startedAt, uint256 updatedAt, uint80 answeredInRound);

    function latestRoundData()
        external
        view
        returns (uint80 roundId, int256 answer, uint256 startedAt, uint256 updatedAt, uint80 answeredInRound);
}
