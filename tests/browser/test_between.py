"""What lies between a reader and the service: firewalls, another country's line, a wrong clock, a book that moved."""

from __future__ import annotations

import re
from typing import Any

import pytest
from eth_account import Account
from playwright.sync_api import Page, Route, expect
from vpm_client import Client

from scripts._stack import wallets
from scripts._stack.wallets import Wallet
from tests.browser.conftest import Visitor
from tests.browser.site import Site
from tests.browser.wallet import PageWallet
from tests.support.client_libraries import strangers

DEV = wallets.DEV
TRADE = "**/api/agent/v1/trade"
RELAY = "**/api/relay/enter"
WRONG_CLOCK = """
const Right = Date;
globalThis.Date = class extends Right {
  constructor(...given) { if (given.length) super(...given); else super(Right.now() + 600_000); }
  static now() { return Right.now() + 600_000; }
};
"""

NO_STORAGE = """
Object.defineProperty(window, "localStorage", { get() { throw new DOMException("Site data is blocked."); } });
"""


def _priced(visitor: Visitor, slug: str, amount: str, who: Wallet, *, before: str = "") -> Page:
    """An agent market's page with its price shown. Each test has its own wallet: one may trade ten times a minute.
    `before`: a script that runs before those of the page."""
    visit, _ = visitor.with_wallet(who)
    visit.page.add_init_script(before)
    visit.open(f"/markets/{slug}")
    page = visit.page
    page.get_by_label("Amount in USDC").fill(amount)
    expect(page.locator("#a-paid")).to_have_text(re.compile("USDC"))
    return page


def _held(who: Wallet) -> str:
    return f"/api/agent/v1/positions?wallet={who.address}"


def _stakes(site: Site, slug: str, who: Wallet) -> int:
    return sum(each["slug"] == slug for each in site.get(_held(who))["positions"])


def _bet(page: Page) -> None:
    page.get_by_role("button", name="Sign and bet").click()


@pytest.mark.thorough
def test_an_agent_bet_is_at_the_price_that_was_shown(site: Site, visitor: Visitor) -> None:
    slug = site.open_agent_market("bnkr-book-moves")
    page = _priced(visitor, slug, "2", DEV[1])
    shown = page.locator("#a-shares").inner_text()
    another = Account.from_key(DEV[4].private_key)
    with strangers() as http:
        Client(site.url, another, http=http).bet(slug, "yes", 60, final=False)
    site.until(f"/api/agent/v1/markets/{slug}", lambda body: body["market"]["volumeUsd"] == 60)
    expect(page.locator("#a-shares")).to_have_text(shown)
    _bet(page)
    expect(page.locator("#a-status")).to_contain_text("slippage_exceeded")
    expect(page.locator("#a-shares")).not_to_have_text(shown)
    expect(page.locator("#a-shares")).to_have_text(re.compile("at"))
    assert _stakes(site, slug, DEV[1]) == 0
    _bet(page)
    expect(page.locator("#a-status")).to_have_text(re.compile(r"^Bet placed: 2\.00 USDC on yes"))


@pytest.mark.thorough
def test_a_signed_agent_bet_comes_before_another(site: Site, visitor: Visitor) -> None:
    slug = site.open_agent_market("bnkr-script-away")
    page = _priced(visitor, slug, "3", DEV[2])
    paid: list[Any] = []

    def lose(route: Route) -> None:
        if "x-payment" not in route.request.headers:
            route.continue_()
            return
        paid.append(route.request.post_data_json["idemKey"])
        route.fetch()
        route.abort()

    page.route(TRADE, lose)
    _bet(page)
    expect(page.locator("#a-status")).to_contain_text("Sending the same bet again…")
    page.route(re.compile(r"/betting\b[^/]*\.js"), lambda route: route.abort())
    page.reload()
    expect(page.locator("#a-status")).to_contain_text("It is safe to try again: it counts only once.")
    expect(page.get_by_role("button", name="Try again")).to_be_visible()
    page.unroute(re.compile(r"/betting\b[^/]*\.js"))
    page.unroute(TRADE)
    page.reload()
    expect(page.locator("#a-status")).to_have_text(re.compile(r"^Bet placed: 3\.00 USDC on yes"))
    site.until(_held(DEV[2]), lambda _: _stakes(site, slug, DEV[2]) == 1)
    assert len(set(paid)) == 1


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("kept", "who"), [pytest.param(True, DEV[5], id="kept"), pytest.param(False, DEV[2], id="storage refused")]
)
def test_pressing_again_continues_the_signed_bet(site: Site, visitor: Visitor, kept: bool, who: Wallet) -> None:
    slug = site.open_agent_market(f"bnkr-pressed-again-{int(kept)}")
    page = _priced(visitor, slug, "4", who, before="" if kept else NO_STORAGE)

    off = {"error": "platform_disabled", "message": "Switched off.", "retriable": False}
    paid: list[bool] = []

    def lost_and_then_off(route: Route) -> None:
        if "x-payment" not in route.request.headers:
            route.continue_()
            return
        paid.append(True)
        if len(paid) == 1:
            route.abort()
        else:
            route.fulfill(status=404, json=off)

    page.route(TRADE, lost_and_then_off)
    _bet(page)
    expect(page.locator("#a-status")).to_contain_text("Switched off.")
    expect(page.get_by_role("button", name="Try again")).to_be_visible()
    page.unroute(TRADE)
    page.get_by_label("Amount in USDC").fill("5")
    _bet(page)
    expect(page.locator("#a-status")).to_have_text(re.compile(r"^Bet placed: 4\.00 USDC on yes"))
    site.until(_held(who), lambda _: _stakes(site, slug, who) == 1)


