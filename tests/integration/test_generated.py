"""The generated requests find what they are there to find: each service here breaks one promise of its description."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Annotated, Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from pydantic import BaseModel, Field

from api.http.application import application, json_response
from api.http.docs import docs_surface
from api.http.operation import DocumentedAnswer, Operation, Surface
from api.http.problem import Problem, invalid_part
from api.http.requests import read_json, read_query, validated_body
from tests.support.generated import Seen, generated_requests


class Thing(BaseModel):
    name: str


class Asked(BaseModel):
    size: Annotated[int, Field(ge=1, le=9)]


class Wanted(BaseModel):
    who: Annotated[str, Field(strict=True, pattern="^[a-z]{1,8}$")]


class Error(BaseModel):
    error: str
    message: str


async def well(request: web.Request) -> web.StreamResponse:
    if request.method == "POST":
        wanted = validated_body(Wanted, await read_json(request, limit=4_000))
        if wanted.who == "nobody":
            raise Problem(404, "not_found", "There is nobody.")
        return json_response({"name": wanted.who})
    return json_response({"name": "x" * read_query(request, Asked).size})


async def raises(request: web.Request) -> web.StreamResponse:
    if read_query(request, Asked).size == 9:
        raise RuntimeError("nine")
    return json_response({"name": ""})


async def undocumented(request: web.Request) -> web.StreamResponse:
    if read_query(request, Asked).size == 9:
        raise Problem(418, "teapot", "Nine is for tea.")
    return json_response({"name": ""})


async def another_body(request: web.Request) -> web.StreamResponse:
    return json_response({"name": read_query(request, Asked).size})


async def refuses_what_fits(request: web.Request) -> web.StreamResponse:
    if read_query(request, Asked).size == 9:
        raise invalid_part("query parameter", "size", "nine is too many")
    return json_response({"name": ""})


async def refuses_by_a_code_of_its_own(request: web.Request) -> web.StreamResponse:
    if read_query(request, Asked).size == 9:
        raise Problem(400, "too_many", "Nine is too many.")
    return json_response({"name": ""})


async def takes_anything(_request: web.Request) -> web.StreamResponse:
    return json_response({"name": ""})


Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@asynccontextmanager
async def served(get: Handler) -> AsyncIterator[str]:
    refusal = DocumentedAnswer("No.", Error)
    things = Surface(
        "things",
        "Things",
        "",
        ("/api/",),
        (
            Operation(
                "GET", "/api/things", get, "Some", {200: DocumentedAnswer("Yes.", Thing), 400: refusal}, query=Asked
            ),
            Operation(
                "POST",
                "/api/things",
                well,
                "One more",
                {200: DocumentedAnswer("Yes.", Thing), 400: refusal, 404: refusal},
                body=Wanted,
            ),
        ),
        lambda problem, _id: {"error": problem.code, "message": problem.message, **problem.extra},
    )
    async with TestServer(application([things, docs_surface([things], title="Things", server="/")])) as server:
        yield str(server.make_url("/openapi/things.json"))


async def asked(get: Handler, **how: Any) -> Seen:
    async with served(get) as url:
        return await asyncio.to_thread(generated_requests, url, examples=15, **how)


async def test_a_service_as_described_passes_and_what_was_reached_is_told() -> None:
    seen = await asked(well, known={"POST /api/things": [{"who": "nobody"}]})
    seen.reached({"GET /api/things": {200, 400}, "POST /api/things": {200, 400, 404, 415}})
    with pytest.raises(AssertionError, match=r"never answered \[409\]"):
        seen.reached({"GET /api/things": {409}})
    with pytest.raises(AssertionError, match="never answered 2xx"):
        seen.reached(refuse=["GET /api/things"])


@pytest.mark.parametrize(
    ("get", "told"),
    [
        (raises, "answered 500"),
        (undocumented, "Undocumented status code"),
        (another_body, "Response violates schema"),
        (refuses_what_fits, "the schema of size lets pass what is refused"),
        (refuses_by_a_code_of_its_own, "too_many is not among what 400 means here"),
        (takes_anything, "Schema-violating request accepted"),
    ],
)
async def test_each_broken_promise_is_found(get: Handler, told: str) -> None:
    with pytest.raises((AssertionError, BaseExceptionGroup)) as found:
        await asked(get)
    shown = "\n".join(str(each) for each in getattr(found.value, "exceptions", [found.value]))
    assert told in shown
