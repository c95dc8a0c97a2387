"""A web3 provider over several URLs of one chain, with fail-over, retries of reads, and batches.

Rules that must hold:
- URLs are tried in order, skipping those with an open circuit. The first URL is used again as soon as it works.
- An error that blames the request (a revert, a range too wide) is raised at once. After an error that blames the node,
  the next URL is tried.
- Reads go through all URLs up to `rounds` times with jittered pauses.
- A new transaction is offered to one URL after another until one accepts or refuses it; a transaction that was sent
  before is offered to all URLs.
- Every URL must prove its chain id before its first response is used, and again after it has been down.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, Self, TypeVar

import aiohttp
import msgspec
from web3.providers.async_base import AsyncJSONBaseProvider
from web3.types import RPCEndpoint, RPCResponse

from core.chain.endpoint import BATCH, Endpoint, bad_answer, decode_answer, decode_item
from core.chain.errors import RpcError, RpcErrorKind
from core.chain.wire import SHAPES
from core.errors import ConfigError
from core.hexadecimal import hex_of
from core.log import get_logger
from core.service.cancelling import cancel_and_wait

log = get_logger(__name__)

CONNECTIONS = 16  # open to one URL at most

T = TypeVar("T")
RpcRequest = tuple[str, Sequence[Any]]  # method, params


class ChainProvider(AsyncJSONBaseProvider):
    """A web3 provider of one chain: `async with ChainProvider(urls, chain_id=8453)`, or `start()` and `close()`.

    urls: the RPC URLs in order of preference.
    chain_id: the chain that every URL must serve; None skips the check (tools only).
    timeout_seconds: the time limit of one attempt at one URL.
    pause_seconds: the upper bound of the first jittered pause between rounds; it doubles, up to 5 s.
    max_batch: the maximum number of requests in one HTTP body.
    """

    def __init__(
        self,
        urls: Sequence[str],
        *,
        chain_id: int | None,
        timeout_seconds: float = 10.0,
        rounds: int = 3,
        pause_seconds: float = 0.25,
        max_batch: int = 100,
    ) -> None:
        if not urls:
            raise ConfigError("No RPC URL is configured for this chain.")
        super().__init__()
        self.chain_id = chain_id
        self._urls = tuple(urls)
        self._timeout_seconds = timeout_seconds
        self._rounds = rounds
        self._pause_seconds = pause_seconds
        self._max_batch = max_batch
        self._session: aiohttp.ClientSession | None = None
        self._owns_session = True
        self._endpoints: tuple[Endpoint, ...] = ()
        self._offering: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        self.open()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def open(self) -> None:
        """Create the HTTP session in the running event loop. Nothing is sent yet."""
        connector = aiohttp.TCPConnector(limit=0, limit_per_host=CONNECTIONS)
        self._session = aiohttp.ClientSession(connector=connector)
        self._endpoints = tuple(
            Endpoint(url, position, self.chain_id, self._session, alone=len(self._urls) == 1)
            for position, url in enumerate(self._urls)
        )

    async def close(self) -> None:
        await cancel_and_wait(*self._offering)
        if self._session is not None and self._owns_session:
            await self._session.close()
        self._session = None

    async def start(self, timeout_seconds: float = 5.0) -> None:
        """Open the provider. Raise an error within seconds if a URL serves the wrong chain or no URL responds."""
        if self._session is None:
            self.open()
        outcomes = await asyncio.gather(
            *(endpoint.check_chain(timeout_seconds) for endpoint in self._endpoints), return_exceptions=True
        )
        problems = [outcome for outcome in outcomes if isinstance(outcome, RpcError)]
        fatal = next((o for o in outcomes if o is not None and not isinstance(o, RpcError)), None)
        if fatal is not None or len(problems) == len(self._endpoints):
            await self.close()
        if fatal is not None:
            raise fatal
        if len(problems) == len(self._endpoints):
            raise RpcError(
                problems[0].kind,
                f"No RPC URL of chain {self.chain_id} responds: " + " ".join(p.message for p in problems),
                hint="Check the URLs, and that the nodes are running.",
            )
        for problem in problems:
            log.warning(problem.message, action="rpc.url_unavailable", chain_id=self.chain_id)

    @property
    def labels(self) -> tuple[str, ...]:
        """Return a printable name for each URL: its position and host."""
        return tuple(endpoint.label for endpoint in self._endpoints)

    def pinned(self, position: int) -> ChainProvider:
        """Return a provider that uses only one of the URLs and shares that URL's connections and circuit breaker."""
        one = ChainProvider(
            (self._urls[position],),
            chain_id=self.chain_id,
            timeout_seconds=self._timeout_seconds,
            rounds=self._rounds,
            pause_seconds=self._pause_seconds,
            max_batch=self._max_batch,
        )
        one._session, one._owns_session = self._session, False
        one._endpoints = (self._endpoints[position],)
        return one

    async def make_request(self, method: RPCEndpoint, params: Any) -> RPCResponse:
        """Send a request for web3. Errors are raised as RpcError, so web3 never interprets them."""
        return {"jsonrpc": "2.0", "id": 0, "result": await self.call(method, params, SHAPES.get(method, object))}

    async def call(
        self, method: str, params: Sequence[Any], shape: type[T], *, timeout_seconds: float | None = None
    ) -> T:
        seconds = timeout_seconds or self._timeout_seconds
        answers: list[T | RpcError] = await self._batch([(method, params)], range(1), [shape], seconds)
        answer = answers[0]
        if isinstance(answer, RpcError):
            raise answer
        return answer

    async def call_optional(
        self, method: str, params: Sequence[Any], shape: type[T], *, timeout_seconds: float | None = None
    ) -> T | None:
        """Send one request whose result may be null."""
        nullable: Any = shape | None
        result: T | None = await self.call(method, params, nullable, timeout_seconds=timeout_seconds)
        return result

    async def batch(
        self,
        requests: Sequence[RpcRequest],
        shapes: type[T] | Sequence[Any] | None = None,
        *,
        timeout_seconds: float | None = None,
    ) -> list[T | RpcError]:
        """Send reads in batches, and return the result or error of each read, in order. If an error blames the node,
        send that read to the next node.

        shapes: the type of all results, or a list with the type of each; by default the types that web3 expects.
        """
        if shapes is None:
            shapes = [SHAPES.get(method, object) for method, _ in requests]
        each = shapes if isinstance(shapes, list) else [shapes] * len(requests)
        timeout = timeout_seconds or self._timeout_seconds
        chunks = [
            range(start, min(start + self._max_batch, len(requests)))
            for start in range(0, len(requests), self._max_batch)
        ]
        parts = await asyncio.gather(*(self._batch(requests, chunk, each, timeout) for chunk in chunks))
        return [item for part in parts for item in part]

    async def send_raw(self, raw: bytes) -> str:
        """Offer one signed transaction, and return its hash or raise its error."""
        (answer,) = await self.send_raw_batch([raw])
        if isinstance(answer, RpcError):
            raise answer
        return answer

    async def send_raw_batch(self, raws: Sequence[bytes]) -> list[str | RpcError]:
        """Offer signed transactions to one URL after another until each transaction is accepted or refused. Return the
        hash or error of each, in order."""
        best: dict[int, _Verdict] = {}
        offers, pending = _offers(raws), list(range(len(raws)))
        for endpoint in self._allowed():
            await self._offer(endpoint, offers, pending, best)
            pending = [index for index in pending if best[index].doubt is _Doubt.UNJUDGED]
            if not pending:
                break
        return self._answers(best, len(raws))

    async def send_raw_everywhere(self, raws: Sequence[bytes]) -> list[str | RpcError]:
        """Offer signed transactions to all URLs at once, since a node that accepted a transaction before may have lost
        it. Return the best response to each transaction. Once every transaction has been accepted, do not wait for
        slower URLs."""
        best: dict[int, _Verdict] = {}
        offers = _offers(raws)
        asking = {
            asyncio.create_task(self._offer(endpoint, offers, range(len(raws)), best)) for endpoint in self._allowed()
        }
        self._offering |= asking
        for each in asking:
            each.add_done_callback(self._offering.discard)
        while asking and not (len(best) == len(raws) and all(each.doubt <= _Doubt.KNOWN for each in best.values())):
            _, asking = await asyncio.wait(asking, return_when=asyncio.FIRST_COMPLETED)
        return self._answers(best, len(raws))

    async def _offer(
        self, endpoint: Endpoint, offers: Sequence[RpcRequest], indices: Sequence[int], best: dict[int, _Verdict]
    ) -> None:
        """Offer the transactions to one URL, and store each response in `best` if it is better than the one there."""
        try:
            answers = await self._ask(endpoint, offers, indices, [str] * len(offers), self._timeout_seconds)
            verdicts = [_Verdict.of(each) for each in answers]
        except RpcError as error:  # the batch failed as a whole, which says nothing about its transactions
            self._note_failover(endpoint, error)
            verdicts = [_Verdict(_Doubt.UNJUDGED, error)] * len(indices)
        for index, verdict in zip(indices, verdicts, strict=True):
            best[index] = verdict.or_better(best.get(index))

    def _answers(self, best: Mapping[int, _Verdict], count: int) -> list[str | RpcError]:
        resting = self._all_resting("eth_sendRawTransaction")
        return [best[index].answer if index in best else resting for index in range(count)]

    async def _batch(
        self, requests: Sequence[RpcRequest], chunk: range, shapes: Sequence[Any], seconds: float
    ) -> list[T | RpcError]:
        done: dict[int, T | RpcError] = {}
        pending = list(chunk)
        last: RpcError | None = None
        for attempt in range(self._rounds):
            if attempt:
                await self._pause(attempt, last)
            for endpoint in self._allowed():
                try:
                    answers = await self._ask(endpoint, requests, pending, shapes, seconds)
                except RpcError as error:
                    done.update(dict.fromkeys(pending, error))
                    last = error
                else:
                    done.update(zip(pending, answers, strict=True))
                    faults = {
                        i: each for i in pending if isinstance(each := done[i], RpcError) and each.kind.blames_node
                    }
                    if not faults:
                        return [done[index] for index in chunk]
                    pending = list(faults)
                    last = faults[pending[-1]]
                self._note_failover(endpoint, last)
            if last is not None and not last.kind.retriable:
                break
        resting = self._all_resting(requests[chunk[0]][0])
        return [done.get(index, resting) for index in chunk]

    async def _ask(
        self,
        endpoint: Endpoint,
        requests: Sequence[RpcRequest],
        indices: Sequence[int],
        shapes: Sequence[Any],
        seconds: float,
    ) -> list[T | RpcError]:
        """Send requests to one URL, and return the result or error of each. Raise RpcError if the URL refuses the whole
        batch."""
        if len(indices) <= 1:
            return [await self._one(endpoint, requests[index], shapes[index], seconds) for index in indices]
        method = requests[indices[0]][0] if len({requests[i][0] for i in indices}) == 1 else "batch"
        body = b"[" + b",".join(_encode(index, *requests[index]) for index in indices) + b"]"
        answer = await endpoint.post(method, body, seconds)
        try:
            items = BATCH.decode(answer)
        except (msgspec.DecodeError, UnicodeDecodeError):
            # A node that refuses the whole batch returns a single error object.
            try:
                decode_answer(answer, object, method, endpoint.label)
                whole = bad_answer(endpoint.label, "a batch", "one item")
            except RpcError as error:
                whole = error
            endpoint.failed(whole)
            raise whole from None
        by_id = {item.id: item for item in items}
        results: list[T | RpcError] = []
        for index in indices:
            name = requests[index][0]
            try:
                if (item := by_id.get(index)) is None:
                    raise bad_answer(endpoint.label, name, "nothing")
                results.append(decode_item(item, shapes[index], name, endpoint.label))
            except RpcError as error:
                results.append(error)
        if all(isinstance(result, RpcError) and result.kind is RpcErrorKind.RATE_LIMITED for result in results):
            first = results[0]
            assert isinstance(first, RpcError)
            endpoint.failed(first)
        return results

    async def _one(self, endpoint: Endpoint, request: RpcRequest, shape: Any, seconds: float) -> Any | RpcError:
        method, params = request
        try:
            answer = await endpoint.post(method, _encode(0, method, params), seconds)
        except RpcError as error:
            return error
        try:
            return decode_answer(answer, shape, method, endpoint.label)
        except RpcError as error:
            endpoint.failed(error)
            return error

    def _allowed(self) -> Iterator[Endpoint]:
        """Yield the usable endpoints. Check each circuit breaker only when the caller reaches its endpoint, so that no
        probe is wasted."""
        if self._session is None:
            raise RuntimeError("the ChainProvider is not open")
        return (endpoint for endpoint in self._endpoints if endpoint.breaker.allows())

    def _note_failover(self, endpoint: Endpoint, error: RpcError) -> None:
        if len(self._endpoints) > 1 and endpoint is not self._endpoints[-1]:
            log.warning(error.message, action="rpc.failed_over", chain_id=self.chain_id, kind=error.kind.value)

    async def _pause(self, attempt: int, last: RpcError | None) -> None:
        longest = min(self._pause_seconds * 2 ** (attempt - 1), 5.0)
        wait = random.uniform(longest / 2, longest)  # noqa: S311 - jitter, not a secret
        if last is not None and last.retry_after_seconds is not None:
            wait = max(wait, min(last.retry_after_seconds, 5.0))
        await asyncio.sleep(wait)

    def _all_resting(self, method: str) -> RpcError:
        return RpcError(
            RpcErrorKind.UNAVAILABLE,
            f"{method} was not sent because every RPC URL of chain {self.chain_id} failed recently: "
            + " ".join(each.problem for each in self._endpoints),
        )