@pytest.mark.thorough
def test_a_retry_after_of_an_hour_does_not_cause_a_busy_loop(site: Site, visitor: Visitor) -> None:
    slug = site.open_agent_market("bnkr-asks-for-an-hour")
    page = _priced(visitor, slug, "2", DEV[6])
    asked: list[bool] = []

    def later(route: Route) -> None:
        if "x-payment" not in route.request.headers:
            route.continue_()
            return
        asked.append(True)
        route.fulfill(status=503, headers={"Retry-After": "3600"}, body="maintenance")

    page.route(TRADE, later)
    _bet(page)
    expect(page.locator("#a-status")).to_contain_text("Sending the same bet again…")
    page.wait_for_timeout(4_000)
    assert 1 <= len(asked) < 5
    page.unroute(TRADE)
    expect(page.locator("#a-status")).to_have_text(re.compile(r"^Bet placed: 2\.00 USDC on yes"))


def _bet_on_the_stock(page: Page) -> None:
    page.get_by_role("button", name="Review the bet").click()
    page.get_by_role("button", name="Sign in my wallet").click()


ELSEWHERE = {"error": "region_blocked", "message": "Stock-price markets are not offered in US."}


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("first", "then"),
    [
        pytest.param(None, ELSEWHERE, id="lost, then sent from a closed region"),
        pytest.param({"receipt": "pending", "txHash": "0x" + "05" * 32}, {"message": "Forbidden"}, id="acknowledged"),
        pytest.param({"error": "Forbidden"}, {"error": "Forbidden"}, id="refused by a firewall"),
    ],
)
def test_a_stock_bet_survives_a_bad_connection(
    site: Site, visitor: Visitor, first: dict[str, str] | None, then: dict[str, str]
) -> None:
    """The relay has the bet, although the page gets `first` and later only `then`."""
    market = site.open_market(ticker="NVDA")
    visit, _ = visitor.with_wallet(DEV[3])
    visit.open(f"/m/{market}")
    page = visit.page
    sent: list[int] = []

    def in_between(route: Route) -> None:
        sent.append(1)
        if len(sent) > 1:
            route.fulfill(status=403, json=then)
            return
        route.fetch()
        if first is None:
            route.abort()
        else:
            route.fulfill(status=403 if "error" in first else 200, json=first)

    receipts = "**/api/relay/receipt*"
    page.route(RELAY, in_between)
    page.route(receipts, lambda route: route.continue_() if len(sent) > 1 and then != ELSEWHERE else route.abort())
    _bet_on_the_stock(page)
    if then == ELSEWHERE:
        expect(page.locator("#bet-status")).to_contain_text(re.compile("may still be (accepted|taken)"))
        page.unroute(receipts)
    site.stock.mine()  # a node that is busy may have its transaction still to mine
    expect(page.locator("#bet-status")).to_have_text(re.compile(r"^Confirmed"), timeout=30_000)
    assert len(site.stock.positions(market)) == 2 + 1


