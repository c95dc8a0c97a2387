"""The event channels, assembled: streams, replay, polling, webhooks and what sends to them."""

from __future__ import annotations

import resource

from api.agent.bodies.parts import BAD, NO_DATABASE, NO_WALLET, RATE, answers, refusal
from api.agent.links import Links
from api.agent.notices import bodies, requests
from api.agent.notices.dispatcher import Dispatcher
from api.agent.notices.hub import NoticeHub
from api.agent.notices.replay import Replay
from api.agent.notices.sending import DeliverySigner, WebhookSender
from api.agent.notices.stream import Events
from api.agent.notices.targets import TargetResolver
from api.agent.notices.webhooks import Webhooks
from api.context import Context
from api.http.operation import DocumentedAnswer, Operation
from core.chain import ChainClient

STREAM = """\
A server-sent event stream of one wallet's events: each `data:` is one event, the `id` its `seq`. It starts at `fromSeq`
(0 by default), or after `Last-Event-ID`, with what was missed and goes on with what happens. A comment every 15 s shows
that it lives; after 300 s it closes: reconnect with `Last-Event-ID` and nothing is missed. A reader that takes nothing
for 5 s is cut off."""
REPLAY = """\
A wallet's events in order from `fromSeq` on, at most 500 a page; `nextSeq` is null when there are no more: then go on
later from `lastSeq` + 1. `seq` counts from 0 without a gap. An event is never changed: one that a reorganization undid
is followed by a correction, the same type with `undone: true` and `corrects` in its payload."""
RESOLVED = """\
`market.resolved`, `position.won` and `position.lost` of a wallet after an instant, oldest first. `nextSince` is null
when there are no more; then go on later from the `createdAt` of the last one, with all its digits. Shortened to a
second or a millisecond it brings some events again: drop those you have, by `eventId`."""
REGISTER = """\
Pushes every event of a wallet, from now on, to a URL. `message` is signed by the wallet: by its key (EIP-191
`personal_sign`) or its contract (ERC-1271). The `secret` is shown here and never again. The endpoint is
`pending_verification` until it answers the `webhook.verify` event with the `challenge` of its payload (as the plain
body, or as `challenge` of a JSON object), which is tried for an hour. Registering the same URL again gives it a new id
and secret. A `disabled` one then begins with what happens next; any other goes on where it was. The URL must be https
and lead to public addresses; redirects are not followed.

Each delivery has `Service-Event-Id`, `Service-Timestamp` (Unix seconds) and `Service-Signature: v1=<hex>`, the
HMAC-SHA256 under `secret` of `<Service-Event-Id>.<Service-Timestamp>.<raw body>`; refuse one older than 5 minutes. Any
2xx within 8 s takes it. Otherwise it is tried nine more times over 24 hours, and events after it wait; then it is given
up, which the event `webhook.delivery_failed` tells on the other channels; after 3 days of nothing but failures the
webhook is `disabled`. What was missed is in `/events/replay`."""
TEST = """\
Sends a `test` event to this webhook alone, now and once: `note` says why it was not sent or not taken. What waits for
the webhook is tried again at once. One that was switched off begins again with the handshake."""

_MANY_FILES = 65_536


class EventChannels:
    """Everything that tells wallets of their events: streams, replay, webhooks. `client` is None without an RPC URL."""

    def __init__(self, context: Context, links: Links, client: ChainClient | None) -> None:
        _raise_file_limit()
        settings, key = context.settings, context.secrets.attestation_key
        self._hub = NoticeHub(context.write_url, context.pool, links)
        self._events = Events(settings, self._hub, window_seconds=settings.agent_stream_seconds)
        self._replay = Replay(context.pool, links)
        targets = TargetResolver(allow_private=settings.allow_private_webhooks)
        signer = DeliverySigner(None if key is None else key.get_secret_value())
        sender = WebhookSender(signer, targets)
        self._webhooks = Webhooks(settings, context.pool, context.limits, client, links, targets, sender)
        self._dispatcher = Dispatcher(context.write_url, context.pool, sender, links)

    def run_beside(self, context: Context) -> None:
        context.spawn("agent event news", self._hub.run())
        context.spawn("webhook dispatcher", self._dispatcher.run())

    def operations(self, prefix: str) -> tuple[Operation, ...]:
        gone = refusal("`not_found`")
        return (
            Operation(
                "GET",
                f"{prefix}/events",
                self._events.stream,
                "Stream a wallet's events",
                {
                    200: DocumentedAnswer("The stream.", content_type="text/event-stream"),
                    400: BAD,
                    422: NO_WALLET,
                    429: RATE,
                },
                description=STREAM,
                query=requests.EventsQuery,
                headers=requests.EventsHeaders,
                timed=False,
            ),
            Operation(
                "GET",
                f"{prefix}/events/replay",
                self._replay.replay,
                "A wallet's events in order",
                answers("A page of events.", bodies.ReplayBody, 400, 422, 500),
                description=REPLAY,
                query=requests.ReplayQuery,
            ),
            Operation(
                "GET",
                f"{prefix}/resolved",
                self._replay.resolved,
                "How a wallet's markets ended",
                answers("A page of events.", bodies.ResolvedBody, 400, 422, 500),
                description=RESOLVED,
                query=requests.ResolvedQuery,
            ),
            Operation(
                "POST",
                f"{prefix}/webhooks",
                self._webhooks.register,
                "Register a webhook",
                {
                    201: DocumentedAnswer("The registration, with its secret.", bodies.WebhookBody),
                    400: BAD,
                    422: refusal("`invalid_wallet`: malformed, or it did not sign the message."),
                    429: RATE,
                    500: NO_DATABASE,
                },
                description=REGISTER,
                body=requests.WebhookRequest,
            ),
            Operation(
                "GET",
                f"{prefix}/webhooks/{{id}}",
                self._webhooks.look,
                "How a webhook stands",
                answers("The registration, without its secret.", bodies.WebhookBody, 500) | {404: gone},
                path_parameters=requests.WebhookPath,
            ),
            Operation(
                "DELETE",
                f"{prefix}/webhooks/{{id}}",
                self._webhooks.remove,
                "Remove a webhook",
                answers("It gets nothing any more.", bodies.DeletedBody, 500) | {404: gone},
                path_parameters=requests.WebhookPath,
            ),
            Operation(
                "POST",
                f"{prefix}/webhooks/{{id}}/test",
                self._webhooks.test,
                "Send a test event",
                answers("The event, and what came of it.", bodies.TestBody, 400, 429, 500) | {404: gone},
                description=TEST,
                path_parameters=requests.WebhookPath,
            ),
        )


def _raise_file_limit() -> None:
    """Each stream is an open file, and the usual limit of 1,024 was made for other programs."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    limit = _MANY_FILES if hard == resource.RLIM_INFINITY else min(hard, _MANY_FILES)
    if soft != resource.RLIM_INFINITY and soft < limit:
        resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))
