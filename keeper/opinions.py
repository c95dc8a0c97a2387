"""What other nodes, each asked alone, say of readings for want of which money would be given back."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from enum import Enum, auto

from core.chain import ChainClient, RpcError


class Word(Enum):
    """What one node says of what another one read."""

    SAME = auto()
    OTHER = auto()
    NONE = auto()  # nothing: it is away, or in no state to answer


@dataclass(frozen=True, slots=True)
class Opinions:
    """The nodes by what they said. A node that is away holds nobody's money: only one that contradicts does. None are
    asked where one node is all there is."""

    echoing: tuple[str, ...] = ()
    contrary: tuple[str, ...] = ()
    silent: tuple[str, ...] = ()

    def hindrance(self, *, waited_long: bool) -> str | None:
        """Why nothing may rest on the reading yet, as the end of a sentence that told it.

        While not one node confirms it, those that are away are waited for, until anybody may give the money back.
        """
        if self.contrary:
            return f", yet not by {_names(self.contrary)}"
        if self.silent and not self.echoing and not waited_long:
            return f"; {self._away}"
        return None

    @property
    def remark(self) -> str:
        """Who was not heard, as the end of a sentence; empty when all were."""
        return f" ({self._away})" if self.silent else ""

    @property
    def _away(self) -> str:
        return f"no answer from {_names(self.silent)}"


NOBODY = Opinions()


async def ask_each(clients: Sequence[ChainClient], ask: Callable[[ChainClient], Awaitable[Word]]) -> Opinions:
    """One that answers with an error says something else, if it is in a state to answer."""

    async def heard(client: ChainClient) -> Word:
        try:
            return await ask(client)
        except RpcError as error:
            return Word.NONE if error.kind.blames_node else Word.OTHER

    said = await asyncio.gather(*map(heard, clients))
    by_word: dict[Word, list[str]] = {word: [] for word in Word}
    for client, word in zip(clients, said, strict=True):
        by_word[word] += client.provider.labels
    return Opinions(tuple(by_word[Word.SAME]), tuple(by_word[Word.OTHER]), tuple(by_word[Word.NONE]))


def _names(nodes: tuple[str, ...]) -> str:
    return " and ".join(nodes)
