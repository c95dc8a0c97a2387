"""GET /api/proof: an account of all money, each number with the contract call that verifies it.

The proof is gathered in the background whenever the index changes. If the source of a section is unavailable, the
section keeps its last content and is named in `missing`.
"""

from __future__ import annotations

import asyncio
import heapq
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from aiohttp import web

from api.caching import RenderedBody, VersionedCache, public
from api.context import Context
from api.database import DATABASE_ERRORS
from api.operations import body_from
from api.problems import unavailable
from api.stock import words
from api.stock.facts import ListedMarket, MarketsSnapshot
from api.stock.index import MAX_SETTLED, read_drill, read_undelivered
from api.stock.market_view import outcome_name, round_body, void_reason
from api.stock.proof_facts import (
    AuditProof,
    BettorsProof,
    ChainWatch,
    ContractProof,
    CounterProof,
    FeedProof,
    FeeSweepProof,
    ProofBody,
    RefundDrillProof,
    RefundProof,
    SafeProof,
    SettledProof,
    SolvencyProof,
    Totals,
    UsdgProof,
    has_history,
    read_audit,
    read_openers,
    read_refunds,
    read_sweeps,
    read_totals,
)
from api.stock.sources import STOCK_TOKEN_SYMBOL, StockSources
from core.db.engine import consistent_read
from core.log import get_logger

log = get_logger(__name__)
PROOF_CACHE = public(60)
PAUSE_SECONDS = 2.0
# Until the index is read there is nothing to show.
FIRST_PAUSE_SECONDS = 0.1
# The audit changes without the index.
OLDEST_SECONDS = 10.0
# A gathering takes longer the longer the history; it may take at most a fifth of the time.
PAUSE_PER_GATHERING = 4
# The newest; `newestOnly` says when there are more. As many settled markets are in memory.
SHOWN = MAX_SETTLED
LOG_SECTIONS = ("settled", "refundDrill", "feeSweeps", "bettors", "usdg", "counters", "audit")


@dataclass(frozen=True, slots=True)
class Gathered:
    """The facts of the proof page. Each is None or empty until it is first read. `drill_undelivered`: whether the drill
    market still has unsent stakes or refunds."""

    totals: Totals | None = None
    drill: ListedMarket | None = None
    openers: tuple[str, ...] = ()
    sweeps: tuple[FeeSweepProof, ...] = ()
    refunds: tuple[RefundProof, ...] = ()
    drill_undelivered: bool = True
    audit: AuditProof | None = None
    logs_missing: bool = True
    snapshot: MarketsSnapshot | None = field(default=None, compare=False)


