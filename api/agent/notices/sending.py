"""The delivery of one event. The event is signed and sent to a checked address; the response's status decides the
result.

Deliveries go only to public addresses, over TLS, and follow no redirects, to prevent server-side request forgery. A
name is resolved once, and all its addresses must be public. The connection goes to an address that was checked, so DNS
rebinding has no effect. `VPM_ALLOW_PRIVATE_WEBHOOKS=1`, for local work, allows any address and plain http.
"""

from __future__ import annotations

import asyncio
import collections
import hashlib
import hmac
import ipaddress
import socket
import ssl
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Literal

import aiodns
import aiohttp
from eth_account import Account
from eth_account.messages import encode_defunct
from eth_account.signers.local import LocalAccount
from yarl import URL

IpAddress = ipaddress.IPv4Address | ipaddress.IPv6Address

MAX_URL_CHARACTERS = 2048
RESOLVE_SECONDS = 3.0
# Timeout of one DNS query to one server, doubled with each retry.
QUESTION_SECONDS = 1.0
QUESTIONS = 3
LOWEST_OPEN_PORT = 1024
WEB_PORTS = frozenset({80, 443})
# Names on private networks; they are refused without being resolved.
PRIVATE_SUFFIXES = ("localhost", "local", "internal", "intranet", "lan", "home", "corp", "private", "home.arpa")

_PUBLIC_V6 = ipaddress.IPv6Network("2000::/3")
# Addresses that Python counts as global but that embed another address, lead to a relay or belong to a cloud.
_REFUSED = tuple(
    ipaddress.ip_network(each)
    for each in (
        "168.63.129.16/32",  # a cloud's host agent
        "192.0.0.0/24",  # protocol assignments, among them a cloud's metadata
        "192.88.99.0/24",  # 6to4 relays
        "2001::/23",  # Teredo, ORCHID, benchmarking
        "2001:db8::/32",  # documentation
        "2002::/16",  # 6to4: any IPv4 address inside
        "3fff::/20",  # documentation
    )
)

CONNECT_SECONDS = 3.0
TOTAL_SECONDS = 8.0
# One delivery including its DNS lookup.
MAX_SECONDS = RESOLVE_SECONDS + TOTAL_SECONDS
SLOW_SECONDS = 1.0
RESPONSE_BYTES = 8 * 1024
AT_ONCE_PER_ADDRESS = 4
USER_AGENT = "vpm-events/1"


@dataclass(frozen=True, slots=True)
class DeliveryResult:
    """The result of a delivery. `body`: the beginning of the response's body, if it was requested."""

    ok: bool
    error: str = ""
    """A sentence for the webhook's owner, which must reveal nothing about our network."""
    body: bytes = b""
    slow: bool = False
    """It used its slot for longer than most deliveries do."""


class AddressBusy(Exception):
    """The delivery must wait, since too many deliveries to the same address are in progress."""


class DeliverySigner:
    """Signs webhooks with their secret and callbacks with the attestation key."""

    def __init__(self, attestation_key: str | None) -> None:
        self._account: LocalAccount | None = None if attestation_key is None else Account.from_key(attestation_key)

    def headers(self, event_id: str, body: bytes, secret: str | None, now: int) -> dict[str, str]:
        signed = b"%b.%d.%b" % (event_id.encode(), now, body)
        headers = {
            "Content-Type": "application/json",
            "User-Agent": USER_AGENT,
            "Accept-Encoding": "identity",
            "Service-Event-Id": event_id,
            "Service-Timestamp": str(now),
        }
        if secret is not None:
            headers["Service-Signature"] = "v1=" + hmac.new(secret.encode(), signed, hashlib.sha256).hexdigest()
        elif self._account is not None:
            signature = self._account.sign_message(encode_defunct(primitive=signed)).signature
            headers["Service-Signature"] = "eip191=0x" + bytes(signature).hex()
        return headers


