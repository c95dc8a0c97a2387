// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {Base} from "../Base.sol";
import {RecordedBuild} from "../RecordedBuild.sol";
import {Pools} from "./Pools.sol";

/// What calls to pool feeds cost, as rows of the gas table: each is logged as `GAS|pools|row|gas|limit` and fails above its limit.
abstract contract GasRows is Pools, RecordedBuild {
    event log(string line);

    function artifactOf(string memory name) internal pure override(Base, RecordedBuild) returns (string memory) {
        return RecordedBuild.artifactOf(name);
    }

    function row(string memory name, uint256 most, uint256 used) internal {
        string memory line = string.concat("GAS|pools|", name, "|", decimal(used), "|", decimal(most));
        emit log(line);
        vm.assertLe(used, most, line);
    }

    function execution(bytes memory data) internal view returns (uint256 gas) {
        gas = vm.lastCallGas().gasTotalUsed - 21_000;
        for (uint256 k; k < data.length; ++k) {
            gas -= data[k] == 0 ? 4 : 16;
        }
    }

    function decimal(uint256 n) internal pure returns (string memory s) {
        do {
            s = string.concat(string(abi.encodePacked(bytes1(uint8(48 + n % 10)))), s);
            n /= 10;
        } while (n != 0);
    }
}
