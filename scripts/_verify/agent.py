"""Checks an agent market and its trades against the contracts' logs. It recomputes the market's terms, shares and
result, and finds each stake's payment in the token's logs."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from itertools import pairwise
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
    decide,
    is_crossing,
    listing_terms,
    reading_problem,
)
from core.agent.document import MarketDocument, Specification, listed_document
from core.agent.words import outcomes_of
from core.chain import checksum
from core.contracts.events import agent as ev
from core.contracts.events.shared import AuthorizationUsed, Transfer
from core.contracts.names import camel_fields, from_answer
from core.contracts.statuses import MarketKind, RoundProblem, VoidReason
from core.feeds.grid import PROMPT_SECONDS
from core.feeds.rounds import NotRecorded, RoundReading
from core.feeds.words import feed_words
from core.hexadecimal import bytes_of, hex_of
from scripts._verify.chain import DecodedLog, PinnedChain, is_transfer, word
from scripts._verify.claims import Findings, NotCheckable
from scripts._verify.pools import PoolFeedFacts, check_reading, pool_feed_at, recorded_at

CENT_DECIMALS = 4
_LISTER_TERMS = attrgetter("fee_bps", "pot_cap", "published", "max_age", "early_from", "settles_after", "voids_after")
_RULES = ("earlyResolvable", "published", "maxAge", "startAt", "endsAt", "earlyFrom", "settlesAfter", "voidsAfter")


@dataclass
class AgentMarket:
    key: bytes
    listing: DecodedLog
    spec: ev.MarketSpec
    lister_terms: ev.MarketTerms  # derived from the Safe's bounds, from the lister's log
    terms: Specification
    document: MarketDocument
    book: Book
    stakes: dict[int, DecodedLog] = field(default_factory=dict)
    payments: dict[int, DecodedLog] = field(default_factory=dict)
    closed: DecodedLog | None = None
    decided: DecodedLog | None = None
    diverged: str = ""

    @property
    def winner(self) -> int | None:
        return self.closed.event.outcome if self.closed and isinstance(self.closed.event, ev.MarketResolved) else None

    @property
    def sides(self) -> tuple[str, ...]:
        return tuple(each.key for each in outcomes_of(self.terms.kind, self.spec.bounds))

    def owed(self, stake: ev.Staked | ev.RefundBooked) -> tuple[int, bool]:
        """Return the amount that is currently owed to a stake, and whether the amount is a refund."""
        if isinstance(stake, ev.RefundBooked):
            return stake.amount, True
        if self.closed is None:
            return 0, False
        back = self.book.refunds(self.winner)
        return self.book.owed(self.winner, stake.outcome, stake.amount, stake.shares), back


async def read_market(chain: PinnedChain, key: bytes) -> AgentMarket:
    """Read a market's logs. Raise NotCheckable if the market was never listed."""
    topics = [word(key)]
    listing = next(iter(await chain.logs("AgentLister", topics, "MarketListed")), None)
    if listing is None:
        raise NotCheckable(f"Market {hex_of(key)} was never listed in {chain.contract('AgentLister').address}.")
    listed: ev.MarketListed = listing.event
    terms, book = specification(listed), Book.empty(listed.spec.weights, listed.terms.fee_bps)
    feed = feed_words(chain.deployment.agent_feeds).get(listed.spec.feed)
    words = listed_document(key, terms, feed.key if feed else None, feed.computed if feed else None)
    market = AgentMarket(key, listing, listed.spec, listed.terms, terms, words, book)
    for one in await chain.logs("SettlementWallet", topics):
        event = one.event
        if isinstance(event, ev.Staked):
            market.stakes[event.stake_id] = one
            market.book, got = market.book.staked(event.outcome, event.amount)
            if (got.fee, got.shares) != (event.fee, event.shares) and not market.diverged:
                market.diverged = f"stake {event.stake_id} got {event.shares} shares, but the book gives {got.shares}"
        elif isinstance(event, ev.RefundBooked):
            market.stakes[event.stake_id] = one
        elif isinstance(event, ev.MarketResolved | ev.MarketVoided):
            market.closed = one
        elif isinstance(event, ev.Paid):
            market.payments[event.stake_id] = one
    for one in await chain.logs("FeedResolver", topics, "MarketDecided"):
        market.decided = one
    return market


