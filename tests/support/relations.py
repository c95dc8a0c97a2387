"""How the amounts of one answer must relate to each other, as a list to be read from top to bottom.

A relation names the fields it is about and says what holds between them. It is checked on every object of an answer,
however deep, that has all those fields. Numbers are read as decimals, so the comparison is exact.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

Object = dict[str, Any]

CENT, UNIT = Decimal("0.01"), Decimal("0.000001")
PRICE = Decimal("0.0001")  # the last place of a price in cents, and of a percentage
HUNDRED = Decimal(100)


@dataclass(frozen=True)
class Relation:
    """A sentence about the fields of one object. `holds` is called only where all of them are present."""

    name: str
    fields: frozenset[str]
    holds: Callable[[Object], bool]


RELATIONS: list[Relation] = []


def between(*fields: str) -> Callable[[Callable[[Object], bool]], Callable[[Object], bool]]:
    def listed(holds: Callable[[Object], bool]) -> Callable[[Object], bool]:
        RELATIONS.append(Relation(holds.__name__, frozenset(fields), holds))
        return holds

    return listed


def contradictions(answer: object, asked: dict[str, int] | None = None) -> list[str]:
    """Return the relations that an answer breaks, each with the object that breaks it. `asked` counts the checks."""
    found = []
    for each in objects(answer):
        for relation in RELATIONS:
            if relation.fields <= each.keys():
                if asked is not None:
                    asked[relation.name] = asked.get(relation.name, 0) + 1
                if not relation.holds(each):
                    shown = {name: each[name] for name in sorted(relation.fields)}
                    found.append(f"{relation.name}: {json.dumps(shown, default=str)[:1500]}")
    return found


def read(text: str | bytes) -> Any:
    """JSON with its numbers as they are written."""
    return json.loads(text, parse_float=Decimal, parse_int=Decimal)


def objects(value: object) -> Iterator[Object]:
    if isinstance(value, dict):
        yield value
        for each in value.values():
            yield from objects(each)
    elif isinstance(value, list):
        for each in value:
            yield from objects(each)


def near(one: Decimal, other: Decimal, within: Decimal) -> bool:
    return abs(one - other) <= within


def whole(text: str | None) -> int:
    return int(text or 0)


# ---------------------------------------------------------------- prices


@between("yesPriceCents", "noPriceCents")
def yes_and_no_are_a_hundred(it: Object) -> bool:
    yes, no = it["yesPriceCents"], it["noPriceCents"]
    return (yes is None) == (no is None) and (yes is None or yes + no == HUNDRED)


@between("yesCents", "noCents")
def paper_yes_and_no_are_a_hundred(it: Object) -> bool:
    return bool(it["yesCents"] + it["noCents"] == HUNDRED)


@between("outcomes")
def odds_of_all_outcomes_are_a_hundred(it: Object) -> bool:
    odds = [each["impliedPct"] for each in it["outcomes"] or [] if "impliedPct" in each]
    return not odds or all(each is None for each in odds) or sum(odds) == HUNDRED


@between("outcomes")
def odds_before_the_first_bet_are_a_hundred(it: Object) -> bool:
    priors = [each["priorPct"] for each in it["outcomes"] or [] if "priorPct" in each]
    return not priors or sum(priors) == HUNDRED


@between("outcomes", "odds", "category")
def the_price_of_yes_is_the_first_outcomes(it: Object) -> bool:
    odds = it["odds"]
    if it["category"] == "market_cap_range" or odds is None:
        return odds is None or odds["yesPriceCents"] is None
    return [each["impliedPct"] for each in it["outcomes"]] == [odds["yesPriceCents"], odds["noPriceCents"]]


@between("outcomes", "yesCents", "binary")
def the_paper_price_of_yes_is_its_outcomes(it: Object) -> bool:
    odds = [each["impliedPct"] for each in it["outcomes"]]
    return bool(it["yesCents"] == (odds[0] if it["binary"] else max(odds)))


@between("odds", "result", "status")
def an_ended_market_shows_its_result_instead_of_odds(it: Object) -> bool:
    ended = it["status"] in ("resolved", "void")
    return (it["result"] is not None) == ended and (it["odds"] is None) == ended


@between("priceCents", "estimatedShares", "netStakeUsd")
def a_quotes_price_is_its_net_stake_over_its_shares(it: Object) -> bool:
    return near(it["priceCents"] * it["estimatedShares"] / 100, it["netStakeUsd"], it["estimatedShares"] * PRICE / 50)


# ---------------------------------------------------------------- money


@between("feeUsd", "netStakeUsd", "sizeUsd")
def fee_and_net_are_the_size(it: Object) -> bool:
    return bool(it["feeUsd"] + it["netStakeUsd"] == it["sizeUsd"])


@between("feeBps", "feeUsd", "sizeUsd")
def the_fee_is_its_rate_of_the_size(it: Object) -> bool:
    return near(it["sizeUsd"] * it["feeBps"] / 10_000, it["feeUsd"], UNIT)


@between("projectedPayoutUsd", "projectedPayoutPerShareUsd", "estimatedShares")
def a_quotes_payout_is_what_its_shares_are_paid(it: Object) -> bool:
    each = it["projectedPayoutPerShareUsd"]
    return each is None or near(
        each * it["estimatedShares"], it["projectedPayoutUsd"], it["estimatedShares"] * 2 * UNIT
    )


@between("projectedPayoutPaper", "projectedPayoutPerSharePaper", "shares")
def a_paper_quotes_payout_is_what_its_shares_are_paid(it: Object) -> bool:
    within = it["shares"] * CENT / 1000 + it["projectedPayoutPerSharePaper"] * CENT + CENT
    return near(it["projectedPayoutPerSharePaper"] * it["shares"], it["projectedPayoutPaper"], within)


@between("projectedPayoutUsd", "warnings", "netStakeUsd", "sizeUsd")
def a_quote_warns_when_it_pays_less_than_the_stake(it: Object) -> bool:
    told = "pays_less_than_stake" in [each["code"] for each in it["warnings"]]
    return bool(told == (it["projectedPayoutUsd"] < it["sizeUsd"]))


@between("projectedPayoutUsd", "netStakeUsd")
def a_winning_bet_is_never_paid_less_than_its_net_stake(it: Object) -> bool:
    return bool(it["projectedPayoutUsd"] >= it["netStakeUsd"])


@between("stakedUsd", "pnlUsd", "status", "payoutUsd", "currentCents", "maxPayoutUsd")
def profit_is_what_is_paid_less_what_was_staked(it: Object) -> bool:
    if it["status"] != "open":
        return it["payoutUsd"] is not None and it["pnlUsd"] == it["payoutUsd"] - it["stakedUsd"]
    worth = it["currentCents"] / 100 * it["maxPayoutUsd"]
    return near(it["pnlUsd"], worth - it["stakedUsd"], it["maxPayoutUsd"] * PRICE / 100 + UNIT)


@between("status", "payoutUsd", "stakedUsd")
def the_lost_are_paid_nothing_and_the_refunded_their_stake(it: Object) -> bool:
    owed = {"open": None, "resolved-lost": 0, "resolved-refunded": it["stakedUsd"]}
    return it["status"] not in owed or it["payoutUsd"] == owed[it["status"]]


@between("summary", "positions", "count")
def a_summary_is_the_sum_of_its_positions(it: Object) -> bool:
    """Where all of them are on the page."""
    summary, positions = it["summary"], it["positions"]
    if summary["openCount"] + summary["resolvedCount"] != it["count"]:
        return bool(summary["openCount"] + summary["resolvedCount"] > it["count"])
    return bool(
        summary["openCount"] == sum(each["status"] == "open" for each in positions)
        and summary["totalStakedUsd"] == sum(each["stakedUsd"] for each in positions)
        and summary["totalPnlUsd"] == sum(each["pnlUsd"] for each in positions)
    )


@between("winningShares", "payoutPerShareUsd", "poolUsd", "status")
def winners_share_no_more_than_the_pool(it: Object) -> bool:
    each = it["payoutPerShareUsd"]
    return each is None or each * it["winningShares"] <= it["poolUsd"] + UNIT


@between("costPaper", "status", "realizedPnlPaper", "projectedPayoutPaper")
def paper_profit_is_what_is_paid_less_what_it_cost(it: Object) -> bool:
    return bool(
        it["realizedPnlPaper"] == (0 if it["status"] == "open" else it["projectedPayoutPaper"] - it["costPaper"])
    )


# ---------------------------------------------------------------- pools


@between("totalPoolUsd", "yesPoolUsd", "noPoolUsd")
def the_sides_pools_are_the_pool(it: Object) -> bool:
    return bool(it["yesPoolUsd"] + it["noPoolUsd"] == it["totalPoolUsd"])


@between("stats", "volumeUsd", "totalBets")
def the_volume_is_the_pool_and_its_fee(it: Object) -> bool:
    stats = it["stats"]
    return bool(it["volumeUsd"] == stats["totalPoolUsd"] + stats["feeUsd"] and it["totalBets"] == stats["totalBets"])


@between("volumeUsd", "volume24hUsd")
def a_days_volume_is_part_of_the_volume(it: Object) -> bool:
    return bool(0 <= it["volume24hUsd"] <= it["volumeUsd"])


@between("totalBackedUsd", "outcomes")
def a_ladders_rungs_are_its_whole(it: Object) -> bool:
    return bool(sum(each["backedUsd"] for each in it["outcomes"]) == it["totalBackedUsd"])


@between("ladder", "stats")
def the_ladder_holds_the_pool(it: Object) -> bool:
    return it["ladder"] is None or it["stats"] is None or it["ladder"]["totalBackedUsd"] == it["stats"]["totalPoolUsd"]


@between("id", "short", "poolPaper", "outcomes")
def a_wheels_pool_is_its_outcomes(it: Object) -> bool:
    return bool(sum(each["poolPaper"] for each in it["outcomes"]) == it["poolPaper"])


@between("stakedPaper", "markets", "roundNo")
def a_rounds_stakes_are_its_pools(it: Object) -> bool:
    return bool(sum(each["poolPaper"] for each in it["markets"]) == it["stakedPaper"])


@between("id", "short", "poolPaper", "outcomes")
def a_wheels_crowd_is_its_part_of_the_pool(it: Object) -> bool:
    """All parts together are the pool; nobody is no crowd."""
    pool, outcomes = it["poolPaper"], it["outcomes"]
    parts = [each["poolPaper"] * 100 / pool if pool else Decimal(0) for each in outcomes]
    return all(near(each["crowdPct"], part, CENT) for each, part in zip(outcomes, parts, strict=True))


@between("crowdPct", "crowdPctAfter", "poolPaper", "poolPaperAfter", "stakePaper", "payIfWinPaper")
def a_simulated_bet_joins_its_pool(it: Object) -> bool:
    """Of the market's pool, its key's part grows by the stake, and the win is the stake's part of that."""
    pool, after, stake = it["poolPaper"], it["poolPaperAfter"], it["stakePaper"]
    on_key = it["crowdPct"] * pool / 100 + stake
    within = CENT * after / 100
    return bool(
        after == pool + stake
        and near(it["crowdPctAfter"] * after / 100, on_key, within)
        and stake <= it["payIfWinPaper"] <= after
    )


