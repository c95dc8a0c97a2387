"""Statistics, health, readiness of a wallet, and the onboarding script."""

from __future__ import annotations

from decimal import Decimal
from typing import Annotated, Literal

from msgspec import Meta

from api.agent.bodies.parts import AgentAnswer, ChainAnswer
from api.operations import Body


class Funding(Body):
    network: Literal["base"]
    usdc_address: str
    docs_url: str


class AgentReadiness(Body):
    wallet: str
    usdc_balance_usd: Decimal | None
    can_bet_min: bool | None
    min_bet_usd: Decimal
    simple_tier_max_usd: Decimal
    gas_needed: Annotated[bool, Meta(extra_json_schema={"const": False})]
    reason: str
    funding: Funding
    hint: str | None


class ReadinessBody(AgentAnswer):
    readiness: AgentReadiness


class MarketCounts(Body):
    open: int
    resolved: int


class AgentStats(Body):
    markets: MarketCounts
    total_bets: int
    total_volume_usd: Decimal
    total_paid_out_usd: Decimal
    median_payout_delay_sec: float | None
    auto_payout_rate: Annotated[
        float | None,
        Meta(
            description="The share of winning stakes, in the markets of the last week, that the service paid within 10"
            " minutes of resolution. Refunds are not counted."
        ),
    ]
    proof_samples: list[str]
    custody: str
    as_of: str


class StatsBody(ChainAnswer):
    stats: AgentStats


class AgentHealth(Body):
    """The state of the agent markets: `reason` says why `ok` is false; `attester` is the address that signs offers,
    receipts and callbacks."""

    ok: bool
    markets_open: int
    last_resolve_tick_at: str | None
    last_snapshot_tick_at: str | None
    last_canary_at: str | None
    payout_queue_depth: int | None
    version: str
    reason: str | None
    attester: str | None


class HealthBody(AgentAnswer):
    health: AgentHealth


class GuideStep(Body, kw_only=False):
    step: int
    title: str
    method: Literal["GET", "POST"]
    url: str
    example_request: str | None
    example_response: str
    note: str


class GettingStarted(AgentAnswer):
    intro: str
    auto_payout_note: str
    steps: list[GuideStep]
