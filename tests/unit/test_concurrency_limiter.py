"""Places for what goes on for a while."""

from __future__ import annotations

from contextlib import ExitStack

import pytest

from api.limits import ConcurrencyLimiter, LimiterFull

ONE, OTHER, MACHINE = "203.0.113.9", "198.51.100.9", "127.0.0.1"


def test_one_caller_does_not_take_every_place() -> None:
    places = ConcurrencyLimiter(5, 2)
    with ExitStack() as held:
        for _ in range(2):
            held.enter_context(places.place(ONE))
        with pytest.raises(LimiterFull) as refused:
            held.enter_context(places.place(ONE))
        assert refused.value.own
        held.enter_context(places.place(OTHER))
    with places.place(ONE):
        pass  # they were given back


@pytest.mark.parametrize(
    "callers",
    [
        pytest.param([f"2001:db8:1:{number:x}::/64" for number in range(400)], id="an IPv6 customer's own"),
        pytest.param([f"203.0.113.{number}" for number in range(200)], id="neighbours in IPv4"),
    ],
)
def test_one_network_does_not_take_every_place_by_its_many_addresses(callers: list[str]) -> None:
    places, refused = ConcurrencyLimiter(75, 2), 0
    with ExitStack() as held:
        for caller in callers:
            try:
                held.enter_context(places.place(caller))
            except LimiterFull as none:
                refused += none.own
        assert len(callers) - refused == 25
        for stranger in ("2001:db8:2::/64", "198.51.100.1", "unknown"):
            held.enter_context(places.place(stranger))


def test_there_are_only_so_many_for_all() -> None:
    places = ConcurrencyLimiter(2, 1)
    with places.place(MACHINE), places.place(MACHINE), pytest.raises(LimiterFull) as refused, places.place(ONE):
        pass
    assert not refused.value.own
