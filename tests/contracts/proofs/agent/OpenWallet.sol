// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {SettlementWallet} from "../../../../contracts/agent/SettlementWallet.sol";

/// The settlement wallet as it is, with its books in sight.
contract OpenWallet is SettlementWallet {
    constructor(
        address token_,
        address lister_,
        address resolver_,
        address guardian_,
        address owner_,
        address treasury_
    ) SettlementWallet(token_, lister_, resolver_, guardian_, owner_, treasury_) {}

    function owed() external view returns (uint256) {
        return uint256(_liabilities.openStakes) + _liabilities.unpaid + _liabilities.fees;
    }

    function book(bytes32 marketId)
        external
        view
        returns (MarketStatus status, uint256 staked, uint256 netPool, uint256 potCap)
    {
        Market storage m = _markets[marketId];
        return (m.status, m.staked, m.netPool, m.potCap);
    }

    function statusOf(uint256 stakeId) external view returns (StakeStatus) {
        return _stakes[stakeId].status;
    }

    function walletOf(uint256 stakeId) external view returns (address) {
        return _stakes[stakeId].wallet;
    }
}
