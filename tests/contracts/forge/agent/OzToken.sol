// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {ERC20} from "@openzeppelin/contracts/token/ERC20/ERC20.sol";
import {EIP712} from "@openzeppelin/contracts/utils/cryptography/EIP712.sol";
import {ERC3009} from "@openzeppelin/contracts/token/ERC20/extensions/draft-ERC3009.sol";
import {
    ERC20TransferAuthorization
} from "@openzeppelin/contracts/token/ERC20/extensions/ERC20TransferAuthorization.sol";

/// An EIP-3009 token that no one here wrote. OpenZeppelin's `bytes` form comes with sequential nonces, which x402 does not have;
/// its own random nonces are put back under it. The freeze list is the least that failing payees need.
contract OzToken is ERC20TransferAuthorization {
    mapping(address account => bool) public isFrozen;

    error AccountFrozen(address account);

    constructor() ERC20("Second Dollar", "USD2") EIP712("Second Dollar", "1") {}

    function decimals() public pure override returns (uint8) {
        return 6;
    }

    function DOMAIN_SEPARATOR() external view returns (bytes32) {
        return _domainSeparatorV4();
    }

    function mint(address to, uint256 value) external {
        _mint(to, value);
    }

    function freeze(address account) external {
        isFrozen[account] = true;
    }

    function unfreeze(address account) external {
        isFrozen[account] = false;
    }

    function authorizationState(address authorizer, bytes32 nonce) public view override returns (bool) {
        return ERC3009.authorizationState(authorizer, nonce);
    }

    function _consumeNonce(address authorizer, bytes32 nonce) internal override {
        ERC3009._consumeNonce(authorizer, nonce);
    }

    function _update(address from, address to, uint256 value) internal override {
        if (isFrozen[from]) revert AccountFrozen(from);
        if (isFrozen[to]) revert AccountFrozen(to);
        super._update(from, to, value);
    }
}
