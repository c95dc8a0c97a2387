"""What a key service must do for us, and how its refusals sort."""

from __future__ import annotations

from typing import Protocol

from core.errors import VpmError


class KmsFault(VpmError):
    """The key service did not answer, or with an error of its own; asking again may help."""

    code = "kms_fault"
    default_retriable = True


class KmsThrottled(KmsFault):
    """The key service refuses for now, because too much is asked of it."""

    code = "kms_throttled"


class KmsDenied(VpmError):
    """The key service will not sign until somebody changes something: permissions, the name, the key's state."""

    code = "kms_denied"


class KmsKey(Protocol):
    """One key of a key service. Each call is one request; KmsFault or KmsDenied when it is not answered."""

    @property
    def name(self) -> str:
        """As the operator wrote it."""

    async def public_key(self) -> bytes:
        """DER, SubjectPublicKeyInfo."""

    async def sign(self, digest: bytes) -> bytes:
        """DER, over exactly these 32 bytes."""
