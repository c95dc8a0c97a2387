"""Paper bets while the API is away: the same request is sent again, also after a reload, and counts once."""

from __future__ import annotations

import re
import time

import pytest
from playwright.sync_api import Page, Route, expect

from tests.browser.conftest import Visit, Visitor
from tests.browser.site import Site
from tests.waiting import PATIENCE


class Away:
    """The API as a page finds it: the first answer to `pattern` is lost on its way back, and then there is none until
    `back`."""

    def __init__(self, page: Page, pattern: str) -> None:
        self.sent: list[str] = []
        self.status = 0
        self._page = page
        self._is_back = False
        page.route(pattern, self._answer)

    def _answer(self, route: Route) -> None:
        self.sent.append(str(route.request.post_data))
        if self._is_back:
            route.continue_()
            return
        if not self.status:
            self.status = route.fetch().status
        route.abort()

    def back(self) -> None:
        self._is_back = True

    def asked(self, times: int) -> None:
        deadline = time.monotonic() + PATIENCE
        while len(self.sent) < times:
            assert time.monotonic() < deadline, f"it was sent {len(self.sent)} times"
            self._page.wait_for_timeout(100)


def _player(visit: Visit, path: str) -> str:
    """The address of a new key of the browser, with its paper money."""
    visit.open("/cup")
    page = visit.page
    page.get_by_role("button", name="Use a key in this browser").click()
    page.get_by_role("button", name="Claim 10,000 pUSDC").click()
    expect(page.locator("#claim-status")).to_have_text("You have 10,000 pUSDC.")
    address = str(page.locator("#wallet-button").get_attribute("title")).split(":")[0].lower()
    if path != "/cup":
        visit.open(path)
    return address


def test_a_paper_trade_survives_a_reload_and_counts_once(site: Site, visitor: Visitor) -> None:
    site.until("/api/cup/v1/markets", lambda body: body["count"] >= 2)
    visit = visitor.visit()
    wallet = _player(visit, "/cup")
    page = visit.page
    away = Away(page, "**/api/cup/v1/trade")
    page.get_by_role("button", name="Sign and trade").click()
    expect(page.locator("#paper-status")).to_have_text("No connection. Sending the same trade again…")
    away.asked(2)
    page.reload()
    away.asked(3)
    expect(page.locator("#paper-status")).to_have_text("No connection. Sending the same trade again…")
    expect(page.get_by_role("button", name="Sign and trade")).to_be_disabled()
    away.back()
    expect(page.locator("#paper-status")).to_have_text(re.compile(r"^Done: 25 pUSDC.*Balance 9975\.00 pUSDC"))
    assert away.status == 200
    assert len(set(away.sent)) == 1, "another body would be another trade"
    held = site.get(f"/api/cup/v1/wallet/{wallet}")
    assert [each["costPaper"] for each in held["positions"]] == [25]
    page.reload()
    expect(page.locator("#paper-status")).to_have_text("")


def test_a_trade_with_an_unreadable_answer_is_sent_again_unchanged(site: Site, visitor: Visitor) -> None:
    """A proxy answered in the service's place: pressing again sends the same trade and does not trade twice."""
    site.until("/api/cup/v1/markets", lambda body: body["count"] >= 2)
    visit = visitor.visit()
    wallet = _player(visit, "/cup")
    page = visit.page

    def in_between(route: Route) -> None:
        route.fetch()
        route.fulfill(status=200, json={})

    page.route("**/api/cup/v1/trade", in_between)
    page.get_by_role("button", name="Sign and trade").click()
    expect(page.locator("#paper-status")).to_have_text(
        "That did not work. It is safe to try again: it counts only once."
    )
    page.unroute("**/api/cup/v1/trade")
    page.get_by_role("button", name="Sign and trade").click()
    expect(page.locator("#paper-status")).to_have_text(re.compile(r"^Done: 25 pUSDC.*Balance 9975\.00 pUSDC"))
    assert [each["costPaper"] for each in site.get(f"/api/cup/v1/wallet/{wallet}")["positions"]] == [25]


