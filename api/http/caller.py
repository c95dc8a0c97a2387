"""Who calls: the address limits are counted by, and the region a trusted proxy reports."""

from __future__ import annotations

import ipaddress

from aiohttp import web

from core.config import Settings


def caller_ip(request: web.Request, settings: Settings) -> str:
    """The caller's address for rate limits; an IPv6 caller is its /64, which is what one customer is given.

    Behind a trusted proxy it is the last entry of X-Forwarded-For, the one that proxy wrote: earlier ones are the
    caller's own words.
    """
    address = request.remote or ""
    if settings.trust_proxy:
        forwarded = request.headers.get("X-Forwarded-For", "")
        address = forwarded.rpartition(",")[2].strip() or address
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return "unknown"
    if isinstance(parsed, ipaddress.IPv6Address):
        mapped = parsed.ipv4_mapped
        return str(mapped) if mapped else str(ipaddress.ip_network((parsed, 64), strict=False))
    return str(parsed)


def blocked_region(request: web.Request, settings: Settings) -> str | None:
    """The caller's region when it is blocked; None when it is not, or nobody trustworthy says."""
    if not settings.trust_proxy:
        return None
    region = request.headers.get(settings.region_header, "").strip().upper()
    return region if region in settings.blocked_regions else None
