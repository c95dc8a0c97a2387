// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {ISettlementWallet} from "../../../../contracts/settlement/ISettlementWallet.sol";
import {OnUsdc} from "./WalletBase.sol";

/// What calls cost as transactions of their own (isolated, so every account and slot is cold), execution only: without the base cost
/// and calldata. On the local USDC. Prints `GAS <row> <gas>` and fails over the figure promised.
/// forge-config: default.isolate = true
contract Gas is OnUsdc {
    bytes32 private constant SIXTEEN = "16";
    address private constant CONSOLE = 0x000000000000000000636F6e736F6c652e6c6f67; // has no code; forge listens to it

    function test_settleIntoAWarmMarket() public {
        settle(LATE, YES, 10e6, ALICE_KEY);
        settle(LATE, YES, 10e6, BOB_KEY);
        ISettlementWallet.Intent memory i = intent(LATE, YES, 10e6, alice);
        ISettlementWallet.Authorization memory a = authorize(ALICE_KEY, i, freshNonce());
        measure("settlement.settle", 190_000, RELAYER, abi.encodeCall(wallet.settle, (i, a)));
    }

    function test_settleBoundByAStranger() public {
        settle(LATE, YES, 10e6, ALICE_KEY);
        ISettlementWallet.Intent memory i = intent(LATE, YES, 10e6, bob);
        ISettlementWallet.Authorization memory a = authorize(BOB_KEY, i, wallet.intentHash(i));
        measure("settlement.settleBound", 190_000, STRANGER, abi.encodeCall(wallet.settle, (i, a)));
    }

    function test_credit() public {
        settle(LATE, YES, 10e6, ALICE_KEY);
        ISettlementWallet.Intent memory i = intent(LATE, YES, 10e6, bob);
        ISettlementWallet.Authorization memory a = authorize(BOB_KEY, i, freshNonce());
        frontRun(i, a);
        measure("settlement.credit", 190_000, RELAYER, abi.encodeCall(wallet.credit, (i, a)));
    }

    function test_resolveAGivenRound() public {
        settle(LATE, YES, 10e6, ALICE_KEY);
        settle(LATE, NO, 10e6, BOB_KEY);
        uint80 round = tape();
        vm.warp(CLOSE + 1);
        measure("settlement.resolve", 90_000, STRANGER, abi.encodeWithSignature("resolve(bytes32,uint80)", LATE, round));
    }

    function test_resolveARangeOfSixteen() public {
        ISettlementWallet.MarketSpec memory s = rangeSpec();
        s.outcomes = 16;
        s.bounds = new int256[](15);
        for (uint256 k; k < 15; ++k) {
            s.bounds[k] = int256(10e8 * (k + 1));
        }
        list(SIXTEEN, s);
        settle(SIXTEEN, 9, 10e6, ALICE_KEY);
        uint80 round = tape();
        vm.warp(CLOSE + 1);
        measure(
            "settlement.resolveRange16",
            90_000,
            STRANGER,
            abi.encodeWithSignature("resolve(bytes32,uint80)", SIXTEEN, round)
        );
    }

    function test_resolveEarly() public {
        settle(EARLY, YES, 10e6, ALICE_KEY);
        uint80 round = tape();
        vm.warp(CLOSE + 1);
        measure(
            "settlement.resolveEarly",
            100_000,
            STRANGER,
            abi.encodeWithSignature("resolve(bytes32,uint80)", EARLY, round)
        );
    }

    function test_resolveDirection() public {
        settle(UPDOWN, YES, 10e6, ALICE_KEY);
        uint80 round = tape();
        vm.warp(CLOSE + 1);
        measure(
            "settlement.resolveDirection",
            250_000,
            STRANGER,
            abi.encodeWithSignature("resolve(bytes32,uint80)", UPDOWN, round)
        );
    }

    function test_resolveFinding() public {
        settle(LATE, YES, 10e6, ALICE_KEY);
        tape();
        vm.warp(CLOSE + 1);
        measure("settlement.resolveFinding", 120_000, STRANGER, abi.encodeWithSignature("resolve(bytes32)", LATE));
    }

    function test_payFifty() public {
        uint256[] memory stakes = new uint256[](50);
        for (uint256 k; k < 50; ++k) {
            uint256 key = 0xFACE + k;
            token.mint(vm.addr(key), 10e6);
            stakes[k] = settle(LATE, YES, 10e6, key);
        }
        settle(LATE, NO, 100e6, ALICE_KEY);
        uint80 round = tape();
        vm.warp(CLOSE + 1);
        wallet.resolve(LATE, round);
        measure("settlement.payOfFifty", 40_000, STRANGER, abi.encodeCall(wallet.pay, (LATE, stakes)), 50);
        vm.assertGt(token.balanceOf(vm.addr(0xFACE + 49)), 0);
    }

    function test_list() public {
        bytes memory metadata = new bytes(400);
        for (uint256 k; k < 400; ++k) {
            metadata[k] = "x";
        }
        ISettlementWallet.MarketSpec memory s = thresholdSpec(true);
        measure("settlement.list", 260_000, LISTER, abi.encodeCall(wallet.list, ("m", s, string(metadata))));
    }

    /// A round every ten minutes until the deadline; the last is in effect there and over the target.
    function tape() private returns (uint80 last) {
        for (uint256 t = T0; t <= CLOSE; t += 10 minutes) {
            last = feed.push(t == CLOSE ? int256(101e8) : int256(90e8), t);
        }
    }

    function measure(string memory name, uint256 most, address caller, bytes memory data) private {
        measure(name, most, caller, data, 1);
    }

    function measure(string memory name, uint256 most, address caller, bytes memory data, uint256 parts) private {
        vm.prank(caller);
        (bool ok,) = address(wallet).call(data);
        vm.assertTrue(ok, name);
        uint256 used = (vm.lastCallGas().gasTotalUsed - intrinsic(data)) / parts;
        (ok,) = CONSOLE.staticcall(abi.encodeWithSignature("log(string,uint256)", string.concat("GAS ", name), used));
        vm.assertTrue(ok);
        vm.assertLe(used, most, name);
    }

    function intrinsic(bytes memory data) private pure returns (uint256 gas) {
        gas = 21_000;
        for (uint256 k; k < data.length; ++k) {
            gas += data[k] == 0 ? 4 : 16;
        }
    }
}
