"""Betting and resolving in the browser with a wallet that really signs."""

from __future__ import annotations

import re

from playwright.sync_api import expect

from scripts._stack import wallets
from tests.browser.conftest import Visitor
from tests.browser.site import Site
from tests.support.stock_chain import FLAT_PRICE, USDG


def test_a_gasless_bet_is_signed_and_seen_confirmed(site: Site, visitor: Visitor) -> None:
    """A wallet without ETH, on another chain, that the site has to add."""
    wallet = wallets.DEV[6]
    site.stock.ask("anvil_setBalance", wallet.address, "0x0")
    market = site.open_market(ticker="NVDA")
    visit, signer = visitor.with_wallet(wallet)
    visit.open(f"/m/{market}")
    page = visit.page
    page.get_by_label("DOWN").check()
    page.get_by_label("Amount in USDG").fill("7.25")
    expect(page.locator("#q-accepted")).to_have_text("7.25")
    expect(page.locator("#q-least")).to_have_text("7.25")
    expect(page.locator("#q-share")).to_have_text("42.0%")  # 7.25 of 17.25, rounded down
    expect(page.locator("#q-even")).to_have_text(re.compile(r"^[1-9]\d?\.\d%$"))
    expect(page.locator("#q-likely")).to_have_text(re.compile(r"^\d+\.\d\d"))
    page.get_by_role("button", name="Review the bet").click()
    dialog = page.get_by_role("dialog", name="Sign this bet")
    expect(dialog.locator("#r-side")).to_have_text("DOWN")
    expect(dialog.locator("#r-amount")).to_have_text("7.25 USDG")
    expect(dialog.locator("#r-even")).to_have_text(re.compile(r"^[1-9]\d?\.\d%$"))
    expect(dialog.locator("#r-question")).to_have_text(page.locator("h1").inner_text())
    assert signer.signed == [], "nothing may be asked for before it was shown"
    expect(dialog.locator("#r-balance")).to_have_text(re.compile("USDG"))
    dialog.get_by_role("button", name="Sign in my wallet").click()
    expect(page.locator("#bet-status")).to_have_text(re.compile(r"Confirmed: position #\d+"), timeout=30_000)
    assert "wallet_addEthereumChain" in signer.asked
    assert "eth_sendTransaction" not in signer.asked
    message = signer.signed[0]["message"]
    assert message["value"] == "7250000"
    assert message["to"] == site.stock.contracts.settler.address
    position = site.stock.positions(market)[-1]
    held = site.stock.read(site.stock.contracts.settler.call("position", position))
    assert held["owner"].lower() == wallet.address.lower()
    assert held["outcome"] == 1
    assert held["offered"] == 7_250_000
    yours = page.locator("#yours")
    expect(yours).to_contain_text("7.25")
    site.stock.mine()
    expect(yours).to_contain_text("Paid if DOWN wins now")
    expect(page.locator("tr.mine")).to_have_count(1)
    visit.clean()


def test_the_accrual_line_rises_when_the_other_side_bets(site: Site, visitor: Visitor) -> None:
    """The arrow keys read out every step, in the very second of the bet (a fast chain's blocks) and later."""
    wallet, other = wallets.DEV[0], wallets.DEV[1]
    market = site.open_market(ticker="COIN")
    with site.stock.one_second():
        site.stock.enter(wallet, market, 0, 10 * USDG)
        site.stock.enter(other, market, 1, 4 * USDG)
        site.stock.enter(other, market, 1, 4 * USDG)
    site.stock.warp_to(site.stock.now + 5)
    visit, _ = visitor.with_wallet(wallet)
    visit.open(f"/m/{market}")
    page = visit.page
    page.get_by_role("button", name="Connect wallet").click()
    yours = page.locator("#yours")
    expect(yours).to_contain_text("14.00")  # its stake, and half of what the other side brought
    site.stock.enter(other, market, 1, 12 * USDG)
    site.stock.mine()
    expect(yours.locator("dd").last).to_have_text("20.00")
    plot = yours.locator(".plot")
    expect(plot).to_have_attribute("aria-label", re.compile(r"It started at 10 and is now 20 USDG"))
    plot.focus()
    values = []
    for _ in range(8):  # to the first point, however many there are; from there it goes no further
        page.keyboard.press("ArrowLeft")
        values.append(yours.locator(".chart-tip").inner_text().split("\n")[-1])
    assert list(dict.fromkeys(values)) == ["20.00 USDG", "14.00 USDG", "12.00 USDG", "10.00 USDG"]
    visit.clean()


def test_a_declined_signature_sends_nothing(site: Site, visitor: Visitor) -> None:
    market = site.open_market(ticker="NVDA")
    visit, signer = visitor.with_wallet(wallets.DEV[0])
    visit.open(f"/m/{market}")
    page = visit.page
    page.get_by_role("button", name="Review the bet").click()
    page.get_by_role("button", name="Cancel").click()
    expect(page.locator("#bet-status")).to_have_text("Cancelled. Nothing was signed.")
    signer.decline = True
    page.get_by_role("button", name="Review the bet").click()
    page.get_by_role("button", name="Sign in my wallet").click()
    expect(page.locator("#bet-status")).to_have_text(
        "You declined in the wallet. Nothing was signed and nothing was sent."
    )
    assert len(site.stock.positions(market)) == 2
    visit.clean()


