"""`./vpm screenshots`: the pictures in docs/pages, of the site the browser tests use. Collected only when named."""

from __future__ import annotations

import pytest

from core.paths import REPOSITORY
from scripts._stack import wallets
from tests.browser.conftest import Scheme, Size, Visitor
from tests.browser.site import Site
from tests.browser.test_every_page import path_of

ROUND_MS = 120_000  # within which the first round is over
FOLDER = REPOSITORY / "docs" / "pages"

SHOTS: tuple[tuple[str, Size, Scheme], ...] = (
    ("home", "desktop", "light"),
    ("live", "desktop", "light"),
    ("live", "phone", "dark"),
    ("settled", "desktop", "dark"),
    ("binary", "desktop", "light"),
    ("binary", "phone", "dark"),
    ("roulette", "desktop", "dark"),
    ("roulette", "phone", "light"),
    ("proof", "desktop", "light"),
    ("how", "phone", "light"),
    ("owner", "phone", "light"),
    ("cup", "desktop", "light"),
    ("cup", "phone", "dark"),
    ("docs/stock", "desktop", "light"),
)


@pytest.mark.parametrize(("name", "size", "scheme"), SHOTS)
def test_take(site: Site, visitor: Visitor, name: str, size: Size, scheme: Scheme) -> None:
    visit, _ = visitor.with_wallet(wallets.DEV[0], size, scheme)
    visit.open(path_of(site, name))
    page = visit.page
    if name == "roulette":
        page.locator("#recent .ball").first.wait_for(timeout=ROUND_MS)
        page.locator('#round[data-phase="bet"]').wait_for(timeout=ROUND_MS)
    if name in ("live", "settled"):
        page.get_by_role("button", name="Connect wallet").click()
        page.locator("#yours .position").first.wait_for()
    page.mouse.move(0, 0)
    FOLDER.mkdir(parents=True, exist_ok=True)
    # The first screenful: what it looks like, in a small file.
    width, height = (375, 1000) if size == "phone" else (1280, 960)
    page.set_viewport_size({"width": width, "height": height})
    page.wait_for_timeout(300)
    page.screenshot(path=FOLDER / f"{name.replace('/', '-')}-{size}-{scheme}.jpg", type="jpeg", quality=75)
    visit.clean()
