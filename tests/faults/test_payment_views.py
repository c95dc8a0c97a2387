"""The agents' API on a node whose answers about one payment do not go together.

A bet on the chain is never called refused, and its payer is not asked to pay again: what one read of the chain missed
is found in the next one, or in the index.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import psycopg
import pytest

from core.agent.bet import idem_hash
from core.agent.book import YES
from core.chain import checksum
from core.contracts.statuses import Form
from core.db.engine import conninfo
from scripts._stack import wallets
from tests.support import questions
from tests.support.agent_chain import AgentChain
from tests.support.agent_service import AgentService
from tests.support.buyer import Buyer, bet, header, sign
from tests.support.inconsistent_node import InconsistentNode
from tests.support.keeper_stakes import bound
from tests.waiting import until

pytestmark = [pytest.mark.timeout(180)]

FORMS = pytest.mark.parametrize("form", list(Form), ids=lambda form: form.name.lower())


class TornNode(InconsistentNode):
    """A node that answers views of one batch far apart, or one of them wrongly.

    held: what the first caller waits for until it is `released`, a method or the selector of a view; `waits` says that
    it does. empty: the selector of a view that is answered with zero.
    """

    def __init__(self, target: str, seed: int) -> None:
        super().__init__(target, seed)
        self.head_seconds = 0.0
        self.held: str | bytes | None = None
        self.empty: bytes | None = None
        self.waits = asyncio.Event()
        self.released = asyncio.Event()

    async def _answer(self, call: dict[str, Any]) -> dict[str, Any]:
        asked = _asked(call)
        if asked == self.held and not self.waits.is_set():
            self.waits.set()
            await self.released.wait()
        answer = await super()._answer(call)
        if asked == self.empty:
            answer["result"] = "0x" + bytes(32).hex()
            self.false_answers += 1
        return answer


def _asked(call: dict[str, Any]) -> str | bytes:
    if call["method"] != "eth_call":
        return str(call["method"])
    view = call["params"][0]
    return bytes.fromhex(view.get("data", view.get("input", ""))[2:10])


@pytest.fixture(scope="module")
def service(base_service: AgentService) -> AgentService:
    base_service.start("indexer", "relayer")
    return base_service


@pytest.fixture
async def node(service: AgentService) -> AsyncIterator[TornNode]:
    """Put the API alone behind a node; the indexer and the relayer ask the chain itself."""
    async with TornNode(service.chain.url, 7) as node:
        await asyncio.to_thread(service.start, "api", VPM_BASE_RPC_URLS=node.url)
        yield node
        node.released.set()
        await asyncio.to_thread(service.stop, "api")


@pytest.fixture
async def buyer(service: AgentService, node: TornNode) -> AsyncIterator[Buyer]:
    async with aiohttp.ClientSession() as session:
        yield Buyer(session, service)


async def signed_bet(
    buyer: Buyer, service: AgentService, form: Form, size: int = 4, name: str | None = None
) -> tuple[dict[str, Any], dict[str, str]]:
    """Return a bet, by default on a new market, and its signed payment; above 10 USD with a quote."""
    name = service.chain.list(f"m-{secrets.token_hex(4)}") if name is None else name
    await buyer.shows(name)
    who = wallets.wallet(f"payer {secrets.token_hex(4)}")
    token = service.chain.contracts.token
    service.chain.send(token.call("transfer", checksum(who.address), 20_000_000), wallets.DEV[0].address)
    body = bet(name, who, size=size)
    if size > 10:
        _, quoted = await buyer.get("/quote", marketId=name, side=body["side"], sizeUsd=size)
        body |= {"quoteId": quoted["quote"]["quoteId"], "minSharesOut": 1}
    offer = (await buyer.challenged(body))["accepts"][0]
    return body, header(sign(offer, who, now=service.chain.now, form=form))


def stakes_of(service: AgentService, body: dict[str, Any]) -> int:
    """Count how often the payer has paid for it."""
    contracts = service.chain.contracts
    left = service.chain.read(contracts.token.call("balanceOf", checksum(body["walletAddress"])))
    paid, rest = divmod(20_000_000 - left, body["sizeUsd"] * 1_000_000)
    assert rest == 0
    stake = service.chain.read(
        contracts.settlement.call("stakeOf", checksum(body["walletAddress"]), idem_hash(body["idemKey"]))
    )
    assert bool(stake) == bool(paid)
    return int(paid)


@FORMS
@pytest.mark.thorough
async def test_a_bet_mined_while_it_is_checked_gets_its_receipt(
    service: AgentService, node: TornNode, buyer: Buyer, form: Form
) -> None:
    """The same call twice at once: between two views of the first one's look the bet of the second one lands."""
    body, headers = await signed_bet(buyer, service, form)
    node.held = service.chain.contracts.token.call(
        "authorizationState", checksum(body["walletAddress"]), bytes(32)
    ).data[:4]
    slow = asyncio.create_task(buyer.post(body, headers=headers))
    await asyncio.wait_for(node.waits.wait(), 20)
    response, first = await buyer.post(body, headers=headers)
    assert response.status == 200, first
    node.released.set()
    response, second = await slow
    assert response.status == 200, second
    assert second["receipt"] == first["receipt"]
    assert stakes_of(service, body) == 1


