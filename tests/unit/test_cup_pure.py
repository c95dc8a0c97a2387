"""The tournament's pure parts: amounts, messages, the wheel, listings and weeks."""

from __future__ import annotations

import hashlib
import hmac
from collections import Counter
from datetime import UTC, datetime
from decimal import Decimal

import pytest
from eth_account import Account
from eth_account.messages import encode_defunct
from eth_keys.constants import SECPK1_N
from eth_keys.exceptions import BadSignature
from eth_utils.exceptions import ValidationError
from hypothesis import given
from hypothesis import strategies as st

from api.cup import requests
from core.agent.bet import market_key
from core.agent.book import Book
from core.agent.document import draft_document
from core.contracts.statuses import MarketKind
from core.cup import cents_of, percent, text_of, wheel
from core.cup.board import is_week, week_of
from core.cup.books import FEE_BPS, is_slug, new_market, paper_book
from core.money import to_json
from tests.support.cup_rig import specification

SIGNER = Account.create()
WALLET = "0xAbCdEf0123456789aBcDeF0123456789AbCdEf01"
ISSUED = "2026-11-21T12:00:00Z"


def test_trade_message() -> None:
    assert requests.trade_message(WALLET, "bnkr-100m", "yes", 2550, "t-1", ISSUED) == (
        "Service Cup paper trade\n"
        "Wallet: 0xabcdef0123456789abcdef0123456789abcdef01\n"
        "Market: bnkr-100m\n"
        "Side: yes\n"
        "Size: 25.5 pUSDC\n"
        "Trade: t-1\n"
        "Issued: 2026-11-21T12:00:00Z"
    )


def test_bet_message() -> None:
    assert requests.bet_message(WALLET, 7, "num:17:yes", 1000, ISSUED) == (
        "Service Cup roulette bet\n"
        "Wallet: 0xabcdef0123456789abcdef0123456789abcdef01\n"
        "Round: 7\n"
        "Bet: num:17:yes\n"
        "Size: 10 pUSDC\n"
        "Issued: 2026-11-21T12:00:00Z"
    )


def test_enrolment_message() -> None:
    assert requests.enrolment_message(WALLET, ISSUED) == (
        "Service Cup agent enrollment\n"
        "Wallet: 0xabcdef0123456789abcdef0123456789abcdef01\n"
        "I operate this agent myself.\n"
        "Issued: 2026-11-21T12:00:00Z"
    )


def test_the_signer_is_recovered_and_garbage_has_none() -> None:
    account = Account.create()
    signature = bytes(account.sign_message(encode_defunct(text="hello")).signature)
    assert requests.signer_of("hello", signature) == account.address.lower()
    assert requests.signer_of("hallo", signature) != account.address.lower()
    for bad in (b"", b"\x00" * 65, b"\xff" * 65, signature[:64]):
        assert requests.signer_of("hello", bad) is None
    for text in ("", "0x", "0x" + "zz" * 65, "0x" + "00" * 64, "00" * 65):
        assert requests.signature_bytes(text) is None


_EDGES = [number.to_bytes(32) for number in (0, 1, SECPK1_N - 1, SECPK1_N, 2**256 - 1)]
_WORDS = st.binary(min_size=32, max_size=32) | st.sampled_from(_EDGES)


@given(_WORDS, _WORDS, st.integers(0, 255), st.text(max_size=20))
def test_every_signature_is_whose_the_library_says(r: bytes, s: bytes, v: int, message: str) -> None:
    try:
        expected = Account.recover_message(encode_defunct(text=message), signature=r + s + bytes([v])).lower()
    except (BadSignature, ValidationError, ValueError):
        expected = None
    assert requests.signer_of(message, r + s + bytes([v])) == expected


@given(st.text(max_size=300), st.sampled_from([0, 27, 35]), st.booleans())
def test_a_right_signature_is_good_in_each_of_its_spellings(message: str, base: int, high: bool) -> None:
    signed = SIGNER.sign_message(encode_defunct(text=message))
    s, v = (SECPK1_N - signed.s, 55 - signed.v) if high else (signed.s, signed.v)
    signature = signed.r.to_bytes(32) + s.to_bytes(32) + bytes([v - 27 + base])
    assert requests.signer_of(message, signature) == SIGNER.address.lower()