def specification(listed: ev.MarketListed) -> Specification:
    return from_answer(
        Specification, {**asdict(listed.terms), **asdict(listed.spec), "kind": MarketKind(listed.spec.kind)}
    )


# ---------------------------------------------------------------- the market


async def check_listing(chain: PinnedChain, market: AgentMarket, findings: Findings) -> None:
    """Check the listing against the Safe's bounds at the time, and the market's times against the listing."""
    listing, spec, given = market.listing, market.spec, market.lister_terms
    lister = chain.contract("AgentLister").address
    findings.check(
        "the market's id follows from its specification",
        market.document.verified,
        f"AgentLister.MarketListed in {listing.tx}, rendered by core.agent.document",
        ""
        if market.document.verified
        else "its feed is not in the deployment file, or its key is the hash of another specification",
    )
    bounds = await _before(chain, listing, [], "BoundsSet")
    feed = await _before(chain, listing, [word(spec.feed)], "FeedSet")
    allowed = feed is not None and feed.event.allowed
    findings.check("the Safe had allowed its feed", allowed, f"AgentLister.FeedSet of {checksum(spec.feed)}")
    if bounds is None or feed is None:
        findings.check("the Safe had set bounds", bounds is not None, f"AgentLister.BoundsSet of {lister}")
        return
    listed = findings.about(
        "", f"the Safe's BoundsSet and FeedSet before {listing.tx}, applied by core.agent.book.listing_terms"
    )
    ends_first = "staking ends before anything that decides the market is measured"
    try:
        due = listing_terms(
            from_answer(MarketSpec, {**asdict(spec), "kind": market.terms.kind}),
            from_answer(FeedTerms, asdict(feed.event)),
            from_answer(ListingBounds, asdict(bounds.event)),
            await chain.time_of(listing.block),
        )
    except Unlistable as error:
        listed.check(ends_first, False, detail=str(error))
        return
    measured = f"staking ends at {spec.closes_at}; a deciding reading may be {given.max_age} s old at most"
    listed.check(ends_first, True, detail=measured)
    what = "opening, fee, pot cap, maximum age and settlement times follow from the Safe's numbers"
    listed.same(what, (spec.opens_at, *_LISTER_TERMS(given)), (due.opens_at, *_LISTER_TERMS(due)))
    await _check_stored_terms(chain, market, findings)


async def _check_stored_terms(chain: PinnedChain, market: AgentMarket, findings: Findings) -> None:
    spec, given, terms = market.spec, market.lister_terms, market.terms
    view, call = await chain.view("SettlementWallet", "market", market.key)
    findings.same(
        "the settlement wallet stores these terms",
        (view["opensAt"], view["closesAt"], view["feeBps"], view["potCap"], tuple(view["weights"])),
        (spec.opens_at, spec.closes_at, given.fee_bps, given.pot_cap, spec.weights),
        f"{call} against AgentLister.MarketListed",
    )
    kept, call = await chain.view("FeedResolver", "terms", market.key)
    findings.same(
        "the resolver decides by these terms",
        (kept["kind"], kept["feed"].lower(), kept["target"], tuple(kept["bounds"]), *(kept[each] for each in _RULES)),
        (int(terms.kind), hex_of(spec.feed), terms.target, terms.bounds, *camel_fields(terms, *_RULES).values()),
        f"{call} against AgentLister.MarketListed",
    )


async def _before(chain: PinnedChain, moment: DecodedLog, topics: list[str], event: str) -> DecodedLog | None:
    logs = await chain.logs("AgentLister", topics, event)
    return next((one for one in reversed(logs) if one.place < moment.place), None)


async def check_book(chain: PinnedChain, market: AgentMarket, findings: Findings) -> None:
    what = "every stake got the shares that the formula gives, in order"
    shown = f"SettlementWallet.Staked logs of {hex_of(market.key)}, priced again"
    findings.check(what, not market.diverged, shown, market.diverged)
    book = market.book
    for at, side in enumerate(market.sides):
        stated, call = await chain.view("SettlementWallet", "outcomeBook", market.key, at)
        ours = (book.net[at], book.shares[at], book.excess[at], book.weight(at), book.price(at))
        what = f"net, shares, excess, weight and price of {side}"
        findings.same(what, tuple(stated.values()), ours, f"{call} against the fold")


