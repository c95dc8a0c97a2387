// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {ISettlementWallet} from "../../../../contracts/settlement/ISettlementWallet.sol";
import {OnUsdc} from "./WalletBase.sol";

/// What calls cost as transactions of their own (isolated, so every account and slot is cold), execution only: without the base cost
/// and calldata. On the local USDC. Each row is logged as `GAS|token|row|gas|limit` and fails above its limit, which is what it
/// costs, so that a row that grows is noticed; a row that shrinks asks for a lower limit.
/// forge-config: default.isolate = true
contract Gas is OnUsdc {
    bytes32 private constant SIXTEEN = "16";
    event log(string line);

    function test_settleIntoAWarmMarket() public {
        settle(LATE, YES, 10e6, ALICE_KEY);
        settle(LATE, YES, 10e6, BOB_KEY);
        ISettlementWallet.Intent memory i = intent(LATE, YES, 10e6, alice);
        ISettlementWallet.Authorization memory a = authorize(ALICE_KEY, i, freshNonce());
        measure("settle into a warm market", 182_400, RELAYER, abi.encodeCall(wallet.settle, (i, a)));
    }

    function test_settleBoundByAStranger() public {
        settle(LATE, YES, 10e6, ALICE_KEY);
        ISettlementWallet.Intent memory i = intent(LATE, YES, 10e6, bob);
        ISettlementWallet.Authorization memory a = authorize(BOB_KEY, i, wallet.intentHash(i));
        measure("settle bound, by a stranger", 180_000, STRANGER, abi.encodeCall(wallet.settle, (i, a)));
    }

    function test_credit() public {
        settle(LATE, YES, 10e6, ALICE_KEY);
        ISettlementWallet.Intent memory i = intent(LATE, YES, 10e6, bob);
        ISettlementWallet.Authorization memory a = authorize(BOB_KEY, i, freshNonce());
        frontRun(i, a);
        measure("credit", 143_000, RELAYER, abi.encodeCall(wallet.credit, (i, a)));
    }

    function test_resolveAGivenRound() public {
        settle(LATE, YES, 10e6, ALICE_KEY);
        settle(LATE, NO, 10e6, BOB_KEY);
        uint80 round = tape();
        vm.warp(CLOSE + 1);
        measure(
            "resolve a wallet market with a given round",
            51_800,
            STRANGER,
            abi.encodeWithSignature("resolve(bytes32,uint80)", LATE, round)
        );
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
            "resolve a range of 16 with a given round",
            75_200,
            STRANGER,
            abi.encodeWithSignature("resolve(bytes32,uint80)", SIXTEEN, round)
        );
    }

    function test_resolveEarly() public {
        settle(EARLY, YES, 10e6, ALICE_KEY);
        uint80 round = tape();
        vm.warp(CLOSE + 1);
        measure(
            "resolve early with a given round",
            53_200,
            STRANGER,
            abi.encodeWithSignature("resolve(bytes32,uint80)", EARLY, round)
        );
    }

    function test_resolveDirection() public {
        settle(UPDOWN, YES, 10e6, ALICE_KEY);
        uint80 round = tape();
        vm.warp(CLOSE + 1);
        measure(
            "resolve a direction, finding the start",
            109_100,
            STRANGER,
            abi.encodeWithSignature("resolve(bytes32,uint80)", UPDOWN, round)
        );
    }

    function test_resolveFinding() public {
        settle(LATE, YES, 10e6, ALICE_KEY);
        tape();
        vm.warp(CLOSE + 1);
        measure("resolve, finding the round", 56_700, STRANGER, abi.encodeWithSignature("resolve(bytes32)", LATE));
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
        measure(
            "pay a stake, in a batch of 50 (each)", 39_400, STRANGER, abi.encodeCall(wallet.pay, (LATE, stakes)), 50
        );
        vm.assertGt(token.balanceOf(vm.addr(0xFACE + 49)), 0);
    }

    function test_list() public {
        bytes memory metadata = new bytes(400);
        for (uint256 k; k < 400; ++k) {
            metadata[k] = "x";
        }
        ISettlementWallet.MarketSpec memory s = thresholdSpec(true);
        measure(
            "list a binary market with 400 bytes of metadata",
            122_000,
            LISTER,
            abi.encodeCall(wallet.list, ("m", s, string(metadata)))
        );
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
        string memory line = string.concat("GAS|USDC|", name, "|", decimal(used), "|", decimal(most));
        emit log(line);
        vm.assertLe(used, most, line);
    }

    function decimal(uint256 n) private pure returns (string memory s) {
        do {
            s = string.concat(string(abi.encodePacked(bytes1(uint8(48 + n % 10)))), s);
            n /= 10;
        } while (n != 0);
    }

    function intrinsic(bytes memory data) private pure returns (uint256 gas) {
        gas = 21_000;
        for (uint256 k; k < data.length; ++k) {
            gas += data[k] == 0 ? 4 : 16;
        }
    }
}
