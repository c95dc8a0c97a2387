"""The stock surface, assembled: its parts started, its operations declared."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

from api.context import Context
from api.limits import RequestQuota
from api.operations import DocumentedAnswer, Handler, Operation, Surface
from api.solvency import solvency_watches
from api.stock.authorization import NONCE_FORMULA
from api.stock.bodies.markets import MarketDetailBody, MarketsBody, PricesBody
from api.stock.bodies.operating import CronReport, HealthBody
from api.stock.bodies.parts import ErrorBody
from api.stock.bodies.positions import OwnerBody
from api.stock.bodies.proof import ProofBody
from api.stock.bodies.relay import ReceiptBody, RelayBody, TypedDataBody
from api.stock.chain import StockContracts
from api.stock.cron import Cron
from api.stock.health import Health
from api.stock.index import StockIndex
from api.stock.mcp import stock_mcp
from api.stock.oracle import OracleWatch
from api.stock.proof import Proof
from api.stock.reads import StockReads
from api.stock.receipt import BetReceipts
from api.stock.relay import Relay
from api.stock.requests import (
    CronPath,
    MarketPath,
    MarketsQuery,
    OwnerQuery,
    ReceiptQuery,
    RelayRequest,
    TypedDataQuery,
)
from api.stock.sources import StockSources
from api.stock.typed_data import typed_data
from api.tools import CORS
from core.contracts.deployments import load_deployment
from core.log import get_logger

log = get_logger(__name__)

PREFIXES = (
    "/api/prices",
    "/api/markets",
    "/api/positions",
    "/api/proof",
    "/api/health",
    "/api/relay/",
    "/api/cron/",
    "/api/stock/",
)

DESCRIPTION = """\
Markets on whether a stock's oracle reading finishes UP or DOWN between a strike time and a final time.

- Amounts are USDG in its smallest unit (6 decimals) as decimal strings; prices are oracle answers with 8 decimals as
  decimal strings; times are Unix seconds as numbers; outcomes are `UP` and `DOWN` (0 and 1 on chain).
- Everything here can be read from the contracts too. `readAt` says when the chain was last read; `stale` is true while
  it, or the feed of a market shown, cannot be read and the last good read is served.
- Nothing needs this service or its keeper: anyone can send a signed bet, settle a market by its rounds, void one whose
  time is over and deliver what is due. Listing a market takes a wallet that the lister's owner allows.
- Phases follow the time of the chain's newest block: `opens` before the strike, `live` until the final time, `frozen`
  until it is settled, then `resolved` or `void`. Bets are taken in `opens` and `live`.
- Errors are `{error, message}`; some add fields, such as `retryAfter` (seconds) or `escapeKit`.
- Query names that an operation does not know are named back in `ignoredQuery`, each with the nearest one it knows.
- Answers carry strong ETags: send `If-None-Match` and take 304. Fields may be added, never renamed or removed.
"""

RELAY_DESCRIPTION = f"""\
The bettor signs the token's EIP-3009 `ReceiveWithAuthorization` (EIP-712, in the token's domain): `to` is the settler,
`value` the amount, and `nonce` binds it to this bet:

`{NONCE_FORMULA}`

`GET /api/relay/typed-data` gives all of it ready to sign. The relay can change nothing of what was signed, and anyone
can send the same call: every answer about a sent bet has it in `escapeKit`.

