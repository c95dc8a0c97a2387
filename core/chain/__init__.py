"""Talking to a chain: JSON-RPC over aiohttp with several URLs, ABI coding, and errors a program can act on."""

from core.chain.abi import Abi, Call, Contract, checksum
from core.chain.client import BlockId, ChainClient
from core.chain.errors import ContractReverted, RpcError, RpcErrorKind
from core.chain.rpc import RpcClient
from core.chain.wire import Block, BlockTransaction, FeeHistory, Log, Receipt

__all__ = [
    "Abi",
    "Block",
    "BlockId",
    "BlockTransaction",
    "Call",
    "ChainClient",
    "Contract",
    "ContractReverted",
    "FeeHistory",
    "Log",
    "Receipt",
    "RpcClient",
    "RpcError",
    "RpcErrorKind",
    "checksum",
]
