"""Protection against server-side request forgery: webhooks go only to public addresses, over TLS.

A name is resolved once per delivery, all its addresses must be public, and the connection goes to the address that was
checked, so DNS rebinding has no effect. `VPM_ALLOW_PRIVATE_WEBHOOKS=1`, for local work, allows any address and plain
http.
"""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from collections.abc import Sequence
from dataclasses import dataclass

import aiodns
from aiohttp.abc import AbstractResolver, ResolveResult
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


class TargetRefused(Exception):
    """The refusal to send to a URL; `args[0]` gives the reason without revealing what a name resolved to."""


@dataclass(frozen=True, slots=True)
class Target:
    """An allowed URL, with the address to connect to."""

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
    """The DNS client for webhooks. A lookup that is never answered costs a few bytes and no thread. `servers`: the name
    servers to use instead of the system's, as host:port."""

    def __init__(self, *, allow_private: bool, servers: Sequence[str] | None = None) -> None:
        self.allow_private = allow_private
        self._servers = servers
        self._client: aiodns.DNSResolver | None = None

    async def resolve(self, url: URL) -> Target:
        """Return the target of a delivery. Raise TargetRefused if any address of the name is private."""
        host = url.raw_host or ""
        literal = _literal(host)
        addresses = [literal] if literal is not None else await self._addresses_of(host)
        if not addresses or not (self.allow_private or all(map(is_public, addresses))):
            raise TargetRefused("The address is not on the public internet.")
        # IPv4 first, since not every machine of ours has IPv6.
        return Target(url, min(addresses, key=lambda each: each.version))

    async def aclose(self) -> None:
        """Cancel open queries, while their event loop still runs."""
        client, self._client = self._client, None
        if client is not None:
            await client.close()

    async def _addresses_of(self, host: str) -> list[IpAddress]:
        """Return all addresses of a name, from /etc/hosts or DNS."""
        if self._client is None:  # created here, since it belongs to the running event loop
            self._client = aiodns.DNSResolver(self._servers, timeout=QUESTION_SECONDS, tries=QUESTIONS)
        try:
            async with asyncio.timeout(RESOLVE_SECONDS):
                answer = await self._client.getaddrinfo(host, type=socket.SOCK_STREAM)
        except (aiodns.error.DNSError, UnicodeError, TimeoutError):
            raise TargetRefused("The host name cannot be resolved.") from None
        return [ipaddress.ip_address(str(node.addr[0], "ascii")) for node in answer.nodes]


class PinnedResolver(AbstractResolver):
    """A resolver that answers every name with the address that was checked."""

    def __init__(self, target: Target) -> None:
        self._address = target.address

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        version = socket.AF_INET if self._address.version == 4 else socket.AF_INET6
        return [
            ResolveResult(
                hostname=host, host=str(self._address), port=port, family=version, proto=0, flags=socket.AI_NUMERICHOST
            )
        ]

    async def close(self) -> None:
        return None


def _literal(host: str) -> IpAddress | None:
    """Return the host as an address. Return None for a name and for an address in decimal, octal or shortened form."""
    try:
        return ipaddress.ip_address(host.strip("[]"))
    except ValueError:
        return None
