"""The tournament in the browser: a roulette round from bet to result, a spin recomputed, a claim, a paper trade."""

from __future__ import annotations

import math
import re
from typing import Literal

import pytest
from playwright.sync_api import Route, expect

from scripts._stack import wallets
from tests.browser.conftest import Visitor
from tests.browser.site import Site

ROUND_MS = 120_000
FORGE = """([name, value]) => {
  const button = document.querySelector("[data-check]").cloneNode(true);
  button.dataset[name] = value;
  document.body.append(button);
  button.click();
}"""


def test_a_round_of_roulette_from_bet_to_result(site: Site, visitor: Visitor) -> None:
    wallet = wallets.wallet("a browser's player")
    visit, signer = visitor.with_wallet(wallet, "phone", "dark")
    # Not in the last seconds of a round, which may close before the bet is signed, nor in one that others bet on.
    site.betting(8, lambda body: body["stakedPaper"] == 0)
    visit.open("/roulette")
    page = visit.page
    black = page.locator('#bet-table input[value="colour:black"]')
    expect(black).to_be_enabled()
    black.check(force=True)
    page.get_by_label("Stake in pUSDC").fill("12.5")
    expect(page.locator("#p-paid")).to_have_text("12.50")
    page.get_by_role("button", name="Sign and bet").click()
    expect(page.locator("#play-status")).to_have_text(
        re.compile(r"^Bet placed: 12\.5 pUSDC on colour:black in round (\d+)")
    )
    with page.expect_request("**/api/cup/v1/roulette/bet") as preview:  # which counts the bet that was just laid
        page.get_by_label("Stake in pUSDC").fill("13")
    assert preview.value.post_data_json["walletAddress"] == wallet.address.lower()
    number = int(re.search(r"round (\d+)", page.locator("#play-status").inner_text())[1])  # type: ignore[index]
    text = signer.signed[0]["text"].splitlines()
    assert text[0] == "Service Cup roulette bet"
    assert text[2:5] == [f"Round: {number}", "Bet: colour:black", "Size: 12.5 pUSDC"]
    expect(page.locator("#balance")).to_have_text("9,987.50")
    site.end_round(spins=10)  # so long the page shows the hash of its bets
    # The page asks for no signature that would come too late.
    expect(page.get_by_role("button", name="Wait for the next round")).to_be_disabled(timeout=ROUND_MS)
    row = page.get_by_role("row").filter(has=page.get_by_role("button", name=f"of round {number}", exact=False))
    expect(row).to_be_visible(timeout=ROUND_MS)
    # Alone in its market, the stake comes back either way: as the winner's pool, or refunded.
    expect(page.locator("#balance")).to_have_text("10,000.00")
    row.get_by_role("button").click()
    expect(page.locator("#check-status")).to_contain_text(f"Round {number} is fair")
    expect(page.locator("#check-status")).to_contain_text("The bets are the ones shown before the draw.")
    row.get_by_role("button").evaluate("button => { button.dataset.bets = '0x' + '00'.repeat(32); }")
    row.get_by_role("button").click()
    expect(page.locator("#check-status")).to_contain_text("FAILS the check: before the draw the hash of its bets was")
    visit.clean()


SPIN = """([phase, pocket]) => {
  Object.assign(document.getElementById("round").dataset, { round: "1000000", phase, pocket });
  document.dispatchEvent(new Event("page:fresh"));
  const turns = document.getElementById("wheel-turn").getAnimations().map((each) => each.effect.getTiming().iterations);
  const isShown = document.querySelector("#round .when").checkVisibility({ visibilityProperty: true });
  return [turns, document.getElementById("wheel-number").textContent, isShown];
}"""
UNDER_THE_POINTER = """() => {
  const top = document.querySelector(".pointer").getBoundingClientRect();
  const near = (each) => {
    const box = each.getBoundingClientRect();
    return Math.hypot(box.x + box.width / 2 - top.x - top.width / 2, box.y + box.height / 2 - top.y);
  };
  const pockets = [...document.querySelectorAll(".pocket text")];
  return pockets.sort((one, other) => near(one) - near(other))[0].textContent;
}"""


