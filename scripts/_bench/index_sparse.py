"""A node with a long chain that hardly holds logs of ours, as a provider far away serves one: it answers each HTTP body
after 100 ms and gives logs of 10,000 blocks at most.

python -m scripts._bench.index_sparse PORT BLOCKS EVENTS
"""

from __future__ import annotations

import asyncio
import bisect
import hashlib
import random
import sys
from dataclasses import dataclass, field
from typing import Any

import msgspec
import orjson
from aiohttp import web

from core.hexadecimal import hex_of
from scripts._bench.index_load import SETTLER, LoadVenue, Record

CHAIN_ID = 31337
LATENCY_SECONDS = 0.1
WIDEST_BLOCKS = 10_000
EVENTS_A_BLOCK = 9
BEGINS_AT = 1_600_000_000


class Question(msgspec.Struct):
    """One JSON-RPC request."""

    id: int
    method: str
    params: list[Any]


_QUESTIONS = msgspec.json.Decoder(Question | list[Question])


@dataclass
class SparseChain:
    """Blocks without anything, and among them some with events of ours. `numbers` are those, ascending."""

    blocks: int
    logs: dict[int, list[dict[str, Any]]] = field(default_factory=dict)
    numbers: list[int] = field(default_factory=list)

    @classmethod
    def of(cls, blocks: int, events: int) -> SparseChain:
        """Valid events of stock markets, in blocks drawn from the whole chain."""
        chain, venue, made = cls(blocks), LoadVenue(), 0
        in_blocks: list[list[Record]] = []
        while made < events:
            in_blocks.append(venue.block(len(in_blocks) + 1, entries=EVENTS_A_BLOCK))
            made += len(in_blocks[-1])
        chain.numbers = sorted(random.Random(1).sample(range(1, blocks - 1_000), len(in_blocks)))
        for number, records in zip(chain.numbers, in_blocks, strict=True):
            chain.logs[number] = [_log(number, at, record) for at, record in enumerate(records)]
        return chain

    def answer(self, asked: Question) -> dict[str, Any]:
        match asked.method:
            case "eth_chainId":
                result: Any = hex(CHAIN_ID)
            case "eth_getBlockByNumber":
                result = self._header(asked.params[0])
            case "eth_getLogs":
                chosen = asked.params[0]
                if "blockHash" in chosen:
                    result = self._logs_of(chosen["blockHash"])
                else:
                    first, last = int(chosen["fromBlock"], 16), int(chosen["toBlock"], 16)
                    if last - first >= WIDEST_BLOCKS:
                        error = {"code": -32600, "message": f"block range is too wide: up to {WIDEST_BLOCKS} blocks"}
                        return {"jsonrpc": "2.0", "id": asked.id, "error": error}
                    within = self.numbers[
                        bisect.bisect_left(self.numbers, first) : bisect.bisect_right(self.numbers, last)
                    ]
                    result = [log for number in within for log in self.logs[number]]
            case "eth_getBlockReceipts":
                result = [{"logs": self._logs_of(asked.params[0])}]
            case _:
                return {"jsonrpc": "2.0", "id": asked.id, "error": {"code": -32601, "message": "method not found"}}
        return {"jsonrpc": "2.0", "id": asked.id, "result": result}

    def _logs_of(self, block_hash: str) -> list[dict[str, Any]]:
        return self.logs.get(int(block_hash[2:18], 16), [])

    def _header(self, which: str) -> dict[str, Any] | None:
        number = self.blocks if which in ("latest", "finalized") else int(which, 16)
        if number > self.blocks:
            return None
        return {
            "hash": _hash(number),
            "parentHash": _hash(number - 1),
            "number": hex(number),
            "timestamp": hex(BEGINS_AT + number),
            "logsBloom": "0x" + ("ff" if number in self.logs else "00") * 256,
        }


def _hash(number: int) -> str:
    """A block's hash, which begins with its number."""
    return hex_of(number.to_bytes(8)) + hashlib.sha256(str(number).encode()).hexdigest()[:48]


def _log(number: int, index: int, record: Record) -> dict[str, Any]:
    topics, data = record
    return {
        "address": SETTLER,
        "topics": [hex_of(topics[at : at + 32]) for at in range(0, len(topics), 32)],
        "data": hex_of(data),
        "blockNumber": hex(number),
        "blockHash": _hash(number),
        "transactionHash": "0x" + hashlib.sha256(f"{number}".encode()).hexdigest(),
        "logIndex": hex(index),
    }


def main() -> None:
    port, blocks, events = (int(each) for each in sys.argv[1:])
    chain = SparseChain.of(blocks, events)

    async def serve(request: web.Request) -> web.Response:
        asked = _QUESTIONS.decode(await request.read())
        await asyncio.sleep(LATENCY_SECONDS)
        answers = [chain.answer(each) for each in asked] if isinstance(asked, list) else chain.answer(asked)
        return web.Response(body=orjson.dumps(answers), content_type="application/json")

    app = web.Application(client_max_size=2**24)
    app.router.add_post("/", serve)
    web.run_app(app, host="127.0.0.1", port=port, access_log=None, print=None)


if __name__ == "__main__":
    main()