@pytest.mark.thorough
def test_a_stock_bet_that_may_still_be_taken_comes_before_another(site: Site, visitor: Visitor) -> None:
    market = site.open_market(strike_in=3_000, lasts=9_000, ticker="NVDA")
    visit, _ = visitor.with_wallet(DEV[3])
    visit.open(f"/m/{market}")
    page = visit.page
    page.route(RELAY, lambda route: route.fulfill(json={"receipt": "reverted", "final": False}))
    _bet_on_the_stock(page)
    expect(page.locator("#bet-status")).to_contain_text(re.compile("may still be (accepted|taken)"))
    review = page.get_by_role("button", name="Review the bet")
    expect(review).to_have_attribute("aria-disabled", "true")
    page.reload()
    expect(page.locator("#bet-status")).to_contain_text(re.compile("may still be (accepted|taken)"))
    expect(review).to_have_attribute("aria-disabled", "true")
    site.stock.warp_to(site.stock.now + 700)
    expect(page.locator("#bet-status")).to_contain_text("has expired. No money was taken.", timeout=30_000)
    expect(review).not_to_have_attribute("aria-disabled", "true")


@pytest.mark.thorough
@pytest.mark.parametrize("is_late", [False, True])
def test_a_stock_bet_of_one_tab_comes_before_that_of_another(site: Site, visitor: Visitor, is_late: bool) -> None:
    """The browser keeps one bet of a market until it is known what became of it: another would be forgotten, or signed
    in place of one that is on its way. `is_late`: the other tab was about to sign already."""
    market = site.open_market(ticker="NVDA")
    visit, _ = visitor.with_wallet(DEV[3])
    visit.open(f"/m/{market}")
    one, two = visit.page, visit.page.context.new_page()
    signer = PageWallet(two, site.stock, DEV[3])
    two.goto(one.url)
    one.route(RELAY, lambda route: route.abort())
    one.route("**/api/relay/receipt*", lambda route: route.abort())
    if is_late:
        two.get_by_role("button", name="Review the bet").click()
        expect(two.get_by_role("dialog", name="Sign this bet")).to_be_visible()
    one.get_by_role("button", name="Review the bet").click()
    one.get_by_role("button", name="Sign in my wallet").click()
    expect(one.locator("#bet-status")).to_contain_text("No connection")
    if is_late:
        two.get_by_role("button", name="Sign in my wallet").click()
        expect(two.locator("#bet-status")).to_contain_text("another tab")
        assert len(site.stock.positions(market)) == 2
    two.get_by_role("button", name="Review the bet").click()
    expect(two.locator("#bet-status")).to_have_text(re.compile(r"^Confirmed"), timeout=30_000)
    assert len(signer.signed) == int(is_late)
    assert len(site.stock.positions(market)) == 2 + 1
    one.unroute(RELAY)
    one.unroute("**/api/relay/receipt*")
    expect(one.locator("#bet-status")).to_have_text(re.compile(r"^Confirmed"), timeout=30_000)
    assert len(site.stock.positions(market)) == 2 + 1


@pytest.mark.parametrize("way", ["/cup", "/roulette"])
@pytest.mark.thorough
def test_paper_bets_work_when_the_devices_clock_is_wrong(site: Site, visitor: Visitor, way: str) -> None:
    wallet = wallets.wallet(f"a player ten minutes ahead on {way}")
    visit, _ = visitor.with_wallet(wallet)
    page = visit.page
    page.add_init_script(WRONG_CLOCK)
    if way == "/roulette":
        site.betting(8)
        visit.open(way)
        page.get_by_role("button", name="Sign and bet").click()
        expect(page.locator("#play-status")).to_have_text(re.compile("^Bet placed: "))
        return
    visit.open(way)
    page.get_by_role("button", name="Claim 10,000 pUSDC").click()
    expect(page.locator("#claim-status")).to_have_class(re.compile("good"))
    page.get_by_role("button", name="Sign and trade").click()
    expect(page.locator("#paper-status")).to_have_text(re.compile("^Done: 25 pUSDC"))


def test_a_wrong_device_clock_is_named_when_a_payment_fails(site: Site, visitor: Visitor) -> None:
    slug = site.open_agent_market("bnkr-wrong-clock")
    visit, _ = visitor.with_wallet(DEV[7])
    visit.page.add_init_script(WRONG_CLOCK)
    visit.open(f"/markets/{slug}")
    page = visit.page
    page.get_by_label("Amount in USDC").fill("2")
    expect(page.locator("#a-paid")).to_have_text(re.compile("USDC"))
    _bet(page)
    expect(page.locator("#a-status")).to_contain_text("This device's clock is off by 10 minutes")