@pytest.mark.parametrize(("cents", "text"), [(2500, "25"), (2550, "25.5"), (2505, "25.05"), (1, "0.01"), (0, "0")])
def test_size_line(cents: int, text: str) -> None:
    assert text_of(cents) == text
    assert cents_of(text) == cents


@given(st.integers(min_value=-(10**13), max_value=10**13))
def test_amounts_survive_every_way_in(cents: int) -> None:
    assert cents_of(text_of(cents)) == cents
    assert cents_of(Decimal(cents) / 100) == cents
    assert cents_of(cents / 100) == cents  # as a JSON library of others would hand it over


@pytest.mark.parametrize(
    "value", ["1.005", 1.005, Decimal("0.001"), "1e2", "x", True, None, float("nan"), float("inf")]
)
def test_invalid_amounts(value: object) -> None:
    with pytest.raises(ValueError, match="amount"):
        cents_of(value)


def test_the_42_markets() -> None:
    assert len(wheel.MARKETS) == 42
    assert [market.id for market in wheel.MARKETS] == [
        "colour",
        "dozen",
        "half",
        "parity",
        "column",
        *(f"num:{n}" for n in range(37)),
    ]
    for market in wheel.MARKETS:
        assert Counter(p for outcome in market.outcomes for p in outcome.pockets) == Counter(range(37)), market.id
        assert all(outcome.key.startswith(market.id + ":") for outcome in market.outcomes)
    shown = {key: (outcome.label, outcome.true_pct_hundredths) for key, outcome in wheel.OUTCOMES.items()}
    assert shown["colour:red"] == ("RED", 4865)
    assert shown["colour:black"] == ("BLACK", 4865)
    assert shown["colour:green"] == ("GREEN 0", 270)
    assert shown["num:17:yes"] == ("HITS", 270)
    assert shown["num:17:no"] == ("MISSES", 9730)
    keys = {market.id: [outcome.key for outcome in market.outcomes] for market in wheel.MARKETS}
    assert keys["dozen"] == ["dozen:1", "dozen:2", "dozen:3", "dozen:zero"]
    assert keys["half"] == ["half:low", "half:high", "half:zero"]
    assert keys["parity"] == ["parity:odd", "parity:even", "parity:zero"]
    assert keys["column"] == ["column:1", "column:2", "column:3", "column:zero"]
    assert wheel.OUTCOMES["half:low"].pockets == set(range(1, 19))
    assert wheel.OUTCOMES["half:high"].pockets == set(range(19, 37))
    for group in ("colour", "dozen", "half", "parity", "column"):
        assert any(outcome.pockets == {0} for outcome in wheel.MARKET_OF_KEY[keys[group][0]].outcomes)


