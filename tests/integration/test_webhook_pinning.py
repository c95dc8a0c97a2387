"""A delivery goes to the address that was checked, whatever the name says a moment later."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import aclosing

from api.agent.notices.sending import DeliverySigner, WebhookSender
from api.agent.notices.targets import TargetResolver
from tests.support.name_server import name_server
from tests.support.webhook_receiver import receiver


async def test_a_name_that_changes_its_mind_is_sent_to_where_it_was_checked() -> None:
    """The name server gives another address the second time: it is in somebody else's hands."""
    answers = iter(["127.0.0.1", "::1"] * 5)

    def rebinding(_name: str) -> Sequence[str]:
        return [next(answers)]

    async with receiver() as there, name_server(rebinding) as server:
        url = there.url.replace("127.0.0.1", "rebinding.example")
        targets = TargetResolver(allow_private=True, servers=[server.address])
        async with aclosing(WebhookSender(DeliverySigner(None), targets)) as sender:
            sent = await sender.send(url, "evt_1", b'{"type": "test"}', "secret", read_answer=True)
        assert sent.ok, sent
        assert len(there.deliveries) == 1
    assert sorted(server.asked) == ["rebinding.example"] * 2  # for IPv4 and for IPv6, once each
