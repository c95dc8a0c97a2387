"""Places for what goes on for a while."""

from __future__ import annotations

from contextlib import ExitStack

import pytest

from api.http.places import NoPlace, Places

ONE, OTHER, MACHINE = "203.0.113.9", "203.0.113.10", "127.0.0.1"


def test_one_caller_does_not_take_every_place() -> None:
    places = Places(5, 2)
    with ExitStack() as held:
        for _ in range(2):
            held.enter_context(places.taken(ONE))
        with pytest.raises(NoPlace) as refused:
            held.enter_context(places.taken(ONE))
        assert refused.value.own
        held.enter_context(places.taken(OTHER))
    with places.taken(ONE):
        pass  # they were given back


def test_there_are_only_so_many_for_all() -> None:
    places = Places(2, 1)
    with places.taken(MACHINE), places.taken(MACHINE), pytest.raises(NoPlace) as refused, places.taken(ONE):
        pass
    assert not refused.value.own
