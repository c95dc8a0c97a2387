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

/// Random tapes of up to ten overlapping phases, both missing-round variants of each, against the brute-force scan.
contract TapesTest is Base {
    uint256 private constant MARKET = 7;

    FinderProbe private probe = new FinderProbe();
    LocalFeed private feed = new LocalFeed();
    LocalStockToken private stock = new LocalStockToken();
    RecordingSettler private settler = new RecordingSettler();
    RoundResolver private resolver = new RoundResolver(address(settler), address(this), address(0), 0);

    /// forge-config: default.fuzz.runs = 20000
    /// forge-config: quick.fuzz.runs = 150
    /// forge-config: long.fuzz.runs = 20000
    function testFuzz_finder_and_proof_equal_the_scan(uint256 seed) external {
        Tapes.Tape memory tape = Tapes.draw(seed);
        Tapes.play(tape, feed);
        for (uint256 mode; mode < 2; ++mode) {
            feed.setMissingMode(LocalFeed.Missing(mode));
            _checkTime(tape, tape.strikeTime, mode == 0);
            _checkTime(tape, tape.finalTime, mode == 0);
        }
    }

    /// forge-config: default.fuzz.runs = 20000
    /// forge-config: quick.fuzz.runs = 150
    /// forge-config: long.fuzz.runs = 20000
    function testFuzz_resolver_equals_the_scan(uint256 seed) external {
        Tapes.Tape memory tape = Tapes.draw(seed);
        vm.warp(500);
        resolver.register(
            IRoundResolver.Spec(
                MARKET,
                address(feed),
                address(stock),
                tape.strikeTime,
                tape.finalTime,
                tape.maxStrikeAge,
                tape.maxFinalAge
            )
        );
        Tapes.play(tape, feed);
        vm.warp(tape.finalTime);
        stock.setOraclePaused(tape.paused);
        resolver.witness(address(stock));
        vm.warp(tape.finalTime + 1);
        uint256 start = vm.snapshotState();
        for (uint256 mode; mode < 2; ++mode) {
            feed.setMissingMode(LocalFeed.Missing(mode));
            _checkMarket(tape, mode == 0);
            vm.revertToState(start);
        }
    }

    /// The finder finds what the scan finds, and of all ids around the tape only that one proves.
    function _checkTime(Tapes.Tape memory tape, uint256 time, bool missingReverts) private view {
        (Tapes.Reading memory want, uint8 wantProblem) = Tapes.scan(tape, time, missingReverts);
        (RoundFinder.Round memory got, uint8 problem) = probe.find(address(feed), time);
        vm.assertEq(uint256(problem), wantProblem, "problem");
        vm.assertEq(uint256(got.id), want.id, "round");
        vm.assertEq(got.answer, want.answer);
        vm.assertEq(got.updatedAt, want.updatedAt, "updatedAt");

        uint256 proven;
        for (uint256 p; p <= tape.phases.length + 1; ++p) {
            uint256 rounds = p == 0 || p > tape.phases.length ? 0 : tape.phases[p - 1].length;
            for (uint256 n; n <= rounds + 1; ++n) {
                uint80 id = uint80(p << 64 | n);
                if (_proves(id, time, want)) ++proven;
            }
        }
        vm.assertEq(proven, wantProblem == 0 ? 1 : 0, "provable rounds");
    }

    function _proves(uint80 id, uint256 time, Tapes.Reading memory want) private view returns (bool ok) {
        RoundFinder.Round memory round;
        (ok, round) = probe.prove(address(feed), id, time);
        if (!ok) return false;
        vm.assertEq(uint256(id), want.id, "another round proves");
        vm.assertEq(abi.encode(round), abi.encode(want));
    }

    /// preview says what the scan says, and exactly the calls it names succeed, with exactly the pair it names.
    function _checkMarket(Tapes.Tape memory tape, bool missingReverts) private {
        uint8 want = Tapes.status(tape, missingReverts);
        (Tapes.Reading memory a, uint8 noStrike) = Tapes.scan(tape, tape.strikeTime, missingReverts);
        (Tapes.Reading memory b, uint8 noFinal) = Tapes.scan(tape, tape.finalTime, missingReverts);
        _checkPreview(want, a, b);

        if (noStrike == 0 && noFinal == 0) {
            bool bad = a.answer <= 0 || a.answer >= 1e14 || b.answer <= 0 || b.answer >= 1e14;
            bool stale =
                tape.strikeTime - a.updatedAt > tape.maxStrikeAge || tape.finalTime - b.updatedAt > tape.maxFinalAge;
            // Every other pair nearby is refused, by whichever call.
            _checkPair(a.id + 1, b.id, 0, false, false);
            _checkPair(a.id, b.id + 1, 0, false, false);
            _checkPair(a.id - 1, b.id, 0, false, false);
            _checkPair(a.id, b.id - 1, 0, false, false);
            if (a.id != b.id) _checkPair(b.id, a.id, 0, false, false);
            _checkPair(a.id, b.id, want == 1 || want == 2 ? want : want == 3 ? 3 : 0, stale, bad);
        } else {
            _checkPair(a.id, b.id, 0, false, false);
        }
        _check(abi.encodeCall(resolver.resolve, (MARKET)), want <= 3 ? want : 0);
        bool readable = noStrike == 0 && noFinal == 0;
        _check(abi.encodeCall(resolver.voidPaused, (MARKET)), tape.paused && readable ? 3 : 0);
    }

    function _checkPreview(uint8 want, Tapes.Reading memory a, Tapes.Reading memory b) private view {
        (bool ok, bytes memory out) = address(resolver).staticcall(abi.encodeCall(resolver.preview, (MARKET)));
        vm.assertTrue(ok, "preview reverted");
        vm.assertEq(out, abi.encode(want, a.id, a.answer, a.updatedAt, b.id, b.answer, b.updatedAt));
    }

    function _checkPair(uint80 strike, uint80 last, uint8 resolves, bool stale, bool bad) private {
        _check(abi.encodeCall(resolver.resolveWith, (MARKET, strike, last)), resolves);
        _check(abi.encodeCall(resolver.voidStale, (MARKET, strike, last)), stale ? 3 : 0);
        _check(abi.encodeCall(resolver.voidBadAnswer, (MARKET, strike, last)), bad ? 3 : 0);
    }

    /// `want` 0: the call must be refused; else it must settle the market that way (and is undone).
    function _check(bytes memory call, uint8 want) private {
        uint256 id = want == 0 ? 0 : vm.snapshotState();
        (bool ok,) = address(resolver).call(call);
        vm.assertEq(ok, want != 0);
        vm.assertEq(uint256(settler.settledAs(MARKET)), want, "settled as");
        if (want != 0) vm.revertToState(id);
    }
}
