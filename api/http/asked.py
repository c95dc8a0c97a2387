"""How often one address may ask for what is made for its request alone: everything that is not answered from memory.

What is dearer has a closer limit of its own. This one keeps a caller who asks without end, of whatever, from the
processor and the database that all share; a page with a hundred visitors behind one address stays far below it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from aiohttp import web
from limits import parse

from api.http.caller import caller_ip
from api.http.limits import RateLimits
from api.http.operation import DocumentedAnswer, Operation
from core.config import Settings

EACH_ADDRESS = parse("3000/minute")
PAGES_EACH_ADDRESS = parse("6000/minute")  # a hundred open pages may ask for themselves once a second


class Asked:
    """The count of what each address asks for. `refused`: how its surface documents the refusal."""

    def __init__(
        self, limits: RateLimits, settings: Settings, refused: DocumentedAnswer, *, pages: bool = False
    ) -> None:
        self._limits = limits
        self._settings = settings
        self._refused = refused
        self._rate, self._rule = (PAGES_EACH_ADDRESS, "pages") if pages else (EACH_ADDRESS, "address")

    async def take(self, request: web.Request) -> None:
        message = f"One address is answered {self._rate.amount:,} times a minute."
        await self._limits.take_from_outside(self._rate, self._rule, caller_ip(request, self._settings), message)

    def counted(self, operations: Iterable[Operation]) -> tuple[Operation, ...]:
        """The operations, each counted before anything else is done, but those that answer from memory or are listened
        to."""
        return tuple(self._counted(each) if each.timed else each for each in operations)

    def _counted(self, operation: Operation) -> Operation:
        answer = operation.handler

        async def handle(request: web.Request) -> web.StreamResponse:
            await self.take(request)
            return await answer(request)

        return replace(operation, handler=handle, answers={429: self._refused, **operation.answers})
