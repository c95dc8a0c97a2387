// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {Base} from "../forge/Base.sol";

/// What makes values that stand for every value of their type; Halmos answers at a fixed address.
interface Svm {
    function createUint256(string calldata name) external pure returns (uint256);
    function createUint(uint256 bits, string calldata name) external pure returns (uint256);
    function createBytes32(string calldata name) external pure returns (bytes32);
    function createBytes(uint256 size, string calldata name) external pure returns (bytes memory);
    function createAddress(string calldata name) external pure returns (address);
    function createBool(string calldata name) external pure returns (bool);
    function createCalldata(string calldata contractName) external pure returns (bytes memory);
    function enableSymbolicStorage(address target) external;
    function snapshotStorage(address target) external pure returns (uint256);
}

/// What every theorem stands on. A theorem is a function that begins with `check_`: its arguments are all values there are, and a call
/// that reverts claims nothing.
abstract contract Proof is Base {
    Svm internal constant svm = Svm(address(uint160(uint256(keccak256("svm cheat code")))));
}
