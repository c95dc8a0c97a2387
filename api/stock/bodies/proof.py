"""The body of /api/proof."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from api.http.body import Body
from api.stock.bodies.parts import (
    Address,
    Amount,
    Answer8,
    Hash,
    Integer,
    OutcomeName,
    ReadAt,
    RoundBody,
    Seconds,
    Stale,
)


class ContractProof(Body):
    name: str
    role: str
    address: Address
    deploy_tx: Hash | None
    verified: bool


class FeedProof(Body):
    name: str
    address: Address
    ticker: str
    stock_token: Address
    decimals: int
    heartbeat_seconds: int
    deviation_bps: int
    answer: Answer8 | None
    updated_at: int | None


class SafeProof(Body):
    """The multi-signature wallet, as its own contract answers."""

    address: Address
    threshold: int
    owners: int


class CounterProof(Body):
    label: str
    value: str
    unit: str
    source: Annotated[str, Meta(description="A link to where the same can be read.")]
    source_label: Annotated[str, Meta(description="The call that shows the same.")]
    note: str | None


class SettledProof(Body):
    id: str
    question: str
    outcome: OutcomeName
    strike: RoundBody | None
    final: RoundBody | None
    resolve_tx: Hash
    positions: int
    total_paid: Amount


class RefundProof(Body):
    position_id: str
    owner: Address
    amount: Amount
    tx: Hash | None


class RefundDrillProof(Body):
    id: str
    status: Literal["listed", "refunded"]
    reason: str | None
    void_tx_url: str | None
    refunds: list[RefundProof]


class FeeSweepProof(Body):
    tx: Hash
    amount: Amount
    at: Seconds


class BettorsProof(Body):
    """The wallets that bet: `distinct` and `bets` leave the operator's own out; their bets are `operatorBets`."""

    distinct: int
    excluded: list[Address]
    operator_bets: int
    bets: int


class UsdgProof(Body):
    staked: Amount
    accepted: Amount
    seeded: Amount
    paid_to_bettors: Amount
    paid_out: Amount
    fees_taken: Amount
    fees_accrued: Amount
    fees_swept: Amount


class SolvencyProof(Body):
    """The contract's token balance beside all it owes, at one block of its chain."""

    contract: str
    chain: Literal["stock", "base"]
    token: str
    address: Address
    balance: Amount
    liabilities: Amount
    block: Integer


class AuditProof(Body):
    """The last comparison of everything shown with the contracts' own views."""

    at: Seconds
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
        Address | None, Meta(description="Whose key signs offers and receipts of the agent API; null without one.")
    ]
    newest_only: Annotated[
        list[Literal["settled", "feeSweeps"]],
        Meta(description="Sections that list the newest 500 of more; every settled market is in /api/markets."),
    ]
    missing: Annotated[list[str], Meta(description="Sections that cannot be read right now.")]
    read_at: ReadAt
    stale: Stale
