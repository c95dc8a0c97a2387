"""An agent market's page: its odds and their history, its rules, and how an agent bets on it."""

from __future__ import annotations

from decimal import Decimal

from aiohttp import web

from api.agent.reads import AgentReads
from api.operations import Json
from api.web import figures
from api.web.charts import Chart, ChartLine, Level, Unit
from api.web.templating import Pages, exact


async def agent_market_page(pages: Pages, reads: AgentReads, request: web.Request) -> web.StreamResponse:
    name = request.match_info["id"]
    await reads.result_of(name)  # an unknown name must raise before the cache gets an entry

    async def render() -> bytes:
        bundle = exact(await reads.research_bundle(name))
        odds, readings = odds_chart(bundle), reading_chart(bundle)
        return pages.render(
            "agent.html",
            path="/",
            bundle=bundle,
            market=bundle["market"],
            result=exact(await reads.result_of(name)),
            settles=await reads.is_supported(name),
            now=figures.unix(bundle["dataFreshness"]["oddsAt"]),
            odds_chart=None if odds is None else odds.draw("odds"),
            reading_chart=None if readings is None else readings.draw("reading"),
        )

    return await pages.answer(request, ("agent", name), reads.stamp, render)


def odds_chart(bundle: Json) -> Chart | None:
    """Chart the price of both outcomes after every bet, or return None if there are no bets or more than two
    outcomes."""
    market = bundle["market"]
    if market["odds"] is None or market["odds"]["yesPriceCents"] is None:
        return None
    label, other = (each["label"] for each in market["outcomes"])
    known = [each for each in bundle["oddsHistory"] if each["yesPct"] is not None]
    if not known:
        return None
    points = [(figures.unix(each["at"]), int(each["yesPct"] * 100)) for each in known]
    present = int(Decimal(market["odds"]["yesPriceCents"]) * 100)
    prior = int(Decimal(market["outcomes"][0]["priorPct"]) * 100)
    start, end = points[0][0], max(figures.unix(bundle["dataFreshness"]["oddsAt"]), points[-1][0])
    points = [(start, prior), *points, (end, present)]
    against = [(at, 10_000 - value) for at, value in points]
    shown = [value for _, value in (*points, *against)]
    return Chart(
        title=f"Prices of {label} and {other}",
        summary=f"{label} is at {_hundredths(present)} after {len(points) - 2} bets.",
        lines=[ChartLine(against, "quiet", label=other), ChartLine(points, "main", label=label)],
        start=start,
        end=end,
        unit=Unit(100, 2, after="%"),
        levels=[
            Level(present, f"{label} {_hundredths(present)}", "main"),
            Level(10_000 - present, f"{other} {_hundredths(10_000 - present)}", "quiet"),
        ],
        # Five points of margin, so that a small move does not look like a large one.
        floor=max(0, min(shown) - 500),
        ceiling=min(10_000, max(shown) + 500),
    )


def reading_chart(bundle: Json) -> Chart | None:
    """Chart the readings of the market's feed, with the target if there is one."""
    valued = [each for each in bundle["observations"] if each["value"] is not None]
    if len(valued) < 2:
        return None
    points = sorted((figures.unix(each["observedAt"]), int(Decimal(each["value"]) * 100)) for each in valued)
    last = max(valued, key=lambda each: str(each["observedAt"]))
    levels = [Level(points[-1][1], f"now {last['label']}", "main")]
    target = bundle["market"]["targetMarketCapUsd"]
    if target is not None:
        levels.append(Level(int(Decimal(target) * 100), f"target {bundle['resolutionRules']['thresholdLabel']}"))
    return Chart(
        title=f"{bundle['market']['tokenSymbol']} market cap",
        summary=f"The last reading is {last['label']}.",
        lines=[ChartLine(points, "main")],
        start=points[0][0],
        end=points[-1][0],
        unit=Unit(100, 0, before="$"),
        levels=levels,
    )


def _hundredths(percent: int) -> str:
    """Format hundredths of a percent. Nothing is rounded, so the prices of both sides add up to 100%."""
    return f"{percent // 100}.{percent % 100:02d}%"
