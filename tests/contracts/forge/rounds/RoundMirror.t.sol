// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {RoundFinder} from "../../../../contracts/lib/RoundFinder.sol";
import {LocalFeed} from "../../../../contracts/local/LocalFeed.sol";
import {LocalStockToken} from "../../../../contracts/local/LocalStockToken.sol";
import {IRoundResolver} from "../../../../contracts/stock/IRoundResolver.sol";
import {RoundResolver} from "../../../../contracts/stock/RoundResolver.sol";
import {Base} from "../Base.sol";
import {FinderProbe, RecordingSettler} from "./Probe.sol";
import {Tapes} from "./Tape.sol";

/// Everything the finder, the proof and preview say about many tapes, folded into hashes. `tests/unit/test_rounds_mirror.py`
/// folds what core/feeds/rounds.py says about the same tapes and must come to the same hashes, which it reads here. Every
/// fourth tape breaks the rules (holes, times that fall): the mirror follows the contract there too.
contract RoundMirrorTest is Base {
    uint256 private constant TAPES = 100; // in each hash: what the gas of one test pays for, unoptimized too

    FinderProbe private probe = new FinderProbe();
    RoundResolver private resolver = new RoundResolver(address(new RecordingSettler()), address(this), address(0), 0);
    bytes32 private digest;

    function test_mirror_and_contract_agree_on_tapes_from_0() external {
        _agree(0, 0xdfb7465d5869ea79afdcbf58112d6bf8ac195a8a31329a940334b6cce661406d);
    }

    function test_mirror_and_contract_agree_on_tapes_from_100() external {
        _agree(100, 0xe8c73630b501bc97be9ef8427e9c6a4b84be18c2659350ef5de7ec1c5ff4f3ca);
    }

    function test_mirror_and_contract_agree_on_tapes_from_200() external {
        _agree(200, 0x6ff50c31eee9675984c23804c83a6ea3daf994dbb187cd8886aeb46f0dce366e);
    }

    function test_mirror_and_contract_agree_on_tapes_from_300() external {
        _agree(300, 0xf4b403eb929241a7f92d79c0913140a86affe0784c90940b62a6ea9a3f61ca71);
    }

    function test_mirror_and_contract_agree_on_tapes_from_400() external {
        _agree(400, 0x101d86b3487d0a822d3cacacfee7bf75d2f8cbf64c2ff4f8024d27f37ec4f779);
    }

    function test_mirror_and_contract_agree_on_tapes_from_500() external {
        _agree(500, 0x4c7d4a280df4222213940e3899ac1a554f23181184f449d3716e9664de21d7c0);
    }

    function test_mirror_and_contract_agree_on_tapes_from_600() external {
        _agree(600, 0x6a4efd4ca02ee988f53681e42b233dc2cdd4e79785ec91d2a099c5280f5800b2);
    }

    function test_mirror_and_contract_agree_on_tapes_from_700() external {
        _agree(700, 0x0275b528315daa35256c862afd408a2e0a0774132b619bcb21fce548461552fa);
    }

    function fold(uint256 seed) external {
        Tapes.Tape memory tape = Tapes.draw(seed);
        LocalFeed feed = new LocalFeed();
        Tapes.play(tape, feed);
        if (seed % 4 == 3) Tapes.spoil(tape, feed, seed);
        LocalStockToken stock = new LocalStockToken();
        vm.warp(500);
        resolver.register(
            IRoundResolver.Spec(
                seed,
                address(feed),
                address(stock),
                tape.strikeTime,
                tape.finalTime,
                tape.maxStrikeAge,
                tape.maxFinalAge
            )
        );
        vm.warp(tape.finalTime);
        stock.setOraclePaused(tape.paused);
        resolver.witness(address(stock));
        vm.warp(tape.finalTime + seed % 5); // one in five is not ready
        for (uint256 mode; mode < 2; ++mode) {
            feed.setMissingMode(LocalFeed.Missing(mode));
            _foldTime(feed, tape, tape.strikeTime);
            _foldTime(feed, tape, tape.finalTime);
            (bool ok, bytes memory out) = address(resolver).staticcall(abi.encodeCall(resolver.preview, (seed)));
            vm.assertTrue(ok);
            digest = keccak256(bytes.concat(digest, out));
        }
    }

    function _agree(uint256 from, bytes32 want) private {
        for (uint256 seed = from; seed < from + TAPES; ++seed) {
            this.fold(seed); // a separate call, so that memory is given back
        }
        vm.assertEq(digest, want);
    }

    function _foldTime(LocalFeed feed, Tapes.Tape memory tape, uint256 time) private {
        (RoundFinder.Round memory round, uint8 problem) = probe.find(address(feed), time);
        digest = keccak256(bytes.concat(digest, abi.encode(round.id, round.answer, round.updatedAt, problem)));
        for (uint256 p; p <= tape.phases.length + 1; ++p) {
            for (uint256 n; n <= 9; ++n) {
                (bool ok,) = probe.prove(address(feed), uint80(p << 64 | n), time);
                if (ok) digest = keccak256(bytes.concat(digest, abi.encode(p, n)));
            }
        }
    }
}
