"""What a page says of a bet while things go wrong is what is known; nothing is forgotten, and nothing is sent twice."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Page, Route, expect

from tests.browser.conftest import Visit, Visitor
from tests.browser.faults import relayer_away
from tests.browser.site import Site

FINAL_BLOCKS = 600  # more than a stock chain may take back


def _begin(site: Site, visit: Visit, market: int) -> Page:
    visit.open(f"/m/{market}")
    page = visit.page
    page.get_by_role("button", name="Demo wallet").click()
    page.get_by_role("button", name="Review the bet").click()
    page.get_by_role("button", name="Sign in my wallet").click()
    return page


@pytest.mark.thorough
def test_a_bet_waits_for_its_block_across_a_reload(site: Site, visitor: Visitor) -> None:
    market = site.open_market(ticker="NVDA")
    before = len(site.stock.positions(market))
    visit = visitor.visit()
    with site.stock.held():
        page = _begin(site, visit, market)
        status, line = page.locator("#bet-status"), page.locator("#bet-progress")
        expect(status).to_have_text("Sent. Waiting for its block…")
        expect(line.locator(".done")).to_have_text(["signed", "sent"])
        page.reload()
        expect(status).to_have_text("Sent. Waiting for its block…")
        expect(page.get_by_role("button", name="Review the bet")).to_be_disabled()
        site.stock.mine()
        expect(status).to_have_text(re.compile(r"^Confirmed: position #\d+"))
    expect(line.locator("[aria-current]")).to_have_text(re.compile(r"^in (a block|block \d+)$"))
    receipt = page.locator("#bet-receipt")
    expect(receipt.locator("[data-receipt=tx]")).to_have_attribute("title", re.compile("^0x[0-9a-f]{64}$"))
    assert len(site.stock.positions(market)) == before + 1
    page.reload()
    expect(status).to_have_text(re.compile(r"^Confirmed: position #\d+"))
    expect(receipt.locator("[data-receipt=least]")).to_have_text("5.00 USDG")
    expect(line.locator(".done")).to_have_count(3)
    site.stock.mine(FINAL_BLOCKS)
    expect(line.locator("[aria-current]")).to_have_text("final")
    link = receipt.get_by_role("link", name="Receipt").get_attribute("href")
    found = site.get(str(link))
    assert (found["receipt"], found["position"]["offered"]) == ("final", "5000000")
    expect(receipt.locator("[data-receipt=block]")).to_have_text(found["blockNumber"])
    page.reload()  # it has done its work
    expect(page.get_by_role("button", name="Review the bet")).to_be_enabled()
    expect(status).to_have_text("")


@pytest.mark.thorough
def test_a_market_that_closes_before_the_block_takes_nothing(site: Site, visitor: Visitor) -> None:
    market = site.open_market(strike_in=60, lasts=120, ticker="NVDA")
    before = len(site.stock.positions(market))
    visit = visitor.visit()
    with site.stock.held():
        page = _begin(site, visit, market)
        status = page.locator("#bet-status")
        expect(status).to_have_text("Sent. Waiting for its block…")
        site.stock.warp_to(site.stock.now + 200)
        expect(status).to_have_class(re.compile("bad"))
    expect(status).to_be_visible()  # though there is nothing left to bet on
    expect(status).not_to_contain_text("Confirmed")
    expect(status).to_contain_text(re.compile("may still be (accepted|taken)"))
    expect(page.locator("#bet-progress")).to_be_hidden()
    assert len(site.stock.positions(market)) == before
    sent: list[object] = []
    page.on("request", lambda each: sent.append(each) if "/api/relay/enter" in each.url else None)
    page.reload()
    expect(status).to_contain_text(re.compile("may still be (accepted|taken)"))
    site.stock.warp_to(site.stock.now + 3600)  # what was signed is good for no longer
    expect(status).to_have_text("The bet was refused and has expired. No money was taken.")
    page.reload()
    expect(page.locator("#bet-status")).to_have_text("")
    assert sent == []  # it is not bet anew


@pytest.mark.thorough
def test_a_bet_refused_in_a_replaced_block_is_shown_as_accepted(site: Site, visitor: Visitor) -> None:
    market = site.open_market(strike_in=60, lasts=120, ticker="NVDA")
    before, began = len(site.stock.positions(market)), site.stock.block
    visit = visitor.visit()
    with site.stock.held():
        page = _begin(site, visit, market)
        status = page.locator("#bet-status")
        expect(status).to_have_text("Sent. Waiting for its block…")
        now = site.stock.now
        site.stock.warp_to(now + 200)
        expect(status).to_contain_text(re.compile("may still be (accepted|taken)"))
        site.stock.ask("anvil_rollback", site.stock.block - began)
        site.stock.warp_to(now + 10)
        site.stock.until_sent()
        site.stock.warp_to(now + 20)
        expect(status).to_have_text(re.compile(r"^Confirmed: position #\d+"))
    assert len(site.stock.positions(market)) == before + 1


@pytest.mark.thorough
def test_a_bet_is_not_forgotten_when_its_market_ends_first(site: Site, visitor: Visitor) -> None:
    market = site.open_market(strike_in=60, lasts=120, ticker="NVDA")
    before = len(site.stock.positions(market))
    visit = visitor.visit()
    booked: list[int] = []

    def lose(route: Route) -> None:
        if not booked:
            booked.append(route.fetch().status)
        route.abort()

    visit.page.route("**/api/relay/enter", lose)
    page = _begin(site, visit, market)
    expect(page.locator("#bet-status")).to_have_text(re.compile("^(No connection|Confirmed)"))
    site.stock.warp_to(site.stock.now + 200)
    visit.open(f"/m/{market}")
    expect(page.locator("#bet-status")).to_have_text(re.compile(r"^Confirmed: position #\d+"))
    expect(page.locator("#bet-receipt [data-receipt=block]")).to_have_text(re.compile(r"^\d+$"))
    expect(page.get_by_role("button", name="Review the bet")).to_have_count(0)
    assert len(site.stock.positions(market)) == before + 1


@pytest.mark.thorough
def test_an_answer_that_only_asks_for_patience_refuses_nothing(site: Site, visitor: Visitor) -> None:
    """The relay takes ten requests a minute; hitting that limit does not refuse the bet."""
    market = site.open_market(ticker="NVDA")
    before = len(site.stock.positions(market))
    visit = visitor.visit()
    sent: list[object] = []

    def patience(route: Route) -> None:
        sent.append(route.request.post_data_json)
        if len(sent) < 3:
            limited = {"error": "rate_limited", "message": "The relay accepts 10 requests a minute."}
            route.fulfill(status=429, json=limited, headers={"Retry-After": "1"})
        else:
            route.continue_()

    visit.page.route("**/api/relay/enter", patience)
    page = _begin(site, visit, market)
    expect(page.locator("#bet-status")).to_have_text(re.compile(r"^Confirmed: position #\d+"))
    assert sent[0] == sent[1] == sent[2]
    assert len(site.stock.positions(market)) == before + 1


@pytest.mark.thorough
def test_a_bet_the_relay_cannot_send_comes_with_its_escape_kit(site: Site, visitor: Visitor) -> None:
    """Its wallet's money is on its way: the page says so, not that nothing is known, and offers to send it oneself."""
    market = site.open_market(ticker="NVDA")
    visit = visitor.visit()
    why = "The wallet holds 5 USDG, and its pending bets need 5 of it."
    refusal = {"error": "rate_limited", "message": why, "escapeKit": {"to": "0x" + "11" * 20, "data": "0x"}}
    sent: list[object] = []

    def refuse(route: Route) -> None:
        sent.append(route.request.post_data_json)
        route.fulfill(status=429, json=refusal, headers={"Retry-After": "1"})

    visit.page.route("**/api/relay/enter", refuse)
    page = _begin(site, visit, market)
    own = page.get_by_role("button", name="Send it from my wallet (costs gas)")
    expect(page.locator("#bet-status")).to_have_text(why)
    expect(own).to_be_visible()
    # The page sends it again and gets the same answer. The button stays: the wallet may be showing its call by now.
    offered = own.element_handle()
    answered = len(sent)
    while len(sent) < answered + 2:
        page.wait_for_timeout(100)
    assert offered.evaluate("button => button.isConnected")
    visit.page.unroute("**/api/relay/enter")
    expect(page.locator("#bet-status")).to_have_text(re.compile(r"^Confirmed: position #\d+"))
    expect(own).to_have_count(0)
    assert sent