def test_the_draw_is_the_published_formula() -> None:
    seed, beacon = bytes(range(32)), bytes(range(32, 64))
    digest = hmac.new(seed, b"7:0x" + beacon.hex().encode(), hashlib.sha256).digest()
    words = [int.from_bytes(digest[i : i + 4]) for i in range(0, 32, 4)]
    assert wheel.pocket_of(seed, 7, beacon) == next(word for word in words if word < 37 * (2**32 // 37)) % 37
    drawn = Counter(wheel.pocket_of(seed, n, beacon) for n in range(37_000))
    assert set(drawn) == set(range(37))
    assert sum((count - 1000) ** 2 / 1000 for count in drawn.values()) < 80  # chi-square, 36 degrees: p is about 3e-5


def test_words_that_would_favour_low_pockets_are_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the real bound that happens once in 600 million words; with one at half of them, in every other draw."""
    seed, beacon, below = bytes(range(32)), bytes(range(32, 64)), 37 * (2**31 // 37)
    monkeypatch.setattr(wheel, "_FAIR_BELOW", below)
    passed_over = 0
    for number in range(300):
        digest = hmac.new(seed, f"{number}:0x{beacon.hex()}".encode(), hashlib.sha256).digest()
        words = [int.from_bytes(digest[at : at + 4]) for at in range(0, 32, 4)]
        fair = next((word for word in words if word < below), None)
        if fair is not None:
            assert wheel.pocket_of(seed, number, beacon) == fair % 37
            passed_over += words[0] >= below
    assert passed_over > 100


STAKES = st.lists(
    st.builds(
        wheel.WheelStake,
        st.sampled_from(["a", "b", "c"]),
        st.sampled_from(list(wheel.OUTCOMES)),
        st.integers(1000, 50_000),
    ),
    max_size=60,
)


@given(STAKES, st.integers(0, 36))
def test_settling_never_pays_more_than_the_pool_of_each_market(stakes: list[wheel.WheelStake], pocket: int) -> None:
    pools: Counter[str] = Counter()
    paid: Counter[str] = Counter()
    winners: Counter[str] = Counter()
    for result in wheel.settle(stakes, pocket):
        market = wheel.MARKET_OF_KEY[result.stake.bet_key].id
        pools[market] += result.stake.cents
        paid[market] += result.paid_cents
        winners[market] += result.status == "won"
        if result.status == "won":
            assert result.paid_cents >= result.stake.cents
    for market, pool in pools.items():
        assert pool - max(0, winners[market] - 1) <= paid[market] <= pool  # rounding costs less than a cent each


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 2), st.integers(1, 10**6)), max_size=20))
def test_paper_positions_are_paid_by_the_rule_of_the_real_ones(trades: list[tuple[int, int, int]]) -> None:
    book = Book.empty((10_000, 20_000, 5_000), FEE_BPS)
    held: dict[tuple[int, int], list[int]] = {}
    for wallet, outcome, cents in trades:
        book, got = book.staked(outcome, cents)
        assert got.shares >= cents
        position = held.setdefault((wallet, outcome), [0, 0])
        position[0] += cents
        position[1] += got.shares
    assert paper_book(book.weights, book.net, book.shares) == book
    pool = sum(cents for *_, cents in trades)
    for winner in range(3):
        paid = {key: book.owed(winner, key[1], *position) for key, position in held.items()}
        winners = sum(outcome == winner for _, outcome in held)
        if book.refunds(winner):
            assert paid == {key: position[0] for key, position in held.items()}
        else:
            assert pool - winners < sum(paid.values()) <= pool == book.net_pool
            assert all(cents >= held[key][0] for key, cents in paid.items() if key[1] == winner)


@pytest.mark.parametrize(
    ("kind", "outcomes", "keys"),
    [
        (MarketKind.THRESHOLD, 2, ["yes", "no"]),
        (MarketKind.DIRECTION, 2, ["up", "down"]),
        (MarketKind.RANGE, 3, ["under-100m", "100m-to-200m", "from-200m"]),
    ],
)
def test_listings_become_markets(kind: MarketKind, outcomes: int, keys: list[str]) -> None:
    spec = specification(kind, outcomes, opens=1_800_000_000, closes=1_800_003_600)
    words = draft_document(spec, "bnkr/market_cap")
    listing = new_market(market_key(words.id), spec, [10**7 + each for each in range(outcomes)], "bnkr/market_cap")
    assert (listing.slug, listing.market_id, listing.token_symbol) == (words.id, words.id, "BNKR")
    assert is_slug(listing.slug)
    assert (listing.question, listing.short_title) == (words.question, words.short_title)
    assert [side.key for side in listing.sides] == keys
    assert listing.book.weights == (10_000,) * outcomes
    moments = [listing.opens_at, listing.closes_at, *([listing.start_at] if listing.start_at else []), listing.ends_at]
    starts = [spec.start_at] if kind is MarketKind.DIRECTION else []
    assert [each.timestamp() for each in moments] == [spec.opens_at, spec.closes_at, *starts, spec.ends_at]


def test_a_listing_of_an_unknown_feed_or_under_another_id_is_shown_by_its_key() -> None:
    key, spec = b"\x07" * 32, specification()
    for feed_key in (None, "BNKR/market_cap"):
        bare = new_market(key, spec, (1, 10**9), feed_key)
        assert bare.slug == bare.market_id == "0x" + key.hex()
        assert is_slug(bare.slug)
        assert bare.book.weights == (1, 10**6)


def test_weeks() -> None:
    assert week_of(datetime(2026, 11, 21, tzinfo=UTC)) == "2026-W47"
    assert week_of(datetime(2027, 1, 1, tzinfo=UTC)) == "2026-W53"
    assert is_week("2026-W53")
    assert not any(is_week(text) for text in ("2025-W53", "2026-W00", "2026-W7", "all", "2026-W47 "))


def test_percentages_round_to_the_nearest() -> None:
    assert [to_json(percent(*each)) for each in ((1, 3), (2, 3), (0, 0), (1, 1), (18, 37))] == [
        b"33.33",
        b"66.67",
        b"0",
        b"100",
        b"48.65",
    ]
