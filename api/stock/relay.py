"""POST /api/relay/enter: check a signed bet, cheapest checks first, send it once, and return its outcome.

Resubmitting a bet never books it twice, whoever sends it: the contract takes an authorization once. The table
`relay_bet` only lets the same bet find its first transaction again.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable

from aiohttp import web
from limits import parse

from api.caching import json_response
from api.context import Context
from api.database import DATABASE_ERRORS, reading
from api.head import chain_now
from api.limits import blocked_region, caller_ip
from api.payments.attempts import READ_SECONDS, Attempts
from api.payments.funds import Funds, FundsReserved
from api.problems import Problem
from api.requests import read_json, validated_body
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

ANSWERS = counter("vpm_stock_relay_answers", "Answers of the relay, by result or error code", ("answer",))

RELAY_RATE = parse("10/minute")
RECEIPT_WAIT_SECONDS = 10.0
BODY_LIMIT = 16 * 1024

# The metric label of a 502 when all nodes answer but contradict each other about the bet.
UNPROVEN = "unproven"

# A signer with this many bets in an hour that were accepted with less than the smallest bet gets no more bets sent:
# each costs us gas twice, to book it and to refund it, and costs the bettor nothing.
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
        self._attempts = Attempts(context, "stock", "Check GET /api/relay/receipt.")
        self._outcomes = BetOutcomes(context, sources, self._attempts)

    async def enter(self, request: web.Request) -> web.StreamResponse:
        until = asyncio.get_running_loop().time() + RECEIPT_WAIT_SECONDS
        try:
            relayed, body = await self._enter(request, until)
        except Problem as problem:
            ANSWERS.labels(UNPROVEN if isinstance(problem, refusals.NodesDisagree) else problem.code).inc()
            raise
        ANSWERS.labels(body.receipt).inc()
        response = json_response(body)
        # Later answers may say that the signature is used only after this one was delivered: if the connection is lost,
        # the same body is answered with its first transaction again.
        if body.receipt == "confirmed" and await _written(request, response):
            await self._mark_confirmation_sent(relayed.key)
        return response

    # ------------------------------------------------------------ the steps, in order

    async def _enter(self, request: web.Request, until: float) -> tuple[RelayedBet, RelayBody]:
        await self._limits.take(RELAY_RATE, "relay-ip", caller_ip(request, self._settings), refusals.TOO_MANY)
        region = blocked_region(request, self._settings)
        closed = None if region is None else refusals.region_blocked(region)
        try:
            relayed = await self._read(request)
        except Problem as refusal:
            raise (closed or refusal) from None
        with self._attempts.checking_slot(request, lambda: refusals.busy(self._settings.payments_in_hand, relayed)):
            known = await self._known_before(relayed)
            attempts = 0 if known is None else known.attempt
            async with self._outcomes.judging(relayed, was_attempted=attempts > 0):
                # A bet accepted before is answered from its transaction, even if its market has closed, it has expired
                # or its bettor is in a blocked region now.
                if known is not None and known.intent.may_land and relayed.is_signed:
                    checks.check_domain(relayed)
                    found: KnownBet | bytes = known
                elif closed is not None:
                    raise closed
                else:
                    found = await self._answer(relayed, attempts)
        if isinstance(found, bytes):
            return relayed, await self._outcomes.confirmed(relayed, found)
        async with self._outcomes.judging(relayed, was_attempted=True):
            return relayed, await self._outcomes.of(relayed, found, until)

    async def _read(self, request: web.Request) -> RelayedBet:
        if self._contracts is None:
            raise refusals.not_deployed()
        content = await read_json(request, limit=BODY_LIMIT)
        signer = content.get("from") if isinstance(content, dict) else None
        if isinstance(signer, str):
            # Only checked here and counted once the signature is verified: a stranger cannot use up a signer's limit.
            await self._limits.check(RELAY_RATE, "relay-signer", signer.lower(), refusals.TOO_MANY)
        body = validated_body(RelayRequest, content)
        relayed = RelayedBet.of(body, self._contracts, self._token, self._chain_id)
        checks.check_amount(relayed.bet.amount)
        return relayed

    async def _known_before(self, relayed: RelayedBet) -> KnownBet | None:
        async with self._database(lambda: refusals.relayer_unavailable(relayed)) as connection:
            return await bets.find(connection, relayed.key)

    async def _answer(self, relayed: RelayedBet, attempts: int) -> KnownBet | bytes:
        """Check the bet and enqueue it; return it, or the transaction in which it has already landed."""
        bet, facts = relayed.bet, await self._facts(relayed)
        checks.check_bounds(bet, facts)
        if facts.authorization_used and relayed.is_signed:
            checks.check_domain(relayed)
            if (tx := await self._outcomes.landed(relayed, seen=facts.block, spent=True)) is not None:
                return tx  # on the chain, even if its market has closed or it has expired
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
            raise refusals.relayer_unavailable(relayed)
        timeout = self._settings.rpc_request_path_timeout_seconds
        try:
            # An unverified signature would let a stranger run a contract wallet's code on our node.
            call = relayed.call if relayed.is_signed else None
            return await read_facts(self._client, self._contracts, relayed.bet, call, timeout)
        except RpcError as error:
            log.warning("RPC unavailable for the relay", action="relay.no_chain", why=error)
            raise refusals.relayer_unavailable(relayed) from None

    def _why_halted(self, market_id: int) -> str | None:
        if self._oracle is None or self._index is None or self._index.snapshot is None:
            return None
        return self._oracle.halt_reason(self._index.snapshot.markets.get(market_id))

    async def _check_lanes(self, relayed: RelayedBet) -> None:
        """Refuse a bet that no lane would send now, or whose wallet had too many bets returned."""
        async with self._database(lambda: refusals.relayer_unavailable(relayed)) as connection:
            lanes = await report(connection, self._chain_id, RELAY)
            returned = await bets.count_recent_returns(connection, relayed.key)
        if not lanes.works:
            raise refusals.relayer_unavailable(relayed)
        if returned >= RETURNED_BETS:
            raise refusals.too_many_returned(RETURNED_BETS, relayed)
        waiting = lanes.in_flight + lanes.queued
        if waiting >= max(1, self._settings.relay_busy_above):
            raise refusals.busy(waiting, relayed)

    async def _ask(self, relayed: RelayedBet, attempt: int, funds: Funds) -> KnownBet:
        """Enqueue the bet for the relayer, unless another request did so first."""
        try:
            async with (
                self._database(lambda: refusals.outcome_unknown(relayed)) as connection,
                connection.transaction(),
            ):
                return await bets.ask(connection, relayed, attempt, funds)
        except FundsReserved as reserved:
            raise refusals.funds_reserved(reserved.args[0], funds.amount, relayed) from None

    @contextlib.asynccontextmanager
    async def _database(self, unavailable: Callable[[], Problem]) -> AsyncIterator[Connection]:
        """Yield a connection for a few seconds; if the database fails, raise the refusal `unavailable`."""
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
