"""`agent-credit`: books payments that were sent directly to the token.

Anyone may submit a payer's authorization directly to the token. The settlement wallet then has the money but no stake,
and the relayer's transaction for that payment fails. The bet that the payer signed is on record. `credit` books the
payment as a stake if that is still possible, otherwise as a refund. The payer may also have signed a second
authorization with another amount under the same nonce. In that case, the second authorization is read from the
transaction that moved the money, and the amount is refunded.

The token keeps only one bit for each nonce, so the settlement wallet must trust its creditor about an authorization's
amount. This module trusts nothing. It requires a pair of logs in a final block as the payment, and the bet on record
for exactly that payer and nonce, decoded by the ABI. It compares the two amounts.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from eth_abi.exceptions import DecodingError
from sqlalchemy import text

from core.agent.bet import NONCE_MARK
from core.agent.book import MIN_STAKE
from core.chain import Call, checksum
from core.chain.contract import Function
from core.chain.wire import data_bytes
from core.contracts.abi import abi
from core.contracts.statuses import Form
from core.hexadecimal import bytes_of, hex_of
from core.log import get_logger
from core.outbox import CREDIT, Intent
from keeper import metrics
from keeper.attempts import RetryWaits, TransactionRequest
from keeper.run import JobRun

log = get_logger(__name__)

LOOK_BACK_SECONDS = 7 * 86_400
"""In chain time. Younger payments are checked in every run, older ones only while they are due."""
WHOLE_EVERY_SECONDS = 3600.0

PERMANENT_REFUSALS = ("NotSignedBy", "UnknownMarket", "AmountOutOfBounds")
"""Contract errors for payments that can never be booked: the payer's contract rejects the signature, a reorganization
removed the market's listing, or the amount is under the minimum stake. Strangers can make such payments."""

WITH_BYTES = "transferWithAuthorization(address,address,uint256,uint256,uint256,bytes32,bytes)"
WITH_PARTS = "transferWithAuthorization(address,address,uint256,uint256,uint256,bytes32,uint8,bytes32,bytes32)"
_FROM, _TO, _VALUE, _AFTER, _BEFORE, _NONCE = range(6)


@dataclass(frozen=True, slots=True)
class ArrivedPayment:
    """A payment that reached the settlement wallet by authorization: the AuthorizationUsed log and the Transfer log
    that follows it, both in a final block. `value` is in token units, `at` in Unix seconds."""

    wallet: bytes
    nonce: bytes
    value: int
    at: int
    tx: bytes


@dataclass(frozen=True, slots=True)
class SignedBet:
    """A bet and its payer's authorization, each with its values by ABI component name."""

    bet: Mapping[str, Any]
    authorization: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class TokenCall:
    to: bytes | None
    data: bytes


@dataclass(frozen=True, slots=True)
class Credit:
    """The call data that books a payment. `is_refund` says whether the contract refunds the payment, because the
    payment's amount differs from the bet's."""

    data: bytes
    is_refund: bool


@dataclass
class Backlog:
    """The payments that were still due after the previous run. Most runs check only these payments and those of the
    last days. An hourly full scan checks all payments."""

    due: set[tuple[bytes, bytes]] = field(default_factory=set)  # payer and nonce
    refused: set[tuple[bytes, bytes]] = field(default_factory=set)
    _whole_at: float | None = None  # by the monotonic clock

    def needs_full_scan(self, now: float) -> bool:
        return self._whole_at is None or now - self._whole_at >= WHOLE_EVERY_SECONDS

    def is_refused(self, key: tuple[bytes, bytes], latest: Intent | None) -> bool:
        """Return whether the latest finished attempt to credit a payment was permanently refused."""
        if latest is not None and (latest.state.ended or latest.outcome is not None):
            (self.refused.add if latest.reason_code in PERMANENT_REFUSALS else self.refused.discard)(key)
        return key in self.refused

    def record_run(self, due: Iterable[tuple[bytes, bytes]], whole_at: float | None) -> None:
        """Record the payments that are still due after a run. For a full scan, `whole_at` is when the run began."""
        self.due = set(due)
        self._whole_at = self._whole_at if whole_at is None else whole_at


