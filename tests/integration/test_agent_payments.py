"""Whose a payment is, however it is manipulated outside the API: attacks by a stranger on the real services.

Strangers have their own keys, the public API, direct calls of the token and higher tips. A payment is its payer's in
every order of events, no stake is made of anyone else's money, and no payer whose authorization was used has to pay
again.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import aiohttp
import pytest

from core.agent.bet import idem_hash
from core.chain import Call
from core.contracts.statuses import Form, RefundReason, StakeStatus
from core.hexadecimal import bytes_of
from core.money import USD
from scripts._stack import wallets
from scripts._stack.wallets import DEV, Wallet
from tests.support import questions
from tests.support.agent_payments import (
    YES_CODE,
    cancelling,
    nonce_of,
    offered,
    spending,
    together,
)
from tests.support.agent_service import AgentService
from tests.support.buyer import Buyer, bet, header, sign
from tests.support.keeper_rig import run_job
from tests.waiting import PATIENCE, until

pytestmark = pytest.mark.timeout(300)

STRANGER = DEV[7]
FINALITY_BLOCKS = 64
"""What anvil calls finalized lies two epochs of 32 blocks behind its head."""
PAY_AGAIN = ("sign a", "sign again", "fresh one", "new authorization", "fresh nonce")


@pytest.fixture
async def market(buyer: Buyer, service: AgentService) -> str:
    name = service.chain.list(f"m-{secrets.token_hex(4)}")
    await buyer.shows(name)
    return name


@dataclass(frozen=True)
class Offer:
    who: Wallet
    body: dict[str, Any]
    offer: Mapping[str, Any]
    envelope: Mapping[str, Any]

    @property
    def headers(self) -> dict[str, str]:
        return header(self.envelope)

    @property
    def key(self) -> bytes:
        return idem_hash(self.body["idemKey"])


def payer(service: AgentService, role: str, *, usd: int = 20) -> Wallet:
    """A wallet of the test's own, so that no limit or stake of another test counts for it."""
    who = wallets.wallet(f"{role} {secrets.token_hex(4)}")
    service.chain.give(who.address, usd * USD)
    return who


async def asked(
    buyer: Buyer, who: Wallet, market: str, size: float = 4, *, signature: bytes | None = None, **body: Any
) -> Offer:
    """Return what a payer would send to bet. `signature`: instead of the key's."""
    trade = bet(market, who, size=size, **body)
    response, challenge = await buyer.post(trade)
    assert response.status == 402, challenge
    offer = challenge["accepts"][0]
    envelope = sign(offer, who, now=buyer.service.chain.now)
    if signature is not None:
        envelope["payload"]["signature"] = "0x" + signature.hex()
    return Offer(who, trade, offer, envelope)


def rows(service: AgentService, query: str, *values: object) -> list[tuple[Any, ...]]:
    return questions.rows(service.env["DATABASE_URL"], query, *values)


async def never_asked_again(buyer: Buyer, service: AgentService, mine: Offer, *, pays: bool = True) -> dict[str, Any]:
    """Send the same request until it has a receipt or a final refusal. The chain goes on, so blocks become final."""
    deadline = time.monotonic() + PATIENCE
    while True:
        response, body = await buyer.post(mine.body, headers=mine.headers if pays else None)
        assert response.status != 402, body
        said = f"{body.get('message', '')} {body.get('hint', '')}".lower()
        assert not any(each in said for each in PAY_AGAIN), body
        if response.status == 200 or body["retriable"] is False:
            return dict(body)
        assert time.monotonic() < deadline, body
        service.chain.mine(16)
        await run_job(service.env, "agent-credit")


async def taken_in(buyer: Buyer, service: AgentService, offers: Sequence[Offer]) -> list[asyncio.Task[Any]]:
    """Pay while nothing is mined; return once the relayer has sent all transactions."""
    paying = [asyncio.create_task(buyer.post(each.body, headers=each.headers)) for each in offers]
    sent = (
        "SELECT count(*) FROM outbox_intent i JOIN agent_trade t ON t.intent_id = i.id WHERE i.state = 'sent' AND (%s)"
    )
    named = " OR ".join(["t.idem_hash = %s"] * len(offers))
    query = sent.replace("%s", named, 1)
    await until(lambda: rows(service, query, *(each.key for each in offers))[0][0] == len(offers))
    return paying