@FORMS
async def test_a_read_without_the_stake_of_a_booked_payment_is_retriable(
    service: AgentService, node: TornNode, buyer: Buyer, form: Form
) -> None:
    """The first call's look begins when the second one's bet stands, and finds its payment booked, and no stake."""
    body, headers = await signed_bet(buyer, service, form)
    settlement = service.chain.contracts.settlement
    node.held = "eth_getBlockByNumber"
    node.empty = settlement.call("stakeOf", checksum(body["walletAddress"]), bytes(32)).data[:4]
    slow = asyncio.create_task(buyer.post(body, headers=headers))
    await asyncio.wait_for(node.waits.wait(), 20)
    response, first = await buyer.post(body, headers=headers)
    assert response.status == 200, first
    node.released.set()
    response, second = await slow
    assert node.false_answers > 0
    assert response.status == 200, second
    assert second["receipt"] == first["receipt"]
    assert stakes_of(service, body) == 1


async def test_nodes_without_the_head_are_asked_again(service: AgentService, node: TornNode, buyer: Buyer) -> None:
    """Behind one address, one of two nodes is a block late: every bet has its receipt all the same."""
    bets = [await signed_bet(buyer, service, form) for form in (*Form, *Form)]
    node.views = (0, 1)
    for body, headers in bets:
        service.chain.mine()
        response, answer = await buyer.post(body, headers=headers)
        assert response.status == 200, answer
        assert stakes_of(service, body) == 1


@pytest.mark.parametrize("fills", [False, True], ids=["its key is used", "it filled the pot"])
async def test_a_bet_that_its_payer_sent_is_not_refused_for_its_own_effects(
    service: AgentService, node: TornNode, buyer: Buyer, fills: bool
) -> None:
    """The relayer is away, so she sends the kit, and then the same request again. The relayer learns that the contract
    refuses the bet; the node that the API asks does not have that block yet, nor does the index."""
    chain = service.chain
    body, headers = await signed_bet(buyer, service, Form.RECEIVE)
    service.stop("relayer")
    _, refused = await buyer.post(body, headers=headers)
    service.start("relayer")
    await works(buyer)
    service.stop("indexer")
    try:
        before = chain.block
        if fills:
            fill_up(service, body, but=4_000_000)
        send(chain, refused["escapeKit"])
        node.views = (chain.block - before,)
        response, answer = await buyer.post(body, headers=headers)
    finally:
        service.start("indexer")
    attempt = "SELECT i.state, i.reason_code FROM outbox_intent i JOIN agent_trade t ON t.intent_id = i.id "
    attempts = questions.rows(service.env["DATABASE_URL"], attempt + "ORDER BY i.id DESC LIMIT 1")
    assert attempts == [("failed", "PotFull" if fills else "IdempotencyKeyUsed")]
    assert (response.status, answer["error"], answer["retriable"]) == (429, "rate_limited", True), answer
    assert "moneyMoved" not in answer, answer
    node.views = (0,)
    assert (await until_receipt(buyer, body, headers))["tradeId"] is not None
    assert stakes_of(service, body) == 1


