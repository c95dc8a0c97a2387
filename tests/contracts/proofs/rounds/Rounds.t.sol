// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {RoundFinder} from "../../../../contracts/lib/RoundFinder.sol";
import {Proof} from "../Proof.sol";
import {AnyFeed} from "./AnyFeed.sol";

/// What proves for a time is in effect then, and what is in effect proves. Nothing is assumed of the feed here.
/// @custom:bounds every feed with any rounds
contract RoundsProof is Proof {
    AnyFeed private feed;

    function setUp() public {
        feed = new AnyFeed();
        svm.enableSymbolicStorage(address(feed));
    }

    function isAtOrBefore(uint80 round, uint256 time) private view returns (bool) {
        uint256 at = feed.updatedAt(round);
        return at != 0 && at <= time;
    }

    /// What proves for a time is a round at or before it, as the feed has it.
    /// @custom:theorem rounds.proven.at-or-before
    /// @custom:bounds a round of the current phase
    /// @custom:slow 60
    function check_provenIsAtOrBefore(uint80 a, uint256 time) public view {
        vm.assume(feed.latest() >> 64 == a >> 64);
        (bool ok, RoundFinder.Round memory round) = RoundFinder.proveInEffectAt(address(feed), a, time);
        if (!ok) return;
        assert(isAtOrBefore(a, time));
        assert(round.id == a && round.updatedAt == feed.updatedAt(a) && round.answer == feed.answer(a));
    }

    /// The round after what proves is later than the time, or absent.
    /// @custom:theorem rounds.next-is-not
    /// @custom:bounds a round of the current phase
    /// @custom:slow 60
    function check_nextIsNot(uint80 a, uint256 time) public view {
        vm.assume(feed.latest() >> 64 == a >> 64);
        (bool ok,) = RoundFinder.proveInEffectAt(address(feed), a, time);
        if (ok) assert(!isAtOrBefore(a + 1, time));
    }

    /// A round of a phase before the last eight never proves.
    /// @custom:theorem rounds.too-old
    function check_tooOldDoesNotProve(uint80 a, uint256 time) public view {
        vm.assume(feed.latest() >> 64 >= (a >> 64) + RoundFinder.MAX_PHASES);
        (bool ok,) = RoundFinder.proveInEffectAt(address(feed), a, time);
        assert(!ok);
    }

    /// The round in effect proves.
    /// @custom:theorem rounds.in-effect-proves
    /// @custom:bounds a round of the current phase
    /// @custom:slow 600
    /// @custom:loops 9
    function check_inEffectProves(uint80 a, uint256 time) public view {
        vm.assume(a >> 64 != 0 && feed.latest() >> 64 == a >> 64);
        vm.assume(uint64(a) != 0 && uint64(a) <= RoundFinder.MAX_NUMBER);
        vm.assume(isAtOrBefore(a, time) && !isAtOrBefore(a + 1, time));
        (bool ok,) = RoundFinder.proveInEffectAt(address(feed), a, time);
        assert(ok);
    }
}
