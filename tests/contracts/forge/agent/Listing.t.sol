// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {LocalFeed} from "../../../../contracts/local/LocalFeed.sol";
import {ISettlementWallet} from "../../../../contracts/settlement/ISettlementWallet.sol";
import {ObservationFeed} from "../../../../contracts/settlement/ObservationFeed.sol";
import {OnUsdc} from "./WalletBase.sol";

contract SixDecimals {
    function decimals() external pure returns (uint8) {
        return 6;
    }
}

contract NoDecimals {}

contract ListingTest is OnUsdc {
    bytes32 private constant NEW = keccak256("new");

    event MarketListed(
        bytes32 indexed marketId,
        uint8 kind,
        address indexed feed,
        uint64 closesAt,
        uint16 feeBps,
        uint8 outcomes,
        uint64 virtualLiquidity,
        bytes spec,
        string metadata
    );

    function test_listedMarketReadsBack() public {
        ISettlementWallet.MarketSpec memory s = rangeSpec();
        vm.expectEmit(true, true, true, true, address(wallet));
        emit MarketListed(
            NEW, s.kind, s.feed, s.closesAt, s.feeBps, s.outcomes, s.virtualLiquidity, abi.encode(s), '{"slug":"m"}'
        );
        list(NEW, s);
        ISettlementWallet.MarketView memory v = wallet.market(NEW);
        vm.assertEq(keccak256(abi.encode(v.spec)), keccak256(abi.encode(s)));
        vm.assertEq(uint256(v.index), 5);
        vm.assertEq(uint256(v.status), 1);
        vm.assertEq(v.settlesAfter, CLOSE);
        vm.assertEq(wallet.marketCount(), 5);
        vm.assertEq(wallet.marketIdAt(4), NEW);
        vm.assertEq(wallet.stakeCount(NEW), 0);

        s = thresholdSpec(true);
        vm.assertEq(keccak256(abi.encode(wallet.market(EARLY).spec)), keccak256(abi.encode(s)));
        s = directionSpec();
        vm.assertEq(keccak256(abi.encode(wallet.market(UPDOWN).spec)), keccak256(abi.encode(s)));
        vm.assertEq(wallet.market(EARLY).settlesAfter, CLOSE + 10 minutes);
    }

    function test_openingInThePastMeansNow() public {
        ISettlementWallet.MarketSpec memory s = thresholdSpec(true);
        s.opensAt = uint64(T0 - 1 days);
        list(NEW, s);
        vm.assertEq(wallet.market(NEW).spec.opensAt, T0);
    }

    function test_onlyTheListerLists() public {
        vm.prank(OWNER);
        vm.expectRevert(abi.encodeWithSelector(ISettlementWallet.MissingRole.selector, OWNER, "LISTER"));
        wallet.list(NEW, thresholdSpec(true), "");
    }

    function test_aMarketIsListedOnce() public {
        refused(EARLY, thresholdSpec(true), abi.encodeWithSelector(ISettlementWallet.AlreadyListed.selector, EARLY));
        feed.push(90e8, CLOSE);
        vm.warp(CLOSE + 1);
        wallet.resolve(LATE);
        ISettlementWallet.MarketSpec memory s = thresholdSpec(true);
        s.closesAt += 7 days;
        refused(LATE, s, abi.encodeWithSelector(ISettlementWallet.AlreadyListed.selector, LATE));
    }

    function test_kinds() public {
        ISettlementWallet.MarketSpec memory s = thresholdSpec(true);
        s.kind = 3;
        refused(s, abi.encodeWithSelector(ISettlementWallet.UnknownKind.selector, 3));
    }

    function test_times() public {
        ISettlementWallet.MarketSpec memory s = thresholdSpec(true);
        s.closesAt = uint64(T0);
        refused(s, abi.encodeWithSelector(ISettlementWallet.ClosesInThePast.selector, T0, T0));
        s.closesAt = uint64(T0 + 100);
        s.opensAt = uint64(T0 + 100);
        refused(s, abi.encodeWithSelector(ISettlementWallet.ClosesBeforeItOpens.selector, T0 + 100, T0 + 100));
        s.closesAt = uint64(1) << 40;
        refused(s, abi.encodeWithSelector(ISettlementWallet.NumberTooLarge.selector, "closesAt"));
    }

    function test_bounds() public {
        ISettlementWallet.MarketSpec memory s = thresholdSpec(true);
        s.maxAge = 0;
        refused(s, outOfBounds("maxAge", 0, 1, type(uint32).max));
        s = thresholdSpec(true);
        s.voidDelay = 1 hours - 1;
        refused(s, outOfBounds("voidDelay", 1 hours - 1, 1 hours, 90 days));
        s.voidDelay = 90 days + 1;
        refused(s, outOfBounds("voidDelay", 90 days + 1, 1 hours, 90 days));
        s = thresholdSpec(true);
        s.feeBps = 1001;
        refused(s, outOfBounds("feeBps", 1001, 0, 1000));
        s = thresholdSpec(true);
        s.virtualLiquidity = 1e6 - 1;
        refused(s, outOfBounds("virtualLiquidity", 1e6 - 1, 1e6, 1e15));
        s.virtualLiquidity = 1e15 + 1;
        refused(s, outOfBounds("virtualLiquidity", 1e15 + 1, 1e6, 1e15));
    }

    function test_threshold() public {
        ISettlementWallet.MarketSpec memory s = thresholdSpec(true);
        s.target = 0;
        refused(s, abi.encodeWithSelector(ISettlementWallet.TargetMustBePositive.selector, 0));
        s.target = int256(uint256(1) << 128);
        refused(s, abi.encodeWithSelector(ISettlementWallet.NumberTooLarge.selector, "target"));
        s = thresholdSpec(true);
        s.bounds = new int256[](1);
        refused(s, unused("bounds", 0));
        s = thresholdSpec(true);
        s.outcomes = 3;
        refused(s, abi.encodeWithSelector(ISettlementWallet.WrongNumberOfOutcomes.selector, 3));
        s = thresholdSpec(true);
        s.startAt = 1;
        refused(s, unused("startAt", 0));
    }

    function test_range() public {
        ISettlementWallet.MarketSpec memory s = rangeSpec();
        s.target = 1;
        refused(s, unused("target", 1));
        s = rangeSpec();
        s.earlyResolvable = true;
        refused(s, unused("earlyResolvable", 1));
        s = rangeSpec();
        s.outcomes = 3;
        refused(s, abi.encodeWithSelector(ISettlementWallet.BoundsDoNotMatchOutcomes.selector, 3, 3));
        s.outcomes = 1;
        refused(s, abi.encodeWithSelector(ISettlementWallet.WrongNumberOfOutcomes.selector, 1));
        s.outcomes = 17;
        refused(s, abi.encodeWithSelector(ISettlementWallet.WrongNumberOfOutcomes.selector, 17));
        s = rangeSpec();
        s.bounds[1] = s.bounds[0];
        refused(s, abi.encodeWithSelector(ISettlementWallet.BoundsMustRise.selector, 1, s.bounds[1]));
        s.bounds[0] = 0;
        refused(s, abi.encodeWithSelector(ISettlementWallet.BoundsMustRise.selector, 0, 0));
        s = rangeSpec();
        s.bounds[2] = int256(uint256(1) << 128);
        refused(s, abi.encodeWithSelector(ISettlementWallet.NumberTooLarge.selector, "bounds"));
    }

    function test_direction() public {
        ISettlementWallet.MarketSpec memory s = directionSpec();
        s.startAt = uint64(T0); // known by now
        refused(s, abi.encodeWithSelector(ISettlementWallet.StartOutsideTheMarket.selector, T0, T0 + 1, CLOSE - 1));
        s.startAt = uint64(CLOSE);
        refused(s, abi.encodeWithSelector(ISettlementWallet.StartOutsideTheMarket.selector, CLOSE, T0 + 1, CLOSE - 1));
        s = directionSpec();
        s.target = 1;
        refused(s, unused("target", 2));
        s = directionSpec();
        s.earlyResolvable = true;
        refused(s, unused("earlyResolvable", 2));
        s = directionSpec();
        s.bounds = new int256[](1);
        refused(s, unused("bounds", 2));
    }

    function test_feeds() public {
        ISettlementWallet.MarketSpec memory s = thresholdSpec(true);
        s.feed = address(0xDEAD);
        refused(s, abi.encodeWithSelector(ISettlementWallet.FeedHasNoCode.selector, s.feed));
        s.feed = address(new SixDecimals());
        refused(s, abi.encodeWithSelector(ISettlementWallet.FeedDecimalsMustBe8.selector, s.feed));
        s.feed = address(new NoDecimals());
        refused(s, abi.encodeWithSelector(ISettlementWallet.FeedDecimalsMustBe8.selector, s.feed));
        s.feed = address(new ObservationFeed(OWNER, "m", 1801));
        refused(s, abi.encodeWithSelector(ISettlementWallet.FeedLagTooLong.selector, 1801, 1800));
        s.feed = address(new ObservationFeed(OWNER, "m", 1800));
        list(NEW, s);
        vm.assertEq(wallet.market(NEW).settlesAfter, CLOSE + 1800);
    }

    function test_unknownMarketsAreRefusedEverywhere() public {
        bytes memory unknown = abi.encodeWithSelector(ISettlementWallet.UnknownMarket.selector, NEW);
        vm.expectRevert(unknown);
        wallet.market(NEW);
        vm.expectRevert(unknown);
        wallet.outcomeBook(NEW, 0);
        vm.expectRevert(unknown);
        wallet.quote(NEW, 0, 1e6);
        vm.expectRevert(unknown);
        wallet.stakeCount(NEW);
        vm.expectRevert(unknown);
        wallet.stakesOf(NEW, 0, 1);
        vm.expectRevert(unknown);
        wallet.pay(NEW, new uint256[](0));
        vm.expectRevert(unknown);
        wallet.resolve(NEW, 1);
        vm.expectRevert(unknown);
        wallet.resolve(NEW);
        vm.expectRevert(unknown);
        wallet.voidMarket(NEW, 1);
    }

    function refused(ISettlementWallet.MarketSpec memory s, bytes memory why) private {
        refused(NEW, s, why);
    }

    function refused(bytes32 id, ISettlementWallet.MarketSpec memory s, bytes memory why) private {
        vm.prank(LISTER);
        vm.expectRevert(why);
        wallet.list(id, s, "");
    }

    function outOfBounds(string memory field, uint256 value, uint256 min, uint256 max)
        private
        pure
        returns (bytes memory)
    {
        return abi.encodeWithSelector(ISettlementWallet.OutOfBounds.selector, field, value, min, max);
    }

    function unused(string memory field, uint8 kind) private pure returns (bytes memory) {
        return abi.encodeWithSelector(ISettlementWallet.FieldNotUsedByKind.selector, field, kind);
    }
}
