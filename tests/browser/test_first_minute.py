"""A visitor without a wallet opens a page of a local stack and places every kind of bet with play money."""

from __future__ import annotations

import re
import time
from decimal import Decimal
from typing import Any

import pytest
from playwright.sync_api import Page, Route, expect

from scripts._stack import wallets
from tests.browser.conftest import Visitor
from tests.browser.site import Site
from tests.support.stock_chain import USDG

MINUTE = 60.0


def _demo(page: Page) -> None:
    page.get_by_role("button", name="Demo wallet").click()
    expect(page.get_by_role("button", name=re.compile("press to disconnect"))).to_be_visible()


def _wait_for_call(page: Page, calls: list[Any]) -> None:
    """Wait until a route was called: routes are answered only while the page is waited for."""
    deadline = time.monotonic() + MINUTE
    while not calls:
        assert time.monotonic() < deadline, "it was never asked"
        page.wait_for_timeout(100)


@pytest.mark.timeout(300)
def test_all_four_bets_within_a_minute_of_opening_the_page(site: Site, visitor: Visitor) -> None:
    demo = f"/api/agent/v1/positions?wallet={wallets.DEMO.address}"
    agent_before = site.get(demo)["count"]
    market = site.open_market(ticker="NVDA")
    before = len(site.stock.positions(market))
    site.betting(40)
    visit = visitor.visit()
    opened = time.monotonic()
    visit.open("/")
    page = visit.page
    _demo(page)

    visit.open(f"/m/{market}")
    expect(page.get_by_role("button", name="Demo wallet")).to_be_hidden()
    page.get_by_role("button", name="Review the bet").click()
    page.get_by_role("button", name="Sign in my wallet").click()
    expect(page.locator("#bet-status")).to_have_text(re.compile(r"Confirmed: position #\d+"))

    visit.open(f"/markets/{site.slugs['binary']}")
    page.get_by_label("Amount in USDC").fill("2.5")
    expect(page.locator("#a-paid")).to_have_text(re.compile(r"[\d.,]+ USDC"))
    page.get_by_role("button", name="Sign and bet").click()
    expect(page.locator("#a-status")).to_have_text(re.compile(r"Bet placed: 2\.50 USDC on yes, [\d.]+ shares"))
    expect(page.get_by_role("link", name="Receipt")).to_be_visible()

    visit.open("/cup")
    page.get_by_role("button", name="Claim 10,000 pUSDC").click()
    expect(page.locator("#claim-status")).to_have_class(re.compile("good"))
    page.get_by_role("button", name="Sign and trade").click()
    expect(page.locator("#paper-status")).to_have_text(re.compile(r"^Done: 25 pUSDC"))

    visit.open("/roulette")
    page.get_by_role("button", name="Sign and bet").click()
    expect(page.locator("#play-status")).to_have_text(re.compile(r"^Bet placed: "))
    took = time.monotonic() - opened
    print(f"four bets in {took:.1f} s")
    assert took < MINUTE

    positions = site.stock.positions(market)
    assert len(positions) == before + 1
    held = site.stock.read(site.stock.contracts.settler.call("position", positions[-1]))
    assert held["owner"].lower() == wallets.DEMO.address.lower()
    assert held["offered"] == 5 * USDG
    agent = site.get(demo)
    assert agent["count"] == agent_before + 1
    assert agent["positions"][0]["stakedUsd"] == 2.5
    visit.open("/positions")
    page.wait_for_url(f"**/positions?owner={wallets.DEMO.address}")
    expect(page.locator("#held")).to_contain_text("NVDA")
    expect(page.locator("#agent-held")).to_contain_text("2.50")
    # The keyboard's test trades as much with the demo wallet.
    paper = [each["costPaper"] for each in site.get(f"/api/cup/v1/wallet/{wallets.DEMO.address}")["positions"]]
    assert sum(paper) in (25, 50)
    for cost in paper:
        expect(page.locator("#paper-held")).to_contain_text(f"{cost}.00")
    # The challenge of x402 is a 402, which the browser's console names.
    assert [each for each in visit.console if "402 (Payment Required)" not in each] == []
    assert visit.foreign == []


