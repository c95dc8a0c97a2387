"""`agent-resolve`: settles agent markets by their feeds: early when a target is reached, at once when the feed is
condemned, else when their end can be read and nobody can dispute it any more."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from sqlalchemy import func, select

from core.agent.book import Reading
from core.agent.document import Specification
from core.chain import ChainClient, Contract, ContractReverted, RpcError, RpcErrorKind
from core.contracts.statuses import AgentMarketStatus, MarketKind, RoundProblem
from core.db.schema.index_agent import agent_feed, agent_market
from core.feeds import rounds
from core.hexadecimal import hex_of
from keeper.agent.settling import RESOLVE, Facts, InEffect, claim, decide_market
from keeper.errands import RetryWaits, Want
from keeper.opinions import Word, ask_each
from keeper.run import JobRun
from keeper.waits import Wait

RETRY = RetryWaits(after_success_seconds=120.0, after_failure_seconds=15.0, longest_seconds=900.0)

MARKETS, FEEDS = agent_market.c, agent_feed.c


async def resolve_markets(run: JobRun) -> None:
    due = await _due(run)
    run.measure_due("markets", await _due_at(run, due))
    wallet, resolver = run.chain.contract("SettlementWallet"), _resolver(run)
    views: list[Any] = await run.read_all([wallet.call("market", row.market_id) for row in due])
    for row, view in zip(due, views, strict=True):
        name = row.slug or hex_of(row.market_id)
        facts = await _facts(run, row, view)
        decision = decide_market(await _agreement(run, row, facts), run.now)
        if isinstance(decision, Wait):
            run.report.skip(name, decision.reason)
            continue
        call = resolver.call(decision.function, row.market_id, decision.end_round, decision.start_round)
        want = Want(
            kind="resolve" if decision.function == RESOLVE else "void",
            subjects=(f"agent:resolve:{hex_of(row.market_id)}",),
            target=name,
            detail=decision.why,
            call=call,
            priority=5,
        )
        await run.ask(want, RETRY)


def _resolver(run: JobRun) -> Contract:
    """Its calls end in the settlement wallet, whose errors may come through."""
    return run.chain.contract("FeedResolver", "SettlementWallet")


async def _due(run: JobRun) -> list[Any]:
    """Unsettled markets past their end, early-resolvable ones before it, and all of condemned feeds."""
    condemned = func.coalesce(FEEDS.condemned, False)
    early = MARKETS.early_resolvable & (MARKETS.early_from <= run.now)
    query = (
        select(agent_market, condemned.label("condemned"), func.coalesce(FEEDS.step, 0).label("step"))
        .outerjoin(agent_feed, FEEDS.feed == MARKETS.feed)
        .where(
            MARKETS.status == AgentMarketStatus.OPEN,
            (MARKETS.ends_at < run.now) | early | (condemned & MARKETS.published),
        )
        .order_by(MARKETS.ends_at, MARKETS.market_id)
    )
    return await run.rows(query)


async def _due_at(run: JobRun, markets: list[Any]) -> list[int]:
    """Since when those that ought to be settled ought to be: since their end, or since their feed was condemned."""
    condemned = {row.feed for row in markets if row.condemned and row.published}
    since = {feed: await run.said_since(f"agent:feed:{hex_of(feed)}", "condemned") for feed in condemned}
    due = []
    for row in markets:
        ends = [row.settles_after] if row.settles_after < run.now else []
        ends += [since[row.feed]] if row.published and row.feed in since else []
        due += [min(ends)] if ends else []
    return due


async def _facts(run: JobRun, row: Any, view: Any) -> Facts:
    if isinstance(view, RpcError):
        raise view  # listed markets are never unknown; the node is behind the index
    terms = Specification.of_row(row)
    if row.published and run.now > row.settles_after:
        settles_after, voids_after = await run.chain.client.read(_resolver(run).call("due", row.market_id), run.head)
        terms = replace(terms, settles_after=settles_after, voids_after=voids_after)
    facts = Facts(terms, is_open=view["status"] == AgentMarketStatus.OPEN, condemned=row.condemned and row.published)
    if not facts.is_open or facts.condemned:
        return facts
    if terms.early_resolvable:
        facts = replace(facts, crossed=await _crossed(run, row))
    if not facts.crossed and terms.settles_after < run.now <= terms.voids_after:
        try:
            end, start = await readings(run.chain.client, run, row, run.head)
        except NotRecorded as wait:
            return replace(facts, unrecorded=wait.grid_time)
        facts = replace(facts, end=end, start=start)
    return facts


async def _crossed(run: JobRun, row: Any) -> bool:
    """Whether a crossing counts, by the feed's own word. One that cannot be read says no; the contract waits for it."""
    feed = run.chain.at(hex_of(row.feed), "PoolFeed")
    try:
        round_id, _, _ = await run.chain.client.read(
            feed.call("crossing", row.target, row.early_from, row.ends_at), run.head
        )
    except ContractReverted:
        return False
    return bool(round_id)


