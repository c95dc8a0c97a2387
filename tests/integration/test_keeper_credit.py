"""A payment that a stranger sent straight to the token, and whose payer never comes back, is booked by the keeper."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import aiohttp
import psycopg
import pytest

from core.chain import checksum
from core.config import Settings
from core.config.keeping import KeeperSettings
from core.db.engine import conninfo
from core.mirror.bet import idem_hash
from keeper.report import Report
from keeper.runner import Runner
from keeper.schedule import BY_NAME
from keeper.service import keeping
from scripts._stack.wallets import DEV, Wallet
from tests import waiting
from tests.support.agent_chain import AgentChain
from tests.support.agent_service import AgentService, agent_service
from tests.support.buyer import Buyer, bet, header, sign
from tests.support.genesis import Genesis, RunningChain

pytestmark = pytest.mark.timeout(240)
until = partial(waiting.until, seconds=40)
PAID = 4_000_000
IN_BOOK, OWED_BACK = 1, 2


@pytest.fixture(scope="module")
def service(
    base_chain: RunningChain, local_genesis: Genesis, database_url: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[AgentService]:
    chain = AgentChain.on(base_chain.url, base_chain.deployment)
    folder: Path = tmp_path_factory.mktemp("credit")
    with agent_service(chain, database_url, local_genesis.deployments, folder) as running:
        running.start("indexer", "relayer", "api")
        yield running


@pytest.fixture
async def buyer(service: AgentService) -> AsyncIterator[Buyer]:
    async with aiohttp.ClientSession() as session:
        yield Buyer(session, service)


async def job(service: AgentService, name: str = "agent-credit", *, dry_run: bool = False) -> Report:
    settings = Settings.model_validate({k: v for k, v in service.env.items() if k in _aliases(Settings)})
    async with keeping(settings, KeeperSettings.model_validate({})) as keeper:
        return await Runner(keeper).run(BY_NAME[name], dry_run=dry_run)


def _aliases(settings: Any) -> set[str]:
    return {each.alias for each in settings.model_fields.values()}


def rows(service: AgentService, query: str, *values: object) -> list[tuple[Any, ...]]:
    with psycopg.connect(conninfo(service.env["DATABASE_URL"]), autocommit=True) as connection:
        return connection.execute(query.encode(), values).fetchall()


def stake_of(service: AgentService, who: Wallet, key: str) -> int:
    contracts = service.chain.contracts
    return int(service.chain.read(contracts.settlement.call("stakeOf", checksum(who.address), idem_hash(key))))


async def overtaken(service: AgentService, buyer: Buyer, who: Wallet, market: str) -> dict[str, Any]:
    """A bet whose payment a stranger uses first, in the same block, while the API dies and the payer goes away."""
    chain, body = service.chain, bet(market, who, size=PAID / 10**6)
    _, challenge = await buyer.post(body)
    envelope = sign(challenge["accepts"][0], who, now=chain.now)
    chain.ask("evm_setAutomine", False)
    try:
        paying = asyncio.create_task(buyer.post(body, headers=header(envelope)))
        sent = "SELECT 1 FROM outbox_intent WHERE kind = 'settle' AND state = 'sent'"
        await until(lambda: bool(rows(service, sent)))
        service.kill("api")
        given = envelope["payload"]["authorization"]
        stolen = chain.contracts.token.call(
            "transferWithAuthorization(address,address,uint256,uint256,uint256,bytes32,bytes)",
            given["from"],
            chain.contracts.settlement.address,
            PAID,
            int(given["validAfter"]),
            int(given["validBefore"]),
            bytes.fromhex(given["nonce"][2:]),
            bytes.fromhex(envelope["payload"]["signature"][2:]),
        )
        stranger, tip = DEV[6].address, hex(5_000 * 10**9)
        chain.ask("anvil_setBalance", stranger, hex(10**22))
        chain.ask("anvil_impersonateAccount", stranger)
        fees = {"gas": hex(500_000), "maxFeePerGas": tip, "maxPriorityFeePerGas": tip}
        chain.ask("eth_sendTransaction", {**stolen.parameters(), "from": stranger, **fees})
        chain.ask("evm_mine")
    finally:
        chain.ask("evm_setAutomine", True)
    with pytest.raises(aiohttp.ClientError):
        await paying
    used = "SELECT 1 FROM token_authorization WHERE nonce = %s"
    await until(lambda: bool(rows(service, used, bytes.fromhex(given["nonce"][2:]))))
    reverted = "SELECT 1 FROM outbox_intent WHERE kind = 'settle' AND outcome = 'reverted'"
    await until(lambda: bool(rows(service, reverted)))
    return body


def wait_a_minute(service: AgentService) -> None:
    service.chain.ask("evm_increaseTime", 61)
    service.chain.ask("evm_mine")


async def test_a_payer_who_never_returns_is_credited_once(service: AgentService, buyer: Buyer) -> None:
    who = DEV[3]
    market = service.chain.list("credit-a-stake")
    await buyer.shows(market)
    body = await overtaken(service, buyer, who, market)
    assert stake_of(service, who, body["idemKey"]) == 0

    early = await job(service)
    assert early.actions == []
    assert "to come back" in early.skipped[0].reason
    wait_a_minute(service)
    rehearsed = await job(service, dry_run=True)
    assert [each.status for each in rehearsed.actions] == ["dry-run"]
    report = await job(service)
    assert [each.kind for each in report.actions] == ["credit"], report.body()
    assert (await job(service)).actions == [], "asked for once"
    await until(lambda: stake_of(service, who, body["idemKey"]) != 0)
    contracts = service.chain.contracts
    shown = service.chain.read(contracts.settlement.call("stake", stake_of(service, who, body["idemKey"])))
    assert (shown["amount"], shown["status"]) == (PAID, IN_BOOK)

    # The payer who asks after all is told of that stake, and not asked to pay.
    service.start("api")
    response, told = await buyer.post(body)
    for _ in range(50):
        if response.status == 200:
            break
        assert response.status != 402, "asked to pay a second time"
        await asyncio.sleep(0.2)
        response, told = await buyer.post(body)
    assert (response.status, told["replay"]) == (200, True)
    wait_a_minute(service)
    assert (await job(service)).actions == [], "what is booked is done"


async def test_a_stake_that_can_no_longer_be_taken_becomes_a_refund(service: AgentService, buyer: Buyer) -> None:
    """Its market closed meanwhile: the money is booked as owed back, and `agent-pay` sends it."""
    who = DEV[4]
    market = service.chain.list("credit-too-late")
    await buyer.shows(market)
    before = service.chain.read(service.chain.contracts.token.call("balanceOf", who.address))
    body = await overtaken(service, buyer, who, market)
    closes = rows(service, "SELECT closes_at FROM agent_market WHERE slug = %s", market)[0][0]
    service.chain.ask("evm_setNextBlockTimestamp", closes + 1)
    service.chain.ask("evm_mine")
    # A week is looked back; the market's life here is longer than that only if a test lists it so.
    assert closes - rows(service, "SELECT max(at) FROM token_authorization")[0][0] < 7 * 86_400
    report = await job(service)
    assert [each.kind for each in report.actions] == ["credit"], report.body()
    owed = "SELECT status, amount FROM agent_stake WHERE wallet = %s AND idem_hash = %s"
    key = (bytes.fromhex(who.address[2:]), idem_hash(body["idemKey"]))
    await until(lambda: bool(rows(service, owed, *key)))
    assert rows(service, owed, *key) == [(OWED_BACK, PAID)]
    await job(service, "agent-pay")
    balance = service.chain.contracts.token.call("balanceOf", who.address)
    await until(lambda: service.chain.read(balance) == before)


async def test_old_price_locks_are_forgotten(service: AgentService) -> None:
    """A day after they expired; until then they are still told apart from locks that never were."""
    for name, hours in (("q_old", 25), ("q_expired", 23), ("q_live", -1)):
        rows(
            service,
            "INSERT INTO agent_quote (quote_id, market_id, outcome, amount, shares, expires_at) VALUES "
            "(%s, %s, 0, 1, 1, now() - make_interval(hours => %s)) RETURNING 1",
            name,
            bytes(32),
            hours,
        )
    report = await job(service, "agent-tidy")
    assert report.ok, report.body()
    assert sorted(rows(service, "SELECT quote_id FROM agent_quote")) == [("q_expired",), ("q_live",)]
