"""The standing series: deadlines, ids, ladders and labels, and which slots are filled."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest

from core.market_document import MarketDocument, OutcomeLabel
from core.mirror.bet import market_key
from core.mirror.settlement import Kind, bucket
from keeper.agent.listing import decide_rounds, decide_series
from keeper.agent.series import (
    HOUR,
    ONE,
    Design,
    Feed,
    Series,
    Slot,
    VenueTerms,
    deadline,
    landmark,
    round_slot,
    short_dollars,
    significant,
    standing,
    up_or_down,
)
from keeper.sources.sample import Round

BNKR = Feed("BNKR/market_cap", "0x" + "01" * 20)
AIXBT = Feed("AIXBT/market_cap", "0x" + "02" * 20)
VALUE = 82_412_345_67000000


def at(text: str) -> int:
    return int(datetime.strptime(text, "%Y-%m-%d %H:%M").replace(tzinfo=UTC).timestamp())


NOW = at("2026-11-21 04:59")


@pytest.mark.parametrize(
    ("series", "now", "closes"),
    [
        (Series.TOUCH, "2026-11-21 04:20", "2026-11-21 05:00"),
        (Series.TOUCH, "2026-11-21 04:21", "2026-11-21 06:00"),
        (Series.DAY, "2026-11-21 20:00", "2026-11-22 00:00"),
        (Series.DAY, "2026-11-21 20:01", "2026-11-23 00:00"),
        (Series.LADDER, "2026-11-21 04:59", "2026-11-23 00:00"),
        (Series.LADDER, "2026-11-22 00:00", "2026-11-23 00:00"),
        (Series.LADDER, "2026-11-22 00:01", "2026-11-30 00:00"),
        (Series.FAR, "2026-11-21 04:59", "2027-01-01 00:00"),
        (Series.FAR, "2026-12-11 00:00", "2028-01-01 00:00"),
    ],
)
def test_deadlines(series: Series, now: str, closes: str) -> None:
    assert deadline(series, at(now)) == at(closes)


@pytest.mark.parametrize(
    ("now", "start"),
    [
        ("2026-11-21 04:00", "2026-11-21 05:00"),
        ("2026-11-21 04:59", "2026-11-21 05:00"),
        ("2026-11-21 05:00", "2026-11-21 06:00"),
    ],
)
def test_the_next_round_is_listed_while_one_runs(now: str, start: str) -> None:
    slot, begins = round_slot("BNKR", at(now), HOUR)
    assert (begins, slot.closes_at) == (at(start), at(start) + HOUR)


def test_a_round_about_to_start_is_left_for_the_next() -> None:
    _, begins = round_slot("BNKR", at("2026-11-21 05:00") - 44, HOUR)
    assert begins == at("2026-11-21 06:00")


@pytest.mark.parametrize(
    ("series", "public_id", "target"),
    [
        (Series.TOUCH, "bnkr-83-5m-mcap-2026-11-21-0600", 83_500_000 * ONE),
        (Series.DAY, "bnkr-82m-mcap-2026-11-21", 82_000_000 * ONE),
        (Series.FAR, "bnkr-200m-mcap-2026-12-31", 200_000_000 * ONE),
    ],
)
def test_thresholds(series: Series, public_id: str, target: int) -> None:
    design = standing(series, BNKR, VALUE, NOW, 0)
    assert design.document.id == public_id
    assert design.target == target
    assert design.kind is Kind.THRESHOLD
    assert design.early_resolvable is (series is not Series.DAY)
    assert [each.key for each in design.document.outcomes] == ["yes", "no"]


@pytest.mark.parametrize("position", range(8))
@pytest.mark.parametrize("value", [VALUE, 915_000_000 * ONE, 1_234_567 * ONE, 999_999_999 * ONE, 12 * ONE])
def test_ladders_have_five_to_eight_ranges_around_the_value(position: int, value: int) -> None:
    design = standing(Series.LADDER, BNKR, value, NOW, position)
    assert 5 <= design.outcomes <= 8
    assert list(design.bounds) == sorted(set(design.bounds))
    assert len(design.bounds) == design.outcomes - 1
    assert 0 < bucket(design.bounds, value) < design.outcomes - 1, "the value lies in an inner range"
    keys = [each.key for each in design.document.outcomes]
    assert len(set(keys)) == len(keys)


def test_every_size_of_ladder_occurs() -> None:
    sizes = {standing(Series.LADDER, BNKR, VALUE, NOW, position).outcomes for position in range(8)}
    assert sizes == {5, 6, 7, 8}


def test_rounds() -> None:
    slot, start = round_slot("BNKR", NOW, HOUR)
    design = up_or_down(BNKR, slot, start)
    assert design.document.id == "bnkr-up-or-down-2026-11-21-0500"
    assert (design.kind, design.start_at, design.closes_at) == (Kind.DIRECTION, start, start + HOUR)
    assert [each.key for each in design.document.outcomes] == ["up", "down"]
    slot, start = round_slot("BNKR", NOW, 600, Series.QUICK)
    assert up_or_down(BNKR, slot, start).document.id == "bnkr-up-or-down-10m-2026-11-21-0500"


def designs() -> list[Design]:
    slot, start = round_slot("BNKR", NOW, HOUR)
    made = [standing(series, BNKR, VALUE, NOW, 0) for series in (Series.TOUCH, Series.DAY, Series.FAR, Series.LADDER)]
    return [*made, up_or_down(BNKR, slot, start)]


@pytest.mark.parametrize("design", designs(), ids=lambda design: str(design.series))
def test_documents_are_canonical_and_read_back(design: Design) -> None:
    text = design.document.canonical()
    parsed = json.loads(text)
    assert MarketDocument.parse(parsed) == design.document
    assert text == json.dumps(parsed, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    assert parsed["slug"] == parsed["id"]
    assert design.document.market_id == market_key(parsed["id"])
    assert len(text.encode()) < 1_300
    assert parsed["series"] == design.series


@pytest.mark.parametrize("design", designs(), ids=lambda design: str(design.series))
def test_specifications_use_only_what_their_kind_allows(design: Design) -> None:
    spec = design.spec(VenueTerms(200, 259_200, 10**9), NOW)
    assert (spec["target"] != 0) is (design.kind is Kind.THRESHOLD)
    assert bool(spec["bounds"]) is (design.kind is Kind.RANGE)
    assert (spec["startAt"] != 0) is (design.kind is Kind.DIRECTION)
    assert spec["earlyResolvable"] is False or design.kind is Kind.THRESHOLD
    assert spec["outcomes"] == len(design.document.outcomes)
    assert spec["closesAt"] == design.closes_at


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"id": "Not An Id"}, "readable id"),
        ({"id": "a" * 97}, "readable id"),
        ({"category": "weather"}, "none of"),
        ({"outcomes": ()}, "two outcomes"),
        ({"outcomes": (OutcomeLabel("yes", "a", "a"), OutcomeLabel("yes", "b", "b"))}, "key of its own"),
    ],
)
def test_a_document_that_cannot_be_listed(changes: dict[str, object], said: str) -> None:
    good = standing(Series.DAY, BNKR, VALUE, NOW, 0).document
    values = {name: getattr(good, name) for name in MarketDocument.__slots__}
    with pytest.raises(ValueError, match=said):
        MarketDocument(**(values | changes))


# ---------------------------------------------------------------- slots


def test_empty_slots_are_filled_and_full_ones_left() -> None:
    fresh = Round(VALUE, NOW - 30)
    wanted, unlisted = decide_series([BNKR, AIXBT], [fresh, fresh], set(), NOW)
    assert len(wanted) == 8
    assert unlisted == []
    filled = {each.slot for each in wanted}
    again, reasons = decide_series([BNKR, AIXBT], [fresh, fresh], filled, NOW)
    assert again == []
    assert {each.reason for each in reasons} == {"it is listed"}


def test_a_slot_stays_filled_when_the_value_moves() -> None:
    filled = {each.slot for each in decide_series([BNKR], [Round(VALUE, NOW)], set(), NOW)[0]}
    assert decide_series([BNKR], [Round(VALUE * 2, NOW + 60)], filled, NOW + 60)[0] == []


@pytest.mark.parametrize(
    ("last", "feed", "reason"),
    [
        (None, BNKR, "no value yet"),
        (Round(0, NOW), BNKR, "no value yet"),
        (Round(VALUE, NOW - 901), BNKR, "901 s old"),
        (Round(VALUE, NOW), Feed("BNKR/price", BNKR.address), "not price"),
    ],
)
def test_no_market_is_built_on_doubt(last: Round | None, feed: Feed, reason: str) -> None:
    wanted, unlisted = decide_series([feed], [last], set(), NOW)
    assert wanted == []
    assert all(reason in each.reason for each in unlisted)


def test_rounds_are_listed_on_fed_feeds_and_the_quick_ones_are_local() -> None:
    fresh = Round(VALUE, NOW - 30)
    wanted, _ = decide_rounds([BNKR, AIXBT], [fresh, fresh], set(), NOW, HOUR, quick=False)
    assert [each.slot.series for each in wanted] == [Series.HOUR, Series.HOUR]
    wanted, _ = decide_rounds([BNKR, AIXBT], [fresh, fresh], set(), NOW, HOUR, quick=True)
    assert [each.slot.series for each in wanted] == [Series.HOUR, Series.HOUR, Series.QUICK]
    filled = {Slot(Series.HOUR, "BNKR", at("2026-11-21 06:00"))}
    left, reasons = decide_rounds([BNKR], [fresh], filled, NOW, HOUR, quick=False)
    assert (left, reasons[0].reason) == ([], "the next round is listed")


@pytest.mark.parametrize(
    ("last", "reason"),
    [(None, "no value yet"), (Round(0, NOW), "no value yet"), (Round(VALUE, NOW - 901), "901 s old")],
)
def test_no_round_takes_money_on_a_feed_that_nobody_posts_to(last: Round | None, reason: str) -> None:
    wanted, unlisted = decide_rounds([BNKR, AIXBT], [last, Round(VALUE, NOW - 900)], set(), NOW, HOUR, quick=True)
    assert [(each.slot.symbol, each.slot.series) for each in wanted] == [("AIXBT", Series.HOUR)]
    assert [each.target for each in unlisted] == ["BNKR hour", "BNKR quick"]
    assert all(reason in each.reason for each in unlisted)


# ---------------------------------------------------------------- numbers


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (82_400_000 * ONE, "$82.4M"),
        (2_000_000_000 * ONE, "$2B"),
        (1_050_000_000_000 * ONE, "$1.05T"),
        (950 * ONE, "$950"),
        (1_500 * ONE, "$1.5K"),
        (ONE // 2, "$0.5"),
    ],
)
def test_short_dollars_are_exact(value: int, text: str) -> None:
    assert short_dollars(value) == text


@pytest.mark.parametrize(
    ("value", "digits", "up", "rounded"),
    [
        (12345, 3, True, 12400),
        (12345, 3, False, 12300),
        (12350, 3, False, 12400),
        (12, 3, True, 12),
        (99951, 3, False, 100000),
    ],
)
def test_leading_digits(value: int, digits: int, up: bool, rounded: int) -> None:
    assert significant(value, digits, up=up) == rounded


@pytest.mark.parametrize(("value", "found"), [(148, 200), (200, 200), (201, 500), (501, 1000), (1000, 1000)])
def test_landmarks(value: int, found: int) -> None:
    assert landmark(value) == found
