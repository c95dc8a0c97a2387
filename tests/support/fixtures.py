"""pytest fixtures over the local genesis; see tests/support/genesis.py."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.genesis import Genesis, RunningChain, chain, genesis


@pytest.fixture(scope="session")
def local_genesis() -> Genesis:
    """Both chains with everything deployed, saved; start your own from it."""
    return genesis()


@pytest.fixture(scope="module")
def stock_chain(local_genesis: Genesis, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningChain]:
    """The stock chain for one module, a block for each transaction."""
    log: Path = tmp_path_factory.mktemp("stock") / "anvil.log"
    with chain(local_genesis, "vpm", log) as running:
        yield running


@pytest.fixture(scope="module")
def base_chain(local_genesis: Genesis, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningChain]:
    """Base for one module, a block for each transaction."""
    log: Path = tmp_path_factory.mktemp("base") / "anvil.log"
    with chain(local_genesis, "base", log) as running:
        yield running
