"""Checks a stock market against its logs: recomputes its books and payouts from the logs, and proves both rounds."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from msgspec.structs import asdict

from core.chain import checksum
from core.contracts.events import stock as ev
from core.contracts.names import camel_fields, from_answer
from core.contracts.statuses import PreviewStatus, StockMarketStatus, StockOutcome, StockReason
from core.feeds.rounds import FeedReader, Round, Spec, judge
from core.feeds.rounds import settlement as settles_as
from core.hexadecimal import bytes_of
from core.stock.vested import DOWN, UP, Moment, PositionView, market_view, position_view
from indexer.errors import Contradiction
from indexer.fold.rows import LogRecord
from indexer.fold.stock import StockFold
from scripts._verify.chain import DecodedLog, PinnedChain, word
from scripts._verify.claims import Findings, NotCheckable, integer_or_none, objects

SIDES = ("UP", "DOWN")
VIEWS = ("principal", "acc", "capacity", "vested", "demand", "live")
STATUS_BY_WINNER = {None: StockMarketStatus.OPEN, UP: StockMarketStatus.UP, DOWN: StockMarketStatus.DOWN}


@dataclass
class StockMarket:
    """A stock market, read from its logs up to block `at`. `now` contains the block number and time that contracts saw
    in that block."""

    id: int
    at: int
    now: Moment
    fold: StockFold = field(default_factory=StockFold)
    entries: dict[int, DecodedLog] = field(default_factory=dict)
    deliveries: dict[int, list[DecodedLog]] = field(default_factory=dict)
    owners: dict[int, list[str]] = field(default_factory=dict)
    opened: DecodedLog | None = None
    registered: ev.SpecRegistered | None = None
    settled: ev.Settled | None = None
    closing_tx: str | None = None
    diverged: str = ""

    @property
    def folded(self) -> Any:
        return self.fold.market(self.id)

    @property
    def books(self) -> list[dict[str, int]]:
        return [camel_fields(book, *VIEWS) for book in market_view(self.folded, self.now).books]

    def view(self, position_id: int) -> PositionView:
        return position_view(self.folded, *self.fold.position(position_id), self.now)

    @property
    def outcome(self) -> str | None:
        """Return the outcome as the API names it, or None while the market is open."""
        if self.settled is not None:
            return StockOutcome(self.settled.outcome).name
        if not self.folded.settled:
            return None
        return "VOID" if self.folded.winner is None else SIDES[self.folded.winner]


async def read_market(chain: PinnedChain, market_id: int, at: int | None = None) -> StockMarket:
    """Read a market's logs. Raise NotCheckable if the market does not exist."""
    block = chain.head.number if at is None else min(at, chain.head.number)
    header = await chain.header(block)
    market = StockMarket(market_id, block, Moment(header.l1_block_number, header.timestamp))
    mine = [word(market_id)]
    logs = await chain.logs("VestedMarkets", mine)
    positions = [word(one.event.position_id) for one in logs if isinstance(one.event, ev.Entered)]
    for start in range(0, len(positions), 200):
        some = [positions[start : start + 200]]
        logs += await chain.logs("VestedMarkets", some, "Delivered", "DeliveryFailed", "PositionTransferred")
    logs = sorted((one for one in logs if one.block <= block), key=lambda one: one.place)
    fold_into(market, logs)
    if not any(isinstance(one.event, ev.MarketCreated) for one in logs):
        settler = chain.contract("VestedMarkets").address
        raise NotCheckable(f"No market {market_id} was created in {settler} up to block {block}.")
    for one in await chain.logs("RoundResolver", mine):
        if isinstance(one.event, ev.SpecRegistered):
            market.registered = one.event
        elif one.block <= block:
            market.settled = one.event
    market.opened = next(iter(await chain.logs("MarketLister", mine, "MarketOpened")), None)
    return market


def fold_into(market: StockMarket, logs: list[DecodedLog]) -> None:
    """Apply one market's logs in chain order. If a log contradicts the computed state, that state is not changed any
    further."""
    for one in logs:
        if isinstance(one.event, ev.Entered):
            market.entries[one.event.position_id] = one
            market.owners[one.event.position_id] = [checksum(one.event.owner)]
        elif isinstance(one.event, ev.PositionTransferred):
            market.owners[one.event.position_id].append(checksum(one.event.to))
        elif isinstance(one.event, ev.Delivered):
            market.deliveries.setdefault(one.event.position_id, []).append(one)
        elif isinstance(one.event, ev.Resolved | ev.Voided):
            market.closing_tx = one.tx
        if market.diverged:
            continue
        record = LogRecord(one.block, one.index, 0, bytes_of(one.tx), b"", b"", b"", None, one.event)
        try:
            market.fold.apply(record)
        except Contradiction as error:
            market.diverged = error.message


