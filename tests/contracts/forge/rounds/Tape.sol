// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {LocalFeed} from "../../../../contracts/local/LocalFeed.sol";

/// Random feeds ("tapes"), and what they say according to the definition, read off the tape by looking at every round.
/// `tests/unit/test_rounds_mirror.py` draws the same tapes from the same seeds.
library Tapes {
    struct Entry {
        int256 answer;
        uint256 updatedAt;
    }

    struct Tape {
        Entry[][] phases; // phases[p - 1][n - 1]
        uint64 strikeTime;
        uint64 finalTime;
        uint32 maxStrikeAge;
        uint32 maxFinalAge;
        bool paused;
    }

    struct Reading {
        uint80 id;
        int256 answer;
        uint256 updatedAt;
    }

    uint256 internal constant EPOCH = 1000; // no round and no strike before it

    /// One to eight phases (now and then ten), each with up to seven rounds or none, all starting within the same
    /// 200 seconds, so that they overlap; times may repeat; one answer in eight is no price, and few differ.
    function draw(uint256 seed) internal pure returns (Tape memory tape) {
        uint256[1] memory s = [seed];
        uint256 phases = 1 + next(s) % 8;
        if (next(s) % 16 == 0) phases += 2;
        tape.phases = new Entry[][](phases);
        for (uint256 p; p < phases; ++p) {
            uint256 rounds = next(s) % 8;
            uint256 time = EPOCH + next(s) % 200;
            tape.phases[p] = new Entry[](rounds);
            for (uint256 n; n < rounds; ++n) {
                tape.phases[p][n] = Entry(_answer(s), time);
                time += next(s) % 40;
            }
        }
        tape.strikeTime = uint64(EPOCH + next(s) % 300);
        tape.finalTime = uint64(tape.strikeTime + 1 + next(s) % 150);
        tape.maxStrikeAge = uint32(next(s) % 2 == 0 ? 1000 : next(s) % 60);
        tape.maxFinalAge = uint32(next(s) % 2 == 0 ? 1000 : next(s) % 60);
        tape.paused = next(s) % 6 == 0;
    }

    function next(uint256[1] memory s) internal pure returns (uint256) {
        s[0] = uint256(keccak256(abi.encode(s[0])));
        return s[0];
    }

    function _answer(uint256[1] memory s) private pure returns (int256) {
        uint256 r = next(s) % 32;
        if (r == 0) return 0;
        if (r == 1) return -1;
        if (r == 2) return 1e14;
        if (r == 3) return 1e14 - 1;
        return int256(100e8 + r % 3);
    }

    function play(Tape memory tape, LocalFeed feed) internal {
        for (uint256 p; p < tape.phases.length; ++p) {
            if (p != 0) feed.startPhase();
        }
        // The rounds afterwards: aggregators write on whichever of them is current.
        for (uint256 p; p < tape.phases.length; ++p) {
            for (uint256 n; n < tape.phases[p].length; ++n) {
                feed.pushInto(uint16(p + 1), tape.phases[p][n].answer, tape.phases[p][n].updatedAt);
            }
        }
    }

    /// Breaks the rules of feeds in three places: rounds out of order, rounds gone, rounds after a gap.
    function spoil(Tape memory tape, LocalFeed feed, uint256 seed) internal {
        uint256[1] memory s = [~seed];
        for (uint256 i; i < 3; ++i) {
            uint256 phase = 1 + next(s) % tape.phases.length;
            uint256 number = 1 + next(s) % 8;
            uint256 time = next(s) % 3 == 0 ? 0 : EPOCH + next(s) % 400;
            feed.setRound(uint80(phase << 64 | number), 100e8, time);
        }
    }

    /// The definition, by brute force: every round of every phase is looked at, and the best one kept. Problems as RoundFinder
    /// numbers them.
    function scan(Tape memory tape, uint256 time, bool missingReverts)
        internal
        pure
        returns (Reading memory best, uint8 problem)
    {
        uint256 count = tape.phases.length;
        if (missingReverts && tape.phases[count - 1].length == 0) return (best, 2);
        for (uint256 p = 1; p <= count; ++p) {
            if (p + 8 <= count) continue;
            for (uint256 n = 1; n <= tape.phases[p - 1].length; ++n) {
                Entry memory e = tape.phases[p - 1][n - 1];
                // Rounds come in the order of (phase, number), so the last that fits is the reading.
                if (e.updatedAt <= time) best = Reading(uint80(p << 64 | n), e.answer, e.updatedAt);
            }
        }
        if (best.id == 0) problem = count > 8 ? 5 : 4;
    }

    /// What the two readings make of the market, in the words of the design. 5 stands for a missing reading.
    function status(Tape memory tape, bool missingReverts) internal pure returns (uint8) {
        (Reading memory a, uint8 noStrike) = scan(tape, tape.strikeTime, missingReverts);
        (Reading memory b, uint8 noFinal) = scan(tape, tape.finalTime, missingReverts);
        bool both = noStrike == 0 && noFinal == 0;
        if (both && (a.answer < 1 || a.answer > 1e14 - 1 || b.answer < 1 || b.answer > 1e14 - 1)) return 7;
        if (both && a.updatedAt + tape.maxStrikeAge < tape.strikeTime) return 4;
        if (both && b.updatedAt + tape.maxFinalAge < tape.finalTime) return 4;
        if (!both) return 5;
        if (tape.paused) return 6;
        if (a.id == b.id || a.answer == b.answer) return 3;
        return b.answer > a.answer ? 1 : 2;
    }
}
