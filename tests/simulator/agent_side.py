"""A world of the agent side: paid bets on up/down rounds of a published feed, from the listing to the payout."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from core.contracts.deployments import load_deployment
from core.money import USD
from core.outbox import CREDIT, KEEPER, LISTER, PUBLISHER, RELAY
from scripts._stack import wallets
from scripts._stack.wallets import wallet
from tests.simulator.bettors import Crowd
from tests.simulator.contracts import Truth
from tests.simulator.judgement import Judgement
from tests.simulator.sentences import AgentJudge
from tests.simulator.stories import NODE_URLS, Side

if TYPE_CHECKING:
    from tests.simulator.world import World

# Bets on the first market end 60 s after the world began; it is decided by the readings of 130 and 430 s, and settled
# from 500 s on.
BETTING_SECONDS, MEASURED_FROM, MEASURED_UNTIL, SETTLES_AFTER = 60, 130, 430, 500
FINALITY_BLOCKS = 12
BEGAN_WITH = 10_000 * USD


class AgentSide(Side):
    ends_within = 120  # seconds of calm

    def __init__(self, world: World, deployments: Path, database_url: str) -> None:
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
        """List the first market, let clients bet in rough weather, then have calm, the round's readings, rough
        settlement and payouts, and calm until all is done."""
        world = self.world
        await self.listed("SELECT 1 FROM agent_market", BETTING_SECONDS / 2)
        await self.bets_until(BETTING_SECONDS + 5)
        world.calm()
        await self.answers_until(MEASURED_FROM - 10)
        await world.sleep_until(MEASURED_FROM - 6)
        await world.until(MEASURED_FROM + 5)
        await world.sleep_until(MEASURED_UNTIL - 3)
        await world.until(MEASURED_UNTIL + 5)
        await world.sleep_until(SETTLES_AFTER - 2)
        world.storm()
        await world.until(SETTLES_AFTER + 20)
        world.calm()
        await self.the_end(self.ends_within)

    def is_over(self) -> bool:
        (found,) = self.world.database.ask(
            "SELECT (SELECT count(*) FROM outbox_intent WHERE state IN ('queued', 'signed', 'sent')),"
            " (SELECT count(*) FROM agent_market WHERE unpaid > 0),"
            " (SELECT count(*) FROM agent_market WHERE status = 1 AND stakes > 0 AND settles_after < %s)",
            int(self.world.clock.now),
        )
        return found == (0, 0, 0)

    async def judge(self, chain_url: str) -> Judgement:
        return await AgentJudge(self.truth, self.crowd, self._database_url, BEGAN_WITH).all(chain_url)
