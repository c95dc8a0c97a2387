// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {LocalToken} from "./LocalToken.sol";

/// @title USDG as a local chain has it: a used or cancelled authorization emits an event and returns without paying
contract LocalUSDG is LocalToken {
    event AuthorizationAlreadyUsed(address indexed authorizer, bytes32 indexed nonce);

    function name() public pure override returns (string memory) {
        return "Global Dollar";
    }

    function symbol() public pure override returns (string memory) {
        return "USDG";
    }

    function version() public pure override returns (string memory) {
        return "1";
    }

    function _onSpentAuthorization(address authorizer, bytes32 nonce) internal override {
        emit AuthorizationAlreadyUsed(authorizer, nonce);
    }
}
