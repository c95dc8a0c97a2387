// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {LocalUSDC} from "../../../../contracts/local/LocalUSDC.sol";

interface ITokenHook {
    function onMove() external;
}

/// A token that calls one account whenever it moves to or from it, as ERC-777 does.
contract HookToken is LocalUSDC {
    mapping(address account => bool) public hooked;

    function setHooked(address account, bool hooked_) external {
        hooked[account] = hooked_;
    }

    function _move(address from, address to, uint256 value) internal override {
        super._move(from, to, value);
        if (hooked[from]) ITokenHook(from).onMove();
        if (hooked[to]) ITokenHook(to).onMove();
    }
}

/// A token that lies or not, as configured.
contract LyingToken is LocalUSDC {
    enum Mode {
        Honest,
        Silent, // says yes, moves nothing
        Less, // moves one unit less
        More, // moves one unit more
        Refuses, // says no, moves nothing
        BurnsGas,
        Dear // honest, and needs 400,000 gas for it
    }

    Mode public mode;

    function setMode(Mode mode_) external {
        mode = mode_;
    }

    /// Money vanishes, as by an issuer's seizure.
    function seize(address account, uint256 value) external {
        super._move(account, address(0xDEAD), value);
    }

    function transfer(address to, uint256 value) external override returns (bool) {
        if (mode == Mode.Refuses) return false;
        _move(msg.sender, to, value);
        return true;
    }

    function _move(address from, address to, uint256 value) internal override {
        if (mode == Mode.Silent) return;
        if (mode == Mode.BurnsGas) while (gasleft() > 100) {}
        if (mode == Mode.Dear) burn(400_000);
        if (mode == Mode.Less) value -= 1;
        if (mode == Mode.More) value += 1;
        super._move(from, to, value);
    }

    function burn(uint256 amount) private view {
        uint256 until = gasleft() - amount;
        while (gasleft() > until) {}
    }
}

/// An account that calls `target` whenever the token calls it, and remembers how that ended.
contract Reenterer is ITokenHook {
    address public target;
    bytes public data;
    uint256 public calls;
    bool public succeeded;
    bool private busy;
    bytes public answer;

    function set(address target_, bytes calldata data_) external {
        target = target_;
        data = data_;
    }

    /// What its own call moves does not call again.
    function onMove() external {
        if (target == address(0) || busy) return;
        busy = true;
        ++calls;
        (succeeded, answer) = target.call(data);
        busy = false;
    }
}

/// A contract wallet that accepts what its key signed (ERC-1271).
contract ContractWallet {
    address private immutable key;

    constructor(address key_) {
        key = key_;
    }

    function isValidSignature(bytes32 hash, bytes calldata signature) external view returns (bytes4) {
        (bytes32 r, bytes32 s, uint8 v) = (bytes32(signature[0:32]), bytes32(signature[32:64]), uint8(signature[64]));
        return ecrecover(hash, v, r, s) == key ? this.isValidSignature.selector : bytes4(0xffffffff);
    }
}
