"""The mirror against the contract: random trades over 2 to 8 outcomes and random logarithms, with every number equal to
the unit. Python plays market histories on the mirror and writes the results; forge replays them on the deployed
contract. `VPM_TEST_TRADES` sets how many trades (20,000 in a thorough run), `VPM_TEST_SEED` the seed."""

from __future__ import annotations

import os
import random
import re
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from eth_abi.abi import encode

from core.agent.book import MAX_OUTCOMES, MAX_STAKE, MIN_OUTCOMES, MIN_STAKE, Book
from core.agent.fixed import WAD, ln_wad
from core.paths import REPOSITORY
from scripts._vpm.forge import BUILDS
from tests.contracts.forge_runs import forge_test

TRADES = int(os.environ.get("VPM_TEST_TRADES", "20000"))
SEED = os.environ.get("VPM_TEST_SEED", "settlement")
FEW = min(1_000, TRADES)
TRADES_PER_FILE = 1000

pytestmark = pytest.mark.timeout(1_200)  # the first to need the contracts compiles them, and the others wait for it


def replay(test: str, folder: Path) -> str:
    where = f"{folder.relative_to(REPOSITORY)}/"
    run = forge_test("tests/contracts/forge/agent/Vectors.t.sol", "--match-test", test, VPM_SETTLEMENT_VECTORS=where)
    assert run.returncode == 0, run.stdout[-4000:]
    return run.stdout


def spread(rng: random.Random, low: int, high: int) -> int:
    """Return a number in [low, high], all orders of magnitude about equally likely, sometimes the ends themselves."""
    edge = rng.random()
    if edge < 0.02:
        return low if edge < 0.01 else high
    return min(high, low + rng.randrange(1 << rng.randint(1, (high - low).bit_length())))


def market(rng: random.Random) -> tuple[list[int], int]:
    """Return a market's history in the format of Vectors.t.sol, and its number of trades."""
    outcomes = rng.randint(MIN_OUTCOMES, MAX_OUTCOMES)
    weights = [spread(rng, 1, 2**32 - 1) for _ in range(outcomes)]
    fee_bps = rng.choice((0, 1, 100, 200, 333, 1000))
    book = Book.empty(weights, fee_bps)
    favourites = rng.sample(range(outcomes), rng.randint(1, outcomes))
    trades = []
    for _ in range(rng.randint(1, 60)):
        outcome = rng.choice(favourites)
        amount = spread(rng, MIN_STAKE, MAX_STAKE)
        book, got = book.staked(outcome, amount)
        trades.append((outcome, got))
    winner = rng.choice((None, *range(outcomes), *(o for o, _ in trades)))
    words = [outcomes, fee_bps, outcomes if winner is None else winner, len(trades), *weights]
    for outcome, got in trades:
        words += [outcome, got.amount, got.shares, got.fee, got.price_before, got.price_after]
        words.append(book.owed(winner, outcome, got.amount, got.shares))
    for net, shares, excess in zip(book.net, book.shares, book.excess, strict=True):
        words += [net, shares, excess]
    return [len(words), *words], len(trades)


@pytest.fixture
def folder() -> Iterator[Path]:
    """Make a folder that forge may read and only this test writes to."""
    BUILDS.mkdir(parents=True, exist_ok=True)
    made = Path(tempfile.mkdtemp(prefix="settlement-", dir=BUILDS))
    yield made
    shutil.rmtree(made)


def write(file: Path, words: list[int]) -> None:
    file.write_bytes(encode(["uint256[]"], [words]))


@pytest.mark.parametrize("count", [FEW, pytest.param(TRADES, marks=pytest.mark.thorough)], ids=["few", "many"])
def test_the_contract_equals_the_mirror_on_every_trade(folder: Path, count: int) -> None:
    rng = random.Random(SEED)
    done = files = 0
    while done < count:
        words: list[int] = []
        in_file = 0
        while in_file < TRADES_PER_FILE and done < count:
            history, trades = market(rng)
            words += history
            in_file += trades
            done += trades
        write(folder / f"trades-{files}.bin", words)
        files += 1
    replayed = re.search(r"trades replayed (\d+)", replay("test_tradesEqualTheMirror", folder))
    assert replayed is not None
    assert int(replayed[1]) == done >= count


@pytest.mark.thorough
def test_the_logarithm_equals_soladys(folder: Path) -> None:
    rng = random.Random(SEED)
    words = []
    edges = [1, 2, WAD - 1, WAD, WAD + 1, 2**255 - 1, *(2**k for k in range(255)), *(2**k - 1 for k in range(1, 256))]
    for x in edges + [rng.randrange(1, 2 ** rng.randint(1, 255)) for _ in range(20_000)]:
        words += [x, ln_wad(x) % 2**256]
    write(folder / "ln-0.bin", words)
    assert f"logarithms replayed {len(words) // 2}" in replay("test_logarithmsEqualTheMirror", folder)
