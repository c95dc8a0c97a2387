"""Proof that whoever registers a webhook owns the wallet: a signed, dated text with the service, wallet and URL."""

from __future__ import annotations

import contextlib
import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from eth_account.messages import encode_defunct

from api.agent.errors import problem
from api.payments.authorization import accepts_signature
from core.chain import ChainClient, RpcError
from core.hexadecimal import bytes_of
from core.log import get_logger
from core.signatures import message_hash, signer_of, with_usual_v

log = get_logger(__name__)

TITLE = "Service webhook registration"
VALID_FOR = timedelta(minutes=10)
_FORM = re.compile(
    re.escape(TITLE) + r"\nService: (?P<service>[^\n]+)\nWallet: (?P<wallet>0x[0-9a-f]{40})\nURL: (?P<url>[^\n]+)"
    r"\nIssued: (?P<issued>[^\n]+)"
)


def registration_message(service: str, wallet: str, url: str, issued: str) -> str:
    return f"{TITLE}\nService: {service}\nWallet: {wallet}\nURL: {url}\nIssued: {issued}"


@dataclass(frozen=True, slots=True)
class Registration:
    """A registration that the wallet must have signed recently. service: our origin; now: the time of the check."""

    service: str
    wallet: str
    url: str
    now: datetime

    def check_message(self, message: str) -> None:
        """Raise 422 unless the text names this service, wallet and URL and is at most ten minutes old."""
        parts = _FORM.fullmatch(message)
        issued = None
        with contextlib.suppress(ValueError):
            issued = None if parts is None else datetime.fromisoformat(parts["issued"])
        if issued is not None and issued.tzinfo is None:
            issued = issued.replace(tzinfo=UTC)
        if parts is None:
            why = "The message does not have the five lines of a registration."
        elif parts["service"] != self.service:
            why = "The message names another service."
        elif parts["wallet"] != self.wallet:
            why = "The message names another wallet."
        elif parts["url"] != self.url:
            why = "The message names another URL."
        elif issued is None:
            why = "The message's time is not ISO-8601."
        elif abs(self.now - issued) > VALID_FOR:
            why = "The message's time is more than 10 minutes from now."
        else:
            return
        raise self.unproven(why)

    async def check_signature(
        self, client: ChainClient | None, message: str, signature: str, timeout_seconds: float
    ) -> None:
        """Raise 422 unless the wallet signed, with its key (EIP-191) or through its contract (ERC-1271)."""
        try:
            raw = bytes_of(signature)
        except ValueError:
            raise self.unproven("The signature is not hexadecimal.") from None
        digest = digest_of(message)
        raw = with_usual_v(raw)
        if (signer := signer_of(digest, raw)) is not None and signer.lower() == self.wallet:
            return
        if client is not None:
            try:
                if await accepts_signature(client, self.wallet, digest, raw, timeout_seconds):
                    return
            except RpcError as error:
                log.warning("failed to check a contract wallet's signature", action="agent.no_chain", why=error)
                raise problem("internal_error", "The signature cannot be checked on Base at the moment.") from None
        raise self.unproven("The signature is not the wallet's signature of this message.")

    def unproven(self, why: str) -> Exception:
        """Return a 422 with the exact text that would be accepted now."""
        text = registration_message(self.service, self.wallet, self.url, self.now.isoformat(timespec="seconds"))
        hint = f"Sign exactly these five lines with personal_sign, and send them as `message`:\n{text}"
        return problem("invalid_wallet", why, hint=hint, details={"message": text})


def digest_of(message: str) -> bytes:
    """Return the digest that personal_sign signs."""
    return message_hash(encode_defunct(text=message))
