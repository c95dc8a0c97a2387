"""Each relation that the fuzzer asks of answers lets an honest one pass and finds a doctored one."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import pytest

from tests.support.relations import RELATIONS, contradictions, read

SEED = "0x" + "ab" * 32
COMMITMENT = "0x" + hashlib.sha256(bytes.fromhex(SEED[2:])).hexdigest()
QUOTE = {
    "sizeUsd": 7.5, "feeUsd": 0.15, "netStakeUsd": 7.35, "feeBps": 200, "tier": "simple", "priceCents": 47.7315,
    "estimatedShares": 15.39862, "suggestedMinSharesOut": 15.244633, "suggestedMaxPriceCents": 49, "warnings": [],
    "projectedPayoutUsd": 7.5, "projectedPayoutPerShareUsd": 0.487056, "largestSizeUsd": 41.8, "quoteId": "q",
    "expiresAt": "2026-11-23T01:24:01Z", "deadlineAt": "2026-11-23T01:26:50Z", "endsAt": "2026-11-23T02:30:00Z",
    "startAt": None, "settlesAfter": "2026-11-23T03:30:00Z",
}  # fmt: skip
POSITION = {
    "status": "open", "stakedUsd": 5, "pnlUsd": -1, "payoutUsd": None, "currentCents": 40, "maxPayoutUsd": 10,
    "projectedPayoutUsd": 10,
}  # fmt: skip
MARKET: dict[str, Any] = {
    "category": "market_cap", "status": "open", "result": None, "odds": {"yesPriceCents": 39.5, "noPriceCents": 60.5},
    "outcomes": [{"impliedPct": 39.5, "priorPct": 36.575}, {"impliedPct": 60.5, "priorPct": 63.425}],
    "volumeUsd": 1, "volume24hUsd": 1, "totalBets": 1,
    "stats": {"totalBets": 1, "totalPoolUsd": 0.98, "yesPoolUsd": 0.98, "noPoolUsd": 0, "feeUsd": 0.02},
}  # fmt: skip
RUNG = {"key": "low", "lowerUsd": None, "upperUsd": 10, "backedUsd": 2, "isCurrent": True}
LADDER = {"currentBucketKey": "low", "currentMarketCapUsd": 9, "totalBackedUsd": 2, "outcomes": [RUNG]}
STOCK = {
    "pool": {"up": "10", "down": "5"}, "totals": {"up": "10", "down": "5", "pool": "15"}, "phase": "live",
    "winner": None, "acceptingBets": True, "headroom": {"up": "1", "down": "2"}, "positions": 1,
    "openedAt": 1, "strikeTime": 2, "finalTime": 3, "voidableAt": 4,
}  # fmt: skip
PAID = {
    "side": "UP",
    "offered": "12",
    "accepted": "10",
    "refused": "2",
    "finalized": True,
    "accrued": "15",
    "payout": "14",
    "paidOut": "14",
    "claimed": True,
    "refunded": False,
    "settlement": {"gross": "15", "fee": "1", "net": "14", "refund": "2", "total": "2"},
}
LOST = {
    "side": "DOWN",
    "offered": "5",
    "accepted": "5",
    "refused": "0",
    "finalized": True,
    "accrued": "9",
    "payout": "0",
    "paidOut": None,
    "claimed": False,
    "refunded": False,
    "settlement": {"gross": "0", "fee": "0", "net": "0", "refund": "0", "total": "0"},
}
SETTLED: dict[str, Any] = {
    "market": {"phase": "resolved", "winner": "UP", "totals": {"paidOut": "14"}},
    "positions": [PAID, LOST],
    "books": [],
}
HELD = {"side": "UP", "offered": "12", "accepted": "10", "refused": "2", "finalized": True, "accrued": "11"}
WHEEL = {
    "id": "colour", "short": "COLOUR", "poolPaper": 15,
    "outcomes": [{"poolPaper": 10, "crowdPct": 66.67}, {"poolPaper": 5, "crowdPct": 33.33}],
}  # fmt: skip
READING, HIGHER = {"answer": "100"}, {"answer": "101"}
ROUND = {
    "phase": "bet", "pocket": None, "seed": None, "commitment": COMMITMENT, "opensAt": "2026-11-23T01:24:13Z",
    "closesAt": "2026-11-23T01:24:58Z", "endsAt": "2026-11-23T01:25:03Z",
}  # fmt: skip

DOCTORED: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "yes_and_no_are_a_hundred": ({"yesPriceCents": 39.5, "noPriceCents": 60.5}, {"noPriceCents": 60.4999}),
    "paper_yes_and_no_are_a_hundred": ({"yesCents": 64.42, "noCents": 35.58}, {"noCents": 35.57}),
    "odds_of_all_outcomes_are_a_hundred": (MARKET, {"outcomes": [{"impliedPct": 39.5}, {"impliedPct": 60}]}),
    "odds_before_the_first_bet_are_a_hundred": (
        MARKET,
        {"outcomes": [{**each, "priorPct": 60} for each in MARKET["outcomes"]]},
    ),
    "the_price_of_yes_is_the_first_outcomes": (MARKET, {"odds": {"yesPriceCents": 39.4, "noPriceCents": 60.6}}),
    "the_paper_price_of_yes_is_its_outcomes": (
        {"outcomes": [{"impliedPct": 30}, {"impliedPct": 70}], "yesCents": 30, "binary": True},
        {"binary": False},
    ),
    "an_ended_market_shows_its_result_instead_of_odds": (MARKET, {"status": "resolved"}),
    "a_quotes_price_is_its_net_stake_over_its_shares": (QUOTE, {"priceCents": 47.7325}),
    "suggested_limits_leave_room_for_the_quote": (QUOTE, {"suggestedMinSharesOut": 15.4}),
    "a_larger_bet_never_pays_a_lower_price": (
        {"odds": None, "impact": [{"sizeUsd": 1, "priceCents": 40}, {"sizeUsd": 5, "priceCents": 41}]},
        {"impact": [{"sizeUsd": 1, "priceCents": 40}, {"sizeUsd": 5, "priceCents": 39}]},
    ),
    "fee_and_net_are_the_size": (QUOTE, {"netStakeUsd": 7.350001}),
    "the_fee_is_its_rate_of_the_size": (QUOTE, {"feeBps": 199}),
    "a_quotes_payout_is_what_its_shares_are_paid": (QUOTE, {"projectedPayoutPerShareUsd": 0.4871}),
    "a_paper_quotes_payout_is_what_its_shares_are_paid": (
        {"projectedPayoutPaper": 25, "projectedPayoutPerSharePaper": 0.66454, "shares": 37.62},
        {"projectedPayoutPerSharePaper": 0.68},
    ),
    "a_quote_warns_when_it_pays_less_than_the_stake": (QUOTE, {"projectedPayoutUsd": 7.4}),
    "a_winning_bet_is_never_paid_less_than_its_net_stake": (QUOTE, {"projectedPayoutUsd": 7.34}),
    "the_tier_is_that_of_the_size": (QUOTE, {"sizeUsd": 10.000001}),
    "profit_is_what_is_paid_less_what_was_staked": (POSITION, {"status": "resolved-won", "payoutUsd": 9, "pnlUsd": 5}),
    "the_lost_are_paid_nothing_and_the_refunded_their_stake": (POSITION, {"status": "resolved-lost", "payoutUsd": 1}),
    "a_positions_projected_payout_is_its_largest": (POSITION, {"maxPayoutUsd": 11}),
    "a_summary_is_the_sum_of_its_positions": (
        {
            "count": 1,
            "positions": [POSITION],
            "summary": {"openCount": 1, "resolvedCount": 0, "totalStakedUsd": 5, "totalPnlUsd": -1},
        },
        {"summary": {"openCount": 1, "resolvedCount": 0, "totalStakedUsd": 5, "totalPnlUsd": 1}},
    ),
    "who_holds_a_smallest_bet_can_bet_it": (
        {"usdcBalanceUsd": 1, "canBetMin": True, "minBetUsd": 1},
        {"usdcBalanceUsd": 0.999999},
    ),
    "winners_share_no_more_than_the_pool": (
        {"status": "resolved", "winningShares": 10, "payoutPerShareUsd": 1.2, "poolUsd": 12},
        {"poolUsd": 11.9},
    ),
    "a_pending_result_names_no_outcome": (
        {"status": "pending", "resolvedOutcome": None, "resolvedAt": None, "refunded": False},
        {"resolvedOutcome": "yes"},
    ),
    "paper_profit_is_what_is_paid_less_what_it_cost": (
        {"costPaper": 5, "status": "won", "realizedPnlPaper": 2.5, "projectedPayoutPaper": 7.5},
        {"realizedPnlPaper": 2.49},
    ),
    "what_was_projected_is_what_resolution_pays": ({"projected": 5.000001, "paid": 5.000001}, {"paid": 5}),
    "the_sides_pools_are_the_pool": (MARKET["stats"], {"noPoolUsd": 0.01}),
    "the_volume_is_the_pool_and_its_fee": (MARKET, {"volumeUsd": 1.02}),
    "a_days_volume_is_part_of_the_volume": (MARKET, {"volume24hUsd": 1.01}),
    "a_ladders_rungs_are_its_whole": (LADDER, {"totalBackedUsd": 3}),
    "the_current_rung_holds_the_current_value": (LADDER, {"currentMarketCapUsd": 10}),
    "the_ladder_holds_the_pool": ({"ladder": LADDER, "stats": {"totalPoolUsd": 2}}, {"stats": {"totalPoolUsd": 1}}),
    "a_wheels_pool_is_its_outcomes": (
        WHEEL,
        {"poolPaper": 10},
    ),
    "a_wheels_crowd_is_its_part_of_the_pool": (
        WHEEL,
        {"outcomes": [{"poolPaper": 10, "crowdPct": 66.67}, {"poolPaper": 5, "crowdPct": 0}]},
    ),
    "a_simulated_bet_joins_its_pool": (
        {
            "poolPaper": 10, "crowdPct": 0, "stakePaper": 10, "poolPaperAfter": 20, "crowdPctAfter": 50,
            "payIfWinPaper": 20,
        },
        {"crowdPctAfter": 51},
    ),
    "a_rounds_stakes_are_its_pools": (
        {"roundNo": 4, "stakedPaper": 15, "markets": [{"poolPaper": 10}, {"poolPaper": 5}]},
        {"stakedPaper": 10},
    ),
    "the_paper_ledger_sums_to_zero": (
        {"type": "export", "format": "1", "accounts": {"mint": -10, "wallet": 10}},
        {"accounts": {"mint": -10, "wallet": 9}},
    ),
    "stock_sides_are_the_pool": (STOCK, {"totals": {"up": "10", "down": "5", "pool": "16"}}),
    "stock_positions_are_the_markets": (
        {
            "market": {**STOCK, "pool": {"up": "10", "down": "0"}, "totals": {"up": "10", "down": "0", "pool": "10"}},
            "positions": [HELD],
            "books": [],
            "headroom": {"up": "1", "down": "2"},
        },
        {"headroom": {"up": "1", "down": "3"}},
    ),
    "what_is_offered_is_accepted_or_refused": (HELD, {"refused": "1"}),
    "a_stock_settlement_adds_up": (
        {"gross": "100", "fee": "2", "net": "98", "refund": "0", "total": "98"},
        {"total": "99"},
    ),
    "a_stock_position_is_sent_what_it_is_owed": (PAID, {"paidOut": "15"}),
    "a_settled_stock_market_gives_out_what_was_put_in": (SETTLED, {"positions": [{**PAID, "offered": "14"}, LOST]}),
    "what_is_accrued_is_at_least_the_stake": (HELD, {"accrued": "9"}),
    "an_owners_totals_are_her_positions": (
        {
            "owner": "0x",
            "positions": [{**HELD, "open": True}],
            "nextBefore": None,
            "totals": {"open": 1, "staked": "12", "accrued": "11"},
        },
        {"totals": {"open": 1, "staked": "12", "accrued": "12"}},
    ),
    "a_contract_holds_what_it_owes": (
        {"contract": "VestedMarkets", "balance": "10", "liabilities": "10"},
        {"balance": "9"},
    ),
    "fees_taken_are_swept_or_waiting": (
        {"feesTaken": "5", "feesAccrued": "3", "feesSwept": "2", "staked": "9", "accepted": "9"},
        {"feesSwept": "1"},
    ),
    "what_is_signed_is_what_is_requested": (
        {
            "primaryType": "ReceiveWithAuthorization",
            "nonce": "0x1",
            "message": {"value": "5", "validAfter": "0", "validBefore": "9", "nonce": "0x1"},
            "request": {"amount": "5", "validAfter": "0", "validBefore": "9"},
        },
        {"request": {"amount": "6", "validAfter": "0", "validBefore": "9"}},
    ),
    "a_count_is_the_length_of_its_list": ({"count": 1, "markets": [{}]}, {"markets": [{}, {}]}),
    "open_positions_are_counted": ({"openCount": 1, "positions": [{"status": "open"}]}, {"openCount": 2}),
    "a_board_goes_down_and_counts_its_entries": (
        {"week": None, "total": 2, "entries": [{"score": 5}, {"score": 4}]},
        {"entries": [{"score": 4}, {"score": 5}]},
    ),
    "a_rank_is_on_the_board": ({"rank": 2, "total": 2}, {"rank": 3}),
    "healthy_is_every_check": ({"ok": True, "checks": [{"ok": True}]}, {"checks": [{"ok": True}, {"ok": False}]}),
    "a_leaning_is_the_score_less_fifty": ({"score": 68.43, "lean": 18.43, "label": "bullish"}, {"label": "neutral"}),
    "a_target_is_as_far_as_its_distance": (
        {"currentMarketCapUsd": 50, "targetMarketCapUsd": 100, "reachedTarget": False, "distanceToTargetPct": 100},
        {"reachedTarget": True},
    ),
    "bets_end_before_what_decides": (QUOTE, {"startAt": "2026-11-23T01:26:00Z"}),
    "nothing_settles_before_its_end": (QUOTE, {"settlesAfter": "2026-11-23T02:29:59Z"}),
    "a_quote_has_shares_and_room": (QUOTE, {"estimatedShares": 0}),
    "a_round_opens_closes_and_ends": (ROUND, {"closesAt": "2026-11-23T01:25:04Z"}),
    "the_pocket_is_hidden_while_bets_are_taken": (ROUND, {"pocket": 17}),
    "a_seed_is_what_was_committed_to": ({**ROUND, "phase": "settled", "seed": SEED}, {"seed": "0x" + "cd" * 32}),
    "a_stock_market_goes_from_opening_to_end": (STOCK, {"finalTime": 2}),
    "only_a_resolved_market_has_a_winner": (STOCK, {"winner": "UP"}),
    "bets_are_taken_before_the_end_alone": (STOCK, {"phase": "frozen"}),
    "a_change_is_that_from_strike_to_live": (
        {"strike": READING, "live": HIGHER, "change": {"direction": "UP", "bps": "100", "text": "+1.00%"}},
        {"change": {"direction": "UP", "bps": "99", "text": "+0.99%"}},
    ),
    "an_outcome_is_what_its_readings_say": (
        {"outcome": "UP", "strike": READING, "final": HIGHER, "reason": None},
        {"outcome": "DOWN"},
    ),
    "a_reverted_bet_is_not_ok": ({"ok": True, "receipt": "confirmed", "txHash": "0x"}, {"receipt": "reverted"}),
    "an_answer_is_not_older_than_its_block": (
        {"freshness": {"blockAt": "2026-11-23T01:24:24Z"}, "generatedAt": "2026-11-23T01:24:29Z"},
        {"generatedAt": "2026-11-23T01:24:13Z"},
    ),
    "events_stand_in_order": (
        {"meta": {}, "events": [{"seq": 0}, {"seq": 1}]},
        {"events": [{"seq": 1}, {"seq": 1}]},
    ),
    "list_and_single_answer_agree": (
        {"listed": {"id": "a", "totalBets": 1}, "single": {"id": "a", "totalBets": 1, "more": 2}},
        {"single": {"id": "a", "totalBets": 2}},
    ),
    "an_answer_that_is_replayed_is_the_first": ({"first": {"a": 1}, "again": {"a": 1}}, {"again": {"a": 2}}),
}  # fmt: skip


def broken(answer: dict[str, Any]) -> set[str]:
    return {each.partition(":")[0] for each in contradictions(read(json.dumps(answer)))}


@pytest.mark.parametrize("name", DOCTORED)
def test_a_doctored_answer_is_found(name: str) -> None:
    honest, change = DOCTORED[name]
    assert broken(honest) == set()
    assert name in broken({**honest, **change})


@pytest.mark.parametrize(
    "change",
    [
        {"market": {**SETTLED["market"], "totals": {"paidOut": "13"}}},
        {"positions": [{**PAID, "accrued": "16"}, LOST]},
        {"positions": [{**PAID, "settlement": {**PAID["settlement"], "fee": "3"}}, LOST]},  # type: ignore[dict-item]
        {"positions": [PAID, {**LOST, "settlement": PAID["settlement"]}]},
        {"market": {**SETTLED["market"], "phase": "void", "winner": None}},
    ],
    ids=["the logged sum", "another promise", "a fee of its own", "a loser's payout", "a void"],
)
def test_a_settlement_that_does_not_add_up_is_found(change: dict[str, Any]) -> None:
    assert "a_settled_stock_market_gives_out_what_was_put_in" in broken({**SETTLED, **change})


def test_every_relation_is_tried() -> None:
    assert sorted(DOCTORED) == sorted(each.name for each in RELATIONS)
