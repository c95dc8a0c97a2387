"""Which pool-feed readings the keeper records: those that markets need, and one for the next listing."""

from __future__ import annotations

from collections.abc import Set

from core.feeds.grid import Needs, batches
from keeper.agent.record import BATCH, BATCHES, FRESH_SECONDS, RecordingState, subject
from tests.support.pool_feeds import pool_feed

NOW = 1_800_000_000
FEED = pool_feed()


def standing(
    *needs: Needs, recorded: Set[int] = frozenset(), oldest: int = NOW - 7_200, listed_on: bool = False
) -> RecordingState:
    return RecordingState(FEED, oldest, recorded, needs, listed_on)


def test_readings_that_no_market_needs_are_not_paid_for() -> None:
    assert standing().to_record(NOW) == []
    ended = Needs((NOW - 90,))
    assert standing(ended).to_record(NOW) == [NOW - 120] == standing(ended).due(NOW)
    assert standing(ended, recorded={NOW - 120}).to_record(NOW) == []


def test_a_feed_that_markets_are_listed_on_has_a_fresh_reading() -> None:
    assert standing(listed_on=True).to_record(NOW) == [NOW - 60]
    at = NOW - FRESH_SECONDS
    assert standing(listed_on=True, recorded={at}).to_record(NOW) == []
    assert standing(listed_on=True, recorded={at - 60}).to_record(NOW) == [NOW - 60]
    assert standing(listed_on=True, recorded={at - 60}).due(NOW) == []  # no market waits for it


def test_a_reading_not_recorded_in_time_is_reported() -> None:
    ended = Needs((NOW - 7_300,), (NOW - 9_000, NOW - 7_300))
    late = standing(ended)
    assert late.lost(NOW) == [NOW - 7_320]
    assert late.due(NOW) == []
    assert standing(ended, recorded={NOW - 7_320}).lost(NOW) == []
    assert standing(ended, oldest=NOW - 7_320).lost(NOW) == []
    assert standing(Needs((NOW + 60,)), oldest=NOW + 3_600).lost(NOW) == []  # its time has not come


def test_missed_readings_are_recorded_oldest_first_in_bounded_steps() -> None:
    outage = standing(Needs((), (NOW - 7_200, NOW))).to_record(NOW)
    assert len(outage) == 120
    asked = batches(outage, BATCH, BATCHES)
    assert [at for batch in asked for at in batch] == outage[: BATCH * BATCHES]
    assert {len(batch) for batch in asked} == {BATCH}


def test_a_subject_names_the_feed_and_the_time() -> None:
    assert subject(FEED, NOW) == f"agent:record:BNKR/market_cap:{NOW}"
