"""POST /api/relay/enter: checks a signed bet from cheap to dear, has it sent once, and tells what became of it.

Whatever is sent again, by whomever and whenever, books nothing twice: the contract takes an authorization once. What is
kept here besides (`relay_bet`) only lets the same body find its first transaction again.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from aiohttp import web
from eth_utils.crypto import keccak
from limits import parse
from msgspec import to_builtins

from api.context import Context
from api.finality import for_now, may_land
from api.head import chain_now
from api.http.application import json_response
from api.http.caller import blocked_region, caller_ip
from api.http.problem import Problem
from api.http.requests import read_json, validated_body
from api.stock import bets
from api.stock.authorization import StockBet
from api.stock.bet_bounds import MAX_BET, MIN_BET, check_amount
from api.stock.bets import BetKey, KnownBet
from api.stock.bodies.relay import EscapeKit, RelayBody
from api.stock.chain import STOCK_TOKEN_SYMBOL, StockContracts
from api.stock.landing import ChainFacts, landing_of, position_in, read_facts
from api.stock.requests import RelayRequest
from api.stock.sources import StockSources
from api.unreadable import UNREADABLE
from core.chain import Call, ChainClient, ContractReverted, RpcError, checksum
from core.contracts.statuses import StockMarketStatus
from core.hexadecimal import bytes_of
from core.log import get_logger
from core.metrics import counter
from core.money import decimal_text
from core.outbox import HAS_RESULT, OF_ITS_PAYER, RELAY, Intent, IntentRequest, MinedOutcome, report
from core.signatures import signer_of, with_usual_v

log = get_logger(__name__)

ANSWERS = counter("vpm_relay_answers", "What the relay answered", ("answer",))

RELAY_RATE = parse("10/minute")
MIN_AHEAD_SECONDS, MAX_AHEAD_SECONDS = 30, 3600
RECEIPT_WAIT_SECONDS = 10.0
BODY_LIMIT = 16 * 1024

# What a 502 is counted as when every node answers, and they do not say the same of the bet.
UNPROVEN = "unproven"

_SPENT = "AuthorizationSpent"
# Why the relayer may refuse a bet that no node refused.
_UNSIMULATED = OF_ITS_PAYER | {"too_much_gas", "gas_limit", "tx_invalid"}

# After so many bets of a signer within an hour of which less than the least bet was accepted, no more of its are sent:
# each costs our gas twice, to book it and to give it back, and costs its bettor nothing.
RETURNED_BETS = 5

# Bets checked at once by one process; more are answered `busy`. Those that wait for their block do not count.
MAX_IN_HAND = 64


@dataclass(slots=True)
class _Visit:
    """One request: when it began (the loop's clock), what it gives back when it has nothing left to check, the keys of
    the intents that were to bring its bet to the chain, the bet its answer says is booked, and what its answer counts
    as where that is not its code."""

    started: float
    room: contextlib.ExitStack
    attempts: Sequence[str] = ()
    booked: BetKey | None = None
    counted: str | None = None


class Relay:
    """The relay of signed bets to the chain."""

    def __init__(self, context: Context, sources: StockSources) -> None:
        self._settings = context.settings
        self._deployment = sources.deployment
        self._token = sources.deployment.token(STOCK_TOKEN_SYMBOL)
        self._contracts = sources.contracts
        self._client = sources.client
        self._engine = context.primary
        self._pool = context.pool
        self._watch = context.watch
        self._limits = context.limits
        self._finality_blocks = context.settings.chain("stock").finality_blocks
        self._in_hand = 0

    async def enter(self, request: web.Request) -> web.StreamResponse:
        visit = _Visit(asyncio.get_running_loop().time(), contextlib.ExitStack())
        try:
            with visit.room:
                response = await self._enter(request, visit)
        except Problem as problem:
            ANSWERS.labels(visit.counted or problem.code).inc()
            raise await self._standing(problem, visit) from None
        # Only who was really told may later be answered that the signature is used: an answer that reached nobody
        # leaves the bet as it was, and the same body is answered with its first transaction again.
        if visit.booked is not None and await _written(request, response):
            await self._mark_told(visit.booked)
        return response

    # ------------------------------------------------------------ the checks, in order

    async def _enter(self, request: web.Request, visit: _Visit) -> web.StreamResponse:
        too_many = "The relay takes 10 requests a minute."
        await self._limits.take(RELAY_RATE, "relay-ip", caller_ip(request, self._settings), too_many)
        region = blocked_region(request, self._settings)
        if region is not None:
            closed = Problem(403, "region_blocked", f"Stock-price markets are not offered in {region}.")
            return await self._from_a_closed_region(request, visit, closed)
        contracts, client = self._contracts, self._client
        if contracts is None:
            raise Problem(503, "not_deployed", "The stock markets are not deployed yet; there is nothing to bet on.")
        content = await read_json(request, limit=BODY_LIMIT)
        signer = content.get("from") if isinstance(content, dict) else None
        if isinstance(signer, str):
            # Counted only once the signature is theirs: a stranger cannot use up somebody else's minute.
            await self._limits.check(RELAY_RATE, "relay-signer", signer.lower(), too_many)
        body = validated_body(RelayRequest, content)
        bet, signature, matches, kit = self._signed(body, contracts)
        check_amount(bet.amount, MIN_BET, MAX_BET)
        past = await self._taken_in_before(bet, kit, visit)
        # A body we took in before is answered from its transaction, whatever has closed or expired since.
        if past is not None and past.may_land and past.body_hash == _body_hash(kit):
            return await self._follow_up(bet, past, kit, visit)

        if client is None:
            raise _off(kit)
        try:
            facts = await read_facts(client, contracts, bet, self._settings.rpc_request_path_timeout_seconds)
        except RpcError as error:
            log.warning("the relay has no chain", action="relay.no_chain", why=error)
            raise _off(kit) from None
        if facts.market is not None:
            check_amount(bet.amount, max(MIN_BET, facts.market["minEntry"]), min(MAX_BET, facts.market["maxEntry"]))
        if facts.authorization_used and matches and (past is None or not past.may_land):
            self._check_domain(bet, body, contracts)
            if (booked := await self._booked(bet, kit, visit, seen=facts.block, spent=True)) is not None:
                return booked  # whatever has closed or expired since: the chain has it
        now = chain_now(facts.timestamp)
        try:
            _check_window(bet, facts.timestamp, now)
            _check_market(bet, facts, now)
            _check_room(bet, facts)
        except Problem:
            # What a node said of the market may be newer than what one said of the authorization.
            if matches and not facts.authorization_used and facts.market is not None:
                self._check_domain(bet, body, contracts)
                if (booked := await self._booked(bet, kit, visit, seen=facts.block)) is not None:
                    return booked
            raise
        if facts.signer_has_code:
            raise Problem(
                400,
                "contract_signer",
                "The signing wallet is a smart contract; gasless bets need a regular wallet's signature. Send the call "
                "in escapeKit yourself: the token asks your wallet to confirm the signature (ERC-1271).",
                extra=_with(kit),
            )
        self._check_domain(bet, body, contracts)
        if not matches:
            raise _bad_signature(
                "The signature does not match this wallet, market, side, amount, window and salt. Sign "
                f"ReceiveWithAuthorization of {self._token.domain_name} version {self._token.domain_version} on chain "
                f"{bet.chain_id}, with the nonce that GET /api/relay/typed-data shows."
            )
        await self._limits.take(RELAY_RATE, "relay-signer", bet.signer.lower(), too_many)
        if past is not None and past.may_land:
            raise await self._used(bet, past, kit)
        if facts.authorization_used:
            raise Problem(409, "already_used", "This signature was already used or cancelled; sign a new bet.")
        try:
            _check_balance(bet, facts)
            await self._simulate(bet.call(contracts.settler, signature), client, kit)
        except Problem as refusal:
            if refusal.status == 422:
                spent = refusal.extra.get("reason") == _SPENT
                booked = await self._booked(bet, kit, visit, seen=facts.block, spent=spent, refused=True)
                if booked is not None:
                    return booked
            raise
        return await self._send(bet, signature, past, kit, contracts, visit)

    @contextlib.contextmanager
    def _checking(self, kit: EscapeKit) -> Iterator[None]:
        """Room for one more bet to be checked. Without a bound a crowd would wait for the database until each of them
        gave up, and nobody would be served."""
        if self._in_hand >= MAX_IN_HAND:
            raise _busy(self._in_hand, kit)
        self._in_hand += 1
        try:
            yield
        finally:
            self._in_hand -= 1

    async def _from_a_closed_region(self, request: web.Request, visit: _Visit, closed: Problem) -> web.StreamResponse:
        """Nobody bets from there. What became of a bet that was taken in before is told wherever its bettor is now."""
        if self._contracts is None:
            raise closed
        try:
            body = validated_body(RelayRequest, await read_json(request, limit=BODY_LIMIT))
        except Problem:
            raise closed from None
        bet, _, _, kit = self._signed(body, self._contracts)
        past = await self._taken_in_before(bet, kit, visit)
        if past is None or not past.may_land or past.body_hash != _body_hash(kit):
            raise closed
        return await self._follow_up(bet, past, kit, visit)

    def _signed(self, body: RelayRequest, contracts: StockContracts) -> tuple[StockBet, bytes, bool, EscapeKit]:
        """The bet, its signature as the token takes it, whether that is the wallet's, and the call that brings it."""
        bet = self._bet(body, contracts)
        given = bytes_of(body.signature)
        matches = signer_of(bet.digest(self._token), with_usual_v(given)) == bet.signer
        signature = with_usual_v(given) if matches else given
        return bet, signature, matches, self._escape_kit(bet, signature, contracts)

    def _bet(self, body: RelayRequest, contracts: StockContracts) -> StockBet:
        return StockBet(
            chain_id=self._deployment.chain_id,
            settler=contracts.settler.address,
            signer=checksum(body.from_.lower()),
            market_id=int(body.market_id),
            outcome=body.outcome,
            amount=int(body.amount),
            valid_after=int(body.valid_after),
            valid_before=int(body.valid_before),
            salt=bytes_of(body.salt, 32),
        )

    def _check_domain(self, bet: StockBet, body: RelayRequest, contracts: StockContracts) -> None:
        if body.chain_id is not None and body.chain_id != bet.chain_id:
            raise _bad_signature(f"This service is on chain {bet.chain_id}, and the bet names chain {body.chain_id}.")
        if body.service_vpm is not None and body.service_vpm.lower() != contracts.settler.address.lower():
            raise _bad_signature(f"The bet names another contract; this service's is {contracts.settler.address}.")

    # ------------------------------------------------------------ bodies seen before

    async def _taken_in_before(self, bet: StockBet, kit: EscapeKit, visit: _Visit) -> KnownBet | None:
        visit.room.enter_context(self._checking(kit))
        try:
            async with asyncio.timeout(3), self._pool.connection() as connection:
                past = await bets.find(connection, _key(bet))
        except UNREADABLE as error:
            log.warning("the relay has no database", action="relay.no_database", why=error)
            raise _off(kit) from None
        if past is None:
            return None
        visit.attempts = _key(bet).intent_keys(past.attempt)
        if past.landed is None or past.is_ours:
            return past
        # Nobody follows a transaction that is not ours: the chain itself must still have it.
        return replace(past, landed=await self._landing(bet, kit, visit, newest=True))

    async def _follow_up(self, bet: StockBet, past: KnownBet, kit: EscapeKit, visit: _Visit) -> web.StreamResponse:
        # A fork may have undone the block that its bettor was told of: then it is on its way again, and not used up.
        if past.was_told and past.is_booked:
            raise await self._used(bet, past, kit)
        if past.intent is None or (past.is_booked and not past.is_ours):
            assert past.landed is not None
            return await self._confirmed(bet, "0x" + past.landed.hex(), None, kit, visit)
        return await self._outcome(bet, past.intent, kit, visit)

    async def _used(self, bet: StockBet, past: KnownBet, kit: EscapeKit) -> Problem:
        extra: dict[str, Any] = {"nonce": "0x" + bet.nonce.hex()}
        tx = past.tx_hash
        if tx is None:
            return Problem(409, "already_used", "This signature was already used; sign a new bet.", extra=extra)
        extra["txHash"] = "0x" + tx.hex()
        extra["positionId"] = position = await self._position(bet, extra["txHash"])
        message = f"This signature was already used in transaction {extra['txHash']}; sign a new bet."
        if past.body_hash == _body_hash(kit) and past.is_booked:
            # Who asks after a bet must not take this for a refusal, and bet again.
            extra["receipt"] = "confirmed"
            as_position = "" if position is None else f" as position {position}"
            message = (
                f"This very bet is booked{as_position} in transaction {extra['txHash']}; nothing more is to be sent. "
                "Its signature is used up: only for another bet, sign a new bet."
            )
        return Problem(409, "already_used", message, extra=extra)

    async def _booked(
        self,
        bet: StockBet,
        kit: EscapeKit,
        visit: _Visit,
        *,
        seen: int = 0,
        spent: bool = False,
        refused: bool = False,
    ) -> web.StreamResponse | None:
        """Asked before a bet is said to be refused or not sent: the answer to one that the chain has; None for one it
        certainly does not have. When it may, nobody is told that it does not. See `landing_of`; refused: by a node."""
        landed = await self._landing(bet, kit, visit, seen=seen, spent=spent, refused=refused)
        if landed is None:
            return None
        try:
            async with asyncio.timeout(3), self._pool.connection() as connection:
                await bets.remember_landed(connection, _key(bet), bet.market_id, _body_hash(kit), landed)
        except UNREADABLE as error:
            log.warning("a landed bet could not be written down", action="relay.no_database", why=error)
        return await self._confirmed(bet, "0x" + landed.hex(), None, kit, visit)

    async def _landing(
        self,
        bet: StockBet,
        kit: EscapeKit,
        visit: _Visit,
        *,
        seen: int = 0,
        newest: bool = False,
        spent: bool = False,
        refused: bool = False,
    ) -> bytes | None:
        """The transaction that the chain has the bet in; None when it certainly has it in none, and a refusal that says
        so when that is unknown."""
        client, contracts = self._client, self._contracts
        if client is None or contracts is None:
            raise _failed(kit)
        landing = await landing_of(
            self._engine,
            client,
            contracts,
            bet,
            self._settings.rpc_request_path_timeout_seconds,
            seen=seen,
            newest=newest,
            spent=spent,
            refused=_call(kit, contracts) if refused else None,
        )
        if landing.tx is None and not landing.absent:
            # Of a bet whose payer moves its money back and forth the nodes say one thing, and then another: that wakes
            # nobody. Nodes that do not answer do.
            visit.counted = None if landing.unreachable else UNPROVEN
            raise _failed(kit)
        return landing.tx

    # ------------------------------------------------------------ sending

    async def _simulate(self, call: Call, client: ChainClient, kit: EscapeKit) -> None:
        try:
            await client.simulate(call, timeout_seconds=self._settings.rpc_request_path_timeout_seconds)
        except ContractReverted as reverted:
            raise Problem(
                422,
                "simulation_failed",
                f"The bet would be refused by the contract. {reverted.message}",
                extra={"reason": reverted.name},
            ) from None
        except RpcError as error:
            log.warning("a bet could not be simulated", action="relay.no_chain", why=error)
            raise _off(kit) from None

    async def _send(
        self,
        bet: StockBet,
        signature: bytes,
        past: KnownBet | None,
        kit: EscapeKit,
        contracts: StockContracts,
        visit: _Visit,
    ) -> web.StreamResponse:
        key = _key(bet)
        attempt = 1 if past is None else past.attempt + 1
        call = bet.call(contracts.settler, signature)
        request = IntentRequest(
            key=key.intent_keys(attempt)[-1],
            chain_id=bet.chain_id,
            group=RELAY,
            kind="enter",
            to=call.to,
            data=call.data,
            replay_safe=True,
            not_after=bet.valid_before,
            payer=bet.signer,
        )
        try:
            async with asyncio.timeout(5), self._pool.connection() as connection:
                lanes = await report(connection, bet.chain_id, RELAY)
                if not lanes.works:
                    raise _off(kit)
                if await bets.returned_lately(connection, key) >= RETURNED_BETS:
                    raise _returned(kit)
                waiting = lanes.in_flight + lanes.queued
                if waiting >= max(1, self._settings.relay_busy_above):
                    raise _busy(waiting, kit)
                async with connection.transaction():
                    asked = await bets.ask(connection, key, bet.market_id, _body_hash(kit), request, attempt)
                visit.attempts = key.intent_keys(attempt)
                if asked is None:
                    past = await bets.find(connection, key)
        except UNREADABLE as error:
            log.warning("a bet could not be queued", action="relay.no_database", why=error)
            raise _failed(kit) from None
        if asked is not None:
            return await self._outcome(bet, asked, kit, visit)
        if past is None or past.body_hash != _body_hash(kit):  # another body with this nonce was faster
            raise Problem(
                409, "already_used", "This signature's nonce is already used by another body; sign a new bet."
            )
        return await self._follow_up(bet, past, kit, visit)

    async def _outcome(self, bet: StockBet, intent: Intent, kit: EscapeKit, visit: _Visit) -> web.StreamResponse:
        """Waits for the receipt as long as there is time, and says what is known then."""
        visit.room.close()
        left = RECEIPT_WAIT_SECONDS - (asyncio.get_running_loop().time() - visit.started)
        with contextlib.suppress(*UNREADABLE):  # what was known before stands
            intent = await self._watch.wait(intent.id, HAS_RESULT, timeout_seconds=max(0.0, left))
        if intent.succeeded:
            assert intent.tx_hash_hex is not None
            return await self._confirmed(bet, intent.tx_hash_hex, intent.block_number, kit, visit)
        if intent.refused or intent.outcome is not None:
            booked = await self._booked(
                bet,
                kit,
                visit,
                seen=intent.block_number or 0,
                spent=intent.reason_code == _SPENT,
                refused=intent.refused and intent.reason_code not in _UNSIMULATED,
            )
            if booked is not None:
                return booked
        if intent.outcome is MinedOutcome.REVERTED:
            assert intent.tx_hash_hex is not None
            final = not await self._may_land(visit)
            return _answer(bet, intent.tx_hash_hex, "reverted", kit, block=intent.block_number, final=final)
        if intent.refused and intent.reason_code in OF_ITS_PAYER:
            message = f"The bet was not sent. {intent.reason} Or send the call in escapeKit yourself."
            raise Problem(429, "rate_limited", message, headers={"Retry-After": "300"}, extra=_with(kit))
        if intent.refused:
            raise Problem(
                422,
                "simulation_failed",
                f"The bet was not sent: {intent.reason or 'it would be refused by the contract'}",
                extra={"reason": intent.reason_code},
            )
        if intent.tx_hash_hex is None or intent.state.ended or intent.outcome is not None:
            raise _failed(kit) if await self._lanes_work(bet.chain_id) else _off(kit)
        return _answer(bet, intent.tx_hash_hex, "pending", kit)

    async def _standing(self, refusal: Problem, visit: _Visit) -> Problem:
        """A refusal, and that it is not for good while an attempt to bring the bet to the chain may still do so."""
        if not visit.attempts or refusal.extra.get("receipt") == "confirmed":
            return refusal
        asks_again = refusal.status >= 500 or refusal.status == 429
        if not await self._may_land(visit, or_is_on_its_way=not asks_again):
            return refusal
        return for_now(refusal, "GET /api/relay/receipt tells.")

    async def _may_land(self, visit: _Visit, *, or_is_on_its_way: bool = True) -> bool:
        """Whether the bet may still be booked although it is being refused; what cannot be read may be."""
        try:
            async with asyncio.timeout(3), self._engine.connect() as connection:
                return await may_land(
                    connection, visit.attempts, self._finality_blocks, or_is_on_its_way=or_is_on_its_way
                )
        except UNREADABLE as error:
            log.warning("whether a refusal is final cannot be read", action="relay.no_database", why=error)
            return True

    async def _lanes_work(self, chain_id: int) -> bool:
        """Unknown counts as working: then the bettor is told to try again rather than to give up on us."""
        with contextlib.suppress(*UNREADABLE):
            async with asyncio.timeout(3), self._pool.connection() as connection:
                return (await report(connection, chain_id, RELAY)).works
        return True

    async def _confirmed(
        self, bet: StockBet, tx_hash: str, block: int | None, kit: EscapeKit, visit: _Visit
    ) -> web.StreamResponse:
        position = await self._position(bet, tx_hash)
        visit.booked = _key(bet)
        return _answer(bet, tx_hash, "confirmed", kit, block=block, position=position)

    async def _mark_told(self, key: BetKey) -> None:
        try:
            async with asyncio.timeout(3), self._pool.connection() as connection:
                await bets.mark_told(connection, key)
        except UNREADABLE as error:
            log.warning("a told confirmation could not be written down", action="relay.no_database", why=error)

    async def _position(self, bet: StockBet, tx_hash: str) -> str | None:
        """The position's id, if the receipt can be had quickly."""
        if self._client is None or self._contracts is None:
            return None
        try:
            async with asyncio.timeout(self._settings.rpc_request_path_timeout_seconds):
                receipt = await self._client.receipt(tx_hash)
        except (RpcError, TimeoutError):
            return None
        position_id = None if receipt is None else position_in(receipt, self._contracts, bet)
        return None if position_id is None else str(position_id)

    def _escape_kit(self, bet: StockBet, signature: bytes, contracts: StockContracts) -> EscapeKit:
        call = bet.call(contracts.settler, signature)
        return EscapeKit(
            to=call.to,
            data="0x" + call.data.hex(),
            chain_id=bet.chain_id,
            expires_at=min(bet.valid_before, 2**53 - 1),
        )


async def _written(request: web.Request, response: web.StreamResponse) -> bool:
    """Writes the whole answer now; False when the connection it would go to is gone."""
    try:
        await response.prepare(request)
        await response.write_eof()
    except ConnectionError:
        return False
    return True


def _key(bet: StockBet) -> BetKey:
    return BetKey(bet.chain_id, bytes.fromhex(bet.signer[2:]), bet.nonce)


def _body_hash(kit: EscapeKit) -> bytes:
    return keccak(hexstr=kit.data)


def _call(kit: EscapeKit, contracts: StockContracts) -> Call:
    """The call of an escape kit."""
    return Call(kit.to, bytes_of(kit.data), contracts.settler.abi.function("enterWithAuthorization"))


def _check_balance(bet: StockBet, facts: ChainFacts) -> None:
    if facts.balance < bet.amount:
        has, needs = decimal_text(facts.balance), decimal_text(bet.amount)
        raise Problem(
            422,
            "insufficient_balance",
            f"The wallet holds {has} USDG on this chain, and the bet is {needs}. Add USDG and send the body again.",
        )


def _check_window(bet: StockBet, head_time: int, now: int) -> None:
    """head_time: of the newest block, which it is tried on before it is sent. now: the chain's clock, which runs on
    between blocks."""
    if bet.valid_after >= head_time:
        raise _expired(f"The bet is valid only after {bet.valid_after}; the chain's newest block is of {head_time}.")
    if bet.valid_before < now + MIN_AHEAD_SECONDS:
        raise _expired(
            f"The bet is valid until {bet.valid_before}, less than {MIN_AHEAD_SECONDS} s ahead of the chain's clock "
            f"({now}). Sign a new one."
        )
    if bet.valid_before > now + MAX_AHEAD_SECONDS:
        raise _expired(
            f"The bet is valid until {bet.valid_before}, more than an hour ahead of the chain's clock ({now}). Sign a "
            "shorter one."
        )


def _check_market(bet: StockBet, facts: ChainFacts, now: int) -> None:
    market = facts.market
    if market is None:
        raise Problem(404, "market_not_found", f"No market {bet.market_id} was ever listed.")
    if market["status"] != StockMarketStatus.OPEN:
        raise _closed("This market is settled.")
    if now >= market["freezeTime"]:
        raise _closed("This market is past its bell.")
    if facts.entries_paused:
        raise _closed("New bets are paused on all markets; payouts go on.")


def _check_room(bet: StockBet, facts: ChainFacts) -> None:
    """A side that takes less than the least bet would book it and give it back, both at our expense."""
    assert facts.market is not None
    least = max(MIN_BET, facts.market["minEntry"])
    if facts.room < least:
        side, other = ("UP", "DOWN") if bet.outcome == 0 else ("DOWN", "UP")
        raise Problem(
            400,
            "amount_out_of_bounds",
            f"{side} is full: it takes {decimal_text(facts.room)} USDG more, and a bet is at least "
            f"{decimal_text(least)}. There is room again as {other} grows.",
            extra={"headroom": str(facts.room)},
        )


def _answer(
    bet: StockBet,
    tx_hash: str,
    receipt: Literal["confirmed", "pending", "reverted"],
    kit: EscapeKit,
    *,
    block: int | None = None,
    position: str | None = None,
    final: bool | None = None,
) -> web.Response:
    ANSWERS.labels(receipt).inc()
    return json_response(
        RelayBody(
            ok=receipt != "reverted",
            tx_hash=tx_hash,
            nonce="0x" + bet.nonce.hex(),
            receipt=receipt,
            position_id=position,
            block_number=None if block is None else str(block),
            final=final,
            escape_kit=kit,
        )
    )


def _with(kit: EscapeKit) -> dict[str, Any]:
    return {"escapeKit": to_builtins(kit)}


def _expired(message: str) -> Problem:
    return Problem(400, "expired", message)


def _bad_signature(message: str) -> Problem:
    return Problem(400, "bad_signature", message)


def _closed(message: str) -> Problem:
    return Problem(409, "market_closed", f"{message} It takes no bets.")


def _off(kit: EscapeKit) -> Problem:
    return Problem(
        503,
        "relay_unavailable",
        "The relayer is off or out of gas. Send the call in escapeKit yourself, or try again later.",
        headers={"Retry-After": "30"},
        extra=_with(kit),
    )


def _failed(kit: EscapeKit) -> Problem:
    return Problem(
        502,
        "relay_failed",
        "The send could not be confirmed; it may have landed. Send the same body again: a signature is accepted once, "
        "so this never bets twice.",
        extra=_with(kit),
    )


def _returned(kit: EscapeKit) -> Problem:
    return Problem(
        429,
        "rate_limited",
        f"{RETURNED_BETS} bets of this wallet within an hour came back nearly whole: their sides were full. Bet later, "
        "where there is headroom, or send the call in escapeKit yourself.",
        headers={"Retry-After": "600"},
        extra=_with(kit),
    )


def _busy(waiting: int, kit: EscapeKit) -> Problem:
    # About a second for every fifty bets ahead, and never longer than a few Ethereum blocks.
    seconds = min(30, 2 + waiting // 50)
    return Problem(
        503,
        "busy",
        f"Many bets are on their way. Send the same body again in {seconds} s.",
        headers={"Retry-After": str(seconds)},
        extra={"retryAfter": seconds, **_with(kit)},
    )
