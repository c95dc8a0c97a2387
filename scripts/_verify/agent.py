"""An agent market and its trades from the wallet contract's logs: shares bought again, the result decided again."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from core.chain import checksum
from core.events import agent as ev
from core.events.token import TRANSFER
from core.mirror.bet import market_key
from core.mirror.rounds import Problem
from core.mirror.settlement import YES, Book, Kind, Reading, Terms, Verdict, VoidReason, crosses, decide
from scripts._verify.chain import Chain, Seen, seen, word
from scripts._verify.claims import Findings, NotCheckable

CENT_DECIMALS = 4
SIDES = {Kind.THRESHOLD: ("yes", "no"), Kind.DIRECTION: ("up", "down")}


@dataclass
class AgentMarket:
    """Everything logs say of one market up to the pinned block."""

    key: bytes
    listed: ev.MarketListed
    book: Book
    stakes: dict[int, Seen] = field(default_factory=dict)
    payments: dict[int, Seen] = field(default_factory=dict)
    closed: Seen | None = None
    diverged: str = ""

    @property
    def spec(self) -> ev.MarketSpec:
        return self.listed.spec

    @property
    def kind(self) -> Kind:
        return Kind(self.spec.kind)

    @property
    def winner(self) -> int | None:
        return self.closed.event.outcome if self.closed and isinstance(self.closed.event, ev.MarketResolved) else None

    @property
    def sides(self) -> tuple[str, ...]:
        """The keys a trade names; those of the two binary kinds are fixed."""
        if self.kind in SIDES:
            return SIDES[self.kind]
        defaults = tuple(f"b{at}" for at in range(self.spec.outcomes))
        try:
            given = json.loads(self.listed.metadata).get("outcomes") or []
            keys = tuple(str(each["key"]) for each in given)
        except (ValueError, KeyError, TypeError, AttributeError):
            return defaults
        return keys if len(keys) == self.spec.outcomes == len(set(keys)) else defaults

    def owed(self, stake: ev.Staked | ev.RefundBooked) -> tuple[int, bool]:
        """What it is owed now, and whether it is its own money back."""
        if isinstance(stake, ev.RefundBooked):
            return stake.amount, True
        if self.closed is None:
            return 0, False
        back = self.book.refunds(self.winner)
        return self.book.owed(self.winner, stake.outcome, stake.amount, stake.shares), back


async def read_market(chain: Chain, key: bytes) -> AgentMarket:
    """NotCheckable when it was never listed."""
    wallet = chain.contract("SettlementWallet").address
    logs = await chain.logs(wallet, ev.WALLET_EVENTS, [word(key)])
    listed = next((one.event for one in logs if isinstance(one.event, ev.MarketListed)), None)
    if listed is None:
        raise NotCheckable(f"Market 0x{key.hex()} was never listed in {wallet}.")
    spec = listed.spec
    found = AgentMarket(key, listed, Book.empty(spec.outcomes, spec.virtual_liquidity, spec.fee_bps))
    for one in logs:
        event = one.event
        if isinstance(event, ev.Staked):
            found.stakes[event.stake_id] = one
            found.book, got = found.book.staked(event.outcome, event.amount)
            if (got.fee, got.shares) != (event.fee, event.shares) and not found.diverged:
                found.diverged = f"stake {event.stake_id} got {event.shares} shares, the book gives {got.shares}"
        elif isinstance(event, ev.RefundBooked):
            found.stakes[event.stake_id] = one
        elif isinstance(event, ev.MarketResolved | ev.MarketVoided):
            found.closed = one
        elif isinstance(event, ev.Paid):
            found.payments[event.stake_id] = one
    return found


# ---------------------------------------------------------------- the market


async def check_book(chain: Chain, found: AgentMarket, said: Findings) -> None:
    said.says(
        "every stake of the market got the shares the formula gives, in order",
        not found.diverged,
        f"SettlementWallet.Staked logs of 0x{found.key.hex()}, priced again",
        found.diverged,
    )
    wallet = chain.contract("SettlementWallet")
    for outcome, side in enumerate(found.sides):
        stated = await chain.read(wallet.call("outcomeBook", found.key, outcome))
        book = found.book
        ours = (book.net[outcome], book.shares[outcome], book.weight(outcome), book.price(outcome))
        call = f"SettlementWallet.outcomeBook(0x{found.key.hex()}, {outcome}) against the fold"
        said.same(f"net, shares, weight and price of {side}", tuple(stated), ours, call)


async def check_result(chain: Chain, found: AgentMarket, said: Findings) -> None:
    """The reading in effect, what it decides, and that the contract closed the market so."""
    if found.closed is None:
        return
    spec, event, feed = found.spec, found.closed.event, checksum(found.spec.feed)
    terms = Terms(
        kind=found.kind,
        opens_at=spec.opens_at,
        closes_at=spec.closes_at,
        max_age=spec.max_age,
        target=spec.target,
        bounds=spec.bounds,
        early_resolvable=spec.early_resolvable,
        start_at=spec.start_at,
        void_delay=spec.void_delay,
    )
    closed_at = await chain.time_of(found.closed.block)
    if isinstance(event, ev.MarketResolved) and event.outcome == YES and spec.early_resolvable:
        early = await chain.round(feed, event.round_id)
        in_effect = early is not None and await chain.proves(feed, early.id, early.updated_at) is not None
        if early is not None and crosses(terms, Reading(early.answer, early.updated_at), closed_at):
            shown = f"getRoundData({early.id}) of {feed}"
            said.says(
                "a reading of the market's life reached the target",
                in_effect and (early.answer, early.updated_at) == (event.observed, event.observed_at),
                shown,
                f"{early.answer} at {early.updated_at}, target {spec.target}",
            )
            return
    end = await chain.in_effect(feed, spec.closes_at)
    start = await chain.in_effect(feed, spec.start_at) if found.kind is Kind.DIRECTION else None
    if isinstance(event, ev.MarketVoided) and event.reason == VoidReason.TIMEOUT:
        due = spec.closes_at + spec.void_delay
        said.says("void by timeout only after the void delay", closed_at > due, f"closesAt + voidDelay = {due}")
        return
    for one, when in ((end, "deadline"), (start, "start")):
        if one is not None and one.problem not in (Problem.OK, Problem.NO_ROUND):
            said.unknown(f"the reading at the {when}", f"latestRoundData of {feed}", one.problem.name)
            return
    ends = _reading(end)
    verdict = decide(terms, ends, None if start is None else _reading(start))
    told = Verdict(event.outcome) if isinstance(event, ev.MarketResolved) else Verdict(None, VoidReason(event.reason))
    said.same(
        "outcome",
        _named(found, told),
        _named(found, verdict),
        f"the round in effect at {spec.closes_at} of {feed}"
        + (f" is {end.round.id}: {end.round.answer} at {end.round.updated_at}" if end.round else " is none"),
    )
    if isinstance(event, ev.MarketResolved) and end.round is not None:
        held = (end.round.id, end.round.answer, end.round.updated_at)
        stated = (event.round_id, event.observed, event.observed_at)
        said.same("round, value and time it was resolved by", stated, held, f"getRoundData of {feed}")


def _reading(found: Any) -> Reading | None:
    return None if found.round is None else Reading(found.round.answer, found.round.updated_at)


def _named(found: AgentMarket, verdict: Verdict) -> str:
    if verdict.winner is not None:
        return found.sides[verdict.winner]
    return f"void ({verdict.void.name})" if verdict.void is not None else "void"


# ---------------------------------------------------------------- one stake


async def find_stake(chain: Chain, trade_id: str, tx: Any = None) -> Seen:
    """The log of a trade by its intent hash; with its transaction it is one request."""
    wallet = chain.contract("SettlementWallet").address
    wanted = bytes.fromhex(trade_id[2:])
    receipt = await chain.receipt(tx)
    logs = [] if receipt is None else seen(receipt.logs, wallet, _STAKES)
    if not any(one.event.intent_hash == wanted for one in logs):
        logs = await chain.logs(wallet, _STAKES)
    for one in logs:
        if one.event.intent_hash == wanted:
            return one
    raise NotCheckable(f"No stake of {wallet} carries the intent hash {trade_id} at block {chain.head.number}.")


_STAKES = {topic: each for topic, each in ev.WALLET_EVENTS.items() if each.name in ("Staked", "RefundBooked")}


async def check_stake(chain: Chain, found: AgentMarket, stake: Seen, said: Findings) -> None:
    """That the money came in, and what went out again."""
    event, wallet, token = stake.event, chain.contract("SettlementWallet"), chain.token.address
    owner = checksum(event.wallet)
    view = await chain.read(wallet.call("stake", event.stake_id))
    call = f"SettlementWallet.stake({event.stake_id})"
    ours = (owner.lower(), event.amount, "0x" + event.market_id.hex())
    stated = (view["wallet"].lower(), view["amount"], "0x" + bytes(view["marketId"]).hex())
    said.same("wallet, amount and market of the stake", stated, ours, call)
    receipt = await chain.receipt(stake.tx)
    transfers = [] if receipt is None else seen(receipt.logs, token, {TRANSFER.topic: TRANSFER})
    came = any(_is(one.event, owner, wallet.address, event.amount) for one in transfers)
    if came:
        said.says("the stake was pulled from the wallet", True, f"Transfer of {token} in {stake.tx}")
    else:
        said.unknown("the stake was pulled from the wallet", stake.tx, "booked by credit: the money came before")
    owed, back = found.owed(event)
    paid = found.payments.get(event.stake_id)
    if paid is not None:
        right = (paid.event.amount, paid.event.refund) == (owed, back) and checksum(paid.event.wallet) == owner
        said.says("it was paid what it is owed", right, f"SettlementWallet.Paid in {paid.tx}", f"{owed} units")
        receipt = await chain.receipt(paid.tx)
        transfers = [] if receipt is None else seen(receipt.logs, token, {TRANSFER.topic: TRANSFER})
        moved = any(_is(one.event, wallet.address, owner, owed) for one in transfers)
        said.says("the payment reached the wallet", moved, f"Transfer of {token} in {paid.tx}")
    elif owed:
        said.integer("owed and not sent yet", view["payable_"], owed, f"{call}.payable_")


def _is(moved: Any, sender: str, to: str, value: int) -> bool:
    return (checksum(moved.sender), checksum(moved.to), moved.value) == (checksum(sender), checksum(to), value)


def status_of(found: AgentMarket, event: ev.Staked) -> str:
    if found.closed is None:
        return "open"
    if found.book.refunds(found.winner):
        return "resolved-refunded"
    return "resolved-won" if event.outcome == found.winner else "resolved-lost"


def seconds(text: Any) -> int | None:
    """Unix seconds of an ISO-8601 time."""
    try:
        return int(datetime.fromisoformat(text).timestamp())
    except (TypeError, ValueError):
        return None


def average_cents(event: ev.Staked) -> int:
    """In 1e-4 cents, rounded down as the receipt is."""
    net = event.amount - event.fee
    return 100 * net * 10**CENT_DECIMALS // event.shares if event.shares else 0


def key_of(market_id: Any) -> bytes:
    if not isinstance(market_id, str) or not market_id:
        raise NotCheckable("The document names no market id.")
    return market_key(market_id)
