// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {LocalToken} from "./LocalToken.sol";

/// @title USDC as a local chain has it: a used or cancelled authorization reverts
contract LocalUSDC is LocalToken {
    error AuthorizationUsedOrCanceled(address authorizer, bytes32 nonce);

    function name() public pure override returns (string memory) {
        return "USD Coin";
    }

    function symbol() public pure override returns (string memory) {
        return "USDC";
    }

    function version() public pure override returns (string memory) {
        return "2";
    }

    function _onSpentAuthorization(address authorizer, bytes32 nonce) internal pure override {
        revert AuthorizationUsedOrCanceled(authorizer, nonce);
    }
}
