"""The body of /api/proof, and the sources of its numbers: sums in the index, and the contracts' own state."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated, Any, Final, Generic, Literal, TypeVar

from msgspec import Meta
from sqlalchemy import BigInteger, func, or_, select
from sqlalchemy.ext.asyncio import AsyncConnection

from api.context import Context
from api.operations import Body
from api.stock.bodies import (
    Answer8,
    HexAddress,
    HexHash,
    Integer,
    OutcomeName,
    ReadAt,
    RoundBody,
    Stale,
    UnixSeconds,
    UsdgUnits,
)
from core.chain import Call, ChainClient, Contract, RpcError, checksum, values
from core.config import ChainName
from core.contracts.abi import abi
from core.contracts.deployments import Deployment, load_deployment
from core.db.schema.index import chain_audit, chain_cursor
from core.db.schema.index_stock import (
    stock_betting,
    stock_bettor,
    stock_fee_sweep,
    stock_market,
    stock_opener,
    stock_position,
    stock_total,
)
from core.hexadecimal import bytes_of, hex_of
from core.log import get_logger
from core.stock.projection import market_of
from core.stock.vested import Moment, as_of


class ContractProof(Body):
    name: str
    role: str
    address: HexAddress
    deploy_tx: HexHash | None
    verified: bool


class FeedProof(Body):
    name: str
    address: HexAddress
    ticker: str
    stock_token: HexAddress
    decimals: int
    heartbeat_seconds: int
    deviation_bps: int
    answer: Answer8 | None
    updated_at: int | None


class SafeProof(Body):
    """The multi-signature wallet, read from its contract."""

    address: HexAddress
    threshold: int
    owners: int


class CounterProof(Body):
    label: str
    value: str
    unit: str
    source: Annotated[str, Meta(description="A link to where the number can be verified.")]
    source_label: Annotated[str, Meta(description="The contract call that verifies the number.")]
    note: str | None


class SettledProof(Body):
    id: str
    question: str
    outcome: OutcomeName
    strike: RoundBody | None
    final: RoundBody | None
    resolve_tx: HexHash
    positions: int
    total_paid: UsdgUnits


class RefundProof(Body):
    position_id: str
    owner: HexAddress
    amount: UsdgUnits
    tx: HexHash | None


class RefundDrillProof(Body):
    id: str
    status: Literal["listed", "refunded"]
    reason: str | None
    void_tx_url: str | None
    refunds: list[RefundProof]


class FeeSweepProof(Body):
    tx: HexHash
    amount: UsdgUnits
    at: UnixSeconds


class BettorsProof(Body):
    """The wallets that bet: `distinct` and `bets` exclude the operator's own wallets, whose bets are `operatorBets`."""

    distinct: int
    excluded: list[HexAddress]
    operator_bets: int
    bets: int


class UsdgProof(Body):
    staked: UsdgUnits
    accepted: UsdgUnits
    seeded: UsdgUnits
    paid_to_bettors: UsdgUnits
    paid_out: UsdgUnits
    fees_taken: UsdgUnits
    fees_accrued: UsdgUnits
    fees_swept: UsdgUnits


class SolvencyProof(Body):
    """A contract's token balance and its liabilities, at one block of its chain."""

    contract: str
    chain: Literal["stock", "base"]
    token: str
    address: HexAddress
    balance: UsdgUnits
    liabilities: UsdgUnits
    block: Integer


class AuditProof(Body):
    """The last comparison of all published numbers with the contracts."""

    at: UnixSeconds
    block: Integer
    compared: int
    mismatches: int


class ProofBody(Body):
    status: Literal["deployed", "not-deployed"]
    contracts: list[ContractProof]
    feeds: list[FeedProof]
    safe: SafeProof | None
    counters: list[CounterProof]
    settled: list[SettledProof]
    refund_drill: RefundDrillProof | None
    fee_sweeps: list[FeeSweepProof]
    bettors: BettorsProof
    usdg: UsdgProof
    solvency: list[SolvencyProof]
    audit: AuditProof | None
    attester: Annotated[
        HexAddress | None,
        Meta(description="The address that signs the agent API's offers, receipts and callbacks; null: unsigned."),
    ]
    newest_only: Annotated[
        list[Literal["settled", "feeSweeps"]],
        Meta(description="Sections that list only their newest 200; every settled market is in /api/markets."),
    ]
    missing: Annotated[list[str], Meta(description="Sections that cannot be updated right now.")]
    read_at: ReadAt
    stale: Stale


