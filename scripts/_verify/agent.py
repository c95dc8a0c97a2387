"""An agent market and its trades from the contracts' logs: its terms worked out again, shares bought again, the result
decided again, and each stake's payment looked up on the token."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from operator import attrgetter
from typing import Any

from msgspec.structs import asdict

from core.agent.bet import market_key
from core.agent.book import (
    Book,
    FeedTerms,
    ListingBounds,
    MarketSpec,
    Reading,
    Unlistable,
    Verdict,
    crosses,
    decide,
    fault,
    listing_terms,
)
from core.agent.document import MarketDocument, Specification, described
from core.agent.words import outcomes_of
from core.chain import checksum
from core.contracts.events import agent as ev
from core.contracts.events.layout import Layout
from core.contracts.events.token import AUTHORIZATION_USED, TOKEN_EVENTS, AuthorizationUsed, Transfer
from core.contracts.names import made_of, under
from core.contracts.statuses import MarketKind, RoundProblem, VoidReason
from core.feeds.grid import PROMPT_SECONDS
from core.feeds.rounds import RoundReading as InEffect
from core.feeds.words import told_by
from core.hexadecimal import bytes_of, hex_of
from scripts._verify.chain import PinnedChain, SeenLog, is_transfer, word
from scripts._verify.claims import Findings, NotCheckable
from scripts._verify.pools import check_reading, crossed, pool_feed_at, reading_at, recorded_at

CENT_DECIMALS = 4
_GIVEN = attrgetter("fee_bps", "pot_cap", "published", "max_age", "early_from", "settles_after", "voids_after")
_RULES = ("earlyResolvable", "published", "maxAge", "startAt", "endsAt", "earlyFrom", "settlesAfter", "voidsAfter")


@dataclass
class AgentMarket:
    """A market as logs tell it, up to the pinned block."""

    key: bytes
    listing: SeenLog
    document: MarketDocument
    book: Book
    stakes: dict[int, SeenLog] = field(default_factory=dict)
    payments: dict[int, SeenLog] = field(default_factory=dict)
    closed: SeenLog | None = None
    decided: SeenLog | None = None
    diverged: str = ""

    @property
    def spec(self) -> ev.MarketSpec:
        spec: ev.MarketSpec = self.listing.event.spec
        return spec

    @property
    def given(self) -> ev.MarketTerms:
        """Return what the Safe's bounds made of it, as the lister's log says."""
        given: ev.MarketTerms = self.listing.event.terms
        return given

    @property
    def kind(self) -> MarketKind:
        return MarketKind(self.spec.kind)

    @property
    def terms(self) -> Specification:
        return specification(self.listing.event)

    @property
    def winner(self) -> int | None:
        return self.closed.event.outcome if self.closed and isinstance(self.closed.event, ev.MarketResolved) else None

    @property
    def sides(self) -> tuple[str, ...]:
        """Return the keys a trade names."""
        return tuple(each.key for each in outcomes_of(self.kind, self.spec.bounds))

    def owed(self, stake: ev.Staked | ev.RefundBooked) -> tuple[int, bool]:
        """Return what a stake is owed now, and whether that is its own money back."""
        if isinstance(stake, ev.RefundBooked):
            return stake.amount, True
        if self.closed is None:
            return 0, False
        back = self.book.refunds(self.winner)
        return self.book.owed(self.winner, stake.outcome, stake.amount, stake.shares), back


async def read_market(chain: PinnedChain, key: bytes) -> AgentMarket:
    """Read a market's logs; NotCheckable when it was never listed."""
    topics = [word(key)]
    lister = chain.contract("AgentLister").address
    listed = await chain.logs(lister, _only(ev.AGENT_LISTER_EVENTS, "MarketListed"), topics)
    if not listed:
        raise NotCheckable(f"Market {hex_of(key)} was never listed in {lister}.")
    spec: ev.MarketSpec = listed[0].event.spec
    feed = told_by(chain.deployment.agent_feeds).get(spec.feed)
    words = described(key, specification(listed[0].event), feed.key if feed else None, feed.computed if feed else None)
    book = Book.empty(spec.weights, listed[0].event.terms.fee_bps)
    market = AgentMarket(key, listed[0], words, book)
    for one in await chain.logs(chain.contract("SettlementWallet").address, ev.WALLET_EVENTS, topics):
        event = one.event
        if isinstance(event, ev.Staked):
            market.stakes[event.stake_id] = one
            market.book, got = market.book.staked(event.outcome, event.amount)
            if (got.fee, got.shares) != (event.fee, event.shares) and not market.diverged:
                market.diverged = f"stake {event.stake_id} got {event.shares} shares, the book gives {got.shares}"
        elif isinstance(event, ev.RefundBooked):
            market.stakes[event.stake_id] = one
        elif isinstance(event, ev.MarketResolved | ev.MarketVoided):
            market.closed = one
        elif isinstance(event, ev.Paid):
            market.payments[event.stake_id] = one
    decisions = _only(ev.AGENT_RESOLVER_EVENTS, "MarketDecided")
    for one in await chain.logs(chain.contract("FeedResolver").address, decisions, topics):
        market.decided = one
    return market


