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
    LocalStockToken private stock = new LocalStockToken();
    RoundResolver private resolver = new RoundResolver(address(new RecordingSettler()), address(this));
    bytes32 private digest;

    function test_mirror_and_contract_agree_on_tapes_from_0() external {
        _agree(0, 0xe822d046490c7c0d675bfcee2183e4e20f97cc5a6bf762b2018aebffa778d928);
    }

    function test_mirror_and_contract_agree_on_tapes_from_100() external {
        _agree(100, 0x6a87c4af04d8720732f1cce8b91884883e183a056839c8e4cf1aac91a57a71a3);
    }

    function test_mirror_and_contract_agree_on_tapes_from_200() external {
        _agree(200, 0xf7514a0f74734e60230282d47b876d6211b2ef4af3f707a8fe8aa7e59b85efb4);
    }

    function test_mirror_and_contract_agree_on_tapes_from_300() external {
        _agree(300, 0x3b32e6219dcd4493835c162376bccc6e789861ad5e3128559e16e21491e6c096);
    }

    function test_mirror_and_contract_agree_on_tapes_from_400() external {
        _agree(400, 0xde0d64c3022e819654c03638a3bfe841d8fe49de87daaf192c6fd9a862fb03cc);
    }

    function test_mirror_and_contract_agree_on_tapes_from_500() external {
        _agree(500, 0xbbefbfd2c6f696a66ab810512f8fd49fd9a40d501eddf39b275998b7317e0610);
    }

    function test_mirror_and_contract_agree_on_tapes_from_600() external {
        _agree(600, 0x9594bc2da74eb4fce190506ea92c2251028d14dc559f94901d71601572859df5);
    }

    function test_mirror_and_contract_agree_on_tapes_from_700() external {
        _agree(700, 0xf2129c6d8a904ba63ebcdec480a811d518b4287594b71bc2ebb33478e4d45785);
    }

    function fold(uint256 seed) external {
        Tapes.Tape memory tape = Tapes.draw(seed);
        LocalFeed feed = new LocalFeed();
        Tapes.play(tape, feed);
        if (seed % 4 == 3) Tapes.spoil(tape, feed, seed);
        stock.setOraclePaused(tape.paused);
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
            this.fold(seed); // a call of its own, so that memory is given back
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
