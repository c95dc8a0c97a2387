"""Pages as all who ask for one share its rendering."""

from __future__ import annotations

import asyncio
from decimal import Decimal

import pytest

from api.stock.bodies import OwnerBody
from api.stock.owned import NO_TOTALS
from api.web.assets import Assets, load_assets
from api.web.templating import Pages
from tests.waiting import PATIENCE


class Slow:
    """A page that renders until it is released, and fails on request."""

    def __init__(self) -> None:
        self.begun = 0
        self.released = asyncio.Event()
        self.fails = False

    async def render(self) -> bytes:
        self.begun += 1
        await self.released.wait()
        if self.fails:
            raise ConnectionError
        return b"a page"


@pytest.fixture
def pages() -> Pages:
    return Pages(Assets({}, {}), "http://127.0.0.1:1", {}, {})


async def test_concurrent_requests_share_one_rendering(pages: Pages) -> None:
    slow = Slow()
    async with asyncio.timeout(PATIENCE), asyncio.TaskGroup() as tasks:
        asked = [tasks.create_task(pages.last_rendering("cup", 1, slow.render)) for _ in range(5)]
        await asyncio.sleep(0.05)
        asked[0].cancel()  # one reader leaving does not cancel it for the others
        slow.released.set()
    assert slow.begun == 1
    await pages.last_rendering("cup", 1, slow.render)
    assert slow.begun == 1
    await pages.last_rendering("cup", 2, slow.render)
    await pages.last_rendering("roulette", 2, slow.render)
    assert slow.begun == 3


async def test_a_failed_rendering_is_not_cached(pages: Pages) -> None:
    slow = Slow()
    slow.released.set()
    slow.fails = True
    with pytest.raises(ConnectionError):
        await pages.last_rendering("cup", 1, slow.render)
    slow.fails = False
    assert (await pages.last_rendering("cup", 1, slow.render)).size


async def test_a_stake_is_called_refunded_only_once_it_was_sent() -> None:
    bet = {
        "slug": "void",
        "question": "Will it?",
        "outcomeLabel": "Yes",
        "status": "resolved-refunded",
        "stakedUsd": Decimal(5),
        "payoutUsd": Decimal(5),
        "pnlUsd": Decimal(0),
        "payoutTx": None,
        "tradeId": "0x1",
    }
    sent = {**bet, "payoutTx": "0x" + "12" * 32}
    agent = {"positions": [bet, sent], "nextCursor": None, "count": 2, "summary": {"openCount": 0, "resolvedCount": 2}}
    stock = OwnerBody(
        owner="0x" + "34" * 20,
        deployed=True,
        positions=[],
        totals=NO_TOTALS,
        read_at=0,
        stale=False,
        next_before=None,
    )
    shown = {"stock": stock, "agent": agent, **dict.fromkeys(("wrong", "paper", "chart", "results", "older"))}
    pages = Pages(await load_assets(), "http://127.0.0.1:1", {"demo": None}, {"base": None})
    page = pages.render("positions.html", path="/positions", owner=stock.owner, **shown).decode()
    assert (page.count(">refund pending</td>"), page.count(">refunded</td>")) == (1, 1)
    assert page.count("refunded") == 1
