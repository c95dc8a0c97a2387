"""The markers `@pytest.mark.proves("agent.trade.error.market_closed", ...)`, whose ids are checked at collection, and
`@pytest.mark.thorough`: what it shows an ordinary `./vpm test` has shown already, on less (tests/README.md)."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.requirements.manifest import manifest

proves = pytest.mark.proves


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "proves(*ids): the requirements (tests/requirements/*.toml) this test proves")
    config.addinivalue_line("markers", "thorough: not in an ordinary ./vpm test, but with --thorough, as CI runs it")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Stop before any test runs when a mark names a requirement that does not exist."""
    if hasattr(config, "workerinput"):
        return  # a parallel worker cannot refuse a collection; there the test itself fails, below
    faults = {f"{item.nodeid.split('[', 1)[0]}: {fault}" for item in items for fault in _faults(item)}
    if faults:
        raise pytest.UsageError("\n".join(sorted(faults)))


def pytest_runtest_setup(item: pytest.Item) -> None:
    if faults := list(_faults(item)):
        pytest.fail("\n".join(faults), pytrace=False)


def _faults(item: pytest.Item) -> Iterator[str]:
    for mark in item.iter_markers("proves"):
        if not mark.args or mark.kwargs:
            yield "proves() takes one or more ids and no keywords"
        for pattern in mark.args:
            try:
                manifest().expand(pattern)
            except LookupError as unknown:
                yield str(unknown.args[0])
