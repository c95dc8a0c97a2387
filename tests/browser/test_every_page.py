"""Every page, as a visitor finds it: on a phone and a desktop, light and dark, with scripts and without."""

from __future__ import annotations

import re
from typing import Any

import pytest
from playwright.sync_api import expect

from scripts._stack import wallets
from tests.browser.conftest import SIZES, Size, Visit, Visitor
from tests.browser.site import Site

MAX_BYTES = 100_000
MAX_SHIFT = 0.02

PAGES = (
    "home",
    "open",
    "live",
    "frozen",
    "settled",
    "equal",
    "positions",
    "owner",
    "binary",
    "range",
    "proof",
    "cup",
    "roulette",
    "how",
    "docs",
    "docs/stock",
)
# One of each layout: the others differ from these in what they show, not in how.
LAYOUTS = ("home", "open", "positions", "binary", "proof", "cup", "docs")

# `color-contrast` is one of the serious ones. What axe cannot decide it reports as incomplete, not here.
FIND_VIOLATIONS = """
async (rules) => (await axe.run(document, { resultTypes: ["violations"], ...rules })).violations
  .filter((each) => ["serious", "critical"].includes(each.impact))
  .map((each) => `${each.id}: ${each.nodes.map((node) => node.target.join(" ")).slice(0, 4).join("; ")}`)
"""
COLOURS = {"runOnly": ["color-contrast", "link-in-text-block"]}
EVERYTHING: dict[str, object] = {}
MEASURE = """
() => new Promise((done) => {
  let shift = 0;
  new PerformanceObserver((list) => { for (const each of list.getEntries()) shift += each.value; })
    .observe({ type: "layout-shift", buffered: true });
  setTimeout(() => done({
    shift,
    paint: performance.getEntriesByName("first-contentful-paint")[0]?.startTime ?? null,
    wide: document.documentElement.scrollWidth,
  }), 300);
})
"""


def path_of(site: Site, name: str) -> str:
    fixed = {"home": "/", "owner": f"/positions?owner={wallets.DEV[0].address}"}
    if name in fixed:
        return fixed[name]
    if name in site.markets:
        return f"/m/{site.markets[name]}"
    if name in site.slugs:
        return f"/markets/{site.slugs[name]}"
    return f"/{name}"


def weigh(visit: Visit) -> list[int]:
    """Collect the bytes of every answer as they came over the wire, headers included."""
    session = visit.page.context.new_cdp_session(visit.page)
    session.send("Network.enable")
    sizes: list[int] = []
    session.on("Network.loadingFinished", lambda event: sizes.append(int(event["encodedDataLength"])))
    return sizes


@pytest.mark.parametrize("size", ["phone", pytest.param("desktop", marks=pytest.mark.thorough)])
@pytest.mark.parametrize(
    "name", [*LAYOUTS, *(pytest.param(name, marks=pytest.mark.thorough) for name in PAGES if name not in LAYOUTS)]
)
def test_a_page(site: Site, visitor: Visitor, axe: str, name: str, size: Size, record_property: Any) -> None:
    """The time to paint is recorded, not judged: a busy machine would fail a good page."""
    visit = visitor.visit(size, "light")
    page = visit.page
    sizes = weigh(visit)
    quotes: list[str] = []
    page.on("request", lambda each: quotes.append(each.url) if each.method == "POST" or "/quote" in each.url else None)
    visit.open(path_of(site, name))
    measured = page.evaluate(MEASURE)
    total = sum(sizes)
    record_property("bytes", total)
    record_property("first_contentful_paint_ms", measured["paint"])
    assert 0 < total < MAX_BYTES
    assert quotes == [], "who only reads asks for nothing that may be refused"
    assert measured["shift"] < MAX_SHIFT
    assert page.locator("h1").count() == 1
    page.evaluate(axe)
    for scheme, rules in (("light", EVERYTHING), ("dark", COLOURS)):  # they differ in nothing else
        page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
        assert page.evaluate("document.documentElement.scrollWidth") <= SIZES[size]["width"], "scrolls sideways"
        assert page.evaluate(FIND_VIOLATIONS, rules) == [], scheme
    visit.clean()


@pytest.mark.parametrize(
    "name",
    [
        "home",
        "binary",
        *(
            pytest.param(name, marks=pytest.mark.thorough)
            for name in ("live", "settled", "owner", "range", "proof", "cup", "roulette")
        ),
    ],
)
def test_a_live_page_stays_correct(site: Site, visitor: Visitor, name: str) -> None:
    visit = visitor.visit()
    visit.open(path_of(site, name))
    with visit.page.expect_response(lambda response: response.url == visit.page.url):
        site.stock.mine()
    visit.page.wait_for_timeout(300)
    assert visit.page.evaluate(MEASURE)["shift"] < MAX_SHIFT
    visit.clean()