def specification(listed: ev.MarketListed) -> Specification:
    """Return what the words of a market are rendered from."""
    return made_of(Specification, {**asdict(listed.terms), **asdict(listed.spec), "kind": MarketKind(listed.spec.kind)})


def _only(layouts: Mapping[bytes, Layout], *names: str) -> dict[bytes, Layout]:
    return {topic: each for topic, each in layouts.items() if each.name in names}


# ---------------------------------------------------------------- the market


async def check_listing(chain: PinnedChain, market: AgentMarket, said: Findings) -> None:
    """Check by which rules it was listed: the Safe's numbers of that moment, and the times that follow from them."""
    lister, listing, spec = chain.contract("AgentLister").address, market.listing, market.spec
    said.says(
        "the market's id is the one its specification gives",
        market.document.verified,
        f"AgentLister.MarketListed in {listing.tx}, named by core.agent.document",
        "" if market.document.verified else "its feed is not in the deployment file, or its key hashes other words",
    )
    bounds = await _before(chain, listing, _only(ev.AGENT_LISTER_EVENTS, "BoundsSet"), [])
    feed = await _before(chain, listing, _only(ev.AGENT_LISTER_EVENTS, "FeedSet"), [word(spec.feed)])
    allowed = feed is not None and feed.event.allowed
    said.says("the Safe had allowed its feed", allowed, f"AgentLister.FeedSet of {checksum(spec.feed)}")
    if bounds is None or feed is None:
        said.says("the Safe had set bounds", bounds is not None, f"AgentLister.BoundsSet of {lister}")
        return
    now = await chain.time_of(listing.block)
    shown = f"the Safe's BoundsSet and FeedSet before {listing.tx}, by core.agent.book.listing_terms"
    try:
        due = listing_terms(
            made_of(MarketSpec, {**asdict(spec), "kind": market.kind}),
            made_of(FeedTerms, asdict(feed.event)),
            made_of(ListingBounds, asdict(bounds.event)),
            now,
        )
    except Unlistable as error:
        said.says("stakes end before anything that decides it is measured", False, shown, str(error))
        return
    given = market.given
    said.says(
        "stakes end before anything that decides it is measured",
        True,
        shown,
        f"stakes until {spec.closes_at}; what decides is at most {given.max_age} s old at its moment",
    )
    said.same(
        "opening, fee, pot cap, age bound and times of settling are what the Safe's numbers give",
        (spec.opens_at, *_GIVEN(given)),
        (due.opens_at, *_GIVEN(due)),
        shown,
    )
    await _as_kept(chain, market, said)


async def _as_kept(chain: PinnedChain, market: AgentMarket, said: Findings) -> None:
    """Check that settler and resolver keep what the lister's log says."""
    spec, given, key = market.spec, market.given, market.key
    view = await chain.read(chain.contract("SettlementWallet").call("market", key))
    said.same(
        "the settlement wallet keeps these terms",
        (view["opensAt"], view["closesAt"], view["feeBps"], view["potCap"], tuple(view["weights"])),
        (spec.opens_at, spec.closes_at, given.fee_bps, given.pot_cap, spec.weights),
        f"SettlementWallet.market({hex_of(key)}) against AgentLister.MarketListed",
    )
    kept = await chain.read(chain.contract("FeedResolver").call("terms", key))
    terms = market.terms
    said.same(
        "the resolver decides by these terms",
        (kept["kind"], kept["feed"].lower(), kept["target"], tuple(kept["bounds"]), *(kept[each] for each in _RULES)),
        (int(terms.kind), hex_of(spec.feed), terms.target, terms.bounds, *under(terms, *_RULES).values()),
        f"FeedResolver.terms({hex_of(key)}) against AgentLister.MarketListed",
    )


