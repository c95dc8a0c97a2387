// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {LocalFeed} from "../../../../contracts/local/LocalFeed.sol";
import {GuardedRead} from "../../../../contracts/lib/GuardedRead.sol";
import {ISettlementWallet} from "../../../../contracts/settlement/ISettlementWallet.sol";
import {ObservationFeed} from "../../../../contracts/settlement/ObservationFeed.sol";
import {OnUsdc} from "./WalletBase.sol";

/// Every kind of market, settled and voided by a stranger from rounds alone.
contract SettlingTest is OnUsdc {
    event MarketResolved(bytes32 indexed marketId, uint8 outcome, int256 observed, uint80 round, uint256 observedAt);
    event MarketVoided(bytes32 indexed marketId, uint8 reason);

    // Threshold, decided at the deadline

    function test_thresholdTakesTheRoundInEffectAtTheDeadline() public {
        uint80 before = feed.push(120e8, CLOSE - 100);
        uint80 last = feed.push(TARGET - 1, CLOSE);
        uint80 later = feed.push(150e8, CLOSE + 1);
        vm.warp(CLOSE);
        tooEarly(LATE, last, CLOSE + 1);
        vm.warp(CLOSE + 2);
        notInEffect(LATE, before, CLOSE);
        notInEffect(LATE, later, CLOSE);
        bothWays(LATE, last, NO, TARGET - 1, CLOSE);
    }

    function test_thresholdAtTheTargetIsYes() public {
        uint80 round = feed.push(TARGET, CLOSE - 5);
        vm.warp(CLOSE + 1);
        bothWays(LATE, round, YES, TARGET, CLOSE - 5);
    }

    function test_aMarketIsSettledOnce() public {
        uint80 round = feed.push(TARGET, CLOSE);
        vm.warp(CLOSE + 1);
        wallet.resolve(LATE, round);
        bytes memory again = abi.encodeWithSelector(ISettlementWallet.AlreadySettled.selector, LATE);
        vm.expectRevert(again);
        wallet.resolve(LATE, round);
        vm.expectRevert(again);
        wallet.resolve(LATE);
        vm.warp(CLOSE + VOID_DELAY + 1);
        vm.expectRevert(again);
        wallet.voidMarket(LATE, round);
    }

    // Threshold, resolvable early

    function test_aCrossingResolvesAtOnce() public {
        feed.push(90e8, T0 + 10);
        uint80 round = feed.push(TARGET, T0 + 20);
        feed.push(80e8, T0 + 30);
        vm.warp(T0 + 40);
        // The contract looks at the latest round only; the crossing must be named.
        vm.expectRevert(abi.encodeWithSelector(ISettlementWallet.TooEarly.selector, EARLY, CLOSE + 601));
        wallet.resolve(EARLY);
        resolves(EARLY, round, YES, TARGET, T0 + 20);
    }

    function test_aLatestCrossingIsFound() public {
        uint80 round = feed.push(TARGET, T0 + 20);
        vm.warp(T0 + 20);
        tooEarly(EARLY, round, CLOSE + 601); // its second is not over
        vm.warp(T0 + 21);
        bothWays(EARLY, round, YES, TARGET, T0 + 20);
    }

    function test_crossingsOutsideTheLifeDoNotCount() public {
        ISettlementWallet.MarketSpec memory s = thresholdSpec(true);
        s.opensAt = uint64(T0 + 100);
        list("later", s);
        uint80 before = feed.push(TARGET, T0 + 99);
        vm.warp(T0 + 200);
        tooEarly("later", before, CLOSE + 601);
        uint80 low = feed.push(TARGET - 1, T0 + 150);
        tooEarly("later", low, CLOSE + 601);
        feed.push(TARGET - 1, CLOSE);
        uint80 after_ = feed.push(TARGET, CLOSE + 1);
        vm.warp(CLOSE + 601);
        notInEffect("later", after_, CLOSE);
        resolvesFound("later", NO);
    }

    function test_aCrossingAtTheOpeningAndAtTheCloseCounts() public {
        uint80 opening = feed.push(TARGET, T0);
        uint80 closing = feed.push(TARGET, CLOSE);
        vm.warp(T0 + 1);
        uint256 snapshot = vm.snapshotState();
        resolves(EARLY, opening, YES, TARGET, T0);
        vm.revertToState(snapshot);
        vm.warp(CLOSE + 1);
        bothWays(EARLY, closing, YES, TARGET, CLOSE);
    }

    function test_noWaitsForTheChallengeDelay() public {
        uint80 crossing = feed.push(TARGET, T0 + 20);
        uint80 last = feed.push(TARGET - 1, CLOSE - 10);
        vm.warp(CLOSE + 600);
        tooEarly(EARLY, last, CLOSE + 601);
        vm.expectRevert(abi.encodeWithSelector(ISettlementWallet.TooEarly.selector, EARLY, CLOSE + 601));
        wallet.voidMarket(EARLY, last);
        uint256 snapshot = vm.snapshotState();
        resolves(EARLY, crossing, YES, TARGET, T0 + 20);
        vm.revertToState(snapshot);
        vm.warp(CLOSE + 601);
        bothWays(EARLY, last, NO, TARGET - 1, CLOSE - 10);
    }

    function test_aCrossingFoundOnlyAtTheDeadlineIsYes() public {
        feed.push(TARGET, CLOSE - 10);
        feed.push(TARGET - 1, CLOSE + 5); // the latest
        vm.warp(CLOSE + 601);
        resolvesFound(EARLY, YES);
    }

    function test_metBeforeItOpenedVoids() public {
        ISettlementWallet.MarketSpec memory s = thresholdSpec(true);
        s.opensAt = uint64(T0 + 100);
        s.maxAge = 2 days;
        list("met", s);
        uint80 round = feed.push(TARGET, T0 + 99);
        vm.warp(CLOSE + 601);
        vm.expectEmit(true, true, true, true, address(wallet));
        emit MarketVoided("met", 6);
        wallet.resolve("met", round);
        vm.assertEq(uint256(wallet.market("met").status), 3);
    }

    function test_aCrossingInAnAbandonedPhaseDoesNotCount() public {
        feed.push(90e8, T0 + 5);
        feed.startPhase();
        feed.push(91e8, T0 + 10);
        uint80 stray = feed.pushInto(1, TARGET, T0 + 20);
        vm.warp(T0 + 30);
        tooEarly(EARLY, stray, CLOSE + 601);
    }

    function test_aRoundThatIsNotThereIsNoCrossing() public {
        vm.warp(T0 + 30);
        tooEarly(EARLY, uint80(1 << 64 | 7), CLOSE + 601);
        vm.expectRevert(abi.encodeWithSelector(ISettlementWallet.TooEarly.selector, EARLY, CLOSE + 601));
        wallet.resolve(EARLY);
        uint80 negative = feed.push(-1, T0 + 20);
        tooEarly(EARLY, negative, CLOSE + 601);
    }

    // Range

    function test_rangeBuckets() public {
        int256[8] memory values = [int256(1), 50e8 - 1, 50e8, 100e8 - 1, 100e8, 200e8 - 1, 200e8, 1e18];
        uint256 snapshot = vm.snapshotState();
        for (uint256 k; k < 8; ++k) {
            uint80 round = feed.push(values[k], CLOSE - 1);
            vm.warp(CLOSE + 1);
            bothWays(RANGED, round, uint8(k / 2), values[k], CLOSE - 1);
            vm.revertToState(snapshot);
        }
    }

    // Direction

    function test_directions() public {
        feed.push(100e8, START);
        uint256 snapshot = vm.snapshotState();
        uint80 round = feed.push(100e8 + 1, CLOSE);
        vm.warp(CLOSE + 1);
        bothWays(UPDOWN, round, 0, 100e8 + 1, CLOSE);
        vm.revertToState(snapshot);
        round = feed.push(100e8 - 1, CLOSE);
        vm.warp(CLOSE + 1);
        bothWays(UPDOWN, round, 1, 100e8 - 1, CLOSE);
    }

    function test_aTieVoids() public {
        feed.push(100e8, START);
        feed.push(101e8, START + 1);
        uint80 round = feed.push(100e8, CLOSE);
        vm.warp(CLOSE + 1);
        nothingToVoidFor(UPDOWN, round);
        voidsByResolving(UPDOWN, round, 5);
    }

    function test_theSameRoundVoids() public {
        ISettlementWallet.MarketSpec memory s = directionSpec();
        s.maxAge = 2 days;
        list("slow", s);
        uint80 round = feed.push(100e8, START);
        vm.warp(CLOSE + 1);
        voidsByResolving("slow", round, 5);
    }

    function test_aStartThatCannotCountVoids() public {
        uint80 end = feed.push(100e8, CLOSE); // nothing at the start
        vm.warp(CLOSE + 1);
        vm.expectRevert(abi.encodeWithSelector(ISettlementWallet.NoReading.selector, address(feed), START, uint8(4)));
        wallet.resolve(UPDOWN, end);
        voids(UPDOWN, end, 3);
    }

    function test_aStaleStartVoids() public {
        uint80 start = feed.push(99e8, START - MAX_AGE - 1);
        uint80 end = feed.push(100e8, CLOSE);
        vm.warp(CLOSE + 1);
        vm.expectRevert(abi.encodeWithSelector(ISettlementWallet.ReadingTooOld.selector, start, MAX_AGE + 1, MAX_AGE));
        wallet.resolve(UPDOWN, end);
        voids(UPDOWN, end, 1);
        vm.assertEq(uint256(wallet.market(UPDOWN).status), 3);
    }

    function test_aBadStartVoids() public {
        uint80 start = feed.push(0, START);
        uint80 end = feed.push(100e8, CLOSE);
        vm.warp(CLOSE + 1);
        vm.expectRevert(abi.encodeWithSelector(ISettlementWallet.ReadingNotPositive.selector, start, int256(0)));
        wallet.resolve(UPDOWN, end);
        voids(UPDOWN, 0, 2);
    }

    // Faults of the deadline reading

    function test_staleness() public {
        uint80 round = feed.push(TARGET, CLOSE - MAX_AGE - 1);
        vm.warp(CLOSE);
        vm.expectRevert(abi.encodeWithSelector(ISettlementWallet.TooEarly.selector, LATE, CLOSE + 1));
        wallet.voidMarket(LATE, round);
        vm.warp(CLOSE + 1);
        vm.expectRevert(abi.encodeWithSelector(ISettlementWallet.ReadingTooOld.selector, round, MAX_AGE + 1, MAX_AGE));
        wallet.resolve(LATE, round);
        voids(LATE, round, 1);
    }

    function test_aReadingJustYoungEnoughCounts() public {
        uint80 round = feed.push(TARGET, CLOSE - MAX_AGE);
        vm.warp(CLOSE + 1);
        nothingToVoidFor(LATE, round);
        bothWays(LATE, round, YES, TARGET, CLOSE - MAX_AGE);
    }

    function test_badAnswersVoidAtOnce() public {
        uint256 snapshot = vm.snapshotState();
        int256[2] memory bad = [int256(0), -1];
        for (uint256 k; k < 2; ++k) {
            uint80 round = feed.push(bad[k], CLOSE);
            vm.warp(CLOSE + 1);
            vm.expectRevert(abi.encodeWithSelector(ISettlementWallet.ReadingNotPositive.selector, round, bad[k]));
            wallet.resolve(LATE);
            voids(LATE, round, 2);
            vm.revertToState(snapshot);
        }
    }

    function test_noRoundAtAllVoids() public {
        feed.push(TARGET, CLOSE + 1);
        vm.warp(CLOSE + 2);
        voids(LATE, 0, 3);
    }

    function test_aVoidNeedsTheRightRound() public {
        uint80 old = feed.push(TARGET, CLOSE - 2 * MAX_AGE);
        feed.push(TARGET, CLOSE - 1);
        vm.warp(CLOSE + 1);
        vm.expectRevert(abi.encodeWithSelector(ISettlementWallet.NotInEffect.selector, old, CLOSE));
        wallet.voidMarket(LATE, old);
        nothingToVoidFor(LATE, 0);
    }

    function test_anUnreadableFeedProvesNothing() public {
        vm.warp(CLOSE + 1); // an empty feed in its first phase cannot be read
        bytes memory noReading =
            abi.encodeWithSelector(ISettlementWallet.NoReading.selector, address(feed), CLOSE, uint8(2));
        vm.expectRevert(noReading);
        wallet.resolve(LATE);
        vm.expectRevert(noReading);
        wallet.voidMarket(LATE, 0);
        vm.expectRevert(abi.encodeWithSelector(ISettlementWallet.NotInEffect.selector, 1, CLOSE));
        wallet.voidMarket(LATE, 1);
        vm.warp(CLOSE + VOID_DELAY);
        vm.expectRevert(noReading);
        wallet.voidMarket(LATE, 0);
        vm.warp(CLOSE + VOID_DELAY + 1);
        voids(LATE, 0, 4);
    }

    /// 63/64 of a starved call must not turn a round that is there into one that is absent.
    function test_starvedReadsFakeNothing() public {
        feed.push(90e8, CLOSE - 10);
        uint80 last = feed.push(TARGET, CLOSE);
        vm.warp(CLOSE + 1);
        for (uint256 gas_ = 60_000; gas_ < 700_000; gas_ += 9_973) {
            uint256 snapshot = vm.snapshotState();
            (bool ok,) =
                address(wallet).call{gas: gas_}(abi.encodeWithSignature("resolve(bytes32,uint80)", LATE, last - 1));
            vm.assertFalse(ok);
            (ok,) = address(wallet).call{gas: gas_}(abi.encodeCall(wallet.voidMarket, (LATE, 0)));
            vm.assertFalse(ok);
            (ok,) = address(wallet).call{gas: gas_}(abi.encodeWithSignature("resolve(bytes32)", LATE));
            if (ok) vm.assertEq(uint256(wallet.market(LATE).winner), YES);
            vm.revertToState(snapshot);
        }
        vm.expectRevert();
        wallet.resolve{gas: GuardedRead.GAS_NEEDED}(LATE, last);
    }

    // Our own feed, which takes observations a little late

    function test_anObservationFeedIsWaitedFor() public {
        ObservationFeed own = new ObservationFeed(OWNER, "BNKR / USD market cap", 120);
        vm.prank(OWNER);
        own.setPublisher(RELAYER);
        ISettlementWallet.MarketSpec memory s = thresholdSpec(false);
        s.feed = address(own);
        list("own", s);
        s.earlyResolvable = true;
        list("own early", s);
        vm.warp(CLOSE - 50);
        vm.prank(RELAYER);
        uint80 first = own.post(TARGET - 1, uint64(CLOSE - 60));
        vm.warp(CLOSE + 120);
        tooEarly("own", first, CLOSE + 121);
        vm.prank(RELAYER);
        uint80 last = own.post(TARGET, uint64(CLOSE));
        vm.warp(CLOSE + 121);
        notInEffect("own", first, CLOSE);
        bothWays("own", last, YES, TARGET, CLOSE);
        vm.assertEq(wallet.market("own early").settlesAfter, CLOSE + 600);
        resolvesFound("own early", YES);
    }

    function test_aLongLagOutlastsTheChallengeDelay() public {
        ObservationFeed own = new ObservationFeed(OWNER, "m", 900);
        ISettlementWallet.MarketSpec memory s = thresholdSpec(true);
        s.feed = address(own);
        list("own", s);
        vm.assertEq(wallet.market("own").settlesAfter, CLOSE + 900);
    }

    // Helpers

    /// Settles by the given round, and again with the rounds found by the contract, with the same result.
    function bothWays(bytes32 m, uint80 round, uint8 outcome, int256 observed, uint256 at_) private {
        uint256 snapshot = vm.snapshotState();
        vm.expectEmit(true, true, true, true, address(wallet));
        emit MarketResolved(m, outcome, observed, round, at_);
        vm.prank(STRANGER);
        wallet.resolve(m);
        vm.revertToState(snapshot);
        resolves(m, round, outcome, observed, at_);
    }

    function resolves(bytes32 m, uint80 round, uint8 outcome, int256 observed, uint256 at_) private {
        vm.expectEmit(true, true, true, true, address(wallet));
        emit MarketResolved(m, outcome, observed, round, at_);
        vm.prank(STRANGER);
        wallet.resolve(m, round);
        vm.assertEq(uint256(wallet.market(m).status), 2);
        vm.assertEq(uint256(wallet.market(m).winner), outcome);
    }

    function resolvesFound(bytes32 m, uint8 outcome) private {
        vm.prank(STRANGER);
        wallet.resolve(m);
        vm.assertEq(uint256(wallet.market(m).status), 2);
        vm.assertEq(uint256(wallet.market(m).winner), outcome);
    }

    function voidsByResolving(bytes32 m, uint80 round, uint8 reason) private {
        uint256 snapshot = vm.snapshotState();
        vm.expectEmit(true, true, true, true, address(wallet));
        emit MarketVoided(m, reason);
        wallet.resolve(m);
        vm.revertToState(snapshot);
        vm.expectEmit(true, true, true, true, address(wallet));
        emit MarketVoided(m, reason);
        vm.prank(STRANGER);
        wallet.resolve(m, round);
        vm.assertEq(uint256(wallet.market(m).status), 3);
    }

    /// By the named round, and again with the round found.
    function voids(bytes32 m, uint80 round, uint8 reason) private {
        uint256 snapshot = vm.snapshotState();
        vm.expectEmit(true, true, true, true, address(wallet));
        emit MarketVoided(m, reason);
        wallet.voidMarket(m, 0);
        vm.revertToState(snapshot);
        vm.expectEmit(true, true, true, true, address(wallet));
        emit MarketVoided(m, reason);
        vm.prank(STRANGER);
        wallet.voidMarket(m, round);
        vm.assertEq(uint256(wallet.market(m).status), 3);
    }

    function tooEarly(bytes32 m, uint80 round, uint256 notBefore) private {
        vm.expectRevert(abi.encodeWithSelector(ISettlementWallet.TooEarly.selector, m, notBefore));
        wallet.resolve(m, round);
    }

    function notInEffect(bytes32 m, uint80 round, uint256 moment) private {
        vm.expectRevert(abi.encodeWithSelector(ISettlementWallet.NotInEffect.selector, round, moment));
        wallet.resolve(m, round);
    }

    function nothingToVoidFor(bytes32 m, uint80 round) private {
        vm.expectRevert(abi.encodeWithSelector(ISettlementWallet.NothingToVoidFor.selector, m));
        wallet.voidMarket(m, round);
    }
}
