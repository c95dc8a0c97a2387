// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

/// A feed with any rounds in any phases: what is written in it is never said.
contract AnyFeed {
    mapping(uint80 id => uint256) public updatedAt; // 0: there is no such round
    mapping(uint80 id => int256) public answer;
    uint80 public latest;

    function latestRoundData() external view returns (uint80, int256, uint256, uint256, uint80) {
        return (latest, answer[latest], updatedAt[latest], updatedAt[latest], latest);
    }

    function getRoundData(uint80 id) external view returns (uint80, int256, uint256, uint256, uint80) {
        return (id, answer[id], updatedAt[id], updatedAt[id], id);
    }
}
