// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {ISettlementWallet} from "./ISettlementWallet.sol";
import {MarketRules} from "./MarketRules.sol";

/// @title MarketRules as a contract of its own: without storage, owner or money
/// @notice The settlement wallet deploys one and asks it; anyone may ask it the same. It exists because both in one would be too large.
contract MarketJudge {
    /// @notice Reverts unless the market may be listed now.
    /// @return opensAt as it counts: a time already past means now
    /// @return lag see MarketRules.Terms
    function check(ISettlementWallet.MarketSpec memory spec) external view returns (uint64 opensAt, uint256 lag) {
        lag = MarketRules.check(spec);
        opensAt = spec.opensAt;
    }

    /// @notice The result of a market now, or a revert that says what is missing. `roundId` 0: found.
    function decide(MarketRules.Terms memory t, uint80 roundId) external view returns (MarketRules.Verdict memory) {
        return MarketRules.decide(t, roundId);
    }

    /// @notice The proven reason to void a market now, or a revert. `roundId` 0: found.
    function fault(MarketRules.Terms memory t, uint80 roundId) external view returns (uint8 reason) {
        return MarketRules.fault(t, roundId);
    }
}