async def check_result(chain: PinnedChain, market: AgentMarket, findings: Findings) -> None:
    """Check the readings in effect and the outcome they imply, and check that the contracts closed the market with this
    outcome."""
    if market.closed is None:
        return
    if market.decided is None:
        findings.check("the resolver decided the market", False, f"FeedResolver.MarketDecided of {hex_of(market.key)}")
        return
    decided: ev.MarketDecided = market.decided.event
    closing = market.closed.event
    is_void = isinstance(closing, ev.MarketVoided)
    code = closing.reason if isinstance(closing, ev.MarketVoided) else closing.outcome
    shown = f"FeedResolver.MarketDecided in {market.decided.tx}"
    what = "the settlement wallet closed the market as the resolver decided"
    findings.same(what, (is_void, code), (decided.is_void, decided.code), shown)
    closed_at = await chain.time_of(market.closed.block)
    if decided.is_void and decided.code == VoidReason.TIMEOUT:
        due = market.terms.voids_after
        findings.check("a timeout voided the market only after the void delay", closed_at > due, f"voidsAfter = {due}")
    elif decided.is_void and decided.code == VoidReason.CONDEMNED:
        condemned = await _before(chain, market.decided, [word(market.spec.feed)], "FeedCondemned")
        right = condemned is not None and market.terms.published
        what = "the market is void because the Safe condemned its feed, which has a publisher"
        findings.check(what, right, f"AgentLister.FeedCondemned of {checksum(market.spec.feed)}")
    elif not await _check_early_reading(chain, market, decided, closed_at, findings):
        await _check_final_reading(chain, market, decided, closed_at, findings)


async def _check_early_reading(
    chain: PinnedChain, market: AgentMarket, decided: ev.MarketDecided, closed_at: int, findings: Findings
) -> bool:
    """Check the reading that settled the market early. Return False if there was no such reading."""
    terms, feed, end = market.terms, checksum(market.spec.feed), decided.end
    pools = await pool_feed_at(chain, feed)
    if pools is None or decided.is_void or not is_crossing(terms, Reading(end.answer, end.updated_at), closed_at):
        return False
    reading = await chain.feed(feed).round(end.round_id)
    recorded = await recorded_at(chain, pools, end.round_id)
    prompt = recorded is not None and recorded <= end.updated_at + PROMPT_SECONDS
    if not prompt and closed_at > terms.settles_after:
        return False  # it may have decided as the reading at the end
    findings.check(
        "a reading of the market's interval reached the target, and was recorded within an hour",
        reading is not None and (reading.answer, reading.updated_at) == (end.answer, end.updated_at) and prompt,
        f"getRoundData({end.round_id}) of {feed}, and its AnswerUpdated",
        f"{end.answer} at {end.updated_at}, recorded at {recorded}, target {terms.target}, from {terms.early_from} to "
        f"{terms.ends_at}",
    )
    await check_reading(chain, pools, end.updated_at, "crossing", findings)
    return True