@dataclass(frozen=True, slots=True)
class Totals:
    """The sums over all listed markets, and over all bets except seeds. Amounts are in token units.

    `pool`: both books, with finished batches counted as matched. `bets`, `bettors`: without the operator's wallets.
    """

    markets: int = 0
    settled: int = 0
    resolved: int = 0
    seeded: int = 0
    pool: int = 0
    fees: int = 0
    paid: int = 0
    bettors: int = 0
    bets: int = 0
    operator_bets: int = 0
    staked: int = 0
    paid_to_bettors: int = 0


async def has_history(connection: AsyncConnection, chain_id: int) -> bool:
    """Return whether the index has read the chain's history. Until then, the index has no sums."""
    return bool(await connection.scalar(select(chain_cursor.c.summed).where(chain_cursor.c.chain_id == chain_id)))


async def read_openers(connection: AsyncConnection) -> list[str]:
    return [checksum(each) for each in await connection.scalars(select(stock_opener.c.opener))]


async def read_totals(connection: AsyncConnection, operators: Sequence[str], now: Moment) -> Totals:
    columns = stock_total.c
    names = ("markets", "settled", "resolved", "seeded", "principal", "fees", "paid")
    sums = select(*(func.coalesce(func.sum(columns[each]), 0) for each in names))
    markets, settled, resolved, seeded, principal, fees, paid = map(int, (await connection.execute(sums)).one())
    pending = select(stock_market).where(
        stock_market.c.closed_tx.is_(None),
        stock_market.c.pending_vintage.is_not(None),
        stock_market.c.feed.is_not(None),
        stock_market.c.strike_time.is_not(None),
    )
    for row in await connection.execute(pending):
        market = market_of(row)
        principal += as_of(market, now)[0].pool - market.pool
    totals = Totals(markets, settled, resolved, seeded, principal, fees, paid)
    betting = (await connection.execute(select(stock_betting))).one_or_none()
    if betting is None:
        return totals
    owners = [bytes_of(each) for each in operators]
    ours = (await connection.execute(select(stock_bettor).where(stock_bettor.c.entered_by.in_(owners)))).all()
    operator_bets = sum(each.bets for each in ours)
    return replace(
        totals,
        bettors=betting.wallets - len(ours),
        bets=betting.bets - operator_bets,
        operator_bets=operator_bets,
        staked=betting.offered,
        paid_to_bettors=betting.payout - sum(each.payout for each in ours),
    )


async def read_sweeps(connection: AsyncConnection, limit: int) -> list[FeeSweepProof]:
    """Return the transfers of fees to the treasury, newest first."""
    query = (
        select(stock_fee_sweep)
        .order_by(stock_fee_sweep.c.block_number.desc(), stock_fee_sweep.c.log_index.desc())
        .limit(limit)
    )
    return [
        FeeSweepProof(tx=hex_of(row.tx), amount=str(row.amount), at=row.at) for row in await connection.execute(query)
    ]


async def read_refunds(connection: AsyncConnection, market_id: int) -> list[RefundProof]:
    """Return the refunds sent to a void market's positions, in order of entry. A refund may cover the accepted part,
    the refused part or both."""
    sent = or_(stock_position.c.claimed, stock_position.c.refunded)
    query = (
        select(stock_position).where(stock_position.c.market_id == market_id, sent).order_by(stock_position.c.ordinal)
    )
    return [
        RefundProof(
            position_id=str(row.position_id),
            owner=checksum(row.owner),
            amount=str(row.payout + row.refund),
            tx=None if row.payout_tx is None else hex_of(row.payout_tx),
        )
        for row in await connection.execute(query)
    ]


