"""A web3 client over our provider, with typed results for frequent reads."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from web3 import AsyncWeb3
from web3.eth import AsyncEth

from core.chain.contract import Call, explain
from core.chain.errors import RpcError, RpcErrorKind
from core.chain.provider import ChainProvider, values
from core.chain.wire import Block, BlockTransaction, Data, Log, Receipt, data_bytes

# A number, a tag ("latest", "pending", "safe", "finalized", "earliest"), or a block hash of 0x and 64 digits.
BlockId = int | str

# Depths below the head at which to look for a block that the responding node already has.
DEPTHS = (1, 2, 5)

Topics = Sequence[str | Sequence[str] | None]


class ChainClient(AsyncWeb3[ChainProvider]):
    """A web3 client of one chain. It neither opens nor closes its provider.

    The client has no middleware, so it signs nothing and fills in no missing fields. Results are structs.
    """

    def __init__(self, provider: ChainProvider) -> None:
        super().__init__(provider, middleware=(), modules={"eth": AsyncEth})

    def pinned(self, position: int) -> ChainClient:
        return ChainClient(self.provider.pinned(position))

    # Blocks

    async def block(self, block: BlockId = "latest") -> Block | None:
        return await self.provider.call_optional(*_block_request(block), Block)

    async def head(self, *, timeout_seconds: float | None = None) -> Block:
        return await self.provider.call(
            "eth_getBlockByNumber", ["latest", False], Block, timeout_seconds=timeout_seconds
        )

    async def blocks(self, blocks: Sequence[BlockId]) -> list[Block | None]:
        """Fetch block headers in one batch, with None for each block that the node does not have."""
        shape: Any = Block | None
        return values(await self.provider.batch([_block_request(block) for block in blocks], shape))

    # Logs

    async def logs(
        self, from_block: int, to_block: int, addresses: Sequence[str] | None = None, topics: Topics | None = None
    ) -> list[Log]:
        """Fetch the logs of an inclusive block range. On a RANGE_TOO_WIDE error, request fewer blocks."""
        criteria: dict[str, Any] = {"fromBlock": hex(from_block), "toBlock": hex(to_block)}
        if addresses is not None:
            criteria["address"] = list(addresses)
        if topics is not None:
            criteria["topics"] = list(topics)
        return await self.provider.call("eth_getLogs", [criteria], list[Log])

    # Calls

    async def read(self, call: Call, block: BlockId = "latest", *, timeout_seconds: float | None = None) -> Any:
        """Call a view and return its decoded result. If the call reverts, raise ContractReverted with the reason."""
        return call.function.decode(await self.simulate(call, block, timeout_seconds=timeout_seconds))

    async def simulate(
        self, call: Call, block: BlockId = "latest", *, gas: int | None = None, timeout_seconds: float | None = None
    ) -> bytes:
        """Run eth_call and return the raw data. Pass `gas` to limit the gas of a call to an untrusted contract."""
        bound = {} if gas is None else {"gas": hex(gas)}
        params = [call.parameters() | bound, _block_parameter(block)]
        try:
            return data_bytes(await self.provider.call("eth_call", params, Data, timeout_seconds=timeout_seconds))
        except RpcError as error:
            raise _with_reason(error, call) from None

    async def read_newest(
        self, account: str, calls: Sequence[Call], *, guess: str | None = None, timeout_seconds: float | None = None
    ) -> tuple[Block, bytes, list[Any | RpcError]]:
        """Return the newest block and, at that block, the account's code and the value or error of each view.

        The reads name the block by its hash, since a batch against "latest" may span two blocks. A payment mined in the
        second block would then look spent but unbooked, or booked without its stake. If the responding node does not
        have the newest block yet, as may happen behind a load balancer, an older block is used.

        guess: the probable hash of the newest block. The code and views at the guessed block are read in the same batch
        as the newest block, so a correct guess saves a round trip.
        """

        async def state_at(block_hash: str) -> list[Any | RpcError]:
            requests = _state_requests(block_hash, account, calls)
            return await self.provider.batch(requests, Data, timeout_seconds=timeout_seconds)

        requests = [_block_request("latest"), *([] if guess is None else _state_requests(guess, account, calls))]
        shapes: list[Any] = [Block, *[Data] * (len(requests) - 1)]
        head, *state = await self.provider.batch(requests, shapes, timeout_seconds=timeout_seconds)
        newest: Block = values([head])[0]
        block = newest
        if newest.hash != guess:
            state = await state_at(block.hash)
        for depth in DEPTHS:
            if not any(isinstance(each, RpcError) and each.kind is RpcErrorKind.BLOCK_NOT_FOUND for each in state):
                break
            below = _block_request(max(newest.number - depth, 0))
            older = await self.provider.call_optional(*below, Block, timeout_seconds=timeout_seconds)
            if older is not None:
                block = older
                state = await state_at(block.hash)
        code, *answers = state
        return (
            block,
            data_bytes(values([code])[0]),
            [_decoded(call, answer) for call, answer in zip(calls, answers, strict=True)],
        )

    async def read_many(
        self, calls: Sequence[Call], block: BlockId, *, timeout_seconds: float | None = None
    ) -> list[Any | RpcError]:
        """Call views at one block, and return the decoded value or error of each. Pass a block number or hash, since
        "latest" may move between the parts of a large batch."""
        where = _block_parameter(block)
        requests = [("eth_call", [call.parameters(), where]) for call in calls]
        answers = await self.provider.batch(requests, Data, timeout_seconds=timeout_seconds)
        return [_decoded(call, answer) for call, answer in zip(calls, answers, strict=True)]

    # Transactions

    async def receipt(self, transaction_hash: str) -> Receipt | None:
        """Fetch a receipt. Return None if the node does not know of a mined transaction with this hash."""
        return await self.provider.call_optional("eth_getTransactionReceipt", [transaction_hash], Receipt)

    async def receipts(self, hashes: Sequence[str]) -> list[Receipt | None]:
        shape: Any = Receipt | None
        return values(await self.provider.batch([("eth_getTransactionReceipt", [each]) for each in hashes], shape))

    async def block_receipts(self, numbers: Sequence[int]) -> list[Receipt]:
        """Fetch the receipts of these blocks. If the node lacks the method or one of the blocks, some receipts are
        missing."""
        shape: Any = list[Receipt] | None
        answers = await self.provider.batch([("eth_getBlockReceipts", [hex(each)]) for each in numbers], shape)
        return [receipt for each in answers if isinstance(each, list) for receipt in each]

    async def transaction(self, transaction_hash: str) -> BlockTransaction | None:
        return await self.provider.call_optional("eth_getTransactionByHash", [transaction_hash], BlockTransaction)


def _block_request(block: BlockId) -> tuple[str, list[Any]]:
    if isinstance(block, str) and len(block) == 66:
        return "eth_getBlockByHash", [block, False]
    return "eth_getBlockByNumber", [_tag(block), False]


def _state_requests(block_hash: str, account: str, calls: Sequence[Call]) -> list[tuple[str, list[Any]]]:
    where = _block_parameter(block_hash)
    return [("eth_getCode", [account, where]), *(("eth_call", [call.parameters(), where]) for call in calls)]


def _block_parameter(block: BlockId) -> Any:
    """Return the block parameter of eth_call: a tag, a number or, for a hash, an EIP-1898 object. If a reorganization
    has removed that block, a node returns an error for the object."""
    return {"blockHash": block} if isinstance(block, str) and len(block) == 66 else _tag(block)


def _tag(block: BlockId) -> str:
    return hex(block) if isinstance(block, int) else block


def _with_reason(error: RpcError, call: Call) -> RpcError:
    return explain(error, call.errors) if error.kind is RpcErrorKind.REVERTED else error


def _decoded(call: Call, answer: str | RpcError) -> Any | RpcError:
    if isinstance(answer, RpcError):
        return _with_reason(answer, call)
    try:
        return call.function.decode(data_bytes(answer))
    except RpcError as error:
        return error
