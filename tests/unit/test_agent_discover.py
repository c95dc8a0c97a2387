"""Discovery without I/O: the silence gate and the ranking, against recorded answers and their definitions."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from api.agent.discovery import BROWSE, folded, most_active, rank_markets, scanned, silence, terms_of, words_of
from api.agent.trade.orders import check_open
from api.problems import Problem
from core.contracts.statuses import MarketKind
from core.money import USD, ratio_text_down
from tests.support.agent_markets import NOW, market, snapshot

GOLDEN: Mapping[str, list[dict[str, Any]]] = tomllib.loads(
    Path(__file__).with_name("agent_discover_golden.toml").read_text(encoding="utf-8")
)
MARKETS = (
    market("bnkr-100m", "BNKR", "Will BNKR reach $100M market cap by 2026-12-31?", pool=400, token_name="BankrCoin"),
    market(
        "bnkr-range",
        "BNKR",
        "Where will BNKR market cap be on 2026-12-31?",
        kind=MarketKind.RANGE,
        pool=90,
        closes=90_000,
    ),
    market(
        "degen-updown", "DEGEN", "Will DEGEN be higher in one hour?", kind=MarketKind.DIRECTION, pool=900, closes=3_600
    ),
    market("degen-1b", "DEGEN", "Will DEGEN reach $1B?", pool=50, closes=100_000, token_name="Degen"),
    market("eth-flip", "ETH", "Will Ethereum flip Bitcoin by café résumé day?", pool=700, closes=50_000),
    market("btc-zh", "BTC", "比特币价格会超过多少？", pool=0, closes=60_000),
)


def test_the_golden_file_has_sixty_cases_of_every_kind() -> None:
    posts, queries = GOLDEN["post"], GOLDEN["query"]
    assert len(posts) + len(queries) >= 60
    assert {each.get("silent") for each in posts} == {"greeting", "settled_fact", "scam", "no_claim", None}


@pytest.mark.parametrize("case", GOLDEN["post"], ids=lambda case: case["text"][:40])
def test_posts(case: Mapping[str, Any]) -> None:
    quiet = silence(case["text"])
    assert quiet == case.get("silent")
    if quiet is None:
        kind, wanted = case.get("kind", "exact"), case["matches"]
        first = rank_markets(MARKETS, words_of(case["text"]))
        assert [each.market.id for each in first if each.kind == kind] == wanted
        # Markets that share only a word come after.
        assert [each.market.id for each in first][: len(wanted)] == wanted


@pytest.mark.parametrize("case", GOLDEN["query"], ids=lambda case: case["text"][:40])
def test_queries(case: Mapping[str, Any]) -> None:
    matches = rank_markets(MARKETS, words_of(case["text"]))
    shown = [f"{each.market.id} {ratio_text_down(each.score.numerator, each.score.denominator, 4)}" for each in matches]
    assert shown == case["matches"]
    assert {each.kind for each in matches} <= {case.get("kind", "exact")}


def test_a_cashtag_scores_1000_and_its_rank_by_pool() -> None:
    pools = sorted(each.book.net_pool for each in MARKETS)
    matches = rank_markets(MARKETS, words_of("$degen and $BNKR"))
    assert {each.kind for each in matches} == {"exact"}
    for each in matches:
        assert each.score == 1_000 + pools.index(each.market.book.net_pool)
        assert each.cashtags == (each.market.token_symbol,)
        assert each.reason == f"cashtag ${each.market.token_symbol}"


def test_other_matches_score_by_jaccard_over_question_names_and_symbol() -> None:
    has = terms_of(MARKETS[0])
    assert has == {"bnkr", "reach", "100m", "market", "cap", "2026", "12", "31", "bankrcoin"}
    match = rank_markets(MARKETS[:1], words_of("when does bankrcoin reach the bank"))[0]
    assert match.score == Fraction(2, len(has) + 1)  # bankrcoin, reach of {bankrcoin, reach, bank}
    assert (match.terms, match.kind, match.reason) == (("bankrcoin", "reach"), "related", "shares bankrcoin, reach")


def test_equal_scores_go_by_deadline_then_id() -> None:
    same = [
        market("b", "X", "Is X up?", closes=50),
        market("c", "X", "Is X up?", closes=40),
        market("a", "X", "Is X up?", closes=50),
    ]
    for text in ("$X", "x up"):
        assert [each.market.id for each in rank_markets(same, words_of(text))] == ["c", "a", "b"]
        assert [each.market.id for each in rank_markets(same[::-1], words_of(text))] == ["c", "a", "b"]


def test_browsing_shows_the_most_active_first() -> None:
    place = snapshot(*MARKETS, volumes={"btc-zh": 5 * USD, "degen-1b": 7 * USD})
    matches = most_active(place, place.open_markets())
    assert [each.market.id for each in matches] == [
        "degen-1b", "btc-zh", "degen-updown", "eth-flip", "bnkr-100m", "bnkr-range",
    ]  # fmt: skip
    assert {each.reason for each in matches} == {BROWSE}


def test_only_open_markets_are_found() -> None:
    closed = replace(MARKETS[0], spec=replace(MARKETS[0].spec, closes_at=NOW))
    unknown = replace(MARKETS[1], words=replace(MARKETS[1].words, verified=False))
    assert snapshot(closed, unknown, MARKETS[2]).open_markets() == [MARKETS[2]]


def test_amounts_are_normalized() -> None:
    for text in ("100M", "$100m", "100,000,000", "$ 100 million", "100 mln", "１００ Ｍ", "1亿", "10000万", "100 млн"):
        assert words_of(text).terms == {"100m"}, text
    assert words_of("2026 9999 10000 2.50").terms == {"2026", "9999", "10k", "2.5"}
    assert words_of("$1INCH $a_b $100 $").cashtags == ("1INCH", "A_B")


def test_links_and_mentions_are_ignored() -> None:
    assert words_of("@bnkr says https://example.org/bnkr/100m www.bnkr.io see example.org/x").terms == {"says", "see"}


def test_market_texts_cannot_change_an_answer() -> None:
    hostile = market("h", "X", '<b onmouseover="x()">bold</b> moves?')
    match = rank_markets([hostile], words_of('<b onmouseover="x()"> bold'))[0]
    assert match.terms == ("b", "bold", "onmouseover", "x")


@given(st.text(max_size=300))
def test_any_text_is_only_data(text: str) -> None:
    """There is never an error, the answer is deterministic, and folding is idempotent."""
    assert silence(text) == silence(text)
    matches = rank_markets(MARKETS, words_of(text))
    assert matches == rank_markets(MARKETS, words_of(text))
    assert all(0 < each.score <= 1 or each.score >= 1_000 for each in matches)
    assert all(term.isalnum() or "." in term or "_" in term for each in matches for term in each.terms)
    assert scanned(" ".join(folded(folded(text)).split())) == scanned(" ".join(folded(text).split()))


@given(st.lists(st.sampled_from(["gm", "hit", "will", "$BNKR", "100M", "yesterday", "claim now", "?"]), max_size=8))
def test_a_scam_phrase_silences_any_text_around_it(parts: list[str]) -> None:
    assert silence(" ".join(["claim now", *parts])) == "scam"


def test_a_market_is_open_from_its_first_second_of_betting() -> None:
    """Earlier trades are refused, so lists, searches and counts of open markets exclude it."""
    later = replace(MARKETS[0], spec=replace(MARKETS[0].spec, opens_at=NOW + 60))
    assert [later.status(NOW + each) for each in (0, 59, 60)] == ["closed", "closed", "open"]
    there = snapshot(later, *MARKETS[1:])
    assert later not in there.open_markets()
    assert MARKETS[1] in there.open_markets()
    with pytest.raises(Problem, match="is not open yet"):
        check_open(later, NOW)
