"""Single deliveries to misbehaving endpoints: bounded in time and memory, and sent only to the host in the URL."""

from __future__ import annotations

import asyncio
import ssl
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest

from api.agent.notices import sending as webhook_sending
from api.agent.notices.sending import AT_ONCE_PER_ADDRESS, AddressBusy, DeliverySigner, TargetResolver, WebhookSender
from core.service.cancelling import cancel_and_wait
from tests.support import hostile_endpoint as hostile
from tests.support.name_server import name_server
from tests.support.webhook_receiver import receiver
from tests.waiting import PATIENCE, until


def _sender(**more: Any) -> WebhookSender:
    return WebhookSender(DeliverySigner(None), TargetResolver(allow_private=True), **more)


@pytest.mark.parametrize(
    ("behaviour", "error"),
    [
        (hostile.silent, "The endpoint did not respond within 1 s."),
        (hostile.dripping, "The endpoint did not respond within 1 s."),
        (hostile.endless, ""),
        (hostile.bomb, ""),
        (hostile.huge_header, "The endpoint's response is not valid HTTP."),
        (hostile.garbage, "The endpoint's response is not valid HTTP."),
        (hostile.hanging_up, "The endpoint closed the connection."),
        (hostile.answering("HTTP/1.1 500 Oh"), "The endpoint returned status 500."),
        (hostile.answering("HTTP/1.1 204 Fine"), ""),
    ],
)
async def test_a_misbehaving_endpoint_costs_little_time_and_memory(
    behaviour: hostile.Behaviour, error: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if "respond" in error and "within" in error:
        monkeypatch.setattr(webhook_sending, "TOTAL_SECONDS", 1.0)
    async with hostile.endpoint(behaviour) as url:
        async with asyncio.timeout(PATIENCE):  # endpoints that do not respond never end
            sent = await _sender().send(url, "evt_1", b"{}", "secret", read_body=True)
    assert (sent.ok, sent.error) == (not error, error)
    assert len(sent.body) <= webhook_sending.RESPONSE_BYTES


@pytest.mark.parametrize("status", ["301 Moved", "302 Found", "303 See", "307 Temporary", "308 Permanent"])
async def test_a_redirect_is_not_followed(status: str) -> None:
    async with receiver() as inside:
        behaviour = hostile.answering(f"HTTP/1.1 {status}\r\nLocation: {inside.url}")
        async with hostile.endpoint(behaviour) as url:
            sent = await _sender().send(url, "evt_1", b"{}", "secret")
        assert (sent.ok, sent.error) == (False, f"The endpoint returned status {status[:3]}.")
        assert inside.deliveries == []


async def test_tls_is_verified(tmp_path: Path) -> None:
    ours = hostile.certificate(tmp_path)
    wrong = hostile.certificate(tmp_path, "192.0.2.1")
    trusting = ssl.create_default_context(cafile=str(ours))
    trusting.load_verify_locations(str(wrong))
    answer = hostile.answering("HTTP/1.1 200 OK")
    async with hostile.endpoint(answer, hostile.server_tls(ours)) as url:
        assert "certificate" in (await _sender().send(url, "evt_1", b"{}", "s")).error  # self-signed
        assert (await _sender(trusts=trusting).send(url, "evt_1", b"{}", "s")).ok
    async with hostile.endpoint(answer, hostile.server_tls(wrong)) as url:
        assert "certificate" in (await _sender(trusts=trusting).send(url, "evt_1", b"{}", "s")).error  # another host's
    async with hostile.endpoint(hostile.garbage) as url:
        plain = url.replace("http:", "https:")
        assert (await _sender().send(plain, "evt_1", b"{}", "s")).error == "The TLS handshake failed."


async def test_deliveries_to_one_address_are_limited() -> None:
    sender = _sender()
    there = 0

    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal there
        there += 1
        await hostile.silent(reader, writer)

    async with hostile.endpoint(silent) as url:
        tasks = [asyncio.create_task(sender.send(url, f"evt_{n}", b"{}", "s")) for n in range(AT_ONCE_PER_ADDRESS)]
        await until(lambda: there == AT_ONCE_PER_ADDRESS, "as many as may be there")
        with pytest.raises(AddressBusy):
            await sender.send(url, "evt_x", b"{}", "s")
        await cancel_and_wait(*tasks)
    async with hostile.endpoint(hostile.answering("HTTP/1.1 200 OK")) as url:
        assert (await sender.send(url, "evt_y", b"{}", "s")).ok


async def test_a_rebinding_name_is_sent_to_the_address_that_was_checked() -> None:
    """The name server gives another address the second time, like an attacker's."""
    answers = iter(["127.0.0.1", "::1"] * 5)
    async with receiver() as there, name_server(lambda _name: [next(answers)]) as server:
        url = there.url.replace("127.0.0.1", "rebinding.example")
        targets = TargetResolver(allow_private=True, servers=[server.address])
        async with aclosing(WebhookSender(DeliverySigner(None), targets)) as sender:
            sent = await sender.send(url, "evt_1", b'{"type": "test"}', "secret", read_body=True)
        assert sent.ok, sent
        assert len(there.deliveries) == 1
        assert sorted(server.asked) == ["rebinding.example"] * 2  # for IPv4 and for IPv6, once each
    async with name_server(lambda _name: ["127.0.0.1"]) as server:
        targets = TargetResolver(allow_private=False, servers=[server.address])
        async with aclosing(WebhookSender(DeliverySigner(None), targets)) as sender:
            sent = await sender.send("https://rebinding.example/", "evt_1", b"{}", "secret")
    assert (sent.ok, sent.error) == (False, "The address is not on the public internet.")
