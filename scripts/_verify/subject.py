"""Loads the subject to verify from a file, a URL of the service, or an id, and recognizes its kind."""

from __future__ import annotations

import re
import urllib.error
import urllib.request
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any
from urllib.parse import urljoin, urlsplit

from core.money import loads
from scripts._verify.chain import is_hash
from scripts._verify.claims import NotCheckable

FETCH_SECONDS = 20.0
MAX_BYTES = 50_000_000


class SubjectKind(StrEnum):
    RECEIPT = "trade receipt"
    CHALLENGE = "payment challenge"
    TRADE_PROOF = "trade proof"
    AGENT_POSITIONS = "agent positions"
    RESULT = "market result"
    TRADE = "trade"
    AGENT_MARKET = "agent market"
    RELAY = "relay response"
    MARKET = "stock market"
    POSITIONS = "stock positions"
    PROOF = "proof page"

    @property
    def chain(self) -> str:
        stock = (SubjectKind.RELAY, SubjectKind.MARKET, SubjectKind.POSITIONS, SubjectKind.PROOF)
        return "stock" if self in stock else "base"


@dataclass(frozen=True, slots=True)
class Subject:
    kind: SubjectKind
    body: Any
    name: str


def subject_of(word: str, service: str | None) -> Subject:
    """Return the document or id that a command line argument names. If the argument is the path of a file, the file is
    read. If it is a URL, the URL is fetched. If it begins with /api/, it is fetched from `service`. Anything else is an
    id."""
    path = Path(word)
    if path.is_file():
        try:
            return _recognize(loads(path.read_bytes()), word)
        except OSError as error:
            raise NotCheckable(f"{word} cannot be read: {error.strerror}.") from None
        except ValueError as error:
            raise NotCheckable(f"{word} is {error}.") from None
    if urlsplit(word).scheme in ("http", "https"):
        return _recognize(_fetch_json(word), word)
    if word.startswith("/api/"):
        if service is None:
            raise NotCheckable(f"{word} is a path of the service; give the service's URL with --service URL.")
        return _recognize(_fetch_json(urljoin(service, word)), word)
    return _id(word)


def _id(word: str) -> Subject:
    if is_hash(word):
        return Subject(SubjectKind.TRADE, word, word)
    if word.isdigit() and len(word) < 30:
        number = int(word)
        if number < 2**32:
            return Subject(SubjectKind.MARKET, {"id": word}, f"market {word}")
        return Subject(SubjectKind.POSITIONS, {"positions": [{"id": word}]}, f"position {word}")
    if re.fullmatch(r"[a-z0-9]+(?:-[a-z0-9]+)*", word):
        return Subject(SubjectKind.AGENT_MARKET, word, word)
    raise NotCheckable(
        f"{word} is not a file, a URL, a stock market or position id (digits), a trade id (0x and 64 hexadecimal "
        "digits) or an agent market's id."
    )


def _recognize(body: Any, name: str) -> Subject:
    kind = None if not isinstance(body, dict) else kind_of(body)
    if kind is None:
        raise NotCheckable(
            f"{name} is not a known document. Give a trade receipt, a 402 challenge, a trade proof, a "
            "result, positions, a relay response, a stock market or the proof page."
        )
    return Subject(kind, body, name)


def kind_of(body: dict[str, Any]) -> SubjectKind | None:
    """Return a document's kind. It is recognized by fields that only this kind of document has."""
    keys = body.keys()
    if "accepts" in keys and "x402Version" in keys:
        return SubjectKind.CHALLENGE
    if {"solvency", "counters"} & keys and "contracts" in keys:
        return SubjectKind.PROOF
    if {"txHash", "receipt", "nonce"} <= keys:
        return SubjectKind.RELAY
    if isinstance(body.get("receipt"), dict) or {"intentHash", "recordedAt"} <= keys:
        return SubjectKind.RECEIPT
    if {"tradeId", "settlement", "market"} <= keys:
        return SubjectKind.TRADE_PROOF
    if isinstance(body.get("result"), dict) or {"resolvedOutcome", "poolUsd"} <= keys:
        return SubjectKind.RESULT
    listed: dict[str, Any] = body["market"] if isinstance(body.get("market"), dict) else body
    if {"strikeTime", "finalTime", "specId"} <= listed.keys() and "positions" in keys:
        return SubjectKind.MARKET
    if "offered" in keys and "marketId" in keys:
        return SubjectKind.POSITIONS
    positions = body.get("positions")
    if isinstance(positions, list):
        first = positions[0] if positions and isinstance(positions[0], dict) else body
        return SubjectKind.POSITIONS if {"offered", "totals"} & first.keys() else SubjectKind.AGENT_POSITIONS
    return None


def _fetch_json(url: str) -> Any:
    try:
        with urllib.request.urlopen(url, timeout=FETCH_SECONDS) as answer:  # noqa: S310 (http and https only)
            content = answer.read(MAX_BYTES + 1)
    except urllib.error.HTTPError as error:
        raise NotCheckable(f"{url} returned status {error.code}.") from None
    except (OSError, ValueError) as error:
        raise NotCheckable(f"{url} cannot be fetched: {error}.") from None
    if len(content) > MAX_BYTES:
        raise NotCheckable(f"{url} returned more than {MAX_BYTES // 1_000_000} MB.")
    try:
        return loads(content)
    except ValueError as error:
        raise NotCheckable(f"The response of {url} is {error}.") from None
