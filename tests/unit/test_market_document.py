"""What a market is called follows from its specification alone, to the second and to the cent, never from a lister."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.agent.bet import market_key
from core.agent.document import (
    ID_PATTERN,
    MAX_ID,
    MarketDocument,
    Metadata,
    Specification,
    draft_document,
    id_of,
    listed_document,
)
from core.agent.words import FeedSubject, duration, moment, on_one_day, outcomes_of, usd_label
from core.contracts.statuses import MarketKind
from core.feeds.words import Computed, every
from core.iso import LAST_SECOND
from tests.support.pool_feeds import pool_feed

FEED = bytes.fromhex("Ab" * 20)
KEY = "BNKR/market_cap"
ONE = 10**8
MILLION = 10**6 * ONE


def at(clock: str) -> int:
    return int(datetime.fromisoformat(f"2026-11-{clock}+00:00").timestamp())


ROUND = Specification(
    kind=MarketKind.DIRECTION,
    feed=FEED,
    target=0,
    bounds=(),
    early_resolvable=False,
    published=True,
    max_age=900,
    opens_at=at("22T14:00:07"),
    closes_at=at("22T14:58:50"),
    start_at=at("22T15:00:00"),
    ends_at=at("22T16:00:00"),
    early_from=0,
    settles_after=at("22T17:00:10"),
    voids_after=at("23T17:00:10"),
)
TOUCH = replace(
    ROUND,
    kind=MarketKind.THRESHOLD,
    target=83 * MILLION + 400_000 * ONE,
    early_resolvable=True,
    published=False,
    start_at=0,
    early_from=at("22T15:00:20"),
    settles_after=at("22T16:10:00"),
)
LADDER = replace(ROUND, kind=MarketKind.RANGE, start_at=0, bounds=(80 * MILLION, 85 * MILLION, 85 * MILLION + 1))


# ---------------------------------------------------------------- words


def test_a_round_asks_about_both_readings_and_not_when_bets_end() -> None:
    words = draft_document(ROUND, KEY)
    assert words.id == "bnkr-up-or-down-2026-11-22-1500-to-1600-bets-to-145850"
    assert words.question == "BNKR market cap: higher at 16:00 than at 15:00 UTC on 22 Nov 2026?"
    assert words.short_title == "BNKR up or down, 22 Nov 15:00–16:00 UTC"
    assert words.deadline_label == (
        "bets end 22 Nov 2026 14:58:50 UTC, decided by the readings at 22 Nov 2026 15:00 UTC and 22 Nov 2026 16:00 UTC"
    )
    what, when, missing = words.rules
    assert what == (
        "Up wins if BNKR's market cap is higher at 22 Nov 2026 16:00 UTC than at 22 Nov 2026 15:00 UTC, down if it is "
        "lower. If the two readings are equal, all stakes are refunded in full."
    )
    assert when == (
        "Bets are accepted from 22 Nov 2026 14:00:07 UTC until just before 22 Nov 2026 14:58:50 UTC. "
        "The market settles after 22 Nov 2026 17:00:10 UTC, when the dispute window has ended."
    )
    assert missing == (
        "If either reading is missing, not above zero, or more than 15 minutes old at its moment, or if nothing has "
        "settled the market by 23 Nov 2026 17:00:10 UTC, all stakes are refunded in full."
    )
    assert [each.key for each in words.outcomes] == ["up", "down"]


def test_a_touch_counts_readings_of_its_interval_only() -> None:
    words = draft_document(TOUCH, KEY)
    assert words.question == "Will BNKR's market cap reach $83.4M between 15:00:20 and 16:00 UTC on 22 Nov 2026?"
    assert words.short_title == "BNKR reaches $83.4M by 22 Nov 16:00 UTC"
    rules = words.texts["rules"]
    assert "dated from 22 Nov 2026 15:00:20 UTC to 22 Nov 2026 16:00 UTC, both included" in rules
    assert "Readings dated before 22 Nov 2026 15:00:20 UTC do not count" in rules
    assert "Yes settles as soon as such a reading is recorded, no after 22 Nov 2026 16:10 UTC." in rules
    assert "If yes has not won and the last reading is missing" in words.rules[2]
    assert "publisher" not in rules


def test_a_published_feed_says_its_dispute_window() -> None:
    rules = draft_document(ROUND, KEY).texts["rules"]
    assert "The market settles after 22 Nov 2026 17:00:10 UTC, when the dispute window has ended." in rules
    assert "condemns the feed" in rules
    other = draft_document(replace(ROUND, published=False, settles_after=at("22T16:00:10")), KEY).texts["rules"]
    assert "dispute" not in other
    assert "The market settles after 22 Nov 2026 16:00:10 UTC." in other


COMPUTED = Computed.from_feed(pool_feed())


def listed(spec: Specification, computed: Computed) -> MarketDocument:
    return listed_document(market_key(draft_document(spec, KEY).id), spec, KEY, computed)


def test_a_pool_feed_says_from_what_and_how_it_is_computed() -> None:
    first, second = COMPUTED.pools
    spec = replace(ROUND, published=False)
    words = listed(spec, COMPUTED)
    rules = words.texts["rules"]
    assert (
        "A reading is the mean price of BNKR over the 30 minutes up to its time, computed from Uniswap v3 BNKR/WETH 1% "
        f"({first.address}) and Uniswap v3 WETH/USDC 0.05% ({second.address}) alone, times a supply of 100,000,000,000 "
        "BNKR. No one posts readings: anyone can have one recorded, and everyone gets the same number." in rules
    )
    assert "There is a reading every minute; at any moment the last one at or before it counts." in rules
    assert (
        "the reading recorded before it counts, provided that it is at most 15 minutes older than the moment" in rules
    )
    assert "If either reading is missing or unusable, or if nothing has settled the market by" in words.rules[2]
    assert "After a halt of the chain, the last price before the halt fills the window." in rules
    assert "publisher" not in rules
    assert "newest that" not in rules
    assert words == replace(
        draft_document(spec, KEY), rules=words.rules, fine_print=words.fine_print, computed=COMPUTED
    )  # and nothing else is said


@pytest.mark.parametrize(
    ("seconds", "said"), [(60, "every minute"), (10, "every 10 seconds"), (1, "every second"), (3_600, "every hour")]
)
def test_a_step_of_one_unit_drops_the_number(seconds: int, said: str) -> None:
    assert every(seconds) == said


@pytest.mark.parametrize(
    ("units", "decimals", "said"), [(10**29, 18, "100,000,000,000"), (1_234_500, 6, "1.2345"), (7, 0, "7")]
)
def test_a_supply_keeps_every_digit(units: int, decimals: int, said: str) -> None:
    assert Computed.from_feed(pool_feed(supply=units, token_decimals=decimals)).supply == said


def test_sides_of_a_range_say_which_bound_belongs_where() -> None:
    sides = outcomes_of(MarketKind.RANGE, LADDER.bounds)
    assert [each.key for each in sides] == [
        "under-80m",
        "80m-to-85m",
        "85m-to-85000000-00000001",
        "from-85000000-00000001",
    ]
    assert [each.label for each in sides][1] == "$80M to under $85M"
    assert (sides[1].lower, sides[1].upper) == (80 * MILLION, 85 * MILLION)


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (41_095_586 * ONE, "$41,095,586"),
        (41_090_000 * ONE, "$41.09M"),
        (100 * MILLION, "$100M"),
        (100 * MILLION + 1, "$100,000,000.00000001"),
        (2_500 * MILLION, "$2.5B"),
        (412_500 * ONE, "$412,500"),
        (4_120_000, "$0.0412"),
        (0, "$0"),
        (-5 * ONE, "-$5"),
    ],
)
def test_numbers_are_exact(value: int, words: str) -> None:
    assert usd_label(value) == words


@given(st.integers(min_value=-(2**255), max_value=2**255 - 1))
def test_a_number_can_be_read_back(value: int) -> None:
    said = usd_label(value)
    scale = {"T": 10**12, "B": 10**9, "M": 10**6}.get(said[-1], 1)
    digits = said.strip("TBM").replace("$", "").replace(",", "")
    whole, _, rest = digits.lstrip("-").partition(".")
    read = int(whole) * ONE * scale + (int(rest) * ONE * scale // 10 ** len(rest) if rest else 0)
    assert (-read if said.startswith("-") else read) == value


@given(st.integers(min_value=0, max_value=2**64 - 1))
def test_no_second_is_lost(second: int) -> None:
    said = moment(second)
    if said.startswith("Unix"):
        assert said == f"Unix second {second}"
        return
    form = "%d %b %Y %H:%M:%S UTC" if said.count(":") == 2 else "%d %b %Y %H:%M UTC"
    assert int(datetime.strptime(said, form).replace(tzinfo=UTC).timestamp()) == second


def test_one_date_is_shown_where_both_moments_share_it() -> None:
    assert on_one_day(at("22T15:00:01"), at("22T16:00:00"))
    assert not on_one_day(at("22T23:00:00"), at("23T00:00:00"))
    midnight = draft_document(replace(ROUND, start_at=at("22T23:00:00"), ends_at=at("23T00:00:00")), KEY)
    assert midnight.question == (
        "BNKR market cap: higher on 23 Nov 2026 at 00:00 UTC than on 22 Nov 2026 at 23:00 UTC?"
    )
    assert midnight.short_title == "BNKR up or down, 22 Nov 23:00 to 23 Nov 00:00 UTC"
    beyond = draft_document(replace(ROUND, start_at=LAST_SECOND + 1, ends_at=LAST_SECOND + 2), KEY)
    assert beyond.question == (
        f"BNKR market cap: higher at Unix second {LAST_SECOND + 2} than at Unix second {LAST_SECOND + 1}?"
    )
    assert [duration(each) for each in (1, 75, 5400, 7200)] == ["1 second", "75 seconds", "90 minutes", "2 hours"]


# ---------------------------------------------------------------- ids


def test_another_specification_has_another_id() -> None:
    many = [ROUND, TOUCH, LADDER, replace(TOUCH, early_resolvable=False)]
    for one in tuple(many):
        many += [
            replace(one, closes_at=one.closes_at - 1),
            replace(one, closes_at=one.closes_at - 86_400),
            replace(one, ends_at=one.ends_at + 1),
            replace(one, ends_at=one.ends_at + 86_400),
        ]
    many += [replace(ROUND, start_at=ROUND.start_at + 1), replace(ROUND, start_at=ROUND.start_at - 86_400)]
    many += [replace(TOUCH, target=TOUCH.target + 1), replace(LADDER, bounds=(80 * MILLION, 85 * MILLION))]
    ids = [id_of(each, FeedSubject(key)) for each in many for key in (KEY, "AIXBT/market_cap", "BNKR/price")]
    assert len(set(ids)) == len(ids)


@given(
    st.sampled_from(list(MarketKind)),
    st.integers(0, 2**255 - 1),
    st.lists(st.integers(1, 2**255 - 1), min_size=1, max_size=7, unique=True),
    st.tuples(*[st.integers(0, 2**64 - 1)] * 7),
    st.booleans(),
)
def test_every_specification_has_texts(
    kind: MarketKind, target: int, bounds: list[int], times: tuple[int, ...], early: bool
) -> None:
    import re

    opens, closes, start, ends, begin, settles, voids = times
    levels = tuple(sorted(bounds)) if kind is MarketKind.RANGE else ()
    spec = Specification(
        kind, target, levels, early, not early, 1, start, ends, begin, settles, voids, FEED, opens, closes
    )
    words = draft_document(spec, KEY)
    assert re.fullmatch(ID_PATTERN, words.id)
    assert len(words.id) <= MAX_ID
    keys = [each.key for each in words.outcomes]
    assert len(set(keys)) == len(keys)
    assert all(len(each) <= 64 for each in keys)
    assert listed_document(market_key(words.id), spec, KEY) == words
    by_key = listed_document(bytes(32), spec, None)
    for each in (words, by_key):
        titles = [each.question, each.short_title, each.deadline_label, each.summary]
        assert not any(re.search(r"\d{4}-\d\d-\d\d|\dT\d", title) for title in titles)


# ---------------------------------------------------------------- a lister who lies


def test_a_market_under_the_key_of_another_id_is_shown_by_its_key() -> None:
    lie = id_of(replace(TOUCH, target=100 * MILLION), FeedSubject(KEY))
    words = listed_document(market_key(lie), TOUCH, KEY)
    assert words.id == "0x" + market_key(lie).hex()
    assert not words.verified
    assert "$83.4M" in words.question
    assert "100" not in words.question


def test_a_feed_that_the_deployment_does_not_know_gives_no_name() -> None:
    words = listed_document(market_key(draft_document(TOUCH, KEY).id), TOUCH, None)
    assert not words.verified
    assert words.id.startswith("0x")
    assert words.token_symbol == "UNKNOWN"
    assert words.question.startswith(f"Will the reading of feed 0x{FEED.hex()} reach $83.4M")


HOSTILE: dict[str, Any] = {
    "id": draft_document(TOUCH, KEY).id,
    "question": "Will BNKR reach $1? (sure thing)",
    "shortTitle": "<script>alert(1)</script>",
    "summary": "<img src=x onerror=alert(1)>",
    "rules": "The lister decides.",
    "outcomes": [{"key": "no", "label": "Yes"}, {"key": "yes", "label": "No"}],
    "tokenSymbol": "USDC",
    "series": "<b>hour</b>",
    "links": {"app": "javascript:alert(1)", "<b>": "https://example.org", "docs": "https://example.org/a\"onclick='"},
}


def test_words_of_a_lister_are_not_read() -> None:
    read = Metadata.read(HOSTILE)
    assert read == Metadata(HOSTILE["id"])
    assert set(json.loads(read.canonical())) == {"id", "series"}
    words = listed_document(market_key(HOSTILE["id"]), TOUCH, KEY)
    said = " ".join(words.texts.values())
    for lie in ("sure thing", "<", "lister decides", "USDC"):
        assert lie not in said
    assert [(each.key, each.label) for each in words.outcomes] == [("yes", "Yes"), ("no", "No")]


@pytest.mark.parametrize("document", [None, [], "text", {}, {"id": 7}, {"id": "Not An Id"}, {"id": "a" * (MAX_ID + 1)}])
def test_metadata_that_is_none(document: Any) -> None:
    assert Metadata.read(document) is None


def test_the_same_metadata_is_always_the_same_bytes() -> None:
    assert Metadata("a-b", "hour").canonical() == '{"id":"a-b","series":"hour"}'