async def _check_final_reading(
    chain: PinnedChain, market: AgentMarket, decided: ev.MarketDecided, closed_at: int, findings: Findings
) -> None:
    terms, feed = market.terms, checksum(market.spec.feed)
    findings.check(
        "the market was settled only after the reading at its end could no longer change",
        closed_at > terms.settles_after,
        f"settlesAfter = {terms.settles_after}, closed at {closed_at}",
    )
    pools = await pool_feed_at(chain, feed)
    if pools is not None and terms.early_resolvable:
        interval = (terms.target, terms.early_from, terms.ends_at)
        crossing = await chain.read(chain.feed(feed).contract.call("crossing", *interval))
        what = "no reading of the market's interval reached the target and was recorded within an hour"
        findings.check(what, not crossing[0], f"crossing{interval} of {feed}")
    end = await _in_effect(chain, market, pools, terms.ends_at)
    is_direction = market.terms.kind is MarketKind.DIRECTION
    start = await _in_effect(chain, market, pools, terms.start_at) if is_direction else None
    used = ((decided.end, end, "end"), (decided.start, start, "start"))
    for _, one, when in used:
        if one is not None and one.problem not in (RoundProblem.OK, RoundProblem.NO_ROUND):
            findings.unknown(f"the reading at the {when}", one.problem.name, f"latestRoundData of {feed}")
            return
    verdict = decide(terms, end.value, None if start is None else start.value)
    result = Verdict(None, VoidReason(decided.code)) if decided.is_void else Verdict(decided.code)
    faults = {reading_problem(terms, end.value, terms.ends_at)}
    faults |= set() if start is None else {reading_problem(terms, start.value, terms.start_at)}
    if result.void is not None and result.void in faults:
        verdict = result  # either of two faulty readings justifies a void
    found = f"is {end.round.id}: {end.round.answer} at {end.round.updated_at}" if end.round else "is none"
    shown = f"the round in effect at {terms.ends_at} of {feed} {found}"
    findings.same("outcome", _outcome_name(market, result), _outcome_name(market, verdict), shown)
    for by, one, when in used:
        if one is None or one.round is None or not by.round_id:
            continue
        stated = (by.round_id, by.answer, by.updated_at)
        actual = (one.round.id, one.round.answer, one.round.updated_at)
        findings.same(f"round, value and time of the reading at the {when}", stated, actual, f"getRoundData of {feed}")
        if pools is not None:
            await check_reading(chain, pools, one.round.updated_at, when, findings)


async def _in_effect(chain: PinnedChain, market: AgentMarket, pools: PoolFeedFacts | None, moment: int) -> RoundReading:
    """Return the reading in effect at a moment. A pool feed still returns the same reading as when the market was
    decided."""
    feed = chain.feed(checksum(market.spec.feed))
    try:
        return await feed.deciding_reading(moment, market.terms.max_age, of_pools=pools is not None)
    except NotRecorded:  # then nothing can have been decided by it: only a feed that lies says so
        return RoundReading(None, RoundProblem.LATEST_UNREADABLE)


def _outcome_name(market: AgentMarket, verdict: Verdict) -> str:
    if verdict.winner is not None:
        return market.sides[verdict.winner]
    return f"void ({verdict.void.name})" if verdict.void is not None else "void"


def check_words(market: AgentMarket, stated: dict[str, Any], findings: Findings) -> None:
    """Check that each text about the market in the document equals, word for word, the text rendered from the market's
    specification."""
    source = f"AgentLister.MarketListed in {market.listing.tx}, in the words of core.agent.document"
    findings, texts = findings.about("the market's", source), market.document.texts
    findings.fields(stated, {name: text for name, text in texts.items() if name != "rules"})
    rules = stated.get("rules")
    if rules is not None:
        findings.same("rules", "\n\n".join(map(str, rules)) if isinstance(rules, list) else rules, texts["rules"])
    outcomes = stated.get("outcomes")
    if isinstance(outcomes, list):
        labels = {each.key: each.label for each in market.document.outcomes}
        given = {str(each.get("key")): each.get("label", labels.get(str(each.get("key")))) for each in outcomes}
        findings.same("sides and their labels", given, labels)
    times = {
        "deadlineAt": market.spec.closes_at,
        "endsAt": market.spec.ends_at,
        "settlesAfter": market.terms.settles_after,
        "startAt": market.spec.start_at or None,
    }
    findings.fields({name: unix_seconds(stated[name]) for name in times if stated.get(name) is not None}, times)


# ---------------------------------------------------------------- one stake


STAKES = ("Staked", "RefundBooked")


async def find_stake(chain: PinnedChain, trade_id: str, tx: Any = None) -> DecodedLog:
    """Return the log of the trade with this id, which is the hash of the trade's bet. Passing `tx` saves requests."""
    sought = bytes_of(trade_id)
    logs = await chain.logs_in(tx, "SettlementWallet", *STAKES)
    if not any(one.event.bet_hash == sought for one in logs):
        logs = await chain.logs("SettlementWallet", (), *STAKES)
    for one in logs:
        if one.event.bet_hash == sought:
            return one
    wallet = chain.contract("SettlementWallet").address
    raise NotCheckable(f"No stake by {wallet} has the bet hash {trade_id} at block {chain.head.number}.")


