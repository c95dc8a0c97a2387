"""Attempts to make the service send into a private network: each is refused before it connects."""

from __future__ import annotations

import asyncio
import ipaddress
import re
from contextlib import aclosing

import pytest

from api.agent.notices.dispatcher import AT_ONCE
from api.agent.notices.sending import Target, TargetRefused, TargetResolver, checked_url, is_public
from tests.support.name_server import NameServer, name_server
from tests.waiting import until

LITERALS = [
    "https://127.0.0.1/",
    "https://127.1.2.3:8443/",
    "https://0.0.0.0/",
    "https://10.0.0.1/",
    "https://172.16.0.1/",
    "https://192.168.1.1/",
    "https://169.254.169.254/latest/meta-data/",  # clouds' metadata
    "https://169.254.170.2/v2/credentials",  # containers' credentials
    "https://100.100.100.200/latest/meta-data/",
    "https://192.0.0.192/opc/v2/",
    "https://168.63.129.16/machine",
    "https://100.64.0.1/",  # shared address space
    "https://198.18.0.1/",  # benchmarking
    "https://192.0.2.1/",  # documentation
    "https://203.0.113.7/",
    "https://192.88.99.1/",  # 6to4 relay
    "https://224.0.0.1/",  # multicast
    "https://240.0.0.1/",  # reserved
    "https://255.255.255.255/",
    "https://[::1]/",
    "https://[::]/",
    "https://[::ffff:127.0.0.1]/",  # mapped
    "https://[::ffff:7f00:1]/",
    "https://[::ffff:8.8.8.8]/",
    "https://[::127.0.0.1]/",  # compatible
    "https://[64:ff9b::7f00:1]/",  # NAT64
    "https://[64:ff9b:1::a00:1]/",
    "https://[2002:7f00:1::]/",  # 6to4 with 127.0.0.1 inside
    "https://[2001:0:53aa:64c:0:7fff:80ff:fffe]/",  # Teredo
    "https://[fe80::1]/",  # link-local
    "https://[fec0::1]/",  # site-local
    "https://[fc00::1]/",  # unique local
    "https://[fd00:ec2::254]/latest/meta-data/",
    "https://[ff02::1]/",
    "https://[2001:db8::1]/",
    "https://[100::1]/",
]
SPELLINGS = [
    "https://2130706433/",  # decimal
    "https://017700000001/",  # octal
    "https://0177.0.0.1/",
    "https://127.1/",  # shortened
    "https://127.0.1/",
    "https://1.1.1.1.1/",
    "https://0/",
    "https://localhost/",
    "https://LOCALHOST./",
    "https://db/",  # a bare name of a private network
    "https://metadata.google.internal/computeMetadata/v1/",
    "https://printer.local/",
    "https://api.localhost/",
    "https://router.home.arpa/",
    "https://intranet.corp/",
    "https://example.org:22/",
    "https://example.org:25/",
    "http://example.org/",
    "ftp://example.org/",
    "file:///etc/passwd",
    "gopher://127.0.0.1:11211/_stats",
    "//example.org/",
    "https://",
    "https:///path",
    "https://user:password@example.org/",
    "https://example.org@127.0.0.1/",
    "https://127.0.0.1#@example.org/",
    "https://example.org#fragment",
    "https://exam\tple.org/",
    "https://example.org/\r\nHost: inside",
    "https://example.org\\@127.0.0.1/",
    "https://example.org:99999/",
    "https://example.org:0/",
    "https://[fe80::1%25eth0]/",
    "https://[::1/",
    "https://\uff11\uff12\uff17.0.0.1/",  # full-width digits
    "https://" + "a" * 2100 + ".org/",
]
NAMES = {
    "localtest.example": ["127.0.0.1"],
    "mixed.example": ["93.184.216.34", "10.0.0.5"],  # one public address does not make the other one so
    "mapped.example": ["::ffff:10.0.0.1"],
    "v6.example": ["fd12::1"],
    "meta.example": ["169.254.169.254"],
    "0x7f000001.example": ["127.0.0.1"],
}


async def _attempt(url: str, server: NameServer) -> Target:
    checked = checked_url(url, allow_private=False)
    async with aclosing(TargetResolver(allow_private=False, servers=[server.address])) as targets:
        return await targets.resolve(checked)


@pytest.mark.parametrize("url", [*LITERALS, *SPELLINGS])
async def test_an_attempt_is_refused_without_a_dns_query(url: str) -> None:
    async with name_server(lambda _name: ["93.184.216.34"]) as server:
        with pytest.raises(TargetRefused):
            await _attempt(url, server)
        assert server.asked == []


@pytest.mark.parametrize("name", NAMES)
async def test_a_name_with_a_private_address_is_refused(name: str) -> None:
    async with name_server(NAMES.__getitem__) as server:
        with pytest.raises(TargetRefused) as refused:
            await _attempt(f"https://{name}/", server)
        assert name in server.asked
    assert "public" in str(refused.value)
    assert not any(address in str(refused.value) for address in NAMES[name])


async def test_a_name_without_an_address_is_refused() -> None:
    async with name_server({"empty.example": []}.__getitem__) as server:
        for name in ("empty.example", "missing.example", "a" * 64 + ".example"):
            with pytest.raises(TargetRefused, match="cannot be resolved"):
                await _attempt(f"https://{name}/", server)


async def test_public_targets_are_accepted() -> None:
    async with name_server(lambda _name: ["2606:4700::1111", "93.184.216.34"]) as server:
        for url in (
            "https://example.org/hook?key=1",
            "https://example.org:8443/",
            "https://93.184.216.34/",
            "https://[2606:4700::1111]/",
            "https://xn--bcher-kva.example/",
            "https://b\u00fccher.example/",
        ):
            target = await _attempt(url, server)
            assert is_public(target.address)
    assert server.asked.count("xn--bcher-kva.example") == 4
    assert is_public(ipaddress.ip_address("1.1.1.1"))


async def test_private_targets_can_be_allowed_for_local_work() -> None:
    async with aclosing(TargetResolver(allow_private=True)) as anything:
        target = await anything.resolve(checked_url("http://127.0.0.1:9/", allow_private=True))
        assert str(target.address) == "127.0.0.1"
        target = await anything.resolve(checked_url("http://localhost:9/", allow_private=True))  # by /etc/hosts
        assert target.address.is_loopback
    with pytest.raises(TargetRefused):
        checked_url("file:///etc/passwd", allow_private=True)


async def test_names_whose_servers_never_answer_do_not_delay_others() -> None:
    """There are far more than a process sends to at once, and a good name is resolved between the batches."""
    zone = re.compile(r"good\d\.example")
    async with (
        name_server(lambda name: ["93.184.216.34"] if zone.fullmatch(name) else None) as server,
        aclosing(TargetResolver(allow_private=False, servers=[server.address])) as targets,
    ):

        async def resolve(name: str) -> Target:
            return await targets.resolve(checked_url(f"https://{name}.example/", allow_private=False))

        for lot in range(2):
            silent = [asyncio.create_task(resolve(f"silent{lot}-{n}")) for n in range(4 * AT_ONCE)]
            await until(lambda lot=lot: f"silent{lot}-{4 * AT_ONCE - 1}.example" in server.asked, "all to be asked")  # type: ignore[misc]
            await resolve(f"good{lot}")
            assert not any(each.done() for each in silent)
            ends = await asyncio.gather(*silent, return_exceptions=True)
            assert {type(each) for each in ends} == {TargetRefused}
            await resolve(f"good{lot}")
