"""Unknown query parameters are reported in the answer, through the real application over HTTP."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Annotated, Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer
from pydantic import BaseModel, Field

from api.app import application
from api.caching import Rendered, json_response
from api.operations import DocumentedAnswer, Operation, Surface
from api.problems import Problem
from api.requests import read_query

EXACT = b'{"price":0.10,"list":[%s]}' % b",".join([b"123456789012345678.25"] * 100)


class Query(BaseModel):
    limit: int = 5
    market: Annotated[str | None, Field(alias="marketId")] = None


async def _plain(request: web.Request) -> web.StreamResponse:
    return json_response({"limit": read_query(request, Query).limit})


async def _with_meta(request: web.Request) -> web.StreamResponse:
    return json_response({"meta": {"name": "this"}, "limit": read_query(request, Query).limit})


async def _shared(request: web.Request) -> web.StreamResponse:
    return (await Rendered.make(EXACT, "public, max-age=5")).answer(request)


async def _empty(_request: web.Request) -> web.StreamResponse:
    return json_response({})


async def _refused(_request: web.Request) -> web.StreamResponse:
    raise Problem(409, "closed", "It is closed.")


@pytest.fixture
async def client() -> AsyncIterator[TestClient[Any, Any]]:
    answers = {200: DocumentedAnswer("One.")}
    operations = tuple(
        Operation("GET", path, handler, "One", answers, query=model)
        for path, handler, model in (
            ("/api/plain", _plain, Query),
            ("/api/meta", _with_meta, Query),
            ("/api/shared", _shared, None),
            ("/api/empty", _empty, None),
            ("/api/refused", _refused, None),
            ("/openapi.json", _plain, Query),
        )
    )
    surface = Surface("one", "One", "One", ("/",), operations)
    async with TestClient(TestServer(application([surface]))) as made:
        yield made


async def _get(client: TestClient[Any, Any], path: str) -> Any:
    async with client.get(path) as response:
        assert response.content_type == "application/json"
        return await response.json()


async def test_a_misspelt_name_comes_back_with_the_nearest_known_one(client: TestClient[Any, Any]) -> None:
    assert await _get(client, "/api/plain?limt=3&limt=4&marketid=7&limit=2") == {
        "ignoredQuery": [{"name": "limt", "nearest": "limit"}, {"name": "marketid", "nearest": "marketId"}],
        "limit": 2,
    }
    assert await _get(client, "/api/meta?utm_source=x") == {
        "meta": {"ignoredQuery": [{"name": "utm_source", "nearest": None}], "name": "this"},
        "limit": 5,
    }
    assert await _get(client, "/api/empty?a") == {"ignoredQuery": [{"name": "a", "nearest": None}]}


async def test_known_parameters_are_not_reported(client: TestClient[Any, Any]) -> None:
    for path in ("/api/plain", "/api/plain?limit=3&marketId=4", "/openapi.json?limt=3"):
        assert set(await _get(client, path)) == {"limit"}
    assert set(await _get(client, "/api/refused?limt=3")) == {"error", "message"}


async def test_an_answer_for_many_keeps_its_digits_and_the_others_stay_as_they_were(
    client: TestClient[Any, Any],
) -> None:
    async with client.get("/api/shared") as plain:
        assert plain.headers["Content-Encoding"] == "gzip"
        assert await plain.read() == EXACT
        tag = plain.headers["ETag"]
    async with client.get("/api/shared?limit=1") as named:
        assert await named.read() == EXACT.replace(b"{", b'{"ignoredQuery":[{"name":"limit","nearest":null}],', 1)
        assert named.headers["Cache-Control"] == "public, max-age=5"
        assert named.headers["ETag"] != tag
        assert "Content-Encoding" not in named.headers
    async with client.get("/api/shared?limit=1", headers={"If-None-Match": tag}) as other:
        assert other.status == 200
    for path, own in (("/api/shared", tag), ("/api/shared?limit=1", named.headers["ETag"])):
        async with client.get(path, headers={"If-None-Match": own}) as held:
            assert held.status == 304


async def test_a_query_of_thousands_of_names_is_named_back_in_part(client: TestClient[Any, Any]) -> None:
    named = (await _get(client, "/api/plain?" + "&".join(f"{'a' * 70}{n}" for n in range(90))))["ignoredQuery"]
    assert len(named) == 10
    assert {len(each["name"]) for each in named} == {64}
    assert len(json.dumps(named)) < 2_000
