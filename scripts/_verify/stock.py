"""A stock market from its logs: books folded again, both rounds proven again, every payout worked out and looked up."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from core.chain import checksum
from core.contracts.events import stock as ev
from core.contracts.statuses import PreviewStatus, StockMarketStatus, StockOutcome, StockReason
from core.feeds.rounds import Round, Spec, judge
from core.feeds.rounds import settlement as settles_as
from core.hexadecimal import bytes_of
from core.stock.vested import DOWN, UP, Moment
from core.stock.vested_views import PositionView, market_view, position_view
from indexer.errors import Contradiction
from indexer.fold.stock import StockFold
from indexer.logs import LogRecord
from scripts._verify.chain import PinnedChain, SeenLog, word
from scripts._verify.claims import Findings, NotCheckable, whole

SIDES = ("UP", "DOWN")
VIEWS = ("principal", "acc", "capacity", "vested", "demand", "live")
STATUS_BY_WINNER = {None: StockMarketStatus.OPEN, UP: StockMarketStatus.UP, DOWN: StockMarketStatus.DOWN}


@dataclass
class StockMarket:
    """A market as logs tell it, up to `at`. `now` is what contracts saw in that block."""

    id: int
    at: int
    now: Moment
    fold: StockFold = field(default_factory=StockFold)
    entries: dict[int, SeenLog] = field(default_factory=dict)
    deliveries: dict[int, list[SeenLog]] = field(default_factory=dict)
    owners: dict[int, list[str]] = field(default_factory=dict)
    opened: SeenLog | None = None
    registered: ev.SpecRegistered | None = None
    settled: ev.Settled | None = None
    closing_tx: str | None = None
    diverged: str = ""

    @property
    def folded(self) -> Any:
        return self.fold.market(self.id)

    @property
    def spec(self) -> Spec | None:
        registered = self.registered
        if registered is None:
            return None
        return Spec(registered.strike_time, registered.final_time, registered.max_strike_age, registered.max_final_age)

    def view(self, position_id: int) -> PositionView:
        return position_view(self.folded, *self.fold.position(position_id), self.now)

    @property
    def outcome(self) -> str | None:
        """As the API says it; None while open."""
        if self.settled is not None:
            return StockOutcome(self.settled.outcome).name
        if not self.folded.settled:
            return None
        return "VOID" if self.folded.winner is None else SIDES[self.folded.winner]


async def read_market(chain: PinnedChain, market_id: int, at: int | None = None) -> StockMarket:
    """Read a market's logs; NotCheckable when the chain knows no such market."""
    settler, resolver, lister = (chain.contract(name) for name in ("VestedMarkets", "RoundResolver", "MarketLister"))
    block = chain.head.number if at is None else min(at, chain.head.number)
    header = await chain.header(block)
    market = StockMarket(market_id, block, Moment(header.l1_block_number, header.timestamp))
    mine = [word(market_id)]
    logs = await chain.logs(settler.address, ev.SETTLER_EVENTS, mine)
    positions = [word(one.event.position_id) for one in logs if isinstance(one.event, ev.Entered)]
    for some in range(0, len(positions), 200):
        logs += await chain.logs(settler.address, _OF_POSITIONS, [positions[some : some + 200]])
    logs = sorted((one for one in logs if one.block <= block), key=lambda one: (one.block, one.index))
    fold_into(market, logs)
    if not any(isinstance(one.event, ev.MarketCreated) for one in logs):
        raise NotCheckable(f"No market {market_id} was created in {settler.address} up to block {block}.")
    for one in await chain.logs(resolver.address, ev.RESOLVER_EVENTS, mine):
        if isinstance(one.event, ev.SpecRegistered):
            market.registered = one.event
        elif one.block <= block:
            market.settled = one.event
    opened = await chain.logs(lister.address, ev.LISTER_EVENTS, mine)
    market.opened = next((one for one in opened if isinstance(one.event, ev.MarketOpened)), None)
    return market


_OF_POSITIONS = {
    topic: layout
    for topic, layout in ev.SETTLER_EVENTS.items()
    if layout.name in ("Delivered", "DeliveryFailed", "PositionTransferred")
}


def fold_into(market: StockMarket, logs: list[SeenLog]) -> None:
    """Applies one market's logs, which are in chain order; stops folding at the first that does not follow."""
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