def test_reading_needs_no_script(site: Site, visitor: Visitor) -> None:
    visit = visitor.visit(java_script_enabled=False)
    page = visit.page

    def shows(name: str, *texts: str) -> None:
        visit.open(path_of(site, name))
        body = page.locator("main").inner_text()
        for text in texts:
            assert text in body, f"{name}: {text}"

    shows("home", "NVDA", "TSLA", "Will BNKR's market cap be $100M or more", "bell in", "If you are wrong")
    said = page.locator("#solvency").inner_text()
    for solvency, whose in zip(site.get("/api/proof")["solvency"], ("stock", "agent"), strict=True):
        holds, owes = (f"{int(solvency[each]) / 10**6:,.2f}" for each in ("balance", "liabilities"))
        assert f"The {whose} contract holds {holds} {solvency['token']} and owes {owes}." in said
    shows("live", "All positions", "#2", "Minimum if right", "The book", "bell in")
    assert page.locator("#price-now .chart").count() == 1
    assert page.locator("#books .chart").count() == 1
    visit.open(f"{path_of(site, 'live')}?owner={wallets.DEV[0].address}")
    assert page.locator("#yours .chart").count() == 2, "it entered twice"
    assert not page.locator("#bet-form").is_visible()
    shows("settled", "Payouts", "68.18", "An ordinary pool", "RoundResolver.findRound")
    shows("equal", "every stake is returned")
    shows("frozen", "Settle it yourself")
    page.locator("#settle summary").click()  # folded away until asked for, also without a script
    assert page.locator("#settle pre").inner_text().startswith("cast send 0x")
    shows("proof", "Every stake, refund and fee is covered.", "VestedMarkets.liabilities()", "Who can do what")
    shows("binary", "What decides it", "Latest bets", "Calculated from Uniswap v3 BNKR/WETH 0.3%")
    shows("binary", "Yes wins if", "all stakes are refunded in full", "Fine print")
    assert page.locator("#odds .chart").count() == 1
    shows("range", "$75M", "current range")
    shows("roulette", "Which colour will the ball land on?", "Commitment, shown before the first bet")
    shows("cup", "The board", "Paper markets")
    shows("how", "69.16", "4.45", "3.4583")
    shows("owner", "payout if right", "48.18", "This is the running total of all settled bets of this address.")
    said = "+48.18 USDG over 2 bets."  # 20 paid 68.18, and a void market's 3 given back
    assert page.locator("#results .chart").text_content() == said


def test_nothing_that_a_lister_wrote_is_shown(site: Site, visitor: Visitor) -> None:
    """The market's question comes from its specification; an id that is not in it is not shown either."""
    visit = visitor.visit()
    for path in (path_of(site, "hostile"), "/"):
        visit.open(path)
        assert "onerror" not in visit.page.content()
        assert visit.page.locator("main img").count() == 0
    visit.open(path_of(site, "hostile"))
    assert "BNKR" in visit.page.locator("h1").inner_text()
    visit.clean()


def test_an_invalid_address_is_reported(site: Site, visitor: Visitor) -> None:
    visit = visitor.visit()
    response = visit.page.goto(site.url + '/positions?owner="><script>1</script>')
    assert response is not None
    assert response.status == 400
    assert "This is not an address" in visit.page.locator("main").inner_text()
    assert visit.page.locator("#owner").input_value() == '"><script>1</script>'
    # The browser notes the status; nothing else may be on the console.
    assert all("400" in line for line in visit.console)


def test_what_is_not_there(site: Site, visitor: Visitor) -> None:
    visit = visitor.visit()
    for path in ("/nothing", "/m/999", "/m/x", "/markets/none", "/assets/none.js"):
        response = visit.page.goto(site.url + path)
        assert response is not None
        assert response.status == 404
        assert response.headers["content-type"].startswith("text/html")
        assert visit.page.get_by_role("link", name="Go to the markets").is_visible()
    response = visit.page.goto(site.url + "/api/nothing")
    assert response is not None
    assert response.headers["content-type"].startswith("application/json")


@pytest.mark.thorough
def test_the_policy_is_strict(site: Site, visitor: Visitor) -> None:
    visit = visitor.visit()
    for name in PAGES:
        response = visit.page.goto(site.url + path_of(site, name))
        assert response is not None
        policy = response.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "frame-ancestors 'none'" in policy
        assert "unsafe" not in policy
        assert response.headers["x-content-type-options"] == "nosniff"
        served = response.text()
        assert not any(found in served for found in (" style=", " onclick=", " onload=", "<script>"))


def test_the_guide_is_plain_text(site: Site, visitor: Visitor) -> None:
    visit = visitor.visit()
    assert site.get("/api/agent/v1/health")["meta"]["docsUrl"] == f"{site.url}/agents.txt"
    response = visit.page.goto(site.url + "/agents.txt")
    assert response is not None
    assert response.headers["content-type"] == "text/plain; charset=utf-8"
    text = response.text()
    for needed in (
        "#errors",
        "slippage_exceeded",
        "SOME CLIENTS REFUSE LARGER PAYMENTS BEFORE THEY SEND ANYTHING",
        "set_spend_controls",
        "/api/relay/typed-data",
    ):
        assert needed in text
    assert "&#" not in text
    assert "&amp;" not in text


