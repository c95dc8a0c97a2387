"""An agent market's page while things go wrong: it says what is known, forgets nothing, and pays once."""

from __future__ import annotations

import re
import time
from typing import Any

import pytest
from playwright.sync_api import Page, Request, expect

from scripts._stack import wallets
from tests.browser.conftest import Visit, Visitor
from tests.browser.faults import relayer_away_once_signed
from tests.browser.site import Site
from tests.waiting import PATIENCE

DEMO = f"/api/agent/v1/positions?wallet={wallets.DEMO.address}"
FINAL_BLOCKS = 100  # more than Base may take back on a local chain
CLOSES_SECONDS = 40


class Payments:
    """The page's requests with a payment: the same bet has one key and one payment."""

    def __init__(self, page: Page) -> None:
        self.sent: set[tuple[str, str]] = set()
        page.on("request", self._see)

    def _see(self, request: Request) -> None:
        paid = request.headers.get("x-payment")
        if paid is not None:
            self.sent.add((request.post_data_json["idemKey"], paid))


def _stakes(site: Site, slug: str) -> int:
    held: list[dict[str, Any]] = site.get(DEMO)["positions"]
    return sum(each["slug"] == slug for each in held)


def _ready(visit: Visit, slug: str, amount: str) -> Page:
    """Open a page on which one click signs a bet with the demo wallet. Faults must start only afterwards: the page asks
    for no signature while it knows that nothing can be settled."""
    visit.open(f"/markets/{slug}")
    page = visit.page
    page.get_by_role("button", name="Demo wallet").click()
    page.get_by_label("Amount in USDC").fill(amount)
    expect(page.locator("#a-paid")).to_have_text(re.compile("USDC"))
    return page


def test_an_agent_bet_waits_for_the_relayer_across_a_reload(site: Site, visitor: Visitor) -> None:
    slug = site.open_agent_market("bnkr-relayer-away")
    visit = visitor.visit()
    payments = Payments(visit.page)
    page = _ready(visit, slug, "2")
    with relayer_away_once_signed(site, page):
        page.get_by_role("button", name="Sign and bet").click()
        status, line = page.locator("#a-status"), page.locator("#a-progress")
        expect(status).to_contain_text("Sending the same bet again…")
        expect(line.locator(".done")).to_have_text(["signed"])  # no further step is known
        page.reload()
        expect(line.locator(".done")).to_have_text(["signed"])
        expect(page.get_by_role("button", name="Sign and bet")).to_be_disabled()
    expect(status).to_have_text(re.compile(r"^Bet placed: 2\.00 USDC on yes"))
    expect(line.locator("[aria-current]")).to_have_text(re.compile(r"^in block \d+$"))
    assert len(payments.sent) == 1
    site.until(DEMO, lambda _: _stakes(site, slug) == 1)
    page.reload()
    expect(status).to_have_text(re.compile(r"^Bet placed: 2\.00 USDC on yes"))
    site.base.mine(FINAL_BLOCKS)
    expect(line.locator("[aria-current]")).to_have_text("final")
    expect(line.locator(".done")).to_have_text(["signed", "sent", re.compile(r"^in block \d+$"), "final"])
    assert len(payments.sent) == 1
    assert _stakes(site, slug) == 1
    page.reload()
    expect(page.get_by_role("button", name="Sign and bet")).to_be_enabled()
    expect(status).to_have_text("")


@pytest.mark.thorough
def test_an_agent_bet_that_waits_for_its_block_is_called_sent(site: Site, visitor: Visitor) -> None:
    slug = site.open_agent_market("bnkr-slow-node")
    visit = visitor.visit()
    payments = Payments(visit.page)
    page = _ready(visit, slug, "3")
    with site.base.held(block_seconds=1):
        page.get_by_role("button", name="Sign and bet").click()
        status, line = page.locator("#a-status"), page.locator("#a-progress")
        expect(status).to_have_text("Sent. Waiting for its block…")
        expect(line.locator(".done")).to_have_text(["signed", "sent"])
        page.reload()
        expect(status).to_have_text("Sent. Waiting for its block…")
    expect(status).to_have_text(re.compile(r"^Bet placed: 3\.00 USDC on yes"))
    assert len(payments.sent) == 1
    site.until(DEMO, lambda _: _stakes(site, slug) == 1)


@pytest.mark.thorough
def test_an_agent_bet_after_the_deadline_takes_nothing(site: Site, visitor: Visitor) -> None:
    # Its page must be open and the bet signed before it closes. The chain's clock is not moved on to that: pages sign
    # by the time of the day, and all the others of this run would sign too late. And no bet is offered before the
    # relayer, which was away, has its lanes again.
    site.until("/api/agent/v1/health", lambda body: body["health"]["ok"], PATIENCE)
    slug = site.open_agent_market("bnkr-closes-early", CLOSES_SECONDS)
    visit = visitor.visit()
    page = _ready(visit, slug, "4")
    status, again = page.locator("#a-status"), page.get_by_role("button", name="Try again")
    with relayer_away_once_signed(site, page):
        page.get_by_role("button", name="Sign and bet").click()
        expect(status).to_contain_text("Sending the same bet again…")
        ended = 2 * CLOSES_SECONDS
        site.until(f"/api/agent/v1/markets/{slug}", lambda body: body["market"]["status"] != "open", ended)
        visit.open(f"/markets/{slug}")
        expect(page.get_by_role("button", name="Sign and bet")).to_have_count(0)
        expect(page.locator("#a-progress .done")).to_have_text(["signed"])
    deadline = time.monotonic() + PATIENCE
    while page.locator("#a-progress").is_visible() and time.monotonic() < deadline:
        if again.is_visible():  # the relayer needs longer to come back than a page waits
            again.click()
        page.wait_for_timeout(200)
    expect(page.locator("#a-progress")).to_be_hidden()
    expect(status).to_have_class(re.compile("bad"))
    assert _stakes(site, slug) == 0
    page.reload()
    expect(status).to_have_text("")
