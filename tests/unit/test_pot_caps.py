"""What the Safe may be asked to allow on a pool feed, compared with what its pools bear."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from core.contracts.deployments import load_deployment, write_deployment
from core.money import USD
from core.paths import REPOSITORY
from scripts._deploy.feeds import PoolLimit, check_cap, evidence_of, with_evidence
from scripts._deploy.session import ScriptRefused
from tests.support.pool_feeds import pool_feed

FOLDER = REPOSITORY / "deployments"
FEED = pool_feed()
CAP = FEED.feed_cap_units  # one push may decide all its markets
UNKNOWN = PoolLimit(None, "the pools did not move")


@pytest.mark.parametrize("local", [True, False])
def test_a_cap_that_the_pools_bear_is_plain(local: bool) -> None:
    said = check_cap(FEED, PoolLimit(CAP, ""), local=local, evidence=None)
    assert said.startswith(f"{FEED.key}: the caps are ")
    assert said.endswith(" USD")


@pytest.mark.parametrize("found", [PoolLimit(CAP - 1, ""), PoolLimit(0, ""), UNKNOWN])
def test_more_needs_evidence_where_the_money_is_real(found: PoolLimit) -> None:
    with pytest.raises(ScriptRefused, match="use --evidence to name"):
        check_cap(FEED, found, local=False, evidence=None)
    assert "because of the evidence recorded in the deployment file: ipfs://x" in check_cap(
        FEED, found, local=False, evidence="ipfs://x"
    )
    assert "its money is not real" in check_cap(FEED, found, local=True, evidence=None)


def test_amounts_are_shown_in_dollars_and_cents() -> None:
    assert "the pools support 1,234.56 USD" in check_cap(FEED, PoolLimit(1_234_569_999, ""), local=True, evidence=None)
    assert "the pools support an unknown amount (the pools did not move)" in check_cap(
        FEED, UNKNOWN, local=True, evidence=None
    )
    assert USD == 10**6


def test_a_file_is_named_with_its_hash(tmp_path: Path) -> None:
    file = tmp_path / "arbitrage.md"
    file.write_text("Measured over a week.")
    digest = hashlib.sha256(b"Measured over a week.").hexdigest()
    assert evidence_of(str(file)) == f"arbitrage.md sha256:{digest}"
    assert evidence_of("https://example.org/a") == "https://example.org/a"
    for given in ("http://example.org/a", "because", str(tmp_path), str(tmp_path / "none")):
        with pytest.raises(ScriptRefused, match="neither an https"):
            evidence_of(given)
    file.write_text(" \n")
    with pytest.raises(ScriptRefused, match="empty"):
        evidence_of(str(file))


def test_the_deployment_file_keeps_it(tmp_path: Path) -> None:
    path = tmp_path / "base.json"
    facts = load_deployment(FOLDER / "base.json").model_copy(update={"feeds": (FEED,)})
    write_deployment(with_evidence(facts, FEED, "ipfs://x", PoolLimit(7, "")), path)
    (kept,) = (each for each in load_deployment(path).pool_feeds if each.key == FEED.key)
    assert kept.model_dump() == FEED.model_dump() | {"pot_cap_evidence": "ipfs://x", "supported_cap_units": 7}
