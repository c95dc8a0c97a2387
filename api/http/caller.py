"""Who calls: the address limits are counted by, and the region a trusted proxy reports."""

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
    """The caller's address for rate limits; an IPv6 caller is its /64, which is what one customer is given.

    Behind trusted proxies it is what the first of them wrote into X-Forwarded-For: so many entries from the end as
    there are proxies. All before it are the caller's own words.
    """
    address = request.remote or ""
    if settings.trust_proxy:
        address = forwarded(request.headers.getall("X-Forwarded-For", ()), settings.proxy_hops) or address
    return bucket(address)


def is_local(who: str) -> bool:
    """Is this bucket the machine itself?"""
    return who != "unknown" and ipaddress.ip_network(who).is_loopback


def forwarded(lines: Sequence[str], hops: int) -> str:
    """The address that the first of so many proxies put down, without a port; empty when nobody did. Where there are
    fewer entries, the first: a request that passed fewer proxies, the health check of one say."""
    entries = ",".join(lines).split(",")[-hops:]
    entry = entries[0].strip().strip('"')
    for form in (_BRACKETED, _IPV4_AND_PORT):
        if (matched := form.fullmatch(entry)) is not None:
            return matched[1]
    return entry


def bucket(address: str) -> str:
    """What callers are counted by. Addresses nobody can read share one."""
    try:
        parsed = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return "unknown"
    if isinstance(parsed, ipaddress.IPv6Address):
        mapped = parsed.ipv4_mapped
        return str(mapped) if mapped else str(ipaddress.ip_network((parsed, 64), strict=False))
    return str(parsed)


def network(who: str) -> str:
    """Of a bucket, the network around it, which one customer may have all of: an IPv6 /48, an IPv4 /24. Limits that all
    callers share count by it, too: an owner of many addresses is not all of them."""
    if who == "unknown":
        return who
    own = ipaddress.ip_network(who)
    return str(own.supernet(new_prefix=48 if own.version == 6 else 24))


def blocked_region(request: web.Request, settings: Settings) -> str | None:
    """The caller's region when it is blocked; None when it is not, or nobody trustworthy says.

    Problem 400 for a region told twice: one of the two is the caller's own."""
    if not settings.trust_proxy:
        return None
    regions = request.headers.getall(settings.region_header, ())
    if len(regions) > 1:
        raise Problem(400, "invalid_request", f"The header {settings.region_header} was sent more than once.")
    region = regions[0].strip().upper() if regions else ""
    return region if region in settings.blocked_regions else None
