"""Reading HTTP sources: values, doubtful answers, and failures."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from types import SimpleNamespace
from typing import Any, cast
from unittest.mock import ANY

import aiohttp
import pytest
from aiohttp import web

from core.chain import RpcError, RpcErrorKind
from keeper.agent import snapshot_job
from keeper.run import JobRun
from keeper.sources import (
    ONE,
    ChainlinkSource,
    FeedSources,
    HttpSource,
    RefusalReason,
    Sample,
    SampleRefused,
    http_sample,
)
from tests.support.serving import serving

NOW = 1_800_000_000


Answer = Callable[[web.Request], Awaitable[web.StreamResponse]]


@pytest.fixture
async def served() -> AsyncIterator[Callable[[Answer], Awaitable[str]]]:
    async with AsyncExitStack() as stack:

        async def serve(answer: Answer) -> str:
            app = web.Application()
            app.router.add_get("/v", answer)
            return f"{await stack.enter_async_context(serving(app))}/v"

        yield serve


def source(url: str, **changes: object) -> HttpSource:
    return HttpSource.model_validate(
        {"kind": "http", "name": "dex", "url": url, "value": "pairs.0.marketCap", "timeout_seconds": 0.5} | changes
    )


async def asked(url: str, **changes: object) -> Sample:
    async with aiohttp.ClientSession() as session:
        return await http_sample(session, source(url, **changes), NOW)


async def test_a_number_in_a_document(served: Callable[[Answer], Awaitable[str]]) -> None:
    async def answer(_: web.Request) -> web.Response:
        return web.Response(text=f'{{"pairs":[{{"marketCap":81234567.891234567,"at":{NOW - 30}000}}]}}')

    url = await served(answer)
    assert await asked(url) == Sample(81_234_567_89123456, NOW, "dex")
    assert (await asked(url, observed_at="pairs.0.at")).observed_at == NOW - 30
    assert (await asked(url, multiply="2")).value == 162_469_135_78246913


@pytest.mark.parametrize(
    ("status", "body", "changes", "refused"),
    [
        (500, "{}", {}, RefusalReason.DOWN),
        (429, "{}", {}, RefusalReason.DOWN),
        (200, "<html>", {}, RefusalReason.ABSURD),
        (200, "{}", {}, RefusalReason.ABSURD),
        (200, '{"pairs":null}', {}, RefusalReason.ABSURD),
        (200, '{"pairs":[]}', {}, RefusalReason.ABSURD),
        (200, '{"pairs":[{"marketCap":null}]}', {}, RefusalReason.ABSURD),
        (200, '{"pairs":[{"marketCap":true}]}', {}, RefusalReason.ABSURD),
        (200, '{"pairs":[{"marketCap":NaN}]}', {}, RefusalReason.ABSURD),
        (200, '{"pairs":[{"marketCap":-4}]}', {}, RefusalReason.ABSURD),
        (200, '{"pairs":[{"marketCap":9e999999}]}', {}, RefusalReason.ABSURD),
        (200, '{"pairs":[{"marketCap":1e999990}]}', {}, RefusalReason.ABSURD),
        (200, '{"pairs":[{"marketCap":"Infinity"}]}', {}, RefusalReason.ABSURD),
        (200, '{"pairs":[{"marketCap":5,"at":null}]}', {"observed_at": "pairs.0.at"}, RefusalReason.ABSURD),
        (200, '{"pairs":[{"marketCap":5,"at":{}}]}', {"observed_at": "pairs.0.at"}, RefusalReason.ABSURD),
        (200, '{"pairs":[{"marketCap":5,"at":[0,[1],1]}]}', {"observed_at": "pairs.0.at"}, RefusalReason.ABSURD),
        (200, '{"pairs":[{"marketCap":5,"at":9e999999}]}', {"observed_at": "pairs.0.at"}, RefusalReason.ABSURD),
        (200, "[" * 100_000, {}, RefusalReason.ABSURD),
        (200, f'{{"pairs":[{{"marketCap":5,"at":{NOW - 301}}}]}}', {"observed_at": "pairs.0.at"}, RefusalReason.LATE),
        (200, '"' + "x" * 2_100_000 + '"', {}, RefusalReason.ABSURD),
    ],
)
async def test_an_answer_in_doubt_is_refused(
    served: Callable[[Answer], Awaitable[str]],
    status: int,
    body: str,
    changes: dict[str, object],
    refused: RefusalReason,
) -> None:
    async def answer(_: web.Request) -> web.Response:
        return web.Response(status=status, text=body)

    with pytest.raises(SampleRefused) as found:
        await asked(await served(answer), **changes)
    assert found.value.why is refused


class Reverting:
    """A chain whose feeds have a round and cannot say how many decimals it has."""

    async def read(self, call: str, block: int) -> tuple[int, ...]:
        if call == "decimals":
            raise RpcError(RpcErrorKind.REVERTED, "decimals() reverted")
        return 1, 100 * ONE, NOW, NOW, 1


async def test_one_faulty_source_does_not_defeat_two_that_agree(served: Callable[[Answer], Awaitable[str]]) -> None:
    async def answer(_: web.Request) -> web.Response:
        return web.Response(text='{"pairs":[{"marketCap":100}]}')

    url = await served(answer)
    feed = ChainlinkSource.model_validate(
        {"kind": "chainlink", "name": "c", "feed": "0x" + "11" * 20, "max_age_seconds": 60}
    )
    observed = FeedSources(sources=(source(url), feed, source(url, name="cex")))
    async with aiohttp.ClientSession() as session:
        run = SimpleNamespace(
            keeper=SimpleNamespace(http=session),
            chain=SimpleNamespace(
                at=lambda address, name: SimpleNamespace(call=lambda function: function), client=Reverting()
            ),
            now=NOW,
            head=7,
        )
        believed = await snapshot_job._agreed_sample(
            cast(JobRun, run), cast(Any, SimpleNamespace(key="k")), ANY, observed, None
        )
    assert believed.value == 100 * ONE


@pytest.mark.parametrize("ahead", [16, 2_300])
async def test_a_source_ahead_of_the_head_says_that_the_head_is_late(
    served: Callable[[Answer], Awaitable[str]], ahead: int
) -> None:
    async def answer(_: web.Request) -> web.Response:
        return web.Response(text=f'{{"pairs":[{{"marketCap":5,"at":{NOW + ahead},"near":{NOW + 15}}}]}}')

    url = await served(answer)
    with pytest.raises(SampleRefused) as found:
        await asked(url, observed_at="pairs.0.at")
    assert found.value.why is RefusalReason.LATE
    assert (await asked(url, observed_at="pairs.0.near")).observed_at == NOW


async def test_silence_is_late_and_a_closed_port_is_down(served: Callable[[Answer], Awaitable[str]]) -> None:
    async def answer(_: web.Request) -> web.Response:
        await asyncio.sleep(1)
        return web.Response(text="{}")

    with pytest.raises(SampleRefused) as late:
        await asked(await served(answer), timeout_seconds=0.1)
    assert late.value.why is RefusalReason.LATE
    with pytest.raises(SampleRefused) as down:
        await asked("http://127.0.0.1:9/v")
    assert down.value.why is RefusalReason.DOWN
