"""A chain's contracts in memory: transactions go in, and exactly the logs that our contracts would emit come out.
Books, payouts and prices come from `core.stock` and `core.agent`, which other tests compare with the contracts; ids,
vintages and the order of events follow the contracts' sources. A transaction that would revert returns None. The state
is cheap to copy, so a chain can go back to any of its blocks."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

from eth_abi.abi import encode
from eth_utils.abi import get_abi_input_types
from eth_utils.crypto import keccak

from core.agent.book import Book
from core.contracts.events import Layout, Role, layouts_of
from core.contracts.events import stock as ev
from core.contracts.statuses import AgentMarketStatus, RefundReason, StakeStatus, VoidReason
from core.stock import vested
from core.stock.vested import Moment
from tests.support.stock_ledger import Ledger

UNIT = 10**6


def address_of(name: str) -> bytes:
    return hashlib.sha256(name.encode()).digest()[:20]


CONTRACTS: tuple[Role, ...] = tuple(role for role in Role if role not in (Role.FEED, Role.TOKEN))
ADDRESSES = {role: address_of(f"contract {role.value}") for role in CONTRACTS}
TOKEN = address_of("token")
FEEDS = tuple(address_of(f"feed {n}") for n in range(2))
POOL_FEED = FEEDS[1]
TREASURY = address_of("treasury")


@dataclass(frozen=True, slots=True)
class Emission:
    address: bytes
    topics: bytes
    data: bytes


@cache
def _layout(role: Role, name: str) -> tuple[Layout, tuple[tuple[str, bool], ...]]:
    found = next(each for each in layouts_of(role).values() if each.name == name)
    kinds = zip(get_abi_input_types(found.entry), found.entry["inputs"], strict=True)
    return found, tuple((kind, part["indexed"]) for kind, part in kinds)


def emission(role: Role, name: str, *values: Any, address: bytes | None = None) -> Emission:
    layout, kinds = _layout(role, name)
    indexed = [_word(value) for value, (_, is_indexed) in zip(values, kinds, strict=True) if is_indexed]
    plain = [(kind, value) for value, (kind, is_indexed) in zip(values, kinds, strict=True) if not is_indexed]
    if layout.data_bytes is None or any(kind.startswith("(") for kind, _ in plain):
        data = encode([kind for kind, _ in plain], [value for _, value in plain])
    else:
        data = b"".join(_word(value) for _, value in plain)
    return Emission(address or ADDRESSES[role], layout.topic + b"".join(indexed), data)


def _word(value: Any) -> bytes:
    if isinstance(value, bytes):
        return value.rjust(32, b"\0")
    return int(value).to_bytes(32, signed=value < 0)


# ---------------------------------------------------------------- transactions


@dataclass(frozen=True, slots=True)
class Tx:
    """A transaction. Its hash comes from `uid` and stays the same in any block."""

    uid: int
    what: str
    args: tuple[Any, ...] = ()

    @property
    def hash(self) -> bytes:
        return hashlib.sha256(f"tx {self.uid}".encode()).digest()


@dataclass(slots=True)
class AgentBook:
    """An agent market. It is replaced and never changed, so that copies of the world may share it."""

    index: int
    book: Book
    closes_at: int
    status: AgentMarketStatus = AgentMarketStatus.OPEN
    winner: int | None = None
    stakes: int = 0


@dataclass(frozen=True, slots=True)
class AgentStake:
    market: bytes
    wallet: bytes
    outcome: int
    amount: int
    shares: int
    status: StakeStatus


@dataclass
class World:
    ledger: Ledger = field(default_factory=Ledger)
    counts: dict[tuple[int, int], int] = field(default_factory=dict)
    agent: dict[bytes, AgentBook] = field(default_factory=dict)
    stakes: dict[int, AgentStake] = field(default_factory=dict)
    rounds: dict[bytes, int] = field(default_factory=dict)
    authorizations: dict[tuple[bytes, bytes], int | None] = field(default_factory=dict)
    """By payer and nonce, what it paid the settlement wallet and is not booked; None for all other spent ones."""
    condemned: set[bytes] = field(default_factory=set)
    agent_fees: int = 0

    def copy(self) -> World:
        ledger = Ledger()
        ledger.markets, ledger.vintages = dict(self.ledger.markets), dict(self.ledger.vintages)
        ledger.positions = dict(self.ledger.positions)
        ledger.entries = {market: list(ids) for market, ids in self.ledger.entries.items()}
        ledger.fees_swept = self.ledger.fees_swept
        return World(
            ledger,
            dict(self.counts),
            dict(self.agent),
            dict(self.stakes),
            dict(self.rounds),
            dict(self.authorizations),
            set(self.condemned),
            self.agent_fees,
        )

    def run(self, tx: Tx, now: Moment) -> list[Emission] | None:
        method = getattr(self, f"_{tx.what}")
        found: list[Emission] | None = method(now, *tx.args)
        return found

    # ---------------------------------------------------------------- stock

    def _create(self, now: Moment, life: int, kappa: int, seed: int, fee_bps: int) -> list[Emission]:
        market_id = len(self.ledger.markets) + 1
        freeze, opener = now.timestamp + life, address_of("opener")
        limits = (freeze, 3600, fee_bps, kappa, seed, UNIT, 2**48 - 1, 1_000 * seed)
        created = (market_id, opener, ADDRESSES[Role.RESOLVER], *limits)
        self.ledger.apply(ev.MarketCreated(*created))
        logs = [emission(Role.SETTLER, "MarketCreated", *created)]
        logs += [self._entered(market_id, opener, outcome, seed, 0) for outcome in (0, 1)]
        spec_id = hashlib.sha256(f"spec {market_id} {freeze}".encode()).digest()
        feed = FEEDS[market_id % len(FEEDS)]
        strike = now.timestamp + life // 2
        spec = (market_id, spec_id, feed, address_of("stock"), strike, freeze, 90, 91)
        logs.append(emission(Role.RESOLVER, "SpecRegistered", *spec))
        opened = (market_id, spec_id, feed, "NVDA", market_id % 3, strike, freeze, seed, UNIT, 2**48 - 1)
        logs.append(emission(Role.LISTER, "MarketOpened", *opened))
        return logs

    def _entered(self, market_id: int, owner: bytes, outcome: int, amount: int, vintage: int) -> Emission:
        n = self.counts.get((market_id, outcome), 0)
        self.counts[market_id, outcome] = n + 1
        position_id = market_id << 32 | n << 1 | outcome
        self.ledger.apply(ev.Entered(market_id, position_id, owner, outcome, amount, vintage))
        return emission(Role.SETTLER, "Entered", market_id, position_id, owner, outcome, amount, vintage)

    def _finalize_pending(self, market_id: int) -> Emission:
        _, vintage = vested.match(self.ledger.markets[market_id])
        assert vintage.accepted is not None
        assert vintage.entry_acc is not None
        values = (market_id, vintage.number, *vintage.offered, *vintage.accepted, *vintage.entry_acc)
        self.ledger.apply(ev.VintageFinalized(*values))
        return emission(Role.SETTLER, "VintageFinalized", *values)

    def _enter(
        self, now: Moment, market_id: int, owner: bytes, outcome: int, amount: int, nonce: bytes | None
    ) -> list[Emission] | None:
        market = self.ledger.markets.get(market_id)
        if market is None or market.settled or now.timestamp >= market.terms.freeze_time:
            return None
        logs = []
        if nonce is not None:
            if not self._spend(owner, nonce):
                return None
            logs.append(emission(Role.TOKEN, "AuthorizationUsed", owner, nonce, address=TOKEN))
        # With or without an authorization money moves; only an authorized transfer is of interest.
        logs.append(emission(Role.TOKEN, "Transfer", owner, ADDRESSES[Role.SETTLER], amount, address=TOKEN))
        if market.vintage is not None and market.vintage.number != now.block_number:
            logs.append(self._finalize_pending(market_id))
        logs.append(self._entered(market_id, owner, outcome, amount, now.block_number))
        return logs

    def _finalize(self, now: Moment, market_id: int) -> list[Emission] | None:
        market = self.ledger.markets.get(market_id)
        if market is None or market.settled or not vested.finished(market, now):
            return None
        return [self._finalize_pending(market_id)]

    def _settle(self, now: Moment, market_id: int, outcome: int) -> list[Emission] | None:
        """Settle with outcome 0 UP, 1 DOWN, 2 FLAT, 3 VOID by the resolver, or 4 VOID by anyone."""
        market = self.ledger.markets.get(market_id)
        if market is None or market.settled or now.timestamp < market.terms.freeze_time:
            return None
        logs = [self._finalize_pending(market_id)] if market.vintage is not None else []
        if outcome < 2:
            self.ledger.apply(ev.Resolved(market_id, outcome))
            logs.append(emission(Role.SETTLER, "Resolved", market_id, outcome))
        else:
            self.ledger.apply(ev.Voided(market_id))
            logs.append(emission(Role.SETTLER, "Voided", market_id))
        if outcome < 4:
            reason = (0, 0, 1, 2)[outcome]
            values = (market_id, outcome, reason, 1 << 64 | 5, -7, now.timestamp - 9, 1 << 64 | 6, 10**10, 77)
            logs.append(emission(Role.RESOLVER, "Settled", *values))
        return logs

    def _deliver(self, now: Moment, ids: Sequence[int], failing: Sequence[int]) -> list[Emission] | None:
        logs = []
        for position_id in ids:
            position = self.ledger.positions.get(position_id)
            if position is None:
                continue
            market = self.ledger.markets[position.market_id]
            vintage = self.ledger.vintage_of(position)
            due = vested.settlement(market, position, vintage, now)
            if not due.deliverable:
                continue
            owner = position.owner
            if position_id in failing:
                logs.append(emission(Role.SETTLER, "DeliveryFailed", position_id, owner, due.total))
                continue
            net, fee = (0, 0) if position.claimed else (due.net, due.fee)
            refund = 0 if position.refunded else due.refund
            self.ledger.apply(ev.Delivered(position_id, position.owner, net, fee, refund))
            logs.append(emission(Role.SETTLER, "Delivered", position_id, owner, net, fee, refund))
        return logs or None

    def _transfer(self, _now: Moment, position_id: int, to: bytes) -> list[Emission] | None:
        position = self.ledger.positions.get(position_id)
        if position is None:
            return None
        self.ledger.apply(ev.PositionTransferred(position_id, position.owner, to))
        return [emission(Role.SETTLER, "PositionTransferred", position_id, position.owner, to)]

    def _residue(self, _now: Moment, market_id: int) -> list[Emission] | None:
        market = self.ledger.markets.get(market_id)
        dust = None if market is None else vested.residue(market)
        if not dust or market is None or market.residue_claimed:
            return None
        self.ledger.apply(ev.ResidueClaimed(market_id, dust))
        return [emission(Role.SETTLER, "ResidueClaimed", market_id, dust)]

    def _sweep(self, _now: Moment) -> list[Emission] | None:
        amount = self.ledger.fees_accrued
        if amount == 0:
            return None
        self.ledger.apply(ev.FeesSwept(amount))
        return [emission(Role.SETTLER, "FeesSwept", amount)]

    def _pause(self, _now: Moment, paused: bool) -> list[Emission]:
        return [emission(Role.SETTLER, "EntriesPaused", paused)]

    def _set_feed(self, _now: Moment, feed: bytes, ticker: str, allowed: bool) -> list[Emission]:
        return [emission(Role.LISTER, "FeedSet", feed, address_of(ticker), ticker, 90, 91, 10**9, allowed)]

    def _set_opener(self, _now: Moment, opener: bytes, allowed: bool) -> list[Emission]:
        return [emission(Role.LISTER, "OpenerSet", opener, allowed)]

    def _round(self, now: Moment, feed: bytes, answer: int) -> list[Emission]:
        n = self.rounds[feed] = self.rounds.get(feed, 0) + 1
        logs = [emission(Role.FEED, "AnswerUpdated", answer, 1 << 64 | n, now.timestamp, address=feed)]
        if feed == POOL_FEED:
            measures = [(-n * 10**9, n - 10**9 * pool, 2**127 + n, 60 * pool) for pool in range(1 + n % 2)]
            logs.append(emission(Role.FEED, "ReadingMeasured", 1 << 64 | n, 1 + n % 4, measures, address=feed))
        return logs

    # ---------------------------------------------------------------- agent

    def _list(self, now: Moment, key: bytes, life: int, outcomes: int, metadata: str) -> list[Emission] | None:
        if key in self.agent:
            return None
        closes, ends, fee_bps, cap = now.timestamp + life, now.timestamp + 2 * life, 200, 10**14
        weights = [500_003 + 1_000 * outcome for outcome in range(outcomes)]
        kind, bounds = (0, []) if outcomes == 2 else (1, list(range(1, outcomes)))
        early = outcomes == 2
        spec = (kind, FEEDS[0], 5 if early else 0, bounds, early, now.timestamp, closes, 0, ends, weights)
        terms = (fee_bps, cap, not early, 3600, ends - 10 if early else 0, ends + 600, ends + 7800)
        index = len(self.agent) + 1
        self.agent[key] = AgentBook(index, Book.empty(weights, fee_bps), closes)
        opened = (key, index, now.timestamp, closes, fee_bps, cap, weights)
        return [
            emission(Role.WALLET, "MarketOpened", *opened),
            emission(Role.AGENT_RESOLVER, "MarketRegistered", key, FEEDS[0]),
            emission(Role.AGENT_LISTER, "MarketListed", key, FEEDS[0], address_of("lister"), spec, terms, metadata),
        ]

    def _stake(self, now: Moment, key: bytes, wallet: bytes, outcome: int, amount: int, uid: bytes) -> Any:
        if self._refusal(now, key, outcome) is not RefundReason.NONE or not self._spend(wallet, uid):
            return None
        return [self._booked(key, wallet, outcome, amount, uid), *paid(wallet, uid, ADDRESSES[Role.WALLET], amount)]

    def _direct(self, _now: Moment, wallet: bytes, amount: int, uid: bytes) -> list[Emission] | None:
        if not self._spend(wallet, uid):
            return None
        self.authorizations[wallet, uid] = amount
        return paid(wallet, uid, ADDRESSES[Role.WALLET], amount)

    def _credit(
        self, now: Moment, key: bytes, wallet: bytes, outcome: int, amount: int, uid: bytes
    ) -> list[Emission] | None:
        """Book an unbooked payment, as a stake if it can be one and has the bet's amount."""
        brought = self.authorizations.get((wallet, uid))
        if brought is None or key not in self.agent:
            return None
        self.authorizations[wallet, uid] = None
        reason = RefundReason.OTHER_AMOUNT if brought != amount else self._refusal(now, key, outcome)
        if reason is RefundReason.NONE:
            return [self._booked(key, wallet, outcome, amount, uid)]
        stake_id = self._next_stake(key)
        self.stakes[stake_id] = AgentStake(key, wallet, 0, brought, 0, StakeStatus.OWED_BACK)
        bet, idem = hashed(uid, "bet"), hashed(uid, "idem")
        return [emission(Role.WALLET, "RefundBooked", key, stake_id, wallet, brought, reason, uid, bet, idem)]

    def _cancel(self, _now: Moment, wallet: bytes, uid: bytes) -> list[Emission] | None:
        if not self._spend(wallet, uid):
            return None
        return [emission(Role.TOKEN, "AuthorizationCanceled", wallet, uid, address=TOKEN)]

    def _odd_stake(
        self, _now: Moment, key: bytes, wallet: bytes, amount: int, uid: bytes, moves: tuple[tuple[Any, ...], ...]
    ) -> list[Emission]:
        """Stake on the first outcome with a token that reports `moves`."""
        said = [emission(Role.TOKEN, name, *values, address=TOKEN) for name, *values in moves]
        return [self._booked(key, wallet, 0, amount, uid), *said]

    def _several(self, _now: Moment, moves: tuple[tuple[Any, ...], ...]) -> list[Emission] | None:
        spent = [(values[0], values[1]) for name, *values in moves if name.startswith("Authorization")]
        if any(each in self.authorizations for each in spent):
            return None
        for wallet, nonce in spent:
            self._spend(wallet, nonce)
        return [emission(Role.TOKEN, name, *values, address=TOKEN) for name, *values in moves]

    def _refusal(self, now: Moment, key: bytes, outcome: int) -> RefundReason:
        market = self.agent.get(key)
        if market is None or market.status is not AgentMarketStatus.OPEN or now.timestamp >= market.closes_at:
            return RefundReason.CLOSED
        return RefundReason.NONE if outcome < market.book.outcomes else RefundReason.OUTCOME

    def _spend(self, wallet: bytes, nonce: bytes) -> bool:
        if (wallet, nonce) in self.authorizations:
            return False
        self.authorizations[wallet, nonce] = None
        return True

    def _next_stake(self, key: bytes) -> int:
        market = self.agent[key]
        self.agent[key] = replace(market, stakes=market.stakes + 1)
        return market.index << 32 | market.stakes

    def _booked(self, key: bytes, wallet: bytes, outcome: int, amount: int, uid: bytes) -> Emission:
        stake_id = self._next_stake(key)
        market = self.agent[key]
        book, got = market.book.staked(outcome, amount)
        self.agent[key] = replace(market, book=book)
        self.stakes[stake_id] = AgentStake(key, wallet, outcome, amount, got.shares, StakeStatus.IN_BOOK)
        builder, ref = (bytes(20), bytes(32)) if uid[0] < 128 else (address_of("builder"), b"ref".ljust(32, b"\0"))
        hashes = (uid, hashed(uid, "bet"), hashed(uid, "idem"))
        values = (key, stake_id, wallet, outcome, amount, got.fee, got.shares, *hashes, builder, ref)
        return emission(Role.WALLET, "Staked", *values)

    def _close(self, now: Moment, key: bytes, outcome: int) -> list[Emission] | None:
        """Close a market; an outcome past the last means void. The resolver logs first."""
        market = self.agent.get(key)
        if market is None or market.status is not AgentMarketStatus.OPEN or now.timestamp < market.closes_at:
            return None
        nothing = (0, 0, 0)
        if outcome >= market.book.outcomes:
            self.agent[key] = replace(market, status=AgentMarketStatus.VOID)
            reason = VoidReason.TIMEOUT
            return [
                emission(Role.AGENT_RESOLVER, "MarketDecided", key, True, reason, nothing, nothing),
                emission(Role.WALLET, "MarketVoided", key, reason),
            ]
        self.agent[key] = replace(market, status=AgentMarketStatus.RESOLVED, winner=outcome)
        if not market.book.refunds(outcome):
            self.agent_fees += self._staked_on(key) - market.book.net_pool
        end = (1 << 64 | 9, 123, now.timestamp - 3)
        return [
            emission(Role.AGENT_RESOLVER, "MarketDecided", key, False, outcome, end, nothing),
            emission(Role.WALLET, "MarketResolved", key, outcome),
        ]

    def _staked_on(self, key: bytes) -> int:
        return sum(
            stake.amount
            for stake in self.stakes.values()
            if stake.market == key and stake.status is StakeStatus.IN_BOOK
        )

    def _pay(self, _now: Moment, ids: Sequence[int], failing: Sequence[int]) -> list[Emission] | None:
        logs = []
        for stake_id in ids:
            stake = self.stakes.get(stake_id)
            if stake is None:
                continue
            market = self.agent[stake.market]
            owed, refund = 0, False
            if stake.status is StakeStatus.OWED_BACK:
                owed, refund = stake.amount, True
            elif stake.status is StakeStatus.IN_BOOK and market.status is not AgentMarketStatus.OPEN:
                owed = market.book.owed(market.winner, stake.outcome, stake.amount, stake.shares)
                refund = market.book.refunds(market.winner)
            if owed == 0:
                continue
            if stake_id in failing:
                logs.append(emission(Role.WALLET, "PayoutFailed", stake.market, stake_id, stake.wallet, owed))
                continue
            self.stakes[stake_id] = replace(stake, status=StakeStatus.REFUNDED if refund else StakeStatus.PAID)
            logs.append(emission(Role.WALLET, "Paid", stake.market, stake_id, stake.wallet, owed, refund))
        return logs or None

    def _agent_sweep(self, _now: Moment) -> list[Emission] | None:
        if self.agent_fees == 0:
            return None
        amount, self.agent_fees = self.agent_fees, 0
        return [emission(Role.WALLET, "FeesSwept", amount)]

    def _role(self, _now: Moment, role: bytes, account: bytes, allowed: bool) -> list[Emission]:
        return [emission(Role.WALLET, "RoleSet", role, account, allowed)]

    def _set_lister(self, _now: Moment, account: bytes, allowed: bool) -> list[Emission]:
        return [emission(Role.AGENT_LISTER, "ListerSet", account, allowed)]

    def _set_bounds(self, _now: Moment, fee_bps: int) -> list[Emission]:
        return [emission(Role.AGENT_LISTER, "BoundsSet", (fee_bps, 1, 10**9, 3600, 7200))]

    def _set_agent_feed(self, _now: Moment, feed: bytes, allowed: bool, memory: int) -> list[Emission] | None:
        if feed in self.condemned and allowed:
            return None
        return [
            emission(Role.AGENT_LISTER, "FeedSet", feed, allowed, True, memory, 3600, 10, 10**9, memory % 3, 64 * 10**9)
        ]

    def _condemn(self, now: Moment, feed: bytes) -> list[Emission] | None:
        if feed in self.condemned:
            return None
        self.condemned.add(feed)
        setting = emission(Role.AGENT_LISTER, "FeedSet", feed, True, True, 60, 3600, 10, 10**9, 0, 64 * 10**9)
        return [setting, emission(Role.AGENT_LISTER, "FeedCondemned", feed)]

    def _guardian(self, _now: Moment, account: bytes, allowed: bool) -> list[Emission]:
        return [emission(Role.PAUSER, "GuardianSet", account, allowed)]

    def _agent_pause(self, _now: Moment, account: bytes, paused: bool) -> list[Emission]:
        act = emission(Role.PAUSER, "PausedBy" if paused else "ResumedBy", account)
        return [emission(Role.WALLET, "StakesPaused", paused), act]