async def overtaken(
    buyer: Buyer, service: AgentService, offers: Sequence[Offer], calls: Sequence[Call]
) -> list[tuple[aiohttp.ClientResponse, Any]]:
    """Have payments accepted, and mine strangers' calls with higher tips before them in the same block."""
    chain = service.chain
    with chain.held():
        paying = await taken_in(buyer, service, offers)
        theirs = [offered(chain, call, wallets.wallet(f"sender {at}").address) for at, call in enumerate(calls)]
        chain.ask("evm_mine")
        answers = await asyncio.gather(*paying)
    for transaction in theirs:
        chain.receipt(transaction)  # each landed
    return answers


def is_staked(service: AgentService, mine: Offer, amount: int) -> bool:
    booked = service.chain.stake(mine.who.address, mine.body["idemKey"])
    return booked is not None and (booked["status"], booked["amount"]) == (StakeStatus.IN_BOOK, amount)


def unbooked(service: AgentService) -> int:
    """Return the money in the contract that is no stake, payout or fee."""
    chain = service.chain
    owed = chain.read(chain.contracts.settlement.call("liabilities"))
    held = chain.balance(chain.contracts.settlement.address)
    return held - sum(owed.values() if isinstance(owed, dict) else owed)


async def bury(service: AgentService) -> None:
    """Make the head final, and wait until the index has what makes it so."""
    head = service.chain.block
    service.chain.mine(FINALITY_BLOCKS + 1)
    await until(lambda: bool(rows(service, "SELECT 1 FROM chain_cursor WHERE finalized_number >= %s", head)))


async def settle_down(service: AgentService) -> None:
    """Let every payment become final, and the keeper book what it may, until there is nothing left."""
    await bury(service)
    for _ in range(6):
        report = await run_job(service.env, "agent-credit")
        assert report.ok, report.body()
        if not report.actions:
            return
        await until(
            lambda: (
                not rows(
                    service,
                    "SELECT 1 FROM outbox_intent WHERE kind = 'credit' AND outcome IS NULL "
                    "AND state NOT IN ('final', 'failed', 'replaced')",
                )
            )
        )
        await bury(service)


# ---------------------------------------------------------------- W1


@pytest.mark.thorough
async def test_a_payment_of_one_unit_is_never_credited_as_four_dollars(
    buyer: Buyer, service: AgentService, market: str
) -> None:
    """W1 (a). The API takes in 4 USDC; its payer spends the very nonce on 1 unit first. The contract also
    holds 4 USDC of another payer, whose payment a stranger sent directly in the same block."""
    thief, victim = payer(service, "thief"), payer(service, "victim")
    theirs, hers = await asked(buyer, thief, market), await asked(buyer, victim, market, side="no")
    nonce = nonce_of(theirs.envelope)
    one_unit = sign(theirs.offer, thief, now=service.chain.now, nonce=nonce, value="1")
    chain, before = service.chain, service.chain.balance(thief.address)
    answers = await overtaken(
        buyer, service, [theirs, hers], [spending(chain, one_unit), spending(chain, hers.envelope)]
    )
    assert {response.status for response, _ in answers} == {429}, answers
    assert unbooked(service) == 4 * USD + 1

    refused = await never_asked_again(buyer, service, theirs)
    assert refused["error"] == "payment_invalid"
    assert "paid 0.000001 USDC" in refused["message"]
    await settle_down(service)
    assert not is_staked(service, theirs, 4 * USD)
    paid = await never_asked_again(buyer, service, hers)
    assert (paid["receipt"]["sizeUsd"], paid["receipt"]["side"]) == (4, "no")
    assert is_staked(service, hers, 4 * USD)
    # Less than the least stake is never booked: it is a gift, and in no one's positions.
    assert service.chain.stake(theirs.who.address, theirs.body["idemKey"]) is None
    assert (unbooked(service) % (4 * USD), chain.balance(thief.address)) == (1, before - 1)
    given = await never_asked_again(buyer, service, theirs)
    assert "payments below 1 USDC are not booked" in given["message"]


