"""That whoever registers a webhook owns the wallet: a dated text that names both, signed by the wallet."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

from eth_account.messages import encode_defunct
from eth_utils.crypto import keccak

from api.agent.chain import accepts_signature
from api.agent.problems import problem
from api.agent.x402 import signer_of
from core.chain import ChainClient, RpcError
from core.log import get_logger

log = get_logger(__name__)

TITLE = "Service webhook registration"
VALID_FOR = timedelta(minutes=10)
_FORM = re.compile(
    re.escape(TITLE) + r"\nWallet: (?P<wallet>0x[0-9a-f]{40})\nURL: (?P<url>[^\n]+)\nIssued: (?P<issued>[^\n]+)"
)
HINT = "Sign the four lines with personal_sign: title, `Wallet: <lower-case>`, `URL: <url>`, `Issued: <ISO-8601 now>`."


def registration_message(wallet: str, url: str, issued: str) -> str:
    return f"{TITLE}\nWallet: {wallet}\nURL: {url}\nIssued: {issued}"


def check_message(message: str, *, wallet: str, url: str, now: datetime) -> None:
    """422 unless the text is about this wallet and URL and is at most ten minutes old."""
    found = _FORM.fullmatch(message)
    if found is None:
        raise _unproven("The message is not the four lines of a registration.")
    if found["wallet"] != wallet:
        raise _unproven("The message names another wallet.")
    if found["url"] != url:
        raise _unproven("The message names another URL.")
    try:
        issued = datetime.fromisoformat(found["issued"])
    except ValueError:
        raise _unproven("The message's time is not ISO-8601.") from None
    if issued.tzinfo is None:
        issued = issued.replace(tzinfo=UTC)
    if abs(now - issued) > VALID_FOR:
        raise _unproven("The message was not issued within 10 minutes of now.")


async def check_signature(
    client: ChainClient | None, *, wallet: str, message: str, signature: str, timeout_seconds: float
) -> None:
    """422 unless the wallet signed: its key (EIP-191), or its contract says so (ERC-1271)."""
    try:
        raw = bytes.fromhex(signature.removeprefix("0x"))
    except ValueError:
        raise _unproven("The signature is not hexadecimal.") from None
    signable = encode_defunct(text=message)
    digest = keccak(b"\x19" + signable.version + signable.header + signable.body)
    if len(raw) == 65 and raw[64] in (0, 1):
        raw = raw[:64] + bytes([raw[64] + 27])
    if signer_of(digest, raw) == wallet:
        return
    if client is not None:
        try:
            if await accepts_signature(client, wallet, digest, raw, timeout_seconds):
                return
        except RpcError as error:
            log.warning("a signature has no chain", action="agent.no_chain", why=error)
            raise problem("internal_error", "Base cannot be asked about this signature now.") from None
    raise _unproven("The signature is not the wallet's over this message.")


def _unproven(why: str) -> Exception:
    return problem("invalid_wallet", why, hint=HINT)
