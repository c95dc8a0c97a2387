"""Structs for RPC results, with only the fields we use, and decoding of JSON-RPC quantities and data.

Hex values stay text in the structs, since decoding every field of every log costs more than reading the log from the
socket. Callers decode the fields that they need with `quantity` and `data_bytes`.
"""

from __future__ import annotations

from typing import Annotated, Any, Final, NotRequired

import msgspec
from typing_extensions import TypedDict

from core.hexadecimal import bytes_of

Quantity = Annotated[str, msgspec.Meta(pattern="^0x[0-9a-fA-F]+$")]
Data = Annotated[str, msgspec.Meta(pattern="^0x([0-9a-fA-F]{2})*$")]
Hash = Annotated[str, msgspec.Meta(pattern="^0x[0-9a-fA-F]{64}$")]


class Block(msgspec.Struct, frozen=True, rename="camel", gc=False):
    hash: str
    parent_hash: str
    number_hex: Quantity = msgspec.field(name="number")
    timestamp_hex: Quantity = msgspec.field(name="timestamp")
    base_fee_per_gas: Quantity | None = None
    l1_block_number_hex: Quantity | None = msgspec.field(name="l1BlockNumber", default=None)

    @property
    def number(self) -> int:
        return int(self.number_hex, 16)

    @property
    def timestamp(self) -> int:
        return int(self.timestamp_hex, 16)

    @property
    def l1_block_number(self) -> int:
        """Return `block.number` as contracts see it: on an Arbitrum-style chain, an Ethereum block number."""
        return int(self.l1_block_number_hex, 16) if self.l1_block_number_hex else self.number

    @property
    def base_fee_wei(self) -> int | None:
        return None if self.base_fee_per_gas is None else int(self.base_fee_per_gas, 16)


class BlockTransaction(msgspec.Struct, frozen=True, rename="camel", gc=False):
    hash: str
    sender: str = msgspec.field(name="from")
    nonce: str = "0x0"
    to: str | None = None
    input: str = "0x"


class Log(msgspec.Struct, frozen=True, rename="camel", gc=False):
    """An event log. Every field except `removed` holds the node's text unchecked: validating every field would take
    several times as long as the rest of the decoding."""

    address: str
    topics: tuple[str, ...]
    data: str
    block_number: str
    block_hash: str
    transaction_hash: str
    log_index: str
    block_timestamp: str | None = None
    removed: bool = False


class Receipt(msgspec.Struct, frozen=True, rename="camel", gc=False):
    transaction_hash: str
    block_hash: str
    block_number_hex: Quantity = msgspec.field(name="blockNumber")
    status_hex: Quantity = msgspec.field(name="status")
    gas_used_hex: Quantity = msgspec.field(name="gasUsed")
    logs: tuple[Log, ...] = ()
    contract_address: str | None = None
    effective_gas_price: Quantity | None = None
    # An OP-stack chain's fee for data on Ethereum, in wei; absent elsewhere.
    l1_fee: Quantity | None = None

    @property
    def succeeded(self) -> bool:
        return self.status_hex in ("0x1", "0x01")

    @property
    def block_number(self) -> int:
        return int(self.block_number_hex, 16)

    @property
    def gas_used(self) -> int:
        return int(self.gas_used_hex, 16)

    @property
    def fee_wei(self) -> int:
        """Return the gas fee that the sender paid, including the L1 fee."""
        price = int(self.effective_gas_price, 16) if self.effective_gas_price else 0
        return self.gas_used * price + (int(self.l1_fee, 16) if self.l1_fee else 0)


class _FeeHistory(TypedDict):
    oldestBlock: Quantity
    baseFeePerGas: list[Quantity]
    gasUsedRatio: list[float]
    reward: NotRequired[list[list[Quantity]]]


SHAPES: Final[dict[str, Any]] = {
    "eth_chainId": Quantity,
    "eth_blockNumber": Quantity,
    "eth_estimateGas": Quantity,
    "eth_getBalance": Quantity,
    "eth_getTransactionCount": Quantity,
    "eth_maxPriorityFeePerGas": Quantity,
    "eth_call": Data,
    "eth_getCode": Data,
    "eth_feeHistory": _FeeHistory,
}
"""The result types that web3 expects. On any other type, the next URL is tried."""


class ErrorObject(msgspec.Struct, frozen=True):
    code: int = 0
    message: str = ""
    data: Any = None


def quantity(text: str) -> int:
    """Decode a JSON-RPC quantity ("0x1a")."""
    return int(text, 16)


def data_bytes(text: str) -> bytes:
    """Decode JSON-RPC data ("0x00ff")."""
    return bytes_of(text)