class WebhookSender:
    """Sends events, a few at once to each address. `trusts`: a TLS context for tests."""

    def __init__(
        self, signer: DeliverySigner, targets: TargetResolver, *, trusts: ssl.SSLContext | Literal[True] = True
    ) -> None:
        self._signer = signer
        self._targets = targets
        self._trusts = trusts
        self._busy: collections.Counter[str] = collections.Counter()
        """Deliveries in progress by address, and by host name, which is known before it is resolved."""

    async def send(
        self, url: str, event_id: str, body: bytes, secret: str | None, *, read_body: bool = False
    ) -> DeliveryResult:
        """Deliver one event. Raise AddressBusy if the delivery must wait, which does not count as a failure."""
        began = time.monotonic()
        try:
            address = checked_url(url, allow_private=self._targets.allow_private)
            with self._slot(f"name {address.host}"):
                target = await self._targets.resolve(address)
                with self._slot(target.network):
                    headers = self._signer.headers(event_id, body, secret, int(time.time()))
                    sent = await self._post_within(target, headers, body, read_body)
        except TargetRefused as why:
            sent = DeliveryResult(False, str(why))
        return replace(sent, slow=time.monotonic() - began > SLOW_SECONDS)

    async def aclose(self) -> None:
        await self._targets.aclose()

    @contextmanager
    def _slot(self, where: str) -> Iterator[None]:
        if self._busy[where] >= AT_ONCE_PER_ADDRESS:
            raise AddressBusy(where)
        self._busy[where] += 1
        try:
            yield
        finally:
            self._busy[where] -= 1
            if not self._busy[where]:
                del self._busy[where]

    async def _post_within(
        self, target: Target, headers: dict[str, str], body: bytes, read_body: bool
    ) -> DeliveryResult:
        try:
            async with asyncio.timeout(TOTAL_SECONDS):
                return await self._post(target, headers, body, read_body)
        except (TimeoutError, aiohttp.ServerTimeoutError):
            error = f"The endpoint did not respond within {TOTAL_SECONDS:.0f} s."
        except aiohttp.ClientConnectorCertificateError:
            error = "The endpoint's TLS certificate cannot be verified."
        except aiohttp.ClientSSLError:
            error = "The TLS handshake failed."
        except aiohttp.ClientConnectorError:
            error = "No connection could be made."
        except (aiohttp.ServerDisconnectedError, aiohttp.ClientOSError, ConnectionError):
            error = "The endpoint closed the connection."
        except (aiohttp.ClientError, OSError, ValueError):
            error = "The endpoint's response is not valid HTTP."
        return DeliveryResult(False, error)

    async def _post(self, target: Target, headers: dict[str, str], body: bytes, read_body: bool) -> DeliveryResult:
        # The connection goes to the address that was checked; the certificate must be for the name.
        checked = target.url.with_host(str(target.address))
        headers["Host"] = target.url.host_port_subcomponent or ""
        async with (
            aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(force_close=True, ssl=self._trusts),
                timeout=aiohttp.ClientTimeout(total=TOTAL_SECONDS, connect=CONNECT_SECONDS),
                auto_decompress=False,
                trust_env=False,
                cookie_jar=aiohttp.DummyCookieJar(),
            ) as session,
            session.post(
                checked, data=body, headers=headers, allow_redirects=False, server_hostname=target.url.host
            ) as response,
        ):
            if not 200 <= response.status < 300:
                return DeliveryResult(False, f"The endpoint returned status {response.status}.")
            read = b""
            while read_body and len(read) < RESPONSE_BYTES:
                piece = await response.content.read(RESPONSE_BYTES - len(read))
                if not piece:
                    break
                read += piece
            # The rest is not read; leaving closes the connection.
            return DeliveryResult(True, body=read)


# ---------------------------------------------------------------- targets


class TargetRefused(Exception):
    """The URL is refused. `args[0]` gives the reason without revealing what a name resolved to."""


@dataclass(frozen=True, slots=True)
class Target:
    url: URL
    address: IpAddress

    @property
    def network(self) -> str:
        """Return the address or, for an IPv6 address, its /64, which belongs to one operator."""
        if isinstance(self.address, ipaddress.IPv6Address):
            return str(ipaddress.ip_network((self.address, 64), strict=False))
        return str(self.address)


