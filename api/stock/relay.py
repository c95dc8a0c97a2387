"""POST /api/relay/enter: checks a signed bet, sends it once, and returns its outcome. The cheapest checks come first.

A bet is never booked twice, whoever sends it, because the contract takes an authorization only once. The table
`relay_bet` serves another purpose: it maps a repeated bet to its first transaction. A bet is "accepted" when its row is
written, and has "landed" when it is on the chain, whoever sent it.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Annotated, Any, Literal

from aiohttp import web
from limits import parse
from msgspec import Meta, convert
from prometheus_client import Counter

from api.caching import json_response
from api.context import Context
from api.database import DATABASE_ERRORS, free_connection, reading
from api.head import chain_now
from api.limits import blocked_region, caller_ip
from api.operations import Body
from api.payments.attempts import Attempt, BetKey, Funds, FundsReserved
from api.payments.pipeline import READ_SECONDS, Payments, Submission, asks_to_retry, is_retriable
from api.problems import Problem
from api.requests import read_json, validated_body
from api.stock import bets, checks
from api.stock.bets import ATTEMPTS, LandingUnknown, RelayedBet, RelayRequest, find_landing, find_position
from api.stock.bodies import HexAddress, HexHash, Integer, UnixSeconds
from api.stock.checks import ChainFacts, read_facts
from api.stock.sources import STOCK_TOKEN_SYMBOL, StockSources
from core.chain import RpcError
from core.db.engine import Connection
from core.hexadecimal import hex_of
from core.log import get_logger
from core.outbox import PAYER_REASONS, RELAY, Intent, MinedOutcome, report


class EscapeKit(Body):
    """The call that places the bet: anyone can send it, with or without this service, until the bet expires."""

    to: HexAddress
    data: Annotated[str, Meta(pattern=r"^0x[0-9a-f]+$")]
    chain_id: int
    expires_at: UnixSeconds


class RelayBody(Body):
    """The outcome of a relayed bet. `ok` is false only for `reverted`. `pending`: it was sent and is not mined yet;
    send the same body again for its outcome, which never bets twice."""

    ok: bool
    tx_hash: HexHash
    nonce: Annotated[HexHash, Meta(description="The authorization's nonce.")]
    receipt: Literal["confirmed", "pending", "reverted"]
    position_id: Annotated[
        str | None,
        Meta(
            description="Null until it is known. While a reorganization may undo the bet's block, another bet may get "
            "this id instead: it is certain once GET /api/relay/receipt returns `final`. The nonce never changes."
        ),
    ]
    block_number: Integer | None
    final: Annotated[
        bool | None,
        Meta(
            description="For `reverted`: false while a reorganization may undo the block that refused the bet. The "
            "signed bet may then still be taken in another block; check GET /api/relay/receipt. Otherwise null."
        ),
    ]
    escape_kit: EscapeKit


log = get_logger(__name__)
ANSWERS = Counter("vpm_stock_relay_answers", "Relay responses, by result or error code.", ("answer",))
RELAY_RATE = parse("10/minute")
RECEIPT_WAIT_SECONDS = 10.0
BODY_LIMIT = 16 * 1024
# The metric label of a 502 when all nodes respond but contradict each other about the bet.
UNPROVEN = "unproven"
# A signer with this many bets in an hour that were accepted with less than the smallest bet gets no more bets sent:
# each costs gas twice, to book and to refund it, and costs the bettor nothing.
RETURNED_BETS = 5
SPENT = "AuthorizationSpent"
"""The relayer's reason when the token reports the bet's authorization as used."""


class Relay:
    def __init__(self, context: Context, sources: StockSources) -> None:
        self.settings = context.settings
        self.sources = sources
        self.chain_id = sources.deployment.chain_id
        self.token = sources.deployment.token(STOCK_TOKEN_SYMBOL)
        self.pool = context.pool
        self.primary = context.primary
        self.limits = context.limits
        self.payments = Payments(context, "stock", ATTEMPTS, "Check GET /api/relay/receipt.")

    async def enter(self, request: web.Request) -> web.StreamResponse:
        until = asyncio.get_running_loop().time() + RECEIPT_WAIT_SECONDS
        try:
            submission = await self._read(request, until)
            body = await self.payments.run(request, submission)
        except Problem as problem:
            ANSWERS.labels(UNPROVEN if isinstance(problem, checks.NodesDisagree) else problem.code).inc()
            raise
        ANSWERS.labels(body.receipt).inc()
        response = json_response(body)
        # Later responses may say that the signature is used only after this one was delivered: if the connection is
        # lost, the same body gets its first transaction again.
        if body.receipt == "confirmed" and await _written(request, response):
            await self._mark_confirmation_sent(submission.key)
        return response

    async def _read(self, request: web.Request, until: float) -> RelaySubmission:
        await self.limits.take(RELAY_RATE, "relay-ip", caller_ip(request, self.settings), checks.TOO_MANY)
        region = blocked_region(request, self.settings)
        blocked = None if region is None else checks.region_blocked(region)
        try:
            return RelaySubmission(self, await self._read_bet(request), blocked, until)
        except Problem as refusal:
            raise (blocked or refusal) from None

    async def _read_bet(self, request: web.Request) -> RelayedBet:
        if self.sources.contracts is None:
            raise checks.not_deployed()
        content = await read_json(request, limit=BODY_LIMIT)
        signer = content.get("from") if isinstance(content, dict) else None
        if isinstance(signer, str):
            # Counted only after the signature is verified: a stranger cannot use up a signer's limit.
            await self.limits.check(RELAY_RATE, "relay-signer", signer.lower(), checks.TOO_MANY)
        body = validated_body(RelayRequest, content)
        relayed = RelayedBet.of(body, self.sources.contracts, self.token, self.chain_id)
        checks.check_amount(relayed.bet.amount)
        return relayed

    async def _mark_confirmation_sent(self, key: BetKey) -> None:
        try:
            async with asyncio.timeout(READ_SECONDS), self.pool.connection() as connection:
                await bets.mark_confirmation_sent(connection, key)
        except DATABASE_ERRORS as error:
            log.warning("failed to record that the confirmation was delivered", action="relay.no_database", why=error)


class RelaySubmission(Submission[RelayBody]):
    """A bet submitted to the relay. `blocked`: the refusal for the sender's region, if the region is blocked. `until`:
    the request deadline by the event loop's clock."""

    def __init__(self, relay: Relay, relayed: RelayedBet, blocked: Problem | None, until: float) -> None:
        self.key = relayed.key
        self._relay = relay
        self._relayed = relayed
        self._blocked = blocked
        self._until = until
        self._attempts = 0  # found, or made by this request
        self._facts: ChainFacts | None = None  # by which the bet may be refused; None once it is accepted
        self._contracts = relay.sources.contracts
        self._client = relay.sources.client
        self._request_seconds = relay.settings.rpc_request_path_timeout_seconds

    def too_many(self) -> Problem:
        return checks.busy(self._relay.settings.payments_in_hand)

    def wait_seconds(self) -> float:
        return max(0.0, self._until - asyncio.get_running_loop().time())

    # ------------------------------------------------------------ the checks, in order

    async def check(self) -> RelayBody | Intent:
        relayed = self._relayed
        async with self._database(checks.relayer_unavailable) as connection:
            known = await ATTEMPTS.find(connection, self.key)
        self._attempts = 0 if known is None else known.number
        # An earlier attempt decides, even if the market has closed, the bet has expired or the region is blocked now.
        if known is not None and known.intent.may_land and relayed.is_signed:
            checks.check_domain(relayed)
            return await self._accepted(known)
        if self._blocked is not None:
            raise self._blocked
        bet, facts = relayed.bet, await self._read_facts()
        self._facts = facts
        checks.check_bounds(bet, facts)
        now = chain_now(facts.timestamp)
        checks.check_window(bet, facts.timestamp, now)
        checks.check_market(bet, facts, now)
        checks.check_halt(self._halt_reason())
        checks.check_room(bet, facts)
        checks.check_wallet(facts)
        checks.check_domain(relayed)
        checks.check_signature(relayed, self._relay.token)
        checks.check_unused(facts)
        # Not counted for a used signature: a stranger can copy it from the chain.
        await self._relay.limits.take(RELAY_RATE, "relay-signer", bet.signer.lower(), checks.TOO_MANY)
        checks.check_balance(bet, facts)
        checks.check_call(facts)
        await self._check_lanes()
        attempt = await self._enqueue(Funds(facts.balance, facts.block))
        self._facts = None
        return await self._accepted(attempt)

    async def _read_facts(self) -> ChainFacts:
        if self._client is None or self._contracts is None:
            raise checks.relayer_unavailable()
        try:
            # With an unverified signature a stranger could run a contract wallet's code on the node.
            call = self._relayed.signed.call if self._relayed.is_signed else None
            return await read_facts(self._client, self._contracts, self._relayed.bet, call, self._request_seconds)
        except RpcError as error:
            log.warning("failed to reach the stock chain for a bet", action="relay.no_chain", why=error)
            raise checks.relayer_unavailable() from None

    def _halt_reason(self) -> str | None:
        sources, market_id = self._relay.sources, self._relayed.bet.market_id
        snapshot = sources.index.snapshot
        return None if snapshot is None else sources.oracle.halt_reason(snapshot.markets.get(market_id))

    async def _check_lanes(self) -> None:
        """Refuse the bet if no lane would send it now, or if the relayer recently returned too many of the wallet's
        bets."""
        async with self._database(checks.relayer_unavailable) as connection:
            lanes = await report(connection, self._relay.chain_id, RELAY)
            returned = await bets.count_recent_returns(connection, self.key)
        if not lanes.works:
            raise checks.relayer_unavailable()
        if returned >= RETURNED_BETS:
            raise checks.too_many_returned(RETURNED_BETS)
        waiting = lanes.in_flight + lanes.queued
        if waiting >= max(1, self._relay.settings.relay_busy_above):
            raise checks.busy(waiting)

    async def _enqueue(self, funds: Funds) -> Attempt:
        """Store an attempt for the relayer, unless another request has stored one."""
        relayed = self._relayed
        try:
            async with self._database(checks.outcome_unknown) as connection, connection.transaction():
                return await ATTEMPTS.add(
                    connection, self.key, relayed.row, relayed.signed, after=self._attempts, funds=funds
                )
        except FundsReserved as reserved:
            raise checks.funds_reserved(reserved.args[0], funds.amount) from None

    @contextlib.asynccontextmanager
    async def _database(self, unavailable: Callable[[], Problem]) -> AsyncIterator[Connection]:
        """Yield a connection for a few seconds. If the database fails, raise the refusal `unavailable`."""
        async with (
            reading("The relay's record", seconds=READ_SECONDS, refusal=lambda _: unavailable()),
            free_connection(self._relay.pool, self.too_many) as connection,
        ):
            yield connection

    async def _accepted(self, attempt: Attempt) -> Intent:
        self._attempts = attempt.number
        (confirmation_sent_at,) = attempt.details
        # If a fork has undone the block reported to the bettor, the bet is pending again.
        if confirmation_sent_at is not None and attempt.intent.succeeded:
            assert attempt.intent.tx_hash is not None
            position = await self._position(attempt.intent.tx_hash)
            raise checks.already_booked(self._relayed, attempt.intent.tx_hash, position)
        return attempt.intent

    # ------------------------------------------------------------ the outcome

    async def landed(self, intent: Intent) -> RelayBody:
        assert intent.tx_hash is not None
        return await self._confirmed(intent.tx_hash, intent.block_number)

    async def landed_otherwise(self, intent: Intent) -> RelayBody | None:
        tx = await self._find_transaction(intent.block_number, spent=intent.reason_code == SPENT)
        return None if tx is None else await self._confirmed(tx)

    async def refused(self, intent: Intent) -> RelayBody:
        if intent.outcome is MinedOutcome.REVERTED:
            assert intent.tx_hash is not None
            final = not await self._relay.payments.may_land(self.key)
            return relay_body(self._relayed, intent.tx_hash, "reverted", block=intent.block_number, final=final)
        if not intent.refused:
            raise checks.outcome_unknown()
        if intent.reason_code in PAYER_REASONS:
            raise checks.payer_limited(intent)
        # The bet is not in this block, which is no older than the one that refused it: someone else's transaction was
        # not the reason. If the relayer's nodes did not agree on such a block, it may be.
        if intent.block_number is None:
            raise checks.nodes_disagree()
        raise checks.not_sent(intent)

    def pending(self, intent: Intent) -> RelayBody:
        if intent.tx_hash is None:
            raise checks.outcome_unknown()
        return relay_body(self._relayed, intent.tx_hash, "pending")

    async def landed_meanwhile(self, refusal: Problem) -> RelayBody | None:
        # Only the payer's signature is worth a search: by it the bet is confirmed even if its market has closed, its
        # validity is over, or the index has it in a block that is newer than that of the facts.
        if self._facts is None or not self._relayed.is_signed:
            return None
        checks.check_domain(self._relayed)
        tx = await self._find_transaction(self._facts.block, spent=self._facts.authorization_used)
        return None if tx is None else await self._confirmed(tx)

    def is_settled(self, refusal: Problem) -> bool:
        # Without an attempt, a retriable refusal needs no mark, and a stranger's signature can never place the bet. But
        # another request may have made an attempt in the meantime.
        is_clear = not self._attempts and (is_retriable(refusal) or not self._relayed.is_signed)
        return is_clear or refusal.extra.get("receipt") == "confirmed"

    def escape_kit_for(self, refusal: Problem) -> Mapping[str, Any] | None:
        # A contract wallet, whose bets are not relayed, can send the call by itself.
        carries = asks_to_retry(refusal) or refusal.code == "contract_signer"
        return self._relayed.signed.escape_kit if carries else None

    # ------------------------------------------------------------ on the chain

    async def _find_transaction(self, seen: int | None, *, spent: bool = False) -> bytes | None:
        """Return the transaction that placed the bet, or None if the bet is certainly not on the chain. Raise a 502 if
        it is unknown whether the bet is on the chain. Call this before any response that says that a bet was refused or
        not sent."""
        if self._client is None or self._contracts is None:
            raise checks.outcome_unknown()
        bet, primary = self._relayed.bet, self._relay.primary
        try:
            return await find_landing(
                primary, self._client, self._contracts, bet, self._request_seconds, seen=seen, spent=spent
            )
        except LandingUnknown:
            raise checks.nodes_disagree() from None
        except (RpcError, TimeoutError):
            raise checks.outcome_unknown() from None

    async def _confirmed(self, tx: bytes, block: int | None = None) -> RelayBody:
        self.release()
        return relay_body(self._relayed, tx, "confirmed", block=block, position=await self._position(tx))

    async def _position(self, tx: bytes) -> str | None:
        """Return the position's id, or None if no node returns the transaction's receipt quickly."""
        if self._client is None or self._contracts is None:
            return None
        try:
            async with asyncio.timeout(self._request_seconds):
                receipt = await self._client.receipt(hex_of(tx))
        except (RpcError, TimeoutError):
            return None
        position_id = None if receipt is None else find_position(receipt, self._contracts, self._relayed.bet)
        return None if position_id is None else str(position_id)


def relay_body(
    relayed: RelayedBet,
    tx: bytes,
    receipt: Literal["confirmed", "pending", "reverted"],
    *,
    block: int | None = None,
    position: str | None = None,
    final: bool | None = None,
) -> RelayBody:
    return RelayBody(
        ok=receipt != "reverted",
        tx_hash=hex_of(tx),
        nonce=relayed.nonce_hex,
        receipt=receipt,
        position_id=position,
        block_number=None if block is None else str(block),
        final=final,
        escape_kit=convert(relayed.signed.escape_kit, EscapeKit),
    )


async def _written(request: web.Request, response: web.StreamResponse) -> bool:
    """Write the whole response now. Return False if the connection is closed."""
    try:
        await response.prepare(request)
        await response.write_eof()
    except ConnectionError:
        return False
    return True
