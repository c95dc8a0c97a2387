// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

/// @title Reading a contract that may be missing, broken or hostile
/// @notice A failed read is an answer here ("there is no such round", "the oracle is paused"), so only the
///         contract being read may make it fail. Three things see to that:
///         - every read runs with exactly `GAS`, and the transaction reverts when that much is not there to give. A caller
///           who starves the call (only 63/64 of the gas left is passed on) gets a revert, never a "failed" read.
///           The call depth cannot be used either: 1024 frames that still hold `GAS` need more gas than any block has.
///         - no more than the words asked for are copied back, so a huge answer costs the reader nothing.
///         - an account without code succeeds with no data, which is short, which is a failure.
library GuardedRead {
    /// What one read may burn. A Chainlink proxy needs 10,000 to 30,000.
    uint256 internal constant GAS = 200_000;

    /// What must be left before a read: GAS * 64 / 63, a cold account, and room for the instructions in between.
    uint256 internal constant GAS_NEEDED = 210_000;

    /// @notice The caller did not send enough gas to read a feed; send at least `needed` more than was used so far.
    error ReadGasTooLow(uint256 left, uint256 needed);

    /// @notice Reads a function without arguments that returns one word.
    /// @return ok false when the read reverted or returned less than a word; `value` means nothing then
    function word(address target, bytes4 selector) internal view returns (bool ok, uint256 value) {
        (ok, value,,) = _read(target, selector, 0, 4, 32);
    }

    /// @notice Reads `latestRoundData()` or `getRoundData(argument)`: five words, three of which matter.
    /// @param argument the round id; ignored unless `inSize` is 36
    /// @param inSize 4 for a selector alone, 36 with the argument
    /// @return ok false when the read reverted or returned less than five words; the rest means nothing then
    function round(address target, bytes4 selector, uint256 argument, uint256 inSize)
        internal
        view
        returns (bool ok, uint256 id, int256 answer, uint256 updatedAt)
    {
        uint256 second;
        (ok, id, second, updatedAt) = _read(target, selector, argument, inSize, 160);
        answer = int256(second);
    }

    /// @notice The same for a feed whose rounds are states, such as a sequencer's: what it is, and since when.
    /// @return ok as for `round`
    /// @return id the first word
    /// @return answer the second
    /// @return startedAt the third
    function state(address target, bytes4 selector, uint256 argument, uint256 inSize)
        internal
        view
        returns (bool ok, uint256 id, int256 answer, uint256 startedAt)
    {
        uint256 second;
        (ok, id, second,) = _read(target, selector, argument, inSize, 160);
        answer = int256(second);
        // The answer is still where `_read` left it: nothing has been allocated since.
        assembly ("memory-safe") {
            startedAt := mload(add(mload(0x40), 64))
        }
    }

    function _read(address target, bytes4 selector, uint256 argument, uint256 inSize, uint256 outSize)
        private
        view
        returns (bool ok, uint256 first, uint256 second, uint256 fourth)
    {
        uint256 left = gasleft();
        if (left < GAS_NEEDED) revert ReadGasTooLow(left, GAS_NEEDED);
        assembly ("memory-safe") {
            let buffer := mload(0x40)
            mstore(buffer, selector)
            mstore(add(buffer, 4), argument)
            ok := staticcall(GAS, target, buffer, inSize, buffer, outSize)
            ok := and(ok, iszero(lt(returndatasize(), outSize)))
            first := mload(buffer)
            second := mload(add(buffer, 32))
            fourth := mload(add(buffer, 96))
        }
    }
}