async def _before(
    chain: PinnedChain, moment: SeenLog, layouts: Mapping[bytes, Layout], topics: list[Any]
) -> SeenLog | None:
    """Return the lister's last log of that kind before a moment."""
    logs = await chain.logs(chain.contract("AgentLister").address, layouts, topics)
    earlier = [one for one in logs if (one.block, one.index) < (moment.block, moment.index)]
    return earlier[-1] if earlier else None


async def check_book(chain: PinnedChain, market: AgentMarket, said: Findings) -> None:
    said.says(
        "every stake of the market got the shares the formula gives, in order",
        not market.diverged,
        f"SettlementWallet.Staked logs of {hex_of(market.key)}, priced again",
        market.diverged,
    )
    wallet = chain.contract("SettlementWallet")
    for outcome, side in enumerate(market.sides):
        stated = await chain.read(wallet.call("outcomeBook", market.key, outcome))
        book = market.book
        ours = (
            book.net[outcome],
            book.shares[outcome],
            book.excess[outcome],
            book.weight(outcome),
            book.price(outcome),
        )
        call = f"SettlementWallet.outcomeBook({hex_of(market.key)}, {outcome}) against the fold"
        said.same(f"net, shares, excess, weight and price of {side}", tuple(stated.values()), ours, call)


async def check_result(chain: PinnedChain, market: AgentMarket, said: Findings) -> None:
    """Check the readings in effect, what they decide, and that the contracts closed the market so."""
    if market.closed is None:
        return
    if market.decided is None:
        said.says("the resolver decided it", False, f"FeedResolver.MarketDecided of {hex_of(market.key)}")
        return
    decided: ev.MarketDecided = market.decided.event
    closing = market.closed.event
    is_void = isinstance(closing, ev.MarketVoided)
    code = closing.reason if isinstance(closing, ev.MarketVoided) else closing.outcome
    said.same(
        "the settlement wallet closed it as the resolver decided",
        (is_void, code),
        (decided.is_void, decided.code),
        f"FeedResolver.MarketDecided in {market.decided.tx}",
    )
    closed_at = await chain.time_of(market.closed.block)
    if decided.is_void and decided.code == VoidReason.TIMEOUT:
        due = market.terms.voids_after
        said.says("void by timeout only after the void delay", closed_at > due, f"voidsAfter = {due}")
    elif decided.is_void and decided.code == VoidReason.CONDEMNED:
        feed = word(market.spec.feed)
        logs = await _before(chain, market.decided, _only(ev.AGENT_LISTER_EVENTS, "FeedCondemned"), [feed])
        said.says(
            "void because the Safe condemned its feed, which has a publisher",
            logs is not None and market.terms.published,
            f"AgentLister.FeedCondemned of {checksum(market.spec.feed)}",
        )
    elif not await _early(chain, market, decided, closed_at, said):
        await _at_its_end(chain, market, decided, closed_at, said)


async def _early(
    chain: PinnedChain, market: AgentMarket, decided: ev.MarketDecided, closed_at: int, said: Findings
) -> bool:
    """Check the reading that settled it at once, if one did; return whether one did."""
    terms, feed, end = market.terms, checksum(market.spec.feed), decided.end
    pools = await pool_feed_at(chain, feed)
    if pools is None or decided.is_void or not crosses(terms, Reading(end.answer, end.updated_at), closed_at):
        return False
    stands, recorded = await chain.round(feed, end.round_id), await recorded_at(chain, pools, end.round_id)
    prompt = recorded is not None and recorded <= end.updated_at + PROMPT_SECONDS
    if not prompt and closed_at > terms.settles_after:
        return False  # it may have decided as the reading at the end
    said.says(
        "a reading of the market's interval reached the target, and was recorded within an hour",
        stands is not None and (stands.answer, stands.updated_at) == (end.answer, end.updated_at) and prompt,
        f"getRoundData({end.round_id}) of {feed}, and its AnswerUpdated",
        f"{end.answer} at {end.updated_at}, recorded at {recorded}, target {terms.target}, from {terms.early_from} to "
        f"{terms.ends_at}",
    )
    await check_reading(chain, pools, end.updated_at, "crossing", said)
    return True


