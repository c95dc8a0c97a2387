"""The relayer's decisions, as tables: fees, nonces, what to do about a transaction, whether a lane may sign."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.chain import Block, ChainClient, RpcError, RpcErrorKind
from core.outbox import (
    CODE_REVERTS,
    CONTRACTS_SPENT,
    WALLET_REVERTS,
    IntentState,
    LaneStatus,
    MinedOutcome,
    settled_state,
)
from relayer.nonces import reconcile
from relayer.policy import (
    Admission,
    FeeMarket,
    FeePolicy,
    LanePolicy,
    LaneSnapshot,
    Patience,
    PayerBook,
    PayerRecord,
    PayerRefusal,
    bump,
    expected_price,
    highest_fees,
    lane_status,
    quote,
)
from relayer.queued import CheckTerms, check, refuse_without_node, with_margin
from relayer.signing import Fees, Signed
from relayer.transactions import (
    Call,
    Candidate,
    LaneTransaction,
    NextStep,
    NonceTaker,
    QueueProgress,
    is_nonce_taken,
    next_step,
)

SEND, WAIT = Admission.SEND, Admission.WAIT
POLICY = FeePolicy(cap_wei=1000, min_priority_wei=2, max_priority_wei=50)


@pytest.mark.parametrize(
    ("market", "expected"),
    [
        pytest.param(FeeMarket(100, 10), Fees(210, 10), id="twice the base fee and the market's priority"),
        pytest.param(FeeMarket(100, 0), Fees(202, 2), id="priority at least the policy's"),
        pytest.param(FeeMarket(100, 90), Fees(250, 50), id="priority at most the policy's"),
        pytest.param(FeeMarket(600, 10), Fees(1000, 10), id="never above the cap"),
        pytest.param(FeeMarket(998, 10), Fees(1000, 10), id="the base fee just fits"),
        pytest.param(FeeMarket(999, 10), None, id="the base fee does not fit"),
        pytest.param(FeeMarket(0, 0), Fees(2, 2), id="a chain without a base fee"),
    ],
)
def test_quote(market: FeeMarket, expected: Fees | None) -> None:
    assert quote(POLICY, market) == expected


@pytest.mark.parametrize(
    ("old", "market", "expected"),
    [
        pytest.param(Fees(200, 8), FeeMarket(50, 2), Fees(225, 9), id="an eighth more of both"),
        pytest.param(Fees(201, 9), FeeMarket(50, 2), Fees(227, 11), id="rounded up"),
        pytest.param(Fees(200, 8), FeeMarket(400, 20), Fees(820, 20), id="the market asks for more"),
        pytest.param(Fees(889, 8), FeeMarket(50, 2), None, id="an eighth more exceeds the cap"),
        pytest.param(Fees(888, 8), FeeMarket(50, 2), Fees(999, 9), id="an eighth more just fits"),
        pytest.param(Fees(200, 0), FeeMarket(50, 0), Fees(225, 2), id="from no priority at all"),
        pytest.param(Fees(200, 8), FeeMarket(999, 2), None, id="the base fee alone exceeds the cap"),
    ],
)
def test_bump(old: Fees, market: FeeMarket, expected: Fees | None) -> None:
    assert bump(POLICY, market, old) == expected


def test_a_no_op_may_always_offer_the_highest_fees() -> None:
    assert highest_fees(POLICY, Fees(950, 8)) == Fees(1000, 9)
    assert highest_fees(POLICY, Fees(1000, 1000)) == Fees(1000, 1000)


fee = st.integers(min_value=0, max_value=10**12)


@given(old=st.tuples(fee, fee), base=fee, priority=fee)
def test_a_bump_satisfies_every_node_and_stays_within_the_cap(old: tuple[int, int], base: int, priority: int) -> None:
    before = Fees(max(old), min(old))
    policy = FeePolicy(cap_wei=10**12)
    after = bump(policy, FeeMarket(base, priority), before)
    if after is not None:
        assert after.max_fee_wei * 8 >= before.max_fee_wei * 9
        assert after.max_priority_fee_wei * 8 >= before.max_priority_fee_wei * 9
        assert after.max_fee_wei > before.max_fee_wei
        assert after.max_priority_fee_wei <= after.max_fee_wei <= policy.cap_wei
        assert after.max_fee_wei >= base


def test_the_expected_price_is_what_a_block_would_charge() -> None:
    assert expected_price(Fees(300, 5), FeeMarket(100, 0)) == 105
    assert expected_price(Fees(102, 5), FeeMarket(100, 0)) == 102


@pytest.mark.parametrize(
    ("latest", "next_nonce", "owned", "expected"),
    [
        pytest.param(0, 0, [], (0, ()), id="a new key"),
        pytest.param(7, 0, [], (7, ()), id="a key used before we had it"),
        pytest.param(5, 8, [5, 6, 7], (8, ()), id="all is well"),
        pytest.param(9, 8, [], (9, ()), id="another process used the key"),
        pytest.param(9, 8, [6, 7], (9, ()), id="another process used it while ours were in flight"),
        pytest.param(5, 8, [5, 7], (8, (6,)), id="a hole between ours"),
        pytest.param(3, 8, [5, 6, 7], (8, (3, 4)), id="holes before ours"),
        pytest.param(4, 8, [7, 5], (8, (4, 6)), id="holes around one undone by a deep reorg"),
    ],
)
def test_reconcile(latest: int, next_nonce: int, owned: list[int], expected: tuple[int, tuple[int, ...]]) -> None:
    assert reconcile(latest=latest, next_nonce=next_nonce, owned=owned) == expected


PATIENCE = Patience(resend_after_seconds=4, bump_after_seconds=15, bump_after_blocks=2)
MARKET = FeeMarket(base_fee_wei=100, priority_wei=1)


CALL = Call(1, "enter", b"t" * 20, b"", value_wei=0)


def transaction(**changes: object) -> LaneTransaction:
    attempt = Signed(7, b"raw", b"h" * 32, Fees(210, 10), 21_000)
    made = LaneTransaction(CALL, 7, [attempt], IntentState.SENT, state_since=0.0, last_sent_at=100.0)
    return replace(made, **changes)  # type: ignore[arg-type]


def line(**changes: object) -> QueueProgress:
    made = QueueProgress(7, 8, now=101.0, chain_time=1_000, stuck_seconds=0, stuck_blocks=0, market=MARKET)
    return replace(made, **changes)  # type: ignore[arg-type]


FOREIGN = NonceTaker(b"f" * 32, 100, b"b" * 32)
CANCEL = Signed(7, b"raw", b"c" * 32, Fees(240, 12), 21_000, is_cancel=True)


KEEP, RESEND, BUMP, STOP = NextStep
LATE = replace(CALL, not_after=999)
CANCELLING = [*transaction().attempts, CANCEL]
DEAR = FeeMarket(211, 1)


@pytest.mark.parametrize(
    ("transaction", "progress", "expected"),
    [
        pytest.param(transaction(), line(), KEEP, id="just sent and in the pool"),
        pytest.param(transaction(nonce=9), line(now=200.0, pending=10), KEEP, id="in the pool behind others"),
        pytest.param(transaction(nonce=9), line(now=104.0, pending=9), RESEND, id="not in the pool"),
        pytest.param(transaction(nonce=9), line(now=103.9, pending=9), KEEP, id="not in the pool, but only just sent"),
        pytest.param(transaction(last_sent_at=None), line(), RESEND, id="never sent"),
        pytest.param(transaction(), line(now=105.0), RESEND, id="first of the line: sent again in case"),
        pytest.param(transaction(), line(stuck_seconds=15, stuck_blocks=2), BUMP, id="blocks come and pass it by"),
        pytest.param(transaction(), line(stuck_seconds=60, stuck_blocks=1), KEEP, id="no blocks come: not its fault"),
        pytest.param(
            transaction(nonce=9), line(pending=10, stuck_seconds=60, stuck_blocks=9), KEEP, id="behind the first: waits"
        ),
        pytest.param(
            transaction(nonce=9),
            line(now=105.0, pending=10, stuck_blocks=2, market=DEAR),
            BUMP,
            id="below the base fee: no block can hold it, wherever it stands",
        ),
        pytest.param(transaction(), line(stuck_blocks=1, market=DEAR), KEEP, id="below the base fee for one block"),
        pytest.param(
            transaction(replaced_at=99.0), line(stuck_blocks=5, market=DEAR), KEEP, id="below it, and just replaced"
        ),
        pytest.param(
            transaction(replaced_at=99.0), line(stuck_seconds=60, stuck_blocks=9), KEEP, id="stuck, and just replaced"
        ),
        pytest.param(transaction(call=LATE), line(), STOP, id="past its time on the chain's clock"),
        pytest.param(transaction(call=replace(CALL, not_after=1_000)), line(), KEEP, id="just in time"),
        pytest.param(transaction(doomed=("gas_limit", "too much")), line(), STOP, id="no node can take it"),
        pytest.param(transaction(call=LATE, attempts=CANCELLING), line(), KEEP, id="cancelling already"),
        pytest.param(
            transaction(call=LATE, attempts=CANCELLING, replaced_at=80.0),
            line(stuck_seconds=20, stuck_blocks=9),
            BUMP,
            id="the cancel itself is stuck",
        ),
    ],
)
def test_next_step(transaction: LaneTransaction, progress: QueueProgress, expected: NextStep) -> None:
    assert next_step(transaction, progress, PATIENCE) is expected


@pytest.mark.parametrize(
    ("transaction", "progress", "expected"),
    [
        pytest.param(transaction(), line(now=105.0, stuck_seconds=15, stuck_blocks=2), RESEND, id="the first"),
        pytest.param(transaction(), line(now=103.0, stuck_seconds=15, stuck_blocks=2), KEEP, id="the first, only just"),
        pytest.param(
            transaction(nonce=9),
            line(now=105.0, pending=9, stuck_blocks=2, market=DEAR),
            RESEND,
            id="below the base fee, and not in the pool",
        ),
        pytest.param(transaction(call=LATE), line(now=105.0), STOP, id="a late one is never sent alone"),
    ],
)
def test_a_transaction_that_cannot_be_bumped_is_resent(
    transaction: LaneTransaction, progress: QueueProgress, expected: NextStep
) -> None:
    """At the cap, while the signer does not sign, or because the key cannot pay for it."""
    assert next_step(transaction, progress, PATIENCE, may_bump=False) is expected
    assert next_step(replace(transaction, unfunded=True), progress, PATIENCE) is expected


@pytest.mark.parametrize(
    ("rival", "head", "replay_safe", "used_since", "expected"),
    [
        pytest.param(None, 1_000, False, 0.0, False, id="no node is known to have it"),
        pytest.param(None, 1_000, True, 0.0, False, id="nor if a second landing were refused"),
        pytest.param(FOREIGN, 163, False, 0.0, False, id="not final"),
        pytest.param(FOREIGN, 164, False, 0.0, True, id="final"),
        pytest.param(FOREIGN, 101, True, 0.0, False, id="one block deep"),
        pytest.param(FOREIGN, 102, True, 0.0, True, id="two blocks deep, and a second landing is refused"),
        pytest.param(FOREIGN, 999, True, 95.1, False, id="blocks came faster than nodes agree"),
        pytest.param(FOREIGN, 999, False, None, False, id="the nonce is not used"),
    ],
)
def test_a_nonce_is_given_up_only_to_a_known_canonical_transaction(
    rival: NonceTaker | None, head: int, replay_safe: bool, used_since: float | None, expected: bool
) -> None:
    taken = transaction(rival=rival, used_since=used_since, call=replace(CALL, replay_safe=replay_safe))
    found = is_nonce_taken(taken, head=head, finality_blocks=64, now=100.0, patience=PATIENCE)
    assert found is expected


IDLE = LaneSnapshot(None, 100, balance_wei=10_000, worst_cost_wei=0, spent_wei=0, expected_wei=0, in_flight=0)
LIMITS = LanePolicy(FeePolicy(cap_wei=1_000), PATIENCE, max_in_flight=10, gas_per_hour_wei=5_000)


@pytest.mark.parametrize(
    ("snapshot", "expected"),
    [
        (IDLE, LaneStatus.READY),
        (replace(IDLE, node_problem="it said so", in_flight=10), LaneStatus.NODE_DOWN),
        (replace(IDLE, signer_problem="it said so"), LaneStatus.SIGNER_DOWN),
        (replace(IDLE, signer_problem="it said so", node_problem="it said so"), LaneStatus.NODE_DOWN),
        (replace(IDLE, out_of_funds="it said so"), LaneStatus.OUT_OF_GAS),
        (replace(IDLE, balance_wei=None), LaneStatus.STARTING),
        (replace(IDLE, balance_wei=0), LaneStatus.OUT_OF_GAS),
        (replace(IDLE, worst_cost_wei=10_001), LaneStatus.OUT_OF_GAS),
        (replace(IDLE, worst_cost_wei=10_000), LaneStatus.READY),
        (replace(IDLE, spent_wei=5_000), LaneStatus.STOP_LOSS),
        (replace(IDLE, spent_wei=3_000, expected_wei=2_000), LaneStatus.STOP_LOSS),
        (replace(IDLE, spent_wei=3_000, expected_wei=1_999), LaneStatus.READY),
        (replace(IDLE, base_fee_wei=1_001), LaneStatus.FEES_TOO_HIGH),
        (replace(IDLE, base_fee_wei=1_000), LaneStatus.READY),
        (replace(IDLE, in_flight=10), LaneStatus.FULL),
        (replace(IDLE, in_flight=9), LaneStatus.READY),
    ],
)
def test_lane_status(snapshot: LaneSnapshot, expected: LaneStatus) -> None:
    status, sentence = lane_status(snapshot, LIMITS)
    assert status is expected
    assert bool(sentence) is (status is not LaneStatus.READY)


def candidate(**changes: object) -> Candidate:
    return replace(Candidate(CALL, 0.0, None, None), **changes)  # type: ignore[arg-type]


REVERTED = RpcError(RpcErrorKind.REVERTED, "execution reverted")
HEAD = Block("0x" + "11" * 32, "0x" + "22" * 32, number_hex=hex(5), timestamp_hex=hex(1_000))
TERMS = CheckTerms(HEAD, FeeMarket(100, 10), LanePolicy(POLICY, PATIENCE, max_gas=10**6))


class OneBatchAtATime:
    """A client that only answers batches. answer: to every call; a revert by default. newest: to
    eth_blockNumber."""

    def __init__(self, newest: str | RpcError, answer: str | RpcError = REVERTED) -> None:
        self.eth = self.provider = self
        self.newest = newest
        self.answer = answer
        self.batches: list[list[tuple[str, list[Any]]]] = []

    async def batch(self, requests: list[tuple[str, list[Any]]]) -> list[str | RpcError]:
        self.batches.append(list(requests))
        return [self.newest if method == "eth_blockNumber" else self.answer for method, _ in requests]


@pytest.mark.parametrize(
    "newest", ["0x7", RpcError(RpcErrorKind.TIMEOUT, "late")], ids=["block known", "block unknown"]
)
async def test_a_refusal_costs_the_batch_one_more_round_trip(newest: str | RpcError) -> None:
    client = OneBatchAtATime(newest)
    checked = await check(cast(ChainClient, client), b"s" * 20, [candidate()], TERMS)
    is_known = newest == "0x7"
    assert [(each.code, each.block_number) for each in checked.refused] == [("reverted", 7 if is_known else None)]
    assert [batch[0][1][1] for batch in client.batches] == (["latest", "0x7"] if is_known else ["latest"])


@pytest.mark.parametrize(
    ("candidate", "code"),
    [
        (candidate(), None),
        (candidate(call=replace(CALL, not_after=1_000)), None),
        (candidate(call=replace(CALL, not_after=999)), "expired"),
        (candidate(depends_on_state=IntentState.MINED, depends_on_outcome=MinedOutcome.SUCCEEDED), None),
        (candidate(depends_on_state=IntentState.FINAL, depends_on_outcome=MinedOutcome.SUCCEEDED), None),
        (candidate(depends_on_state=IntentState.FAILED, depends_on_outcome=None), "dependency_failed"),
        (candidate(depends_on_state=IntentState.FAILED, depends_on_outcome=MinedOutcome.REVERTED), "dependency_failed"),
        (
            candidate(depends_on_state=IntentState.REPLACED, depends_on_outcome=MinedOutcome.CANCELLED),
            "dependency_failed",
        ),
    ],
)
def test_refused_without_asking_a_node(candidate: Candidate, code: str | None) -> None:
    refusal = refuse_without_node(candidate, HEAD)
    assert (refusal.code if refusal else None) == code
    if refusal is not None and code == "expired":
        assert refusal.block_number == HEAD.number  # by whose clock it is too late


@pytest.mark.parametrize("kind", RpcErrorKind)
async def test_only_errors_about_the_call_itself_end_an_intent(kind: RpcErrorKind) -> None:
    client = OneBatchAtATime("0x7", RpcError(kind, "said the node"))
    checked = await check(cast(ChainClient, client), b"s" * 20, [candidate()], TERMS)
    ends = kind in (RpcErrorKind.REVERTED, RpcErrorKind.GAS_LIMIT, RpcErrorKind.TX_INVALID)
    assert (bool(checked.refused), bool(checked.deferred)) == (ends, not ends)
    assert bool(checked.out_of_funds) == (kind is RpcErrorKind.INSUFFICIENT_FUNDS)


async def test_a_call_that_needs_too_much_gas_is_refused() -> None:
    most = TERMS.policy.max_gas
    for needed, code in ((most, None), (most + 1, "too_much_gas")):
        client = OneBatchAtATime("0x7", hex(needed))
        checked = await check(cast(ChainClient, client), b"s" * 20, [candidate()], TERMS)
        assert [each.code for each in checked.refused] == ([code] if code else [])
        assert [each.gas_limit for each in checked.ready] == ([] if code else [most])


def test_a_settled_outcome_is_an_end_state() -> None:
    assert {settled_state(outcome) for outcome in MinedOutcome} == {state for state in IntentState if state.ended}


@pytest.mark.parametrize(
    ("estimate", "limit"),
    [
        (21_000, 21_000),  # a plain transfer: its gas cannot grow
        (21_001, 121_001),
        (118_250, 218_250),  # a bet that joins a vintage, and may be the one that has to finalize it
        (400_000, 500_000),
        (2_000_000, 2_500_000),
    ],
)
def test_the_gas_limit_has_a_margin_for_earlier_transactions(estimate: int, limit: int) -> None:
    assert with_margin(estimate) == limit


# ---------------------------------------------------------------- whose reverts cost us what


def record(reverted: int = 0, succeeded: int = 0, in_flight: int = 0, *, has_settled: bool = False) -> PayerRecord:
    return PayerRecord(reverted, succeeded, in_flight, has_settled or succeeded > 0)


CODE = b"c" * 32


@pytest.mark.parametrize(
    ("wallet", "alike", "expected"),
    [
        pytest.param(record(), None, SEND, id="a wallet's first"),
        pytest.param(record(), record(), SEND, id="the first of a wallet with code"),
        pytest.param(record(in_flight=3), None, SEND, id="the fourth of a new wallet, while three are on their way"),
        pytest.param(record(in_flight=4), None, WAIT, id="its fifth waits for them"),
        pytest.param(record(in_flight=9, has_settled=True), None, SEND, id="one that has settled waits for nothing"),
        pytest.param(record(in_flight=4, has_settled=True), record(), WAIT, id="but with code it does"),
        pytest.param(record(reverted=1, in_flight=3, has_settled=True), None, WAIT, id="and after a revert"),
        pytest.param(record(reverted=3), None, SEND, id="three reverted"),
        pytest.param(record(reverted=4), None, WALLET_REVERTS, id="four did"),
        pytest.param(record(reverted=4, has_settled=True), None, WALLET_REVERTS, id="regardless of earlier hours"),
        pytest.param(record(reverted=40, succeeded=60), None, SEND, id="a busy bettor in a moving book"),
        pytest.param(
            record(), record(reverted=16), SEND, id="a new wallet with a reverting code has its own allowance"
        ),
        pytest.param(record(in_flight=1), record(reverted=16), WAIT, id="one at a time"),
        pytest.param(record(reverted=1), record(reverted=17), CODE_REVERTS, id="and once"),
        pytest.param(record(), record(reverted=16, succeeded=5), SEND, id="of one that also settles"),
        pytest.param(record(), record(reverted=10, in_flight=6), SEND, id="of one with many on their way"),
        pytest.param(record(has_settled=True), record(reverted=99), SEND, id="others' reverts are not an old wallet's"),
        pytest.param(record(reverted=1, has_settled=True), record(reverted=99), CODE_REVERTS, id="until its own do"),
    ],
)
def test_reverts_count_by_wallet_and_by_code(
    wallet: PayerRecord, alike: PayerRecord | None, expected: str | Admission
) -> None:
    code = None if alike is None else CODE
    book = PayerBook({b"w": wallet}, {} if alike is None else {CODE: alike}, 0, 0, 100)
    verdict = book.judge(b"w", code, 10)
    assert (verdict if isinstance(verdict, Admission) else verdict.code) == expected


def test_reverts_of_others_do_not_block_a_new_wallet_with_the_same_code() -> None:
    newcomer, attackers = b"n" * 20, [bytes([n]) * 20 for n in range(5)]
    records = {wallet: record(reverted=4) for wallet in attackers[:4]} | {attackers[4]: record(reverted=2)}
    book = PayerBook(records, {CODE: record(reverted=18)}, burnt_wei=18, unmined_wei=0, allowance_wei=1000)
    assert book.judge(newcomer, CODE, 1) is SEND
    verdicts = [book.judge(wallet, CODE, 1) for wallet in attackers]
    assert [isinstance(each, PayerRefusal) and each.code for each in verdicts] == [WALLET_REVERTS] * 4 + [CODE_REVERTS]


def test_new_wallets_of_a_reverting_code_use_at_most_half_of_the_allowance() -> None:
    burnt = {CODE: record(reverted=50)}
    spent = PayerBook({b"old": record(has_settled=True)}, dict(burnt), burnt_wei=50, unmined_wei=0, allowance_wei=100)
    verdict = spent.judge(b"new", CODE, 1)
    assert isinstance(verdict, PayerRefusal)
    assert verdict.code == CODE_REVERTS
    assert spent.judge(b"old", CODE, 1) is SEND
    assert spent.judge(b"other", b"d" * 32, 1) is SEND
    waiting = PayerBook({}, dict(burnt), burnt_wei=40, unmined_wei=10, allowance_wei=100)
    assert waiting.judge(b"new", CODE, 1) is WAIT  # those in flight may still succeed


def test_contract_wallets_have_a_separate_allowance() -> None:
    book = PayerBook({}, {}, burnt_wei=60, unmined_wei=10, allowance_wei=100)
    wallets = [bytes([number]) * 20 for number in range(6)]
    assert book.judge(wallets[0], b"a" * 32, 30) is SEND
    assert book.judge(wallets[1], b"b" * 32, 1) is WAIT  # those in flight may still succeed
    verdict = book.judge(wallets[2], b"c" * 32, 41)
    assert isinstance(verdict, PayerRefusal)
    assert verdict.code == CONTRACTS_SPENT
    assert book.judge(wallets[3], None, 10_000) is SEND


def test_transactions_of_the_same_batch_are_counted() -> None:
    book = PayerBook({}, {}, 0, 0, 100)
    assert [book.judge(b"w", CODE, 1) for _ in range(6)] == [SEND] * 4 + [WAIT] * 2