def decode_signed_bet(arguments: bytes) -> SignedBet | None:
    """Decode the arguments of `credit`. Return None if they are invalid."""
    try:
        decoded = credit_function().decode_inputs(bytes(4) + arguments)
    except (DecodingError, OverflowError, ValueError):
        return None
    return SignedBet(decoded["b"], decoded["a"])


def _is_bet_for(brought: SignedBet, payment: ArrivedPayment) -> bool:
    """Return whether the bet is for this payment, and anyone may submit the bet's authorization. A bet is for a payment
    if both have the same payer and nonce."""
    return (
        brought.authorization["form"] == Form.TRANSFER
        and _address(brought.bet["wallet"]) == payment.wallet
        and brought.authorization["nonce"] == payment.nonce
    )


def credit_call(
    payment: ArrivedPayment, brought: SignedBet, settlement: bytes, token: bytes, used: TokenCall | None
) -> Credit | str:
    """Return the call that books a payment, or the reason why the payment cannot be booked.

    `used` is the transaction that moved the money. It is needed only if the payment's amount differs from the bet's.
    The call then contains the authorization from `used`, and the contract refunds the payment.
    """
    if not _is_bet_for(brought, payment):
        return "the bet on record is for another payer or another payment"
    amounts = (brought.bet["amount"], brought.authorization["value"])
    if amounts == (payment.value, payment.value):
        return Credit(credit_function().encode(brought.bet, brought.authorization), is_refund=False)
    if used is None:
        return f"it brought {payment.value} units instead of {amounts[0]}, and its transaction is unknown"
    actual = used_authorization(used, payment, settlement, token)
    if actual is None:
        return (
            f"it brought {payment.value} units instead of {amounts[0]}, and its transaction does not call the token "
            "directly, so the signed authorization is unknown"
        )
    return Credit(credit_function().encode(brought.bet, actual), is_refund=True)


def used_authorization(
    used: TokenCall, payment: ArrivedPayment, settlement: bytes, token: bytes
) -> dict[str, Any] | None:
    """Return the authorization that a direct call of the token contains. Return None if `used` is not such a call, or
    if the authorization's payer, recipient, amount or nonce differs from the payment's."""
    if used.to != token:
        return None
    for signature in (WITH_BYTES, WITH_PARTS):
        function = abi("IERC3009").function(signature)
        if used.data[:4] == function.selector:
            break
    else:
        return None
    try:
        # The token ignores any bytes after its arguments.
        values = list(function.decode_inputs(used.data + bytes(-len(used.data[4:]) % 32)).values())
    except (DecodingError, OverflowError, ValueError):
        return None
    pair = (payment.wallet, settlement, payment.value, payment.nonce)
    if (_address(values[_FROM]), _address(values[_TO]), values[_VALUE], values[_NONCE]) != pair:
        return None
    if signature == WITH_BYTES:
        signed = values[6]
    else:
        v, r, s = values[6:]
        signed = r + s + bytes([v])
    return {
        "form": int(Form.TRANSFER),
        "value": payment.value,
        "validAfter": values[_AFTER],
        "validBefore": values[_BEFORE],
        "nonce": payment.nonce,
        "signature": signed,
    }


def credit_function() -> Function:
    return abi("SettlementWallet").function("credit")


def _address(written: str) -> bytes:
    return bytes_of(checksum(written))


# ---------------------------------------------------------------- the job


RETRY = RetryWaits(after_success_seconds=600.0, after_failure_seconds=60.0, longest_seconds=6 * 3600.0)
MAX_ROWS = 1_000
"""Payments read in one run, those with a bet on record first: anyone may send money without one."""

