// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {Base} from "../Base.sol";
import {RecordedBuild} from "../RecordedBuild.sol";
import {SignedEntries} from "./SignedEntries.sol";
import {FullStack} from "./FullStack.sol";
import {StockBase} from "./StockBase.sol";

/// What the calls cost: the execution gas of a separate transaction, cold storage, without the 21,000 base and calldata.
/// Isolation makes every call below such a transaction. Each row is logged as `GAS|token|row|gas|limit` and fails above its
/// limit, so a row that grows is noticed; a row that shrinks asks for a lower limit. On USDG, the token of the stock markets' chain.
/// forge-config: default.isolate = true
contract GasTest is FullStack, SignedEntries, RecordedBuild {
    event log(string line);

    function artifactOf(string memory name) internal pure override(Base, RecordedBuild) returns (string memory) {
        return RecordedBuild.artifactOf(name);
    }

    function tokenName() internal pure override returns (string memory) {
        return "LocalUSDG";
    }

    /// Bettors' balances and allowances are left above zero, winners' balances start at zero: the dearer way for both.
    address private constant BETTOR = address(0xBE77);

    uint256 private market;

    function setUp() public override(FullStack, StockBase) {
        FullStack.setUp();
        open();
        market = open();
        give(BETTOR);
        give(vm.addr(KEY));
    }

    // ---------------------------------------------------------------- Opening

    function test_gas_open() external {
        vm.prank(OPENER);
        lister.open(listing());
        report("open a market (create + register + list)", abi.encodeCall(lister.open, (listing())), 334_400);
    }

    // ---------------------------------------------------------------- Entering

    function test_gas_enterFirstOfAMarket() external {
        nextBlock();
        measureEnter("enter, first of a market", UP, 66_500);
    }

    function test_gas_enterFirstInABlock() external {
        vintage(1, 5e6);
        measureEnter("enter, first in a block (finalizes a vintage)", UP, 99_900);
    }

    function test_gas_enterFirstInABlockAfterARationedVintage() external {
        vintage(1, 500e6);
        measureEnter("enter, first in a block (finalizes a rationed vintage)", UP, 123_100);
    }

    function test_gas_enterJoining() external {
        vintage(1, 5e6);
        enter(ALICE, market, UP, 5e6);
        measureEnter("enter, joining an open vintage", UP, 65_700);
    }

    function test_gas_enterJoiningTheOtherSide() external {
        vintage(1, 5e6);
        enter(ALICE, market, UP, 5e6);
        measureEnter("enter, joining an open vintage on its empty side", DOWN, 65_800);
    }

    function test_gas_enterWithAuthorizationJoining() external {
        vintage(1, 5e6);
        enter(ALICE, market, UP, 5e6);
        Entry memory e = entry(market, UP, 5e6);
        bytes memory signature = sign(e, KEY);
        send(e, signature);
        bytes memory data = abi.encodeCall(
            markets.enterWithAuthorization, (e.from, market, UP, 5e6, e.validAfter, e.validBefore, e.salt, signature)
        );
        report("enterWithAuthorization, joining", data, 95_400);
    }

    function measureEnter(string memory row, uint8 outcome, uint256 limit) private {
        vm.prank(BETTOR);
        markets.enter(market, outcome, 5e6);
        report(row, abi.encodeCall(markets.enter, (market, outcome, 5e6)), limit);
    }

    // ---------------------------------------------------------------- Vintages and settling

    function test_gas_finalizeVintageOf2() external {
        vintage(1, 5e6);
        measureFinalize("finalize a vintage of 2 entries", 42_100);
    }

    function test_gas_finalizeVintageOf200() external {
        vintage(100, 2e6);
        measureFinalize("finalize a vintage of 200 entries", 42_100);
    }

    function test_gas_finalizeARationedVintageOf200() external {
        vintage(100, 5e6);
        measureFinalize("finalize a rationed vintage of 200 entries", 42_300);
    }

    function measureFinalize(string memory row, uint256 limit) private {
        markets.finalizeVintage(market);
        report(row, abi.encodeCall(markets.finalizeVintage, (market)), limit);
    }

    function test_gas_resolveWith() external {
        vintage(1, 5e6);
        markets.finalizeVintage(market);
        measureResolve("resolve from two given rounds", 54_700);
    }

    function test_gas_resolveWithAnOpenVintage() external {
        vintage(1, 5e6);
        measureResolve("resolve from two given rounds, finalizing a vintage", 90_900);
    }

    function measureResolve(string memory row, uint256 limit) private {
        uint80 strike = feed.push(100e8, STRIKE - 5);
        feed.push(101e8, STRIKE + 5);
        uint80 last = feed.push(102e8, FINAL - 5);
        feed.push(103e8, FINAL + 5);
        vm.warp(FINAL + 60);
        resolver.resolveWith(market, strike, last);
        report(row, abi.encodeCall(resolver.resolveWith, (market, strike, last)), limit);
    }

    function test_gas_voidMarket() external {
        vintage(1, 5e6);
        vm.warp(FINAL + 72 hours);
        markets.voidMarket(market);
        report("void a market, finalizing a vintage", abi.encodeCall(markets.voidMarket, (market)), 46_300);
    }

    // ---------------------------------------------------------------- Paying

    function test_gas_deliverWinnersOfOneVintage() external {
        for (uint256 i = 0; i < 50; ++i) {
            enter(winner(i), market, UP, 5e6);
        }
        nextBlock();
        enter(BOB, market, DOWN, 7e6);
        measureDeliver("deliver a winning position, in a batch of 50 (each)", 39_400);
    }

    function test_gas_deliverWinnersOfManyVintages() external {
        for (uint256 i = 0; i < 50; ++i) {
            enter(winner(i), market, UP, 5e6);
            enter(BOB, market, DOWN, 7e6);
            nextBlock();
        }
        measureDeliver("deliver a winning position alone in its vintage, in a batch of 50 (each)", 41_400);
    }

    /// Every vintage rationed: what is left of the headroom is less than what is offered.
    function test_gas_deliverRationedWinnersOfManyVintages() external {
        for (uint256 i = 0; i < 50; ++i) {
            enter(winner(i), market, UP, 900e6);
            enter(BOB, market, DOWN, 1e6);
            nextBlock();
        }
        measureDeliver("deliver a rationed winning position alone in its vintage, in a batch of 50 (each)", 44_100);
    }

    function measureDeliver(string memory row, uint256 limit) private {
        settleForUp();
        uint256[] memory ids = new uint256[](50);
        for (uint256 i = 0; i < 50; ++i) {
            ids[i] = idOf(market, UP, i + 1);
        }
        vm.assertEq(markets.deliver(ids), 50);
        uint256 gas = execution(abi.encodeCall(markets.deliver, (ids)));
        line(row, gas / 50, limit);
    }

    function test_gas_claim() external {
        uint256 id = enter(winner(1), market, UP, 5e6);
        nextBlock();
        enter(BOB, market, DOWN, 7e6);
        settleForUp();
        markets.claim(id);
        report("claim a winning position", abi.encodeCall(markets.claim, (id)), 72_300);
    }

    function test_gas_withdrawRefund() external {
        uint256 id = enter(winner(1), market, UP, 900e6);
        nextBlock();
        markets.withdrawRefund(id);
        report("withdraw a refused part", abi.encodeCall(markets.withdrawRefund, (id)), 65_300);
    }

    function settleForUp() private {
        feed.push(100e8, STRIKE);
        feed.push(101e8, FINAL - 5);
        vm.warp(FINAL + 60);
        resolver.resolve(market);
    }

    // ---------------------------------------------------------------- Helpers

    /// A finished vintage of `entries` entries on each side.
    function vintage(uint256 entries, uint256 amount) private {
        nextBlock();
        for (uint256 i = 0; i < entries; ++i) {
            enter(ALICE, market, UP, amount);
            enter(BOB, market, DOWN, amount);
        }
        nextBlock();
    }

    function winner(uint256 i) private pure returns (address) {
        return address(uint160(0x3140000 + i));
    }

    function give(address who) private {
        token.mint(who, 10_000e6);
        vm.prank(who);
        token.approve(address(markets), 10_000e6);
    }

    function report(string memory row, bytes memory data, uint256 limit) private {
        line(row, execution(data), limit);
    }

    /// Of the last call, which must have been made with `data`.
    function execution(bytes memory data) private view returns (uint256) {
        uint256 gas = vm.lastCallGas().gasTotalUsed;
        uint256 intrinsic = 21_000;
        for (uint256 i = 0; i < data.length; ++i) {
            intrinsic += data[i] == 0 ? 4 : 16;
        }
        vm.assertGt(gas, intrinsic);
        return gas - intrinsic;
    }

    function line(string memory row, uint256 gas, uint256 limit) private {
        string memory l = string.concat("GAS|", token.symbol(), "|", row, "|", decimal(gas), "|", decimal(limit));
        emit log(l);
        vm.assertLe(gas, limit, l);
    }

    function decimal(uint256 n) private pure returns (string memory s) {
        do {
            s = string.concat(string(abi.encodePacked(bytes1(uint8(48 + n % 10)))), s);
            n /= 10;
        } while (n != 0);
    }
}
