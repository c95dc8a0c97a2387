// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {Flow, Pool, Position, Ration, Terms, Totals, Vintage} from "../../../../contracts/stock/PackedWords.sol";
import {VestedMarkets} from "../../../../contracts/stock/VestedMarkets.sol";

/// The settler as it is, with its words in sight.
contract OpenSettler is VestedMarkets {
    constructor(address token_, address lister_, address guardian_, address treasury_)
        VestedMarkets(token_, lister_, guardian_, treasury_)
    {}

    function totals() external view returns (Totals) {
        return _totals;
    }

    function terms(uint256 marketId) external view returns (Terms) {
        return _markets[marketId].terms;
    }

    function flow(uint256 marketId) external view returns (Flow) {
        return _markets[marketId].flow;
    }

    function pool(uint256 marketId) external view returns (Pool) {
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

    function vintageOf(uint256 marketId, uint256 number) external view returns (Vintage) {
        return _vintages[_vintageKey(marketId, number)].vintage;
    }

    function rationOf(uint256 marketId, uint256 number) external view returns (Ration) {
        return _vintages[_vintageKey(marketId, number)].ration;
    }

    function positionWord(uint256 positionId) external view returns (Position) {
        return _positions[positionId];
    }

    /// What a position is worth as its market stands.
    function stakeOf(uint256 positionId) external view returns (Snapshot memory snap, Stake memory s) {
        (, snap, s) = _position(positionId);
    }
}
