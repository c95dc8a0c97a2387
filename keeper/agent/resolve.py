"""`agent-resolve`: settles agent markets by their feeds: early if the target is reached, at once if the feed is
condemned, otherwise after the dispute window. It waits before voiding a market for a missing reading."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy import func, select

from core.agent.book import DecidingTerms, decide, reading_problem
from core.agent.document import Specification
from core.chain import Call, ChainClient, Contract, RpcError, RpcErrorKind
from core.contracts.statuses import AgentMarketStatus, MarketKind, RoundProblem, VoidReason
from core.db.schema.index_agent import agent_feed, agent_market
from core.feeds.rounds import FeedReader, NotRecorded, RoundReading
from core.hexadecimal import hex_of
from keeper.run import JobRun
from keeper.settling import NO_OTHER_NODES, NodeQuorum, NodeVerdict, Wait, poll_nodes, request_ending, wait_before_void

BY_FINDING = 0
"""The round id with which the contract finds the round."""


@dataclass(frozen=True, slots=True)
class Facts:
    """The facts about an unsettled market at one block. `crossed` says whether a valid reading in the market's interval
    is at or over the target."""

    terms: DecidingTerms
    is_open: bool  # according to the contract, not the index
    condemned: bool = False  # the Safe condemned its feed
    crossed: bool = False
    end: RoundReading | None = None
    start: RoundReading | None = None
    unrecorded: int | None = None  # a deciding reading that can still be recorded on its pool feed
    agreed: bool = False  # two reads some time apart agree
    quorum: NodeQuorum = NO_OTHER_NODES


@dataclass(frozen=True, slots=True)
class Settle:
    """The call that ends a market, `resolveWith` or `voidWith`, with its rounds. A round is 0 if the contract finds the
    round itself, or if the round does not matter."""

    function: str
    end_round: int
    start_round: int
    why: str


RESOLVE = "resolveWith"
VOID = "voidWith"


def decide_market(facts: Facts, now: int) -> Settle | Wait:
    terms = facts.terms
    if not facts.is_open:
        return Wait("it is settled, but the settlement is not indexed yet")
    if facts.condemned:
        return Settle(VOID, BY_FINDING, BY_FINDING, "its feed is condemned")
    if facts.crossed:
        return Settle(RESOLVE, BY_FINDING, BY_FINDING, "a reading has reached the target")
    if now <= terms.settles_after:
        return Wait(_too_early(terms, now))
    if now > terms.voids_after:
        return Settle(VOID, BY_FINDING, BY_FINDING, "nothing settled it in time")
    if facts.unrecorded is not None:
        return Wait(f"the reading of {facts.unrecorded} is not recorded yet")
    if facts.end is None:
        return Wait("its deciding reading has not been fetched yet")
    if _unreadable(facts):
        left = terms.voids_after + 1 - now
        return Wait(f"its feed cannot be read ({_problem(facts)}); anyone may void it in {left} s")
    return _by_readings(facts, facts.end, now)


def _by_readings(facts: Facts, end: RoundReading, now: int) -> Settle | Wait:
    terms = facts.terms
    start = facts.start or RoundReading(None, RoundProblem.OK)
    verdict = decide(terms, end.value, start.value)
    if verdict.winner is not None:
        return Settle(RESOLVE, end.round_id, start.round_id, f"outcome {verdict.winner} has won")
    reason = verdict.void
    if reason in (VoidReason.TIE, VoidReason.MET_BEFORE_START):
        return Settle(RESOLVE, end.round_id, start.round_id, f"it is void: {_word(reason)}")
    if reason is VoidReason.BAD_ANSWER:
        return Settle(VOID, end.round_id, start.round_id, "a reading in effect has no value")
    why = _word(reason)
    wait = wait_before_void(why, terms.settles_after, now, agreed=facts.agreed, quorum=facts.quorum, waited_long=False)
    return wait or Settle(VOID, end.round_id, start.round_id, f"{why}{facts.quorum.remark}")


def _too_early(terms: DecidingTerms, now: int) -> str:
    left = terms.settles_after + 1 - now
    if now < terms.ends_at:
        return f"its deciding reading is measured until {terms.ends_at}"
    if terms.published:
        return f"its last readings and the dispute window take {left} s more"
    return f"its last readings may still arrive for {left} s"


def claim(facts: Facts) -> str | None:
    """Return the evidence that a missing reading voids a market, or None if there is no such evidence. The evidence is
    a text. Two reads must return the same text."""
    end = facts.end
    if end is None or _unreadable(facts):
        return None
    at_end = reading_problem(facts.terms, end.value, facts.terms.ends_at)
    at_start = None
    if facts.terms.kind is MarketKind.DIRECTION and facts.start is not None:
        at_start = reading_problem(facts.terms, facts.start.value, facts.terms.start_at)
    if VoidReason.STALE not in (at_end, at_start) and VoidReason.NO_READING not in (at_end, at_start):
        return None
    rounds = f"{end.round_id} {facts.start.round_id if facts.start is not None else 0}"
    return f"{at_end} {at_start} {rounds}"


def _unreadable(facts: Facts) -> bool:
    """Return whether a reading could neither be read nor proven absent. A feed that returns no round proves that the
    reading is absent; a feed that does not respond proves nothing."""
    proven = (RoundProblem.OK, RoundProblem.NO_ROUND)
    return any(each is not None and each.problem not in proven for each in (facts.end, facts.start))


def _problem(facts: Facts) -> str:
    problems = [each.problem for each in (facts.end, facts.start) if each is not None]
    return max(problems).name.lower().replace("_", " ")


def _word(reason: VoidReason | None) -> str:
    if reason is None:
        return "it cannot be decided"
    return {
        VoidReason.STALE: "a reading is older than its limit",
        VoidReason.NO_READING: "its feed had no round at a deciding moment",
        VoidReason.TIE: "start and end are equal",
        VoidReason.MET_BEFORE_START: "the target was met before its interval began",
    }.get(reason, str(reason))


MARKETS, FEEDS = agent_market.c, agent_feed.c


async def resolve_markets(run: JobRun) -> None:
    due = await _due(run)
    run.measure_due("markets", await _due_at(run, due))
    wallet, resolver = run.chain.contract("SettlementWallet"), _resolver(run)
    early = [row for row in due if row.early_resolvable]
    answers: list[Any] = await run.read_all(
        [wallet.call("market", row.market_id) for row in due] + [_crossing(run, row) for row in early],
        tuple(RpcErrorKind),
    )
    crossings = dict(zip((row.market_id for row in early), answers[len(due) :], strict=True))
    for row, view in zip(due, answers[: len(due)], strict=True):
        name, crossing = row.slug or hex_of(row.market_id), crossings.get(row.market_id)
        if isinstance(view, RpcError):
            raise view  # the contract knows every listed market, so the node is behind the index
        if isinstance(crossing, RpcError) and crossing.kind is not RpcErrorKind.REVERTED:
            run.report.skip(name, f"cannot read whether the target was reached: {crossing.message}")
            continue
        # A crossing that the feed cannot report yet does not count; the contract waits for it too.
        crossed = crossing is not None and not isinstance(crossing, RpcError) and crossing[0]
        facts = await _facts(run, row, view, crossed=crossed)
        decision = decide_market(await _agreement(run, row, facts), run.now)
        if isinstance(decision, Wait):
            run.report.skip(name, decision.reason)
            continue
        call = resolver.call(decision.function, row.market_id, decision.end_round, decision.start_round)
        await request_ending(run, f"agent:resolve:{hex_of(row.market_id)}", name, call, decision.why)


def _resolver(run: JobRun) -> Contract:
    return run.chain.contract("FeedResolver", "SettlementWallet")


async def _due(run: JobRun) -> list[Any]:
    """Return unsettled markets that are past their end, in their early-resolvable interval or on a condemned feed."""
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
    """Return when each due market became due. A market is due as soon as it can be settled or its feed is condemned."""
    condemned = {row.feed for row in markets if row.condemned and row.published}
    since = {feed: await run.claimed_since(f"agent:feed:{hex_of(feed)}", "condemned") for feed in condemned}
    due = []
    for row in markets:
        ends = [row.settles_after] if row.settles_after < run.now else []
        ends += [since[row.feed]] if row.published and row.feed in since else []
        due += [min(ends)] if ends else []
    return due


async def _facts(run: JobRun, row: Any, view: Any, *, crossed: bool) -> Facts:
    terms = Specification.from_row(row)
    if row.published and run.now > row.settles_after:
        settles_after, voids_after = await run.chain.client.read(_resolver(run).call("due", row.market_id), run.head)
        terms = replace(terms, settles_after=settles_after, voids_after=voids_after)
    facts = Facts(terms, is_open=view["status"] == AgentMarketStatus.OPEN, condemned=row.condemned and row.published)
    if not facts.is_open or facts.condemned:
        return facts
    facts = replace(facts, crossed=crossed)
    if not facts.crossed and terms.settles_after < run.now <= terms.voids_after:
        try:
            end, start = await readings(run.chain.client, row, run.head)
        except NotRecorded as wait:
            return replace(facts, unrecorded=wait.grid_time)
        facts = replace(facts, end=end, start=start)
    return facts


def _crossing(run: JobRun, row: Any) -> Call:
    feed = run.chain.at(hex_of(row.feed), "PoolFeed")
    return feed.call("crossing", row.target, row.early_from, row.ends_at)


async def readings(client: ChainClient, row: Any, block: int) -> tuple[RoundReading, RoundReading | None]:
    """Return the deciding reading at the end and, for a direction market, the one at the start. Raise NotRecorded if
    one of them must be recorded first."""
    feed, of_pools = FeedReader(client, hex_of(row.feed), block), bool(row.step)
    end = await feed.deciding_reading(row.ends_at, row.max_age, of_pools=of_pools)
    if MarketKind(row.kind) is not MarketKind.DIRECTION:
        return end, None
    return end, await feed.deciding_reading(row.start_at, row.max_age, of_pools=of_pools)


async def _agreement(run: JobRun, row: Any, facts: Facts) -> Facts:
    """Return the facts, updated with whether an earlier read and the other nodes agree that a reading is missing."""
    what = claim(facts) if facts.is_open and not facts.crossed else None
    if what is None or not await run.is_confirmed(f"agent:stale:{hex_of(row.market_id)}", what):
        return facts
    quorum = await poll_nodes(run.chain.single_nodes, lambda client: _verdict(client, row, run.head, facts, what))
    return replace(facts, agreed=True, quorum=quorum)


async def _verdict(client: ChainClient, row: Any, block: int, facts: Facts, what: str) -> NodeVerdict:
    try:
        end, start = await readings(client, row, block)
    except NotRecorded:
        return NodeVerdict.OTHER
    return NodeVerdict.SAME if claim(replace(facts, end=end, start=start)) == what else NodeVerdict.OTHER
