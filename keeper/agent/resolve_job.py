"""`agent-resolve`: settles agent markets from their feeds: early when a target is reached, else after the deadline."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from sqlalchemy import select

from core.chain import ChainClient, RpcError, RpcErrorKind
from core.db.schema.index_agent import agent_market
from core.db.schema.index_shared import oracle_round
from core.mirror import rounds
from core.mirror.settlement import Kind, Reading, Terms
from core.outbox import KEEPER
from keeper import metrics, sightings
from keeper.agent.settling import RESOLVE, Facts, Found, Wait, claim, decide_market
from keeper.desk import Run
from keeper.errands import Rest, Want
from keeper.opinions import Word, ask_each

REST = Rest(after_success=120.0, after_failure=15.0, longest=900.0)
CROSSINGS_TRIED = 5
OPEN = 1  # status in the contract and the index

MARKETS, ROUNDS = agent_market.c, oracle_round.c


async def resolve_markets(run: Run) -> None:
    due = await _due(run)
    metrics.DUE.labels(run.report.job, "markets").set(sum(row.closes_at < run.now for row in due))
    wallet = run.desk.contract("SettlementWallet")
    views: list[Any] = await run.read_all([wallet.call("market", row.market_id) for row in due])
    for row, view in zip(due, views, strict=True):
        name = row.slug or "0x" + row.market_id.hex()
        facts = await _facts(run, row, view)
        decision = decide_market(await _agreement(run, row, facts), run.now)
        if isinstance(decision, Wait):
            run.report.skip(name, decision.reason)
            continue
        call = wallet.call(decision.function, row.market_id, decision.round_id)
        want = Want(
            kind="resolve" if decision.function.startswith("resolve") else "void",
            subjects=(f"agent:resolve:0x{row.market_id.hex()}",),
            target=name,
            detail=decision.why,
            group=KEEPER,
            to=call.to,
            data=call.data,
            priority=5,
        )
        await run.ask(want, REST)


async def _due(run: Run) -> list[Any]:
    """Unsettled markets past their deadline, and early resolvable ones before it."""
    query = (
        select(agent_market)
        .where(MARKETS.status == OPEN, (MARKETS.closes_at < run.now) | MARKETS.early_resolvable)
        .order_by(MARKETS.closes_at, MARKETS.market_id)
    )
    async with run.keeper.engine.connect() as connection:
        return list((await connection.execute(query)).all())


async def _facts(run: Run, row: Any, view: Any) -> Facts:
    if isinstance(view, RpcError):
        raise view  # listed markets are never unknown; the node is behind the index
    # When it settles is the contract's word: it knows how late its feed may be given readings.
    early = row.early_resolvable
    terms = Terms(
        kind=Kind(row.kind),
        opens_at=row.opens_at,
        closes_at=row.closes_at,
        max_age=row.max_age,
        target=row.target,
        bounds=tuple(int(bound) for bound in row.bounds),
        early_resolvable=early,
        start_at=row.start_at,
        lag=view["settlesAfter"] - row.closes_at,
        void_delay=row.void_delay,
    )
    facts = Facts(terms, is_open=view["status"] == OPEN)
    if not facts.is_open:
        return facts
    if early:
        facts = replace(facts, crossing=await _crossing(run, row))
    if facts.crossing is None and run.now > terms.settles_after:
        end, start = await readings(run.desk.client, run, row, run.head)
        facts = replace(facts, end=end, start=start)
    return facts


async def _crossing(run: Run, row: Any) -> int | None:
    """An indexed round that settles it early, by the contract's own word: not every round over the target does, for
    a feed may have left the phase it is in."""
    query = (
        select(ROUNDS.round_id)
        .where(
            ROUNDS.chain_id == run.desk.chain_id,
            ROUNDS.feed == row.feed,
            ROUNDS.answer >= row.target,
            ROUNDS.updated_at >= row.opens_at,
            ROUNDS.updated_at <= row.closes_at,
            ROUNDS.updated_at < run.now,
        )
        .order_by(ROUNDS.updated_at, ROUNDS.round_id)
        .limit(CROSSINGS_TRIED)
    )
    async with run.keeper.engine.connect() as connection:
        candidates: list[int] = list((await connection.execute(query)).scalars())
    wallet = run.desk.contract("SettlementWallet")
    for round_id in candidates:
        if await run.objection(wallet.call(RESOLVE, row.market_id, round_id)) is None:
            return round_id
    return None


async def readings(client: ChainClient, run: Run, row: Any, block: int) -> tuple[Found, Found | None]:
    """The rounds in effect at the deadline and, for a direction, at the start, by the mirror of the round finder."""
    feed = run.desk.at("0x" + row.feed.hex(), "ObservationFeed")

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
    head = rounds.Head(latest)
    end = _found(await rounds.run_async(rounds.in_effect_at(head, row.closes_at), read))
    if Kind(row.kind) is not Kind.DIRECTION:
        return end, None
    return end, _found(await rounds.run_async(rounds.in_effect_at(head, row.start_at), read))


def _found(reading: rounds.Reading) -> Found:
    if reading.round is None:
        return Found(reading.problem)
    return Found(reading.problem, reading.round.id, Reading(reading.round.answer, reading.round.updated_at))


async def _agreement(run: Run, row: Any, facts: Facts) -> Facts:
    """The facts, with whether an earlier read said so too, and what each other node says of the same readings."""
    what = claim(facts) if facts.is_open and facts.crossing is None else None
    if what is None:
        return facts
    subject = f"agent:stale:0x{row.market_id.hex()}"
    async with run.keeper.pool.connection() as connection:
        if run.dry_run:
            seen = await sightings.recall(connection, run.desk.chain_id, subject)
        else:
            seen = await sightings.note(connection, run.desk.chain_id, subject, what, run.now, run.head)
    if seen is None or not seen.agreed(what, run.now):
        return facts
    opinions = await ask_each(run.desk.opinions, lambda client: _opinion(client, run, row, facts, what))
    return replace(facts, agreed=True, opinions=opinions)


async def _opinion(client: ChainClient, run: Run, row: Any, facts: Facts, what: str) -> Word:
    try:
        end, start = await readings(client, run, row, run.head)
    except RpcError as error:
        return Word.NONE if error.kind.blames_node else Word.OTHER
    return Word.SAME if claim(replace(facts, end=end, start=start)) == what else Word.OTHER