@pytest.mark.thorough
def test_a_paper_trade_after_the_deadline_takes_nothing(site: Site, visitor: Visitor) -> None:
    slug = site.open_agent_market("bnkr-paper-closes-early")
    paper = site.until("/api/cup/v1/markets", lambda body: any(each["slug"] == slug for each in body["markets"]), 30)
    assert paper["count"] >= 3
    visit = visitor.visit("phone", "dark")
    wallet = _player(visit, "/cup")
    page = visit.page
    page.route("**/api/cup/v1/trade", lambda route: route.abort())
    page.locator("#paper-market").select_option(slug)
    page.get_by_role("button", name="Sign and trade").click()
    expect(page.locator("#paper-status")).to_have_text("No connection. Sending the same trade again…")
    site.end_paper_trades(slug)
    site.until("/api/cup/v1/markets", lambda body: all(each["slug"] != slug for each in body["markets"]))
    page.reload()
    expect(page.locator("#paper-status")).to_have_text("No connection. Sending the same trade again…")
    page.unroute("**/api/cup/v1/trade")
    expect(page.locator("#paper-status")).to_have_class(re.compile("bad"))
    expect(page.locator("#paper-status")).to_have_text(
        "Trading on this market has ended, or has not begun yet. Nothing was traded."
    )
    held = site.get(f"/api/cup/v1/wallet/{wallet}")
    assert (held["balancePaper"], held["positions"]) == (10_000, [])
    page.reload()
    expect(page.locator("#paper-status")).to_have_text("")


@pytest.mark.thorough
def test_a_roulette_bet_survives_a_reload_and_counts_once(site: Site, visitor: Visitor) -> None:
    visit = visitor.visit()
    wallet = _player(visit, "/roulette")
    live = site.betting(25)
    page = visit.page
    seven = page.locator('#bet-table input[value="num:7:yes"]')
    expect(seven).to_be_enabled()  # an open page learns of a new round a little later
    seven.check(force=True)
    expect(page.locator("#p-paid")).to_have_text(re.compile(r"^\d"))  # what it would be comes by the same path
    away = Away(page, "**/api/cup/v1/roulette/bet")
    page.get_by_role("button", name="Sign and bet").click()
    expect(page.locator("#play-status")).to_have_text(re.compile("^No connection. Sending the same bet again"))
    away.asked(2)
    page.reload()
    away.asked(3)
    expect(page.get_by_role("button", name="Sign and bet")).to_be_disabled()
    away.back()
    placed = re.compile(r"^Bet placed: 25 pUSDC on num:7:yes in round \d+\. Balance 9975")
    expect(page.locator("#play-status")).to_have_text(placed)
    assert away.status == 200
    assert len(set(away.sent)) == 1
    body = site.get(f"/api/cup/v1/roulette?wallet={wallet}")
    if body["roundNo"] == live["roundNo"]:
        assert [each["betKey"] for each in body["bets"]] == ["num:7:yes"]
    page.reload()
    expect(page.locator("#play-status")).to_have_text("")


@pytest.mark.thorough
def test_a_late_roulette_bet_is_not_placed_on_the_next_round(site: Site, visitor: Visitor) -> None:
    visit = visitor.visit()
    wallet = _player(visit, "/roulette")
    live = site.betting(8)
    page = visit.page
    page.route("**/api/cup/v1/roulette/bet", lambda route: route.abort())
    page.get_by_role("button", name="Sign and bet").click()
    expect(page.locator("#play-status")).to_have_text(re.compile("^No connection"))
    site.end_round()
    site.until("/api/cup/v1/roulette", lambda body: body["roundNo"] > live["roundNo"], 70)
    page.unroute("**/api/cup/v1/roulette/bet")
    expect(page.locator("#play-status")).to_have_text(
        f"Too late for this round. Nothing was staked: 25 pUSDC on colour:red in round {live['roundNo']}."
    )
    assert site.get(f"/api/cup/v1/wallet/{wallet}")["balancePaper"] == 10_000


@pytest.mark.parametrize(
    ("path", "field"),
    [("/cup", "Amount in pUSDC"), ("/roulette", "Stake in pUSDC"), ("/markets/{binary}", "Amount in USDC")],
)
def test_quotes_are_requested_once_a_visitor_starts_to_bet(site: Site, visitor: Visitor, path: str, field: str) -> None:
    """Quotes are limited for each address, so a visitor who only reads uses none of them."""
    site.betting(10)
    visit = visitor.visit()
    asked: list[str] = []
    quotes = re.compile("/quote|/roulette/bet")
    visit.page.on("request", lambda request: asked.append(request.url) if quotes.search(request.url) else None)
    visit.open(path.format(**site.slugs))
    visit.page.wait_for_timeout(300)
    assert asked == []
    visit.page.get_by_label(field).focus()
    expect(visit.page.locator("#paper-paid, #p-paid, #a-paid")).to_have_text(re.compile(r"^\d"))
    visit.page.get_by_label(field).blur()
    visit.page.get_by_label(field).focus()
    visit.page.wait_for_timeout(600)  # longer than a change waits before it asks
    assert len(asked) == 1
    visit.clean()
