"""The lister's rules about times in the mirror against the lister itself: the same terms, or a refusal of both."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any

from core.agent.book import MARGIN, FeedTerms, ListingBounds, MarketSpec, Unlistable, listing_terms
from core.chain import Call, ChainClient, ChainProvider, ContractReverted
from core.contracts.statuses import MarketKind
from tests.support.agent_chain import AgentChain
from tests.support.genesis import RunningChain

SPECIFICATIONS = 500
REFUSALS = {
    "ClosesInThePast",
    "ClosesBeforeItOpens",
    "ClosesTooLate",
    "OpenForTooLong",
    "RoundTooShort",
    "NotEarlyOnThisFeed",
    "OutOfBounds",
}


def specification(random: Random, now: int, memory: int) -> MarketSpec:
    """Mostly fair or a second from it, sometimes wrong in one number."""
    kind = random.choice(tuple(MarketKind))
    opens = now + random.choice((-100, 0, 50))
    stakes = random.choice((0, 1, 60, 600))
    closes = max(opens, now) + stakes
    gap = MARGIN + memory + random.choice((-1, 0, 1, 30))
    length = 2 * memory + random.choice((-1, 0, 1, 600))
    start = closes + gap
    ends = (
        start + length
        if kind is MarketKind.DIRECTION
        else closes + random.choice((gap, stakes + memory - 1, stakes + 900))
    )
    outcomes = random.choice((2, 2, 3, 8)) if kind is MarketKind.RANGE else 2
    made = {
        "kind": kind,
        "opens_at": opens,
        "closes_at": closes,
        "ends_at": ends,
        "weights": (10**7,) * outcomes,
        "start_at": start if kind is MarketKind.DIRECTION else 0,
        "target": 100 if kind is MarketKind.THRESHOLD else 0,
        "bounds": tuple(range(10, 10 + outcomes - 1)) if kind is MarketKind.RANGE else (),
        "early_resolvable": False,
    }
    wrong: dict[str, Any] = random.choice(
        (
            {"early_resolvable": kind is MarketKind.THRESHOLD},
            {"start_at": start + random.choice((-1, 1)) if kind is MarketKind.DIRECTION else 0},
            {"ends_at": random.choice((1, 2**32))},
            {"closes_at": random.choice((0, opens))},
        )
    )
    return MarketSpec(**(made if random.random() < 0.6 else {**made, **wrong}))


def by_the_mirror(spec: MarketSpec, feed: FeedTerms, bounds: ListingBounds, now: int) -> dict[str, object] | None:
    try:
        terms = listing_terms(spec, feed, bounds, now)
    except Unlistable:
        return None
    return {
        "feeBps": terms.fee_bps,
        "potCap": terms.pot_cap,
        "published": terms.published,
        "maxAge": terms.max_age,
        "earlyFrom": terms.early_from,
        "settlesAfter": terms.settles_after,
        "voidsAfter": terms.voids_after,
    }


async def by_the_lister(client: ChainClient, call: Call, block: int) -> dict[str, object] | str:
    try:
        return dict(await client.read(call, block))
    except ContractReverted as reverted:
        return str(reverted.name)


async def test_the_mirror_lists_what_the_lister_lists(base_chain: RunningChain) -> None:
    played = AgentChain.on(base_chain.url, base_chain.deployment)
    source, lister = played.source(), played.contracts.lister
    random, seen = Random(3), Counter[str]()
    async with ChainProvider((base_chain.url,), chain_id=base_chain.deployment.chain_id) as rpc:
        client = ChainClient(rpc)
        set_ = await client.read(lister.call("bounds"))
        bounds = ListingBounds(
            set_["feeBps"], set_["minWeight"], set_["maxWeight"], set_["disputeWindow"], set_["voidDelay"]
        )
        listed = await client.read(lister.call("feed", source.address))
        feed = FeedTerms(
            listed["memory_"],
            listed["maxAge"],
            listed["lag"],
            listed["potCap"],
            listed["published"],
            listed["step"],
            listed["feedCap"],
        )
        head = await client.head()
        for _ in range(SPECIFICATIONS):
            spec = specification(random, head.timestamp, feed.memory)
            fields = (
                int(spec.kind), source.address, spec.target, list(spec.bounds), spec.early_resolvable, spec.opens_at,
                spec.closes_at, spec.start_at, spec.ends_at, list(spec.weights),
            )  # fmt: skip
            answer = await by_the_lister(client, lister.call("preview", fields), head.number)
            mirrored = by_the_mirror(spec, feed, bounds, head.timestamp)
            assert mirrored == (answer if isinstance(answer, dict) else None), (spec, answer)
            seen["listed" if isinstance(answer, dict) else answer] += 1
    print(dict(seen))
    assert seen["listed"] > SPECIFICATIONS // 10
    assert set(seen) - {"listed"} == REFUSALS