@between("pool", "totals", "phase")
def stock_sides_are_the_pool(it: Object) -> bool:
    pool, totals = it["pool"], it["totals"]
    return (pool["up"], pool["down"]) == (totals["up"], totals["down"]) and whole(pool["up"]) + whole(
        pool["down"]
    ) == whole(totals["pool"])


@between("market", "positions", "books", "headroom")
def stock_positions_are_the_markets(it: Object) -> bool:
    """As many as it counts; what is accepted of each side is its pool; the room is told once."""
    sides = {"UP": 0, "DOWN": 0}
    for each in it["positions"]:
        sides[each["side"]] += whole(each["accepted"])
    market = it["market"]
    return (
        len(it["positions"]) == market["positions"]
        and sides == {"UP": whole(market["pool"]["up"]), "DOWN": whole(market["pool"]["down"])}
        and it["headroom"] == market["headroom"]
    )


@between("offered", "accepted", "refused", "finalized")
def what_is_offered_is_accepted_or_refused(it: Object) -> bool:
    if not it["finalized"]:
        return it["accepted"] is None or whole(it["accepted"]) <= whole(it["offered"])
    return whole(it["accepted"]) + whole(it["refused"]) == whole(it["offered"])


@between("gross", "fee", "net", "refund", "total")
def a_stock_settlement_adds_up(it: Object) -> bool:
    gross, fee, net, refund, total = (whole(it[name]) for name in ("gross", "fee", "net", "refund", "total"))
    return gross - fee == net and total <= net + refund


