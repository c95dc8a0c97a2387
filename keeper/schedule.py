"""Every job: its name, what it is for, the chain it is about, and how often it runs."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from core.config import ChainName, KeeperSettings
from keeper.agent.canary_job import canary
from keeper.agent.caps_job import work_out_caps
from keeper.agent.credit_job import credit
from keeper.agent.list_job import list_rounds, list_series
from keeper.agent.pay_job import pay
from keeper.agent.record_job import record_readings
from keeper.agent.resolve_job import resolve_markets as resolve_agent_markets
from keeper.agent.snapshot_job import snapshot
from keeper.cup.markets_job import follow_markets
from keeper.cup.roulette_job import spin
from keeper.run import JobRun
from keeper.stock.deliver_job import deliver
from keeper.stock.open_job import open_drills, open_markets, open_refund_drill
from keeper.stock.price_job import move_prices
from keeper.stock.resolve_job import resolve_markets
from keeper.stock.witness_job import witness_stocks
from keeper.tidy_job import tidy, tidy_agent

TIMEOUT_SECONDS = 90.0
TIDY_SECONDS = 3600.0
CAPS_SECONDS = 1800.0  # every tick of each pool is read: thousands of calls of a node


@dataclass(frozen=True, slots=True)
class Job:
    """One kind of run. `every` gives its period in seconds, None for on demand only."""

    name: str
    purpose: str
    chain: ChainName
    work: Callable[[JobRun], Awaitable[None]]
    every: Callable[[KeeperSettings], float | None]
    local_only: bool = False
    local_every: float | None = None
    """The longest period on local deployments, where a person watches."""


def _settle(how: KeeperSettings) -> float:
    return how.settle_every_seconds


def _list(how: KeeperSettings) -> float:
    return how.list_every_seconds


def _snapshot(how: KeeperSettings) -> float:
    return how.snapshot_every_seconds


def _caps(_how: KeeperSettings) -> float:
    return CAPS_SECONDS


def _tidy(_how: KeeperSettings) -> float:
    return TIDY_SECONDS


JOBS: tuple[Job, ...] = (
    Job("open", "list today's daily and this week's weekly markets", "stock", open_markets, _list),
    Job("witness", "have the resolver remember pauses and splits of stocks", "stock", witness_stocks, _settle),
    Job("resolve", "settle or void stock markets past their bell", "stock", resolve_markets, _settle),
    Job("deliver", "send payouts and refunds; poke, residue, fees", "stock", deliver, _settle),
    Job(
        "drill",
        "keep short markets going",
        "stock",
        open_drills,
        lambda how: 5.0 if how.local_drills else None,
        local_only=True,
    ),
    Job("refund-drill", "list a short market that will be void", "stock", open_refund_drill, lambda _: None),
    Job(
        "prices",
        "move the simulated price feeds",
        "stock",
        move_prices,
        lambda how: min(15.0, how.snapshot_every_seconds) if how.local_prices else None,
        local_only=True,
    ),
    Job("agent-snapshot", "post observations to our feeds", "base", snapshot, _snapshot, local_every=15.0),
    Job("agent-list", "list the standing series of agent markets", "base", list_series, _list, local_every=8.0),
    Job("agent-rounds", "list the next up/down rounds", "base", list_rounds, _list, local_every=8.0),
    Job("agent-record", "record the readings of pool feeds that markets need", "base", record_readings, _settle),
    Job("agent-caps", "work out anew what the pools of feeds bear", "base", work_out_caps, _caps),
    Job("agent-resolve", "settle or void agent markets", "base", resolve_agent_markets, _settle),
    Job("agent-pay", "pay winners and refunds; sweep fees", "base", pay, _settle),
    Job("agent-credit", "book payments sent past us whose payers do not return", "base", credit, lambda _: 15.0),
    Job(
        "agent-canary",
        "quote and trade (simulated) through the public address",
        "base",
        canary,
        lambda how: how.canary_every_seconds if how.canary else None,
        local_every=60.0,
    ),
    Job("tidy", "thin out and drop transactions, errands and requests that are long done", "stock", tidy, _tidy),
    Job("agent-tidy", "the same on Base; and forget old price locks", "base", tidy_agent, _tidy),
    Job(
        "cup-markets", "open and settle the paper markets beside the listed ones", "base", follow_markets, lambda _: 5.0
    ),
    Job("cup-roulette", "finish the roulette round whose beacon is mined, or open one", "base", spin, lambda _: 1.0),
)

BY_NAME = {job.name: job for job in JOBS}
