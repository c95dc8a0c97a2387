"""POST /api/relay/enter: checks a signed bet from cheap to dear, has it sent once, and tells what became of it.

Whatever is sent again, by whomever and whenever, books nothing twice: the contract takes an authorization once. What is
kept here besides (`relay_bet`) only lets the same bet find its first transaction again.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator

from aiohttp import web
from limits import parse

from api.context import Context
from api.database import DATABASE_ERRORS
from api.funds import Funds, MoneyPromised
from api.head import chain_now
from api.http.application import json_response
from api.http.caller import blocked_region, caller_ip
from api.http.limits import NoPlace
from api.http.problem import Problem
from api.http.requests import read_json, validated_body
from api.stock import bets, checks, refusals
from api.stock.bet_bounds import MAX_BET, MIN_BET, check_amount
from api.stock.bets import KnownBet
from api.stock.bodies.relay import RelayBody
from api.stock.chain import STOCK_TOKEN_SYMBOL
from api.stock.landing import ChainFacts, read_facts
from api.stock.outcomes import BetOutcomes
from api.stock.relayed import BetKey, RelayedBet
from api.stock.requests import RelayRequest
from api.stock.sources import StockSources
from core.chain import RpcError
from core.log import get_logger
from core.metrics import counter
from core.outbox import RELAY, report

log = get_logger(__name__)

ANSWERS = counter("vpm_stock_relay_answers", "What the relay answered", ("answer",))

RELAY_RATE = parse("10/minute")
RECEIPT_WAIT_SECONDS = 10.0
BODY_LIMIT = 16 * 1024

# What a 502 is counted as when every node answers, and they do not say the same of the bet.
UNPROVEN = "unproven"

# After so many bets of a signer within an hour of which less than the least bet was accepted, no more of its are sent:
# each costs our gas twice, to book it and to give it back, and costs its bettor nothing.
RETURNED_BETS = 5


class Relay:
    """The relay of signed bets to the chain."""

    def __init__(self, context: Context, sources: StockSources) -> None:
        self._settings = context.settings
        self._chain_id = sources.deployment.chain_id
        self._token = sources.deployment.token(STOCK_TOKEN_SYMBOL)
        self._contracts = sources.contracts
        self._client = sources.client
        self._index = sources.index
        self._oracle = sources.oracle
        self._pool = context.pool
        self._limits = context.limits
        self._outcomes = BetOutcomes(context, sources)
        self._places = context.payments

    async def enter(self, request: web.Request) -> web.StreamResponse:
        until = asyncio.get_running_loop().time() + RECEIPT_WAIT_SECONDS
        try:
            relayed, body = await self._enter(request, until)
        except Problem as problem:
            ANSWERS.labels(UNPROVEN if isinstance(problem, refusals.UnprovenBet) else problem.code).inc()
            raise
        ANSWERS.labels(body.receipt).inc()
        response = json_response(body)
        # Only who was really told may later be answered that the signature is used: an answer that reached nobody
        # leaves the bet as it was, and the same body is answered with its first transaction again.
        if body.receipt == "confirmed" and await _written(request, response):
            await self._mark_told(relayed.key)
        return response

    # ------------------------------------------------------------ the steps, in order

    async def _enter(self, request: web.Request, until: float) -> tuple[RelayedBet, RelayBody]:
        await self._limits.take(RELAY_RATE, "relay-ip", caller_ip(request, self._settings), refusals.TOO_MANY)
        region = blocked_region(request, self._settings)
        closed = None if region is None else refusals.closed_region(region)
        relayed = await self._read(request) if closed is None else await self._read_whatever(request, closed)
        with self._checking(request, relayed):
            taken_in = await self._taken_in_before(relayed)
            attempts = 0 if taken_in is None else taken_in.attempt
            async with self._outcomes.judging(relayed, was_attempted=attempts > 0):
                if taken_in is not None:
                    taken_in = await self._outcomes.still_landed(relayed, taken_in)
                # What we took in before is answered from its transaction, whatever has closed or expired since.
                if taken_in is not None and taken_in.may_land and relayed.is_signed:
                    checks.check_domain(relayed)
                    whereabouts: KnownBet | bytes = taken_in
                # Nobody bets from there. What became of a bet is told wherever its bettor is now.
                elif closed is not None:
                    raise closed
                else:
                    whereabouts = await self._checked(relayed, attempts)
        if isinstance(whereabouts, bytes):
            return relayed, await self._outcomes.confirmed(relayed, whereabouts)
        async with self._outcomes.judging(relayed, was_attempted=True):
            return relayed, await self._outcomes.of(relayed, whereabouts, until)

    async def _read(self, request: web.Request) -> RelayedBet:
        if self._contracts is None:
            raise refusals.not_deployed()
        content = await read_json(request, limit=BODY_LIMIT)
        signer = content.get("from") if isinstance(content, dict) else None
        if isinstance(signer, str):
            # Counted only once the signature is theirs: a stranger cannot use up somebody else's minute.
            await self._limits.check(RELAY_RATE, "relay-signer", signer.lower(), refusals.TOO_MANY)
        body = validated_body(RelayRequest, content)
        relayed = RelayedBet.of(body, self._contracts, self._token, self._chain_id)
        check_amount(relayed.bet.amount, MIN_BET, MAX_BET)
        return relayed

    async def _read_whatever(self, request: web.Request, closed: Problem) -> RelayedBet:
        """A bet from a region that is closed to bets, which may have been taken in from elsewhere."""
        if self._contracts is None:
            raise closed
        try:
            body = validated_body(RelayRequest, await read_json(request, limit=BODY_LIMIT))
        except Problem:
            raise closed from None
        return RelayedBet.of(body, self._contracts, self._token, self._chain_id)

    @contextlib.contextmanager
    def _checking(self, request: web.Request, relayed: RelayedBet) -> Iterator[None]:
        """Hold one of the places for payments that are being checked."""
        try:
            with self._places.taken(caller_ip(request, self._settings)):
                yield
        except NoPlace:
            raise refusals.busy(self._settings.payments_in_hand, relayed) from None

    async def _taken_in_before(self, relayed: RelayedBet) -> KnownBet | None:
        try:
            async with asyncio.timeout(3), self._pool.connection() as connection:
                return await bets.find(connection, relayed.key)
        except DATABASE_ERRORS as error:
            log.warning("the relay has no database", action="relay.no_database", why=error)
            raise refusals.off(relayed) from None

    async def _checked(self, relayed: RelayedBet, attempts: int) -> KnownBet | bytes:
        """The bet once it is asked for, or the transaction that the chain has it in already."""
        bet, facts = relayed.bet, await self._facts(relayed)
        checks.check_bounds(bet, facts)
        if facts.authorization_used and relayed.is_signed:
            checks.check_domain(relayed)
            if (tx := await self._outcomes.landed(relayed, seen=facts.block, spent=True)) is not None:
                return tx  # whatever has closed or expired since: the chain has it
        now = chain_now(facts.timestamp)
        try:
            checks.check_window(bet, facts.timestamp, now)
            checks.check_market(bet, facts, now)
            checks.check_halt(self._why_halted(bet.market_id))
            checks.check_room(bet, facts)
        except Problem:
            # The index may have it in a block that is newer than that of the facts.
            if relayed.is_signed and not facts.authorization_used and facts.market is not None:
                checks.check_domain(relayed)
                if (tx := await self._outcomes.landed(relayed, seen=facts.block)) is not None:
                    return tx
            raise
        checks.check_wallet(relayed, facts)
        checks.check_domain(relayed)
        checks.check_signature(relayed, self._token)
        await self._limits.take(RELAY_RATE, "relay-signer", bet.signer.lower(), refusals.TOO_MANY)
        checks.check_unused(facts)
        try:
            checks.check_balance(bet, facts)
            checks.check_call(facts)
        except Problem:
            if (tx := await self._outcomes.landed(relayed, seen=facts.block)) is not None:
                return tx
            raise
        await self._check_lanes(relayed)
        return await self._ask(relayed, attempts + 1, Funds(facts.balance, facts.block))

    async def _facts(self, relayed: RelayedBet) -> ChainFacts:
        if self._client is None or self._contracts is None:
            raise refusals.off(relayed)
        patience = self._settings.rpc_request_path_timeout_seconds
        try:
            # What another signed for a wallet with code would have the node run that code, however dear.
            call = relayed.call if relayed.is_signed else None
            return await read_facts(self._client, self._contracts, relayed.bet, call, patience)
        except RpcError as error:
            log.warning("the relay has no chain", action="relay.no_chain", why=error)
            raise refusals.off(relayed) from None

    def _why_halted(self, market_id: int) -> str | None:
        if self._oracle is None or self._index is None or self._index.venue is None:
            return None
        return self._oracle.why_halted(self._index.venue.markets.get(market_id))

    async def _check_lanes(self, relayed: RelayedBet) -> None:
        """Whether any lane would send it now."""
        try:
            async with asyncio.timeout(3), self._pool.connection() as connection:
                lanes = await report(connection, self._chain_id, RELAY)
                returned = await bets.returned_lately(connection, relayed.key)
        except DATABASE_ERRORS as error:
            log.warning("the relay has no database", action="relay.no_database", why=error)
            raise refusals.off(relayed) from None
        if not lanes.works:
            raise refusals.off(relayed)
        if returned >= RETURNED_BETS:
            raise refusals.returned(RETURNED_BETS, relayed)
        waiting = lanes.in_flight + lanes.queued
        if waiting >= max(1, self._settings.relay_busy_above):
            raise refusals.busy(waiting, relayed)

    async def _ask(self, relayed: RelayedBet, attempt: int, funds: Funds) -> KnownBet:
        """Has the relayer send it, unless somebody else asked first. `funds`: of its wallet."""
        try:
            async with asyncio.timeout(3), self._pool.connection() as connection, connection.transaction():
                return await bets.ask(connection, relayed, attempt, funds)
        except MoneyPromised as promised:
            raise refusals.money_on_its_way(promised.args[0], funds.amount, relayed) from None
        except DATABASE_ERRORS as error:
            log.warning("a bet could not be queued", action="relay.no_database", why=error)
            raise refusals.failed(relayed) from None

    async def _mark_told(self, key: BetKey) -> None:
        try:
            async with asyncio.timeout(3), self._pool.connection() as connection:
                await bets.mark_told(connection, key)
        except DATABASE_ERRORS as error:
            log.warning("a told confirmation could not be written down", action="relay.no_database", why=error)


async def _written(request: web.Request, response: web.StreamResponse) -> bool:
    """Writes the whole answer now; False when the connection it would go to is gone."""
    try:
        await response.prepare(request)
        await response.write_eof()
    except ConnectionError:
        return False
    return True
