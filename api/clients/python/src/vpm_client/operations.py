"""The plain questions, as methods of both clients."""

from __future__ import annotations

from vpm_client import calls
from vpm_client.shared import question


class Operations:
    """The reads and the smaller writes."""

    markets = question(calls.markets)
    market = question(calls.market)
    research = question(calls.research)
    discover = question(calls.discover)
    sentiment = question(calls.sentiment)
    quote = question(calls.quote)
    positions = question(calls.positions)
    result = question(calls.result)
    proof = question(calls.proof)
    readiness = question(calls.readiness)
    stats = question(calls.stats)
    health = question(calls.health)
    getting_started = question(calls.getting_started)
    replay = question(calls.replay)
    resolved = question(calls.resolved)
    webhook = question(calls.webhook)
    delete_webhook = question(calls.delete_webhook)
    test_webhook = question(calls.test_webhook)