async def test_a_bet_that_lands_while_it_is_checked_is_not_refused(
    service: AgentService, node: TornNode, buyer: Buyer
) -> None:
    """She sends the kit, and the same request again, whose quote expires before it is answered. By then the index
    has her stake; the node that is asked about it does not."""
    chain, database = service.chain, service.env["DATABASE_URL"]
    body, headers = await signed_bet(buyer, service, Form.RECEIVE, size=12)
    service.stop("relayer")
    try:
        _, refused = await buyer.post(body, headers=headers)
        with psycopg.connect(conninfo(database)) as connection:
            connection.execute("LOCK TABLE agent_quote IN ACCESS EXCLUSIVE MODE")
            asking = asyncio.create_task(buyer.post(body, headers=headers))
            waits = (
                "SELECT 1 FROM pg_locks JOIN pg_stat_activity USING (pid)"
                " WHERE relation = 'agent_quote'::regclass AND NOT granted AND datname = current_database()"
            )
            await until(lambda: bool(questions.rows(database, waits)))
            send(chain, refused["escapeKit"])
            node.views = (1,)
            key = idem_hash(body["idemKey"])
            await until(lambda: bool(questions.rows(database, "SELECT 1 FROM agent_stake WHERE idem_hash = %s", key)))
            connection.execute("UPDATE agent_quote SET expires_at = now() - interval '1 second'")
        response, answer = await asking
    finally:
        service.start("relayer")
    assert (response.status, answer.get("replay")) == (200, True), answer
    assert stakes_of(service, body) == 1


async def test_a_bet_that_landed_before_its_market_closed_is_not_refused_for_the_close(
    service: AgentService, node: TornNode, buyer: Buyer
) -> None:
    """She sends the kit in the market's last seconds and, once the clock has closed it, the same request again: neither
    the index nor the node has her block yet. A bet that was not sent is refused once a block is past the close."""
    chain = service.chain
    closes_at = int(time.time()) + 12
    market = chain.list(f"m-{secrets.token_hex(4)}", closes_at=closes_at)
    body, headers = await signed_bet(buyer, service, Form.RECEIVE, name=market)
    other, unsent = await signed_bet(buyer, service, Form.RECEIVE, name=market)
    service.stop("relayer")
    try:
        _, refused = await buyer.post(body, headers=headers)
        service.stop("indexer")
        send(chain, refused["escapeKit"])
        node.views = (1,)
        await asyncio.sleep(closes_at + 1 - time.time())
        answers = [await buyer.post(it, headers=its) for it, its in ((body, headers), (other, unsent))]
    finally:
        service.start("indexer", "relayer")
    for response, answer in answers:
        assert (response.status, answer["error"], answer["retriable"]) == (429, "rate_limited", True), answer
        assert answer["message"].startswith("The market's closing time has passed"), answer
    node.views = (0,)
    await until_receipt(buyer, body, headers)
    assert stakes_of(service, body) == 1
    chain.mine()
    response, answer = await buyer.post(other, headers=unsent)
    assert (response.status, answer["error"], answer["retriable"]) == (409, "market_closed", False), answer


async def until_receipt(buyer: Buyer, body: dict[str, Any], headers: dict[str, str]) -> dict[str, Any]:
    """Send the same request again until its receipt comes."""
    answer: dict[str, Any] = {}

    async def sent() -> dict[str, Any] | None:
        nonlocal answer
        response, answer = await buyer.post(body, headers=headers)
        if response.status == 200:
            return dict(answer["receipt"])
        assert answer["retriable"] is True, answer
        return None

    return await until(sent, lambda: f"the receipt, not {answer}", pause=0.5)


def send(chain: AgentChain, kit: dict[str, Any]) -> None:
    """Send the call from the answer and return when it is mined."""
    chain.ask("anvil_impersonateAccount", wallets.DEV[7].address)
    given = {"from": wallets.DEV[7].address, "to": kit["to"], "data": kit["data"], "gas": hex(2_000_000)}
    chain.receipt(chain.ask("eth_sendTransaction", given))


async def works(buyer: Buyer) -> None:
    """Wait until trades are taken again."""

    async def well() -> bool:
        return bool((await buyer.get("/health"))[1]["health"]["ok"])

    await until(well, "health", pause=0.1)


def fill_up(service: AgentService, body: dict[str, Any], *, but: int) -> None:
    """Stake all that the side of this bet takes, less `but`."""
    chain, who = service.chain, wallets.wallet("fills pots")
    identity = body["marketId"]
    market = chain.read(chain.contracts.settlement.call("market", chain.key(identity)))
    held = chain.read(chain.contracts.settlement.call("outcomeBook", chain.key(identity), YES))["net"]
    size = (market["potCap"] - held) * 10_000 // (10_000 - market["feeBps"]) - but
    given = bound(chain.deployment, chain.now, who, identity, YES, size, secrets.token_hex(8))
    minted = chain.contracts.token.call("mint", checksum(who.address), size)
    settled = chain.contracts.settlement.call("settle", given.bet, given.authorization)
    for call in (minted, settled):
        chain.send(call, wallets.DEV[6].address)
