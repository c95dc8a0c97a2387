"""Which key serves which lanes, as written in a variable: `[chain:][group+group=]what`, separated by commas.

    VPM_RELAYER_KEYS=relay=0x..., keeper=0x..., stock:opener=0x..., base:credit=0x..., base:lister+publisher=0x...
    VPM_RELAYER_KEYSTORES=stock:relay=/keys/stock.json, base:relay=aws-kms://eu-central-1/alias/vpm-relay-0#0x...

Without a chain the key has a lane on each; without groups it serves `relay` and `keeper`, which will do on a chain for
development. On a live one the relayer does not start with a key that serves `relay` and anything else: who makes bets
burn gas would stop the rest with them. Several keys of one group are several lanes. Each role of a contract is a group
of its own. `credit` wants a key of its own too: whoever holds CREDITOR can take all unbooked money.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, NamedTuple

from pydantic import BeforeValidator, SecretStr

from core.config.key_names import KeyName, key_name, names_key
from core.config.values import PrivateKey, split_list

DEFAULT_GROUPS = ("relay", "keeper")

_PREFIXED = re.compile(r"(?:(?P<chain>[a-z]+):)?(?P<groups>[a-z][a-z0-9_+-]*)=(?P<what>.+)", re.DOTALL)


class LaneKey(NamedTuple):
    """A private key and the lanes it serves; chain None means every chain."""

    chain: str | None
    groups: tuple[str, ...]
    secret: PrivateKey


class LaneKeystore(NamedTuple):
    """Where a key lies, an encrypted keystore file or AWS KMS, and the lanes it serves."""

    chain: str | None
    groups: tuple[str, ...]
    place: KeyName | Path


def _split(text: str) -> tuple[str | None, tuple[str, ...], str]:
    parts = _PREFIXED.fullmatch(text.strip())
    if parts is None:
        return None, DEFAULT_GROUPS, text.strip()
    chain, groups = parts["chain"], tuple(part for part in parts["groups"].split("+") if part)
    if chain not in (None, "base", "stock"):
        raise ValueError(f"{chain!r} is not a chain: write base or stock")
    for group in groups:
        if not re.fullmatch(r"[a-z][a-z0-9_-]{0,31}", group):
            raise ValueError(f"{group!r} is not a lower-case word")
    return chain, groups, parts["what"].strip()


def _each(read: Callable[[str], Any]) -> BeforeValidator:
    """Reads the parts of a list; what is no text, or no list, is left for the field to take or refuse."""

    def parts_of(value: Any) -> Any:
        parts = split_list(value)
        if not isinstance(parts, tuple):
            return value
        return tuple(read(part) if isinstance(part, str) else part for part in parts)

    return BeforeValidator(parts_of)


def _lane_key(text: str) -> tuple[str | None, tuple[str, ...], SecretStr]:
    chain, groups, secret = _split(text)
    return chain, groups, SecretStr(secret)


def _lane_keystore(text: str) -> tuple[str | None, tuple[str, ...], KeyName | Path]:
    chain, groups, place = _split(text)
    return chain, groups, key_name(place) if names_key(place) else Path(place)


LaneKeys = Annotated[tuple[LaneKey, ...], _each(_lane_key)]
LaneKeystores = Annotated[tuple[LaneKeystore, ...], _each(_lane_keystore)]
