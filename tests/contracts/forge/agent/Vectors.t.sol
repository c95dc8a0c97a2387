// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {FixedPointMathLib} from "solady/src/utils/FixedPointMathLib.sol";

import {ISettlementWallet} from "../../../../contracts/agent/ISettlementWallet.sol";
import {SettlementWallet} from "../../../../contracts/agent/SettlementWallet.sol";
import {Base} from "../Base.sol";

/// Delivers every authorization unread: signatures are other tests' matter, and the slowest part of twenty thousand stakes.
contract TrustingToken {
    mapping(address account => uint256 value) public balanceOf;

    function DOMAIN_SEPARATOR() external pure returns (bytes32) {
        return 0;
    }

    function authorizationState(address, bytes32) external pure returns (bool) {
        return false;
    }

    function transferWithAuthorization(address, address to, uint256 value, uint256, uint256, bytes32, bytes calldata)
        external
    {
        balanceOf[to] += value;
    }

    function transfer(address to, uint256 value) external returns (bool) {
        balanceOf[msg.sender] -= value;
        balanceOf[to] += value;
        return true;
    }
}

/// Replays what the Python mirror wrote (tests/contracts/test_settlement_contract.py, to the folder VPM_SETTLEMENT_VECTORS) on the
/// contract and compares every number. Alone, without such files, it has nothing to do and says so.
contract Vectors is Base {
    uint256 private constant T0 = 1_800_000_000;
    uint256 private constant CLOSE = T0 + 1 days;
    address private constant CONSOLE = 0x000000000000000000636F6e736F6c652e6c6f67;

    error Differs(string what, uint256 market, uint256 trade, uint256 contract_, uint256 mirror);

    TrustingToken private token;
    SettlementWallet private wallet;
    uint256 private _markets;

    function setUp() public {
        vm.warp(T0);
        token = new TrustingToken();
        address me = address(this); // lister, resolver, guardian and owner
        wallet = new SettlementWallet(address(token), me, me, me, me, address(0x7E));
        wallet.setRole(wallet.RELAYER(), me, true);
    }

    function test_tradesEqualTheMirror() public {
        if (!vm.exists(file("trades-", 0))) return vm.skip(true, "no vectors written");
        uint256 trades;
        for (uint256 k; vm.exists(file("trades-", k)); ++k) {
            trades += this.replayFile(file("trades-", k));
        }
        say("trades replayed", trades);
    }

    function test_logarithmsEqualTheMirror() public {
        if (!vm.exists(file("ln-", 0))) return vm.skip(true, "no vectors written");
        uint256[] memory words = abi.decode(vm.readFileBinary(file("ln-", 0)), (uint256[]));
        for (uint256 k; k < words.length; k += 2) {
            uint256 ln = uint256(FixedPointMathLib.lnWad(int256(words[k])));
            if (ln != words[k + 1]) revert Differs("ln", 0, k, ln, words[k + 1]);
        }
        say("logarithms replayed", words.length / 2);
    }

    /// An external call for each file, so that its memory is given back.
    function replayFile(string calldata path) external returns (uint256 trades) {
        uint256[] memory words = abi.decode(vm.readFileBinary(path), (uint256[]));
        uint256 at_;
        while (at_ < words.length) {
            uint256 length = words[at_];
            uint256[] memory history = new uint256[](length);
            for (uint256 k; k < length; ++k) {
                history[k] = words[at_ + 1 + k];
            }
            trades += this.replayMarket(history);
            at_ += 1 + length;
        }
    }

    /// [outcomes, fee, winner or outcomes for a void, trades, a weight for each outcome, then of each trade: outcome, amount, shares,
    /// fee, price before, price after, owed at the end; then of each outcome: net, shares, excess]
    function replayMarket(uint256[] calldata h) external returns (uint256 trades) {
        vm.warp(T0);
        bytes32 id = bytes32(++_markets);
        uint256 outcomes = h[0];
        trades = h[3];
        wallet.open(id, params(h[1], h[4:4 + outcomes]));
        uint256 first = 4 + outcomes;
        for (uint256 k; k < trades; ++k) {
            trade(id, k, h[first + 7 * k:first + 7 * k + 7]);
        }
        sameBooks(id, outcomes, h[first + 7 * trades:]);
        if (h[2] == outcomes) wallet.voidMarket(id, 4);
        else wallet.resolve(id, uint8(h[2]));
        uint256[] memory stakes = wallet.stakesOf(id, 0, trades);
        for (uint256 k; k < trades; ++k) {
            same("owed", k, wallet.stake(stakes[k]).payable_, h[first + 7 * k + 6]);
        }
        wallet.pay(id, stakes);
        (uint256 open, uint256 unpaid, uint256 fees) = wallet.liabilities();
        same("left owed", trades, open + unpaid, 0);
        if (fees != 0) wallet.sweepFees();
        same("left over", trades, token.balanceOf(address(wallet)), 0);
    }

    function sameBooks(bytes32 id, uint256 outcomes, uint256[] calldata books) private view {
        for (uint256 o; o < outcomes; ++o) {
            ISettlementWallet.BookView memory book = wallet.outcomeBook(id, uint8(o));
            same("net", o, book.net, books[3 * o]);
            same("shares of the outcome", o, book.shares, books[3 * o + 1]);
            same("excess", o, book.excess, books[3 * o + 2]);
        }
    }

    function trade(bytes32 id, uint256 number, uint256[] calldata t) private {
        (uint256 shares, uint256 fee, uint256 before, uint256 after_) = wallet.quote(id, uint8(t[0]), t[1]);
        same("fee", number, fee, t[3]);
        same("price before", number, before, t[4]);
        same("price after", number, after_, t[5]);
        ISettlementWallet.Bet memory b;
        (b.marketId, b.outcome, b.amount, b.minShares, b.wallet) = (id, uint8(t[0]), t[1], shares, address(0xA11CE));
        b.idemHash = keccak256(abi.encode(id, number));
        ISettlementWallet.Authorization memory a;
        (a.value, a.nonce) = (t[1], b.idemHash);
        same("shares", number, wallet.stake(wallet.settle(b, a)).shares, t[2]);
    }

    function params(uint256 feeBps, uint256[] calldata weights)
        private
        pure
        returns (ISettlementWallet.OpenParams memory p)
    {
        (p.opensAt, p.closesAt, p.feeBps, p.potCap) = (uint64(T0), uint64(CLOSE), uint16(feeBps), 5e17);
        p.weights = new uint32[](weights.length);
        for (uint256 k; k < weights.length; ++k) {
            p.weights[k] = uint32(weights[k]);
        }
    }

    function same(string memory what, uint256 trade_, uint256 contract_, uint256 mirror) private view {
        if (contract_ != mirror) revert Differs(what, _markets, trade_, contract_, mirror);
    }

    function file(string memory name, uint256 number) private view returns (string memory) {
        string memory folder = vm.envOr("VPM_SETTLEMENT_VECTORS", string(".vpm/build/settlement/"));
        return string.concat(folder, name, digits(number), ".bin");
    }

    function digits(uint256 number) private pure returns (string memory) {
        if (number < 10) return string(abi.encodePacked(bytes1(uint8(48 + number))));
        return string.concat(digits(number / 10), digits(number % 10));
    }

    function say(string memory what, uint256 number) private view {
        (bool ok,) = CONSOLE.staticcall(abi.encodeWithSignature("log(string,uint256)", what, number));
        vm.assertTrue(ok);
    }
}
