// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {HistoryReplay} from "./HistoryReplay.sol";

/// Replays the histories that have been written; tests/contracts/test_history.py writes them, runs this and counts what
/// it replayed. Four lanes, so that forge can run them on several cores.
contract HistoriesTest is HistoryReplay {
    event log_named_uint(string key, uint256 val);

    uint256 private constant LANES = 4;

    function testLane0() public {
        replayLane(0);
    }

    function testLane1() public {
        replayLane(1);
    }

    function testLane2() public {
        replayLane(2);
    }

    function testLane3() public {
        replayLane(3);
    }

    function replayLane(uint256 lane) private {
        if (bytes(folder()).length == 0) {
            vm.skip(true, "pytest tests/contracts/test_history.py writes histories and runs this");
        }
        uint256 replayed;
        for (uint256 file = lane; vm.exists(path(file)); file += LANES) {
            replayed += this.replayFile(file);
        }
        emit log_named_uint("histories replayed", replayed);
    }
}