@pytest.mark.thorough
async def test_one_transfer_pays_for_one_authorization(buyer: Buyer, service: AgentService, market: str) -> None:
    """W1 (b). Two authorizations of 4 USDC are used in one transaction, and one of them pays us; the contract also has
    4 USDC of another payer. The other paid the thief, and the transaction holds a plain transfer of 4 USDC, too."""
    thief, victim, accomplice = payer(service, "thief"), payer(service, "victim"), wallets.wallet("accomplice").address
    first, second = await asked(buyer, thief, market), await asked(buyer, thief, market, side="no")
    hers = await asked(buyer, victim, market)
    chain, gifts = service.chain, unbooked(service)
    chain.send(spending(chain, hers.envelope), STRANGER.address)
    # The API does not know the second yet: its payer submits it afterwards.
    away = sign(second.offer, thief, now=chain.now, nonce=nonce_of(second.envelope), to=accomplice)
    caller = wallets.wallet(f"many calls {market}").address
    chain.give(caller, 4 * USD)
    plain = chain.contracts.token.call("transfer", chain.contracts.settlement.address, 4 * USD)
    together(chain, [spending(chain, first.envelope), spending(chain, away), plain], STRANGER.address, caller)
    assert unbooked(service) == gifts + 12 * USD

    response, refused = await buyer.post(second.body, headers=second.headers)
    assert (response.status, refused["error"]) == (429, "rate_limited"), refused
    paid = await never_asked_again(buyer, service, first)
    assert paid["receipt"]["sizeUsd"] == 4
    await settle_down(service)
    response, refused = await buyer.post(second.body, headers=second.headers)
    assert (response.status, refused["retriable"]) == (429, True), refused
    assert service.chain.stake(second.who.address, second.body["idemKey"]) is None
    assert is_staked(service, first, 4 * USD)
    paid = await never_asked_again(buyer, service, hers)
    assert is_staked(service, hers, 4 * USD)
    assert unbooked(service) == gifts + 4 * USD, "the plain transfer is no stake"


async def test_a_use_next_to_a_transfer_must_be_one_payment(buyer: Buyer, service: AgentService, market: str) -> None:
    """A used authorization of one payer directly before a transfer of another is no payment."""
    thief, victim = payer(service, "thief"), payer(service, "victim")
    theirs, hers = await asked(buyer, thief, market), await asked(buyer, victim, market)
    chain = service.chain
    away = sign(theirs.offer, thief, now=chain.now, nonce=nonce_of(theirs.envelope), value="0")
    caller = wallets.wallet(f"many calls {market}").address
    together(chain, [spending(chain, away), spending(chain, hers.envelope)], STRANGER.address, caller)
    await settle_down(service)
    response, refused = await buyer.post(theirs.body, headers=theirs.headers)
    assert response.status in (422, 429), refused
    assert not is_staked(service, theirs, 4 * USD)
    await never_asked_again(buyer, service, hers)
    assert is_staked(service, hers, 4 * USD)


@pytest.mark.thorough
async def test_a_signature_that_embeds_another_payers_nonce_finds_nothing(
    buyer: Buyer, service: AgentService, market: str
) -> None:
    """A contract wallet's signature may hold any word."""
    victim = payer(service, "victim")
    hers = await asked(buyer, victim, market, side="no")
    account, chain = payer(service, "contract"), service.chain
    chain.ask("anvil_setCode", account.address, YES_CODE)
    embedding = nonce_of(hers.envelope) * 3 + hers.key
    theirs = await asked(buyer, account, market, signature=embedding)
    one_unit = sign(theirs.offer, account, now=chain.now, nonce=nonce_of(theirs.envelope), value="1")
    await overtaken(buyer, service, [theirs, hers], [spending(chain, one_unit), spending(chain, hers.envelope)])
    await settle_down(service)
    assert not is_staked(service, theirs, 4 * USD)
    await never_asked_again(buyer, service, hers)
    assert is_staked(service, hers, 4 * USD)
    # Left by the tests before: units that are gifts, and a plain transfer, which is no stake.
    assert unbooked(service) % (4 * USD) <= 2


