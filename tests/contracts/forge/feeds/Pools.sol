// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {ERC20} from "@openzeppelin/contracts/token/ERC20/ERC20.sol";

import {IObservedPool} from "../../../../contracts/feeds/IObservedPool.sol";
import {IPoolFeed} from "../../../../contracts/feeds/IPoolFeed.sol";
import {PoolFeed} from "../../../../contracts/feeds/PoolFeed.sol";
import {Base} from "../Base.sol";
import {Ticks} from "./Ticks.sol";

interface IFactory {
    function createPool(address a, address b, uint24 fee) external returns (address);
}

interface IPool is IObservedPool {
    function initialize(uint160 sqrtPriceX96) external;
    function mint(address to, int24 lower, int24 upper, uint128 amount, bytes calldata data) external;
    function burn(int24 lower, int24 upper, uint128 amount) external;
    function swap(address to, bool zeroForOne, int256 amount, uint160 limit, bytes calldata data) external;
    function flash(address to, uint256 amount0, uint256 amount1, bytes calldata data) external;
    function increaseObservationCardinalityNext(uint16 next) external;
    function observe(uint32[] calldata ago) external view returns (int56[] memory, uint160[] memory);
}

interface VmArtifacts {
    function getCode(string calldata artifact) external view returns (bytes memory);
    function pauseGasMetering() external;
    function envOr(string calldata name, uint256 defaultValue) external view returns (uint256);
}

contract Coin is ERC20 {
    uint8 private immutable _decimals;

    constructor(uint8 decimals_) ERC20("", "") {
        _decimals = decimals_;
    }

    function decimals() public view override returns (uint8) {
        return _decimals;
    }

    function mint(address to, uint256 value) external {
        _mint(to, value);
    }

    function burn(address from, uint256 value) external {
        _burn(from, value);
    }
}

/// Uniswap v3 as it was published: the factory's creation code from its npm package makes the pools. This contract is every trader and
/// every provider of liquidity, and prints what it pays with.
abstract contract Pools is Base {
    string private constant FACTORY =
        "node_modules/@uniswap/v3-core/artifacts/contracts/UniswapV3Factory.sol/UniswapV3Factory.json";
    uint256 internal constant RING = 8; // the pool's storage slot of observations[0]; slot0 is slot 0
    uint24 internal constant FEE = 3000;
    int24 internal constant SPACING = 60;
    int24 internal constant WIDEST = 887220;

    IFactory internal factory;

    function newFactory() internal {
        bytes memory code = VmArtifacts(address(vm)).getCode(FACTORY);
        address made;
        assembly ("memory-safe") {
            made := create(0, add(code, 32), mload(code))
        }
        vm.assertTrue(made != address(0), "no factory");
        factory = IFactory(made);
    }

    /// Two coins whose addresses are in this order, so that the first is the pool's token0 or is not.
    function coins(uint8 a, uint8 b, bool aIsToken0) internal returns (Coin first, Coin second) {
        first = new Coin(a);
        do {
            second = new Coin(b);
        } while ((address(first) < address(second)) != aIsToken0);
    }

    function newPool(Coin a, Coin b, int24 tick) internal returns (IPool pool) {
        pool = IPool(factory.createPool(address(a), address(b), FEE));
        pool.initialize(Ticks.ratioAt(tick));
    }

    function grow(IPool pool, uint256 size) internal {
        pool.increaseObservationCardinalityNext(uint16(size));
    }

    function provide(IPool pool, int24 lower, int24 upper, uint128 amount) internal {
        pool.mint(address(this), lower, upper, amount, "");
    }

    /// Swaps until the price is that of the tick, and a little over where asked; nothing where it is there already.
    function moveTo(IPool pool, int24 tick) internal {
        moveTo(pool, tick, 0);
    }

    function moveTo(IPool pool, int24 tick, uint256 over) internal {
        (uint160 price,,,,) = pool.slot0();
        uint160 goal = uint160(uint256(Ticks.ratioAt(tick)) + over);
        if (goal == price) return;
        pool.swap(address(this), goal < price, type(int128).max, goal, "");
    }

    function tickOf(IPool pool) internal view returns (int24 tick) {
        (, tick,,,) = pool.slot0();
    }

    function uniswapV3MintCallback(uint256 owed0, uint256 owed1, bytes calldata) external {
        pay(owed0, owed1);
    }

    function uniswapV3SwapCallback(int256 owed0, int256 owed1, bytes calldata data) external {
        pay(owed0 > 0 ? uint256(owed0) : 0, owed1 > 0 ? uint256(owed1) : 0);
        within(data);
    }

    function uniswapV3FlashCallback(uint256 fee0, uint256 fee1, bytes calldata data) external {
        (uint256 amount0, uint256 amount1) = abi.decode(data, (uint256, uint256));
        within(data);
        pay(amount0 + fee0, amount1 + fee1);
    }

    /// What a trader does in the middle of a swap or a flash loan.
    function within(bytes calldata data) internal virtual {}

    function pay(uint256 owed0, uint256 owed1) private {
        IPool pool = IPool(msg.sender);
        if (owed0 != 0) Coin(pool.token0()).mint(msg.sender, owed0);
        if (owed1 != 0) Coin(pool.token1()).mint(msg.sender, owed1);
    }

    // Feeds

    function config(Coin token, Coin quote, uint256 supply, IPool pool, uint32 window, uint32 step)
        internal
        view
        returns (IPoolFeed.Config memory c)
    {
        c.description = "X / USD market cap";
        (c.token, c.quote, c.supply) = (address(token), address(quote), supply);
        c.pools = new address[](1);
        c.referenceLiquidity = new uint128[](1);
        (c.pools[0], c.referenceLiquidity[0]) = (address(pool), pool.liquidity());
        (c.window, c.step, c.maxQuiet) = (window, step, window);
    }

    function configOfTwo(IPoolFeed.Config memory c, IPool second) internal view returns (IPoolFeed.Config memory) {
        address[] memory pools = new address[](2);
        uint128[] memory references = new uint128[](2);
        (pools[0], references[0]) = (c.pools[0], c.referenceLiquidity[0]);
        (pools[1], references[1]) = (address(second), second.liquidity());
        (c.pools, c.referenceLiquidity) = (pools, references);
        return c;
    }

    function times(uint256 a) internal pure returns (uint64[] memory t) {
        t = new uint64[](1);
        t[0] = uint64(a);
    }

    /// Grid times from `first`, `count` of them, `step` apart.
    function times(uint256 first, uint256 count, uint256 step) internal pure returns (uint64[] memory t) {
        t = new uint64[](count);
        for (uint256 k; k < count; ++k) {
            t[k] = uint64(first + k * step);
        }
    }

    // A pool's storage, where a real history would take too long to lay

    function layRing(IPool pool, uint256 index, uint32 time, int56 ticks, uint160 perLiquidity) internal {
        bytes32 word =
            bytes32(uint256(time) | uint256(uint56(ticks)) << 32 | uint256(perLiquidity) << 88 | uint256(1) << 248);
        vm.store(address(pool), bytes32(RING + index), word);
    }

    function laySlot0(IPool pool, uint256 index, uint256 size) internal {
        uint256 word = uint256(vm.load(address(pool), 0));
        uint256 mask = uint256(type(uint48).max) << 184;
        vm.store(address(pool), 0, bytes32(word & ~mask | index << 184 | size << 200 | size << 216));
    }
}
