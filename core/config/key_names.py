"""Names of keys that lie in AWS KMS, as written where the path of a keystore may stand.

    aws-kms://eu-central-1/alias/vpm-relay-0#0x...

Behind `#` the address the key must have. With it a lane starts although the key service is away, and follows what it
sent; a key with another address is refused.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from eth_utils.address import is_address, is_checksum_formatted_address, to_checksum_address

from core.hexadecimal import bytes_of

SCHEME = "aws-kms"

_NAME = re.compile(r"(?P<region>[a-z]{2}(?:-[a-z]+)+-[0-9]+)/(?P<key>[A-Za-z0-9:/_+=,.@-]{1,512})")
_FORM = "aws-kms://REGION/alias/NAME (or a key's id or ARN in place of alias/NAME)"


@dataclass(frozen=True, slots=True)
class KeyName:
    """A key of AWS KMS. address: 20 bytes, what it must be; None where the name does not say."""

    region: str
    key: str
    address: bytes | None = None

    def __str__(self) -> str:
        """As written, without the address."""
        return f"{SCHEME}://{self.region}/{self.key}"


def names_key(text: str) -> bool:
    """Return True for what is meant as such a name, well written or not; anything else is a path."""
    return re.match(r"[a-z]+-kms:", text) is not None


def key_name(text: str) -> KeyName:
    """Read a key's name; ValueError with what is wrong and the form it should have."""
    scheme, _, rest = text.partition(":")
    rest, hashed, address = rest.removeprefix("//").partition("#")
    if scheme != SCHEME:
        raise ValueError(f"{scheme!r} is no key service: write {SCHEME}")
    parts = _NAME.fullmatch(rest)
    if parts is None:
        raise ValueError(f"{text!r} is not of the form {_FORM}")
    return KeyName(parts["region"], parts["key"], _address(address) if hashed else None)


def _address(text: str) -> bytes:
    if not is_address(text):
        raise ValueError(f"{text!r} behind # is not an address")
    if is_checksum_formatted_address(text) and text != to_checksum_address(text):
        raise ValueError(f"{text!r} behind # has a wrong checksum")
    return bytes_of(text)
