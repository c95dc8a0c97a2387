"""The sides of the service that a world can simulate."""

from __future__ import annotations

from collections.abc import Mapping

from tests.simulator.agent_side import AgentSide
from tests.simulator.cup_side import CupSide
from tests.simulator.stock_side import StockSide
from tests.simulator.stories import Side

SIDES: Mapping[str, type[Side]] = {"agent": AgentSide, "cup": CupSide, "stock": StockSide}
CHAINS = {"agent": "base", "cup": "base", "stock": "stock"}