# ---------------------------------------------------------------- the market


async def check_market(chain: PinnedChain, market: StockMarket, findings: Findings) -> None:
    await check_books(chain, market, findings)
    await check_settlement(chain, market, findings)


async def check_books(chain: PinnedChain, market: StockMarket, findings: Findings) -> None:
    findings = findings.about(f"market {market.id}:", f"VestedMarkets logs of market {market.id}, folded again")
    what = "every vintage, payout and refund follows from the entries before it"
    findings.check(what, not market.diverged, detail=market.diverged)
    if market.diverged or market.at != chain.head.number:
        return
    stated, call = await chain.view("VestedMarkets", "books", market.id)
    for side, book in enumerate(market.books):
        of_side = findings.about(f"market {market.id}: {SIDES[side]}", f"{call} against the fold")
        of_side.fields(stated[side], book, Findings.integer)
    folded = market.folded
    status = StockMarketStatus.VOID if folded.voided else STATUS_BY_WINNER[folded.winner]
    stated, call = await chain.view("VestedMarkets", "market", market.id)
    findings.integer("status", stated["status"], status, f"{call}.status")


async def check_settlement(chain: PinnedChain, market: StockMarket, findings: Findings) -> None:
    """Check the rounds in effect at strike and close, and check that the market was settled by those rounds' prices."""
    registered, settled, folded = market.registered, market.settled, market.folded
    findings = findings.about(f"market {market.id}:", f"RoundResolver.Settled of market {market.id}")
    if not folded.settled:
        return
    if settled is None:
        due = folded.terms.freeze_time + folded.terms.void_delay
        in_time = folded.voided and market.now.timestamp > due
        shown = f"VestedMarkets.market({market.id}).freezeTime + voidDelay = {due}"
        findings.check("the market was voided without rounds only after its void delay", in_time, shown)
        return
    if registered is None:
        findings.unknown("its settlement", "no spec was registered")
        return
    outcome = settled.outcome if settled.outcome in (StockOutcome.UP, StockOutcome.DOWN) else None
    closing = f"VestedMarkets.Resolved / Voided in {market.closing_tx} against {findings.source}"
    findings.same("the settler closed the market as the resolver found", outcome, folded.winner, closing)
    feed = chain.feed(checksum(registered.feed))
    strike = await _prove_round(feed, settled.strike_round, registered.strike_time, "strike", findings)
    final = await _prove_round(feed, settled.final_round, registered.final_time, "final", findings)
    if strike is None or final is None:
        return
    stated = (settled.strike_answer, settled.strike_at, settled.final_answer, settled.final_at)
    proven = (strike.answer, strike.updated_at, final.answer, final.updated_at)
    findings.same("answers and times of both rounds", stated, proven, f"getRoundData of {feed.address}")
    if settled.reason in (StockReason.PAUSED, StockReason.MULTIPLIER, StockReason.OUTAGE):
        await _check_interruption(chain, registered, settled.reason, strike, final, findings)
        return
    verdict = judge(from_answer(Spec, asdict(registered)), strike, final, paused=False)
    ends_as = settles_as(verdict) if verdict is not PreviewStatus.NOT_READY else None
    findings.same(
        "outcome",
        StockOutcome(settled.outcome).name,
        ends_as[0].name if ends_as is not None else "nothing",
        f"strike {strike.answer} at {strike.updated_at}, final {final.answer} at {final.updated_at}, "
        f"age bounds {registered.max_strike_age} s and {registered.max_final_age} s",
    )


async def _check_interruption(
    chain: PinnedChain, registered: ev.SpecRegistered, reason: int, strike: Round, final: Round, findings: Findings
) -> None:
    """Check with the resolver that the market was voided because of a pause, split or outage at its two rounds."""
    what, stock = "the reason why its rounds decided nothing", checksum(registered.stock_token)
    if reason == StockReason.OUTAGE:
        why = "the resolver read the uptime feed in that block"
        findings.unknown(what, why, "RoundResolver.sequencerFeed()")
    elif reason == StockReason.PAUSED:
        spans = ((strike.updated_at, registered.strike_time), (final.updated_at, registered.final_time))
        seen = [(await chain.view("RoundResolver", "pausedBetween", stock, *span))[0] for span in spans]
        source = f"RoundResolver.pausedBetween({stock}, from, to) for {spans}"
        if any(seen):
            findings.check(what, True, source, "a pause was witnessed at the time of a reading")
        else:
            findings.unknown(what, "the resolver itself read oraclePaused() in that block", source)
    else:
        times = (strike.updated_at, registered.final_time)
        before, after = [(await chain.view("RoundResolver", "multiplierAt", stock, at))[0] for at in times]
        source = f"RoundResolver.multiplierAt({stock}, at) for {times}"
        findings.check(what, before != after, source, f"the multiplier was {before} and then {after}")