async def _at_its_end(
    chain: PinnedChain, market: AgentMarket, decided: ev.MarketDecided, closed_at: int, said: Findings
) -> None:
    terms, feed = market.terms, checksum(market.spec.feed)
    said.says(
        "it was settled only once the reading at its end could not change any more",
        closed_at > terms.settles_after,
        f"settlesAfter = {terms.settles_after}, closed at {closed_at}",
    )
    pools = await pool_feed_at(chain, feed)
    if pools is not None and terms.early_resolvable:
        said.says(
            "no reading of the market's interval reached the target and was recorded within an hour",
            not await crossed(chain, pools, terms.target, terms.early_from, terms.ends_at),
            f"crossing({terms.target}, {terms.early_from}, {terms.ends_at}) of {feed}",
        )

    async def in_effect(moment: int) -> InEffect:
        if pools is None:
            return await chain.in_effect(feed, moment)
        return await reading_at(chain, pools, moment, terms.max_age)

    end = await in_effect(terms.ends_at)
    start = await in_effect(terms.start_at) if market.kind is MarketKind.DIRECTION else None
    for one, when in ((end, "end"), (start, "start")):
        if one is not None and one.problem not in (RoundProblem.OK, RoundProblem.NO_ROUND):
            said.unknown(f"the reading at the {when}", f"latestRoundData of {feed}", one.problem.name)
            return
    verdict = decide(terms, _reading(end), None if start is None else _reading(start))
    result = Verdict(None, VoidReason(decided.code)) if decided.is_void else Verdict(decided.code)
    faults = {fault(terms, _reading(end), terms.ends_at)}
    faults |= set() if start is None else {fault(terms, _reading(start), terms.start_at)}
    if result.void is not None and result.void in faults:
        verdict = result  # either of two faulty readings is proof enough
    said.same(
        "outcome",
        _named(market, result),
        _named(market, verdict),
        f"the round in effect at {terms.ends_at} of {feed}"
        + (f" is {end.round.id}: {end.round.answer} at {end.round.updated_at}" if end.round else " is none"),
    )
    for used, one, when in ((decided.end, end, "end"), (decided.start, start, "start")):
        if one is None or one.round is None or not used.round_id:
            continue
        stated = (used.round_id, used.answer, used.updated_at)
        standing = (one.round.id, one.round.answer, one.round.updated_at)
        said.same(f"round, value and time of the reading at the {when}", stated, standing, f"getRoundData of {feed}")
        if pools is not None:
            await check_reading(chain, pools, one.round.updated_at, when, said)


def _reading(one: InEffect) -> Reading | None:
    return None if one.round is None else Reading(one.round.answer, one.round.updated_at)


def _named(market: AgentMarket, verdict: Verdict) -> str:
    if verdict.winner is not None:
        return market.sides[verdict.winner]
    return f"void ({verdict.void.name})" if verdict.void is not None else "void"


def check_words(market: AgentMarket, stated: dict[str, Any], said: Findings) -> None:
    """Check that what a document calls the market is what its specification says, word for word."""
    source = f"AgentLister.MarketListed in {market.listing.tx}, in the words of core.agent.document"
    words = {name: (text, source) for name, text in market.document.texts.items() if name != "rules"}
    said.fields("the market's", stated, words)
    rules = stated.get("rules")
    if rules is not None:
        whole = " ".join(map(str, rules)) if isinstance(rules, list) else rules
        said.same("the market's rules", whole, market.document.texts["rules"], source)
    outcomes = stated.get("outcomes")
    if isinstance(outcomes, list):
        labels = {each.key: each.label for each in market.document.outcomes}
        given = {str(each.get("key")): each.get("label", labels.get(str(each.get("key")))) for each in outcomes}
        said.same("the market's sides and their labels", given, labels, source)
    times = {
        "deadlineAt": market.spec.closes_at,
        "endsAt": market.spec.ends_at,
        "settlesAfter": market.terms.settles_after,
        "startAt": market.spec.start_at or None,
    }
    for name, at in times.items():
        if stated.get(name) is not None:
            said.same(f"the market's {name}", seconds(stated[name]), at, source)


# ---------------------------------------------------------------- one stake


_STAKES = _only(ev.WALLET_EVENTS, "Staked", "RefundBooked")


async def find_stake(chain: PinnedChain, trade_id: str, tx: Any = None) -> SeenLog:
    """Return the log of a trade by its bet's hash; with its transaction it is one request."""
    wallet = chain.contract("SettlementWallet").address
    sought = bytes_of(trade_id)
    logs = await chain.logs_in(tx, wallet, _STAKES)
    if not any(one.event.bet_hash == sought for one in logs):
        logs = await chain.logs(wallet, _STAKES)
    for one in logs:
        if one.event.bet_hash == sought:
            return one
    raise NotCheckable(f"No stake of {wallet} carries the bet's hash {trade_id} at block {chain.head.number}.")


