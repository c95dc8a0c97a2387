// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {SignatureChecker} from "@openzeppelin/contracts/utils/cryptography/SignatureChecker.sol";
import {IERC3009} from "../lib/IERC3009.sol";

/// @title A stablecoin for local chains and tests, faithful where it can hurt
/// @notice ERC-20 and EIP-3009 with a freeze list and a global pause, as the real stablecoins have. What a real issuer
/// may do, anyone may do here: mint, freeze, pause. Never deploy it where it could be mistaken for money.
/// @dev A genesis file places the runtime code at the real token's address, so there is no constructor, no immutable,
/// and the EIP-712 domain is computed on each use.
abstract contract LocalToken is IERC3009 {
    // ---------------------------------------------------------------- Errors

    error InsufficientBalance(address account, uint256 balance, uint256 needed);
    error InsufficientAllowance(address owner, address spender, uint256 allowance, uint256 needed);
    error AccountFrozen(address account);
    error TokenPaused();
    error ZeroRecipient();
    error SupplyOverflow(uint256 supply);
    error CallerIsNotPayee(address caller, address payee);
    error AuthorizationNotYetValid(uint256 validAfter, uint256 timestamp);
    error AuthorizationExpired(uint256 validBefore, uint256 timestamp);
    error InvalidSignature(address signer);

    // ---------------------------------------------------------------- Events

    event FrozenSet(address indexed account, bool frozen);
    event PausedSet(bool paused);

    // ---------------------------------------------------------------- Constants

    uint8 public constant decimals = 6;

    bytes32 public constant RECEIVE_WITH_AUTHORIZATION_TYPEHASH = keccak256(
        "ReceiveWithAuthorization(address from,address to,uint256 value,uint256 validAfter,uint256 validBefore,bytes32 nonce)"
    );
    bytes32 public constant TRANSFER_WITH_AUTHORIZATION_TYPEHASH = keccak256(
        "TransferWithAuthorization(address from,address to,uint256 value,uint256 validAfter,uint256 validBefore,bytes32 nonce)"
    );
    bytes32 public constant CANCEL_AUTHORIZATION_TYPEHASH =
        keccak256("CancelAuthorization(address authorizer,bytes32 nonce)");

    bytes32 private constant DOMAIN_TYPEHASH =
        keccak256("EIP712Domain(string name,string version,uint256 chainId,address verifyingContract)");

    /// The top bit of a balance marks a frozen account, as in USDC 2.2; the supply stays below it.
    uint256 internal constant FROZEN = 1 << 255;

    // ---------------------------------------------------------------- Storage

    mapping(address account => uint256 balanceAndFrozen) internal _accounts;
    mapping(address owner => mapping(address spender => uint256 value)) public allowance;
    mapping(address authorizer => mapping(bytes32 nonce => bool spent)) public authorizationState;
    uint256 public totalSupply;
    bool public paused;

    // ---------------------------------------------------------------- Identity

    function name() public view virtual returns (string memory);
    function symbol() public pure virtual returns (string memory);
    function version() public pure virtual returns (string memory);

    function DOMAIN_SEPARATOR() public view returns (bytes32) {
        return keccak256(
            abi.encode(
                DOMAIN_TYPEHASH, keccak256(bytes(name())), keccak256(bytes(version())), block.chainid, address(this)
            )
        );
    }

    // ---------------------------------------------------------------- The issuer's powers, open to all

    function mint(address to, uint256 value) external {
        if (to == address(0)) revert ZeroRecipient();
        uint256 supply = totalSupply;
        if (value >= FROZEN - supply) revert SupplyOverflow(supply);
        totalSupply = supply + value;
        _accounts[to] += value;
        emit Transfer(address(0), to, value);
    }

    function freeze(address account) external {
        _accounts[account] |= FROZEN;
        emit FrozenSet(account, true);
    }

    function unfreeze(address account) external {
        _accounts[account] &= ~FROZEN;
        emit FrozenSet(account, false);
    }

    function isFrozen(address account) public view returns (bool) {
        return _accounts[account] & FROZEN != 0;
    }

    function setPaused(bool paused_) external {
        paused = paused_;
        emit PausedSet(paused_);
    }

    // ---------------------------------------------------------------- ERC-20

    function balanceOf(address account) public view returns (uint256) {
        return _accounts[account] & ~FROZEN;
    }

    function approve(address spender, uint256 value) external returns (bool) {
        allowance[msg.sender][spender] = value;
        emit Approval(msg.sender, spender, value);
        return true;
    }

    function transfer(address to, uint256 value) external virtual returns (bool) {
        _move(msg.sender, to, value);
        return true;
    }

    function transferFrom(address from, address to, uint256 value) external virtual returns (bool) {
        uint256 allowed = allowance[from][msg.sender];
        if (allowed != type(uint256).max) {
            if (allowed < value) revert InsufficientAllowance(from, msg.sender, allowed, value);
            allowance[from][msg.sender] = allowed - value;
        }
        _move(from, to, value);
        return true;
    }

    function _move(address from, address to, uint256 value) internal virtual {
        if (paused) revert TokenPaused();
        if (to == address(0)) revert ZeroRecipient();
        uint256 source = _accounts[from];
        if (source & FROZEN != 0) revert AccountFrozen(from);
        if (source < value) revert InsufficientBalance(from, source, value);
        // Written before the target is read: they may be the same account.
        _accounts[from] = source - value;
        uint256 target = _accounts[to];
        if (target & FROZEN != 0) revert AccountFrozen(to);
        _accounts[to] = target + value;
        emit Transfer(from, to, value);
    }

    // ---------------------------------------------------------------- EIP-3009

    function receiveWithAuthorization(
        address from,
        address to,
        uint256 value,
        uint256 validAfter,
        uint256 validBefore,
        bytes32 nonce,
        uint8 v,
        bytes32 r,
        bytes32 s
    ) external {
        if (msg.sender != to) revert CallerIsNotPayee(msg.sender, to);
        bytes32 digest = _digest(RECEIVE_WITH_AUTHORIZATION_TYPEHASH, from, to, value, validAfter, validBefore, nonce);
        _authorized(from, to, value, validAfter, validBefore, nonce, digest, abi.encodePacked(r, s, v));
    }

    function receiveWithAuthorization(
        address from,
        address to,
        uint256 value,
        uint256 validAfter,
        uint256 validBefore,
        bytes32 nonce,
        bytes calldata signature
    ) external {
        if (msg.sender != to) revert CallerIsNotPayee(msg.sender, to);
        bytes32 digest = _digest(RECEIVE_WITH_AUTHORIZATION_TYPEHASH, from, to, value, validAfter, validBefore, nonce);
        _authorized(from, to, value, validAfter, validBefore, nonce, digest, signature);
    }

    function transferWithAuthorization(
        address from,
        address to,
        uint256 value,
        uint256 validAfter,
        uint256 validBefore,
        bytes32 nonce,
        uint8 v,
        bytes32 r,
        bytes32 s
    ) external {
        bytes32 digest = _digest(TRANSFER_WITH_AUTHORIZATION_TYPEHASH, from, to, value, validAfter, validBefore, nonce);
        _authorized(from, to, value, validAfter, validBefore, nonce, digest, abi.encodePacked(r, s, v));
    }

    function transferWithAuthorization(
        address from,
        address to,
        uint256 value,
        uint256 validAfter,
        uint256 validBefore,
        bytes32 nonce,
        bytes calldata signature
    ) external {
        bytes32 digest = _digest(TRANSFER_WITH_AUTHORIZATION_TYPEHASH, from, to, value, validAfter, validBefore, nonce);
        _authorized(from, to, value, validAfter, validBefore, nonce, digest, signature);
    }

    /// @notice Spends `nonce` without paying.
    function cancelAuthorization(address authorizer, bytes32 nonce, uint8 v, bytes32 r, bytes32 s) external {
        _cancel(authorizer, nonce, abi.encodePacked(r, s, v));
    }

    /// @notice As above; `signature` may also be one that the contract at `authorizer` accepts (ERC-1271).
    function cancelAuthorization(address authorizer, bytes32 nonce, bytes calldata signature) external {
        _cancel(authorizer, nonce, signature);
    }

    function _cancel(address authorizer, bytes32 nonce, bytes memory signature) private {
        if (paused) revert TokenPaused();
        if (authorizationState[authorizer][nonce]) {
            _onSpentAuthorization(authorizer, nonce);
        } else {
            bytes32 structHash = keccak256(abi.encode(CANCEL_AUTHORIZATION_TYPEHASH, authorizer, nonce));
            _requireSigned(authorizer, _typed(structHash), signature);
            authorizationState[authorizer][nonce] = true;
            emit AuthorizationCanceled(authorizer, nonce);
        }
    }

    function _authorized(
        address from,
        address to,
        uint256 value,
        uint256 validAfter,
        uint256 validBefore,
        bytes32 nonce,
        bytes32 digest,
        bytes memory signature
    ) private {
        if (paused) revert TokenPaused();
        if (block.timestamp <= validAfter) revert AuthorizationNotYetValid(validAfter, block.timestamp);
        if (block.timestamp >= validBefore) revert AuthorizationExpired(validBefore, block.timestamp);
        if (authorizationState[from][nonce]) {
            _onSpentAuthorization(from, nonce);
        } else {
            _requireSigned(from, digest, signature);
            authorizationState[from][nonce] = true;
            emit AuthorizationUsed(from, nonce);
            _move(from, to, value);
        }
    }

    /// What the token does when an authorization was used or cancelled before: reverts, or returns and pays nothing.
    function _onSpentAuthorization(address authorizer, bytes32 nonce) internal virtual;

    function _requireSigned(address signer, bytes32 digest, bytes memory signature) private view {
        if (!SignatureChecker.isValidSignatureNow(signer, digest, signature)) revert InvalidSignature(signer);
    }

    function _digest(
        bytes32 typeHash,
        address from,
        address to,
        uint256 value,
        uint256 validAfter,
        uint256 validBefore,
        bytes32 nonce
    ) private view returns (bytes32) {
        return _typed(keccak256(abi.encode(typeHash, from, to, value, validAfter, validBefore, nonce)));
    }

    function _typed(bytes32 structHash) private view returns (bytes32) {
        return keccak256(abi.encodePacked(hex"1901", DOMAIN_SEPARATOR(), structHash));
    }
}