async def _prove_round(feed: FeedReader, proposed: int, time: int, which: str, findings: Findings) -> Round | None:
    proven, detail = await feed.prove(proposed, time), f"round {proposed}"
    if proven is None:
        should = await feed.in_effect(time)
        found = f"none ({should.problem.name})" if should.round is None else str(should.round_id)
        detail = f"the market used round {proposed}, but {found} was in effect"
    shown = f"RoundResolver.findRound({feed.address}, {time}); getRoundData of the round, the next one and later phases"
    findings.check(f"the {which} round is the one in effect at {time}", proven is not None, shown, detail)
    return proven


# ---------------------------------------------------------------- documents


async def check_detail(chain: PinnedChain, body: dict[str, Any], findings: Findings) -> None:
    """Check a response of GET /api/markets/[id] at the block that the response names."""
    listed: dict[str, Any] = body["market"] if isinstance(body.get("market"), dict) else body
    market_id = integer_or_none(listed.get("id"))
    if market_id is None:
        raise NotCheckable("The document has no market id.")
    head: dict[str, Any] = body["head"] if isinstance(body.get("head"), dict) else {}
    at = integer_or_none(head.get("blockNumber"))
    if at is not None and at > chain.head.number:
        raise NotCheckable(f"The document is for block {at}, but the node is at {chain.head.number}.")
    market = await read_market(chain, market_id, at)
    await check_market(chain, market, findings)
    _check_listed(market, listed, findings)
    if at is not None and not market.diverged:
        for side, book in enumerate(market.books):
            stated = (body.get("books") or [{}, {}])[side]
            findings.about(f"{SIDES[side]} book", f"the fold at block {at}").fields(stated, book, Findings.integer)
    _check_resolution(market, body.get("resolution"), findings)
    for position in body.get("positions") or []:
        await check_position_of(chain, market, position, findings, exact=at is not None)


def _check_listed(market: StockMarket, listed: dict[str, Any], findings: Findings) -> None:
    terms, winner, registered = market.folded.terms, market.folded.winner, market.registered
    findings = findings.about("market", f"VestedMarkets.market({market.id})")
    if isinstance(listed.get("opener"), str):
        findings.address("opener", listed["opener"], checksum(terms.opener))
    findings.fields(listed, {"seedPerLeg": terms.seed_per_leg}, Findings.integer)
    findings.fields(listed, {"winner": None if winner is None else SIDES[winner]})
    if registered is not None:
        of_spec = findings.about("market", f"RoundResolver.spec({market.id})")
        numbers = camel_fields(registered, "strikeTime", "finalTime", "maxStrikeAge", "maxFinalAge")
        of_spec.fields(listed, numbers, Findings.integer)
        of_spec.fields(listed, {"feed": checksum(registered.feed)}, Findings.address)
    if market.opened is not None:
        findings.fields(listed, {"ticker": market.opened.event.ticker}, shown_by="MarketLister.MarketOpened")


def _check_resolution(market: StockMarket, stated: Any, findings: Findings) -> None:
    if not isinstance(stated, dict):
        return
    checks = {"outcome": market.outcome, "tx": market.closing_tx}
    if market.settled is not None:
        both = camel_fields(market.settled, "strikeRound", "finalRound")
        checks |= {name: str(value) if value else None for name, value in both.items()}
    findings.about("resolution", f"RoundResolver.Settled of market {market.id}").fields(stated, checks)


