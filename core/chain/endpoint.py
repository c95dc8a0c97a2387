"""One RPC URL: sends requests, classifies errors, and tracks whether the node is healthy and on the right chain."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Generic, TypeVar, cast

import aiohttp
import msgspec
from prometheus_client import Counter, Gauge, Histogram

from core.chain.errors import UNHEALTHY, RpcError, RpcErrorKind, classify, classify_status
from core.chain.wire import ErrorObject
from core.errors import ChainIdMismatch
from core.log import get_logger, redact_url
from core.service.health import LATENCY_BUCKETS


@dataclass(slots=True)
class CircuitBreaker:
    """A circuit breaker that opens after `threshold` failures in a row.

    After a rest it is half-open: one request probes the node. If the probe succeeds, the circuit closes; otherwise it
    opens again for a longer rest. `clock` returns monotonic seconds.
    """

    clock: Callable[[], float]
    threshold: int = 3
    first_rest_seconds: float = 1.0
    longest_rest_seconds: float = 30.0
    longest_asked_seconds: float = 30.0
    _failures: int = field(default=0, init=False)
    _open_until: float | None = field(default=None, init=False)
    _rest_seconds: float = field(default=0.0, init=False)
    _probing: bool = field(default=False, init=False)

    @property
    def state(self) -> str:
        if self._open_until is None:
            return "closed"
        return "half-open" if self.clock() >= self._open_until else "open"

    def allows(self) -> bool:
        """Return whether a request may be sent. While the circuit is half-open, only one caller gets True until its
        request has succeeded or failed."""
        if self._open_until is None:
            return True
        if self.clock() < self._open_until or self._probing:
            return False
        self._probing = True
        return True

    def succeeded(self) -> None:
        if self._open_until is not None and not self._probing:
            return  # sent before the circuit opened, so it says nothing about the endpoint now
        self._failures = 0
        self._open_until = None
        self._rest_seconds = 0.0
        self._probing = False

    def failed(self, rest_seconds: float | None = None) -> None:
        """Record a failure. If `rest_seconds` (the node's Retry-After) is given, open the circuit at once for at least
        that long."""
        self._failures += 1
        probed, self._probing = self._probing, False
        asked = self.clock() + min(rest_seconds or 0.0, self.longest_asked_seconds)
        if self._open_until is not None and not probed:
            self._open_until = max(self._open_until, asked)
            return
        if rest_seconds is None and self._open_until is None and self._failures < self.threshold:
            return
        grown = self._rest_seconds * 2 if self._rest_seconds else self.first_rest_seconds
        self._rest_seconds = min(grown, self.longest_rest_seconds)
        self._open_until = max(self.clock() + self._rest_seconds, asked)

    def abandoned(self) -> None:
        """Record that the current probe was cancelled, so that the next caller can probe the node."""
        self._probing = False


log = get_logger(__name__)

REQUESTS = Counter("vpm_rpc_requests", "JSON-RPC requests to an endpoint.", ("chain", "endpoint", "method"))
ERRORS = Counter("vpm_rpc_errors", "Failed JSON-RPC requests, by kind of error.", ("chain", "endpoint", "kind"))
SECONDS = Histogram(
    "vpm_rpc_seconds", "Response time of an endpoint.", ("chain", "endpoint", "method"), buckets=LATENCY_BUCKETS
)
UP = Gauge("vpm_rpc_endpoint_up", "1 while an endpoint responds, 0 while its circuit is open.", ("chain", "endpoint"))

# A page of 100 blocks of events is a few MB; a response near this limit comes from a broken or hostile node.
MAX_RESPONSE_BYTES = 128 * 1024 * 1024

# The longest rest of a URL that keeps failing. A long rest of the only URL would gain nothing and stop work on the
# chain: with a node that drops every eighth request, several failed probes in a row happen by chance.
REST_SECONDS = 30.0
ALONE_REST_SECONDS = 4.0

T = TypeVar("T")
_HEX = re.compile("0x(?:[0-9a-fA-F]{2})*")


class Answer(msgspec.Struct, Generic[T]):
    """A JSON-RPC response. A null `result` is valid; a missing `result` is not."""

    id: int | str | None = None
    result: T | msgspec.UnsetType = msgspec.UNSET
    error: ErrorObject | None = None


Item = Answer[msgspec.Raw]
_ITEM = msgspec.json.Decoder(Item)
# Items stay raw until matched to their request, so that one bad item does not spoil the others.
BATCH = msgspec.json.Decoder(list[Item])


@cache
def result_decoder(shape: Hashable) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(shape)


class Endpoint:
    def __init__(
        self, url: str, position: int, chain_id: int | None, session: aiohttp.ClientSession, *, alone: bool = False
    ) -> None:
        self.url = url
        self.label = f"{position}:{redact_url(url).split('://', 1)[-1].split('/', 1)[0]}"
        self.chain_id = chain_id
        rest = ALONE_REST_SECONDS if alone else REST_SECONDS
        self.breaker = CircuitBreaker(time.monotonic, longest_rest_seconds=rest)
        self.problem = ""  # the last failure
        self._session = session
        self._chain = str(chain_id or "unchecked")
        self._verified = chain_id is None
        self._verifying = asyncio.Lock()

    async def post(self, method: str, body: bytes, timeout_seconds: float) -> bytes:
        """Send a request and return the raw response; every error is raised as RpcError. The first request also checks
        that this URL serves the expected chain."""
        REQUESTS.labels(self._chain, self.label, method).inc()
        try:
            await self._verify(timeout_seconds)
            answer = await self._post(method, body, timeout_seconds)
        except RpcError as error:
            self.failed(error)
            raise
        except BaseException:
            self.breaker.abandoned()
            raise
        self.breaker.succeeded()
        self._show()
        return answer

    def failed(self, error: RpcError) -> None:
        """Record a failure. If the node is unhealthy, stop using it for a while and then check its chain id again."""
        ERRORS.labels(self._chain, self.label, error.kind.value).inc()
        self.problem = error.message
        if error.kind not in UNHEALTHY:
            self.breaker.succeeded()  # the node responded
            return
        self._verified = self.chain_id is None
        was = self.breaker.state
        self.breaker.failed(error.retry_after_seconds)
        if was == "closed" and self.breaker.state != "closed":
            log.warning(error.message, action="rpc.circuit_opened", endpoint=self.label, kind=error.kind.value)
        self._show()

    def _show(self) -> None:
        UP.labels(self._chain, self.label).set(self.breaker.state == "closed")

    async def check_chain(self, timeout_seconds: float) -> None:
        """Raise ChainIdMismatch if this URL serves a different chain than expected."""
        if self.chain_id is None:
            return
        REQUESTS.labels(self._chain, self.label, "eth_chainId").inc()
        body = b'{"jsonrpc":"2.0","id":0,"method":"eth_chainId","params":[]}'
        answer = decode_answer(await self._post("eth_chainId", body, timeout_seconds), str, "eth_chainId", self.label)
        try:
            actual = int(answer, 16)
        except ValueError:
            raise bad_answer(self.label, "eth_chainId", f"chain id {answer[:40]!r}") from None
        if actual != self.chain_id:
            raise ChainIdMismatch(
                f"{redact_url(self.url)} serves chain {actual}, but chain {self.chain_id} is configured.",
                hint="Correct the RPC URL or the chainId of the deployment file; they must match.",
            )
        self._verified = True

    async def _verify(self, timeout_seconds: float) -> None:
        if self._verified:
            return
        async with self._verifying:
            try:
                if not self._verified:  # a concurrent request may have checked it
                    await self.check_chain(timeout_seconds)
            except ChainIdMismatch as error:
                raise RpcError(RpcErrorKind.WRONG_CHAIN, error.message, hint=error.hint) from None
            except RpcError as error:
                error.maybe_delivered = False  # only the chain id request was sent
                raise

    async def _post(self, method: str, body: bytes, timeout_seconds: float) -> bytes:
        started = time.perf_counter()
        timeout = aiohttp.ClientTimeout(total=timeout_seconds)
        headers = {"Content-Type": "application/json"}
        try:
            async with self._session.post(
                self.url, data=body, headers=headers, timeout=timeout, allow_redirects=False
            ) as response:
                answer = await self._read(response, method)
                if response.status != 200:
                    raise self._refused(response, answer, method)
        except TimeoutError:
            raise RpcError(
                RpcErrorKind.TIMEOUT,
                f"{self.label} did not respond to {method} within {timeout_seconds:g} s.",
                maybe_delivered=True,
            ) from None
        except aiohttp.ClientConnectorError as error:
            raise RpcError(
                RpcErrorKind.UNAVAILABLE,
                f"{self.label} cannot be reached ({error.os_error.strerror or type(error.os_error).__name__}).",
            ) from None
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise RpcError(
                RpcErrorKind.UNAVAILABLE,
                f"{self.label} dropped the connection during {method} ({type(error).__name__}).",
                maybe_delivered=True,
            ) from None
        SECONDS.labels(self._chain, self.label, method).observe(time.perf_counter() - started)
        return answer

    async def _read(self, response: aiohttp.ClientResponse, method: str) -> bytes:
        parts: list[bytes] = []
        size = 0
        async for part in response.content.iter_any():
            size += len(part)
            if size > MAX_RESPONSE_BYTES:
                raise bad_answer(self.label, method, f"more than {MAX_RESPONSE_BYTES} bytes")
            parts.append(part)
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def _refused(self, response: aiohttp.ClientResponse, answer: bytes, method: str) -> RpcError:
        kind = classify_status(response.status)
        detail = ""
        try:
            error = msgspec.json.decode(answer, type=Answer[Any]).error
        except msgspec.DecodeError:
            error = None
        if error is not None and error.message:
            detail = f": {error.message[:300]}"
            from_text = classify(error.code, error.message)
            if response.status != 429 and from_text is not RpcErrorKind.UNKNOWN:
                kind = from_text
        return RpcError(
            kind,
            f"{self.label} responded to {method} with HTTP {response.status}{detail}.",
            data=revert_data(error) if error else None,
            # A gateway's 5xx says nothing about whether the node behind it took the request.
            maybe_delivered=response.status >= 500,
            retry_after_seconds=_retry_after(response.headers.get("Retry-After")),
        )


def bad_answer(label: str, method: str, what: str) -> RpcError:
    """Build the error for an invalid response to a request that the node accepted."""
    return RpcError(RpcErrorKind.BAD_ANSWER, f"{label} responded to {method} with {what}.", maybe_delivered=True)


def decode_answer(answer: bytes, shape: Any, method: str, label: str) -> Any:
    """Decode a response into a result of type `shape`. Raise RpcError if the response is an error or is invalid."""
    try:
        item = _ITEM.decode(answer)
    except (msgspec.DecodeError, UnicodeDecodeError) as problem:
        raise bad_answer(label, method, f"an invalid result: {problem}") from None
    return decode_item(item, shape, method, label)


def decode_item(item: Item, shape: Any, method: str, label: str) -> Any:
    """Decode an item of a batch response, as `decode_answer` does."""
    if item.error is not None:
        raise from_error_object(item.error, method, label)
    if isinstance(item.result, msgspec.UnsetType):
        raise bad_answer(label, method, "neither result nor error")
    try:
        return result_decoder(cast(Hashable, shape)).decode(item.result)
    except (msgspec.DecodeError, UnicodeDecodeError) as problem:
        raise bad_answer(label, method, f"an invalid result: {problem}") from None


def from_error_object(error: ErrorObject, method: str, label: str) -> RpcError:
    kind = classify(error.code, error.message)
    reason = error.message.strip().rstrip(".")[:500] or f"error {error.code}"
    return RpcError(kind, f"{label} refused {method}: {reason}.", data=revert_data(error))


def revert_data(error: ErrorObject) -> str | None:
    """Return the revert data as hex, or None. Nodes put it in `data`, in `data.data`, or at the end of a message."""
    data = error.data
    if isinstance(data, dict):
        data = data.get("data") or data.get("result")
    if not isinstance(data, str):
        return None
    text = data.rsplit(" ", 1)[-1]
    return text if _HEX.fullmatch(text) else None


def _retry_after(header: str | None) -> float | None:
    try:
        return None if header is None else max(0.0, float(header))
    except ValueError:
        return None