async def check_stake(chain: PinnedChain, market: AgentMarket, stake: SeenLog, said: Findings) -> None:
    """Check the transfer that paid for it, that it paid for nothing else, and what went out again."""
    event, wallet = stake.event, chain.contract("SettlementWallet")
    owner = checksum(event.wallet)
    view = await chain.read(wallet.call("stake", event.stake_id))
    call = f"SettlementWallet.stake({event.stake_id})"
    ours = (owner.lower(), event.amount, hex_of(event.market_id))
    stated = (view["wallet"].lower(), view["amount"], hex_of(bytes(view["marketId"])))
    said.same("wallet, amount and market of the stake", stated, ours, call)
    await _check_payment(chain, stake, said)
    owed, back = market.owed(event)
    paid = market.payments.get(event.stake_id)
    if paid is not None:
        right = (paid.event.amount, paid.event.refund) == (owed, back) and checksum(paid.event.wallet) == owner
        said.says("it was paid what it is owed", right, f"SettlementWallet.Paid in {paid.tx}", f"{owed} units")
        moved = await chain.moved(paid.tx, wallet.address, owner, owed)
        said.says("the payment reached the wallet", moved, f"Transfer of {chain.token.address} in {paid.tx}")
    elif owed:
        said.integer("owed and not sent yet", view["payable_"], owed, f"{call}.payable_")


async def _check_payment(chain: PinnedChain, stake: SeenLog, said: Findings) -> None:
    """The token says AuthorizationUsed(payer, nonce) and in the very next log Transfer(payer, us, amount); no other
    stake or refund was booked for the same pair."""
    event, token = stake.event, chain.token.address
    wallet, owner = chain.contract("SettlementWallet").address, checksum(event.wallet)
    nonce = hex_of(event.nonce)
    pair = await _pair(chain, stake)
    shown = f"AuthorizationUsed({owner}, {nonce}) of {token} and the log after it"
    if pair is None:
        said.says("the very transfer that paid for it", False, shown, "there is no such pair before the stake")
    else:
        used, moved = pair
        # In one transaction the contract books first and pulls then; a payment that came by itself is earlier.
        in_time = moved.tx == stake.tx or (moved.block, moved.index) < (stake.block, stake.index)
        right = in_time and is_transfer(moved.event, owner, wallet, event.amount)
        detail = f"{moved.event.value} units in {used.tx}, logs {used.index} and {moved.index}"
        said.says("the very transfer that paid for it", right, shown, detail)
    booked = await chain.logs(wallet, _STAKES, [None, None, word(event.wallet)])
    times = sum(one.event.nonce == event.nonce for one in booked)
    said.integer(
        "stakes and refunds booked for that transfer", times, 1, f"logs of {wallet} for {owner}, nonce {nonce}"
    )


async def _pair(chain: PinnedChain, stake: SeenLog) -> tuple[SeenLog, SeenLog] | None:
    """An authorization's use and the transfer in the next log of the same transaction: in the stake's own transaction,
    or, for a payment that came by itself, in an earlier one."""
    event, token = stake.event, chain.token.address
    own = await _pair_in(chain, stake.tx, event)
    if own is not None:
        return own
    topics = [word(event.wallet), word(event.nonce)]
    for used in await chain.logs(token, {AUTHORIZATION_USED.topic: AUTHORIZATION_USED}, topics):
        earlier = await _pair_in(chain, used.tx, event)
        if earlier is not None:
            return earlier
    return None


async def _pair_in(chain: PinnedChain, tx: str, event: ev.Staked | ev.RefundBooked) -> tuple[SeenLog, SeenLog] | None:
    logs = await chain.logs_in(tx, chain.token.address, TOKEN_EVENTS)
    at = {one.index: one for one in logs}
    for one in logs:
        following = at.get(one.index + 1)
        if (
            isinstance(one.event, AuthorizationUsed)
            and (one.event.authorizer, one.event.nonce) == (event.wallet, event.nonce)
            and following is not None
            and isinstance(following.event, Transfer)
        ):
            return one, following
    return None


def status_of(market: AgentMarket, event: ev.Staked) -> str:
    if market.closed is None:
        return "open"
    if market.book.refunds(market.winner):
        return "resolved-refunded"
    return "resolved-won" if event.outcome == market.winner else "resolved-lost"


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
