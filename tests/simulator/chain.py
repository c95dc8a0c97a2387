"""The chain: anvil with the real contracts, blocks in virtual time, and forks that undo some of them."""

from __future__ import annotations

import asyncio
import random
import socket
from typing import Any
from urllib.parse import urlsplit

import orjson

from tests.simulator.clock import VirtualClock

BLOCK_SECONDS = 2
_HEAD = b"POST / HTTP/1.1\r\nHost: chain\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
_LENGTH = b"content-length: "


class _Line:
    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        # No separate timeout: an answer that comes after it would be taken for that of the next question.
        self._socket = socket.create_connection((str(parts.hostname), parts.port))
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def post(self, body: bytes) -> bytes:
        self._socket.sendall(_HEAD % len(body) + body)
        received = b""
        while b"\r\n\r\n" not in received:
            received += self._more()
        head, _, answer = received.partition(b"\r\n\r\n")
        length = int(head.lower().split(_LENGTH, 1)[1].split(b"\r\n", 1)[0])
        while len(answer) < length:
            answer += self._more()
        return answer

    def _more(self) -> bytes:
        some = self._socket.recv(1 << 20)
        if not some:
            raise ConnectionError("anvil hung up")
        return some


class SimulatedChain:
    """A chain that runs only while the event loop stands still."""

    def __init__(self, url: str, clock: VirtualClock, dice: random.Random) -> None:
        self._line = _Line(url)
        self._clock = clock
        self._dice = dice
        self._known: dict[bytes, dict[str, Any]] = {}  # what it answered since anything changed
        self.asked = 0
        self.head = 0
        self.forks = 0
        self.undone = 0
        self.block_seconds = float(BLOCK_SECONDS)
        self.fork_rate = 0.0
        self.deepest_fork = 3
        self._undone_at: dict[int, float] = {}  # when a fork last undid this block, by `_awake`
        self._undone_when: dict[int, float] = {}  # the same, by the clock
        self._forked_at = -1e9
        self._asleep = 0.0
        self._raw: dict[str, str] = {}
        self._blocks: dict[int, list[str]] = {}
        self._oldest = 0  # forks reach no deeper

    def post(self, body: dict[str, Any]) -> dict[str, Any]:
        """Return the node's response. While the chain does not change, a repeated request gets the first response
        again."""
        self.asked += 1
        method = body["method"]
        asked = orjson.dumps([method, body["params"]])
        answer = self._known.get(asked)
        if answer is None:
            answer = orjson.loads(self._line.post(orjson.dumps(body)))
            if method.startswith("eth_") and not method.startswith("eth_send"):
                self._known[asked] = answer
            else:
                self._known.clear()
        return answer

    def ask(self, method: str, *params: object) -> Any:
        answer = self.post({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
        if "error" in answer:
            raise ValueError(f"{method}: {answer['error']}")
        return answer["result"]

    def begin(self) -> None:
        """Start making blocks in virtual time. Forks never undo earlier blocks."""
        self._mine(int(self._clock.now))
        self._oldest = self.head

    def stood_for(self, number: int, seconds: float) -> bool:
        """Return whether no fork touched this block recently enough for a process to have missed it."""
        return self._awake - self._undone_at.get(number, -1e9) > seconds

    def undone_since(self, number: int, moment: float) -> bool:
        return self._undone_when.get(number, -1e9) >= moment

    def forked_within(self, seconds: float) -> bool:
        """Return whether there was a fork so recent that a process may have missed it."""
        return any(self._awake - at <= seconds for at in self._undone_at.values())

    def sleep(self, seconds: float) -> None:
        self._asleep += seconds

    @property
    def _awake(self) -> float:
        return self._clock.now - self._asleep

    @property
    def now(self) -> float:
        return self._clock.now

    def forked_since(self, moment: float) -> bool:
        return self._forked_at >= moment

    def broadcast(self, body: dict[str, Any]) -> dict[str, Any]:
        answer = self.post(body)
        if "result" in answer:
            self._raw[answer["result"]] = body["params"][0]
        return answer

    async def run(self) -> None:
        while True:
            await asyncio.sleep(self.block_seconds)
            if self._dice.random() < self.fork_rate:
                self.fork(self._dice.randint(1, self.deepest_fork))
            self._mine(int(self._clock.now))

    def fork(self, depth: int) -> None:
        """Replace the last blocks. Some of their transactions are in the new blocks, some come later, and some are
        dropped by everyone but their sender."""
        depth = min(depth, self.head - self._oldest)
        if depth < 1:
            return
        self.forks += 1
        self._forked_at = self._clock.now
        for number in range(self.head - depth + 1, self.head + 1):
            self._undone_at[number], self._undone_when[number] = self._awake, self._clock.now
        dropped = [each for number in range(self.head - depth + 1, self.head + 1) for each in self._blocks.pop(number)]
        self.undone += len(dropped)
        times = [
            int(self.ask("eth_getBlockByNumber", hex(number), False)["timestamp"], 16)
            for number in range(self.head - depth + 1, self.head + 1)
        ]
        self.ask("anvil_rollback", depth)
        self.head -= depth
        self.ask("anvil_setCoinbase", "0x" + self._dice.randbytes(20).hex())
        later = []
        for each in dropped:
            fate = self._dice.random()
            if fate < 0.5:
                self._again(each)
            elif fate < 0.75:
                later.append(each)
        for time in times:
            self._mine(time)
        for each in later:
            self._again(each)

    def _again(self, digest: str) -> None:
        if digest in self._raw:
            self.post({"jsonrpc": "2.0", "id": 1, "method": "eth_sendRawTransaction", "params": [self._raw[digest]]})

    def _mine(self, timestamp: int) -> None:
        self.ask("evm_mine", {"timestamp": timestamp})
        newest = self.ask("eth_getBlockByNumber", "latest", False)
        self.head = int(newest["number"], 16)
        self._blocks[self.head] = newest["transactions"]
        self._blocks.pop(self.head - 20, None)