class Proof:
    """The proof of the stock markets. `solvency`: the watches of the contracts that hold money, on both chains. `safe`:
    the watch of the operator's Safe; None without a node or a Safe."""

    def __init__(
        self,
        context: Context,
        sources: StockSources,
        solvency: Sequence[ChainWatch[SolvencyProof]],
        safe: ChainWatch[SafeProof] | None,
    ) -> None:
        self._solvency = solvency
        self._safe = safe
        self._attester = context.attester
        self._settings = context.settings
        self._deployment = sources.deployment
        self._contracts = sources.contracts
        self._index = sources.index
        self._oracle = sources.oracle
        self._engine = context.engine
        self._gathered = Gathered()
        self._version = 0
        self._shown: VersionedCache[None, RenderedBody[ProofBody]] = VersionedCache(1)

    async def get(self, request: web.Request) -> web.StreamResponse:
        return (await self._current()).rendered.answer(request)

    async def _current(self) -> RenderedBody[ProofBody]:
        async def make() -> RenderedBody[ProofBody]:
            return await RenderedBody.make(await self._body(), PROOF_CACHE)

        return await self._shown.get(None, self._stamp, make)

    async def shown(self) -> tuple[ProofBody, str]:
        shown = await self._current()
        return shown.body, shown.rendered.tag

    async def run(self) -> None:
        """Gather the proof whenever the index changes, and at the latest after `OLDEST_SECONDS`."""
        while True:
            started, tick = time.monotonic(), self._index.tick
            await self.refresh()
            least = FIRST_PAUSE_SECONDS if self._index.snapshot is None else PAUSE_SECONDS
            await asyncio.sleep(max(least, PAUSE_PER_GATHERING * (time.monotonic() - started)))
            await self._index.changed(tick, OLDEST_SECONDS)

    async def refresh(self) -> None:
        gathered = await self._read_logs(self._gathered)
        if gathered != self._gathered or gathered.snapshot is not self._gathered.snapshot:
            self._version += 1
        self._gathered = gathered

    async def _read_logs(self, gathered: Gathered) -> Gathered:
        if self._contracts is None:
            return replace(gathered, logs_missing=False)
        snapshot = self._index.snapshot
        if snapshot is None:
            return replace(gathered, logs_missing=True)
        try:
            async with asyncio.timeout(15), consistent_read(self._engine) as connection:
                if not await has_history(connection, self._deployment.chain_id):
                    return replace(gathered, logs_missing=True)
                openers = await read_openers(connection)
                drill = await read_drill(connection)
                return replace(
                    gathered,
                    snapshot=snapshot,
                    openers=tuple(openers),
                    totals=await read_totals(connection, self._operators(openers), snapshot.head.moment),
                    drill=drill,
                    sweeps=tuple(await read_sweeps(connection, SHOWN + 1)),
                    refunds=() if drill is None else tuple(await read_refunds(connection, drill.id)),
                    drill_undelivered=drill is None
                    or bool(
                        await read_undelivered(
                            connection, [drill], snapshot.head.moment, at_most=500, include_refused=True
                        )
                    ),
                    audit=await read_audit(connection, self._deployment.chain_id),
                    logs_missing=False,
                )
        except DATABASE_ERRORS as error:
            if not gathered.logs_missing:
                log.warning("failed to read the proof's numbers", action="proof.index_unreadable", why=error)
            return replace(gathered, logs_missing=True)

    def _operators(self, openers: Sequence[str]) -> list[str]:
        """Return the operator's wallets: those that the deployment names, its Safe, and every opener ever allowed."""
        named = [*self._deployment.operator_wallets.values(), *openers]
        if self._deployment.safe is not None:
            named.append(self._deployment.safe.address)
        return sorted(set(named))

    def _stamp(self) -> object:
        return (
            self._version,
            self._index.stale,
            self._oracle.oracle.version,
            None if self._safe is None else (self._safe.latest, self._safe.missing),
            [(each.latest, each.missing) for each in self._solvency],
        )

    async def _body(self) -> ProofBody:
        gathered = self._gathered
        deployed = self._contracts is not None
        snapshot = gathered.snapshot
        if deployed and snapshot is None:
            raise unavailable("The service has not read the chain yet; try again shortly.")
        missing = [*LOG_SECTIONS] if gathered.logs_missing else []
        has_safe = self._contracts is not None and self._deployment.safe is not None
        if has_safe and (self._safe is None or self._safe.missing):
            missing.append("safe")
        if deployed and (not self._solvency or any(each.missing for each in self._solvency)):
            missing.append("solvency")
        drill, totals = gathered.drill, gathered.totals or Totals()
        return ProofBody(
            status="deployed" if deployed else "not-deployed",
            contracts=[
                body_from(ContractProof, contract, name=name) for name, contract in self._deployment.contracts.items()
            ],
            feeds=self._feeds(),
            safe=None if self._safe is None else self._safe.latest,
            counters=self._counters(gathered),
            settled=[] if snapshot is None else _settled(snapshot),
            refund_drill=None if drill is None else self._refund_drill(drill, gathered),
            fee_sweeps=list(gathered.sweeps[:SHOWN]),
            bettors=body_from(
                BettorsProof, totals, distinct=totals.bettors, excluded=self._operators(gathered.openers)
            ),
            usdg=_usdg(gathered),
            solvency=[each.latest for each in self._solvency if each.latest is not None],
            audit=gathered.audit,
            attester=self._attester,
            newest_only=_newest_only(gathered),
            missing=missing,
            read_at=self._index.read_at,
            stale=deployed and (self._index.stale or bool(missing)),
        )

    def _feeds(self) -> list[FeedProof]:
        latest = self._oracle.oracle.latest
        return [
            body_from(
                FeedProof,
                feed,
                name=f"{feed.name} ({feed.ticker} / USD)",
                address=feed.proxy,
                answer=None if feed.proxy not in latest else str(latest[feed.proxy].answer),
                updated_at=None if feed.proxy not in latest else latest[feed.proxy].updated_at,
            )
            for feed in self._deployment.price_feeds
        ]

    def _counters(self, gathered: Gathered) -> list[CounterProof]:
        totals = gathered.totals
        if totals is None or self._contracts is None:
            return []
        settler = self._link(self._contracts.settler.address)
        usdg = _usdg(gathered)

        entered, delivered = "VestedMarkets Entered events", "VestedMarkets Delivered events"
        results = f"{totals.resolved} with a winner, {totals.settled - totals.resolved} void"
        payouts = "after fees; includes payouts to seeds, excludes refunds of stakes that were not accepted"
        usd = STOCK_TOKEN_SYMBOL
        rows: tuple[tuple[str, int | str, str, str, str | None], ...] = (
            ("Markets listed", totals.markets, "markets", "VestedMarkets.marketCount()", None),
            ("Markets settled", totals.settled, "markets", "VestedMarkets.market(id).status", results),
            ("Bets", totals.bets, "bets", entered, "without seeds and the operator's own bets"),
            ("Distinct bettors", totals.bettors, "wallets", entered, "without the operator's own wallets"),
            ("Staked", usdg.staked, usd, "VestedMarkets.position(id).offered", "without seeds"),
            ("Accepted", usdg.accepted, usd, "VestedMarkets.market(id).pool", "without seeds"),
            ("Paid out", usdg.paid_out, usd, delivered, payouts),
            ("Fees taken", usdg.fees_taken, usd, delivered, None),
        )
        return [
            CounterProof(label=label, value=str(value), unit=unit, source=settler, source_label=call, note=note)
            for label, value, unit, call, note in rows
        ]

    def _refund_drill(self, market: ListedMarket, gathered: Gathered) -> RefundDrillProof:
        done = market.market.voided and not gathered.drill_undelivered
        voided = market.result if market.market.voided else None
        return RefundDrillProof(
            id=str(market.id),
            status="refunded" if done else "listed",
            reason=None if voided is None else void_reason(voided),
            void_tx_url=None if voided is None else self._tx_link(voided.tx),
            refunds=list(gathered.refunds) if market.market.voided else [],
        )

    def _link(self, address: str) -> str:
        explorer = self._deployment.explorer_url
        return f"{explorer}/address/{address}" if explorer else f"{self._settings.public_url}/api/markets"

    def _tx_link(self, tx: str) -> str:
        explorer = self._deployment.explorer_url
        return f"{explorer}/tx/{tx}" if explorer else f"{self._settings.public_url}/proof#{tx}"