def test_an_invalid_amount_is_reported_at_once(site: Site, visitor: Visitor) -> None:
    visit = visitor.visit("phone")
    visit.open(f"/m/{site.markets['live']}")
    for typed, said in (
        ("0.5", "The smallest bet is 1.00 USDG."),
        ("101", "The largest bet is 100.00 USDG."),
        ("five", "Enter an amount such as 5 or 12.50."),
        ("50", ""),
        ("1.1234567", "Enter an amount such as 5 or 12.50."),
        ("", "Enter an amount such as 5 or 12.50."),
    ):
        visit.page.get_by_label("Amount in USDG").fill(typed)
        review = visit.page.get_by_role("button", name="Review the bet")
        if said:
            expect(visit.page.get_by_role("alert")).to_have_text(said)
            expect(review).to_be_disabled()
        else:
            expect(review).to_be_enabled()
    visit.clean()


def test_a_bet_beyond_the_headroom_shows_its_refund(site: Site, visitor: Visitor) -> None:
    """With a seed of 1 a side takes 9 from one bet at most."""
    market = site.open_market(seed=1 * USDG)
    visit = visitor.visit()
    visit.open(f"/m/{market}")
    visit.page.get_by_label("Amount in USDG").fill("100")
    expect(visit.page.locator("#q-accepted")).to_have_text("9.00")
    expect(visit.page.locator("#q-back")).to_have_text("91.00")
    expect(visit.page.locator("#q-least")).to_have_text("9.00")
    visit.clean()


def test_a_wallet_without_the_money_is_warned_before_it_signs(site: Site, visitor: Visitor) -> None:
    visit, _ = visitor.with_wallet(wallets.wallet("a browser's empty wallet"))
    visit.open(f"/m/{site.markets['live']}")
    page = visit.page
    page.get_by_role("button", name="Review the bet").click()
    expect(page.locator("#r-status")).to_have_text("This wallet holds less than the bet. Add USDG first.")
    page.get_by_role("button", name="Sign in my wallet").click()
    expect(page.locator("#bet-status")).to_contain_text("The wallet holds 0 USDG on this chain")
    # The relay's refusal is a 422, which the browser notes.
    assert all("422" in line for line in visit.console)


def test_a_closed_region_is_shown_a_notice(site: Site, visitor: Visitor) -> None:
    visit, _ = visitor.with_wallet(wallets.DEV[0])
    visit.page.set_extra_http_headers({"CF-IPCountry": "US", "X-Forwarded-For": "10.9.9.9"})
    visit.open(f"/m/{site.markets['live']}")
    visit.page.get_by_role("button", name="Review the bet").click()
    visit.page.get_by_role("button", name="Sign in my wallet").click()
    expect(visit.page.locator("#bet-status")).to_have_text("Stock-price markets are not offered in US.")


def test_without_a_wallet_the_page_says_what_is_missing(site: Site, visitor: Visitor) -> None:
    visit = visitor.visit()
    visit.open("/")
    visit.page.get_by_role("button", name="Connect wallet").click()
    dialog = visit.page.get_by_role("dialog", name="Choose a wallet")
    expect(dialog).to_contain_text("This browser has no wallet.")
    dialog.get_by_role("button", name="Close").click()
    visit.clean()


def test_anyone_resolves_a_market_from_its_page(site: Site, visitor: Visitor) -> None:
    market = site.open_market(strike_in=20, lasts=20, ticker="NVDA")
    chain, wallet = site.stock, wallets.DEV[7]
    chain.warp_to(chain.now + 25)
    chain.push(FLAT_PRICE * 2)
    chain.warp_to(chain.now + 30)
    chain.mine()
    site.until(f"/api/markets/{market}", lambda body: (body["preview"] or {}).get("name") == "UP")
    visit, signer = visitor.with_wallet(wallet)
    visit.open(f"/m/{market}")
    page = visit.page
    expect(page.locator("#settle")).to_contain_text("The two readings decide UP.")
    page.get_by_role("button", name="Settle with my wallet").click()
    expect(page.locator("#rounds .result")).to_contain_text("UP", timeout=30_000)
    assert "eth_sendTransaction" in signer.asked
    transaction = site.get(f"/api/markets/{market}")["resolution"]["tx"]
    sent = chain.ask("eth_getTransactionByHash", transaction)
    assert sent["from"].lower() == wallet.address.lower()
    expect(page.locator("h2", has_text="Payouts")).to_be_visible()
    visit.clean()


def test_a_connected_wallet_is_shown_all_its_positions(site: Site, visitor: Visitor) -> None:
    wallet = wallets.DEV[0]
    visit, _ = visitor.with_wallet(wallet, "phone")
    visit.open("/positions")
    visit.page.get_by_role("button", name="Connect wallet").click()
    visit.page.wait_for_url(f"**/positions?owner={wallet.address}")
    expect(visit.page.locator("#held tbody tr")).not_to_have_count(0)
    expect(visit.page.locator("#totals")).to_contain_text("payout if right")
    visit.clean()
