"""A chain as daemons ask it: web3's client over our provider, and typed rows for what is read all the time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from web3 import AsyncWeb3
from web3.eth import AsyncEth

from core.chain.contract import Call
from core.chain.errors import RpcError, RpcErrorKind
from core.chain.provider import ChainProvider, values
from core.chain.reverts import explain
from core.chain.wire import Block, BlockTransaction, Data, Log, Receipt, data_bytes

# A number, a tag ("latest", "pending", "safe", "finalized", "earliest"), or a block hash of 0x and 64 digits.
BlockId = int | str

DEPTHS = (1, 2, 5)
"""How far below the head a block is looked for that whichever node answers has got; deeper is too long ago."""

Topics = Sequence[str | Sequence[str] | None]


class ChainClient(AsyncWeb3[ChainProvider]):
    """A web3 client of one chain, with what daemons ask all day in rows of their own. It neither opens nor closes its
    provider.

    Without middleware: nothing is signed, filled in or looked up here, and results need no dictionary with attributes.
    """

    def __init__(self, provider: ChainProvider) -> None:
        super().__init__(provider, middleware=(), modules={"eth": AsyncEth})

    def pinned(self, position: int) -> ChainClient:
        """Return the same chain through only one of its URLs."""
        return ChainClient(self.provider.pinned(position))

    # Blocks

    async def block(self, block: BlockId = "latest") -> Block | None:
        """Fetch a header, or None when the node has no such block."""
        return await self.provider.optional(*_block_request(block), Block)

    async def head(self, *, timeout_seconds: float | None = None) -> Block:
        """Fetch the newest block."""
        return await self.provider.call(
            "eth_getBlockByNumber", ["latest", False], Block, timeout_seconds=timeout_seconds
        )

    async def blocks(self, blocks: Sequence[BlockId]) -> list[Block | None]:
        """Fetch headers in one batch; None where the node has no such block."""
        shape: Any = Block | None
        return values(await self.provider.batch([_block_request(block) for block in blocks], shape))

    # Logs

    async def logs(
        self, from_block: int, to_block: int, addresses: Sequence[str] | None = None, topics: Topics | None = None
    ) -> list[Log]:
        """Fetch the logs of an inclusive block range. RANGE_TOO_WIDE means: ask for fewer blocks."""
        criteria: dict[str, Any] = {"fromBlock": hex(from_block), "toBlock": hex(to_block)}
        if addresses is not None:
            criteria["address"] = list(addresses)
        if topics is not None:
            criteria["topics"] = list(topics)
        return await self.provider.call("eth_getLogs", [criteria], list[Log])

    # Calls

    async def read(self, call: Call, block: BlockId = "latest", *, timeout_seconds: float | None = None) -> Any:
        """Read the decoded return value of a view; ContractReverted with its reason when it reverts."""
        return call.function.decode(await self.simulate(call, block, timeout_seconds=timeout_seconds))

    async def simulate(
        self, call: Call, block: BlockId = "latest", *, gas: int | None = None, timeout_seconds: float | None = None
    ) -> bytes:
        """The raw return data of any call, sent nowhere. `gas`: how much it may use, of a contract that is not ours."""
        bound = {} if gas is None else {"gas": hex(gas)}
        params = [call.parameters() | bound, _block_parameter(block)]
        try:
            return data_bytes(await self.provider.call("eth_call", params, Data, timeout_seconds=timeout_seconds))
        except RpcError as error:
            raise _with_reason(error, call) from None

    async def read_newest(
        self, account: str, calls: Sequence[Call], *, guess: str | None = None, timeout_seconds: float | None = None
    ) -> tuple[Block, bytes, list[Any | RpcError]]:
        """Read the newest block, the account's code and views, all of that block; each view its value or its own error.

        The block is named by its hash. What is asked of "latest" in one batch may be answered from two blocks, and a
        payment that is mined between them then looks spent and unbooked, or booked and without its stake. Where the
        nodes behind a URL stand apart, the one that answers may not have that block yet: then it is an older one.

        guess: the hash of what is probably the newest block. It is asked of together with which block that is, and if
        it was right nothing is asked twice.
        """
        if guess is None:
            newest = block = await self.head(timeout_seconds=timeout_seconds)
            code, *answers = await self._state_at(block.hash, account, calls, timeout_seconds)
        else:
            newest, code, answers = await self._guessed(guess, account, calls, timeout_seconds)
            block = newest
            if newest.hash != guess:
                code, *answers = await self._state_at(block.hash, account, calls, timeout_seconds)
        for depth in DEPTHS:
            if not any(_is_unknown_block(each) for each in (code, *answers)):
                break
            below = _block_request(max(newest.number - depth, 0))
            older = await self.provider.optional(*below, Block, timeout_seconds=timeout_seconds)
            if older is not None:
                block = older
                code, *answers = await self._state_at(block.hash, account, calls, timeout_seconds)
        return (
            block,
            data_bytes(values([code])[0]),
            [_decoded(call, answer) for call, answer in zip(calls, answers, strict=True)],
        )

    async def _state_at(
        self, block_hash: str, account: str, calls: Sequence[Call], timeout_seconds: float | None
    ) -> list[Any | RpcError]:
        """Read the account's code and what the calls return, undecoded, in one batch."""
        requests = _state_requests(block_hash, account, calls)
        return await self.provider.batch(requests, Data, timeout_seconds=timeout_seconds)

    async def _guessed(
        self, guess: str, account: str, calls: Sequence[Call], timeout_seconds: float | None
    ) -> tuple[Block, Any | RpcError, list[Any | RpcError]]:
        """The newest block, and in the same batch the account's code and what the calls return in the guessed one."""
        requests = [_block_request("latest"), *_state_requests(guess, account, calls)]
        shapes: list[Any] = [Block, *[Data] * (len(requests) - 1)]
        said: list[Any] = await self.provider.batch(requests, shapes, timeout_seconds=timeout_seconds)
        return values(said[:1])[0], said[1], said[2:]

    async def read_many(
        self, calls: Sequence[Call], block: BlockId, *, timeout_seconds: float | None = None
    ) -> list[Any | RpcError]:
        """Read views at the same block; each gives its decoded value or its own error.

        Give a number or a hash: "latest" may move between the bodies of a large batch.
        """
        where = _block_parameter(block)
        requests = [("eth_call", [call.parameters(), where]) for call in calls]
        answers = await self.provider.batch(requests, Data, timeout_seconds=timeout_seconds)
        return [_decoded(call, answer) for call, answer in zip(calls, answers, strict=True)]

    # Transactions

    async def receipt(self, transaction_hash: str) -> Receipt | None:
        """Fetch a receipt; None while the transaction is not mined, or this node does not know it yet."""
        return await self.provider.optional("eth_getTransactionReceipt", [transaction_hash], Receipt)

    async def receipts(self, hashes: Sequence[str]) -> list[Receipt | None]:
        shape: Any = Receipt | None
        return values(await self.provider.batch([("eth_getTransactionReceipt", [each]) for each in hashes], shape))

    async def block_receipts(self, numbers: Sequence[int]) -> list[Receipt]:
        """Fetch all receipts of these blocks that the node gives: some do not have the method, or not yet the block."""
        shape: Any = list[Receipt] | None
        answers = await self.provider.batch([("eth_getBlockReceipts", [hex(each)]) for each in numbers], shape)
        return [receipt for each in answers if isinstance(each, list) for receipt in each]

    async def transaction(self, transaction_hash: str) -> BlockTransaction | None:
        return await self.provider.optional("eth_getTransactionByHash", [transaction_hash], BlockTransaction)


def _block_request(block: BlockId) -> tuple[str, list[Any]]:
    if isinstance(block, str) and len(block) == 66:
        return "eth_getBlockByHash", [block, False]
    return "eth_getBlockByNumber", [_tag(block), False]


def _state_requests(block_hash: str, account: str, calls: Sequence[Call]) -> list[tuple[str, list[Any]]]:
    where = _block_parameter(block_hash)
    return [
        ("eth_getCode", [account, where]),
        *(("eth_call", [call.parameters(), where]) for call in calls),
    ]


def _is_unknown_block(answer: Any | RpcError) -> bool:
    return isinstance(answer, RpcError) and answer.kind is RpcErrorKind.BLOCK_NOT_FOUND


def _block_parameter(block: BlockId) -> Any:
    """Return what eth_call takes: a tag, a number, or EIP-1898's object for a hash, so that a reorg raises an error."""
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
