"""One site and one Chromium for all browser tests; each test gets pages that record what goes wrong."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Literal
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect, sync_playwright

from core.paths import REPOSITORY
from scripts._stack.wallets import Wallet
from tests.browser.site import Site, running_site
from tests.browser.wallet import PageWallet
from tests.conftest import TestPostgres
from tests.support.genesis import chain, genesis

# The first has no windows to draw, which takes a fifth less of the processor's time.
CHROMIUM = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
SIZES = {"phone": {"width": 375, "height": 800}, "desktop": {"width": 1280, "height": 900}}
# What is waited for comes at once on an idle machine; a busy one is no fault of a page.
WAIT_MS = 90_000
expect.set_options(timeout=WAIT_MS)

Size = Literal["phone", "desktop"]
Scheme = Literal["light", "dark"]


@pytest.fixture(scope="session")
def site(postgres: TestPostgres, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    folder, known = tmp_path_factory.mktemp("site"), genesis()
    database_url = postgres.create()
    with (
        chain(known, "stock", folder / "stock.log") as stock,
        # A block a second, as the wheel's beacon is the first block after a round closes.
        chain(known, "base", folder / "base.log", block_seconds=1) as base,
        running_site(known, stock, base, database_url, folder) as running,
    ):
        yield running
    postgres.drop(database_url)


@pytest.fixture(scope="session")
def chromium(site: Site) -> Iterator[Browser]:
    path = next((found for name in CHROMIUM if (found := shutil.which(name))), None)
    assert path is not None, "there is no Chromium on this machine"
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=path, args=["--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu"]
        )
        yield browser
        browser.close()


@dataclass
class Visit:
    """A page and what went wrong on it."""

    page: Page
    site: Site
    console: list[str] = field(default_factory=list)
    foreign: list[str] = field(default_factory=list)

    def open(self, path: str) -> None:
        response = self.page.goto(self.site.url + path, wait_until="load")
        assert response is not None
        assert response.status == 200, f"{path}: {response.status}"

    def clean(self) -> None:
        assert self.console == []
        assert self.foreign == []


class Visitor:
    """Opens windows and records their console messages and their requests to other hosts."""

    def __init__(self, browser: Browser, site: Site) -> None:
        self._browser = browser
        self._site = site
        self._contexts: list[BrowserContext] = []

    def visit(self, size: Size = "desktop", scheme: Scheme = "light", **options: Any) -> Visit:
        context = self._browser.new_context(viewport=SIZES[size], color_scheme=scheme, **options)
        context.set_default_timeout(WAIT_MS)
        self._contexts.append(context)
        visit = Visit(context.new_page(), self._site)
        own = urlsplit(self._site.url).netloc

        def on_console(message: Any) -> None:
            if message.type in ("error", "warning"):
                visit.console.append(f"{message.type}: {message.text}")

        def asked(request: Any) -> None:
            parts = urlsplit(request.url)
            if parts.scheme not in ("data", "blob") and parts.netloc != own:
                visit.foreign.append(request.url)

        visit.page.on("console", on_console)
        visit.page.on("pageerror", lambda error: visit.console.append(f"thrown: {error}"))
        visit.page.on("request", asked)
        return visit

    def with_wallet(self, wallet: Wallet, size: Size = "desktop", scheme: Scheme = "light") -> tuple[Visit, PageWallet]:
        visit = self.visit(size, scheme)
        return visit, PageWallet(visit.page, self._site.stock, wallet)

    def close(self) -> None:
        while self._contexts:
            self._contexts.pop().close()


@pytest.fixture
def visitor(chromium: Browser, site: Site) -> Iterator[Visitor]:
    opened = Visitor(chromium, site)
    yield opened
    opened.close()


@pytest.fixture(scope="session")
def axe() -> str:
    """The axe-core engine, to run inside a page."""
    path = REPOSITORY / "node_modules" / "axe-core" / "axe.min.js"
    return path.read_text()
