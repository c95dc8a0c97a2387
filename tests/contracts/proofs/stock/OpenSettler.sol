// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {VestedMarkets} from "../../../../contracts/stock/VestedMarkets.sol";

/// The settler as it is, with its storage in sight.
contract OpenSettler is VestedMarkets {
    constructor(address token_, address lister_, address guardian_, address treasury_)
        VestedMarkets(token_, lister_, guardian_, treasury_)
    {}

    function totals() external view returns (Totals memory) {
        return _totals;
    }

    function terms(uint256 marketId) external view returns (Terms memory) {
        return _markets[marketId].terms;
    }

    function flow(uint256 marketId) external view returns (Flow memory) {
        return _markets[marketId].flow;
    }

    function pool(uint256 marketId) external view returns (Pool memory) {
        return _markets[marketId].pool;
    }

    function opener(uint256 marketId) external view returns (address) {
        return _markets[marketId].opener;
    }

    function seed(uint256 marketId) external view returns (uint64) {
        return _markets[marketId].seedPerLeg;
    }

    function resolverOf(uint256 marketId) external view returns (address) {
        return _markets[marketId].resolver;
    }

    function vintageOf(uint256 marketId, uint256 number) external view returns (Vintage memory) {
        return _vintages[_vintageKey(marketId, number)].vintage;
    }

    function rationOf(uint256 marketId, uint256 number) external view returns (Ration memory) {
        return _vintages[_vintageKey(marketId, number)].ration;
    }

    function positionWord(uint256 positionId) external view returns (Position memory) {
        return _positions[positionId];
    }

    /// What a position is worth as its market stands.
    function stakeOf(uint256 positionId) external view returns (Snapshot memory snap, Stake memory s) {
        (, snap, s) = _position(positionId);
    }
}
