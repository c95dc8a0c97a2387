"""POST /api/relay/enter: checks a signed bet, cheapest checks first, has it sent once, and returns its outcome.

Resubmitting a bet never books it twice, no matter who sends it: the contract takes an authorization once. The table
kept here (`relay_bet`) only lets the same bet find its first transaction again.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable

from aiohttp import web
from limits import parse

from api.context import Context
from api.database import DATABASE_ERRORS, reading
from api.head import chain_now
from api.http.application import json_response
from api.http.caller import blocked_region, caller_ip
from api.http.problem import Problem
from api.http.requests import read_json, validated_body
from api.payments.attempts import READ_SECONDS, Attempts
from api.payments.funds import Funds, MoneyPromised
from api.stock import bets, checks, refusals
from api.stock.bets import BetKey, KnownBet, RelayedBet
from api.stock.bodies.relay import RelayBody
from api.stock.chain import STOCK_TOKEN_SYMBOL
from api.stock.landing import ChainFacts, read_facts
from api.stock.outcomes import BetOutcomes
from api.stock.requests import RelayRequest
from api.stock.sources import StockSources
from core.chain import RpcError
from core.db.engine import Connection
from core.log import get_logger
from core.metrics import counter
from core.outbox import RELAY, report

log = get_logger(__name__)

ANSWERS = counter("vpm_stock_relay_answers", "What the relay answered", ("answer",))

RELAY_RATE = parse("10/minute")
RECEIPT_WAIT_SECONDS = 10.0
BODY_LIMIT = 16 * 1024

# What a 502 is counted as when every node answers, and they contradict each other about the bet.
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
        self._attempts = Attempts(context, "stock", "GET /api/relay/receipt tells.")
        self._outcomes = BetOutcomes(context, sources, self._attempts)

    async def enter(self, request: web.Request) -> web.StreamResponse:
        until = asyncio.get_running_loop().time() + RECEIPT_WAIT_SECONDS
        try:
            relayed, body = await self._enter(request, until)
        except Problem as problem:
            ANSWERS.labels(UNPROVEN if isinstance(problem, refusals.UnprovenBet) else problem.code).inc()
            raise
        ANSWERS.labels(body.receipt).inc()
        response = json_response(body)
        # Only after this answer has arrived may later ones say that the signature is used: if the connection is lost,
        # the same body is answered with its first transaction again.
        if body.receipt == "confirmed" and await _written(request, response):
            await self._mark_confirmation_sent(relayed.key)
        return response

    # ------------------------------------------------------------ the steps, in order

    async def _enter(self, request: web.Request, until: float) -> tuple[RelayedBet, RelayBody]:
        await self._limits.take(RELAY_RATE, "relay-ip", caller_ip(request, self._settings), refusals.TOO_MANY)
        region = blocked_region(request, self._settings)
        closed = None if region is None else refusals.closed_region(region)
        try:
            relayed = await self._read(request)
        except Problem as refusal:
            raise (closed or refusal) from None
        with self._attempts.place(request, lambda: refusals.busy(self._settings.payments_in_hand, relayed)):
            taken_in = await self._taken_in_before(relayed)
            attempts = 0 if taken_in is None else taken_in.attempt
            async with self._outcomes.judging(relayed, was_attempted=attempts > 0):
                # A bet accepted before is answered from its transaction, even if its market closed or it expired since,
                # and wherever its bettor is now.
                if taken_in is not None and taken_in.intent.may_land and relayed.is_signed:
                    checks.check_domain(relayed)
                    whereabouts: KnownBet | bytes = taken_in
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
            # Counted only once the signature is theirs: a stranger cannot use up another signer's minute.
            await self._limits.check(RELAY_RATE, "relay-signer", signer.lower(), refusals.TOO_MANY)
        body = validated_body(RelayRequest, content)
        relayed = RelayedBet.of(body, self._contracts, self._token, self._chain_id)
        checks.check_amount(relayed.bet.amount)
        return relayed

    async def _taken_in_before(self, relayed: RelayedBet) -> KnownBet | None:
        async with self._database(lambda: refusals.off(relayed)) as connection:
            return await bets.find(connection, relayed.key)

    async def _checked(self, relayed: RelayedBet, attempts: int) -> KnownBet | bytes:
        """Check the bet and ask for it; return it, or the transaction in which the chain has it already."""
        bet, facts = relayed.bet, await self._facts(relayed)
        checks.check_bounds(bet, facts)
        if facts.authorization_used and relayed.is_signed:
            checks.check_domain(relayed)
            if (tx := await self._outcomes.landed(relayed, seen=facts.block, spent=True)) is not None:
                return tx  # even if closed or expired since: the chain has it
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
            log.warning("RPC unavailable for the relay", action="relay.no_chain", why=error)
            raise refusals.off(relayed) from None

    def _why_halted(self, market_id: int) -> str | None:
        if self._oracle is None or self._index is None or self._index.snapshot is None:
            return None
        return self._oracle.halt_reason(self._index.snapshot.markets.get(market_id))

    async def _check_lanes(self, relayed: RelayedBet) -> None:
        """Refuse a bet that no lane would send now."""
        async with self._database(lambda: refusals.off(relayed)) as connection:
            lanes = await report(connection, self._chain_id, RELAY)
            returned = await bets.count_recent_returns(connection, relayed.key)
        if not lanes.works:
            raise refusals.off(relayed)
        if returned >= RETURNED_BETS:
            raise refusals.returned(RETURNED_BETS, relayed)
        waiting = lanes.in_flight + lanes.queued
        if waiting >= max(1, self._settings.relay_busy_above):
            raise refusals.busy(waiting, relayed)

    async def _ask(self, relayed: RelayedBet, attempt: int, funds: Funds) -> KnownBet:
        """Have the relayer send it, unless another request asked first."""
        try:
            async with (
                self._database(lambda: refusals.failed(relayed)) as connection,
                connection.transaction(),
            ):
                return await bets.ask(connection, relayed, attempt, funds)
        except MoneyPromised as promised:
            raise refusals.money_on_its_way(promised.args[0], funds.amount, relayed) from None

    @contextlib.asynccontextmanager
    async def _database(self, unavailable: Callable[[], Problem]) -> AsyncIterator[Connection]:
        """Yield a connection for a few seconds; a database that fails is the refusal `unavailable`."""
        async with (
            reading("The relay's record", seconds=READ_SECONDS, refusal=lambda _: unavailable()),
            self._pool.connection() as connection,
        ):
            yield connection

    async def _mark_confirmation_sent(self, key: BetKey) -> None:
        try:
            async with asyncio.timeout(READ_SECONDS), self._pool.connection() as connection:
                await bets.mark_confirmation_sent(connection, key)
        except DATABASE_ERRORS as error:
            log.warning("failed to record that the confirmation was delivered", action="relay.no_database", why=error)


async def _written(request: web.Request, response: web.StreamResponse) -> bool:
    """Write the whole answer now; return False if its connection is gone."""
    try:
        await response.prepare(request)
        await response.write_eof()
    except ConnectionError:
        return False
    return True
