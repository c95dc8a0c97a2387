// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

/// @title What our contracts ask of the stablecoin they hold
/// @notice The part of ERC-20 and of EIP-3009 that USDC and USDG share; amounts are in token units (6 decimals).
/// @dev Warning: the return of a call with an authorization proves nothing. Some tokens revert on a used or cancelled
/// authorization, others emit an event and return without paying; a caller that pulls money must compare balances.
interface IERC3009 {
    event Transfer(address indexed from, address indexed to, uint256 value);
    event Approval(address indexed owner, address indexed spender, uint256 value);
    event AuthorizationUsed(address indexed authorizer, bytes32 indexed nonce);
    event AuthorizationCanceled(address indexed authorizer, bytes32 indexed nonce);

    function balanceOf(address account) external view returns (uint256);
    function allowance(address owner, address spender) external view returns (uint256);
    function approve(address spender, uint256 value) external returns (bool);
    function transfer(address to, uint256 value) external returns (bool);
    function transferFrom(address from, address to, uint256 value) external returns (bool);

    /// @notice True once `nonce` of `authorizer` was used or cancelled; it can never pay again.
    function authorizationState(address authorizer, bytes32 nonce) external view returns (bool);

    /// @notice Pays `to`, who must be the caller. Valid while `validAfter < block.timestamp < validBefore`.
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
    ) external;

    /// @notice As above; `signature` may also be one that the contract at `from` accepts (ERC-1271).
    function receiveWithAuthorization(
        address from,
        address to,
        uint256 value,
        uint256 validAfter,
        uint256 validBefore,
        bytes32 nonce,
        bytes calldata signature
    ) external;

    /// @notice Pays `to`; anyone may call. Valid while `validAfter < block.timestamp < validBefore`.
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
    ) external;

    /// @notice As above; `signature` may also be one that the contract at `from` accepts (ERC-1271).
    function transferWithAuthorization(
        address from,
        address to,
        uint256 value,
        uint256 validAfter,
        uint256 validBefore,
        bytes32 nonce,
        bytes calldata signature
    ) external;
}
