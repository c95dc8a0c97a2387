"""The stock surface: its background readers and its operations."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

from api.context import Context
from api.limits import RequestQuota
from api.operations import Answers, DocumentedAnswer, Handler, Operation, Surface
from api.stock.bets import NONCE_FORMULA, RelayRequest
from api.stock.bodies import ErrorBody, MarketDetailBody, MarketsBody, OwnerBody, PricesBody
from api.stock.cron import Cron, CronPath, CronReport
from api.stock.health import Health, HealthBody
from api.stock.index import StockIndex
from api.stock.mcp import stock_mcp
from api.stock.owned import OwnerQuery
from api.stock.proof import Proof
from api.stock.proof_facts import ProofBody, safe_watch, solvency_watches
from api.stock.quoting import TypedDataBody, TypedDataQuery, typed_data
from api.stock.reads import MarketPath, MarketsQuery, StockReads
from api.stock.receipt import ReceiptBody, ReceiptQuery, bet_receipt
from api.stock.relay import Relay, RelayBody
from api.stock.sources import OracleWatch, StockContracts, StockSources
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
- Everything here can also be read from the contracts. `readAt` is the time of the last read of the chain; `stale` is
  true while the chain, or the feed of a market in the response, cannot be read and older data is served.
- Nothing depends on this service or its keeper: anyone can send a signed bet, settle a market, void one that was not
  settled in time, and deliver payouts. Only listing a market needs a wallet that the lister's owner has allowed.
- Phases follow the time of the chain's newest block: `opens` before the strike, `live` until the final time, `frozen`
  until it is settled, then `resolved` or `void`. Bets are accepted in `opens` and `live`.
- Errors are `{error, message}`; some add fields, such as `retryAfter` (seconds) or `escapeKit`.
- Unknown query parameters are listed in `ignoredQuery`, each with the nearest known name.
- Responses have strong ETags: send `If-None-Match` to get a 304. Fields may be added, never renamed or removed.
"""

RELAY_DESCRIPTION = f"""\
The bettor signs the token's EIP-3009 `ReceiveWithAuthorization` (EIP-712, in the token's domain): `to` is the settler,
`value` the amount, and `nonce` binds it to this bet:

`{NONCE_FORMULA}`

`GET /api/relay/typed-data` returns all of it ready to sign. The relay cannot change what was signed, and anyone can
send the same call: every response about a sent bet has it in `escapeKit`.

Checks run in this order: rate (10 a minute per IP and per signer), shape, amount (the tighter of the market's bounds
and 1 to 100 USDG), window (`validBefore` 30 s to 1 hour ahead of the chain's clock), market exists, market open,
contract signer, signature, used, balance, simulation. Then the call is sent, and the response waits up to 10 s for the
receipt: `confirmed`, `reverted`, or `pending` with the hash.

A signature places one bet, once. Send the same body again after `pending`, `busy`, `relay_failed` or no response: it
returns the first transaction and never bets twice. After a bet has been reported as `confirmed`, the same body is
`already_used`, with `receipt: "confirmed"`, the hash and the position: the bet is placed, and there is nothing more to
send. Another signature with the same nonce, for another time window, is the same bet and gets the same response.

A bet is `rate_limited` while the wallet's balance does not cover it together with the wallet's pending bets.

A refusal with `final: false`, `reverted` or an error, comes from a block that is not final yet: if the chain replaces
that block, the signed bet may still be accepted. Poll `GET /api/relay/receipt` until `validBefore` has passed; sending
the same body again would be a new attempt.
"""


