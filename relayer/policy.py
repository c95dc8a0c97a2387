"""A lane's limits: whether it may sign anything new, what it offers for gas, and whether a payer's transaction may be
sent at our expense. Amounts are in wei."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal
from enum import Enum, StrEnum

from core.chain.contract import CustomError
from core.config import ChainName, RelayerSettings
from core.outbox import CODE_REVERTS, CONTRACTS_SPENT, RELAY, WALLET_REVERTS, LaneStatus
from relayer.signing import Fees


@dataclass(frozen=True, slots=True)
class FeePolicy:
    """The bounds of the fees that we offer per unit of gas. `cap_wei` limits the maximum fee. The priority fee follows
    the market between its own bounds."""

    cap_wei: int
    min_priority_wei: int = 1_000_000
    max_priority_wei: int = 5_000_000_000


@dataclass(frozen=True, slots=True)
class FeeMarket:
    """The next block's base fee, and the median priority fee of recent blocks."""

    base_fee_wei: int
    priority_wei: int


def quote(policy: FeePolicy, market: FeeMarket) -> Fees | None:
    """Return fees that suffice until the base fee has doubled, or None if even the next block would cost more than the
    cap."""
    priority = min(max(market.priority_wei, policy.min_priority_wei), policy.max_priority_wei)
    if market.base_fee_wei + policy.min_priority_wei > policy.cap_wei:
        return None
    max_fee = min(2 * market.base_fee_wei + priority, policy.cap_wei)
    return Fees(max_fee, min(priority, max_fee))


def bump(policy: FeePolicy, market: FeeMarket, old: Fees) -> Fees | None:
    """Return fees that replace `old`. Both are at least an eighth higher, as nodes demand, and enough for the market.
    Return None if they exceed the cap; the transaction then waits for the base fee to fall."""
    least = Fees(_eighth_more(old.max_fee_wei), _eighth_more(old.max_priority_fee_wei))
    if least.max_fee_wei > policy.cap_wei:
        return None
    quoted = quote(policy, market)
    if quoted is None:
        return None
    max_fee = max(least.max_fee_wei, quoted.max_fee_wei)
    # The priority fee may never exceed the maximum fee; `least` does not, because `old` did not.
    priority = max(least.max_priority_fee_wei, quoted.max_priority_fee_wei)
    return Fees(max_fee, min(priority, max_fee))


def highest_fees(policy: FeePolicy, old: Fees) -> Fees:
    """Return the highest fees we may offer in place of `old`. They may still be too low for a node that already has the
    transaction with the old fees."""
    return Fees(policy.cap_wei, min(_eighth_more(old.max_priority_fee_wei), policy.cap_wei))


def expected_price(fees: Fees, market: FeeMarket) -> int:
    """Return the probable price of a unit of gas, which is never more than we offer."""
    return min(fees.max_fee_wei, market.base_fee_wei + fees.max_priority_fee_wei)


