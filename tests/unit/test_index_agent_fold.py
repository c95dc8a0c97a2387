"""Agent markets folded from the logs of three contracts: an act that only some of them log is a contradiction."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from eth_utils.crypto import keccak

from core.contracts.events import Role, layouts_of
from core.contracts.statuses import AgentMarketStatus, VoidReason
from core.db.schema.index_agent import agent_market, agent_outcome
from indexer.errors import Contradiction
from indexer.fold.agent import AgentFold
from indexer.fold.rows import LogRecord
from tests.support.index_world import FEEDS, Emission, address_of, emission

KEY = keccak(text="bnkr-100m")
WEIGHTS = [6_000_000, 4_000_000]
NOTHING = (0, 0, 0)
END = (1 << 64 | 9, 123, 77)
ROLES = (Role.WALLET, Role.AGENT_RESOLVER, Role.AGENT_LISTER)


def opened(**changed: Any) -> Emission:
    values = {"index": 1, "opens": 10, "closes": 100, "fee": 200, "cap": 10**12, "weights": WEIGHTS} | changed
    return emission(Role.WALLET, "MarketOpened", KEY, *values.values())


def registered(feed: bytes = FEEDS[0]) -> Emission:
    return emission(Role.AGENT_RESOLVER, "MarketRegistered", KEY, feed)


def listed(metadata: str = '{"id":"bnkr-100m","links":{},"series":""}', feed: bytes = FEEDS[0]) -> Emission:
    spec: tuple[Any, ...] = (0, FEEDS[0], 5, [], False, 10, 100, 0, 300, WEIGHTS)
    terms = (200, 10**12, True, 3_600, 0, 4_000, 9_000)
    return emission(Role.AGENT_LISTER, "MarketListed", KEY, feed, address_of("lister"), spec, terms, metadata)


def resolved(outcome: int = 0) -> Emission:
    return emission(Role.WALLET, "MarketResolved", KEY, outcome)


def voided(reason: int = VoidReason.STALE) -> Emission:
    return emission(Role.WALLET, "MarketVoided", KEY, reason)


def decided(is_void: bool = False, code: int = 0, start: tuple[int, int, int] = NOTHING) -> Emission:
    return emission(Role.AGENT_RESOLVER, "MarketDecided", KEY, is_void, code, END, start)


def folded(*transactions: Sequence[Emission]) -> AgentFold:
    by_topic = {topic: layout for role in ROLES for topic, layout in layouts_of(role).items()}
    fold = AgentFold()
    for block, logs in enumerate(transactions, 1):
        for index, each in enumerate(logs):
            layout = by_topic[each.topics[:32]]
            assert layout.entity is not None
            entity, event = layout.entity(each.topics, each.data), layout.read(each.topics, each.data)
            tx = bytes([block]) * 32
            fold.apply(LogRecord(block, index, block, tx, each.address, each.topics, each.data, entity, event))
    fold.finish()
    return fold


def row(fold: AgentFold) -> dict[str, Any]:
    (write,) = (each for each in fold.take_writes() if each.table is agent_market)
    (values,) = write.added
    return dict(zip([column.name for column in agent_market.columns], values, strict=True))


OPENING = (opened(), registered(), listed())


def test_a_market_is_opened_from_three_logs() -> None:
    market = row(folded(OPENING))
    assert (market["index"], market["outcomes"], market["weights"], market["pot_cap"]) == (1, 2, WEIGHTS, 10**12)
    assert (market["closes_at"], market["ends_at"], market["settles_after"], market["voids_after"]) == (
        100,
        300,
        4000,
        9000,
    )
    assert (market["lister"], market["published"], market["slug"]) == (address_of("lister"), True, "bnkr-100m")
    assert market["status"] is AgentMarketStatus.OPEN
    outcomes = next(each for each in folded(OPENING).take_writes() if each.table is agent_outcome)
    assert len(outcomes.added) == 2


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 2, 0)])
def test_the_three_logs_may_be_in_any_order(order: tuple[int, ...]) -> None:
    assert row(folded([OPENING[at] for at in order]))["index"] == 1


@pytest.mark.parametrize("missing", range(3))
def test_a_market_without_one_of_the_three_logs_is_refused(missing: int) -> None:
    with pytest.raises(Contradiction, match="opened without"):
        folded([each for at, each in enumerate(OPENING) if at != missing])


def test_the_three_logs_must_be_in_one_transaction() -> None:
    with pytest.raises(Contradiction, match="in two transactions"):
        folded([opened(), registered()], [listed()])


@pytest.mark.parametrize(
    "change", [{"opens": 11}, {"closes": 101}, {"fee": 0}, {"cap": 7}, {"weights": [4_000_000, 6_000_000]}]
)
def test_a_market_opened_with_other_terms_than_listed_is_refused(change: dict[str, Any]) -> None:
    with pytest.raises(Contradiction, match="opened with other terms"):
        folded([opened(**change), registered(), listed()])


def test_a_market_registered_on_another_feed_is_refused() -> None:
    with pytest.raises(Contradiction, match="on another feed"):
        folded([opened(), registered(FEEDS[1]), listed()])
    with pytest.raises(Contradiction, match="on another feed"):
        folded([opened(), registered(), listed(feed=FEEDS[1])])


def test_a_market_is_opened_once() -> None:
    with pytest.raises(Contradiction, match="opened twice"):
        folded(OPENING, OPENING)
    with pytest.raises(Contradiction, match="logged twice"):
        folded([opened(), opened()])


@pytest.mark.parametrize("metadata", ['{"id":"another"}', '{"id":7}', "not json", '["bnkr-100m"]', '{"slug":"x"}'])
def test_an_id_whose_hash_is_not_the_key_is_ignored(metadata: str) -> None:
    assert row(folded([opened(), registered(), listed(metadata)]))["slug"] is None


@pytest.mark.parametrize("logs", [(decided(), resolved()), (resolved(), decided())])
def test_wallet_and_resolver_log_the_same_result(logs: tuple[Emission, ...]) -> None:
    market = row(folded(OPENING, logs))
    assert (market["status"], market["winner"], market["void_reason"]) == (AgentMarketStatus.RESOLVED, 0, None)
    assert (market["end_round"], market["end_answer"], market["end_updated_at"]) == END
    assert market["start_round"] is None, "a reading that played no part"


def test_a_void_market_keeps_its_reason_and_the_readings() -> None:
    market = row(folded(OPENING, [decided(True, VoidReason.TIE, (8, -5, 70)), voided(VoidReason.TIE)]))
    assert (market["status"], market["winner"], market["void_reason"]) == (AgentMarketStatus.VOID, None, VoidReason.TIE)
    assert (market["start_round"], market["start_answer"], market["start_updated_at"]) == (8, -5, 70)


@pytest.mark.parametrize(
    "logs", [(decided(code=1), resolved(0)), (decided(True, 1), resolved(1)), (voided(2), decided(True, 3))]
)
def test_different_results_are_refused(logs: tuple[Emission, ...]) -> None:
    with pytest.raises(Contradiction, match="different results"):
        folded(OPENING, logs)


@pytest.mark.parametrize("logs", [(decided(),), (resolved(),), (voided(),)])
def test_a_result_that_only_one_logs_is_refused(logs: tuple[Emission, ...]) -> None:
    with pytest.raises(Contradiction, match="did not both log"):
        folded(OPENING, logs)


def test_a_market_is_settled_once() -> None:
    with pytest.raises(Contradiction, match="settled twice"):
        folded(OPENING, [decided(), resolved()], [resolved()])


def test_a_market_that_was_never_opened_cannot_be_settled() -> None:
    with pytest.raises(Contradiction, match="never opened"):
        folded([decided(), resolved()])