class NotRecorded(Exception):
    """The news that a pool feed's reading of this time has to be recorded first."""

    def __init__(self, grid_time: int) -> None:
        super().__init__(grid_time)
        self.grid_time = grid_time


async def readings(client: ChainClient, run: JobRun, row: Any, block: int) -> tuple[InEffect, InEffect | None]:
    """The readings that count at the end and, for a direction, at the start. NotRecorded while one has to be recorded.

    A pool feed says itself which they are; of other feeds the mirror of the round finder does.
    """
    if row.step:
        feed = run.chain.at(hex_of(row.feed), "PoolFeed")
        end = await _reading_at(client, feed, row.ends_at, row.max_age, block)
        if MarketKind(row.kind) is not MarketKind.DIRECTION:
            return end, None
        return end, await _reading_at(client, feed, row.start_at, row.max_age, block)
    return await _rounds(client, run, row, block)


async def _reading_at(client: ChainClient, feed: Contract, moment: int, max_age: int, block: int) -> InEffect:
    try:
        round_id, answer, at = await client.read(feed.call("readingAt", moment, max_age), block)
    except ContractReverted as error:
        if error.name == "NotRecordedYet" and isinstance(at := error.arguments["gridTime"], int):
            raise NotRecorded(at) from None
        return InEffect(RoundProblem.LATEST_UNREADABLE)
    if round_id == 0:
        return InEffect(RoundProblem.NO_ROUND)
    return InEffect(RoundProblem.OK, round_id, Reading(answer, at))


async def _rounds(client: ChainClient, run: JobRun, row: Any, block: int) -> tuple[InEffect, InEffect | None]:
    feed = run.chain.at(hex_of(row.feed), "ObservationFeed")

    async def read(round_id: int) -> rounds.Round | None:
        try:
            _, answer, _, updated_at, _ = await client.read(feed.call("getRoundData", round_id), block)
        except RpcError as error:
            if error.kind not in (RpcErrorKind.REVERTED, RpcErrorKind.BAD_ANSWER):
                raise
            return None
        return rounds.Round(round_id, answer, updated_at) if updated_at else None

    try:
        latest, *_ = await client.read(feed.call("latestRoundData"), block)
    except RpcError as error:
        if error.kind not in (RpcErrorKind.REVERTED, RpcErrorKind.BAD_ANSWER):
            raise
        latest = None
    head = rounds.FeedHead(latest)
    end = _in_effect(await rounds.run_async(rounds.in_effect_at(head, row.ends_at), read))
    if MarketKind(row.kind) is not MarketKind.DIRECTION:
        return end, None
    return end, _in_effect(await rounds.run_async(rounds.in_effect_at(head, row.start_at), read))


def _in_effect(reading: rounds.RoundReading) -> InEffect:
    if reading.round is None:
        return InEffect(reading.problem)
    return InEffect(reading.problem, reading.round.id, Reading(reading.round.answer, reading.round.updated_at))


async def _agreement(run: JobRun, row: Any, facts: Facts) -> Facts:
    """The facts, with whether an earlier read said so too, and what each other node says of the same readings."""
    what = claim(facts) if facts.is_open and not facts.crossed else None
    if what is None:
        return facts
    if not await run.agreed(f"agent:stale:{hex_of(row.market_id)}", what):
        return facts
    opinions = await ask_each(run.chain.opinions, lambda client: _opinion(client, run, row, facts, what))
    return replace(facts, agreed=True, opinions=opinions)


async def _opinion(client: ChainClient, run: JobRun, row: Any, facts: Facts, what: str) -> Word:
    try:
        end, start = await readings(client, run, row, run.head)
    except NotRecorded:
        return Word.OTHER
    return Word.SAME if claim(replace(facts, end=end, start=start)) == what else Word.OTHER
