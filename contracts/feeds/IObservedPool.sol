// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

/// @title The part of a pool that remembers: Uniswap v3, and what kept its oracle as it is (PancakeSwap v3)
interface IObservedPool {
    function token0() external view returns (address);

    function token1() external view returns (address);

    /// @notice In range now.
    function liquidity() external view returns (uint128);

    /// @notice The first five fields, which all of them share; more may follow.
    function slot0()
        external
        view
        returns (
            uint160 sqrtPriceX96,
            int24 tick,
            uint16 observationIndex,
            uint16 observationCardinality,
            uint16 observationCardinalityNext
        );

    function observations(uint256 index)
        external
        view
        returns (
            uint32 blockTimestamp,
            int56 tickCumulative,
            uint160 secondsPerLiquidityCumulativeX128,
            bool initialized
        );
}
