"""What the stock pages are given of a market, while more markets are asked for than are kept."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from api.context import Context
from api.limits import RequestQuota
from api.problems import unavailable
from api.stock.reads import StockReads
from api.stock.sources import StockSources


@pytest.mark.parametrize("is_away", [True, False])
async def test_a_cut_list_says_where_the_next_page_starts(is_away: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    def listed(number: int) -> Any:
        return SimpleNamespace(id=number, market=SimpleNamespace(settled=True))

    async def page(before: int, limit: int) -> list[Any]:
        if is_away:
            raise unavailable("away")
        return [listed(number) for number in range(before - 1, max(0, before - 1 - limit), -1)]

    snapshot = SimpleNamespace(markets={number: listed(number) for number in range(301, 501)})
    context = SimpleNamespace(settings=None, engine=None, limits=None)
    index = SimpleNamespace(page=page, required=lambda: snapshot)
    sources = cast(StockSources, SimpleNamespace(deployment=None, contracts=None, index=index, oracle=None))
    shown = StockReads(cast(Context, context), sources, cast(RequestQuota, None))
    monkeypatch.setattr(shown, "_listed_body", lambda market, _: market.id)
    monkeypatch.setattr(shown, "_listing", lambda markets, next_before: (markets, next_before))
    bodies, next_before = cast(Any, await shown._markets_body(None, None))
    ends_at = 301 if is_away else 1
    assert bodies == list(range(500, ends_at - 1, -1))
    assert next_before == ("301" if is_away else None)