class _Doubt(IntEnum):
    """How uncertain an offered transaction's outcome is after a response. The response with the lowest value is the
    best."""

    TAKEN = 0
    KNOWN = 1
    REFUSED = 2
    UNJUDGED = 3


@dataclass(frozen=True, slots=True)
class _Verdict:
    doubt: _Doubt
    answer: str | RpcError

    @classmethod
    def of(cls, answer: str | RpcError) -> _Verdict:
        if isinstance(answer, str):
            return cls(_Doubt.TAKEN, answer)
        if answer.kind is RpcErrorKind.ALREADY_KNOWN:
            return cls(_Doubt.KNOWN, answer)
        return cls(_Doubt.UNJUDGED if answer.kind.blames_node else _Doubt.REFUSED, answer)

    def or_better(self, other: _Verdict | None) -> _Verdict:
        """Return the better response. If it is an error, set its `maybe_delivered` to True if either URL may have
        accepted the transaction, and otherwise to False."""
        if other is None:
            return self
        best = min(self, other, key=lambda each: each.doubt)
        if isinstance(best.answer, RpcError):
            best.answer.maybe_delivered = any(
                isinstance(each.answer, RpcError) and each.answer.maybe_delivered for each in (self, other)
            )
        return best


def values(items: Sequence[Any | RpcError]) -> list[Any]:
    """Return the results of a batch, or raise its first error."""
    for item in items:
        if isinstance(item, RpcError):
            raise item
    return list(items)


def _offers(raws: Sequence[bytes]) -> list[RpcRequest]:
    return [("eth_sendRawTransaction", [hex_of(raw)]) for raw in raws]


def _encode(request_id: int, method: str, params: Sequence[Any]) -> bytes:
    return msgspec.json.encode({"jsonrpc": "2.0", "id": request_id, "method": method, "params": list(params)})
