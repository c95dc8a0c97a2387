"""Charts can be read off: the crosshair shows the values that were drawn."""

from __future__ import annotations

import json
import re

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import Visitor
from tests.browser.site import Site
from tests.browser.test_every_page import path_of


def test_a_chart_shows_its_values_at_the_crosshair(site: Site, visitor: Visitor) -> None:
    plain = visitor.visit(java_script_enabled=False)
    plain.open(f"/m/{site.markets['settled']}")
    figures = json.loads(plain.page.locator("#price-now .chart").get_attribute("data-chart") or "")
    visit = visitor.visit()
    visit.open(f"/m/{site.markets['settled']}")
    page = visit.page
    frame = page.locator("#price-now .chart-frame")
    expect(frame.locator("canvas")).to_be_visible()
    assert frame.locator(".chart").count() == 0
    plot, tip = frame.locator(".plot"), frame.locator(".chart-tip")
    box = plot.bounding_box()
    assert box is not None
    assert box["height"] == pytest.approx(frame.bounding_box()["height"], abs=2)  # type: ignore[index]
    plot.hover(position={"x": box["width"] * 0.7, "y": box["height"] / 2})
    expect(tip).to_have_text(re.compile(r"\d:\d\d:\d\d.*\d+\.\d\d$"))
    page.mouse.move(0, 0)
    plot.focus()
    page.keyboard.press("ArrowLeft")
    last = figures["lines"][0]["points"][-1][1] / figures["one"]
    expect(tip).to_contain_text(f"{last:,.2f}")
    first = figures["lines"][0]["points"][0][1] / figures["one"]
    for _ in figures["lines"][0]["points"]:
        page.keyboard.press("ArrowLeft")
    expect(tip).to_contain_text(f"{first:,.2f}")
    visit.clean()


def test_the_portfolio_chart_shows_what_was_won(site: Site, visitor: Visitor) -> None:
    path = path_of(site, "owner")
    plain = visitor.visit(java_script_enabled=False)
    plain.open(path)
    figures = json.loads(plain.page.locator("#results .chart").first.get_attribute("data-chart") or "")
    points = figures["lines"][0]["points"]
    visit = visitor.visit("phone", "dark")
    visit.open(path)
    frame = visit.page.locator("#results .chart-frame").first
    frame.locator(".plot").focus()
    visit.page.keyboard.press("ArrowLeft")
    expect(frame.locator(".chart-tip")).to_contain_text(f"{points[-1][1] / figures['one']:,.2f}")
    for _ in points:
        visit.page.keyboard.press("ArrowLeft")
    expect(frame.locator(".chart-tip")).to_contain_text(f"{points[0][1] / figures['one']:,.2f}")
    visit.clean()


def test_both_sides_of_the_odds_are_drawn_and_a_fresh_page_draws_anew(site: Site, visitor: Visitor) -> None:
    visit = visitor.visit()
    visit.open(f"/markets/{site.slugs['binary']}")
    plot = visit.page.locator("#odds .plot")
    plot.focus()
    visit.page.keyboard.press("ArrowLeft")
    expect(visit.page.locator("#odds .chart-tip")).to_have_text(re.compile(r"YES \d+\.\d\d%", re.IGNORECASE))
    expect(visit.page.locator("#odds .chart-tip")).to_have_text(re.compile(r"NO \d+\.\d\d%", re.IGNORECASE))
    visit.page.evaluate("document.activeElement.blur()")
    visit.page.evaluate(
        """async () => {
            const text = await (await fetch(location.href)).text();
            const fresh = new DOMParser().parseFromString(text, "text/html").querySelector("#odds .chart-frame");
            document.querySelector("#odds .chart-frame").replaceWith(document.importNode(fresh, true));
            document.dispatchEvent(new Event("page:fresh"));
        }"""
    )
    expect(visit.page.locator("#odds canvas")).to_have_count(1)
    assert visit.page.locator("#odds .chart").count() == 0
    visit.clean()
