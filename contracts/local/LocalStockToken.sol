// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

/// @title The part of a tokenized stock that markets look at, for local chains
/// @notice Issuers pause a stock's oracle around splits and other corporate actions. Anyone may flip the switch here. Nothing is
///         kept in code, so the runtime bytecode can be put straight into a genesis file.
contract LocalStockToken {
    event OraclePausedSet(bool paused);
    event MultiplierSet(uint256 multiplier);

    string public symbol;
    bool public oraclePaused;
    uint256 private _multiplier; // 0: one, so that untouched storage has had no split

    function setSymbol(string calldata ticker) external {
        symbol = ticker;
    }

    function setOraclePaused(bool paused) external {
        oraclePaused = paused;
        emit OraclePausedSet(paused);
    }

    /// @notice A split or a dividend: `multiplier` shares a token, times 1e18.
    function setMultiplier(uint256 multiplier) external {
        _multiplier = multiplier;
        emit MultiplierSet(multiplier);
    }

    function uiMultiplier() external view returns (uint256) {
        return _multiplier == 0 ? 1e18 : _multiplier;
    }
}
