"""32 clients buy while the API and the relayer are killed at random: nothing is lost, nothing settles twice.

In every round all of them hammer one and the same idempotency key, each with a payment of its own signing, and each has
a key of its own beside it, until everybody holds the receipt. What happened is read from the chain. Short by default;
`VPM_TEST_LONG=1` drills for two minutes, `VPM_TEST_SECONDS` sets another length. The seed is printed; `VPM_TEST_SEED`
repeats it.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from eth_utils.crypto import keccak

from core.agent.bet import idem_hash
from core.chain import checksum
from core.money import USD
from scripts._stack import wallets
from scripts._stack.wallets import Wallet
from tests.support.agent_chain import AgentChain
from tests.support.agent_service import AgentService, agent_service
from tests.support.buyer import Buyer, bet, header, sign
from tests.support.genesis import Genesis, chain
from tests.waiting import wait

LONG = os.environ.get("VPM_TEST_LONG") == "1"
SECONDS = float(os.environ.get("VPM_TEST_SECONDS", "120" if LONG else "20"))
CLIENTS = 32
MAX_PAUSE_BETWEEN_KILLS = 5.0
# What a client may be told besides its receipt, once it has sent a payment: never that it should pay again.
TRY_AGAIN = {429, 500, 503}
EACH_STARTS_WITH = 1_000 * USD

STAKED = (
    "0x"
    + keccak(
        text="Staked(bytes32,uint256,address,uint8,uint256,uint256,uint256,bytes32,bytes32,bytes32,address,bytes32)"
    ).hex()
)
AUTHORIZATION_USED = "0x" + keccak(text="AuthorizationUsed(address,bytes32)").hex()


@dataclass
class Drill:
    """What was paid for, and what the clients were told."""

    buyer: Buyer
    service: AgentService
    chance: random.Random
    market: str
    trades: list[tuple[dict[str, Any], Wallet, dict[str, Any]]] = field(default_factory=list)
    answers: Counter[int] = field(default_factory=Counter)
    kills: Counter[str] = field(default_factory=Counter)
    lost_connections: int = 0

    # ------------------------------------------------------------ clients

    async def one_key_for_all(self, who: Wallet) -> None:
        """Every client posts the same trade with its own signature; all end with the same receipt."""
        body = bet(self.market, who, size=self.size())
        offer = (await self.challenged(body))["accepts"][0]
        receipts = await asyncio.gather(*(self.bought(body, who, offer) for _ in range(CLIENTS)))
        assert all(each == receipts[0] for each in receipts), "two clients hold different receipts for one key"
        self.trades.append((body, who, receipts[0]))

    async def a_key_for_each(self, payers: list[Wallet]) -> None:
        bodies = [bet(self.market, who, self.chance.choice(("yes", "no")), self.size()) for who in payers]

        async def buy(body: dict[str, Any], who: Wallet) -> None:
            offer = (await self.challenged(body))["accepts"][0]
            self.trades.append((body, who, await self.bought(body, who, offer)))

        await asyncio.gather(*(buy(body, who) for body, who in zip(bodies, payers, strict=True)))

    def size(self) -> float:
        return float(self.chance.randrange(1_000_000, 3_000_000) / USD)

    async def challenged(self, body: dict[str, Any]) -> dict[str, Any]:
        while True:
            with contextlib.suppress(aiohttp.ClientError, TimeoutError):
                response, content = await self.buyer.post(body)
                if response.status == 402:
                    return dict(content)
                assert response.status in TRY_AGAIN, content
            await self.pause()

    async def bought(self, body: dict[str, Any], who: Wallet, offer: dict[str, Any]) -> dict[str, Any]:
        """Posts one and the same payment until there is a receipt.

        Nobody is asked to pay again, but for one case: the authorization ran out (120 s) before anybody could take it
        in, so that it can never be used.
        """
        signed = sign(offer, who, now=int(time.time()))
        while True:
            try:
                response, content = await self.buyer.post(body, headers=header(signed))
            except (aiohttp.ClientError, TimeoutError):
                self.lost_connections += 1
            else:
                self.answers[response.status] += 1
                if response.status == 200:
                    return dict(content["receipt"])
                if response.status == 402 and time.time() > int(signed["payload"]["authorization"]["validBefore"]) - 10:
                    assert "validBefore" in content["error"], content
                    signed = sign(content["accepts"][0], who, now=int(time.time()))
                else:
                    assert response.status in TRY_AGAIN, (response.status, content)
            await self.pause()

    async def pause(self) -> None:
        await asyncio.sleep(self.chance.uniform(0.05, 0.4))

    # ------------------------------------------------------------ faults

    async def kill_at_random(self, until: float) -> None:
        """Kills until then. What is killed stays up for as long as it took to come back, so that a slow machine has a
        service to drill at all."""
        took = 0.0
        while True:
            await asyncio.sleep(took + self.chance.uniform(0.5, MAX_PAUSE_BETWEEN_KILLS))
            if time.monotonic() > until:
                return
            victims = self.chance.choice((["api"], ["relayer"], ["api", "relayer"]))
            for name in victims:
                assert self.service.running[name].alive(), f"{name} ended by itself:\n{self.service.log(name)[-3000:]}"
                await asyncio.to_thread(self.service.kill, name)
                self.kills[name] += 1
            killed = time.monotonic()
            await asyncio.sleep(self.chance.uniform(0, 0.5))
            await asyncio.to_thread(self.service.start, *victims)
            took = time.monotonic() - killed


@pytest.fixture
def service(local_genesis: Genesis, fresh_database_url: str, tmp_path: Path) -> Iterator[AgentService]:
    with chain(local_genesis, "base", tmp_path / "anvil.log", block_seconds=1) as base:
        played = AgentChain.on(base.url, base.deployment)
        played.list("drill", virtual=2_000 * USD)
        env = {"VPM_RELAYER_LEASE_SECONDS": "2"}
        with agent_service(played, fresh_database_url, local_genesis.deployments, tmp_path, **env) as running:
            running.start("indexer", "relayer", "api")
            yield running


@pytest.fixture
async def buyer(service: AgentService) -> AsyncIterator[Buyer]:
    patience = aiohttp.ClientTimeout(total=30)
    async with aiohttp.ClientSession(timeout=patience, connector=aiohttp.TCPConnector(limit=0)) as session:
        made = Buyer(session, service)
        await made.shows("drill")
        yield made


@pytest.mark.timeout(300 + 4 * SECONDS)
@pytest.mark.thorough
async def test_nothing_is_lost_and_nothing_settles_twice(buyer: Buyer, service: AgentService) -> None:
    seed = int(os.environ.get("VPM_TEST_SEED", random.randrange(2**32)))
    print(f"seed {seed}")
    drill = Drill(buyer, service, random.Random(seed), "drill")
    payers = [wallets.wallet(f"drill payer {number}") for number in range(CLIENTS)]
    shared = [wallets.wallet(f"drill shared {number}") for number in range(6 + int(SECONDS))]
    await asyncio.to_thread(fund, service.chain, [*payers, *shared])
    contract_before = await asyncio.to_thread(balance, service.chain, service.chain.contracts.settlement.address)

    started, rounds = time.monotonic(), 0
    async with asyncio.TaskGroup() as both:  # a failure of either ends the other
        both.create_task(drill.kill_at_random(started + SECONDS))
        while rounds == 0 or time.monotonic() - started < SECONDS:
            await asyncio.gather(drill.one_key_for_all(shared[rounds]), drill.a_key_for_each(payers))
            rounds += 1
    print(
        f"{rounds} rounds, {len(drill.trades)} trades, kills {dict(drill.kills)}, "
        f"answers to payments {dict(drill.answers)}, {drill.lost_connections} connections lost"
    )
    assert drill.kills, "nothing was killed"
    assert len(drill.trades) == rounds * (CLIENTS + 1)
    await asyncio.to_thread(the_chain_agrees, drill, contract_before)


def fund(played: AgentChain, who: list[Wallet]) -> None:
    """Money from a dev wallet, all transfers at once."""
    source, token = wallets.DEV[0].address, played.contracts.token
    played.ask("anvil_setBalance", source, hex(10**20))
    played.ask("anvil_impersonateAccount", source)
    calls = [token.call("transfer", each.address, EACH_STARTS_WITH) for each in who]
    sent = [
        played.ask("eth_sendTransaction", {**call.parameters(), "from": source, "gas": hex(100_000)}) for call in calls
    ]
    # One sender's go in order.
    wait(lambda: played.ask("eth_getTransactionReceipt", sent[-1]), "the wallets' money", pause=0.1)
    assert all(played.ask("eth_getTransactionReceipt", each)["status"] == "0x1" for each in sent)


def balance(played: AgentChain, address: str) -> int:
    return int(played.read(played.contracts.token.call("balanceOf", address)))


def the_chain_agrees(drill: Drill, contract_before: int) -> None:
    """One stake for each trade and no other, in the transaction its receipt names; all money accounted for."""
    played = drill.service.chain
    settlement, token = played.contracts.settlement.address, played.contracts.token.address

    def logs(address: str, topic: str) -> list[dict[str, Any]]:
        given = {"fromBlock": "0x0", "toBlock": "latest", "address": address, "topics": [topic]}
        return list(played.ask("eth_getLogs", given))

    wanted = {(who.address.lower(), idem_hash(body["idemKey"]).hex()): receipt for body, who, receipt in drill.trades}
    assert len(wanted) == len(drill.trades)
    spent: Counter[str] = Counter()
    found: Counter[tuple[str, str]] = Counter()
    for entry in logs(settlement, STAKED):
        # outcome, amount, fee, shares, nonce, betHash, idemHash, builder, ref: one word each
        words = [entry["data"][2 + 64 * at : 66 + 64 * at] for at in range(9)]
        wallet, key = "0x" + entry["topics"][3][26:], words[6]
        found[wallet, key] += 1
        spent[wallet] += int(words[1], 16)
        receipt = wanted[wallet, key]
        assert (receipt["tradeId"], receipt["txHash"]) == ("0x" + words[5], entry["transactionHash"])
    assert set(found) == set(wanted), "a trade with a receipt is not on chain, or the other way round"
    assert set(found.values()) == {1}, "a trade settled twice"
    assert len(logs(token, AUTHORIZATION_USED)) == len(wanted), "a second authorization of a trade was used"
    for wallet in spent:
        assert balance(played, checksum(wallet)) == EACH_STARTS_WITH - spent[wallet]
    assert balance(played, settlement) - contract_before == spent.total()
