// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

/// @title The proxy in front of LocalUSDC, because the genuine USDC stands behind one
/// @notice Every call reads two slots and calls on into another account, as the genuine one's does, so that gas measured on a local chain
///         is gas of the live one. A genesis file places its runtime code at the token's address and the implementation's
///         address in IMPLEMENTATION_SLOT. It cannot be changed: nothing here writes.
contract LocalUSDCProxy {
    /// The genuine proxy's slots, from before EIP-1967.
    bytes32 private constant IMPLEMENTATION_SLOT = keccak256("org.zeppelinos.proxy.implementation");
    bytes32 private constant ADMIN_SLOT = keccak256("org.zeppelinos.proxy.admin");

    /// @notice The genuine proxy answers its admin nothing but administration.
    error CalledByAdmin();

    fallback() external payable {
        bytes32 implementationSlot = IMPLEMENTATION_SLOT;
        bytes32 adminSlot = ADMIN_SLOT;
        address admin;
        assembly ("memory-safe") {
            admin := sload(adminSlot)
        }
        if (msg.sender == admin) revert CalledByAdmin();
        // Not memory-safe, and need not be: nothing of Solidity's runs after it.
        assembly {
            calldatacopy(0, 0, calldatasize())
            let ok := delegatecall(gas(), sload(implementationSlot), 0, calldatasize(), 0, 0)
            returndatacopy(0, 0, returndatasize())
            if iszero(ok) { revert(0, returndatasize()) }
            return(0, returndatasize())
        }
    }
}
