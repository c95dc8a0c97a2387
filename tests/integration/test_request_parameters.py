"""What the answer to a wrong path or query says over HTTP."""

from __future__ import annotations

import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer
from pydantic import BaseModel, Field

from api.app import application
from api.operations import Operation, Surface
from api.problems import invalid_part
from api.requests import read_query


async def test_a_path_takes_braces_and_its_operation_says_what_is_wrong_with_them() -> None:
    async def refuse(request: web.Request) -> web.StreamResponse:
        raise invalid_part("path parameter", "address", f"{request.match_info['address']} is none")

    read = Operation("GET", "/wallet/{address}/readiness", refuse, "Whether it can pay", {})
    surface = Surface("any", "Any", "", ("/",), (read,), lambda problem, _: {"message": problem.message})
    async with TestClient(TestServer(application([surface]))) as client:
        for given in ("%7B%7D", "%7B'a'%3A%201%7D"):
            answer = await client.get(f"/wallet/{given}/readiness")
            assert answer.status == 400, await answer.text()


class Priced(BaseModel):
    size: int = Field(default=1, alias="sizeUsd")
    side: str = "yes"


@pytest.mark.parametrize("asked", ["sizeUsd=5&sizeUsd=5000", "side=yes&side=no", "side=yes&side=yes"])
async def test_a_parameter_given_twice_is_refused_under_the_name_its_caller_uses(asked: str) -> None:
    """Otherwise one of two sizes would be priced, and no one would know which."""

    async def read(request: web.Request) -> web.StreamResponse:
        return web.json_response(read_query(request, Priced).model_dump())

    surface = Surface(
        "any", "Any", "", ("/",), (Operation("GET", "/quote", read, "It", {}),), lambda problem, _: problem.body
    )
    async with TestClient(TestServer(application([surface]))) as client:
        answer = await client.get(f"/quote?{asked}&other=1&other=2")
        assert answer.status == 400, await answer.text()
        assert (await answer.json())["details"] == [{"field": asked.partition("=")[0], "problem": "is given twice"}]
        answer = await client.get("/quote?size=1&size=2&sizeUsd=3")
        assert (await answer.json()) == {"size": 3, "side": "yes"}  # `size` is not the published name