Checks run in this order: rate (10 a minute per IP and per signer), shape, amount (the tighter of the market's bounds
and 1 to 100 USDG), window (`validBefore` 30 s to 1 hour ahead of the chain's clock), market exists, market open,
contract signer, signature, used, balance, simulation. Then the call is sent, and the answer waits up to 10 s for the
receipt: `confirmed`, `reverted`, or `pending` with the hash.

A signature books once. Send the same body again after `pending`, `busy` or `relay_failed`, or when no answer came: it
gives the first transaction and never bets twice. Once a bet was answered as `confirmed`, the same body is
`already_used`, with `receipt: "confirmed"`, the hash and the position: it is booked; send nothing more. The same nonce
signed for another window is the same bet and gets the same answer.

A bet that the wallet's balance does not cover on top of its pending bets is `rate_limited` until those are booked.

`final: false` in an answer (`reverted` or an error) means that the block which refused the bet is not final: if the
chain undoes it, the signed bet may still be taken. Check `GET /api/relay/receipt` until `validBefore` is past; the same
body again would be a new attempt.
"""


@asynccontextmanager
async def stock_surface(context: Context) -> AsyncIterator[Surface]:
    """The surface, with its readers running while the context is open."""
    settings = context.settings
    chain = settings.chain("stock")
    deployment = load_deployment(chain.deployment_file)
    contracts = StockContracts.of(deployment)
    client = await context.chains.client("stock")
    if client is None:
        log.warning("no RPC URL for the stock chain: no prices, no relay", action="stock.no_rpc")
    index = None
    if contracts is not None:
        index = StockIndex(context.write_url, context.engine, deployment.chain_id, replica=context.has_replica)
        await index.refresh()
        context.spawn("stock index", index.run())
    oracle = None
    if client is not None:
        oracle = OracleWatch(client, deployment, contracts, index, context.engine)
        await oracle.refresh()
        context.spawn("stock oracle", oracle.run())
    solvency = await solvency_watches(context)
    for name, watch in solvency.items():
        context.spawn(f"solvency of {name}", watch.run())
    sources = StockSources(deployment, contracts, client, index, oracle)
    proof = Proof(context, sources, solvency)
    context.spawn("stock proof", proof.run())
    cron = Cron(context.secrets.cron_secret, context.pool)
    quota = RequestQuota(context.limits, settings, _RATE)
    reads = StockReads(context, sources, quota)
    health = Health(context, sources)
    operations = quota.counted(
        (
            *_market_operations(reads, proof, health),
            *_relay_operations(Relay(context, sources), partial(typed_data, sources), BetReceipts(context, sources)),
            *_cron_operations(cron),
        )
    )
    mcp = stock_mcp(settings, operations)
    async with mcp.running():
        yield Surface(
            name="stock",
            title="Stock markets",
            description=DESCRIPTION,
            prefixes=PREFIXES,
            reads=(reads, proof, health),
            cors=CORS,
            security_schemes={"cronSecret": {"type": "http", "scheme": "bearer", "description": "CRON_SECRET"}},
            operations=(*operations, *quota.counted(mcp.operations())),
        )


def _error(description: str) -> DocumentedAnswer:
    return DocumentedAnswer(description, ErrorBody)


_UNAVAILABLE = _error("`unavailable`: the chain could never be read since the service started.")
_RATE = DocumentedAnswer("`rate_limited`", ErrorBody, {"Retry-After": "Seconds until there is room again."})


def _market_operations(reads: StockReads, proof: Proof, health: Health) -> tuple[Operation, ...]:
    return (
        Operation(
            "GET",
            "/api/prices",
            reads.prices,
            "Latest oracle reading of every ticker",
            {200: DocumentedAnswer("Also when the chain cannot be read: `status` says so.", PricesBody)},
            description="Cached for 15 s.",
            timed=False,
        ),
        Operation(
            "GET",
            "/api/markets",
            reads.markets,
            "Markets with their books and states, newest first",
            {
                200: DocumentedAnswer("The markets.", MarketsBody),
                400: _error("`invalid_request`"),
                429: _RATE,
                503: _UNAVAILABLE,
            },
            description="Cached for 15 s. All that are unsettled and the newest 1,000 settled; `limit` and `before` "
            "cut a page of whatever state, and `nextBefore` is the `before` of the next.",
            query=MarketsQuery,
            timed=False,
        ),
        Operation(
            "GET",
            "/api/markets/{id}",
            reads.market,
            "One market with every position",
            {
                200: DocumentedAnswer("The market.", MarketDetailBody),
                404: _error("`market_not_found`: the id was never listed."),
                429: _RATE,
                503: _UNAVAILABLE,
            },
            description="Cached for 5 s. Positions are in the order of entry, the seed first.",
            path_parameters=MarketPath,
            timed=False,
        ),
        Operation(
            "GET",
            "/api/positions",
            reads.positions,
            "One address's positions across markets",
            {
                200: DocumentedAnswer("The positions.", OwnerBody),
                400: _error("`invalid_request`: `owner` is missing or not an address."),
                429: _RATE,
                503: _UNAVAILABLE,
            },
            description="Cached for 5 s by the caller. 30 requests a minute per IP. The address is never logged. "
            "`totals` are of all its positions, whatever the page shows.",
            query=OwnerQuery,
        ),
        Operation(
            "GET",
            "/api/proof",
            proof.get,
            "Counters, settled markets, the refund drill, fee sweeps, solvency",
            {200: DocumentedAnswer("The proof page's data.", ProofBody), 503: _UNAVAILABLE},
            description="Cached for 60 s. Each number names the call that shows the same.",
            timed=False,
        ),
        Operation(
            "GET",
            "/api/health",
            health.get,
            "Is everything alive that keeps the markets going?",
            {
                200: DocumentedAnswer("Every check holds.", HealthBody),
                503: DocumentedAnswer("A check fails; `checks` says which.", HealthBody),
            },
            description="Never cached.",
        ),
    )


def _relay_operations(relay: Relay, ready_to_sign: Handler, receipts: BetReceipts) -> tuple[Operation, ...]:
    return (
        Operation(
            "POST",
            "/api/relay/enter",
            relay.enter,
            "Relay a signed bet, without gas",
            {
                200: DocumentedAnswer("Sent; `receipt` is its state.", RelayBody),
                400: _error("`invalid_request`, `bad_signature`, `contract_signer`, `expired`, `amount_out_of_bounds`"),
                403: _error("`region_blocked`"),
                404: _error("`market_not_found`"),
                409: _error("`market_closed`, `already_used`"),
                413: _error("`payload_too_large`"),
                415: _error("`unsupported_media_type`"),
                422: _error("`insufficient_balance`, `simulation_failed`"),
                429: _RATE,
                502: _error("`relay_failed`"),
                503: _error("`busy` (with `retryAfter`), `relay_unavailable`, `not_deployed`"),
            },
            description=RELAY_DESCRIPTION,
            body=RelayRequest,
        ),
        Operation(
            "GET",
            "/api/relay/typed-data",
            ready_to_sign,
            "A bet ready to sign",
            {
                200: DocumentedAnswer("What to sign, and the relay's body without the signature.", TypedDataBody),
                400: _error("`invalid_request`, `amount_out_of_bounds`"),
                404: _error("`market_not_found`"),
                409: _error("`market_closed`"),
                503: _error("`not_deployed`, `unavailable`"),
            },
            description="Give the result to `eth_signTypedData_v4`, add `signature` to `request`, and post it to "
            "/api/relay/enter.",
            query=TypedDataQuery,
        ),
        Operation(
            "GET",
            "/api/relay/receipt",
            receipts.get,
            "The outcome of a signed bet",
            {
                200: DocumentedAnswer("Its block, its position, and whether that is final.", ReceiptBody),
                400: _error("`invalid_request`"),
                429: _RATE,
                503: _error("`not_deployed`, `unavailable`"),
            },
            description="By its signer and nonce, whoever sent it. Ask again until `receipt` is `final`. Never cached. "
            "60 requests a minute per IP.",
            query=ReceiptQuery,
        ),
    )


def _cron_operations(cron: Cron) -> tuple[Operation, ...]:
    return (
        Operation(
            "GET",
            "/api/cron/{job}",
            cron.run,
            "Run a keeper's job now (scheduler only)",
            {
                200: DocumentedAnswer("The keeper's report.", CronReport),
                401: _error("`unauthorized`: not the cron secret."),
                404: _error("`not_found`: no such job."),
                503: _error("`keeper_unavailable`: no keeper took the job, or it is still at it."),
            },
            description="Jobs: `open`, `resolve`, `deliver`. Each is idempotent: what was done is not done again.",
            path_parameters=CronPath,
            security="cronSecret",
        ),
    )