def _eighth_more(value: int) -> int:
    """Return at least 12.5% more than `value`, rounded up; 0 becomes 1."""
    return value + -(-value // 8) + (1 if value == 0 else 0)


# A contract wallet decides for itself when its signature is valid: it may accept one in a simulation, and burn all the
# gas once the transaction is mined. So we count an hour's reverts by wallet and by code, and contract wallets together
# have a separate gas limit, so that plain wallets are served when it is used up.
WINDOW_SECONDS = 3600
# How many more of a wallet's transactions may have reverted than succeeded, including those in flight if it is in
# doubt. One that succeeded has paid a fee, so this does not stop a busy bettor in a moving book.
WALLET_REVERTS_ALLOWED = 4
# The same for all wallets with the same code. Others can make a common wallet's code look bad, so wallets that have
# settled before and made nothing revert are exempt.
CODE_REVERTS_ALLOWED = 16
# Reverts of wallets with code may use at most 1/CONTRACTS_SHARE of a lane's hourly gas limit.
CONTRACTS_SHARE = 10
# New wallets of a code above its bound may use 1/NEWCOMERS_SHARE of that, one transaction each: an attacker who deploys
# ever more wallets leaves the rest to wallets of other codes and to those that settled before.
NEWCOMERS_SHARE = 2

_LATER = "It can be sent again within the hour."


class PayerKind(StrEnum):
    """The kind of wallet whose signature a transaction carries."""

    NONE = "none"  # our own transaction
    WALLET = "wallet"
    CONTRACT = "contract"

    @classmethod
    def of(cls, *, is_signed: bool, has_code: bool) -> PayerKind:
        if not is_signed:
            return cls.NONE
        return cls.CONTRACT if has_code else cls.WALLET


@dataclass(slots=True)
class PayerRecord:
    """The last hour's transactions of one wallet, or of all wallets with the same code. `has_settled` says whether a
    transaction ever succeeded."""

    reverted: int = 0
    succeeded: int = 0
    in_flight: int = 0
    has_settled: bool = False

    @property
    def excess(self) -> int:
        return self.reverted - self.succeeded


@dataclass(frozen=True, slots=True)
class PayerRefusal:
    code: str
    reason: str


class Admission(Enum):
    SEND = "send"
    WAIT = "wait"  # for the outcome of those in flight


@dataclass(slots=True)
class PayerBook:
    """The records by which the payers of one batch are judged. `burnt_wei` is what contract wallets' reverts have cost
    this lane in the past hour, and `allowance_wei` is the limit for that cost. `unmined_wei` is what contract wallets'
    transactions in flight may cost."""

    wallets: dict[bytes, PayerRecord]
    codes: dict[bytes, PayerRecord]
    burnt_wei: int
    unmined_wei: int
    allowance_wei: int

    @property
    def newcomers_wei(self) -> int:
        """Return the allowance, rounded down, for new wallets whose code has too many reverts."""
        return self.allowance_wei // NEWCOMERS_SHARE

    def judge(self, payer: bytes, code: bytes | None, worst_wei: int) -> Admission | PayerRefusal:
        """Judge this payer's transaction, which costs at most `worst_wei`; if it may be sent, count it as in flight."""
        wallet = self.wallets.setdefault(payer, PayerRecord())
        alike = None if code is None else self.codes.setdefault(code, PayerRecord())
        refusal = self._refusal(wallet, alike, worst_wei)
        if refusal is not None:
            return refusal
        doubtful = code is not None or wallet.reverted > 0 or not wallet.has_settled
        if doubtful and wallet.excess + wallet.in_flight >= WALLET_REVERTS_ALLOWED:
            return Admission.WAIT
        if alike is not None:
            is_held = self._is_held_to_its_code(wallet, alike.excess + alike.in_flight)
            if is_held and wallet.in_flight:
                return Admission.WAIT
            allowed_wei = self.newcomers_wei if is_held else self.allowance_wei
            if self.burnt_wei + self.unmined_wei + worst_wei > allowed_wei:
                return Admission.WAIT
            alike.in_flight += 1
            self.unmined_wei += worst_wei
        wallet.in_flight += 1
        return Admission.SEND

    @staticmethod
    def _is_held_to_its_code(wallet: PayerRecord, excess: int) -> bool:
        """Return whether a wallet is judged by its code. `excess` is how many more reverts than successes that code
        has."""
        is_proven = wallet.has_settled and not wallet.reverted
        return not is_proven and excess >= CODE_REVERTS_ALLOWED

    def _refusal(self, wallet: PayerRecord, alike: PayerRecord | None, worst_wei: int) -> PayerRefusal | None:
        """Return the reason to refuse a payer's transaction, or None if there is no reason. Transactions in flight
        never cause a refusal."""
        if wallet.excess >= WALLET_REVERTS_ALLOWED:
            why = f"{wallet.reverted} transactions of this wallet reverted within an hour and burnt the service's gas."
            return PayerRefusal(WALLET_REVERTS, f"{why} {_LATER}")
        if alike is None:
            return None
        is_newcomer = not wallet.reverted and self.burnt_wei + worst_wei <= self.newcomers_wei
        if self._is_held_to_its_code(wallet, alike.excess) and not is_newcomer:
            why = (
                f"{alike.reverted} transactions of wallets with this code reverted within an hour and burnt the "
                "service's gas."
            )
            return PayerRefusal(CODE_REVERTS, f"{why} {_LATER}")
        if self.burnt_wei + worst_wei > self.allowance_wei:
            why = "Transactions of contract wallets have burnt all the gas that the service allows them in an hour."
            return PayerRefusal(CONTRACTS_SPENT, f"{why} {_LATER}")
        return None


_ETHER = 10**18


@dataclass(frozen=True, slots=True)
class Patience:
    """The times to wait before acting on a transaction.

    bump_after_seconds: the time until fees are raised, if `bump_after_blocks` blocks have come and no nonce was mined.
    doubt_after_seconds: how late a receipt may be before we search for a foreign transaction.
    believe_after_seconds: how long nodes must agree on the key's nonces before we give up a nonce or fill one.
    """

    resend_after_seconds: float
    bump_after_seconds: float
    bump_after_blocks: int = 2
    doubt_after_seconds: float = 2.0
    believe_after_seconds: float = 5.0


@dataclass(frozen=True, slots=True)
class LanePolicy:
    """A lane's limits. `bets_cap_wei` is the maximum fee of lanes that send bets, if lower than that of other lanes.
    `gas_per_hour_wei` is the stop-loss. `errors` are custom errors by selector, to explain reverts."""

    fees: FeePolicy
    patience: Patience
    bets_cap_wei: int | None = None
    max_in_flight: int = 1024
    batch_size: int = 200
    rpc_batch_size: int = 100
    max_gas: int = 30_000_000
    gas_per_hour_wei: int = 10**18
    watch_seconds: float = 5.0
    defer_seconds: float = 2.0
    errors: Mapping[bytes, CustomError] = field(default_factory=dict, repr=False)

    def for_groups(self, groups: Collection[str]) -> LanePolicy:
        if self.bets_cap_wei is None or RELAY not in groups:
            return self
        return replace(self, fees=replace(self.fees, cap_wei=min(self.fees.cap_wei, self.bets_cap_wei)))


def policy_from(settings: RelayerSettings, chain: ChainName, errors: Mapping[bytes, CustomError]) -> LanePolicy:
    cap = settings.base_max_fee_gwei if chain == "base" else settings.stock_max_fee_gwei
    return LanePolicy(
        fees=FeePolicy(_gwei(cap), _gwei(settings.min_priority_fee_gwei), _gwei(settings.max_priority_fee_gwei)),
        bets_cap_wei=_gwei(settings.bets_max_fee_gwei),
        patience=Patience(settings.resend_after_seconds, settings.bump_after_seconds),
        max_in_flight=settings.max_in_flight,
        batch_size=settings.batch_size,
        rpc_batch_size=settings.rpc_batch_size,
        max_gas=settings.max_gas_per_transaction,
        gas_per_hour_wei=int(settings.gas_per_hour_ether * 10**18),
        errors=errors,
    )


def _gwei(amount: Decimal) -> int:
    return int(amount * 10**9)


@dataclass(frozen=True, slots=True)
class LaneSnapshot:
    """The facts that decide whether a lane may sign. `worst_cost_wei` is the most that the transactions in flight can
    cost, including their value. `expected_wei` is the probable cost of their gas. `spent_wei` is the cost of gas in the
    past hour."""

    node_problem: str | None
    base_fee_wei: int
    balance_wei: int | None
    worst_cost_wei: int
    spent_wei: int
    expected_wei: int
    in_flight: int
    out_of_funds: str | None = None
    signer_problem: str | None = None


def lane_status(lane: LaneSnapshot, policy: LanePolicy) -> tuple[LaneStatus, str]:
    """Return the lane's most serious status and a sentence that explains it."""
    if lane.node_problem is not None:
        return LaneStatus.NODE_DOWN, lane.node_problem
    if lane.signer_problem is not None:
        return LaneStatus.SIGNER_DOWN, lane.signer_problem
    if lane.out_of_funds is not None:
        return LaneStatus.OUT_OF_GAS, lane.out_of_funds
    if lane.balance_wei is None:
        return LaneStatus.STARTING, "The balance has not been read yet."
    if lane.balance_wei == 0 or lane.balance_wei < lane.worst_cost_wei:
        has, may = lane.balance_wei / _ETHER, lane.worst_cost_wei / _ETHER
        return LaneStatus.OUT_OF_GAS, f"The key holds {has:.6f} ether; transactions in flight may cost {may:.6f}."
    if lane.spent_wei + lane.expected_wei >= policy.gas_per_hour_wei:
        spent, limit = lane.spent_wei / _ETHER, policy.gas_per_hour_wei / _ETHER
        return LaneStatus.STOP_LOSS, f"{spent:.6f} ether went to gas within an hour; the limit is {limit:.6f}."
    if lane.base_fee_wei > policy.fees.cap_wei:
        base, cap = lane.base_fee_wei / 1e9, policy.fees.cap_wei / 1e9
        return LaneStatus.FEES_TOO_HIGH, f"The base fee is {base:.3f} gwei, above the cap of {cap:.3f}."
    if lane.in_flight >= policy.max_in_flight:
        return LaneStatus.FULL, f"{lane.in_flight} transactions are in flight, the maximum."
    return LaneStatus.READY, ""
