"""The circuit breaker against a clock we move."""

from __future__ import annotations

import pytest

from core.chain.endpoint import CircuitBreaker
from core.chain.errors import RpcError, RpcErrorKind
from core.chain.provider import ChainProvider


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def _opened(clock: Clock) -> CircuitBreaker:
    breaker = CircuitBreaker(clock)
    for _ in range(breaker.threshold):
        breaker.failed()
    return breaker


def test_opens_only_after_failures_in_a_row(clock: Clock) -> None:
    breaker = CircuitBreaker(clock)
    for _ in range(5):
        breaker.failed()
        breaker.failed()
        breaker.succeeded()
    assert breaker.state == "closed"
    breaker.failed()
    breaker.failed()
    breaker.failed()
    assert breaker.state == "open"
    assert not breaker.allows()


def test_one_probe_when_the_rest_is_over(clock: Clock) -> None:
    breaker = _opened(clock)
    clock.now += breaker.first_rest_seconds
    assert breaker.state == "half-open"
    assert breaker.allows()
    assert not breaker.allows()
    breaker.succeeded()
    assert breaker.state == "closed"
    assert breaker.allows()


def test_a_failed_probe_rests_twice_as_long_up_to_a_bound(clock: Clock) -> None:
    breaker = _opened(clock)
    rests = []
    for _ in range(8):
        rest = 0.0
        while not breaker.allows():
            clock.now += 0.5
            rest += 0.5
        rests.append(rest)
        breaker.failed()
    assert rests == [1, 2, 4, 8, 16, 30, 30, 30]


def test_failures_of_requests_that_were_already_out_do_not_lengthen_the_rest(clock: Clock) -> None:
    breaker = _opened(clock)
    for _ in range(20):
        breaker.failed()
    clock.now += breaker.first_rest_seconds
    assert breaker.allows()


def test_retry_after_opens_at_once_and_is_bounded(clock: Clock) -> None:
    breaker = CircuitBreaker(clock)
    breaker.failed(rest_seconds=7)
    clock.now += 6.9
    assert not breaker.allows()
    clock.now += 0.2
    assert breaker.allows()
    breaker.failed(rest_seconds=3600)
    clock.now += breaker.longest_asked_seconds
    assert breaker.allows()


def test_a_rate_limit_that_many_requests_meet_at_once_is_one(clock: Clock) -> None:
    breaker = CircuitBreaker(clock)
    for seconds in (2, 3, *14 * (2,)):
        breaker.failed(rest_seconds=seconds)
    clock.now += 2.5
    assert not breaker.allows()
    clock.now += 0.5
    assert breaker.allows()


def test_an_answer_to_a_request_that_was_already_out_does_not_end_the_rest(clock: Clock) -> None:
    breaker = CircuitBreaker(clock)
    breaker.failed(rest_seconds=2)
    breaker.succeeded()
    assert not breaker.allows()
    clock.now += 2
    assert breaker.allows()
    breaker.succeeded()
    assert breaker.state == "closed"


def test_an_abandoned_probe_is_offered_to_the_next(clock: Clock) -> None:
    breaker = _opened(clock)
    clock.now += 1
    assert breaker.allows()
    breaker.abandoned()
    assert breaker.allows()


@pytest.mark.parametrize(("urls", "rest"), [(("http://one",), 4), (("http://one", "http://two"), 30)])
async def test_a_url_without_another_rests_for_seconds_only(urls: tuple[str, ...], rest: float) -> None:
    async with ChainProvider(urls, chain_id=1) as provider:
        for endpoint in provider._endpoints:
            clock = endpoint.breaker.clock = Clock()
            for _ in range(3):
                endpoint.failed(RpcError(RpcErrorKind.TIMEOUT, "no answer"))
            for _ in range(8):
                clock.now += 30
                assert endpoint.breaker.allows()
                endpoint.failed(RpcError(RpcErrorKind.TIMEOUT, "no answer"))
            clock.now += rest - 0.1
            assert not endpoint.breaker.allows()
            clock.now += 0.1
            assert endpoint.breaker.allows()
