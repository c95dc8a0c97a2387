"""The agent side as a world: paid bets on up/down rounds of a published feed, from the listing to the payout."""

from __future__ import annotations

import asyncio
from pathlib import Path

from core.contracts.deployments import load_deployment
from core.money import USD
from core.outbox import CREDIT, KEEPER, LISTER, PUBLISHER, RELAY
from scripts._stack import wallets
from scripts._stack.wallets import wallet
from tests.simulator.bettors import Crowd
from tests.simulator.clients import Outcome
from tests.simulator.contracts import Truth
from tests.simulator.judgement import Judgement
from tests.simulator.sentences import Judge
from tests.simulator.stories import NODE_URLS, Story, ended

# Bets on the first market end 60 s after the world began; it is decided by the readings of 130 and 430 s, and settled
# from 500 s on.
BETTING_SECONDS, MEASURED_FROM, MEASURED_UNTIL, SETTLES_AFTER = 60, 130, 430, 500
FINALITY_BLOCKS = 12
BEGAN_WITH = 10_000 * USD


class AgentSide:
    """One world's bettors of the agent API, and how it is judged."""

    def __init__(self, world: Story, deployments: Path, database_url: str) -> None:
        self.world = world
        self.truth = Truth(world.chain, load_deployment(deployments / "base.json"))
        self._database_url = database_url
        self.crowd = Crowd(
            world.url,
            world.clock,
            world.dice("crowd"),
            [wallet(f"simulated bettor {n}") for n in range(6)],
            judge=self.truth.answer,
            judge_receipt=self.truth.receipt,
        )

    def environment(self) -> dict[str, str]:
        keys = {
            f"{RELAY}+{KEEPER}": wallets.RELAY_LANES[0],
            RELAY: wallets.RELAY_LANES[1],
            f"base:{LISTER}": wallets.OPENER,
            f"base:{CREDIT}": wallets.CREDITOR,
            f"base:{PUBLISHER}": wallets.PUBLISHER,
        }
        return {
            "VPM_BASE_RPC_URLS": NODE_URLS,
            "VPM_BASE_FINALITY_BLOCKS": str(FINALITY_BLOCKS),
            "VPM_KEEPER_ROUND_SECONDS": "300",
            "VPM_KEEPER_LIST_SERIES": "0",
            "VPM_ATTESTATION_KEY": wallets.ATTESTATION.private_key,
            "VPM_RELAYER_KEYS": ",".join(f"{lane}={one.private_key}" for lane, one in keys.items()),
        }

    def begin(self) -> None:
        self.truth.mint([each.address for each in self.crowd.wallets], BEGAN_WITH)

    async def story(self) -> None:
        """The first market is listed; bets are made while everything goes wrong; calm; the round's readings;
        settlement and payouts, rough again; calm until all is done."""
        while (
            not self.world.database.ask("SELECT 1 FROM agent_market") and self.world.clock.elapsed < BETTING_SECONDS / 2
        ):
            await asyncio.sleep(0.5)
        self.world.storm()
        betting = asyncio.create_task(self.crowd.play(self.world.weather.pace))
        looking = asyncio.create_task(self.crowd.look(2.0))
        await self.world.until(BETTING_SECONDS + 5)
        await ended(betting)
        self.world.calm()
        while (
            any(each.told is Outcome.WAITING for each in self.crowd.bets)
            and self.world.clock.elapsed < MEASURED_FROM - 10
        ):
            await asyncio.sleep(2)
        await self.world.sleep_until(MEASURED_FROM - 6)
        await self.world.until(MEASURED_FROM + 5)
        await self.world.sleep_until(MEASURED_UNTIL - 3)
        await self.world.until(MEASURED_UNTIL + 5)
        await self.world.sleep_until(SETTLES_AFTER - 2)
        self.world.storm()
        await self.world.until(SETTLES_AFTER + 20)
        self.world.calm()
        for _ in range(60):
            await asyncio.sleep(2)
            if self._is_over():
                break
        await asyncio.sleep(6)
        await ended(looking)

    def _is_over(self) -> bool:
        if any(each.told is Outcome.WAITING for each in self.crowd.bets):
            return False
        rows = self.world.database.ask(
            "SELECT (SELECT count(*) FROM outbox_intent WHERE state IN ('queued', 'signed', 'sent')),"
            " (SELECT count(*) FROM agent_market WHERE unpaid > 0),"
            " (SELECT count(*) FROM agent_market WHERE status = 1 AND stakes > 0 AND settles_after < %s),"
            " (SELECT max(number) FROM chain_cursor)",
            int(self.world.clock.now),
        )
        for each in self.crowd.betting:
            if each.done():
                each.result()
        return bool(rows[0][:3] == (0, 0, 0) and rows[0][3] is not None and rows[0][3] >= self.world.chain.head - 1)

    async def judge(self, chain_url: str) -> Judgement:
        return await Judge(self.truth, self.crowd, self._database_url, BEGAN_WITH).all(chain_url)
