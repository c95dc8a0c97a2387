"""A call of the API before it is made, and what came of it."""

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
"""`meta.version` of the API that this library speaks."""
PREFIX = "/api/agent/v1"
SECONDS = 20.0
"""How long an answer may take. A trade takes longer, as it waits for the chain."""

Amount = Decimal | int | float | str
"""An amount of USD or shares; a float is taken as it prints."""

to_json = msgspec.json.Encoder(decimal_format="number").encode
"""Amounts are written as numbers, digit for digit."""


@dataclass(frozen=True, slots=True)
class Call(Generic[T]):
    """A request and the type of its answer. `of_wallet`: it is about the client's wallet unless its query names one."""

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
    """An answer as it came. Names of headers are lower-case."""

    status: int
    headers: Mapping[str, str]
    body: bytes


@dataclass(frozen=True, slots=True)
class Lost:
    """No answer: refused, cut off or timed out. Whether the request arrived is not known."""

    why: str


def decimal(amount: Amount) -> Decimal:
    made = amount if isinstance(amount, Decimal) else Decimal(str(amount))
    if not made.is_finite():
        raise ValueError(f"{amount} is no amount.")
    return made


def units(amount: Amount) -> int:
    """Millionths, which is what the token and the contract count in; ValueError for what has more digits than that."""
    scaled = decimal(amount).scaleb(6)
    if scaled != scaled.to_integral_value():
        raise ValueError(f"{amount} has more than 6 decimals.")
    return int(scaled)


def texts(**given: object) -> dict[str, str]:
    """Query parameters without those that are None."""
    return {name: _text(value) for name, value in given.items() if value is not None}


def _text(value: object) -> str:
    return format(decimal(value), "f") if isinstance(value, Decimal | float) else str(value)


def get(path: str, model: type[T], *, of_wallet: bool = False, **query: object) -> Call[T]:
    """Make a plain question."""
    return Call("GET", PREFIX + path, model, texts(**query), of_wallet)


def segment(value: str) -> str:
    """One part of a path."""
    return quote(value, safe="")


def json_body(content: Mapping[str, Any]) -> bytes:
    """Without what is None."""
    return to_json({name: value for name, value in content.items() if value is not None})


def answer(call: Call[T], reply: Reply) -> T:
    """The body of a 2xx, typed; raises what a refusal says."""
    if not 200 <= reply.status < 300:
        raise ApiError(reply.status, reply.headers, reply.body)
    return decoded(call.model, reply.body)


_decoders: dict[type[Any], msgspec.json.Decoder[Any]] = {}
_one_at_a_time = threading.Lock()


def decoder(model: type[T]) -> msgspec.json.Decoder[T]:
    """Return the JSON decoder of `model`. msgspec reads a type's fields on first use, and a second thread that uses the
    type at that moment crashes the whole process (seen with 0.22), so only one thread at a time makes a decoder."""
    with _one_at_a_time:
        if model not in _decoders:
            _decoders[model] = msgspec.json.Decoder(model)
        return _decoders[model]


def decoded(model: type[T], body: bytes) -> T:
    """Fields that this library does not know are left out. WrongVersion and UnexpectedAnswer say what does not fit."""
    try:
        made = decoder(model).decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise UnexpectedAnswer(f"The answer is no {model.__name__}: {error}") from None
    version = getattr(getattr(made, "meta", None), "version", API_VERSION)
    if version != API_VERSION:
        raise WrongVersion(f"The API speaks {version}, this library {API_VERSION}.")
    return made