@pytest.mark.thorough
async def test_two_racing_payers_both_get_their_stake(buyer: Buyer, service: AgentService, market: str) -> None:
    one, other = payer(service, "one"), payer(service, "other")
    offers = [await asked(buyer, one, market), await asked(buyer, other, market)]
    chain = service.chain
    await overtaken(buyer, service, offers, [spending(chain, each.envelope) for each in offers])
    answers = await asyncio.gather(*(never_asked_again(buyer, service, each) for each in offers))
    assert [each["receipt"]["sizeUsd"] for each in answers] == [4, 4]
    assert all(is_staked(service, each, 4 * USD) for each in offers)


# ---------------------------------------------------------------- the honest payer, coming back


@pytest.mark.parametrize("comes_back", ["with it", "without it", "never", "late", "after the keeper"])
@pytest.mark.thorough
async def test_a_payment_sent_without_us_becomes_its_payers_stake(
    buyer: Buyer, service: AgentService, market: str, comes_back: str
) -> None:
    who, chain = payer(service, "honest"), service.chain
    mine = await asked(buyer, who, market)
    answers = await overtaken(buyer, service, [mine], [spending(chain, mine.envelope)])
    response, refused = answers[0]
    assert (response.status, refused["retriable"]) == (429, True), refused
    assert "reached the contract directly" in refused["message"]
    if comes_back == "without it":
        response, refused = await buyer.post(mine.body)
        assert (response.status, refused["error"]) == (429, "rate_limited"), refused
    if comes_back == "late":
        chain.ask("evm_increaseTime", 600)
        chain.mine()
    if comes_back in ("never", "after the keeper", "without it"):
        await settle_down(service)
    if comes_back != "never":
        paid = await never_asked_again(buyer, service, mine, pays=comes_back != "without it")
        assert paid["receipt"]["sizeUsd"] == 4
    assert is_staked(service, mine, 4 * USD)


@pytest.mark.thorough
async def test_a_payment_submitted_after_it_was_used_is_booked_for_its_bet(
    buyer: Buyer, service: AgentService, market: str
) -> None:
    """The API had never seen it. One call is enough: the keeper books it, though the payer does not come back."""
    who, chain = payer(service, "honest"), service.chain
    hook = "https://example.org/hook"
    mine = await asked(buyer, who, market, callbackUrl=hook)
    chain.send(spending(chain, mine.envelope), STRANGER.address)
    response, refused = await buyer.post(mine.body, headers=mine.headers)
    assert (response.status, refused["retriable"]) == (429, True), refused
    callbacks = "SELECT url FROM agent_webhook WHERE trade_id = %s"
    assert rows(service, callbacks, bytes_of(mine.offer["extra"]["intentNonce"])) == [(hook,)]
    # It serves no other bet, by anyone, and its payer is not asked for another payment.
    response, other = await buyer.post({**mine.body, "side": "no"}, headers=mine.headers)
    assert (response.status, other["error"]) == (422, "payment_invalid"), other
    response, refused = await buyer.post(mine.body)
    assert (response.status, refused["retriable"]) == (429, True), refused
    await settle_down(service)
    assert is_staked(service, mine, 4 * USD)


