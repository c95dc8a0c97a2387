"""docs/guide.md as a newcomer follows it: start the product, run the examples as they stand."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.genesis import Genesis
from tests.support.stack import stack_of

ROOT = Path(__file__).resolve().parents[2]
LISTED_SECONDS = 60
pytestmark = pytest.mark.timeout(240)


@pytest.fixture(scope="module")
def ready(local_genesis: Genesis, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    with stack_of(local_genesis, tmp_path_factory.mktemp("guide")) as stack:
        told = stack.ready()
        _until(told["base_url"] + "/api/agent/v1/markets?status=open&type=market_cap", lambda body: body["markets"])
        _until(told["base_url"] + "/api/cup/v1/markets", lambda body: body["markets"])
        _until(told["base_url"] + "/api/markets", lambda body: any(m["acceptingBets"] for m in body["markets"]))
        yield told
        assert stack.stop() == 0


def _until(url: str, holds: Callable[[Any], object]) -> None:
    """The keeper lists markets in the first seconds of a stack."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    deadline = time.monotonic() + LISTED_SECONDS
    while True:
        with opener.open(url, timeout=10) as answer:
            body = json.load(answer)
        if holds(body):
            return
        assert time.monotonic() < deadline, f"{url} never came to that: {body}"
        time.sleep(0.2)


@pytest.mark.parametrize("name", ["bet", "buy", "bound", "paid_tools", "paper", "tools"])
def test_an_example_runs_as_it_stands(ready: dict[str, Any], name: str) -> None:
    wallet = ready["dev_wallets"][0]
    env = {key: value for key, value in os.environ.items() if "proxy" not in key.lower()}
    done = subprocess.run(
        [sys.executable, str(ROOT / "docs" / "examples" / f"{name}.py")],
        env={**env, "VPM_URL": ready["base_url"], "VPM_KEY": wallet["private_key"]},
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    said = {
        "bet": "accepted",
        "buy": "proof",
        "bound": "if it wins",
        "paid_tools": "paid by 0x",
        "paper": "balance 9975",
        "tools": "place_roulette_bet",
    }
    assert said[name] in done.stdout


def test_every_example_is_in_the_guide_and_the_other_way_round() -> None:
    guide = (ROOT / "docs" / "guide.md").read_text()
    examples = {path.name for path in (ROOT / "docs" / "examples").glob("*.py")}
    assert examples == {name for name in examples if f"(examples/{name})" in guide}
    assert guide.count("(examples/") == len(examples)
