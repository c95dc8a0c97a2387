"""A world of the stock side: signed bets on short markets, from the listing to the payout."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from core.contracts.deployments import load_deployment
from core.money import USD
from core.outbox import KEEPER, OPENER, RELAY
from scripts._stack import wallets
from scripts._stack.wallets import wallet
from tests.simulator.judgement import Judgement
from tests.simulator.stock_bettors import StockCrowd
from tests.simulator.stock_contracts import StockTruth
from tests.simulator.stock_sentences import StockJudge
from tests.simulator.stories import NODE_URLS, Side

if TYPE_CHECKING:
    from tests.simulator.world import World

# A short market is listed within seconds, strikes two minutes later and ends five minutes after that; the next ticker's
# follows after 45 s.
BETTING_SECONDS = 75
STRIKES = (120, 170)
ENDS = 415
FINALITY_BLOCKS = 12
BEGAN_WITH = 10_000 * USD
# What is always on its way, and no bettor's.
_BUSY = ("price", "open", "approve")


class StockSide(Side):
    def __init__(self, world: World, deployments: Path, database_url: str) -> None:
        self.world = world
        self.truth = StockTruth(world.chain, load_deployment(deployments / "stock.json"))
        self._database_url = database_url
        self._dice = world.dice("withdrawals")
        self.crowd = StockCrowd(
            world.url,
            world.clock,
            world.dice("crowd"),
            [wallet(f"simulated bettor {n}") for n in range(8)],
            judge=self.truth.answer,
            judge_receipt=self.truth.receipt,
            lean=world.dice("lean").choice((0.3, 0.5, 0.8, 0.95)),
        )

    def environment(self) -> dict[str, str]:
        keys = {
            f"stock:{RELAY}+{KEEPER}": wallets.RELAY_LANES[0],
            f"stock:{RELAY}": wallets.RELAY_LANES[1],
            f"stock:{OPENER}": wallets.OPENER,
        }
        return {
            "VPM_STOCK_RPC_URLS": NODE_URLS,
            "VPM_STOCK_FINALITY_BLOCKS": str(FINALITY_BLOCKS),
            "VPM_RELAYER_KEYS": ",".join(f"{lane}={one.private_key}" for lane, one in keys.items()),
        }

    def begin(self) -> None:
        self.truth.mint([each.address for each in self.crowd.wallets], BEGAN_WITH)

    async def story(self) -> None:
        """List the first market and let clients bet in rough weather. Then have calm, in which some owners withdraw
        what was refused and no more markets are listed, the readings at the strikes, the ends, rough settlement and
        payouts, and calm until all is done."""
        world = self.world
        await self.listed("SELECT 1 FROM stock_market WHERE family = 2", 40)
        await self.bets_until(BETTING_SECONDS)
        self._withdraw()
        world.calm()
        # No new short markets: one would always be about to end, and all would hardly ever be done.
        world.restart("keeper", VPM_KEEPER_LOCAL_DRILLS="0")
        await self.answers_until(STRIKES[0] - 5)
        for strike in STRIKES:
            await world.sleep_until(strike - 5)
            await world.until(strike + 15)
        await world.sleep_until(ENDS)
        world.storm()
        await world.until(ENDS + 60)
        world.calm()
        await self.the_end(240)

    def _withdraw(self) -> None:
        for each in self.crowd.bets:
            if each.position is not None and self._dice.random() < 0.3:
                try:
                    refused = self.truth.refund(each.position)
                except ValueError:  # a fork undid it
                    continue
                if refused:
                    self.truth.withdraw(each.wallet.address, each.position)

    def is_over(self) -> bool:
        """Return whether all markets with a bet that could end have ended, only new markets and prices are pending, and
        every payout is delivered, also in markets without a bet."""
        markets = sorted({each.market for each in self.crowd.bets} & set(self.truth.markets()))  # others a fork undid
        (found,) = self.world.database.ask(
            "SELECT (SELECT count(*) FROM outbox_intent WHERE state IN ('queued', 'signed', 'sent')"
            "  AND kind <> ALL(%s)),"
            " (SELECT count(*) FROM stock_market WHERE market_id = ANY(%s) AND closed_tx IS NULL AND family = 2),"
            " (SELECT count(*) FROM stock_market WHERE closed_tx IS NULL AND final_time < %s)",
            list(_BUSY),
            markets,
            int(self.world.clock.now),
        )
        return found == (0, 0, 0) and not any(
            self.truth.due(each) for market in self.truth.markets() for each in self.truth.positions_of(market)
        )

    async def judge(self, chain_url: str) -> Judgement:
        return await StockJudge(self.truth, self.crowd, self._database_url, BEGAN_WITH).all(chain_url)