# In a query of its own: with a known number PostgreSQL uses the block index and need not scan the whole history.
_BLOCK_BEFORE = text("""
SELECT block_number FROM token_authorization WHERE chain_id = :chain AND at <= :since ORDER BY block_number DESC LIMIT 1
""")
# Marked nonces have the receive form: only the contract can use them, and it books the payment in the same call.
# The contract refuses payments under the minimum stake, and booking one would cost more than it is worth.
_DIRECT_PAYMENTS = text("""
WITH looked_at AS (
    SELECT authorizer, nonce FROM token_authorization WHERE chain_id = :chain AND block_number > :after
    UNION SELECT * FROM unnest(CAST(:payers AS bytea[]), CAST(:nonces AS bytea[]))
)
SELECT a.authorizer, a.nonce, a.value, a.at, a.tx, b.arguments FROM looked_at
JOIN token_authorization a USING (authorizer, nonce)
LEFT JOIN agent_authorization b ON b.wallet = a.authorizer AND b.nonce = a.nonce
WHERE a.chain_id = :chain AND a.state = 'paid' AND a.token = :token AND a.recipient = :wallet
AND a.value >= :least AND a.block_number <= :final AND (a.at > :recent OR a.value = b.amount)
AND substring(a.nonce FROM 1 FOR :marked) <> :mark
AND NOT EXISTS (SELECT FROM agent_stake s WHERE s.wallet = a.authorizer AND s.nonce = a.nonce)
ORDER BY b.amount IS NULL, b.amount <> a.value, a.block_number DESC, a.log_index DESC LIMIT :limit
""")
# A stake without a matching payment means that the token's behaviour has changed.
_MISMATCHED_STAKES = text("""
SELECT s.stake_id, a.state, a.value, s.amount FROM agent_stake s JOIN token_authorization a
ON a.chain_id = :chain AND a.authorizer = s.wallet AND a.nonce = s.nonce
WHERE s.staked_at > :since AND a.value IS DISTINCT FROM s.amount ORDER BY s.stake_id LIMIT 20
""")


async def credit(run: JobRun) -> None:
    await _check_stakes_paid(run)
    wallet = run.chain.contract("SettlementWallet")
    token = bytes_of(run.chain.deployment.token("USDC").address)
    settlement = bytes_of(wallet.address)
    backlog, began = run.keeper.memory.setdefault("payments", Backlog()), time.monotonic()
    whole = backlog.needs_full_scan(began)
    payments = await _direct_payments(run, settlement, token, backlog, whole=whole)
    booked = await run.read_all([wallet.call("booked", checksum(each.wallet), each.nonce) for each, _ in payments])
    open_ = [each for each, is_booked in zip(payments, booked, strict=True) if is_booked is not True]
    explained = [(payment, brought) for payment, brought in open_ if brought is not None]
    for payment, brought in open_:
        if brought is None:
            run.report.skip(_target(payment), "no bet is on record for it")
    problem = await run.lanes_problem(CREDIT) if explained else None
    await run.wait_reasons([_subject(payment) for payment, _ in explained], RETRY)
    due = []
    for payment, brought in explained:
        if problem is not None:
            run.report.skip(_target(payment), problem)
        key, attempt = (payment.wallet, payment.nonce), run.known_attempts.get(_subject(payment))
        is_refused = backlog.is_refused(key, None if attempt is None else attempt.intent)
        if (problem is not None or await _credit(run, payment, brought, settlement, token)) and not is_refused:
            due.append(payment)
    backlog.record_run(((each.wallet, each.nonce) for each in due), began if whole else None)
    lag = await _finality_lag(run) if due else 0
    run.measure_due("payments", (each.at + lag for each in due))
    # The keeper can do nothing about these, and strangers control their number: they must not page anyone.
    metrics.DUE.labels(run.report.job, "unproven payments").set(len(explained) - len(due))
    metrics.DUE.labels(run.report.job, "unexplained payments").set(len(open_) - len(explained))