@between("settlement", "payout", "paidOut", "offered", "claimed", "refunded")
def a_stock_position_is_sent_what_it_is_owed(it: Object) -> bool:
    """By the books, by the transfer that was logged, and what of it is still to come."""
    due = {name: whole(it["settlement"][name]) for name in ("net", "refund", "total")}
    unsent = (0 if it["claimed"] else due["net"]) + (0 if it["refunded"] else due["refund"])
    return (
        it["payout"] in (None, it["settlement"]["net"])
        and it["paidOut"] in (None, it["payout"])
        and due["total"] == unsent
    )


@between("market", "positions", "books")
def a_settled_stock_market_gives_out_what_was_put_in(it: Object) -> bool:
    """Payouts, fees and refunds are the deposits; the winners' fractions of a unit stay. A winner is paid what it had
    accrued, and a void gives everything back."""
    market, positions = it["market"], it["positions"]
    if market["phase"] not in ("resolved", "void"):
        return True
    void = market["phase"] == "void"
    winners = [each for each in positions if each["side"] == market["winner"]]
    given = sum(whole(each["settlement"][name]) for each in positions for name in ("net", "fee", "refund"))
    kept = sum(whole(each["offered"]) for each in positions) - given
    return (
        0 <= kept <= len(winners)
        and sum(whole(each["paidOut"]) for each in positions) == whole(market["totals"]["paidOut"])
        and all(
            whole(each["settlement"]["gross"])
            == whole(each["accepted" if void else "accrued"]) * (void or each["side"] == market["winner"])
            for each in positions
        )
    )


