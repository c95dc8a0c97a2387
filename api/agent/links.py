"""Links in answers: to the site, the API and the block explorer."""

from __future__ import annotations

from dataclasses import dataclass

from api.agent.facts import ListedMarket
from core.hexadecimal import hex_of


@dataclass(frozen=True, slots=True)
class Links:
    """The links to the site, the API, the documentation and the block explorer. `explorer` is None on a local chain."""

    origin: str
    explorer: str | None
    settlement: str

    @property
    def api(self) -> str:
        return f"{self.origin}/api/agent/v1"

    @property
    def docs(self) -> str:
        return f"{self.origin}/agents.txt"

    @property
    def errors(self) -> str:
        return f"{self.origin}/errors.txt"

    def app(self, market: ListedMarket) -> str:
        return f"{self.origin}/markets/{market.slug}"

    def proof(self, trade_id: bytes) -> str:
        return f"{self.api}/proof/{hex_of(trade_id)}"

    def tx(self, tx: bytes) -> str | None:
        return None if self.explorer is None else f"{self.explorer}/tx/{hex_of(tx)}"

    def address(self, address: str) -> str | None:
        return None if self.explorer is None else f"{self.explorer}/address/{address}"