@pytest.mark.thorough
async def test_payments_are_accounted_for_before_a_bet_is_refused(buyer: Buyer, service: AgentService) -> None:
    """The market closes before its payer comes: she is answered that her money goes back, not that it closed."""
    chain, who = service.chain, payer(service, "honest")
    market = chain.list(f"m-{secrets.token_hex(4)}", closes_at=chain.now + 300)
    await buyer.shows(market)
    before = chain.balance(who.address)
    mine = await asked(buyer, who, market)
    chain.send(spending(chain, mine.envelope), STRANGER.address)
    chain.warp_to(chain.now + 400)
    async with asyncio.timeout(PATIENCE):
        while (await buyer.get(f"/markets/{market}"))[1]["market"]["status"] != "closed":
            await asyncio.sleep(0.05)
    refused = await never_asked_again(buyer, service, mine)
    assert refused["error"] == "payment_invalid"
    assert "the market had closed" in refused["message"]
    booked = rows(service, "SELECT refund_reason, amount FROM agent_stake WHERE idem_hash = %s", mine.key)
    assert booked == [(RefundReason.CLOSED, 4 * USD)]
    await run_job(service.env, "agent-pay")
    await until(lambda: chain.balance(who.address) == before)


async def test_only_a_cancelled_authorization_asks_for_a_fresh_one(
    buyer: Buyer, service: AgentService, market: str
) -> None:
    """It does not before the index has the cancellation; then the same key takes another payment."""
    who, chain = payer(service, "honest"), service.chain
    mine = await asked(buyer, who, market)
    service.stop("indexer")
    chain.send(cancelling(chain, who, nonce_of(mine.envelope)), STRANGER.address)
    response, refused = await buyer.post(mine.body, headers=mine.headers)
    assert (response.status, refused["retriable"]) == (429, True), refused
    assert "not been indexed yet" in refused["message"]
    service.start("indexer")
    for _ in range(100):
        response, refused = await buyer.post(mine.body, headers=mine.headers)
        if response.status == 422:
            break
        assert response.status == 429, refused
        await asyncio.sleep(0.1)
    assert refused["error"] == "payment_invalid"
    assert "cancelled by its signer" in refused["message"]
    assert "Sign a new authorization" in refused["hint"]
    response, paid = await buyer.buy(mine.body, who)
    assert response.status == 200, paid
    assert is_staked(service, mine, 4 * USD)


async def test_a_nonce_that_paid_another_receiver_is_not_called_safe(
    buyer: Buyer, service: AgentService, market: str
) -> None:
    """The index holds payments to us alone, so what used the nonce is never seen; the API does not wait for it."""
    who, chain = payer(service, "pays twice"), service.chain
    mine = await asked(buyer, who, market)
    theirs = sign(mine.offer, who, now=chain.now, nonce=nonce_of(mine.envelope), to=STRANGER.address)
    chain.send(spending(chain, theirs), STRANGER.address)
    response, refused = await buyer.post(mine.body, headers=mine.headers)
    assert (response.status, refused["retriable"]) == (429, True), refused
    assert "is safe" not in refused["hint"], refused
    assert "another recipient" in refused["hint"], refused
    assert service.chain.stake(mine.who.address, mine.body["idemKey"]) is None


async def test_an_authorization_that_has_paid_pays_for_nothing_else(
    buyer: Buyer, service: AgentService, market: str
) -> None:
    for form in Form:
        who = payer(service, "honest")
        mine = await asked(buyer, who, market)
        envelope = sign(mine.offer, who, now=service.chain.now, form=form)
        response, paid = await buyer.post(mine.body, headers=header(envelope))
        assert response.status == 200, paid
        response, refused = await buyer.post({**mine.body, "idemKey": "another-key-0001"}, headers=header(envelope))
        said = f"{refused['message']} {refused['hint']}".lower()
        assert (response.status, refused["error"]) == (422, "payment_invalid"), refused
        assert not any(each in said for each in PAY_AGAIN), refused


# ---------------------------------------------------------------- too late


