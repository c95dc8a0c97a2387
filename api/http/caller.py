"""The caller: the address that limits count by, and the region that a trusted proxy reports."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Sequence

from aiohttp import web

from api.http.problem import Problem
from core.config import Settings

_BRACKETED = re.compile(r"\[([^\]]*)\](?::\d+)?")
_IPV4_AND_PORT = re.compile(r"([^:]*):\d+")


def caller_ip(request: web.Request, settings: Settings) -> str:
    """Return the caller's address for rate limits. For IPv6 it is the /64, the least that a customer gets.

    Behind trusted proxies it is what the first of them added to X-Forwarded-For: as many entries from the end as there
    are proxies. The entries before it come from the caller.
    """
    address = request.remote or ""
    if settings.trust_proxy:
        address = forwarded(request.headers.getall("X-Forwarded-For", ()), settings.proxy_hops) or address
    return bucket(address)


def is_local(who: str) -> bool:
    """Return whether this bucket is the machine itself."""
    return who != "unknown" and ipaddress.ip_network(who).is_loopback


def forwarded(lines: Sequence[str], hops: int) -> str:
    """Return the address that the first of `hops` proxies recorded, without a port, or an empty text. With fewer
    entries, as in a proxy's own health check, it is the first entry."""
    entries = ",".join(lines).split(",")[-hops:]
    entry = entries[0].strip().strip('"')
    for form in (_BRACKETED, _IPV4_AND_PORT):
        if (matched := form.fullmatch(entry)) is not None:
            return matched[1]
    return entry


def bucket(address: str) -> str:
    """Return what callers are counted by. Unreadable addresses share one bucket."""
    try:
        parsed = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return "unknown"
    if isinstance(parsed, ipaddress.IPv6Address):
        mapped = parsed.ipv4_mapped
        return str(mapped) if mapped else str(ipaddress.ip_network((parsed, 64), strict=False))
    return str(parsed)


def network(who: str) -> str:
    """Return the network around a bucket that one customer may own: an IPv6 /48 or an IPv4 /24. Shared limits count by
    it too, so that an owner of many addresses cannot take everything."""
    if who == "unknown":
        return who
    own = ipaddress.ip_network(who)
    return str(own.supernet(new_prefix=48 if own.version == 6 else 24))


def blocked_region(request: web.Request, settings: Settings) -> str | None:
    """Return the caller's region if it is blocked, else None; None also without a trusted proxy.

    Problem 400 if the header comes twice: one of the two is from the caller."""
    if not settings.trust_proxy:
        return None
    regions = request.headers.getall(settings.region_header, ())
    if len(regions) > 1:
        raise Problem(400, "invalid_request", f"The header {settings.region_header} was sent more than once.")
    region = regions[0].strip().upper() if regions else ""
    return region if region in settings.blocked_regions else None
