"""Checks made before a nonce is spent: whether the call would revert, how much gas it needs, and whether it is too
late."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from eth_utils.crypto import keccak as keccak256

from core.chain import Block, ChainClient, RpcError, RpcErrorKind
from core.chain.contract import explain
from core.hexadecimal import bytes_of, hex_of
from core.outbox import EXPIRED, IntentState, MinedOutcome
from relayer.policy import FeeMarket, LanePolicy, quote
from relayer.transactions import Candidate, IntentRefusal, Prepared

# How much more gas a call may use than estimated, because others were mined first and emptied a slot, say. It is only a
# limit: unused gas is not paid for.
GAS_MARGIN_PERCENT = 25
MIN_GAS_MARGIN = 100_000
PLAIN_TRANSFER_GAS = 21_000
# The token asks a contract wallet whether its signature is valid, and the wallet may burn all the gas of that call: at
# most this much of ours. A stake costs 195,000; the rest is for the signature, and the dearest in use, a passkey's,
# takes 350,000.
GAS_CEILINGS = {"settle": 600_000, "credit": 600_000}


@dataclass(frozen=True, slots=True)
class CheckTerms:
    """The head, fees and limits that all candidates of one check are judged by."""

    head: Block
    market: FeeMarket
    policy: LanePolicy


@dataclass(slots=True)
class Checked:
    """The candidates of one check, sorted by its result.

    ready: candidates that can be signed, in their original order.
    deferred: candidates whose result is not known yet, because a node failed or fees are above the cap.
    doubted: refusals that hold unless a transaction signed earlier for the same intent has landed.
    """

    ready: list[Prepared] = field(default_factory=list)
    refused: list[IntentRefusal] = field(default_factory=list)
    doubted: list[IntentRefusal] = field(default_factory=list)
    deferred: dict[int, str] = field(default_factory=dict)
    out_of_funds: str | None = None

    def refuse(self, refusal: IntentRefusal) -> None:
        """Add a refusal to `refused`, or to `doubted` if the intent once had a nonce. The call of such an intent may
        fail only because it has already landed; the chain must decide that."""
        (self.doubted if refusal.candidate.had_nonce else self.refused).append(refusal)


async def check(client: ChainClient, sender: bytes, candidates: Sequence[Candidate], terms: CheckTerms) -> Checked:
    """Sort candidates with one JSON-RPC batch for all calls, and another for the refused ones. A failure of the node
    defers a candidate; only a revert refuses it."""
    checked = Checked()
    estimated: list[Candidate] = []
    for each in candidates:
        refusal = refuse_without_node(each, terms.head)
        if refusal is not None:
            checked.refuse(refusal)
        else:
            estimated.append(each)
    if not estimated:
        return checked
    payers = list({each.call.payer for each in estimated if each.call.payer is not None})
    requests = [_estimate(each, sender, terms.policy.max_gas, "latest") for each in estimated]
    requests += [("eth_getCode", [hex_of(payer), "latest"]) for payer in payers]
    *answers, newest = await client.provider.batch([*requests, ("eth_blockNumber", [])])
    codes = dict(zip(payers, answers[len(estimated) :], strict=True))
    refusals: list[IntentRefusal] = []
    for each, answer in zip(estimated, answers, strict=False):
        refusal = _refusal(each, answer, terms)
        if refusal is not None:
            refusals.append(refusal)
        else:
            _prepare(checked, each, answer, "0x" if each.call.payer is None else codes[each.call.payer], terms)
    for refusal in await _with_blocks(client, sender, refusals, newest, terms) if refusals else ():
        checked.refuse(refusal)
    return checked


async def _with_blocks(
    client: ChainClient, sender: bytes, refusals: list[IntentRefusal], newest: str | RpcError, terms: CheckTerms
) -> list[IntentRefusal]:
    """Return the refusals, each with a block at which it holds. Nodes do not say which block "latest" was, so repeat
    the calls at the block number `newest`; a call with another result there gets no block."""
    if isinstance(newest, RpcError):
        return refusals
    requests = [_estimate(each.candidate, sender, terms.policy.max_gas, newest) for each in refusals]
    try:
        answers = await client.provider.batch(requests)
    except RpcError:
        return refusals
    located: list[IntentRefusal] = []
    for refusal, answer in zip(refusals, answers, strict=True):
        again = _refusal(refusal.candidate, answer, terms)
        holds = again is not None and again.code == refusal.code
        located.append(replace(refusal, block_number=int(newest, 16)) if holds else refusal)
    return located


def refuse_without_node(candidate: Candidate, head: Block) -> IntentRefusal | None:
    """Return a refusal for a reason that needs no node: the intent is too late on the chain's clock, or its dependency
    did not succeed."""
    not_after = candidate.call.not_after
    if not_after is not None and head.timestamp > not_after:
        sentence = f"It was not sent in time: its deadline passed {head.timestamp - not_after} s ago."
        return IntentRefusal(candidate, EXPIRED, sentence, head.number)
    if candidate.depends_on_state in (IntentState.FAILED, IntentState.REPLACED) or (
        candidate.depends_on_state is not None and candidate.depends_on_outcome is not MinedOutcome.SUCCEEDED
    ):
        return IntentRefusal(candidate, "dependency_failed", "The transaction it depends on did not succeed.")
    return None


def _ceiling(candidate: Candidate, max_gas: int) -> int:
    return min(max_gas, GAS_CEILINGS.get(candidate.call.kind, max_gas))


def _estimate(candidate: Candidate, sender: bytes, max_gas: int, block: str) -> tuple[str, list[Any]]:
    call = {"from": hex_of(sender), "to": hex_of(candidate.call.to), "data": hex_of(candidate.call.data)}
    if candidate.call.value_wei:
        call["value"] = hex(candidate.call.value_wei)
    if candidate.call.kind in GAS_CEILINGS:
        call["gas"] = hex(_ceiling(candidate, max_gas))
    return "eth_estimateGas", [call, block]


def _refusal(candidate: Candidate, answer: str | RpcError, terms: CheckTerms) -> IntentRefusal | None:
    """Return a refusal if a node's answer to the call is a reason for one. Any other error says nothing about the
    intent."""
    if isinstance(answer, RpcError):
        match answer.kind:
            case RpcErrorKind.REVERTED:
                reason = explain(answer, terms.policy.errors)
                return IntentRefusal(candidate, reason.name or "reverted", reason.message)
            case RpcErrorKind.GAS_LIMIT | RpcErrorKind.TX_INVALID:
                return IntentRefusal(candidate, answer.kind.value, answer.message)
        return None
    needed, ceiling = int(answer, 16), _ceiling(candidate, terms.policy.max_gas)
    if needed > ceiling:
        return IntentRefusal(candidate, "too_much_gas", f"It needs {needed} gas, and we pay for at most {ceiling}.")
    return None


def _prepare(
    checked: Checked, candidate: Candidate, answer: str | RpcError, code: str | RpcError, terms: CheckTerms
) -> None:
    """Add a candidate that is not refused to `ready` or `deferred`. `code` is the code of its payer's wallet."""
    if isinstance(answer, RpcError):
        if answer.kind is RpcErrorKind.INSUFFICIENT_FUNDS:
            checked.out_of_funds = answer.message
        checked.deferred[candidate.intent_id] = answer.message
        return
    if isinstance(code, RpcError):
        checked.deferred[candidate.intent_id] = code.message
        return
    fees = quote(terms.policy.fees, terms.market)
    if fees is None:
        checked.deferred[candidate.intent_id] = "The base fee is above what this transaction may pay."
        return
    gas = min(with_margin(int(answer, 16)), _ceiling(candidate, terms.policy.max_gas))
    raw = bytes_of(code)
    checked.ready.append(Prepared(candidate, gas, fees, keccak256(raw) if raw else None))


def with_margin(estimate: int) -> int:
    """Return the gas limit to sign for an estimate: the estimate plus a percentage, rounded down, or plus a minimum
    margin if that is more."""
    if estimate <= PLAIN_TRANSFER_GAS:
        return estimate
    return max(estimate * (100 + GAS_MARGIN_PERCENT) // 100, estimate + MIN_GAS_MARGIN)