async def _finality_lag(run: JobRun) -> int:
    """Return how many seconds blocks currently take to become final. Until its block is final, a payment is
    neither booked nor counted as late."""
    final = await run.chain.client.block(run.final_block)
    return 0 if final is None else run.now - final.timestamp


async def _credit(run: JobRun, payment: ArrivedPayment, brought: SignedBet, settlement: bytes, token: bytes) -> bool:
    """Submit a payment's credit, or report why the credit must wait. Return False if the payment cannot be proven."""
    target = _target(payment)
    used = await _transaction(run, payment) if brought.bet["amount"] != payment.value else None
    made = credit_call(payment, brought, settlement, token, used)
    if isinstance(made, str):
        run.report.skip(target, made)
        payer, tx = hex_of(payment.wallet), hex_of(payment.tx)
        log.warning(f"cannot credit a payment: {made}", action="keeper.cannot_credit", payer=payer, tx=tx)
        return False
    verb = "refund" if made.is_refund else "book"
    request = TransactionRequest(
        kind="credit",
        subjects=(_subject(payment),),
        target=target,
        detail=f"{verb} a {target}, sent directly to the token",
        call=Call(checksum(settlement), made.data, credit_function()),
        group=CREDIT,
        priority=2,
        payer=checksum(payment.wallet),
    )
    await run.submit(request, RETRY)
    return True


def _subject(payment: ArrivedPayment) -> str:
    return f"agent:credit:{hex_of(payment.wallet)}:{hex_of(payment.nonce)}"


def _target(payment: ArrivedPayment) -> str:
    return f"payment of {payment.value} units by {hex_of(payment.wallet)}"


async def _direct_payments(
    run: JobRun, settlement: bytes, token: bytes, backlog: Backlog, *, whole: bool
) -> list[tuple[ArrivedPayment, SignedBet | None]]:
    """Return the payments in final blocks that have no stake, each with its bet on record. Old payments count only if
    their amount is the bet's. Otherwise strangers could make any number of payments with other amounts, and every run
    would check all of them forever."""
    final = run.final_block
    if final < 0:
        return []
    recent = run.now - LOOK_BACK_SECONDS
    before = [] if whole else await run.rows(_BLOCK_BEFORE, {"chain": run.chain.chain_id, "since": recent})
    values = {
        "chain": run.chain.chain_id,
        "token": token,
        "wallet": settlement,
        "final": final,
        "after": before[0].block_number if before else -1,
        "recent": recent,
        "payers": [payer for payer, _ in backlog.due],
        "nonces": [nonce for _, nonce in backlog.due],
        "least": MIN_STAKE,
        "mark": NONCE_MARK,
        "marked": len(NONCE_MARK),
        "limit": MAX_ROWS,
    }
    return [
        (
            ArrivedPayment(bytes(authorizer), bytes(nonce), int(value), at, bytes(tx)),
            None if arguments is None else decode_signed_bet(bytes(arguments)),
        )
        for authorizer, nonce, value, at, tx, arguments in await run.rows(_DIRECT_PAYMENTS, values)
    ]


async def _transaction(run: JobRun, payment: ArrivedPayment) -> TokenCall | None:
    sent = await run.chain.client.transaction(hex_of(payment.tx))
    if sent is None:
        return None
    return TokenCall(None if sent.to is None else bytes_of(sent.to), data_bytes(sent.input))


async def _check_stakes_paid(run: JobRun) -> None:
    """Report an error for each stake whose amount differs from its payment's."""
    values: dict[str, Any] = {"chain": run.chain.chain_id, "since": run.now - LOOK_BACK_SECONDS}
    for stake_id, state, value, amount in await run.rows(_MISMATCHED_STAKES, values):
        arrival = f"{state}, {value} units" if value is not None else state
        run.report.errors.append(
            f"Stake {stake_id} is {amount} units, but the token's logs show its payment as: {arrival}. Pause stakes, "
            "and check whether the token was upgraded."
        )