@pytest.mark.thorough
def test_markets_are_found_by_words_kind_and_time(site: Site, visitor: Visitor) -> None:
    visit = visitor.visit()
    visit.open("/")
    page = visit.page
    cards, found = page.locator(".card:visible"), page.locator("#found")
    everything = cards.count()
    page.get_by_label("Find a market").fill("tsla")
    expect(cards).to_have_count(1)
    expect(cards).to_contain_text("TSLA")
    expect(found).to_have_text(re.compile(r"^1 of \d+ markets$"))
    page.get_by_label("Find a market").fill("")
    page.get_by_role("radio", name="Crypto").check()
    expect(cards.first).to_have_attribute("data-market", "agent")
    expect(page.locator('.card[data-market="stock"]:visible')).to_have_count(0)
    page.get_by_role("radio", name="Settled").check()
    expect(cards).to_have_count(0)
    expect(page.locator("[data-over] tbody tr:visible").first).to_be_visible()
    page.get_by_role("radio", name="All").check()
    expect(cards).to_have_count(everything)
    expect(found).to_have_text("")
    crypto = page.locator('.card[data-market="agent"]')
    money = "(cards) => cards.map((each) => Number(each.dataset.money))"
    assert crypto.evaluate_all(money)[0] == 0, "what ends first stands first"
    page.get_by_label("Sort by").select_option("Most money")
    worth = crypto.evaluate_all(money)
    assert worth == sorted(worth, reverse=True)
    assert worth[0] > 0
    page.get_by_label("Find a market").fill("no such market")
    expect(found).to_have_text(re.compile("^0 of"))
    expect(page.get_by_role("heading", name="Stocks: UP or DOWN")).to_be_hidden()
    expect(page.get_by_role("heading", name="Recently settled")).to_be_hidden()
    visit.clean()


def test_a_new_bet_comes_into_the_feed_of_an_open_page(site: Site, visitor: Visitor) -> None:
    market = site.open_market(strike_in=50_000, lasts=50_000, ticker="NVDA")
    visit = visitor.visit("phone")
    visit.open("/")
    first = visit.page.locator("#latest li").first
    card = visit.page.locator(f'.card:has(a[href="/m/{market}"])')
    expect(card).to_contain_text("0 bets")
    site.stock.enter(wallets.DEV[1], market, 1, 7_250_000)
    site.stock.mine()
    expect(first).to_contain_text("DOWN 7.25 USDG on NVDA")
    expect(first.get_by_role("link", name="NVDA")).to_have_attribute("href", f"/m/{market}")
    expect(card).to_contain_text("1 bet")
    visit.clean()


def test_an_operation_is_tried_from_its_page(site: Site, visitor: Visitor) -> None:
    """The form's defaults work, and it shows the service's answer. A link to a body opens it."""
    visit = visitor.visit("phone", "dark")
    visit.open("/docs/stock")
    page = visit.page
    form = page.locator('form[data-path="/api/markets/{id}"]')
    form.get_by_role("button", name="Try it").click()
    expect(form.get_by_role("status")).to_have_text(re.compile(r"^200"))
    market = form.get_by_label("id").input_value()
    shown = form.locator("pre")
    expect(shown).to_contain_text(f"GET /api/markets/{market}")
    expect(shown).to_contain_text('"question": "Will ')
    form.get_by_label("id").fill("")
    form.get_by_role("button", name="Try it").click()
    expect(form.get_by_role("status")).to_have_text("Fill in id.")
    page.locator("#get_api_markets_id").get_by_text("Responses").click()
    page.get_by_role("link", name="StockMarketDetail").first.click()
    expect(page.locator("#schema-StockMarketDetail .scroll")).to_be_visible()
    visit.clean()


def test_times_and_amounts_are_as_the_reader_wants_them(site: Site, visitor: Visitor) -> None:
    visit = visitor.visit(timezone_id="Asia/Kolkata")
    visit.open(path_of(site, "settled"))
    page = visit.page
    paid = page.locator("#positions .amount.more").first
    expect(page.locator("#state time")).to_have_text(re.compile(r"GMT\+5:30$"))
    expect(page.locator("#state time")).to_have_attribute("title", re.compile(r"UTC$"))
    expect(paid.locator(".fine")).to_be_hidden()
    page.get_by_role("button", name="Show exact amounts").press("Enter")
    expect(paid.locator(".fine")).to_be_visible()
    page.reload()
    expect(paid.locator(".fine")).to_be_visible()
    visit.clean()


def test_a_table_is_cards_on_a_phone(site: Site, visitor: Visitor) -> None:
    visit = visitor.visit("phone")
    visit.open(path_of(site, "settled"))
    cell = visit.page.locator('#positions td[data-label="Offered"]').first
    assert cell.evaluate("cell => getComputedStyle(cell, '::before').content") == '"Offered"'
    wide = "() => [...document.querySelectorAll('.scroll tbody *')].filter((each) => each.scrollWidth > 375).length"
    assert visit.page.evaluate(wide) == 0
    visit.clean()