async def check_position_of(
    chain: PinnedChain, market: StockMarket, stated: dict[str, Any], findings: Findings, *, exact: bool
) -> None:
    """Check a position. If `exact`, the document describes block `market.at`. Otherwise it describes an unknown earlier
    block: final values must be equal, but values that can only grow may be lower."""
    position_id = integer_or_none(stated.get("id"))
    if position_id not in market.entries:
        findings.check(f"position {stated.get('id')} exists", False, f"VestedMarkets.Entered of market {market.id}")
        return
    assert position_id is not None
    position, _ = market.fold.position(position_id)
    entry, view, owners = market.entries[position_id], market.view(position_id), market.owners[position_id]
    of = f"position {position_id}"
    entered = findings.about(of, f"VestedMarkets.Entered, block {entry.block}")
    settling = findings.about(of, f"VestedMarkets.settlement({position_id})")
    findings = findings.about(of, f"VestedMarkets.position({position_id})")
    if "owner" in stated:
        # The document may be from before a transfer and name an earlier owner.
        held_by = [checksum(position.owner)] if exact else owners
        given = str(stated["owner"]).lower()
        then = next((one for one in held_by if one.lower() == given), checksum(position.owner))
        findings.address("owner", stated["owner"], then)
    entered.fields(stated, {"enteredBy": owners[0]}, Findings.address)
    entered.fields(stated, {"opener": owners[0] == checksum(market.folded.terms.opener), "entryTx": entry.tx})
    findings.fields(stated, {"side": SIDES[position.outcome], "seed": position.seed})
    numbers = {"marketId": market.id, "offered": view.offered, "vintage": position.vintage}
    findings.fields(stated, numbers, Findings.integer)
    present = {name: value for name, value in stated.items() if value is not None}
    if "enteredAt" in present:
        findings.integer("enteredAt", stated["enteredAt"], await chain.time_of(entry.block), f"block {entry.block}")
    if "accepted" in present:
        matched = {"accepted": view.accepted, "refused": view.offered - (view.accepted or 0)}
        findings.fields(stated, matched, Findings.integer)
    if "accrued" in stated:
        compare = findings.integer if exact or "payout" in present else findings.at_most
        compare("accrued", stated["accrued"], view.accrued, f"VestedMarkets.accrued({position_id})")
    if exact or market.folded.settled:
        settling.fields(present, {"payout": view.payout}, Findings.integer)
        settling.fields(present, {"classicPayout": view.classic_payout}, Findings.integer, "core.stock.vested")
        if exact or "payout" in present:
            parts = camel_fields(view.settlement, "gross", "fee", "net", "refund")
            of_parts = findings.about(f"{of} settlement", settling.source)
            of_parts.fields(stated.get("settlement") or {}, parts, Findings.integer)
    await _check_delivery(chain, market, position_id, present, findings)


async def _check_delivery(
    chain: PinnedChain, market: StockMarket, position_id: int, stated: dict[str, Any], findings: Findings
) -> None:
    """Check the Delivered events, and check that the token was transferred in the same transactions."""
    findings = findings.about(f"position {position_id}", f"VestedMarkets.Delivered of {position_id}")
    sent = market.deliveries.get(position_id, [])
    findings.fields(stated, {"paidOut": sum(one.event.payout for one in sent)}, Findings.integer)
    if "payoutTx" in stated:
        named = stated["payoutTx"]
        findings.check("payoutTx", any(one.tx == named for one in sent), detail=str(named))
    for one in sent:
        amount, owner = one.event.payout + one.event.refund, checksum(one.event.owner)
        moved = await chain.transferred(one.tx, chain.contract("VestedMarkets").address, owner, amount)
        findings.check(f"{amount} units reached {owner}", moved, f"Transfer of {chain.token.address} in {one.tx}")


async def check_positions(chain: PinnedChain, body: dict[str, Any], findings: Findings) -> None:
    """Check a list of positions. Each market is read only once."""
    markets: dict[int, StockMarket] = {}
    for stated in objects(body.get("positions", [body])):
        position_id = integer_or_none(stated.get("id"))
        if position_id is None:
            findings.check(f"position {stated.get('id')} has an id", False, "an id is marketId << 32 | n")
            continue
        market_id = position_id >> 32
        if market_id not in markets:
            markets[market_id] = await read_market(chain, market_id)
            await check_market(chain, markets[market_id], findings)
        market = markets[market_id]
        await check_position_of(chain, market, stated, findings, exact=False)
        if position_id in market.entries:
            await check_view(chain, market, position_id, findings)


async def check_view(chain: PinnedChain, market: StockMarket, position_id: int, findings: Findings) -> None:
    due = market.view(position_id).settlement
    ours = (due.gross, due.fee, due.net, due.refund, due.total, due.deliverable)
    stated, call = await chain.view("VestedMarkets", "settlement", position_id)
    what = f"position {position_id}: gross, fee, net, refund, unsent total, deliverable"
    findings.same(what, tuple(stated), ours, f"{call} against the fold")
