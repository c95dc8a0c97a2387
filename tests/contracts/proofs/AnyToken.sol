// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {Svm} from "./Proof.sol";

/// A token of which nothing is assumed but that it does not call back: a transfer may revert, say anything, and leave the balance of
/// the one contract that holds it at anything. What was asked of it last is kept.
contract AnyToken {
    Svm private constant svm = Svm(address(uint160(uint256(keccak256("svm cheat code")))));

    uint256 public held;
    uint256 public transfers;
    address public lastTo;
    uint256 public lastAmount;

    constructor() {
        held = svm.createUint256("held");
    }

    function balanceOf(address) external view returns (uint256) {
        return held;
    }

    function transfer(address to, uint256 amount) external returns (bool) {
        (lastTo, lastAmount) = (to, amount);
        ++transfers;
        return _anything();
    }

    function transferFrom(address, address, uint256) external returns (bool) {
        return _anything();
    }

    function receiveWithAuthorization(address, address, uint256, uint256, uint256, bytes32, bytes calldata) external {
        _anything();
    }

    function transferWithAuthorization(address, address, uint256, uint256, uint256, bytes32, bytes calldata) external {
        _anything();
    }

    function authorizationState(address, bytes32) external view returns (bool) {
        return svm.createBool("authorization used");
    }

    function DOMAIN_SEPARATOR() external view returns (bytes32) {
        return svm.createBytes32("domain");
    }

    function _anything() private returns (bool) {
        require(svm.createBool("refuses"));
        held = svm.createUint256("held after");
        return svm.createBool("answer");
    }
}
