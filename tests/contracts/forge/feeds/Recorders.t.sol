// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {IPoolFeed} from "../../../../contracts/feeds/IPoolFeed.sol";
import {PoolFeed} from "../../../../contracts/feeds/PoolFeed.sol";
import {Coin, VmArtifacts} from "./Pools.sol";
import {Trader} from "./Trader.sol";

/// Two feeds of the same pools: one recorded by an honest keeper, each grid time as soon as it is over and in order; the other by a crowd that
/// races, skips, repeats, goes backwards and comes late or never. 2,000 schedules in every run, 10,000 with VPM_TEST_LONG=1.
contract RecordersTest is Trader {
    uint256 private constant T0 = 1_800_000_000;
    uint32 private constant WINDOW = 60;
    uint32 private constant STEP = 20;
    uint256 private constant AGE = 3 * STEP;

    PoolFeed private honest;
    PoolFeed private crowd;
    uint256 private _next; // the grid time that the honest keeper records next
    mapping(uint256 time => bytes32) private _said; // what the crowd's feed answered for a moment, once it did
    uint256[] private _asked;
    mapping(string what => uint256) private _seen;

    function setUp() public {
        vm.warp(T0);
        newFactory();
        (Coin token, Coin weth) = coins(18, 18, false);
        (, Coin usdc) = coins(18, 6, true);
        addTraded(newPool(token, weth, 80_000), 80_000);
        int24 start = address(weth) < address(usdc) ? int24(-196_000) : int24(196_000);
        addTraded(newPool(weth, usdc, start), start);
        IPoolFeed.Config memory c = config(token, usdc, 1e27, traded[0].pool, WINDOW, STEP);
        c = configOfTwo(c, traded[1].pool);
        honest = new PoolFeed(c);
        crowd = new PoolFeed(c);
        _next = T0 + WINDOW + STEP - (T0 + WINDOW) % STEP;
    }

    function test_anyRecordersMakeTheReadingsOfOneHonestOne() public {
        VmArtifacts(address(vm)).pauseGasMetering(); // it is more than a test may use
        uint256 schedules = VmArtifacts(address(vm)).envOr("VPM_TEST_LONG", uint256(0)) == 0 ? 2_000 : 10_000;
        for (uint256 k; k < schedules; ++k) {
            this.schedule(k);
        }
        string[4] memory each =
            ["recorded by the crowd", "still to be recorded", "an older one stands in", "no one came in time"];
        for (uint256 k; k < 4; ++k) {
            vm.assertTrue(_seen[each[k]] > schedules / 20, each[k]);
        }
    }

    /// Small, so that much is forgotten.
    function mostKept() internal pure override returns (uint256) {
        return 12;
    }

    /// A few blocks of trades with recorders in between, in calls of their own so that memory is given back.
    function schedule(uint256 k) external {
        for (uint256 n; n < 2; ++n) {
            uint256 seed = random(k, "schedule") + n;
            vm.warp(block.timestamp + pause(seed));
            keep();
            trade(seed);
            record(seed);
        }
        compare(random(k, "asked"));
    }

    /// At the first block after each grid time, before anything else happens in it.
    function keep() private {
        if (_next >= block.timestamp) return;
        uint256 count = (block.timestamp - 1 - _next) / STEP + 1;
        honest.record(times(_next, count, STEP));
        _next += count * STEP;
    }

    /// Some recorders of this block, each with a separate list.
    function record(uint256 seed) private {
        for (uint256 n = random(seed, "recorders") % 3; n != 0; --n) {
            uint256 r = random(seed + n, "list");
            uint64[] memory list = new uint64[](r % 5);
            for (uint256 j; j < list.length; ++j) {
                uint256 back = (r >> (8 + 8 * j)) % (j == 4 ? 60 : 9); // in steps; the same one now and then
                list[j] = uint64((block.timestamp - 1) - (block.timestamp - 1) % STEP - back * STEP);
            }
            _seen["recorded by the crowd"] += crowd.record(list);
        }
    }

    function compare(uint256 r) private {
        uint256 latest = block.timestamp - 1;
        for (uint256 back; back < 12; ++back) {
            uint64 time = uint64(latest - latest % STEP - back * STEP);
            IPoolFeed.Quality quality = crowd.qualityOf(time);
            if (quality == IPoolFeed.Quality.Unrecorded) continue;
            // The honest keeper comes in time wherever anyone could.
            vm.assertEq(uint8(quality), uint8(honest.qualityOf(time)));
            (, int256 a,,,) = crowd.getRoundData(uint80(time / STEP));
            (, int256 b,,,) = honest.getRoundData(uint80(time / STEP));
            vm.assertEq(a, b);
        }
        ask(latest - r % 2_000);
        if (_asked.length != 0) ask(_asked[(r >> 64) % _asked.length]);
    }

    /// Nothing is answered for a moment but for ever, and never another thing than the honest keeper's feed, unless no one came in time.
    function ask(uint256 time) private {
        if (time < T0 + 400) return;
        try crowd.readingAt(time, AGE) returns (uint80 round, int256 answer, uint64 gridTime) {
            bytes32 says = keccak256(abi.encode(round, answer, gridTime));
            if (_said[time] == 0) {
                _said[time] = says;
                _asked.push(time);
            }
            vm.assertEq(_said[time], says);
            if (gridTime == time - time % STEP) return same(time, round, answer, gridTime);
            // It was forgotten, so it can never be recorded.
            ++_seen[round == 0 ? "no one came in time" : "an older one stands in"];
            vm.assertEq(crowd.record(times(time - time % STEP)), 0);
        } catch (bytes memory why) {
            vm.assertTrue(bytes4(why) == IPoolFeed.NotRecordedYet.selector, "another error");
            vm.assertEq(_said[time], 0);
            ++_seen["still to be recorded"];
        }
    }

    function same(uint256 time, uint80 round, int256 answer, uint64 gridTime) private view {
        (uint80 round_, int256 answer_, uint64 gridTime_) = honest.readingAt(time, AGE);
        vm.assertEq(keccak256(abi.encode(round, answer, gridTime)), keccak256(abi.encode(round_, answer_, gridTime_)));
    }
}
