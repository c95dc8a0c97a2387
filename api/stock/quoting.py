"""A bet before it is signed: its quote, and its typed data."""

from __future__ import annotations

import heapq
import secrets
from typing import Annotated, Any, Literal

import msgspec
from aiohttp import web
from msgspec import field, structs
from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from api.caching import json_response
from api.head import chain_now
from api.operations import Body
from api.problems import Problem
from api.requests import read_query
from api.stock.bets import ADDRESS, BYTES32, NONCE_FORMULA, StockBet, Uint256Text
from api.stock.bodies import BetQuoteBody, HexAddress, HexHash, Integer, QuoteBasisBody, QuoteBody, QuotesBody
from api.stock.checks import MAX_BET, MIN_BET, check_amount, check_halt, not_deployed
from api.stock.facts import FAMILIES, SIDES, ListedMarket, MarketsSnapshot, Phase
from api.stock.sources import STOCK_TOKEN_SYMBOL, StockSources
from core.chain import checksum
from core.hexadecimal import bytes_of, hex_of
from core.money import USD
from core.stock.likely import HISTORY, PRECISION, STUDY_MARKETS, elapsed, likely, usual_volume


class DomainBody(Body):
    name: str
    version: str
    chain_id: int
    verifying_contract: HexAddress


class AuthorizationBody(Body):
    """The token's ReceiveWithAuthorization. Numbers are text, so that no wallet rounds them."""

    from_: HexAddress = field(name="from")
    to: HexAddress
    value: Integer
    valid_after: Integer
    valid_before: Integer
    nonce: HexHash


class TypedDataBody(Body):
    """What to sign with `eth_signTypedData_v4` (domain, types, primaryType, message), and the request body for the
    relay without the signature. Fill in `message.from` and `request.from` if the query did not name the signer."""

    domain: DomainBody
    types: dict[str, list[dict[str, str]]]
    primary_type: Literal["ReceiveWithAuthorization"]
    message: AuthorizationBody
    nonce: HexHash
    nonce_formula: str
    request: dict[str, Any]
    quote: BetQuoteBody


class TypedDataQuery(BaseModel):
    model_config = ConfigDict(alias_generator=to_camel, validate_by_alias=True)

    market_id: Annotated[Uint256Text, Field(description="The market's id.", examples=["1"])]
    outcome: Annotated[int, Field(ge=0, le=1, description="0 = UP, 1 = DOWN.")]
    amount: Annotated[
        str, Field(pattern=r"^[1-9][0-9]{0,77}$", description="USDG units (6 decimals).", examples=["5000000"])
    ]
    from_: Annotated[
        str | None,
        Field(alias="from", pattern=ADDRESS, description="The signer. Default: the zero address."),
    ] = None
    salt: Annotated[str | None, Field(pattern=BYTES32, description="32 bytes in hex. Default: random.")] = None
    valid_seconds: Annotated[int, Field(ge=60, le=3540, description="How long the bet is valid, in seconds.")] = 600


EXAMPLE_STAKES = (1 * USD, 10 * USD, 100 * USD)


def quote(listed: ListedMarket, snapshot: MarketsSnapshot, outcome: int, amount: int) -> BetQuoteBody:
    basis = _basis(listed, snapshot)
    bet = _quoted(listed, snapshot, outcome, amount, basis)
    return BetQuoteBody(**structs.asdict(bet), rests_on=basis)


def example_quotes(listed: ListedMarket, snapshot: MarketsSnapshot, *, accepting: bool) -> QuotesBody:
    """Quote the example stakes that the market's limits allow, on each side."""
    terms, basis = listed.market.terms, _basis(listed, snapshot)
    stakes = [each for each in EXAMPLE_STAKES if accepting and terms.min_entry <= each <= terms.max_entry]
    bets = [_quoted(listed, snapshot, outcome, stake, basis) for stake in stakes for outcome in range(len(SIDES))]
    return QuotesBody(bets=bets, rests_on=basis)


def _quoted(
    listed: ListedMarket, snapshot: MarketsSnapshot, outcome: int, amount: int, basis: QuoteBasisBody
) -> QuoteBody:
    at = elapsed(listed.opened_at, listed.strike_time, listed.final_time, snapshot.head.timestamp)
    bet = likely(listed.market, outcome, amount, snapshot.head.moment, at, int(basis.usual_volume))
    return QuoteBody(
        side=SIDES[outcome],
        amount=str(amount),
        accepted=str(bet.accepted),
        likely_payout=str(bet.payout),
        break_even_pct=None if bet.break_even is None else bet.break_even * 100 / PRECISION,
    )


def _basis(listed: ListedMarket, snapshot: MarketsSnapshot) -> QuoteBasisBody:
    ended = [
        (each.result.at, each.id, each.market)
        for each in snapshot.markets.values()
        if each.result is not None and each.family == listed.family
    ]
    last = heapq.nlargest(HISTORY, ended)
    usual = usual_volume([market.pool - 2 * market.terms.seed_per_leg for _, _, market in last])
    return QuoteBasisBody(
        usual_volume=str(usual),
        settled_markets=len(last),
        text="It is based on the time left, the bets so far, and the usual volume of such a market: the median of the "
        f"last {len(last)} settled {FAMILIES[listed.family]} markets and {STUDY_MARKETS} markets of the study in "
        "docs/fairness.md. It does not use the price: a side that is far ahead gets less than this, and a side that is "
        "behind gets more.",
    )


ZERO_ADDRESS = "0x" + "00" * 20


async def typed_data(sources: StockSources, request: web.Request) -> web.StreamResponse:
    contracts, index = sources.contracts, sources.index
    query = read_query(request, TypedDataQuery)
    if contracts is None:
        raise not_deployed()
    snapshot = index.required()
    market = await index.market(int(query.market_id))
    if market is None:
        raise Problem(404, "market_not_found", f"There is no market {query.market_id}.")
    if market.phase(snapshot.head.timestamp) not in (Phase.OPENS, Phase.LIVE) or snapshot.entries_paused:
        raise Problem(409, "market_closed", "This market does not accept bets now.")
    check_halt(sources.oracle.halt_reason(market))
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