@pytest.mark.thorough
def test_a_replaced_block_is_not_called_final(site: Site, visitor: Visitor) -> None:
    """The chain takes back the block with the bet and then has it again in another."""
    market = site.open_market(ticker="NVDA")
    before = len(site.stock.positions(market))
    visit = visitor.visit()
    page = _begin(site, visit, market)
    status, line = page.locator("#bet-status"), page.locator("#bet-progress")
    expect(status).to_have_text(re.compile(r"^Confirmed: position #\d+"))
    expect(line.locator("[aria-current]")).to_have_text(re.compile(r"^in block \d+$"))
    with site.stock.held():
        site.stock.ask("anvil_reorg", 1, [])
        expect(status).to_have_text("The chain replaced the bet's block. Waiting for another one…")
        expect(line.locator(".done")).to_have_text(["signed", "sent"])
        page.reload()
        expect(status).to_have_text("The chain replaced the bet's block. Waiting for another one…")
    expect(line.locator("[aria-current]")).to_have_text(re.compile(r"^in block \d+$"))
    site.stock.mine(FINAL_BLOCKS)
    expect(line.locator("[aria-current]")).to_have_text("final")
    assert len(site.stock.positions(market)) == before + 1


@pytest.mark.thorough
def test_a_bet_is_not_called_sent_while_the_relayer_is_away(site: Site, visitor: Visitor) -> None:
    market = site.open_market(ticker="NVDA")
    before = len(site.stock.positions(market))
    visit = visitor.visit("phone", "dark")
    with relayer_away(site):
        page = _begin(site, visit, market)
        status = page.locator("#bet-status")
        expect(status).to_have_text(re.compile("could not be confirmed|relayer is down"))
        expect(page.locator("#bet-progress .done")).to_have_text(["signed"])
        page.reload()
        expect(page.locator("#bet-progress .done")).to_have_text(["signed"])
    expect(page.locator("#bet-status")).to_have_text(re.compile(r"^Confirmed: position #\d+"))
    assert len(site.stock.positions(market)) == before + 1
