// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {FixedPointMathLib} from "solady/src/utils/FixedPointMathLib.sol";

import {LocalFeed} from "../../../../contracts/local/LocalFeed.sol";
import {ISettlementWallet} from "../../../../contracts/settlement/ISettlementWallet.sol";
import {SettlementWallet} from "../../../../contracts/settlement/SettlementWallet.sol";
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

/// Replays what the Python mirror wrote (tests/unit/test_settlement_contract.py, to the folder VPM_SETTLEMENT_VECTORS) on the
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
        wallet = new SettlementWallet(address(token), address(this), address(0x7E));
        wallet.setRole(wallet.LISTER(), address(this), true);
        wallet.setRole(wallet.RELAYER(), address(this), true);
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

    /// [outcomes, virtual liquidity, fee, winner or outcomes for a void, trades, then of each trade: outcome, amount, shares,
    /// fee, price before, price after, owed at the end; then of each outcome: net, shares]
    function replayMarket(uint256[] calldata h) external returns (uint256 trades) {
        vm.warp(T0);
        LocalFeed feed = new LocalFeed();
        bytes32 id = bytes32(++_markets);
        wallet.list(id, spec(address(feed), h[0], h[1], h[2]), "");
        trades = h[4];
        for (uint256 k; k < trades; ++k) {
            trade(id, k, h[5 + 7 * k:12 + 7 * k]);
        }
        for (uint256 o; o < h[0]; ++o) {
            (uint256 net, uint256 shares,,) = wallet.outcomeBook(id, uint8(o));
            same("net", o, net, h[5 + 7 * trades + 2 * o]);
            same("shares of the outcome", o, shares, h[6 + 7 * trades + 2 * o]);
        }
        if (trades == 0) return 0;
        // Outcome k holds values from k * 10 to k * 10 + 10.
        vm.warp(CLOSE + 1);
        feed.push(h[3] == h[0] ? int256(0) : int256(h[3] * 10e8 + 1), CLOSE);
        if (h[3] == h[0]) wallet.voidMarket(id, 0);
        else wallet.resolve(id);
        uint256[] memory stakes = wallet.stakesOf(id, 0, trades);
        for (uint256 k; k < trades; ++k) {
            same("owed", k, wallet.stake(stakes[k]).payable_, h[11 + 7 * k]);
        }
        wallet.pay(id, stakes);
        (uint256 open, uint256 unpaid, uint256 fees) = wallet.liabilities();
        same("left owed", trades, open + unpaid, 0);
        if (fees != 0) wallet.sweepFees();
        same("left over", trades, token.balanceOf(address(wallet)), 0);
    }

    function trade(bytes32 id, uint256 number, uint256[] calldata t) private {
        (uint256 shares, uint256 fee, uint256 before, uint256 after_) = wallet.quote(id, uint8(t[0]), t[1]);
        same("fee", number, fee, t[3]);
        same("price before", number, before, t[4]);
        same("price after", number, after_, t[5]);
        ISettlementWallet.Intent memory i;
        (i.marketId, i.outcome, i.amount, i.minShares, i.wallet) = (id, uint8(t[0]), t[1], shares, address(0xA11CE));
        i.idemHash = keccak256(abi.encode(id, number));
        ISettlementWallet.Authorization memory a;
        a.nonce = i.idemHash;
        same("shares", number, wallet.stake(wallet.settle(i, a)).shares, t[2]);
    }

    function spec(address feed, uint256 outcomes, uint256 liquidity, uint256 feeBps)
        private
        pure
        returns (ISettlementWallet.MarketSpec memory s)
    {
        (s.kind, s.feed, s.opensAt, s.closesAt) = (1, feed, uint64(T0), uint64(CLOSE));
        (s.maxAge, s.voidDelay, s.feeBps, s.outcomes) = (1 hours, 3 days, uint16(feeBps), uint8(outcomes));
        s.virtualLiquidity = uint64(liquidity);
        s.bounds = new int256[](outcomes - 1);
        for (uint256 k; k < outcomes - 1; ++k) {
            s.bounds[k] = int256((k + 1) * 10e8);
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
