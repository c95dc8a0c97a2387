"""The record of what our contracts compile to, scripts/_deploy/bytecode.json."""

from __future__ import annotations

import asyncio
import json
import shutil
from types import SimpleNamespace

import pytest

from core.contracts.deployments import load_deployment
from scripts._deploy.flow import require_recorded
from scripts._deploy.session import ScriptRefused
from scripts._stack import contracts
from scripts._stack.genesis import compiled_code, creation_code
from scripts._vpm import bytecode
from tests.support.genesis import Genesis

MAX_CODE = 24_576  # EIP-170
ROOM = 2_000


@pytest.fixture
def codes(local_genesis: Genesis) -> dict[str, bytes]:
    """The build that the genesis was deployed from."""
    assert contracts.compiled()
    return {name: creation_code(name) for name in bytecode.CONTRACTS}


def test_this_checkout_builds_the_recorded_bytes(codes: dict[str, bytes]) -> None:
    assert bytecode.built() == json.loads(bytecode.RECORD.read_text())
    assert bytecode.unrecorded(codes) == []


@pytest.mark.timeout(600)
def test_the_recorded_build_is_what_the_sources_compile_to() -> None:
    """A local chain is given the record, so nothing else in these tests would notice a stale one."""
    recorded = contracts.recorded_build()
    assert recorded is not None, "the sources changed: python -m scripts._vpm.bytecode"
    folder = bytecode.ROOT / ".vpm" / "build" / "compiled-anew"  # ape treats temporary folders differently
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    built = asyncio.run(contracts.compile_anew(folder))["contractTypes"]
    assert sorted(recorded["contractTypes"]) == sorted(built)
    for name, one in recorded["contractTypes"].items():
        assert one == {part: built[name][part] for part in one}, name


def test_everything_that_is_deployed_is_recorded(local_genesis: Genesis) -> None:
    deployed = {
        name.split(" ")[0]
        for chain in ("base", "stock")
        for name in load_deployment(local_genesis.state.deployment(chain)).contracts
    }
    assert deployed == set(bytecode.CONTRACTS)


def test_no_contract_is_near_the_size_limit(codes: dict[str, bytes]) -> None:
    """Room to mend: what is at the limit can only be changed by taking something out."""
    sizes = {name: len(compiled_code(name).removeprefix("0x")) // 2 for name in bytecode.CONTRACTS}
    assert {name: size for name, size in sizes.items() if size > MAX_CODE - ROOM} == {}


def test_another_build_is_not_deployed_to_a_live_network(codes: dict[str, bytes]) -> None:
    def project(built: dict[str, bytes]) -> SimpleNamespace:
        """As much of ape's project as is asked: a contract's creation code."""
        types = {
            name: SimpleNamespace(contract_type=SimpleNamespace(get_deployment_bytecode=lambda code=code: code))
            for name, code in built.items()
        }
        return SimpleNamespace(**types)

    require_recorded(project(codes))
    changed = {**codes, "RoundResolver": codes["RoundResolver"][:-1] + b"\xff"}
    with pytest.raises(ScriptRefused, match=r"RoundResolver: this build differs from scripts/_deploy/bytecode\.json"):
        require_recorded(project(changed))
