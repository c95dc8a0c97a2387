// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {LocalFeed} from "../../../../contracts/local/LocalFeed.sol";
import {LocalStockToken} from "../../../../contracts/local/LocalStockToken.sol";
import {IMarketLister} from "../../../../contracts/stock/IMarketLister.sol";
import {MarketLister} from "../../../../contracts/stock/MarketLister.sol";
import {RoundResolver} from "../../../../contracts/stock/RoundResolver.sol";
import {VestedMarkets} from "../../../../contracts/stock/VestedMarkets.sol";
import {StockBase} from "./StockBase.sol";

interface VmCreate {
    function computeCreateAddress(address deployer, uint256 nonce) external pure returns (address);
    function getNonce(address account) external view returns (uint64);
}

/// The three contracts as a venue deploys them, one feed allow-listed and one opener with tokens.
abstract contract FullStack is StockBase {
    address internal constant OWNER = address(0x5AFE);
    uint64 internal constant STRIKE = START + 1 hours;
    uint64 internal constant FINAL = FREEZE;
    uint64 internal constant SIDE_CAP = 2_500e6;

    MarketLister internal lister;
    RoundResolver internal resolver;
    LocalFeed internal feed;
    LocalStockToken internal stock;

    function setUp() public virtual override {
        vm.warp(START);
        vm.roll(blockNow);
        token = newToken();
        feed = LocalFeed(deploy("LocalFeed", ""));
        stock = LocalStockToken(deploy("LocalStockToken", ""));
        address uptime = sequencer();
        // The three know each other, so the later addresses are worked out beforehand.
        uint64 nonce = VmCreate(address(vm)).getNonce(address(this));
        address resolverAt = VmCreate(address(vm)).computeCreateAddress(address(this), nonce + 1);
        address listerAt = VmCreate(address(vm)).computeCreateAddress(address(this), nonce + 2);
        markets = VestedMarkets(deploy("VestedMarkets", abi.encode(token, listerAt, GUARDIAN, TREASURY)));
        resolver = RoundResolver(deploy("RoundResolver", abi.encode(markets, listerAt, uptime, settleDelay())));
        lister = MarketLister(deploy("MarketLister", abi.encode(markets, resolverAt, OWNER, 30, 200, 72 hours)));

        feed.push(100e8, START - 60);
        vm.startPrank(OWNER);
        lister.setFeed(address(feed), address(stock), "TSLA", 1 days, 3 hours, SIDE_CAP, true);
        lister.setOpener(OPENER, true);
        vm.stopPrank();
        token.mint(OPENER, 1_000_000 * ONE);
        vm.prank(OPENER);
        token.approve(address(lister), 1_000_000 * ONE);
    }

    /// The chain's sequencer uptime feed; none, unless a test has one.
    function sequencer() internal virtual returns (address) {
        return address(0);
    }

    function settleDelay() internal pure virtual returns (uint32) {
        return 0;
    }

    function listing() internal view returns (IMarketLister.OpenParams memory) {
        return IMarketLister.OpenParams({
            feed: address(feed),
            strikeTime: STRIKE,
            finalTime: FINAL,
            maxStrikeAge: 6 hours,
            maxFinalAge: 3 hours,
            seedPerLeg: uint64(10 * ONE),
            minEntry: uint64(ONE),
            maxEntry: uint64(1000 * ONE),
            family: 0
        });
    }

    function open() internal returns (uint256 marketId) {
        IMarketLister.OpenParams memory p = listing();
        vm.prank(OPENER);
        (marketId,) = lister.open(p);
    }
}
