"""Chain access: web3 over several URLs, contracts by ABI, and node errors by kind."""

from core.chain.client import BlockId, ChainClient
from core.chain.contract import Abi, Call, Contract, checksum
from core.chain.errors import ContractReverted, RpcError, RpcErrorKind
from core.chain.provider import ChainProvider, values
from core.chain.wire import Block, BlockTransaction, Log, Receipt

__all__ = [
    "Abi",
    "Block",
    "BlockId",
    "BlockTransaction",
    "Call",
    "ChainClient",
    "ChainProvider",
    "Contract",
    "ContractReverted",
    "Log",
    "Receipt",
    "RpcError",
    "RpcErrorKind",
    "checksum",
    "values",
]
