"""Lane keys as written in settings: `[chain:][group+group=]key`, separated by commas.

    VPM_RELAYER_KEYS=relay=0x..., keeper=0x..., stock:opener=0x..., base:credit=0x..., base:lister+publisher=0x...
    VPM_RELAYER_KEYSTORES=stock:relay=/keys/stock.json, base:relay=aws-kms://eu-central-1/alias/vpm-relay-0#0x...

Without a chain, the key has a lane on each chain. Without groups, it serves `relay` and `keeper`, which is enough for
development. A group with several keys has several lanes. Each role of a contract is a separate group.

On a live chain, the relayer does not start with a key that serves `relay` and anything else: an attacker who makes bets
burn gas would also stop the other groups. `credit` needs a separate key too, since the holder of CREDITOR can take all
unbooked money.

In VPM_RELAYER_KEYSTORES, an entry is a keystore's path, or a key in AWS KMS with its expected address. The address lets
a lane start and follow its transactions while the key service is down. It also ensures that no other key is used.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, NamedTuple

from eth_utils.address import is_address, is_checksum_formatted_address, to_checksum_address
from pydantic import BeforeValidator, SecretStr

from core.config.values import PrivateKey, split_list
from core.hexadecimal import bytes_of

DEFAULT_GROUPS = ("relay", "keeper")
SCHEME = "aws-kms"

_PREFIXED = re.compile(r"(?:(?P<chain>[a-z]+):)?(?P<groups>[a-z][a-z0-9_+-]*)=(?P<what>.+)", re.DOTALL)
_NAME = re.compile(r"(?P<region>[a-z]{2}(?:-[a-z]+)+-[0-9]+)/(?P<key>[A-Za-z0-9:/_+=,.@-]{1,512})")
_FORM = "aws-kms://REGION/alias/NAME (or a key's id or ARN in place of alias/NAME)"


@dataclass(frozen=True, slots=True)
class KeyName:
    """The name of a key in AWS KMS, with the key's expected address."""

    region: str
    key: str
    address: bytes | None = None

    def __str__(self) -> str:
        """Return the name as in the settings, without the address."""
        return f"{SCHEME}://{self.region}/{self.key}"


def is_kms_name(text: str) -> bool:
    """Return whether the text is a KMS key's name, well-formed or not. Any other text is a path."""
    return re.match(r"[a-z]+-kms:", text) is not None


def key_name(text: str) -> KeyName:
    scheme, _, rest = text.partition(":")
    rest, hashed, address = rest.removeprefix("//").partition("#")
    if scheme != SCHEME:
        raise ValueError(f"{scheme!r} is not a known key service; expected {SCHEME}")
    parts = _NAME.fullmatch(rest)
    if parts is None:
        raise ValueError(f"{text!r} does not have the form {_FORM}")
    return KeyName(parts["region"], parts["key"], _address(address) if hashed else None)


def _address(text: str) -> bytes:
    if not is_address(text):
        raise ValueError(f"{text!r} after # is not an address")
    if is_checksum_formatted_address(text) and text != to_checksum_address(text):
        raise ValueError(f"{text!r} after # has a wrong checksum")
    return bytes_of(text)


class LaneKey(NamedTuple):
    chain: str | None  # None: every chain
    groups: tuple[str, ...]
    secret: PrivateKey


class LaneKeystore(NamedTuple):
    chain: str | None
    groups: tuple[str, ...]
    place: KeyName | Path


def _split(text: str) -> tuple[str | None, tuple[str, ...], str]:
    parts = _PREFIXED.fullmatch(text.strip())
    if parts is None:
        return None, DEFAULT_GROUPS, text.strip()
    chain, groups = parts["chain"], tuple(part for part in parts["groups"].split("+") if part)
    if chain not in (None, "base", "stock"):
        raise ValueError(f"{chain!r} is not a chain; expected base or stock")
    for group in groups:
        if not re.fullmatch(r"[a-z][a-z0-9_-]{0,31}", group):
            raise ValueError(f"{group!r} is not a group; expected a lower-case word")
    return chain, groups, parts["what"].strip()


def _each(read: Callable[[str], Any]) -> BeforeValidator:
    """Return a validator that parses each part of a comma-separated list and leaves other values unchanged."""

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
    return chain, groups, key_name(place) if is_kms_name(place) else Path(place)


LaneKeys = Annotated[tuple[LaneKey, ...], _each(_lane_key)]
LaneKeystores = Annotated[tuple[LaneKeystore, ...], _each(_lane_keystore)]
