"""Uniswap v3 on a local chain: the real factory, router and position manager, from their published npm artifacts. The
licence of the core protocol restricts deployment by others, so none of it is copied into this repository. The bytecode
is read from `node_modules` and only runs on local chains and in tests."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

from eth_abi.abi import encode
from eth_utils.address import to_checksum_address

from core.chain import Abi, Call, Contract
from core.contracts.abi import abi
from core.feeds.uniswap import MAX_TICK
from core.hexadecimal import bytes_of, hex_of
from scripts._local.packages import NODE_MODULES
from scripts._stack.chain_setup import LocalNode
from scripts._stack.state import StackError

SPACINGS = {500: 10, 3_000: 60, 10_000: 200}
"""Tick spacing by fee, for the fees that a new factory knows; the live factory's 0.01% was enabled later."""
MAX_UINT128 = 2**128 - 1
MAX_UINT256 = 2**256 - 1
_GAS = 30_000_000
_FOREVER = 2**40  # a deadline that no local chain reaches
_NEXT_CARDINALITY_BIT = 216  # in the pool's first slot, 16 bits, after price, tick, index and present cardinality


class Artifact(NamedTuple):
    abi: Abi
    creation: bytes


@cache
def artifact(name: str) -> Artifact:
    package = "v3-core" if name in ("UniswapV3Factory", "UniswapV3Pool") else "v3-periphery"
    path = NODE_MODULES / "@uniswap" / package / "artifacts" / "contracts" / f"{name}.sol" / f"{name}.json"
    if not path.exists():
        raise StackError(f"{path} is missing; `./vpm up` installs the pinned packages.")
    made = json.loads(path.read_text())
    return Artifact(Abi(made["abi"]), bytes_of(made["bytecode"]))


def pool_abi() -> Abi:
    return artifact("UniswapV3Pool").abi


@dataclass(frozen=True)
class Actor:
    """An account on a local node that sends transactions and waits for them to be mined. The node signs them."""

    node: LocalNode
    address: str

    def send(self, call: Call, value_wei: int = 0) -> dict[str, Any]:
        return self._send_and_wait({**call.parameters(), "value": hex(value_wei)}, call.function.name)

    def deploy(self, name: str, creation: bytes, types: list[str], values: list[Any]) -> str:
        receipt = self._send_and_wait({"data": hex_of(creation + encode(types, values))}, f"the creation of {name}")
        return to_checksum_address(receipt["contractAddress"])

    def read(self, call: Call) -> Any:
        return call.function.decode(bytes_of(self.node.ask("eth_call", call.parameters(), "latest")))

    def _send_and_wait(self, transaction: dict[str, Any], what: str) -> dict[str, Any]:
        self.node.ask("anvil_impersonateAccount", self.address)
        return self.node.wait_for_receipt(self.node.send(self.address, transaction, _GAS), what)


class PoolKey(NamedTuple):
    token0: str
    token1: str
    fee_pips: int

    @classmethod
    def for_pair(cls, one: str, other: str, fee_pips: int) -> PoolKey:
        low, high = sorted((to_checksum_address(one), to_checksum_address(other)), key=lambda each: int(each, 16))
        return cls(low, high, fee_pips)


@dataclass(frozen=True)
class Exchange:
    factory: str
    router: str
    positions: str
    weth: str

    @classmethod
    def deploy(cls, who: Actor, weth: str) -> Exchange:
        factory = who.deploy("the factory", artifact("UniswapV3Factory").creation, [], [])
        pair = ["address", "address"]
        router = who.deploy("the router", artifact("SwapRouter").creation, pair, [factory, weth])
        no_descriptor = to_checksum_address("0x" + "00" * 20)  # it only draws pictures of positions
        manager = artifact("NonfungiblePositionManager").creation
        positions = who.deploy("the position manager", manager, [*pair, "address"], [factory, weth, no_descriptor])
        return cls(factory, router, positions, to_checksum_address(weth))

    def open_pool(self, who: Actor, key: PoolKey, sqrt_price: int) -> str:
        who.send(self._manager().call("createAndInitializePoolIfNecessary", *key, sqrt_price))
        factory = Contract(self.factory, artifact("UniswapV3Factory").abi)
        return to_checksum_address(who.read(factory.call("getPool", *key)))

    def approve(self, who: Actor, *tokens: str) -> None:
        for token in tokens:
            for spender in (self.router, self.positions):
                who.send(Contract(token, abi("LocalUSDC")).call("approve", spender, MAX_UINT256))

    def provide(self, who: Actor, key: PoolKey, lower: int, upper: int, amount0: int, amount1: int) -> dict[str, Any]:
        """Open a position between two ticks, using at most these amounts of the tokens."""
        position = {
            **key._asdict(),
            "lower": lower,
            "upper": upper,
            "wanted0": amount0,
            "wanted1": amount1,
            "least0": 0,
            "least1": 0,
            "to": who.address,
            "deadline": _FOREVER,
        }
        return who.send(self._manager().call("mint", tuple(position.values())))

    def provide_everywhere(self, who: Actor, key: PoolKey, amount0: int, amount1: int) -> None:
        edge = MAX_TICK // SPACINGS[key.fee_pips] * SPACINGS[key.fee_pips]
        self.provide(who, key, -edge, edge, amount0, amount1)

    def withdraw(self, who: Actor, position: int, liquidity: int) -> dict[str, Any]:
        """Remove liquidity from a position. The tokens must be collected in a separate step."""
        return who.send(self._manager().call("decreaseLiquidity", (position, liquidity, 0, 0, _FOREVER)))

    def collect(self, who: Actor, position: int) -> dict[str, Any]:
        return who.send(self._manager().call("collect", (position, who.address, MAX_UINT128, MAX_UINT128)))

    def _manager(self) -> Contract:
        return Contract(self.positions, artifact("NonfungiblePositionManager").abi)


def grow_cardinality(who: Actor, pool: str, cardinality: int) -> None:
    """Set a pool's next cardinality without initialising the new slots, because for each block anvil visits every slot
    ever written."""
    word = int(who.node.ask("eth_getStorageAt", pool, "0x0", "latest"), 16)
    wider = word & ~(0xFFFF << _NEXT_CARDINALITY_BIT) | cardinality << _NEXT_CARDINALITY_BIT
    who.node.ask("anvil_setStorageAt", pool, f"0x{0:064x}", f"0x{wider:064x}")
    if int(who.read(Contract(pool, pool_abi()).call("slot0"))[4]) != cardinality:
        raise StackError(f"The pool {pool} does not store its cardinality where Uniswap v3 does.")
