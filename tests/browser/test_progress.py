"""What a page says of a bet while things go wrong is what is known; nothing is forgotten, and nothing is sent twice."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import Scheme, Size, Visit, Visitor
from tests.browser.site import Site

SIZES: tuple[tuple[Size, Scheme], ...] = (("desktop", "light"), ("phone", "dark"))


def _begin(site: Site, visit: Visit, market: int) -> Page:
    """Signs a bet of 5 on UP with the demo wallet."""
    visit.open(f"/m/{market}")
    page = visit.page
    page.get_by_role("button", name="Demo wallet").click()
    page.get_by_role("button", name="Review the bet").click()
    page.get_by_role("button", name="Sign in my wallet").click()
    return page


@contextmanager
def _no_blocks(site: Site) -> Iterator[None]:
    """A stock chain whose transactions wait for a block that is asked for."""
    site.stock.ask("evm_setAutomine", False)
    try:
        yield
    finally:
        site.stock.ask("evm_setAutomine", True)
        site.stock.mine()


@pytest.mark.proves("shared.pages.decision.progress", "shared.pages.decision.reload")
@pytest.mark.parametrize(("size", "scheme"), SIZES)
def test_a_bet_waits_for_its_block_across_a_reload(site: Site, visitor: Visitor, size: Size, scheme: Scheme) -> None:
    market = site.open_market(ticker="NVDA")
    before = len(site.stock.positions(market))
    visit = visitor.visit(size, scheme)
    with _no_blocks(site):
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
    expect(page.locator("#bet-actions .hash")).to_have_attribute("title", re.compile("^0x[0-9a-f]{64}$"))
    assert len(site.stock.positions(market)) == before + 1


@pytest.mark.proves("shared.pages.decision.progress")
def test_a_market_that_closes_before_the_block_takes_nothing(site: Site, visitor: Visitor) -> None:
    market = site.open_market(strike_in=60, lasts=120, ticker="NVDA")
    before = len(site.stock.positions(market))
    visit = visitor.visit()
    with _no_blocks(site):
        page = _begin(site, visit, market)
        status = page.locator("#bet-status")
        expect(status).to_have_text("Sent. Waiting for its block…")
        site.stock.warp_to(site.stock.now + 200)
        expect(status).to_have_class(re.compile("bad"))
    expect(status).not_to_contain_text("Confirmed")
    expect(page.locator("#bet-progress")).to_be_hidden()
    assert len(site.stock.positions(market)) == before
    page.reload()
    expect(page.locator("#bet-status")).to_have_count(0)


@pytest.mark.proves("shared.pages.decision.progress")
def test_a_bet_is_not_called_sent_while_the_relayer_is_away(site: Site, visitor: Visitor) -> None:
    market = site.open_market(ticker="NVDA")
    before = len(site.stock.positions(market))
    visit = visitor.visit("phone", "dark")
    guard = site.running["relayer"].pid
    relayer = int(Path(f"/proc/{guard}/task/{guard}/children").read_text())
    os.kill(relayer, signal.SIGSTOP)
    try:
        page = _begin(site, visit, market)
        status = page.locator("#bet-status")
        expect(status).to_have_text(re.compile("could not be confirmed|relayer is off"))
        expect(page.locator("#bet-progress .done")).to_have_text(["signed"])
        page.reload()
        expect(page.locator("#bet-progress .done")).to_have_text(["signed"])
    finally:
        os.kill(relayer, signal.SIGCONT)
    expect(page.locator("#bet-status")).to_have_text(re.compile(r"^Confirmed: position #\d+"))
    assert len(site.stock.positions(market)) == before + 1
