"""Sets up the event channels: streams, replay, polling and webhooks."""

from __future__ import annotations

import resource

from api.agent.links import Links
from api.agent.notices.dispatcher import Dispatcher
from api.agent.notices.events import Events, NoticeHub
from api.agent.notices.sending import DeliverySigner, WebhookSender
from api.agent.notices.targets import TargetResolver
from api.agent.notices.webhooks import Webhooks
from api.context import Context
from core.chain import ChainClient

_MANY_FILES = 65_536


class EventChannels:
    """All channels for wallets' events: streams, replay, webhooks. `client` is None without an RPC URL."""

    def __init__(self, context: Context, links: Links, client: ChainClient | None) -> None:
        _raise_file_limit()
        settings, key = context.settings, context.secrets.attestation_key
        self._hub = NoticeHub(context.write_url, context.pool, links)
        self.events = Events(settings, self._hub, context.pool, links)
        targets = TargetResolver(allow_private=settings.allow_private_webhooks)
        signer = DeliverySigner(None if key is None else key.get_secret_value())
        sender = WebhookSender(signer, targets)
        self.webhooks = Webhooks(context, client, links, targets, sender)
        self._dispatcher = Dispatcher(context.write_url, context.pool, sender, links)

    def start(self, context: Context) -> None:
        context.spawn("agent event news", self._hub.run())
        context.spawn("webhook dispatcher", self._dispatcher.run())


def _raise_file_limit() -> None:
    """Raise the limit of open files: each stream is one, and the default of 1,024 is too low."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    limit = _MANY_FILES if hard == resource.RLIM_INFINITY else min(hard, _MANY_FILES)
    if soft != resource.RLIM_INFINITY and soft < limit:
        resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))
