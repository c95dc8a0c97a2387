// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

/// What a pauser can do to the contract it guards.
interface IPausable {
    function setPaused(bool paused) external;
}

/// @title Pausing is quick, resuming is not
/// @notice The guardian of one settler. Hot guardian keys can stop new stakes and do nothing else; only the owner (a Safe; two-step
///         transfer) resumes and appoints. A guardian can pause right after placing a bet.
interface IPauser {
    event GuardianSet(address indexed account, bool allowed);
    event PausedBy(address indexed account);
    event ResumedBy(address indexed account);

    error ZeroAddress(string what);
    error NotGuardian(address caller);
    error OwnershipCannotBeRenounced();

    /// @notice A guardian, or the owner.
    function pause() external;

    /// @notice The owner only.
    function resume() external;

    /// @notice The owner only.
    function setGuardian(address account, bool allowed) external;

    function isGuardian(address account) external view returns (bool);

    function target() external view returns (address);
}
