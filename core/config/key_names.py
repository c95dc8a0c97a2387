"""Names of keys that lie in a cloud's key service, as written where the path of a keystore may stand.

    aws-kms://eu-central-1/alias/vpm-relay-0#0x...
    gcp-kms://projects/P/locations/L/keyRings/R/cryptoKeys/K/cryptoKeyVersions/1#0x...

Behind `#` the address the key must have. With it a lane starts although the key service is away, and follows what it
sent; a key with another address is refused.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from eth_utils.address import is_address, is_checksum_formatted_address, to_checksum_address

from core.hexadecimal import bytes_of

SCHEMES = ("aws-kms", "gcp-kms")

_AWS = re.compile(r"(?P<region>[a-z]{2}(?:-[a-z]+)+-[0-9]+)/(?P<key>[A-Za-z0-9:/_+=,.@-]{1,512})")
_GCP = re.compile(
    r"projects/[a-z0-9:.-]+/locations/[a-z0-9-]+/keyRings/[A-Za-z0-9_-]+/cryptoKeys/[A-Za-z0-9_-]+"
    r"/cryptoKeyVersions/[1-9][0-9]*"
)
_FORMS = {
    "aws-kms": "aws-kms://REGION/alias/NAME (or a key's id or ARN in place of alias/NAME)",
    "gcp-kms": "gcp-kms://projects/P/locations/L/keyRings/R/cryptoKeys/K/cryptoKeyVersions/N",
}


@dataclass(frozen=True, slots=True)
class KeyName:
    """A key of a cloud's key service. region: AWS only. address: 20 bytes, what it must be; None if nobody said."""

    service: Literal["aws-kms", "gcp-kms"]
    region: str
    key: str
    address: bytes | None = None

    def __str__(self) -> str:
        """As written, without the address."""
        return f"{self.service}://{self.region + '/' if self.region else ''}{self.key}"


def names_key(text: str) -> bool:
    """True for what is meant as such a name, well written or not; anything else is a path."""
    return re.match(rf"(?:{'|'.join(SCHEMES)}|[a-z]+-kms):", text) is not None


def key_name(text: str) -> KeyName:
    """ValueError with what was wrong and the form it should have."""
    scheme, _, rest = text.partition(":")
    rest, hashed, address = rest.removeprefix("//").partition("#")
    if scheme == "aws-kms":
        parts = _AWS.fullmatch(rest)
        if parts is None:
            raise ValueError(f"{text!r} is not of the form {_FORMS[scheme]}")
        return KeyName("aws-kms", parts["region"], parts["key"], _address(address) if hashed else None)
    if scheme == "gcp-kms":
        if _GCP.fullmatch(rest) is None:
            raise ValueError(f"{text!r} is not of the form {_FORMS[scheme]}, with the number of a version")
        return KeyName("gcp-kms", "", rest, _address(address) if hashed else None)
    raise ValueError(f"{scheme!r} is no key service: write {' or '.join(SCHEMES)}")


def _address(text: str) -> bytes:
    if not is_address(text):
        raise ValueError(f"{text!r} behind # is not an address")
    if is_checksum_formatted_address(text) and text != to_checksum_address(text):
        raise ValueError(f"{text!r} behind # has a wrong checksum")
    return bytes_of(text)
