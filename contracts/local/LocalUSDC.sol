// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {LocalToken} from "./LocalToken.sol";

/// @title USDC as a local chain has it: a used or cancelled authorization reverts, and calls cost what the genuine one's cost
/// @notice On local chains it stands behind a LocalUSDCProxy. Moving money reads and writes as FiatToken 2.2 does: every account is
///         looked up by the blacklist first, by the check of its balance next, and by the write of its balance again.
contract LocalUSDC is LocalToken {
    /// The genuine token keeps its name in storage, and reads it for its EIP-712 domain. Nothing writes it here.
    string private _name;

    error AuthorizationUsedOrCanceled(address authorizer, bytes32 nonce);

    function name() public view override returns (string memory) {
        string memory stored = _name;
        return bytes(stored).length == 0 ? "USD Coin" : stored;
    }

    function symbol() public pure override returns (string memory) {
        return "USDC";
    }

    function version() public pure override returns (string memory) {
        return "2";
    }

    /// What the genuine code, by an older compiler, takes for a transfer beyond ours.
    uint256 private constant OLDER_COMPILER = 700;

    function _move(address from, address to, uint256 value) internal virtual override {
        if (paused) revert TokenPaused();
        if (to == address(0)) revert ZeroRecipient();
        _requireNotFrozen(from);
        _requireNotFrozen(to);
        uint256 balance = balanceOf(from);
        if (balance < value) revert InsufficientBalance(from, balance, value);
        _setBalance(from, balanceOf(from) - value);
        _setBalance(to, balanceOf(to) + value);
        emit Transfer(from, to, value);
        uint256 until = gasleft() - OLDER_COMPILER;
        while (gasleft() > until) {}
    }

    function _setBalance(address account, uint256 balance) private {
        _requireNotFrozen(account);
        _accounts[account] = balance;
    }

    function _requireNotFrozen(address account) private view {
        if (isFrozen(account)) revert AccountFrozen(account);
    }

    function _onSpentAuthorization(address authorizer, bytes32 nonce) internal pure override {
        revert AuthorizationUsedOrCanceled(authorizer, nonce);
    }
}
