"""The body of /api/proof."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from api.operations import Body
from api.stock.bodies.parts import (
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
    """The last comparison of everything shown with the contracts."""

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
        Meta(description="Sections that list only their newest 500; every settled market is in /api/markets."),
    ]
    missing: Annotated[list[str], Meta(description="Sections that cannot be updated right now.")]
    read_at: ReadAt
    stale: Stale