# ---------------------------------------------------------------- random transactions


class Crowd:
    """A source of random transactions that mostly make sense in the world they are made for."""

    def __init__(self, seed: object) -> None:
        self.rng = random.Random(repr(seed))
        self._uid = 0

    def tx(self, what: str, *args: Any) -> Tx:
        self._uid += 1
        return Tx(self._uid, what, args)

    def next(self, world: World) -> Tx:
        rng = self.rng
        stock, agent = list(world.ledger.markets), list(world.agent)
        if len(stock) < 2 or rng.random() < 0.02:
            return self.tx("create", rng.randint(20, 200), rng.choice((1, 3, 30)), rng.randint(1, 20) * UNIT, 200)
        if len(agent) < 2 or rng.random() < 0.02:
            named = f"m-{self._uid}"
            metadata = rng.choice((f'{{"id":"{named}"}}', "not json", '["list"]', '{"id":7}', "nul\0"))
            key = keccak(text=named) if rng.random() < 0.7 else rng.randbytes(32)
            return self.tx("list", key, rng.randint(20, 200), rng.choice((2, 2, 3, 5)), metadata)
        pick = rng.random()
        owner, market, key = address_of(f"owner {rng.randrange(6)}"), rng.choice(stock[-4:]), rng.choice(agent[-4:])
        amount = rng.choice((UNIT, rng.randint(1, 400) * UNIT, rng.randint(1, 10**9)))
        if pick < 0.40:
            nonce = rng.randbytes(32) if rng.random() < 0.5 else None
            return self.tx("enter", market, owner, rng.randrange(2), amount, nonce)
        if pick < 0.55:
            return self.tx("stake", key, owner, rng.randrange(3), amount + UNIT, rng.randbytes(32))
        if pick < 0.58:
            return self._past_us(world, key, owner, amount + UNIT)
        if pick < 0.62:
            return self.tx("finalize", market)
        if pick < 0.68:
            return self.tx("settle", market, rng.randrange(5))
        if pick < 0.72:
            return self.tx("close", key, rng.randrange(6))
        if pick < 0.82:
            ids = list(world.ledger.positions)
            chosen = rng.sample(ids, min(len(ids), rng.randint(1, 8)))
            return self.tx("deliver", tuple(chosen), tuple(chosen[:1]) if rng.random() < 0.3 else ())
        if pick < 0.89:
            ids = list(world.stakes)
            chosen = rng.sample(ids, min(len(ids), rng.randint(1, 8)))
            return self.tx("pay", tuple(chosen), tuple(chosen[:1]) if rng.random() < 0.3 else ())
        if pick < 0.91:
            return self.tx("transfer", rng.choice(list(world.ledger.positions)), owner)
        if pick < 0.93:
            return self.tx("residue", rng.choice(stock))
        if pick < 0.96:
            return self.tx("round", rng.choice(FEEDS), rng.randint(-5, 10**12))
        return rng.choice(
            (
                self.tx("sweep"),
                self.tx("agent_sweep"),
                self.tx("pause", rng.random() < 0.5),
                self.tx("agent_pause", owner, rng.random() < 0.5),
                self.tx("set_lister", owner, rng.random() < 0.5),
                self.tx("set_bounds", rng.randrange(175, 1_000)),
                self.tx("set_agent_feed", rng.choice(FEEDS), rng.random() < 0.7, rng.randint(10, 90)),
                self.tx("condemn", rng.choice((*FEEDS, rng.randbytes(20)))),
                self.tx("guardian", owner, rng.random() < 0.5),
                self.tx("set_feed", rng.choice(FEEDS), rng.choice(("NVDA", "TSLA")), rng.random() < 0.5),
                self.tx("set_opener", owner, rng.random() < 0.5),
                self.tx("role", bytes(31) + bytes([rng.randrange(3)]), owner, rng.random() < 0.5),
            )
        )

    def _past_us(self, world: World, key: bytes, owner: bytes, amount: int) -> Tx:
        """Return a payment that does not come through `settle`, or the booking of one."""
        rng = self.rng
        unbooked = [
            (payer, nonce, value) for (payer, nonce), value in world.authorizations.items() if value is not None
        ]
        if unbooked and rng.random() < 0.5:
            payer, nonce, value = rng.choice(unbooked)
            bet = value if rng.random() < 0.7 else value + UNIT
            return self.tx("credit", key, payer, rng.randrange(3), bet, nonce)
        nonce, other, ours = rng.randbytes(32), rng.randbytes(32), ADDRESSES[Role.WALLET]
        match rng.randrange(4):
            case 0:
                return self.tx("cancel", owner, nonce)
            case 1:
                transfer = ("Transfer", owner, ours, amount)
                moves = [("AuthorizationUsed", owner, nonce), transfer, ("AuthorizationUsed", owner, other), transfer]
                rng.shuffle(moves)
                return self.tx("several", tuple(moves))
            case _:
                return self.tx("direct", owner, amount, nonce)


def paid(payer: bytes, nonce: bytes, to: bytes, amount: int) -> list[Emission]:
    return [
        emission(Role.TOKEN, "AuthorizationUsed", payer, nonce, address=TOKEN),
        emission(Role.TOKEN, "Transfer", payer, to, amount, address=TOKEN),
    ]


def hashed(uid: bytes, what: str) -> bytes:
    return hashlib.sha256(uid + what.encode()).digest()


__all__ = [
    "ADDRESSES",
    "FEEDS",
    "POOL_FEED",
    "TOKEN",
    "Crowd",
    "Emission",
    "Tx",
    "World",
    "address_of",
    "emission",
    "hashed",
    "paid",
]