async def test_a_payment_whose_window_passed_in_the_queue_is_never_sent(
    buyer: Buyer, service: AgentService, market: str
) -> None:
    """The relayer dies and comes back after the authorization's end: no gas is spent, and the payer is asked afresh."""
    who, chain = payer(service, "waits"), service.chain
    mine = await asked(buyer, who, market)
    ends = int(mine.envelope["payload"]["authorization"]["validBefore"])
    service.kill("relayer")
    try:
        response, pending = await buyer.post(mine.body, headers=mine.headers)
        assert (response.status, pending["retriable"]) == (429, True), pending
        chain.warp_to(ends + 1)
        chain.mine()
    finally:
        service.start("relayer")
    query = (
        "SELECT i.state, i.reason_code, i.not_after, i.nonce FROM outbox_intent i JOIN agent_trade t "
        "ON t.intent_id = i.id WHERE t.idem_hash = %s"
    )
    await until(lambda: rows(service, query, mine.key)[0][0] not in ("queued", "signed", "sent"))
    assert rows(service, query, mine.key) == [("failed", "expired", ends, None)]
    response, paid = await buyer.buy(mine.body, who)
    assert response.status == 200, paid
    assert is_staked(service, mine, 4 * USD)


# ---------------------------------------------------------------- gas


# isValidSignature that burns 2,600,000 gas, and accepts.
BURNS_A_LOT = "0x620186a05b6001900380600457" + YES_CODE[2:]
# Burns all it is given where that is paid for (a gas price is set), and accepts for next to nothing where it is asked.
BURNS_WHEN_MINED = "0x3a601257" + YES_CODE[2:] + "5b601256"
# The same, as long as the wallet's first word of storage is 0.
BURNS_WHILE_EMPTY = "0x3a1515600054151660" + "1957" + YES_CODE[2:] + "5b601956"


@pytest.mark.parametrize(("code", "is_sent"), [(BURNS_A_LOT, False), (BURNS_WHEN_MINED, True)])
async def test_a_contract_wallet_burns_at_most_the_gas_limit_of_a_settlement(
    buyer: Buyer, service: AgentService, market: str, code: str, is_sent: bool
) -> None:
    """If the simulation shows the burning, nothing is sent; if only the block shows it, it is capped."""
    chain, ceiling = service.chain, 600_000
    account = payer(service, "burner")
    chain.ask("anvil_setCode", account.address, code)
    theirs = await asked(buyer, account, market, signature=b"\x12" * 65)
    response, refused = await buyer.post(theirs.body, headers=theirs.headers)
    # What shows in the block alone looks like a bet that others overtook: it may be sent again, ten times a minute.
    assert response.status == (429 if is_sent else 422), refused
    assert service.chain.stake(theirs.who.address, theirs.body["idemKey"]) is None
    gas, sent = rows(
        service,
        "SELECT coalesce(max(gas_used), 0), count(gas_used) FROM outbox_intent i JOIN agent_trade t "
        "ON t.intent_id = i.id WHERE t.wallet = %s",
        bytes.fromhex(account.address[2:]),
    )[0]
    assert (gas <= ceiling, bool(sent)) == (True, is_sent)


async def test_a_contract_wallet_burns_our_gas_only_a_few_times(
    buyer: Buyer, service: AgentService, market: str
) -> None:
    """The wallet calls its signature valid in every simulation; no other payer is the worse for it."""
    chain = service.chain
    account, honest = payer(service, "burner"), payer(service, "honest")
    chain.ask("anvil_setCode", account.address, BURNS_WHEN_MINED)
    answers = []
    for size in range(1, 8):  # of sizes that differ, so that none duplicates another
        theirs = await asked(buyer, account, market, size, signature=b"\x12" * 65)
        answers.append(await buyer.post(theirs.body, headers=theirs.headers))
    burnt = rows(
        service,
        "SELECT coalesce(sum(gas_used), 0), count(*) FROM outbox_intent i JOIN agent_trade t ON t.intent_id = i.id "
        "WHERE t.wallet = %s AND i.outcome = 'reverted'",
        bytes.fromhex(account.address[2:]),
    )[0]
    assert burnt[1] <= 4, burnt
    response, last = answers[-1]
    assert (response.status, last["error"], last["retriable"]) == (429, "rate_limited", True), last
    assert "the service's gas" in last["message"], last
    assert int(response.headers["Retry-After"]) >= 60
    mine = await asked(buyer, honest, market)
    response, paid = await buyer.post(mine.body, headers=mine.headers)
    assert response.status == 200, paid


