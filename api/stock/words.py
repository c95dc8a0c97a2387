"""The texts of the stock surface: questions, phases, rules, and problems with readings. Times are in UTC."""

from __future__ import annotations

from api.stock.bodies import RulesBody, RuleSegment
from api.stock.facts import FAMILIES, SIDES, ListedMarket, Phase
from core.contracts.statuses import RoundProblem
from core.feeds.rounds import MAX_PHASES, TOO_HIGH
from core.iso import LAST_SECOND, date_text, utc_datetime
from core.money import decimal_text

PRICE_DECIMALS = 8

_PROBLEMS: dict[int, str] = {
    RoundProblem.OK: "the reading is missing",
    RoundProblem.NO_FEED: "there is no contract at the feed's address",
    RoundProblem.LATEST_UNREADABLE: "the feed's latest round cannot be read",
    RoundProblem.NO_PHASE: "the feed's round ids carry no phase",
    RoundProblem.NO_ROUND: "the feed has no round at or before this time",
    RoundProblem.TOO_MANY_PHASES: f"none of the feed's last {MAX_PHASES} phases has a round at or before this time",
}


def utc(at: int) -> str:
    """Format a time like `21 Nov 2026 14:30 UTC`. Seconds are shown only if they are not zero. The contracts accept
    times beyond the calendar; such a time becomes `Unix second 300000000000`."""
    return f"{date_text(utc_datetime(at))} UTC" if at <= LAST_SECOND else f"Unix second {at}"


def span(seconds: int) -> str:
    """Format a duration in its largest whole unit, like `72 hours`."""
    for unit, size in (("hour", 3600), ("minute", 60)):
        if seconds >= size and seconds % size == 0:
            count = seconds // size
            return f"{count} {unit}{'' if count == 1 else 's'}"
    return f"{seconds} s"


def question(market: ListedMarket) -> str:
    return f"Will {market.ticker} be higher at {utc(market.final_time)} than at {utc(market.strike_time)}?"


def status(phase: Phase, winner: int | None) -> str:
    return f"resolved {SIDES[winner or 0]}" if phase is Phase.RESOLVED else _STATUSES[phase]


_STATUSES = {
    Phase.OPENS: "opens, taking bets before the strike",
    Phase.LIVE: "live, taking bets until the bell",
    Phase.FROZEN: "frozen, waiting for its resolution",
    Phase.VOID: "void",
}
UNREADABLE = "the feed cannot be read right now; this is its last good round"


def problem(code: int) -> str:
    """Explain why a feed has no reading, by the code that `findRound` returned."""
    return _PROBLEMS.get(code, "unknown")


def reading_problem(answer: int, age: int, max_age: int) -> str | None:
    """Explain what is wrong with a round, or return None. Ages are in seconds."""
    if not 0 < answer < TOO_HIGH:
        return f"the answer {answer} is not a price"
    if age > max_age:
        return f"the round was {span(age)} old, more than the {span(max_age)} allowed"
    return None


def price(answer: int) -> str:
    return decimal_text(answer, PRICE_DECIMALS, min_decimals=2)


def change_text(bps: int, difference: int) -> str:
    """Format a change like `+0.42% (+0.79)`. `bps`: the change in basis points, rounded towards zero. `difference`: the
    difference between the oracle's answers."""
    sign = "-" if difference < 0 else "+"
    percent = f"{sign}{abs(bps) // 100}.{abs(bps) % 100:02d}%"
    return f"{percent} ({sign}{price(abs(difference))})"


def rules(market: ListedMarket) -> RulesBody:
    terms = market.market.terms
    segments = [
        (
            "Price",
            f"The price comes from the Chainlink feed at {market.feed}. The reading at a time is the feed's last round "
            "updated at or before that time.",
        ),
        (
            "Outcome",
            f"UP if the reading at {utc(market.final_time)} is above the one at {utc(market.strike_time)}, DOWN if it "
            "is below. Equal readings void the market.",
        ),
        (
            "Bets",
            f"Bets are accepted until {utc(terms.freeze_time)}. Every accepted stake is promised at once to the stakes "
            f"already on the other side. A side can win at most {terms.kappa} times its own stakes from the other; "
            "anything beyond that is returned.",
        ),
        (
            "Payout",
            "A winning position is paid its stake plus everything promised to it. The fee is "
            f"{decimal_text(terms.fee_bps, 2)}% of the profit; stakes, refunds and losses carry no fee.",
        ),
        (
            "Refunds",
            "Every stake is returned if a reading was too old (more than "
            f"{span(market.max_strike_age)} at the strike, {span(market.max_final_age)} at the final time), was not a "
            "price or came from an outage of the chain; if the stock's oracle was paused at the time of a reading; if "
            "the stock's multiplier changed between the readings (a split or dividend); or if no one settled the "
            f"market by {utc(market.voidable_at)}.",
        ),
    ]
    return RulesBody(
        heading=f"Rules of this {FAMILIES[market.family]} {market.ticker} market",
        segments=[RuleSegment(title=title, text=text) for title, text in segments],
        text="\n".join(f"{title}: {text}" for title, text in segments),
    )