async def check_books(chain: PinnedChain, market: StockMarket, said: Findings) -> None:
    """Check that the logs follow from each other, and that the contract's views say the same at the pinned block."""
    said.says(
        f"market {market.id}: every vintage, payout and refund follows from the entries before it",
        not market.diverged,
        f"VestedMarkets logs of market {market.id}, folded again",
        market.diverged,
    )
    if market.diverged or market.at != chain.head.number:
        return
    settler = chain.contract("VestedMarkets")
    stated = await chain.read(settler.call("books", market.id))
    for side, book in enumerate(market_view(market.folded, market.now).books):
        for name in VIEWS:
            said.integer(
                f"market {market.id}: {SIDES[side]} {name}",
                stated[side][name],
                getattr(book, name),
                f"VestedMarkets.books({market.id}) against the fold",
            )
    folded = market.folded
    status = StockMarketStatus.VOID if folded.voided else STATUS_BY_WINNER[folded.winner]
    stated = (await chain.read(settler.call("market", market.id)))["status"]
    said.integer(f"market {market.id}: status", stated, status, f"VestedMarkets.market({market.id}).status")


async def check_settlement(chain: PinnedChain, market: StockMarket, said: Findings) -> None:
    """Check the rounds in effect at both times, what they say, and that the market was settled as they say."""
    spec, registered, settled = market.spec, market.registered, market.settled
    shown = f"RoundResolver.Settled of market {market.id}"
    if not market.folded.settled:
        return
    if settled is None:
        due = market.folded.terms.freeze_time + market.folded.terms.void_delay
        said.says(
            f"market {market.id}: void without rounds only after its void delay",
            market.folded.voided and market.now.timestamp > due,
            f"VestedMarkets.market({market.id}).freezeTime + voidDelay = {due}",
        )
        return
    if spec is None or registered is None:
        said.unknown(f"market {market.id}: what settles it", shown, "no spec was registered for it")
        return
    feed = checksum(registered.feed)
    expected = market.folded.winner
    outcome = settled.outcome if settled.outcome in (StockOutcome.UP, StockOutcome.DOWN) else None
    said.same(
        f"market {market.id}: the settler closed it as the resolver found",
        outcome,
        expected,
        f"VestedMarkets.Resolved / Voided in {market.closing_tx} against {shown}",
    )
    strike = await _proven(chain, feed, settled.strike_round, spec.strike_time, "strike", market.id, said)
    final = await _proven(chain, feed, settled.final_round, spec.final_time, "final", market.id, said)
    if strike is None or final is None:
        return
    stated = (settled.strike_answer, settled.strike_at, settled.final_answer, settled.final_at)
    proven = (strike.answer, strike.updated_at, final.answer, final.updated_at)
    said.same(f"market {market.id}: answers and times of both rounds", stated, proven, f"getRoundData of {feed}")
    if settled.reason in (StockReason.PAUSED, StockReason.MULTIPLIER, StockReason.OUTAGE):
        await _check_interruption(chain, market, strike, final, said)
        return
    verdict = judge(spec, strike, final, paused=False)
    ends_as = settles_as(verdict) if verdict is not PreviewStatus.NOT_READY else None
    said.same(
        f"market {market.id}: outcome",
        StockOutcome(settled.outcome).name,
        ends_as[0].name if ends_as is not None else "nothing",
        f"strike {strike.answer} at {strike.updated_at}, final {final.answer} at {final.updated_at}, "
        f"age bounds {spec.max_strike_age} s and {spec.max_final_age} s",
    )


async def _check_interruption(
    chain: PinnedChain, market: StockMarket, strike: Round, final: Round, said: Findings
) -> None:
    """Ask the resolver what was witnessed of the stock over the two rounds that voided the market."""
    spec, registered, settled = market.spec, market.registered, market.settled
    assert spec is not None
    assert registered is not None
    assert settled is not None
    what = f"market {market.id}: why its rounds decided nothing"
    if settled.reason == StockReason.OUTAGE:
        said.unknown(what, "RoundResolver.sequencerFeed()", "the resolver asked the uptime feed in that block")
        return
    resolver, stock = chain.contract("RoundResolver"), checksum(registered.stock_token)
    if settled.reason == StockReason.PAUSED:
        spans = ((strike.updated_at, spec.strike_time), (final.updated_at, spec.final_time))
        seen = [await chain.read(resolver.call("pausedBetween", stock, *span)) for span in spans]
        source = f"RoundResolver.pausedBetween({stock}, from, to) for {spans}"
        if any(seen):
            said.says(what, True, source, "a pause was witnessed over a reading")
        else:
            said.unknown(what, source, "the resolver itself read oraclePaused() in that block")
        return
    times = (strike.updated_at, spec.final_time)
    before, after = [await chain.read(resolver.call("multiplierAt", stock, at)) for at in times]
    source = f"RoundResolver.multiplierAt({stock}, at) for {times}"
    said.says(what, before != after, source, f"the multiplier was {before} and then {after}")