async def read_audit(connection: AsyncConnection, chain_id: int) -> AuditProof | None:
    at = func.extract("epoch", chain_audit.c.at).cast(BigInteger)
    query = (
        select(at, chain_audit.c.block_number, chain_audit.c.compared, chain_audit.c.mismatches)
        .where(chain_audit.c.chain_id == chain_id)
        .order_by(chain_audit.c.id.desc())
        .limit(1)
    )
    row = (await connection.execute(query)).one_or_none()
    if row is None:
        return None
    return AuditProof(at=int(row[0]), block=str(row[1]), compared=row[2], mismatches=row[3])


log = get_logger(__name__)
B = TypeVar("B", bound=Body)

# Each process makes two calls for each contract this often; the page is cached for a minute.
PAUSE_SECONDS = 10.0
CHAIN_TIMEOUT_SECONDS = 3.0
# Chain, the contract that holds money, and its token.
HOLDERS: Final[tuple[tuple[ChainName, str, str], ...]] = (
    ("stock", "VestedMarkets", "USDG"),
    ("base", "SettlementWallet", "USDC"),
)


class ChainWatch(Generic[B]):
    """A contract's state, read again every few seconds. While its chain does not respond, the previous state is kept
    and `missing` is set.

    Each contract has its own watch, so that an unresponsive chain does not delay the numbers from the other chain.
    `what`: the state's name in the log.
    """

    def __init__(self, what: str, read: Callable[[], Awaitable[B]]) -> None:
        self.what = what
        self._read = read
        self.latest: B | None = None
        self.missing = True

    async def run(self) -> None:
        while True:
            await self._refresh()
            await asyncio.sleep(PAUSE_SECONDS)

    async def _refresh(self) -> None:
        try:
            async with asyncio.timeout(2 * CHAIN_TIMEOUT_SECONDS):
                self.latest = await self._read()
            self.missing = False
        except (RpcError, TimeoutError) as error:
            if not self.missing:
                log.warning(
                    "failed to read a contract for the proof", action="proof.no_chain", what=self.what, why=error
                )
            self.missing = True


async def solvency_watches(context: Context) -> list[ChainWatch[SolvencyProof]]:
    """Return a watch for each contract. Chains without contracts or without a node are left out."""
    watches = []
    for chain, name, symbol in HOLDERS:
        deployment = load_deployment(context.settings.chain(chain).deployment_file)
        client = await context.chains.client(chain)
        if client is not None and name in deployment.contracts:
            read = partial(_solvency, client, chain, deployment, name, symbol)
            watches.append(ChainWatch(f"solvency of {name}", read))
    return watches


async def _solvency(
    client: ChainClient, chain: ChainName, deployment: Deployment, name: str, symbol: str
) -> SolvencyProof:
    contract = Contract(deployment.contract(name).address, abi(name))
    token = Contract(deployment.token(symbol).address, abi(f"Local{symbol}"))
    block, (balance, owed) = await _read_newest(
        client, token.call("balanceOf", contract.address), contract.call("liabilities")
    )
    # SettlementWallet returns open stakes, unpaid money and fees separately; VestedMarkets returns the sum.
    liabilities = sum(owed) if isinstance(owed, tuple) else owed
    return SolvencyProof(
        contract=name,
        chain=chain,
        token=symbol,
        address=contract.address,
        balance=str(balance),
        liabilities=str(liabilities),
        block=str(block),
    )


def safe_watch(client: ChainClient | None, deployment: Deployment) -> ChainWatch[SafeProof] | None:
    if client is None or deployment.safe is None:
        return None
    return ChainWatch("the Safe", partial(_safe, client, deployment.safe.address))


async def _safe(client: ChainClient, address: str) -> SafeProof:
    wallet = Contract(address, abi("Safe"))
    _, (threshold, owners) = await _read_newest(client, wallet.call("getThreshold"), wallet.call("getOwners"))
    return SafeProof(address=address, threshold=threshold, owners=len(owners))


async def _read_newest(client: ChainClient, *calls: Call) -> tuple[int, list[Any]]:
    """Return the number of the newest block, and the results of the calls at this block."""
    block = (await client.head(timeout_seconds=CHAIN_TIMEOUT_SECONDS)).number
    return block, values(await client.read_many(calls, block, timeout_seconds=CHAIN_TIMEOUT_SECONDS))
