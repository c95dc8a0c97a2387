// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {ReentrancyGuardTransient} from "@openzeppelin/contracts/utils/ReentrancyGuardTransient.sol";

import {IERC3009} from "../lib/IERC3009.sol";
import {ISettlementWallet} from "./ISettlementWallet.sol";
import {SettlementBooks} from "./SettlementBooks.sol";

/// @title How money leaves: payouts, refunds and fees, each to the address the books name
/// @dev Only this contract moves money out, and only SettlementWallet moves it in. A payout leaves the books in the call that pays it.
abstract contract SettlementPayments is SettlementBooks, ReentrancyGuardTransient {
    /// What one payout of a batch may burn: a transfer of the real USDC to a fresh account needs about 60,000. Should a token ever
    /// need more, `claim` gives it all there is.
    uint256 private constant PAY_GAS = 150_000;
    /// PAY_GAS * 64 / 63 and the instructions around the call.
    uint256 private constant PAY_GAS_NEEDED = 160_000;

    address public immutable token;
    address public immutable treasury;

    /// @param token_ what stakes are made in and paid in
    /// @param treasury_ gets fees and dust, nothing else
    constructor(address token_, address treasury_) {
        if (token_ == address(0)) revert ZeroAddress("token");
        if (treasury_ == address(0)) revert ZeroAddress("treasury");
        token = token_;
        treasury = treasury_;
    }

    /// @inheritdoc ISettlementWallet
    function pay(bytes32 marketId, uint256[] calldata stakeIds) external nonReentrant returns (uint256 paid) {
        Market storage m = _known(marketId);
        Settlement memory t = _settlement(marketId, m);
        uint256 before = _balance();
        for (uint256 k; k < stakeIds.length; ++k) {
            (, bool ok) = _pay(t, stakeIds[k], true);
            if (ok) ++paid;
        }
        if (paid != 0) _close(m, t, before);
    }

    /// @inheritdoc ISettlementWallet
    function claim(uint256 stakeId) external nonReentrant {
        (bytes32 marketId, Market storage m) = _marketOfStake(stakeId);
        Settlement memory t = _settlement(marketId, m);
        uint256 before = _balance();
        (uint256 owed, bool ok) = _pay(t, stakeId, false);
        if (owed == 0) revert NothingOwed(stakeId);
        if (!ok) revert PaymentFailed(_stakes[stakeId].wallet, owed);
        _close(m, t, before);
    }

    /// @inheritdoc ISettlementWallet
    function sweepFees() external nonReentrant {
        uint256 fees = _liabilities.fees;
        if (fees == 0) revert NoFees();
        _liabilities.fees = 0;
        uint256 before = _balance();
        if (!_send(treasury, fees, false)) revert PaymentFailed(treasury, fees);
        _requireSent(before, fees);
        emit FeesSwept(fees);
    }

    /// Pays what a stake is owed now, if anything. It is marked as paid before the money goes, and the mark is undone if the transfer fails.
    function _pay(Settlement memory t, uint256 id, bool capped) private returns (uint256 owed, bool ok) {
        Stake storage stored = _stakes[id];
        Stake memory s = stored;
        bool refund;
        (owed, refund) = _owed(t, id, s);
        if (owed == 0) return (0, false);
        stored.status = refund ? StakeStatus.Refunded : StakeStatus.Paid;
        ok = _send(s.wallet, owed, capped);
        if (ok) {
            unchecked {
                t.sent += owed; // parts of a pot
                if (!refund) (t.paidShares, t.paidOut) = (t.paidShares + s.shares, t.paidOut + owed);
            }
            emit Paid(t.marketId, id, s.wallet, owed, refund);
        } else {
            stored.status = s.status;
            emit PayoutFailed(t.marketId, id, s.wallet, owed);
        }
    }

    /// Books what a call has paid. Once every winner is paid, what rounding down left over becomes fees.
    function _close(Market storage m, Settlement memory t, uint256 before) private {
        _requireSent(before, t.sent);
        uint256 gone = t.sent;
        if (t.paidShares != 0) {
            uint256 unpaidShares = m.unpaidShares - t.paidShares;
            uint256 paidOut = m.paidOut + t.paidOut;
            (m.unpaidShares, m.paidOut) = (uint128(unpaidShares), uint128(paidOut));
            if (unpaidShares == 0) {
                uint256 dust = t.pool.net - paidOut;
                gone += dust;
                _liabilities.fees += uint80(dust);
            }
        }
        _liabilities.unpaid -= uint80(gone);
    }

    /// In a batch the gas is fixed, so that no receiver can burn what the next one needs, and must be there, so that a starved transfer
    /// never looks like a refused one. A single payment gets all the gas there is.
    /// @return ok what the token answered; _requireSent checks that it is true
    function _send(address to, uint256 amount, bool capped) private returns (bool ok) {
        uint256 gasLimit = gasleft();
        if (capped) {
            if (gasLimit < PAY_GAS_NEEDED) revert PayGasTooLow(gasLimit, PAY_GAS_NEEDED);
            gasLimit = PAY_GAS;
        }
        address token_ = token;
        bytes4 selector = IERC3009.transfer.selector;
        // transfer(to, amount). No more than a word of what comes back is copied, so it cannot be made expensive.
        assembly ("memory-safe") {
            let data := mload(0x40)
            mstore(data, selector)
            mstore(add(data, 4), shr(96, shl(96, to))) // nothing is promised about the bits above an address
            mstore(add(data, 36), amount)
            mstore(0, 1) // a token may answer nothing
            ok := call(gasLimit, token_, 0, data, 68, 0, 32)
            ok := and(ok, eq(mload(0), 1))
        }
    }

    /// Checks that exactly the amount sent has left, once for a batch, because asking after each payment costs as much as a
    /// tenth of it. If not, the whole batch reverts and everything in it stays owed.
    function _requireSent(uint256 before, uint256 sent) private view {
        uint256 left = _balance();
        if (left + sent != before) revert WrongAmountSent(sent, before > left ? before - left : 0);
    }

    function _balance() internal view returns (uint256) {
        return IERC3009(token).balanceOf(address(this));
    }
}