@between("accrued", "accepted", "side")
def what_is_accrued_is_at_least_the_stake(it: Object) -> bool:
    return whole(it["accrued"]) >= whole(it["accepted"])


@between("owner", "positions", "totals", "nextBefore")
def an_owners_totals_are_her_positions(it: Object) -> bool:
    """Where all of them are on the page: the open ones are as many as are counted."""
    positions, totals = it["positions"], it["totals"]
    if it["nextBefore"] is not None or sum(each["open"] for each in positions) != totals["open"]:
        return bool(sum(each["open"] for each in positions) <= totals["open"])
    return sum(whole(each["offered"]) for each in positions) <= whole(totals["staked"]) and sum(
        whole(each["accrued"]) for each in positions if each["open"]
    ) == whole(totals["accrued"])


@between("balance", "liabilities", "contract")
def a_contract_holds_what_it_owes(it: Object) -> bool:
    return whole(it["balance"]) >= whole(it["liabilities"])


@between("feesTaken", "feesAccrued", "feesSwept", "staked", "accepted")
def fees_taken_are_swept_or_waiting(it: Object) -> bool:
    return whole(it["feesTaken"]) == whole(it["feesAccrued"]) + whole(it["feesSwept"]) and whole(
        it["accepted"]
    ) <= whole(it["staked"])


@between("request", "message", "nonce", "primaryType")
def what_is_signed_is_what_is_requested(it: Object) -> bool:
    request, message = it["request"], it["message"]
    return (message["value"], message["validAfter"], message["validBefore"], message["nonce"]) == (
        request["amount"],
        request["validAfter"],
        request["validBefore"],
        it["nonce"],
    )


# ---------------------------------------------------------------- what decides


@between("outcome", "strike", "final", "reason")
def an_outcome_is_what_its_readings_say(it: Object) -> bool:
    if it["outcome"] == "VOID" or it["strike"] is None or it["final"] is None:
        return bool(it["outcome"] == "VOID")
    strike, final = whole(it["strike"]["answer"]), whole(it["final"]["answer"])
    return bool(it["outcome"] == ("UP" if final > strike else "DOWN" if final < strike else "FLAT"))