async def _proven(
    chain: PinnedChain, feed: str, proposed: int, time: int, which: str, market_id: int, said: Findings
) -> Round | None:
    proven = await chain.proves(feed, proposed, time)
    detail = f"round {proposed}"
    if proven is None:
        should = await chain.in_effect(feed, time)
        detail = f"the market used round {proposed}, in effect was " + (
            f"{should.round.id}" if should.round is not None else f"none ({should.problem.name})"
        )
    said.says(
        f"market {market_id}: the {which} round is the one in effect at {time}",
        proven is not None,
        f"RoundResolver.findRound({feed}, {time}); getRoundData of the round, the next one and later phases",
        detail,
    )
    return proven


# ---------------------------------------------------------------- documents


async def check_detail(chain: PinnedChain, body: dict[str, Any], said: Findings) -> None:
    """Check an answer of GET /api/markets/[id] at the very block it speaks of."""
    listed: dict[str, Any] = body["market"] if isinstance(body.get("market"), dict) else body
    market_id = whole(listed.get("id"))
    if market_id is None:
        raise NotCheckable("The document names no market id.")
    head: dict[str, Any] = body["head"] if isinstance(body.get("head"), dict) else {}
    at = whole(head.get("blockNumber"))
    if at is not None and at > chain.head.number:
        raise NotCheckable(f"The document speaks of block {at}; the node is at {chain.head.number}.")
    market = await read_market(chain, market_id, at)
    await check_books(chain, market, said)
    await check_settlement(chain, market, said)
    _check_listed(market, listed, said)
    if at is not None and not market.diverged:
        for side, book in enumerate(market_view(market.folded, market.now).books):
            stated = (body.get("books") or [{}, {}])[side]
            checks = {name: (getattr(book, name), f"the fold at block {at}") for name in VIEWS}
            said.fields(f"{SIDES[side]} book", stated, checks, said.integer)
    _check_resolution(market, body.get("resolution"), said)
    for position in body.get("positions") or []:
        await check_position_of(chain, market, position, said, exact=at is not None)


def _check_listed(market: StockMarket, listed: dict[str, Any], said: Findings) -> None:
    terms, spec, registered = market.folded.terms, market.spec, market.registered
    source = f"VestedMarkets.market({market.id})"
    if isinstance(listed.get("opener"), str):
        said.address("opener", listed["opener"], checksum(terms.opener), source)
    said.fields("market", listed, {"seedPerLeg": (terms.seed_per_leg, source)}, said.integer)
    if "winner" in listed:
        winner = None if market.folded.winner is None else SIDES[market.folded.winner]
        said.same("market winner", listed["winner"], winner, source)
    if spec is not None and registered is not None:
        source = f"RoundResolver.spec({market.id})"
        numbers = {
            "strikeTime": (spec.strike_time, source),
            "finalTime": (spec.final_time, source),
            "maxStrikeAge": (spec.max_strike_age, source),
            "maxFinalAge": (spec.max_final_age, source),
        }
        said.fields("market", listed, numbers, said.integer)
        said.fields("market", listed, {"feed": (checksum(registered.feed), source)}, said.address)
    if market.opened is not None and "ticker" in listed:
        said.same("market ticker", listed["ticker"], market.opened.event.ticker, "MarketLister.MarketOpened")


def _check_resolution(market: StockMarket, stated: Any, said: Findings) -> None:
    if not isinstance(stated, dict):
        return
    source = f"RoundResolver.Settled of market {market.id}"
    checks: dict[str, tuple[Any, str]] = {"outcome": (market.outcome, source), "tx": (market.closing_tx, source)}
    if market.settled is not None:
        both = (("strikeRound", market.settled.strike_round), ("finalRound", market.settled.final_round))
        checks |= {name: (str(value) if value else None, source) for name, value in both}
    said.fields("resolution", stated, checks)