def is_public(address: IpAddress) -> bool:
    """Return whether an address is a single host on the public internet."""
    if isinstance(address, ipaddress.IPv6Address) and (address not in _PUBLIC_V6 or address.scope_id):
        return False  # among others loopback, link-local, unique local, mapped IPv4, NAT64, multicast
    if not address.is_global or address.is_multicast or address.is_reserved or address.is_unspecified:
        return False
    return not any(address.version == network.version and address in network for network in _REFUSED)


def checked_url(text: str, *, allow_private: bool) -> URL:
    """Return the parsed URL without resolving its name. Raise TargetRefused if the URL's form is not allowed."""
    if len(text) > MAX_URL_CHARACTERS or any(ord(each) <= 32 or ord(each) == 127 for each in text) or "\\" in text:
        raise TargetRefused("The URL has spaces, control characters or backslashes, or is too long.")
    try:
        url = URL(text)
        host, port = url.host, url.port
    except ValueError:
        raise TargetRefused("The URL is malformed.") from None
    if url.scheme not in ("https", "http") or not url.absolute or not host or port is None:
        raise TargetRefused("The URL must be absolute, like https://example.org/hook.")
    if url.user is not None or url.password is not None or "@" in url.authority:
        raise TargetRefused("The URL must not carry a user or password.")
    if url.fragment:
        raise TargetRefused("The URL must not have a fragment.")
    if allow_private:
        return url
    if url.scheme != "https":
        raise TargetRefused("The URL must begin with https://.")
    if port not in WEB_PORTS and port < LOWEST_OPEN_PORT:
        raise TargetRefused("The port must be 443, 80, or 1024 and above.")
    _check_host(host.rstrip(".").lower())
    return url


def _check_host(host: str) -> None:
    literal = _literal(host)
    if literal is not None:
        if not is_public(literal):
            raise TargetRefused("The address is not on the public internet.")
        return
    if ":" in host or host.replace(".", "").isdigit() or "%" in host:
        raise TargetRefused("The host is neither a name nor a complete address.")
    labels = host.split(".")
    if len(labels) < 2 or not all(labels) or any(host.endswith("." + each) for each in PRIVATE_SUFFIXES):
        raise TargetRefused("The host is not a public name.")


class TargetResolver:
    """A DNS client. A lookup that gets no response takes up a few bytes and no thread."""

    def __init__(self, *, allow_private: bool, servers: Sequence[str] | None = None) -> None:
        self.allow_private = allow_private
        self._servers = servers
        self._client: aiodns.DNSResolver | None = None

    async def resolve(self, url: URL) -> Target:
        """Resolve a URL. Raise TargetRefused if any address of the name is private."""
        host = url.raw_host or ""
        literal = _literal(host)
        addresses = [literal] if literal is not None else await self._addresses_of(host)
        if not addresses or not (self.allow_private or all(map(is_public, addresses))):
            raise TargetRefused("The address is not on the public internet.")
        # IPv4 first, since not every machine of ours has IPv6.
        return Target(url, min(addresses, key=lambda each: each.version))

    async def aclose(self) -> None:
        """Cancel open queries. Call this while their event loop is still running."""
        client, self._client = self._client, None
        if client is not None:
            await client.close()

    async def _addresses_of(self, host: str) -> list[IpAddress]:
        if self._client is None:  # created here, since it belongs to the running event loop
            self._client = aiodns.DNSResolver(self._servers, timeout=QUESTION_SECONDS, tries=QUESTIONS)
        try:
            async with asyncio.timeout(RESOLVE_SECONDS):
                answer = await self._client.getaddrinfo(host, type=socket.SOCK_STREAM)
        except (aiodns.error.DNSError, UnicodeError, TimeoutError):
            raise TargetRefused("The host name cannot be resolved.") from None
        return [ipaddress.ip_address(str(node.addr[0], "ascii")) for node in answer.nodes]


def _literal(host: str) -> IpAddress | None:
    """Return the host as an address. Return None for a name and for an address in decimal, octal or shortened form."""
    try:
        return ipaddress.ip_address(host.strip("[]"))
    except ValueError:
        return None
