"""A world of the cup: paper markets that follow the agent side's, from the listing to the payout, and the wheel."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from scripts._stack.wallets import wallet
from tests.simulator.agent_side import AgentSide
from tests.simulator.cup_players import CupCrowd
from tests.simulator.cup_sentences import CupJudge
from tests.simulator.judgement import Judgement

if TYPE_CHECKING:
    from tests.simulator.world import World


class CupSide(AgentSide):
    """The cup in one world. Its story is the agent side's, whose markets it follows."""

    ends_within = 240  # a result pays when it is final: to anvil that is 64 blocks later

    def __init__(self, world: World, deployments: Path, database_url: str) -> None:
        super().__init__(world, deployments, database_url)
        players = [wallet(f"simulated player {n}") for n in range(6)]
        self.players = CupCrowd(world.url, world.clock, world.dice("players"), players)
        self.crowd = self.players

    def environment(self) -> dict[str, str]:
        window = {"VPM_CUP_OPENS_AT": "2030-01-01T00:00:00Z", "VPM_CUP_CLOSES_AT": "2031-01-01T00:00:00Z"}
        return {**super().environment(), **window}

    def begin(self) -> None:
        """Do nothing, because paper money is not minted on a chain."""

    def is_over(self) -> bool:
        """Return whether every market with a trade and every round with a bet is settled."""
        (found,) = self.world.database.ask(
            "SELECT (SELECT count(*) FROM outbox_intent WHERE state IN ('queued', 'signed', 'sent')),"
            " (SELECT count(*) FROM cup_market c LEFT JOIN agent_market a ON a.market_id = c.market_key"
            "  WHERE c.status = 'open' AND c.trades > 0 AND coalesce(a.settles_after, 0) < %s),"
            " (SELECT count(*) FROM cup_round r WHERE settled_at IS NULL"
            "  AND EXISTS (SELECT FROM cup_bet b WHERE b.round_no = r.round_no))",
            int(self.world.clock.now),
        )
        return found == (0, 0, 0)

    async def judge(self, chain_url: str) -> Judgement:
        return await CupJudge(self.truth, self.players, self._database_url).all(chain_url)
