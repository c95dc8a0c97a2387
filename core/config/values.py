"""Validated types for settings."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Annotated, Any
from urllib.parse import urlsplit

from pydantic import AfterValidator, BeforeValidator, Field, SecretStr

_SECP256K1_ORDER = 0xFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFEBAAEDCE6AF48A03BBFD25E8CD0364141


def split_list(value: Any) -> Any:
    """Split a comma-separated string into stripped parts, and return any other value unchanged."""
    return tuple(part.strip() for part in value.split(",") if part.strip()) if isinstance(value, str) else value


def _check_url(url: str, schemes: tuple[str, ...]) -> str:
    try:
        parts = urlsplit(url)
        bad = parts.scheme not in schemes or not parts.hostname
        _ = parts.port  # raises on a port that is not a number below 65536
    except ValueError:
        bad = True
    if bad:
        # The message leaves out the value, which may hold a password or an API key.
        raise ValueError(f"not a URL that has a host and starts with {' or '.join(s + '://' for s in schemes)}")
    return url


def _check_database_url(secret: SecretStr) -> SecretStr:
    """Check a database URL, which may name several hosts: a primary and its standbys."""
    url = secret.get_secret_value()
    scheme, separator, rest = url.partition("://")
    authority, slash, path = rest.partition("/")
    login, at, hosts = authority.rpartition("@")
    if "," in hosts and "[" in hosts:
        raise ValueError("a URL with several hosts can only contain host names and IPv4 addresses")
    for host in hosts.split(","):
        _check_url(f"{scheme}{separator}{login}{at}{host}{slash}{path}", ("postgresql", "postgres"))
    return secret


def _check_private_key(secret: SecretStr) -> SecretStr:
    text = secret.get_secret_value().removeprefix("0x")
    if not re.fullmatch(r"[0-9a-fA-F]{64}", text):
        raise ValueError("not 64 hexadecimal digits")
    if not 0 < int(text, 16) < _SECP256K1_ORDER:
        raise ValueError("not a valid secp256k1 key")
    return SecretStr("0x" + text.lower())


def _check_aware(value: datetime) -> datetime:
    if value.tzinfo is None:
        raise ValueError("the time has no time zone")
    return value.astimezone(UTC)


def _check_regions(regions: tuple[str, ...]) -> tuple[str, ...]:
    for region in regions:
        if not re.fullmatch(r"[A-Za-z]{2}", region):
            raise ValueError(f"{region!r} is not a two-letter country code")
    return tuple(region.upper() for region in regions)


def _check_unique(urls: tuple[str, ...]) -> tuple[str, ...]:
    if len(set(urls)) != len(urls):
        raise ValueError("the same URL is listed twice")
    return urls


HttpUrlText = Annotated[str, AfterValidator(lambda url: _check_url(url, ("http", "https")))]
WsUrlText = Annotated[str, AfterValidator(lambda url: _check_url(url, ("ws", "wss")))]
# Node URLs often contain an API key, so they stay out of repr.
HttpUrls = Annotated[
    tuple[HttpUrlText, ...],
    BeforeValidator(split_list),
    AfterValidator(_check_unique),
    Field(repr=False, description="http(s) URLs of the chain's nodes, separated by commas"),
]
WsUrls = Annotated[
    tuple[WsUrlText, ...],
    BeforeValidator(split_list),
    AfterValidator(_check_unique),
    Field(repr=False, description="ws(s) URLs of the chain's nodes, separated by commas"),
]
DatabaseUrl = Annotated[SecretStr, AfterValidator(_check_database_url)]
PrivateKey = Annotated[SecretStr, AfterValidator(_check_private_key)]
Regions = Annotated[tuple[str, ...], BeforeValidator(split_list), AfterValidator(_check_regions)]
UtcTime = Annotated[datetime, AfterValidator(_check_aware)]
Port = Annotated[int, Field(ge=0, le=65535, description="a port from 0 to 65535")]
NetworkName = Annotated[
    str, Field(pattern=r"^[a-z0-9][a-z0-9_-]{0,63}$", description="the name of a deployment file without .json")
]
