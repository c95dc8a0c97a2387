"""API requests and replies, and their JSON encoding."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Generic, TypeVar
from urllib.parse import quote

import msgspec

from vpm_client.errors import ApiError, UnexpectedAnswer, WrongVersion

T = TypeVar("T")

API_VERSION = "service-agent-api-v1"
"""The `meta.version` of the API that this library supports."""
PREFIX = "/api/agent/v1"
SECONDS = 20.0
"""The default request timeout. A trade has a longer one, since it waits for the chain."""

Amount = Decimal | int | float | str
"""An amount of USD or shares. A float counts as the decimal number that it prints as."""

to_json = msgspec.json.Encoder(decimal_format="number").encode


@dataclass(frozen=True, slots=True)
class Call(Generic[T]):
    """A request and its response type. `of_wallet`: whether to add the client's wallet to a query without one."""

    method: str
    path: str
    model: type[T]
    query: Mapping[str, str] = field(default_factory=dict)
    of_wallet: bool = False
    body: bytes | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    seconds: float = SECONDS


@dataclass(frozen=True, slots=True)
class Reply:
    """A raw HTTP response. Header names are in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes


@dataclass(frozen=True, slots=True)
class Lost:
    """A request that got no response. The request may or may not have arrived."""

    why: str


def decimal(amount: Amount) -> Decimal:
    made = amount if isinstance(amount, Decimal) else Decimal(str(amount))
    if not made.is_finite():
        raise ValueError(f"{amount} is not an amount.")
    return made


def units(amount: Amount) -> int:
    """Convert an amount to millionths, the unit of the token and the contract, without rounding."""
    scaled = decimal(amount).scaleb(6)
    if scaled != scaled.to_integral_value():
        raise ValueError(f"{amount} has more than 6 decimals.")
    return int(scaled)


def query_of(**given: object) -> dict[str, str]:
    """Return the query parameters that are not None, as text."""
    return {
        name: format(decimal(value), "f") if isinstance(value, Decimal | float) else str(value)
        for name, value in given.items()
        if value is not None
    }


def get(path: str, model: type[T], *, of_wallet: bool = False, **query: object) -> Call[T]:
    return Call("GET", PREFIX + path, model, query_of(**query), of_wallet)


def path_segment(value: str) -> str:
    return quote(value, safe="")


def json_body(content: Mapping[str, Any]) -> bytes:
    """Encode the fields that are not None."""
    return to_json({name: value for name, value in content.items() if value is not None})


def decode_reply(call: Call[T], reply: Reply) -> T:
    """Decode the body of a 2xx reply. Raise ApiError for any other status."""
    if not 200 <= reply.status < 300:
        raise ApiError(reply.status, reply.headers, reply.body)
    return decode(call.model, reply.body)


_decoders: dict[type[Any], msgspec.json.Decoder[Any]] = {}
_one_at_a_time = threading.Lock()


def decoder(model: type[T]) -> msgspec.json.Decoder[T]:
    """Return the JSON decoder of `model`. Only one thread at a time creates a decoder. If two threads use a type for
    the first time at the same moment, msgspec 0.22 crashes the process."""
    with _one_at_a_time:
        if model not in _decoders:
            _decoders[model] = msgspec.json.Decoder(model)
        return _decoders[model]


def decode(model: type[T], body: bytes) -> T:
    """Decode a body, ignoring unknown fields. Raise UnexpectedAnswer or WrongVersion if it does not match `model`."""
    try:
        made = decoder(model).decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise UnexpectedAnswer(f"The response is not a valid {model.__name__}: {error}") from None
    version = getattr(getattr(made, "meta", None), "version", API_VERSION)
    if version != API_VERSION:
        raise WrongVersion(f"The API has version {version}; this library supports {API_VERSION}.")
    return made
