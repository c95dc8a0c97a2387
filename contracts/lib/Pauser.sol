// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {Ownable, Ownable2Step} from "@openzeppelin/contracts/access/Ownable2Step.sol";

import {IPausable, IPauser} from "./IPauser.sol";

/// @title The implementation; see IPauser for what it promises
contract Pauser is IPauser, Ownable2Step {
    address public immutable target;

    mapping(address account => bool) public isGuardian;

    /// @param target_ the settler whose guardian this is
    /// @param owner_ resumes and appoints; a Safe
    constructor(address target_, address owner_) Ownable(owner_) {
        if (target_ == address(0)) revert ZeroAddress("target");
        target = target_;
    }

    /// @inheritdoc IPauser
    function pause() external {
        if (!isGuardian[msg.sender] && msg.sender != owner()) revert NotGuardian(msg.sender);
        IPausable(target).setPaused(true);
        emit PausedBy(msg.sender);
    }

    /// @inheritdoc IPauser
    function resume() external onlyOwner {
        IPausable(target).setPaused(false);
        emit ResumedBy(msg.sender);
    }

    /// @inheritdoc IPauser
    function setGuardian(address account, bool allowed) external onlyOwner {
        if (account == address(0)) revert ZeroAddress("account");
        isGuardian[account] = allowed;
        emit GuardianSet(account, allowed);
    }

    /// @notice Without an owner a pause would last for ever.
    function renounceOwnership() public pure override {
        revert OwnershipCannotBeRenounced();
    }
}
