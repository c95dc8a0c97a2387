"""Places for what goes on for a while: so many in all, and so many of them for one caller and for one network."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager

from api.http.caller import is_local, network
from api.http.problem import Problem


class NoPlace(Exception):
    """The refusal of a place. `own`: the caller, or its network, has all that one may have; else there is none left for
    anybody."""

    def __init__(self, *, own: bool) -> None:
        super().__init__(own)
        self.own = own

    def refusal(self, own: str, full: str, *, code: str = "busy", seconds: int = 10) -> Problem:
        """In the words for the one case or the other. `code`: of the answer when there is no place left for anybody."""
        later = {"Retry-After": str(seconds)}
        return Problem(429, "rate_limited", own, headers=later) if self.own else Problem(503, code, full, headers=later)


class Places:
    """Places that callers take and give back: one caller so many, one network a third. The machine's own programs have
    as many as there are, as with rates."""

    def __init__(self, most: int, most_each: int) -> None:
        self._most, self._most_each = most, most_each
        self._most_of_network = max(most_each, most // 3)
        self._taken_by: Counter[str] = Counter()
        self._taken = 0

    @contextmanager
    def taken(self, caller: str) -> Iterator[Callable[[], None]]:
        """Hold a place until the block ends, or until what is yielded is called."""
        counted = {network(caller): self._most_of_network, caller: self._most_each}
        if not is_local(caller) and any(self._taken_by[each] >= most for each, most in counted.items()):
            raise NoPlace(own=True)
        if self._taken >= self._most:
            raise NoPlace(own=False)
        self._taken += 1
        self._taken_by.update(counted.keys())
        with ExitStack() as places_taken:
            places_taken.callback(self._give_back, counted)
            yield places_taken.close

    def _give_back(self, counted: Iterable[str]) -> None:
        self._taken -= 1
        for each in counted:
            self._taken_by[each] -= 1
            if not self._taken_by[each]:
                del self._taken_by[each]
