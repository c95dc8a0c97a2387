// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

/// @title The part of a tokenized stock that markets look at, for local chains
/// @notice Issuers pause a stock's oracle around splits and other corporate actions. Anyone may flip the switch here. Nothing is
///         kept in code, so the runtime bytecode can be put straight into a genesis file.
contract LocalStockToken {
    event OraclePausedSet(bool paused);

    string public symbol;
    bool public oraclePaused;

    function setSymbol(string calldata ticker) external {
        symbol = ticker;
    }

    function setOraclePaused(bool paused) external {
        oraclePaused = paused;
        emit OraclePausedSet(paused);
    }
}
