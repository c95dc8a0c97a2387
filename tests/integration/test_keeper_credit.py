"""Payments sent directly to the token by payers who never come back: the keeper books what they brought, and no
more."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Mapping
from typing import Any

import aiohttp
import pytest

from core.agent.bet import idem_hash
from core.config import Settings
from core.config.settings import KeeperSettings
from core.contracts.statuses import RefundReason, StakeStatus
from core.money import USD
from keeper.jobs import BY_NAME, Runner
from keeper.run import RunReport
from keeper.service import open_keeper
from scripts._stack import wallets
from scripts._stack.wallets import DEV, Wallet
from tests.support import questions
from tests.support.agent_payments import nonce_of, offered, spending
from tests.support.agent_service import AgentService
from tests.support.buyer import Buyer, bet, header, sign
from tests.waiting import until

pytestmark = pytest.mark.timeout(300)
PAID = 4 * USD
STRANGER = DEV[6]
UNTIL_FINAL = 70  # blocks; the node calls final what is 64 deep


async def job(service: AgentService, name: str = "agent-credit", *, dry_run: bool = False) -> RunReport:
    settings = Settings.model_validate({k: v for k, v in service.env.items() if k in _aliases(Settings)})
    async with open_keeper(settings, KeeperSettings.model_validate({})) as keeper:
        return await Runner(keeper).run(BY_NAME[name], dry_run=dry_run)


def _aliases(settings: Any) -> set[str]:
    return {each.alias for each in settings.model_fields.values()}


def rows(service: AgentService, query: str, *values: object) -> list[tuple[Any, ...]]:
    return questions.rows(service.env["DATABASE_URL"], query, *values)


def payer(service: AgentService, role: str) -> Wallet:
    who = wallets.wallet(f"{role} {secrets.token_hex(4)}")
    service.chain.give(who.address, 20 * USD)
    return who


async def overtaken(
    service: AgentService, buyer: Buyer, who: Wallet, market: str
) -> tuple[dict[str, Any], Mapping[str, Any]]:
    """Send a bet of 4 USDC whose nonce is used on the token first, in the same block, while the API dies and the payer
    goes away; return the body and the envelope that the API was sent."""
    chain, body = service.chain, bet(market, who, size=PAID / USD)
    _, challenge = await buyer.post(body)
    envelope = sign(challenge["accepts"][0], who, now=chain.now)
    given = envelope["payload"]["authorization"]
    nonce = nonce_of(envelope)
    with chain.held():
        paying = asyncio.create_task(buyer.post(body, headers=header(envelope)))
        sent = (
            "SELECT 1 FROM outbox_intent i JOIN agent_trade t ON t.intent_id = i.id "
            "WHERE i.kind = 'settle' AND i.state = 'sent' AND t.nonce = %s"
        )
        await until(lambda: bool(rows(service, sent, nonce)))
        service.kill("api")
        offered(chain, spending(chain, envelope), STRANGER.address)
        chain.ask("evm_mine")
    with pytest.raises(aiohttp.ClientError):
        await paying
    assert given["from"] == who.address
    used = "SELECT 1 FROM token_authorization WHERE nonce = %s"
    await until(lambda: bool(rows(service, used, nonce)))
    reverted = (
        "SELECT 1 FROM outbox_intent i JOIN agent_trade t ON t.intent_id = i.id "
        "WHERE i.outcome = 'reverted' AND t.nonce = %s"
    )
    await until(lambda: bool(rows(service, reverted, nonce)))
    service.start("api")
    return body, envelope


async def becomes_final(service: AgentService, nonce: bytes) -> None:
    service.chain.mine(UNTIL_FINAL)
    final = (
        "SELECT 1 FROM chain_cursor c JOIN token_authorization a USING (chain_id) "
        "WHERE a.nonce = %s AND a.block_number <= coalesce(c.finalized_number, c.number - 4)"
    )
    await until(lambda: bool(rows(service, final, nonce)))


def of(report: RunReport, who: Wallet) -> list[tuple[str, str]]:
    return [(each.kind, each.detail) for each in report.actions if who.address.lower() in each.target]


def left(report: RunReport, who: Wallet) -> list[str]:
    return [each.reason for each in report.skipped if who.address.lower() in each.target]


@pytest.mark.thorough
async def test_a_payer_who_never_returns_is_credited_once_and_not_before_it_is_final(
    service: AgentService, buyer: Buyer
) -> None:
    who = payer(service, "away")
    market = service.chain.list("credit-a-stake")
    await buyer.shows(market)
    body, envelope = await overtaken(service, buyer, who, market)
    assert service.chain.stake(who.address, body["idemKey"]) is None

    early = await job(service)
    assert (of(early, who), left(early, who)) == ([], []), "a reorganization could still swap it"
    await becomes_final(service, nonce_of(envelope))
    assert [each.status for each in (await job(service, dry_run=True)).actions] == ["dry-run"]
    report = await job(service)
    assert [kind for kind, _ in of(report, who)] == ["credit"], report.body()
    assert (await job(service)).actions == [], "asked for once"
    await until(lambda: service.chain.stake(who.address, body["idemKey"]) is not None)
    shown = service.chain.stake(who.address, body["idemKey"])
    assert (shown["amount"], shown["status"]) == (PAID, StakeStatus.IN_BOOK)
    lanes = "SELECT DISTINCT lane_group FROM outbox_intent WHERE kind = 'credit'"
    assert rows(service, lanes) == [("credit",)], "the creditor's key alone books direct payments"

    # A payer who comes back after all gets that stake, and is not asked to pay.
    response, said = await buyer.post(body)
    for _ in range(50):
        if response.status == 200:
            break
        assert response.status != 402, "asked to pay a second time"
        await asyncio.sleep(0.2)
        response, said = await buyer.post(body)
    assert (response.status, said["replay"]) == (200, True)
    await becomes_final(service, nonce_of(envelope))
    assert (await job(service)).actions == [], "what is booked is done"


async def test_a_stake_that_can_no_longer_be_taken_becomes_a_refund(service: AgentService, buyer: Buyer) -> None:
    who = payer(service, "late")
    closes = service.chain.now + 1_800
    market = service.chain.list("credit-too-late", closes_at=closes)
    await buyer.shows(market)
    before = service.chain.balance(who.address)
    body, envelope = await overtaken(service, buyer, who, market)
    service.chain.warp_to(closes)
    await becomes_final(service, nonce_of(envelope))
    eight_days_ago = "UPDATE token_authorization SET at = at - 8 * 86400 WHERE nonce = %s RETURNING 1"
    assert rows(service, eight_days_ago, nonce_of(envelope))
    report = await job(service)
    assert [kind for kind, _ in of(report, who)] == ["credit"], report.body()
    owed = "SELECT status, amount, refund_reason FROM agent_stake WHERE wallet = %s AND idem_hash = %s"
    key = (bytes.fromhex(who.address[2:]), idem_hash(body["idemKey"]))
    await until(lambda: bool(rows(service, owed, *key)))
    assert rows(service, owed, *key) == [(StakeStatus.OWED_BACK, PAID, RefundReason.CLOSED)]
    await job(service, "agent-pay")
    await until(lambda: service.chain.balance(who.address) == before)


async def test_old_price_locks_are_forgotten(service: AgentService) -> None:
    """A day after they expired; until then they differ from locks that never existed."""
    for name, hours in (("q_old", 25), ("q_expired", 23), ("q_live", -1)):
        rows(
            service,
            "INSERT INTO agent_quote (quote_id, market_id, outcome, amount, expires_at) VALUES "
            "(%s, %s, 0, 1, now() - make_interval(hours => %s)) RETURNING 1",
            name,
            bytes(32),
            hours,
        )
    report = await job(service, "agent-tidy")
    assert report.ok, report.body()
    assert sorted(rows(service, "SELECT quote_id FROM agent_quote")) == [("q_expired",), ("q_live",)]