async def test_reverts_of_five_wallets_do_not_exclude_a_newcomer_with_the_same_code(
    buyer: Buyer, service: AgentService, market: str
) -> None:
    """The newcomer binds its payment to its bet. The others' refusals carry the escape kit."""
    chain, burners, newcomer = service.chain, [payer(service, "burner") for _ in range(5)], payer(service, "newcomer")
    for each in (*burners, newcomer):
        chain.ask("anvil_setCode", each.address, BURNS_WHILE_EMPTY)
    chain.ask("anvil_setStorageAt", newcomer.address, "0x0", "0x" + f"{1:064x}")

    async def pays(who: Wallet, size: float) -> tuple[aiohttp.ClientResponse, Any]:
        trade = bet(market, who, size=size)
        _, challenge = await buyer.post(trade)
        offer = challenge["accepts"][0]
        envelope = sign(offer, who, now=chain.now, nonce=bytes.fromhex(offer["extra"]["intentNonce"][2:]))
        envelope["payload"]["signature"] = "0x" + "12" * 65
        return await buyer.post(trade, headers=header(envelope))

    for size in range(1, 5):  # of sizes that differ, so that none duplicates another
        for burner in burners:
            response, refused = await pays(burner, size)
            assert response.status == 429, refused
    assert "wallets with this code reverted" in refused["message"], refused
    kit = refused["escapeKit"]
    assert kit["to"] == chain.contracts.settlement.address
    assert kit["data"].startswith("0x")
    reverted = (
        "SELECT count(*) FROM outbox_intent i JOIN agent_trade t ON t.intent_id = i.id WHERE i.outcome = 'reverted'"
    )
    wallets_of_five = [bytes.fromhex(each.address[2:]) for each in burners]
    assert rows(service, f"{reverted} AND t.wallet = ANY(%s)", wallets_of_five)[0][0] >= 16
    response, paid = await pays(newcomer, 4)
    assert response.status == 200, paid


# ---------------------------------------------------------------- W2, as far as the API shows it


@pytest.mark.parametrize("kind", [0, 2])
async def test_bets_end_in_the_second_shown(buyer: Buyer, service: AgentService, kind: int) -> None:
    chain, who = service.chain, payer(service, "honest", usd=100)
    name = chain.list(f"m-{secrets.token_hex(4)}", kind=kind, closes_at=chain.now + 600)
    await buyer.shows(name)
    side = "yes" if kind == 0 else "up"
    closes = chain.terms(name)["startAt" if kind == 2 else "endsAt"]  # what decides
    market = (await buyer.get(f"/markets/{name}"))[1]["market"]
    deadline = rows(service, "SELECT closes_at FROM agent_market WHERE market_id = %s", chain.key(name))[0][0]
    assert market["deadlineAt"] == time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(deadline))
    assert deadline < closes
    chain.warp_to(deadline - 30)
    await until(lambda: rows(service, "SELECT block_time FROM chain_cursor")[0][0] >= deadline - 30)
    await asyncio.sleep(0.3)
    _, quoted = await buyer.get("/quote", marketId=name, side=side, sizeUsd=20)
    assert "closes_soon" in [each["code"] for each in quoted["quote"]["warnings"]], quoted
    left = rows(service, "SELECT max(extract(epoch FROM expires_at - created_at)) FROM agent_quote WHERE quote_id = %s",
                quoted["quote"]["quoteId"])[0][0]  # fmt: skip
    assert left <= 30
    response, challenge = await buyer.post(bet(name, who, side=side))
    assert response.status == 402, challenge
    assert challenge["accepts"][0]["maxTimeoutSeconds"] <= 30
    chain.warp_to(deadline)
    await until(lambda: rows(service, "SELECT block_time FROM chain_cursor")[0][0] >= deadline)
    await asyncio.sleep(0.3)
    for answer in (
        await buyer.get("/quote", marketId=name, side=side, sizeUsd=1),
        await buyer.post(bet(name, who, side=side)),
    ):
        response, refused = answer
        assert (response.status, refused["error"]) == (409, "market_closed"), refused
    assert (await buyer.get(f"/markets/{name}"))[1]["market"]["status"] == "closed"