async def check_stake(chain: PinnedChain, market: AgentMarket, stake: DecodedLog, findings: Findings) -> None:
    """Check that one transfer paid for a stake and for nothing else, and check the stake's payout."""
    event, owner = stake.event, checksum(stake.event.wallet)
    view, call = await chain.view("SettlementWallet", "stake", event.stake_id)
    ours = (owner.lower(), event.amount, hex_of(event.market_id))
    stated = (view["wallet"].lower(), view["amount"], hex_of(bytes(view["marketId"])))
    findings.same("wallet, amount and market of the stake", stated, ours, call)
    await _check_payment(chain, stake, findings)
    owed, back = market.owed(event)
    paid = market.payments.get(event.stake_id)
    if paid is not None:
        right = (paid.event.amount, paid.event.refund) == (owed, back) and checksum(paid.event.wallet) == owner
        findings.check(
            "the stake was paid the amount due", right, f"SettlementWallet.Paid in {paid.tx}", f"{owed} units"
        )
        moved = await chain.transferred(paid.tx, chain.contract("SettlementWallet").address, owner, owed)
        findings.check("the payment reached the wallet", moved, f"Transfer of {chain.token.address} in {paid.tx}")
    elif owed:
        findings.integer("amount owed and not yet sent", view["payable_"], owed, f"{call}.payable_")


async def _check_payment(chain: PinnedChain, stake: DecodedLog, findings: Findings) -> None:
    """Check that the token logged an AuthorizationUsed and, right after it, a Transfer. Check also that these two logs
    paid for nothing else."""
    event, wallet, owner = stake.event, chain.contract("SettlementWallet").address, checksum(stake.event.wallet)
    nonce = hex_of(event.nonce)
    right, detail = False, "no such pair of logs precedes the stake"
    if (pair := await _find_payment(chain, stake)) is not None:
        used, moved = pair
        # In one transaction the contract books the stake before it pulls; a separate payment is earlier.
        in_time = moved.tx == stake.tx or moved.place < stake.place
        right = in_time and is_transfer(moved.event, owner, wallet, event.amount)
        detail = f"{moved.event.value} units in {used.tx}, logs {used.index} and {moved.index}"
    shown = f"AuthorizationUsed({owner}, {nonce}) of {chain.token.address} and the log after it"
    findings.check("a transfer paid for the stake", right, shown, detail)
    booked = await chain.logs("SettlementWallet", [None, None, word(event.wallet)], *STAKES)
    times = sum(one.event.nonce == event.nonce for one in booked)
    shown = f"logs of {wallet} for {owner}, nonce {nonce}"
    findings.integer("stakes and refunds booked for that transfer", times, 1, shown)


async def _find_payment(chain: PinnedChain, stake: DecodedLog) -> tuple[DecodedLog, DecodedLog] | None:
    """Return the payment's AuthorizationUsed log and the Transfer log right after it. They are in the stake's
    transaction or an earlier one."""
    event = stake.event
    own = await _find_payment_in(chain, stake.tx, event)
    if own is not None:
        return own
    for used in await chain.logs("token", [word(event.wallet), word(event.nonce)], "AuthorizationUsed"):
        earlier = await _find_payment_in(chain, used.tx, event)
        if earlier is not None:
            return earlier
    return None


async def _find_payment_in(
    chain: PinnedChain, tx: str, event: ev.Staked | ev.RefundBooked
) -> tuple[DecodedLog, DecodedLog] | None:
    for one, following in pairwise(await chain.logs_in(tx, "token")):
        if (
            isinstance(one.event, AuthorizationUsed)
            and (one.event.authorizer, one.event.nonce) == (event.wallet, event.nonce)
            and following.index == one.index + 1
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


def unix_seconds(text: Any) -> int | None:
    try:
        return int(datetime.fromisoformat(text).timestamp())
    except (TypeError, ValueError):
        return None


def average_cents(event: ev.Staked) -> int:
    """Return a stake's average price in 1e-4 cents, rounded down as in the receipt."""
    net = event.amount - event.fee
    return 100 * net * 10**CENT_DECIMALS // event.shares if event.shares else 0


def key_of(market_id: Any) -> bytes:
    if not isinstance(market_id, str) or not market_id:
        raise NotCheckable("The document names no market id.")
    return market_key(market_id)
