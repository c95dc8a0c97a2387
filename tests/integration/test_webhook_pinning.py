"""A delivery goes to the address that was checked, whatever the name says a moment later."""

from __future__ import annotations

import socket
from typing import Any

import pytest

from api.agent.notices.sending import DeliverySigner, WebhookSender
from tests.support.webhook_receiver import receiver


async def test_a_name_that_changes_its_mind_is_sent_to_where_it_was_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    """The system's resolver gives another address the second time: a name server in somebody else's hands."""
    asked: list[str] = []
    genuine = socket.getaddrinfo

    def rebinding(host: Any, port: Any, *rest: Any, **more: Any) -> Any:
        if host != "rebinding.example":
            return genuine(host, port, *rest, **more)
        asked.append(host)
        return genuine("127.0.0.1" if len(asked) == 1 else "127.0.0.2", port, *rest, **more)

    monkeypatch.setattr(socket, "getaddrinfo", rebinding)
    async with receiver() as there:
        url = there.url.replace("127.0.0.1", "rebinding.example")
        sent = await WebhookSender(DeliverySigner(None), allow_private=True).send(
            url, "evt_1", b'{"type": "test"}', "secret", read_answer=True
        )
        assert sent.ok, sent
        assert len(there.deliveries) == 1
    assert asked == ["rebinding.example"]