async def check_position_of(
    chain: PinnedChain, market: StockMarket, stated: dict[str, Any], said: Findings, *, exact: bool
) -> None:
    """`exact`: the document speaks of block `market.at`; otherwise of an unknown earlier one, where only what cannot
    change any more must be equal, and what only grows may be less."""
    position_id = whole(stated.get("id"))
    if position_id not in market.entries:
        said.says(f"position {stated.get('id')} exists", False, f"VestedMarkets.Entered of market {market.id}")
        return
    assert position_id is not None
    position, _ = market.fold.position(position_id)
    entry, view = market.entries[position_id], market.view(position_id)
    of, call = f"position {position_id}", f"VestedMarkets.position({position_id})"
    settling = f"VestedMarkets.settlement({position_id})"
    if "owner" in stated:
        # An owner of before a transfer was the owner when the document was made.
        held_by = [checksum(position.owner)] if exact else market.owners[position_id]
        given = str(stated["owner"]).lower()
        then = next((one for one in held_by if one.lower() == given), checksum(position.owner))
        said.address(f"{of} owner", stated["owner"], then, call)
    bettor = (market.owners[position_id][0], f"VestedMarkets.Entered, block {entry.block}")
    said.fields(of, stated, {"enteredBy": bettor}, said.address)
    said.fields(
        of,
        stated,
        {
            "side": (SIDES[position.outcome], call),
            "seed": (position.seed, call),
            "opener": (bettor[0] == checksum(market.folded.terms.opener), bettor[1]),
            "entryTx": (entry.tx, f"VestedMarkets.Entered, block {entry.block}"),
        },
    )
    numbers = {"marketId": (market.id, call), "offered": (view.offered, call), "vintage": (position.vintage, call)}
    said.fields(of, stated, numbers, said.integer)
    if stated.get("enteredAt") is not None:
        said.integer(f"{of} enteredAt", stated["enteredAt"], await chain.time_of(entry.block), f"block {entry.block}")
    if stated.get("accepted") is not None:
        matched = {"accepted": (view.accepted, call), "refused": (view.offered - (view.accepted or 0), call)}
        said.fields(of, stated, matched, said.integer)
    final = exact or market.folded.settled
    if "accrued" in stated:
        compare = said.integer if exact or stated.get("payout") is not None else said.at_most
        compare(f"{of} accrued", stated["accrued"], view.accrued, f"VestedMarkets.accrued({position_id})")
    if final:
        due = view.settlement
        ends = {"payout": (view.payout, settling), "classicPayout": (view.classic_payout, "core.stock.classic")}
        present = {name: value for name, value in stated.items() if value is not None}
        said.fields(of, present, ends, said.integer)
        if stated.get("payout") is not None or exact:
            parts = {name: (getattr(due, name), settling) for name in ("gross", "fee", "net", "refund")}
            said.fields(f"{of} settlement", stated.get("settlement") or {}, parts, said.integer)
    await _check_delivery(chain, market, position_id, stated, said)


async def _check_delivery(
    chain: PinnedChain, market: StockMarket, position_id: int, stated: dict[str, Any], said: Findings
) -> None:
    """Check what was sent: the Delivered events, and that the token really moved in the same transactions."""
    of = f"position {position_id}"
    sent = market.deliveries.get(position_id, [])
    total = sum(one.event.payout for one in sent)
    if stated.get("paidOut") is not None:
        said.integer(f"{of} paidOut", stated["paidOut"], total, f"VestedMarkets.Delivered of {position_id}")
    if stated.get("payoutTx") is not None:
        said.says(
            f"{of} payoutTx",
            any(one.tx == stated["payoutTx"] for one in sent),
            f"VestedMarkets.Delivered of {position_id}",
            str(stated["payoutTx"]),
        )
    for one in sent:
        await _moved(chain, one, said, of)


async def _moved(chain: PinnedChain, one: SeenLog, said: Findings, of: str) -> None:
    amount, owner = one.event.payout + one.event.refund, checksum(one.event.owner)
    moved = await chain.moved(one.tx, chain.contract("VestedMarkets").address, owner, amount)
    said.says(f"{of}: {amount} units reached {owner}", moved, f"Transfer of {chain.token.address} in {one.tx}")


async def check_positions(chain: PinnedChain, positions: list[dict[str, Any]], said: Findings) -> None:
    """Positions outside a market's page; each market is read once."""
    markets: dict[int, StockMarket] = {}
    for stated in positions:
        position_id = whole(stated.get("id"))
        market_id = None if position_id is None else position_id >> 32
        if market_id is None:
            said.says(f"position {stated.get('id')} has an id", False, "an id is marketId << 32 | n")
            continue
        if market_id not in markets:
            markets[market_id] = await read_market(chain, market_id)
            await check_books(chain, markets[market_id], said)
            await check_settlement(chain, markets[market_id], said)
        market = markets[market_id]
        await check_position_of(chain, market, stated, said, exact=False)
        if position_id in market.entries:
            await check_view(chain, market, position_id or 0, said)


async def check_view(chain: PinnedChain, market: StockMarket, position_id: int, said: Findings) -> None:
    """Check the contract's own settlement of a position against the fold, at the pinned block."""
    due = market.view(position_id).settlement
    ours = (due.gross, due.fee, due.net, due.refund, due.total, due.deliverable)
    stated = await chain.read(chain.contract("VestedMarkets").call("settlement", position_id))
    said.same(
        f"position {position_id}: gross, fee, net, refund, unsent total, deliverable",
        tuple(stated),
        ours,
        f"VestedMarkets.settlement({position_id}) against the fold",
    )
