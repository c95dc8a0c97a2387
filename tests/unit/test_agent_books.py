"""A wallet's book: each position is rendered once for as long as it and its market stay what they are."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import orjson
import pytest

from api.agent import render
from api.agent.books import Book, Books
from api.agent.cursors import stake_before, stake_cursor
from api.agent.facts import ListedMarket, Stake
from api.agent.links import Links
from core.money import USD
from tests.support import agent_markets as agent

LINKS = Links("http://here", None, "0x" + "11" * 20)
WALLET = "0x" + "22" * 20


class Shelf:
    """A service's books over stakes and markets that a test changes, and how much was read and rendered."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.index: Any = SimpleNamespace(tick=1)
        self.markets = {each.key: each for each in (_market("one"), _market("two"))}
        keys = list(self.markets)
        self.stakes = [
            replace(agent.stake(0, USD, USD // 50, USD, id=number, block=number), market_key=keys[number % 2])
            for number in range(40, 0, -1)
        ]
        self.read = self.rendered = 0
        self.books = Books(self.index, self._read)
        position = render.position

        def counted(market: ListedMarket, stake: Stake, links: Links) -> Any:
            self.rendered += 1
            return position(market, stake, links)

        monkeypatch.setattr(render, "position", counted)

    async def _read(self, wallet: str, before: Book | None) -> Book:
        self.read += 1
        await asyncio.sleep(0)
        return Book(wallet, self.stakes, self.markets, _sums(self), agent.venue(), LINKS, before)

    async def page(self, limit: int) -> Any:
        return orjson.loads(await (await self.books.get(WALLET)).page(limit, None))


def _sums(shelf: Shelf) -> render.PositionSums:
    sums = render.PositionSums()
    sums.add(shelf.stakes, shelf.markets)
    return sums


def _market(name: str) -> ListedMarket:
    return agent.market(name, "BNKR", f"Will {name} be reached?", net=(100, 50))


async def test_every_limit_is_cut_from_one_book_that_all_wait_for(monkeypatch: pytest.MonkeyPatch) -> None:
    shelf = Shelf(monkeypatch)
    pages = await asyncio.gather(*(shelf.page(limit) for limit in range(1, 41)))
    assert [page["count"] for page in pages] == list(range(1, 41))
    assert pages[-1]["nextCursor"] is None
    assert pages[-2]["nextCursor"] is not None
    assert shelf.read == 1
    assert shelf.rendered == 40


@pytest.mark.parametrize("limit", [1, 7, 39, 40, 41])
async def test_the_pages_are_the_whole_book_once(monkeypatch: pytest.MonkeyPatch, limit: int) -> None:
    shelf = Shelf(monkeypatch)
    pages: list[Any] = []
    whole, before = await shelf.page(40), None
    book = await shelf.books.get(WALLET)
    while not pages or pages[-1]["nextCursor"] is not None:
        pages.append(orjson.loads(await book.page(limit, before)))
        before = stake_before(pages[-1]["nextCursor"]) if pages[-1]["nextCursor"] else None
    assert [each for page in pages for each in page["positions"]] == whole["positions"]
    assert len(pages) == -(-40 // limit)


async def test_a_page_goes_on_behind_a_stake_that_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    shelf = Shelf(monkeypatch)
    whole = await shelf.page(40)
    del shelf.stakes[9]
    shelf.index.tick += 1
    after = orjson.loads(await (await shelf.books.get(WALLET)).page(40, stake_before(stake_cursor(31, 0))))
    assert after["positions"] == whole["positions"][10:]


async def test_what_is_not_shown_is_not_rendered(monkeypatch: pytest.MonkeyPatch) -> None:
    shelf = Shelf(monkeypatch)
    await shelf.page(3)
    assert shelf.rendered == 3


async def test_after_a_change_only_what_changed_is_rendered_again(monkeypatch: pytest.MonkeyPatch) -> None:
    shelf = Shelf(monkeypatch)
    before = await shelf.page(40)
    key, market = next(iter(shelf.markets.items()))
    book = replace(market.book, net=(300 * USD, 50 * USD), shares=(400 * USD, 90 * USD), excess=(99 * USD, 40 * USD))
    changed = replace(market, book=book)
    shelf.markets = {**shelf.markets, key: changed}
    shelf.stakes = [replace(shelf.stakes[0], paid_tx=b"\1" * 32), *shelf.stakes[1:]]
    shelf.index.tick += 1
    shelf.rendered = 0
    after = await shelf.page(40)
    moved = {each.id for each in shelf.stakes if each.market_key == key} | {shelf.stakes[0].id}
    assert shelf.rendered == len(moved)
    fresh = Book(WALLET, shelf.stakes, shelf.markets, _sums(shelf), agent.venue(), LINKS, None)
    assert after["positions"] == orjson.loads(await fresh.page(40, None))["positions"]
    assert after["positions"] != before["positions"]
