"""The REST door: reads a request into its model, asks the desk, and answers with JSON."""

from __future__ import annotations

from typing import TypeVar

from aiohttp import web

from api.cup import requests
from api.cup.desk import Answering, Desk
from api.http.application import json_response
from api.http.caching import NO_STORE
from api.http.caller import caller_ip
from api.http.requests import read_exact_json, read_path, read_query, validated_body
from core.config import Settings

R = TypeVar("R")
M = TypeVar("M", bound=requests.Request)

FOR_READS = "public, max-age=2, s-maxage=2"
BODY_LIMIT = 16 * 1024
NOBODY = ""
"""Who asks, where nobody is counted: reads have no limit."""


class RestDoor:
    """The cup's REST endpoints: one handler for each operation."""

    def __init__(self, settings: Settings, desk: Desk) -> None:
        self._settings = settings
        self._desk = desk

    async def claim(self, request: web.Request) -> web.StreamResponse:
        return await self._post(request, requests.WalletRequest, self._desk.claim)

    async def wallet(self, request: web.Request) -> web.StreamResponse:
        self._desk.require_open()
        address = read_path(request, requests.WalletPath).address
        return await self._get(self._desk.wallet, requests.WalletRequest(walletAddress=address))

    async def markets(self, request: web.Request) -> web.StreamResponse:
        self._desk.require_open()
        return await self._get(self._desk.markets, read_query(request, requests.MarketsQuery))

    async def quote(self, request: web.Request) -> web.StreamResponse:
        self._desk.require_open()
        slug = read_path(request, requests.MarketPath).slug
        query = read_query(request, requests.QuoteQuery)
        return await self._get(self._desk.quote, (slug, query))

    async def trade(self, request: web.Request) -> web.StreamResponse:
        return await self._post(request, requests.TradeRequest, self._desk.trade)

    async def board(self, request: web.Request) -> web.StreamResponse:
        self._desk.require_open()
        return await self._get(self._desk.board, read_query(request, requests.BoardQuery))

    async def getting_started(self, request: web.Request) -> web.StreamResponse:
        return await self._get(self._desk.getting_started, None)

    async def round(self, request: web.Request) -> web.StreamResponse:
        self._desk.require_open()
        return await self._get(self._desk.round, read_query(request, requests.RoundQuery), cache="public, max-age=1")

    async def bet(self, request: web.Request) -> web.StreamResponse:
        return await self._post(request, requests.BetRequest, self._desk.bet)

    async def enrol(self, request: web.Request) -> web.StreamResponse:
        return await self._post(request, requests.EnrolRequest, self._desk.enrol)

    async def _get(self, answering: Answering[R], asked: R, cache: str = FOR_READS) -> web.StreamResponse:
        return json_response(await self._desk.answer(answering, asked, NOBODY), cache_control=cache)

    async def _post(self, request: web.Request, model: type[M], answering: Answering[M]) -> web.StreamResponse:
        self._desk.require_open()
        asked = validated_body(model, await read_exact_json(request, limit=BODY_LIMIT))
        body = await self._desk.answer(answering, asked, caller_ip(request, self._settings))
        return json_response(body, cache_control=NO_STORE)
