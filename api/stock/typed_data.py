"""GET /api/relay/typed-data: a bet ready to sign, and the request body without the signature."""

from __future__ import annotations

import secrets

import msgspec
from aiohttp import web

from api.caching import json_response
from api.head import chain_now
from api.problems import Problem
from api.requests import read_query
from api.stock.bets import NONCE_FORMULA, StockBet
from api.stock.bodies.relay import TypedDataBody
from api.stock.chain import STOCK_TOKEN_SYMBOL
from api.stock.checks import MAX_BET, MIN_BET, check_amount, check_halt
from api.stock.facts import Phase
from api.stock.quoting import quote
from api.stock.requests import TypedDataQuery
from api.stock.sources import StockSources
from core.chain import checksum
from core.hexadecimal import bytes_of, hex_of

ZERO_ADDRESS = "0x" + "00" * 20


async def typed_data(sources: StockSources, request: web.Request) -> web.StreamResponse:
    """Answer with the typed data of a bet, which a wallet signs, and the request body without the signature."""
    contracts, index = sources.contracts, sources.index
    query = read_query(request, TypedDataQuery)
    if contracts is None or index is None:
        raise Problem(503, "not_deployed", "The stock markets are not deployed yet; there is nothing to bet on.")
    snapshot = index.required()
    market = await index.market(int(query.market_id))
    if market is None:
        raise Problem(404, "market_not_found", f"There is no market {query.market_id}.")
    if market.phase(snapshot.head.timestamp) not in (Phase.OPENS, Phase.LIVE) or snapshot.entries_paused:
        raise Problem(409, "market_closed", "This market does not accept bets now.")
    check_halt(None if sources.oracle is None else sources.oracle.halt_reason(market))
    terms = market.market.terms
    check_amount(int(query.amount), max(MIN_BET, terms.min_entry), min(MAX_BET, terms.max_entry))
    bet = StockBet(
        chain_id=sources.deployment.chain_id,
        settler=contracts.settler.address,
        signer=checksum((query.from_ or ZERO_ADDRESS).lower()),
        market_id=market.id,
        outcome=query.outcome,
        amount=int(query.amount),
        valid_after=0,
        valid_before=chain_now(snapshot.head.timestamp) + query.valid_seconds,
        salt=bytes_of(query.salt, 32) if query.salt else secrets.token_bytes(32),
    )
    body = {
        **bet.typed_data(sources.deployment.token(STOCK_TOKEN_SYMBOL)),
        "nonce": hex_of(bet.nonce),
        "nonceFormula": NONCE_FORMULA,
        "request": {
            "from": bet.signer,
            "marketId": str(bet.market_id),
            "outcome": bet.outcome,
            "amount": str(bet.amount),
            "validAfter": str(bet.valid_after),
            "validBefore": str(bet.valid_before),
            "salt": hex_of(bet.salt),
            "chainId": bet.chain_id,
            "serviceVpm": bet.settler,
        },
    }
    body["quote"] = msgspec.to_builtins(quote(market, snapshot, bet.outcome, bet.amount))
    return json_response(msgspec.convert(body, TypedDataBody))
