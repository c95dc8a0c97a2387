// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {IAgentLister} from "../../../../contracts/agent/IAgentLister.sol";
import {ISettlementWallet} from "../../../../contracts/agent/ISettlementWallet.sol";
import {Base} from "../Base.sol";
import {RecordedBuild} from "../RecordedBuild.sol";
import {WalletBase} from "./WalletBase.sol";

interface VmStore {
    function store(address target, bytes32 slot, bytes32 value) external;
}

/// What calls cost as transactions of their own (isolated, so every account and slot is cold), execution only: without the base cost
/// and calldata. On USDC behind its proxy, as local chains have it. Each row is logged as `GAS|token|row|gas|limit` and fails above its limit,
/// which is what it costs, so that a row that grows is noticed; a row that shrinks asks for a lower limit.
/// forge-config: default.isolate = true
contract Gas is WalletBase, RecordedBuild {
    bytes32 private constant EIGHT = "8";
    event log(string line);

    function artifactOf(string memory name) internal pure override(Base, RecordedBuild) returns (string memory) {
        return RecordedBuild.artifactOf(name);
    }

    function newToken() internal override returns (address proxy) {
        proxy = deploy("LocalUSDCProxy", "");
        VmStore(address(vm))
            .store(
                proxy,
                keccak256("org.zeppelinos.proxy.implementation"),
                bytes32(uint256(uint160(deploy("LocalUSDC", ""))))
            );
    }

    function test_settleIntoAWarmMarket() public {
        warm();
        ISettlementWallet.Bet memory b = bet(LATE, YES, 10e6, alice);
        ISettlementWallet.Authorization memory a = authorize(ALICE_KEY, b, freshNonce());
        measure("settle into a warm market", 191_100, RELAYER, address(wallet), abi.encodeCall(wallet.settle, (b, a)));
    }

    function test_settleBoundByAStranger() public {
        warm();
        ISettlementWallet.Bet memory b = bet(LATE, YES, 10e6, bob);
        ISettlementWallet.Authorization memory a = authorizeBound(BOB_KEY, b);
        measure(
            "settle bound, by a stranger", 188_900, STRANGER, address(wallet), abi.encodeCall(wallet.settle, (b, a))
        );
    }

    function test_settleReceiveForm() public {
        warm();
        ISettlementWallet.Bet memory b = bet(LATE, YES, 10e6, bob);
        ISettlementWallet.Authorization memory a = authorizeReceive(BOB_KEY, b);
        measure("settle in the receive form", 166_500, STRANGER, address(wallet), abi.encodeCall(wallet.settle, (b, a)));
    }

    function test_credit() public {
        warm();
        ISettlementWallet.Bet memory b = bet(LATE, YES, 10e6, bob);
        ISettlementWallet.Authorization memory a = authorize(BOB_KEY, b, freshNonce());
        frontRun(bob, a);
        measure("credit", 150_200, CREDITOR, address(wallet), abi.encodeCall(wallet.credit, (b, a)));
    }

    function test_resolveAGivenRound() public {
        warm();
        settle(LATE, NO, 10e6, BOB_KEY);
        resolution("resolve a wallet market with a given round", 72_500, LATE, tape(), 0);
    }

    function test_resolveARangeOfEight() public {
        IAgentLister.MarketSpec memory s = rangeSpec();
        s.weights = new uint32[](8);
        s.bounds = new int256[](7);
        for (uint256 k; k < 8; ++k) {
            s.weights[k] = WEIGHT;
            if (k != 7) s.bounds[k] = int256(20e8 * (k + 1));
        }
        list(EIGHT, s);
        settle(EIGHT, 5, 10e6, ALICE_KEY);
        settle(EIGHT, 6, 10e6, ALICE_KEY);
        resolution("resolve a range of 8 with a given round", 87_900, EIGHT, tape(), 0);
    }

    function test_resolveDirection() public {
        settle(UPDOWN, YES, 10e6, ALICE_KEY);
        settle(UPDOWN, NO, 10e6, ALICE_KEY);
        resolution("resolve a direction, finding the start", 138_900, UPDOWN, tape(), 0);
    }

    function test_resolvePublished() public {
        settle(POSTED, YES, 10e6, ALICE_KEY);
        settle(POSTED, NO, 10e6, ALICE_KEY);
        vm.warp(END - 60);
        vm.prank(PUBLISHER);
        uint80 round = posted.post(100e8, uint64(END - 60));
        resolution("resolve on a feed with a publisher, a given round", 74_500, POSTED, round, 0);
    }

    function test_resolveFinding() public {
        warm();
        tape();
        resolution("resolve, finding the round", 54_900, LATE, 0, 0);
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
        vm.warp(END + 2 hours);
        resolver.resolveWith(LATE, round, 0);
        bytes memory data = abi.encodeCall(wallet.pay, (LATE, stakes));
        measure("pay a stake, in a batch of 50 (each)", 40_000, STRANGER, address(wallet), data, 50);
        vm.assertGt(token.balanceOf(vm.addr(0xFACE + 49)), 0);
    }

    function test_list() public {
        bytes memory metadata = new bytes(400);
        for (uint256 k; k < 400; ++k) {
            metadata[k] = "x";
        }
        measure(
            "list a binary market with 400 bytes of metadata",
            210_900,
            LISTER,
            address(lister),
            abi.encodeCall(lister.list, ("m", thresholdSpec(false), string(metadata)))
        );
    }

    /// Both books have been written, and the payers' wallets hold something: as in a market that is on its way.
    function warm() private {
        settle(LATE, YES, 10e6, ALICE_KEY);
        settle(LATE, YES, 10e6, BOB_KEY);
    }

    /// A round every ten minutes until the end; the last is in effect there and over the target.
    function tape() private returns (uint80 last) {
        for (uint256 t = T0 + 10 minutes; t <= END; t += 10 minutes) {
            last = feed.push(t == END ? int256(101e8) : int256(90e8), t);
        }
    }

    function resolution(string memory name, uint256 most, bytes32 id, uint80 end, uint80 start) private {
        vm.warp(END + 2 hours);
        measure(name, most, STRANGER, address(resolver), abi.encodeCall(resolver.resolveWith, (id, end, start)));
    }

    function measure(string memory name, uint256 most, address caller, address to, bytes memory data) private {
        measure(name, most, caller, to, data, 1);
    }

    function measure(string memory name, uint256 most, address caller, address to, bytes memory data, uint256 parts)
        private
    {
        vm.prank(caller);
        (bool ok,) = to.call(data);
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
