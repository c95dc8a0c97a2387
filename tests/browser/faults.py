"""Faults that browser tests put under a running site, undone when the block ends."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from playwright.sync_api import Page, Route

from tests.browser.site import Site


@contextmanager
def relayer_away(site: Site) -> Iterator[None]:
    """The relayer stands still, as on a machine that is swapped out."""
    relayer = site.running["relayer"].pid
    os.kill(relayer, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(relayer, signal.SIGCONT)


@contextmanager
def relayer_away_once_signed(site: Site, page: Page) -> Iterator[None]:
    """Stop the relayer between the page's signature and its paid request. No sooner, even on a busy machine: the page
    asks for no signature while it knows that nothing can be settled."""
    bets = "**/api/agent/v1/*"
    with ExitStack() as away:

        def leave(route: Route) -> None:
            if "x-payment" in route.request.headers and not gone:
                away.enter_context(relayer_away(site))
                gone.append(True)
            route.continue_()

        gone: list[bool] = []
        page.route(bets, leave)
        yield
        page.unroute(bets)
        assert gone, "the page sent no payment"