def _newest_only(gathered: Gathered) -> list[Literal["settled", "feeSweeps"]]:
    names: list[Literal["settled", "feeSweeps"]] = []
    if gathered.totals is not None and gathered.totals.settled > SHOWN:
        names.append("settled")
    if len(gathered.sweeps) > SHOWN:
        names.append("feeSweeps")
    return names


def _settled(snapshot: MarketsSnapshot) -> list[SettledProof]:
    settled = [(each.result.at, each.id, each) for each in snapshot.markets.values() if each.result is not None]
    return [
        SettledProof(
            id=str(market.id),
            question=words.question(market),
            outcome=outcome_name(market, market.result),
            strike=round_body(market.result.strike),
            final=round_body(market.result.final),
            resolve_tx=market.result.tx,
            positions=market.positions,
            total_paid=str(market.market.paid),
        )
        for _, _, market in heapq.nlargest(SHOWN, settled)
        if market.result is not None
    ]


def _usdg(gathered: Gathered) -> UsdgProof:
    """Sum up the USDG in token units. `accepted` counts a finished batch as matched and excludes the seed."""
    totals = gathered.totals or Totals()
    swept = 0 if gathered.snapshot is None else gathered.snapshot.fees_swept
    return UsdgProof(
        staked=str(totals.staked),
        accepted=str(totals.pool - totals.seeded),
        seeded=str(totals.seeded),
        paid_to_bettors=str(totals.paid_to_bettors),
        paid_out=str(totals.paid),
        fees_taken=str(totals.fees),
        fees_accrued=str(totals.fees - swept),
        fees_swept=str(swept),
    )