def test_the_payout_shown_for_more_bets_is_what_they_bring(site: Site, visitor: Visitor) -> None:
    market = site.open_market(ticker="NVDA")
    visit = visitor.visit()
    visit.open(f"/m/{market}")
    page = visit.page
    _demo(page)
    page.get_by_label("DOWN").check()
    page.get_by_label("Amount in USDG").fill("7.25")
    payout = page.locator('[data-more="20000000"]')
    expect(payout).to_have_text(re.compile(r"^\d"))
    promised = int(Decimal(payout.text_content() or "") * USDG)  # what is finer than a cent is there, and hidden
    assert promised > 7_250_000
    page.get_by_role("button", name="Review the bet").click()
    page.get_by_role("button", name="Sign in my wallet").click()
    expect(page.locator("#bet-status")).to_have_text(re.compile(r"^Confirmed"))
    site.stock.enter(wallets.DEV[0], market, 0, 20 * USDG)
    site.stock.mine()
    mine = site.stock.positions(market)[2]
    terms = site.get(f"/api/markets/{market}")["market"]

    def paid(body: Any) -> int:
        held = next((each for each in body["positions"] if each["id"] == str(mine)), None)
        if held is None:  # the relay confirms from the chain, maybe before the service has read the block
            return 0
        due, accepted = int(held["accrued"] or 0), int(held["accepted"] or 0)
        return due - (due - accepted) * terms["limits"]["feeBps"] // 10_000

    site.until(f"/api/markets/{market}", lambda body: paid(body) == promised)


def test_a_stock_bet_interrupted_by_a_reload_is_placed_once(site: Site, visitor: Visitor) -> None:
    market = site.open_market(ticker="NVDA")
    before = len(site.stock.positions(market))
    visit = visitor.visit()
    visit.open(f"/m/{market}")
    page = visit.page
    _demo(page)
    sent: list[Any] = []

    def lose_the_first(route: Route) -> None:
        if not sent:
            route.fetch()
            sent.append(route.request.post_data_json)
            return
        sent.append(route.request.post_data_json)
        route.continue_()

    page.route("**/api/relay/enter", lose_the_first)
    page.get_by_role("button", name="Review the bet").click()
    page.get_by_role("button", name="Sign in my wallet").click()
    _wait_for_call(page, sent)
    site.until(f"/api/markets/{market}", lambda body: len(body["positions"]) == before + 1)
    visit.open(f"/m/{market}")
    expect(page.locator("#bet-status")).to_have_text(re.compile(r"^Confirmed"))
    assert sent[0] == sent[1], "another signature could have been another bet"
    assert len(site.stock.positions(market)) == before + 1


def test_paper_money_is_played_with_a_key_of_the_browser(site: Site, visitor: Visitor) -> None:
    visit = visitor.visit(permissions=["clipboard-read", "clipboard-write"])
    visit.open("/cup")
    page = visit.page
    page.get_by_role("button", name="Use a key in this browser").click()
    page.get_by_role("button", name="Claim 10,000 pUSDC").click()
    expect(page.locator("#claim-status")).to_have_text("You have 10,000 pUSDC.")
    page.get_by_role("button", name="Sign and trade").click()
    expect(page.locator("#paper-status")).to_have_text(re.compile(r"^Done: 25 pUSDC"))
    address = page.locator("#wallet-button").get_attribute("title")
    visit.open("/roulette")
    expect(page.locator("#wallet-button")).to_have_attribute("title", address or "")
    page.get_by_role("button", name="Copy the key").click()
    expect(page.locator("#paper-said")).to_contain_text("Copied")
    key = page.evaluate("navigator.clipboard.readText()")
    assert re.fullmatch(r"0x[0-9a-f]{64}", key)
    visit.open("/")
    expect(page.get_by_role("button", name="Demo wallet")).to_be_visible()  # it is no wallet for money
    visit.clean()


def test_a_declined_signature_leaves_nothing_behind(site: Site, visitor: Visitor) -> None:
    slug = site.slugs["binary"]
    held = f"/api/agent/v1/positions?wallet={wallets.DEV[6].address}"
    before = site.get(held)["count"]  # other tests bet with it, too
    visit, signer = visitor.with_wallet(wallets.DEV[6])
    visit.open(f"/markets/{slug}")
    page = visit.page
    signer.decline = True
    page.get_by_role("button", name="Sign and bet").click()
    expect(page.locator("#a-status")).to_have_text(re.compile("You declined in the wallet"))
    visit.open(f"/markets/{slug}")
    expect(page.locator("#a-status")).to_have_text("")
    assert site.get(held)["count"] == before