@asynccontextmanager
async def stock_surface(context: Context) -> AsyncIterator[Surface]:
    settings = context.settings
    chain = settings.chain("stock")
    deployment = load_deployment(chain.deployment_file)
    contracts = StockContracts.of(deployment)
    client = await context.chains.client("stock")
    if client is None:
        log.warning("no RPC URL for the stock chain: prices and the relay are disabled", action="stock.no_rpc")
    index = StockIndex(
        context.write_url,
        context.engine,
        deployment.chain_id,
        deployed=contracts is not None,
        replica=context.has_replica,
    )
    await index.refresh()
    context.spawn("stock index", index.run())
    oracle = OracleWatch(client, deployment, contracts, index, context.engine)
    if client is not None:
        await oracle.refresh()
        context.spawn("stock oracle", oracle.run())
    solvency, safe = await solvency_watches(context), safe_watch(client, deployment)
    for watch in solvency:
        context.spawn(watch.what, watch.run())
    if safe is not None:
        context.spawn(safe.what, safe.run())
    sources = StockSources(deployment, contracts, client, index, oracle)
    proof = Proof(context, sources, solvency, safe)
    context.spawn("stock proof", proof.run())
    cron = Cron(context.secrets.cron_secret, context.pool)
    quota = RequestQuota(context.limits, settings, _answers.refusal("`rate_limited`", 429))
    reads = StockReads(context, sources, quota)
    health = Health(context, sources)
    operations = quota.counted(
        (
            *_market_operations(reads, proof, health),
            *_relay_operations(
                Relay(context, sources), partial(typed_data, sources), partial(bet_receipt, context, sources)
            ),
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
            security_schemes={"cronSecret": {"type": "http", "scheme": "bearer", "description": "CRON_SECRET"}},
            operations=(*operations, *quota.counted(mcp.operations())),
        )


_answers = Answers(
    ErrorBody,
    {
        400: "`invalid_request`",
        404: "`market_not_found`: there is no market with this id.",
        429: "`rate_limited`",
        503: "`unavailable`: the chain has not been read since the service started.",
    },
)
_NOT_DEPLOYED = "`not_deployed`, `unavailable`"


def _get(path: str, handler: Handler, summary: str, answers: dict[int, DocumentedAnswer], **more: Any) -> Operation:
    return Operation("GET", path, handler, summary, answers, **more)


def _market_operations(reads: StockReads, proof: Proof, health: Health) -> tuple[Operation, ...]:
    return (
        _get(
            "/api/prices",
            reads.prices,
            "Latest oracle reading of every ticker",
            _answers("The prices; `status` says whether they are live.", PricesBody),
            description="Cached for 15 s.",
            timed=False,
        ),
        _get(
            "/api/markets",
            reads.markets,
            "Markets, newest first",
            _answers("The markets.", MarketsBody, 400, 429, 503),
            description="Cached for 15 s. Without parameters: all unsettled markets and the newest 1,000 settled ones. "
            "With `limit` and `before`: a page of markets in any state; `nextBefore` is the `before` of the next page.",
            query=MarketsQuery,
            timed=False,
        ),
        _get(
            "/api/markets/{id}",
            reads.market,
            "One market with every position",
            _answers("The market.", MarketDetailBody, 404, 429, 503),
            description="Cached for 5 s. Positions are in the order of entry, the seed first.",
            path_parameters=MarketPath,
            timed=False,
        ),
        _get(
            "/api/positions",
            reads.positions,
            "One address's positions across markets",
            _answers("The positions.", OwnerBody, 400, 429, 503),
            description="Clients may cache it for 5 s. 30 requests a minute per IP. The address is never logged. "
            "`totals` cover all its positions, not only those on this page.",
            query=OwnerQuery,
        ),
        _get(
            "/api/proof",
            proof.get,
            "Counters, settled markets, the refund drill, fee sweeps, solvency",
            _answers("The proof page's data.", ProofBody, 503),
            description="Cached for 60 s. Each number comes with the contract call that verifies it.",
            timed=False,
        ),
        _get(
            "/api/health",
            health.get,
            "Health checks of the stock markets",
            {
                200: DocumentedAnswer("Every check passes.", HealthBody),
                503: DocumentedAnswer("A check fails; `checks` says which.", HealthBody),
            },
            description="Never cached.",
        ),
    )


def _relay_operations(relay: Relay, ready_to_sign: Handler, receipt: Handler) -> tuple[Operation, ...]:
    return (
        Operation(
            "POST",
            "/api/relay/enter",
            relay.enter,
            "Relay a signed bet, without gas",
            _answers(
                "The bet was sent; `receipt` has its state.",
                RelayBody,
                404,
                429,
                errors={
                    400: "`invalid_request`, `bad_signature`, `contract_signer`, `expired`, `amount_out_of_bounds`",
                    403: "`region_blocked`",
                    409: "`market_closed`, `already_used`",
                    413: "`payload_too_large`",
                    415: "`unsupported_media_type`",
                    422: "`insufficient_balance`, `simulation_failed`",
                    502: "`relay_failed`",
                    503: "`busy` (with `retryAfter`), `relay_unavailable`, `not_deployed`",
                },
            ),
            description=RELAY_DESCRIPTION,
            body=RelayRequest,
        ),
        _get(
            "/api/relay/typed-data",
            ready_to_sign,
            "A bet ready to sign",
            _answers(
                "The data to sign, and the relay request without the signature.",
                TypedDataBody,
                404,
                errors={400: "`invalid_request`, `amount_out_of_bounds`", 409: "`market_closed`", 503: _NOT_DEPLOYED},
            ),
            description="Pass the result to `eth_signTypedData_v4`, add `signature` to `request`, and post that to "
            "/api/relay/enter.",
            query=TypedDataQuery,
        ),
        _get(
            "/api/relay/receipt",
            receipt,
            "The state of a signed bet",
            _answers(
                "The bet's block and position, and whether they are final.",
                ReceiptBody,
                400,
                429,
                errors={503: _NOT_DEPLOYED},
            ),
            description="Found by signer and nonce, no matter who sent it. Poll until `receipt` is `final`. Never "
            "cached. 60 requests a minute per IP.",
            query=ReceiptQuery,
        ),
    )


def _cron_operations(cron: Cron) -> tuple[Operation, ...]:
    return (
        _get(
            "/api/cron/{job}",
            cron.run,
            "Run a keeper job now (scheduler only)",
            _answers(
                "The keeper's report.",
                CronReport,
                errors={
                    401: "`unauthorized`: not the cron secret.",
                    404: "`not_found`: no such job.",
                    503: "`keeper_unavailable`: no keeper took the job, or it is still running.",
                },
            ),
            description="Jobs: `open`, `resolve`, `deliver`. Each is idempotent.",
            path_parameters=CronPath,
            security="cronSecret",
        ),
    )
