"""What other nodes, each asked alone, say of readings for want of which money would be given back."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from enum import Enum, auto

from core.chain import ChainClient, RpcError


class NodeVerdict(Enum):
    """What one node says of what another one read."""

    SAME = auto()
    OTHER = auto()
    NONE = auto()  # nothing: it is away, or in no state to answer


@dataclass(frozen=True, slots=True)
class NodeQuorum:
    """The nodes by what they said. A node that is away holds up no money: only one that contradicts does. None are
    asked where one node is all there is."""

    agreeing: tuple[str, ...] = ()
    contradicting: tuple[str, ...] = ()
    silent: tuple[str, ...] = ()

    def reason_to_wait(self, *, waited_long: bool) -> str | None:
        """Return why nothing may rest on the reading yet, as the end of a sentence that says what it is.

        While not one node confirms it, those that are away are waited for, until anyone may void the market.
        """
        if self.contradicting:
            return f", yet not by {_names(self.contradicting)}"
        if self.silent and not self.agreeing and not waited_long:
            return f"; {self._away}"
        return None

    @property
    def remark(self) -> str:
        """Return who was not heard, as the end of a sentence; empty when all were."""
        return f" ({self._away})" if self.silent else ""

    @property
    def _away(self) -> str:
        return f"no answer from {_names(self.silent)}"


NO_OTHER_NODES = NodeQuorum()


async def ask_each(clients: Sequence[ChainClient], ask: Callable[[ChainClient], Awaitable[NodeVerdict]]) -> NodeQuorum:
    """Return what each says; one that answers with an error says something else, if it is in a state to answer."""

    async def verdict_of(client: ChainClient) -> NodeVerdict:
        try:
            return await ask(client)
        except RpcError as error:
            return NodeVerdict.NONE if error.kind.blames_node else NodeVerdict.OTHER

    verdicts = await asyncio.gather(*map(verdict_of, clients))
    by_verdict: dict[NodeVerdict, list[str]] = {verdict: [] for verdict in NodeVerdict}
    for client, verdict in zip(clients, verdicts, strict=True):
        by_verdict[verdict] += client.provider.labels
    agreeing, contradicting, silent = (tuple(by_verdict[verdict]) for verdict in NodeVerdict)
    return NodeQuorum(agreeing, contradicting, silent)


def _names(nodes: tuple[str, ...]) -> str:
    return " and ".join(nodes)
