// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {RoundFinder} from "../../../../contracts/lib/RoundFinder.sol";

/// The library behind external calls, so that a test can choose the gas of each.
contract FinderProbe {
    function find(address feed, uint256 time) external view returns (RoundFinder.Round memory round, uint8 problem) {
        return RoundFinder.inEffectAt(feed, time);
    }

    function prove(address feed, uint80 id, uint256 time)
        external
        view
        returns (bool ok, RoundFinder.Round memory round)
    {
        return RoundFinder.proveInEffectAt(feed, id, time);
    }

    function read(address feed, uint80 id) external view returns (bool present, RoundFinder.Round memory round) {
        return RoundFinder.readRound(feed, id);
    }
}

/// The settler as the resolver sees it: settles each market once, and remembers how.
contract RecordingSettler {
    error AlreadySettled(uint256 marketId);

    mapping(uint256 marketId => uint8) public settledAs; // 0 not, 1 UP, 2 DOWN, 3 void
    address public caller;

    function resolve(uint256 marketId, uint8 winner) external {
        _settle(marketId, winner + 1);
    }

    function voidMarket(uint256 marketId) external {
        _settle(marketId, 3);
    }

    function _settle(uint256 marketId, uint8 how) private {
        if (settledAs[marketId] != 0) revert AlreadySettled(marketId);
        settledAs[marketId] = how;
        caller = msg.sender;
    }
}

/// A feed that can do to one round, to the latest round or to all rounds what no decent feed does.
contract HostileFeed {
    enum Trick {
        None,
        Revert,
        RevertHuge, // as much revert data as the gas pays for
        Short, // 159 bytes
        Empty,
        Huge, // as much data after the five words
        BurnAll,
        Heavy // honest, for 150,000 gas
    }

    uint80 public latest;
    Trick public latestTrick;
    mapping(uint80 id => Trick) public tricks;
    mapping(uint80 id => uint256) public updatedAts;
    uint256 public endless; // not 0: every round of a phase exists, written at this time

    function setLatest(uint80 id, Trick trick) external {
        (latest, latestTrick) = (id, trick);
    }

    function setRound(uint80 id, uint256 updatedAt, Trick trick) external {
        (updatedAts[id], tricks[id]) = (updatedAt, trick);
    }

    function setEndless(uint256 updatedAt) external {
        endless = updatedAt;
    }

    function latestRoundData() external view {
        _answer(latest, latestTrick);
    }

    function getRoundData(uint80 id) external view {
        _answer(id, tricks[id]);
    }

    function _answer(uint80 id, Trick trick) private view {
        uint256 updatedAt = endless == 0 ? updatedAts[id] : endless;
        if (trick == Trick.Revert) revert("no");
        if (trick == Trick.Heavy) _burn(150_000);
        if (trick == Trick.BurnAll) _burn(type(uint256).max);
        uint256 size = 160;
        if (trick == Trick.Short) size = 159;
        if (trick == Trick.Empty) size = 0;
        if (trick == Trick.Huge || trick == Trick.RevertHuge) size = 40_000; // as much memory as a read's gas pays for
        bool fails = trick == Trick.RevertHuge;
        assembly {
            let p := mload(0x40)
            mstore(p, id)
            mstore(add(p, 32), 7)
            mstore(add(p, 64), updatedAt)
            mstore(add(p, 96), updatedAt)
            mstore(add(p, 128), id)
            if fails { revert(p, size) }
            return(p, size)
        }
    }

    function _burn(uint256 amount) private view {
        uint256 from = gasleft();
        while (from - gasleft() < amount) {}
    }
}

/// A stock token whose oraclePaused() answers oddly.
contract OddToken {
    bytes private _answer;
    bool private _reverts;
    bool private _heavy;

    function set(bytes calldata answer, bool reverts, bool heavy) external {
        (_answer, _reverts, _heavy) = (answer, reverts, heavy);
    }

    fallback() external {
        bytes memory answer = _answer;
        bool reverts = _reverts;
        if (_heavy) {
            uint256 from = gasleft();
            while (from - gasleft() < 150_000) {}
        }
        assembly {
            if reverts { revert(add(answer, 32), mload(answer)) }
            return(add(answer, 32), mload(answer))
        }
    }
}
