"""The REST door: reads a request into its model, asks the service, and answers with JSON."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from aiohttp import web

from api.cup import requests
from api.cup.service import Answering, CupService
from api.http.application import json_response
from api.http.body import Body
from api.http.caller import caller_ip
from api.http.operation import Handler
from api.http.rendered import NO_STORE
from api.http.requests import read_json, read_path, read_query, validated_body
from core.config import Settings

R = TypeVar("R")
B = TypeVar("B", bound=Body)
M = TypeVar("M", bound=requests.Request)

FOR_READS = "public, max-age=2, s-maxage=2"
BODY_LIMIT = 16 * 1024
# Who asks, where that does not matter.
NOBODY = ""


class RestDoor:
    """The cup's REST endpoints: a handler for each method of the service. That the tournament is open comes before
    whatever is wrong with a request."""

    def __init__(self, settings: Settings, service: CupService) -> None:
        self._settings = settings
        self._service = service

    def get(self, answering: Answering[R, B], read: Callable[[web.Request], R], cache: str = FOR_READS) -> Handler:
        """`read`: what a request asks for."""

        async def handle(request: web.Request) -> web.StreamResponse:
            self._service.require_open()
            return json_response(await self._service.answer(answering, read(request), NOBODY), cache_control=cache)

        return handle

    def query(self, answering: Answering[M, B], model: type[M], cache: str = FOR_READS) -> Handler:
        return self.get(answering, lambda request: read_query(request, model), cache)

    def post(self, answering: Answering[M, B], model: type[M]) -> Handler:
        async def handle(request: web.Request) -> web.StreamResponse:
            self._service.require_open()
            asked = validated_body(model, await read_json(request, limit=BODY_LIMIT, exact=True))
            body = await self._service.answer(answering, asked, caller_ip(request, self._settings))
            return json_response(body, cache_control=NO_STORE)

        return handle


def read_wallet(request: web.Request) -> requests.WalletRequest:
    return requests.WalletRequest(walletAddress=read_path(request, requests.WalletPath).address)


def read_quote(request: web.Request) -> tuple[str, requests.QuoteQuery]:
    return read_path(request, requests.MarketPath).slug, read_query(request, requests.QuoteQuery)
