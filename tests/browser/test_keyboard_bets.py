"""The keyboard alone, without a wallet of one's own: each of the four bets."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import Visitor
from tests.browser.site import Site

MAX_TABS = 120


def _press(page: Page, selector: str, key: str = "Enter") -> None:
    """Press Tab until the element has the focus, which must be visible, then press a key on it."""
    for _ in range(MAX_TABS):
        page.keyboard.press("Tab")
        if page.evaluate("(selector) => document.activeElement.matches(selector)", selector):
            break
    else:
        pytest.fail(f"{selector} is not reached by Tab")
    assert page.evaluate("document.activeElement.matches(':focus-visible')"), f"no focus ring on {selector}"
    page.keyboard.press(key)


def _focused(page: Page) -> str:
    return str(page.evaluate("document.activeElement.id"))


@pytest.mark.timeout(300)
def test_all_four_bets_by_keyboard(site: Site, visitor: Visitor) -> None:
    """On a phone and dark; without a keyboard they are laid on a desktop and light, in test_first_minute."""
    market = site.open_market(ticker="NVDA")
    visit = visitor.visit("phone", "dark")
    page = visit.page
    visit.open(f"/m/{market}")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    _press(page, "#demo-wallet")
    expect(page.locator("#demo-wallet")).to_be_hidden()
    _press(page, "input[name=side]", "ArrowRight")
    expect(page.get_by_label("DOWN")).to_be_checked()
    _press(page, "#bet-review")
    expect(page.locator("#bet-dialog")).to_be_visible()
    page.keyboard.press("Escape")  # and back, without a mouse
    expect(page.locator("#bet-status")).to_have_text("Cancelled. Nothing was signed.")
    page.keyboard.press("Enter")  # the focus is where it was
    expect(page.locator("#bet-dialog")).to_be_visible()
    expect(page.locator("#r-side")).to_have_text("DOWN")
    if not page.evaluate("document.activeElement.matches('#r-sign')"):
        _press(page, "#r-sign")
    else:
        page.keyboard.press("Enter")
    expect(page.locator("#bet-status")).to_have_text(re.compile(r"^Confirmed: position #\d+\. 5\.00 USDG on DOWN"))
    assert _focused(page) == "bet-review", "who bets by keyboard goes on from where the bet was"

    visit.open(f"/markets/{site.slugs['binary']}")
    _press(page, "#a-bet")
    expect(page.locator("#a-status")).to_have_text(re.compile(r"^Bet placed: 5\.00 USDC"))
    assert _focused(page) == "a-bet"

    visit.open("/cup")
    _press(page, "#claim")
    expect(page.locator("#claim-status")).to_have_class(re.compile("good"))
    _press(page, "#paper-form button[type=submit]")
    expect(page.locator("#paper-status")).to_have_text(re.compile(r"^Done: 25 pUSDC"))
    assert page.evaluate("document.activeElement.matches('#paper-form button')")

    site.betting(15)
    visit.open("/roulette")
    _press(page, '#bet-table input[value="colour:red"], #bet-table input[name=bet]', "ArrowRight")
    _press(page, "#place")
    expect(page.locator("#play-status")).to_have_text(re.compile(r"^Bet placed: "))
    assert _focused(page) == "place"
    # The challenge of x402 is a 402, which the browser's console names.
    assert [each for each in visit.console if "402 (Payment Required)" not in each] == []