@pytest.mark.parametrize("motion", ["no-preference", "reduce"])
def test_the_wheel_slows_down_to_its_pocket_and_then_shows_the_result(
    site: Site, visitor: Visitor, motion: Literal["no-preference", "reduce"]
) -> None:
    visit = visitor.visit(reduced_motion=motion)
    visit.open("/roulette")
    page = visit.page
    page.route("**/*", lambda route: route.abort())  # nothing but this test turns it
    moves = motion == "no-preference"
    number = page.locator("#wheel-number")
    pocket = "17" if number.text_content() != "17" else "18"  # it shows the last round's until it has slowed down
    assert page.evaluate(SPIN, ["spin", ""])[0] == ([math.inf] if moves else [])  # for as long as it is not known
    page.wait_for_timeout(300)
    turns, shown, result_shown = page.evaluate(SPIN, ["spin", pocket])
    assert turns == ([1] if moves else [])
    if moves:
        assert (shown == pocket, result_shown) == (False, False)
    expect(number).to_have_text(pocket)
    expect(page.locator("#round .when")).to_be_visible()
    expect(page.locator(".pocket.hit")).to_have_attribute("data-number", pocket)
    page.wait_for_timeout(200)
    assert page.evaluate(UNDER_THE_POINTER) == pocket
    assert page.evaluate("document.getElementById('wheel-turn').getAnimations().length") == 0


def test_a_key_that_is_being_made_is_waited_for(site: Site, visitor: Visitor) -> None:
    """Pressing the next button before the key is there does not ask for a wallet again."""
    visit = visitor.visit()
    slow: list[Route] = []

    def hold(route: Route) -> None:
        slow.append(route)

    visit.page.route(re.compile(r"/betting\b.*\.js"), hold)
    visit.open("/cup")
    page = visit.page
    page.get_by_role("button", name="Use a key in this browser").click()
    page.get_by_role("button", name="Claim 10,000 pUSDC").click()
    page.wait_for_timeout(500)
    assert slow, "the key was made at once"
    for each in slow:
        each.continue_()
    expect(page.locator("#claim-status")).to_have_text("You have 10,000 pUSDC.")
    expect(page.get_by_role("dialog")).to_have_count(0)
    visit.clean()


def test_a_forged_spin_fails_the_check(site: Site, visitor: Visitor) -> None:
    site.end_round()
    site.until("/api/cup/v1/roulette", lambda body: len(body["history"]) >= 1, ROUND_MS / 1000)
    visit = visitor.visit()
    visit.open("/roulette")
    page = visit.page
    page.evaluate(FORGE, ["pocket", "37"])
    expect(page.locator("#check-status")).to_contain_text("FAILS the check: the seed gives pocket")
    page.evaluate(FORGE, ["seed", "0x" + "00" * 32])
    expect(page.locator("#check-status")).to_contain_text("FAILS the check: the seed does not match the commitment")
    visit.clean()


def test_claiming_and_trading_on_paper(site: Site, visitor: Visitor) -> None:
    visit, signer = visitor.with_wallet(wallets.wallet("a browser's trader"))
    site.until("/api/cup/v1/markets", lambda body: body["count"] >= 2)
    visit.open("/cup")
    page = visit.page
    page.get_by_role("button", name="Claim 10,000 pUSDC").click()
    expect(page.locator("#claim-status")).to_have_text("You have 10,000 pUSDC.")
    page.get_by_label("Market", exact=True).select_option(site.slugs["binary"])
    page.get_by_label("Side").select_option("no")
    page.get_by_label("Amount in pUSDC").fill("25")
    expect(page.locator("#paper-paid")).not_to_have_text("–")
    page.get_by_role("button", name="Sign and trade").click()
    expect(page.locator("#paper-status")).to_contain_text("Balance 9975.00 pUSDC")
    assert signer.signed[0]["text"].splitlines()[:4][2:] == [f"Market: {site.slugs['binary']}", "Side: no"]
    expect(page.locator("#mine")).to_contain_text("9,975.00")
    visit.clean()
