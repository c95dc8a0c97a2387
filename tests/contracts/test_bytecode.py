"""The record of what our contracts compile to, scripts/_deploy/bytecode.json."""

from __future__ import annotations

import json
import posixpath
import re
import subprocess
from types import SimpleNamespace

import pytest
import yaml

from core.contracts.deployments import load_deployment
from core.paths import REPOSITORY
from scripts._deploy import build
from scripts._deploy.build import compiled_code, creation_code
from scripts._deploy.flow import require_recorded
from scripts._deploy.session import ScriptRefused
from tests.support.genesis import Genesis

MAX_CODE = 24_576  # EIP-170
ROOM = 500
IMPORT = re.compile(r'^import\b[^"]*"([^"]+)";', re.MULTILINE)


@pytest.fixture
def codes(local_genesis: Genesis) -> dict[str, bytes]:
    """Return the creation code of the build that the genesis was deployed from."""
    assert build.is_compiled(build.sources_hash())
    return {name: creation_code(name) for name in build.DEPLOYED}


def test_this_checkout_builds_the_recorded_bytes(codes: dict[str, bytes]) -> None:
    assert build.bytecode() == json.loads(build.BYTECODE.read_text())
    assert build.unrecorded(codes) == []
    assert build.abis() == {path.stem: path.read_text() for path in build.ABI.glob("*.json")}


@pytest.mark.thorough
@pytest.mark.timeout(600)
def test_the_recorded_build_is_what_the_sources_compile_to() -> None:
    """Local chains get the record, so no other test would notice that it is stale. The compiler runs without ape, which
    made the record: anyone can do this with the sources and the settings of ape-config.yaml."""
    recorded = build.recorded_build(build.sources_hash())
    assert recorded is not None, "the sources changed: python -m scripts._deploy.build"
    (compiler,) = recorded["compilers"]
    assert compiler["settings"] == _settings()
    parts = ["abi", "evm.bytecode.object", "evm.deployedBytecode.object", "evm.methodIdentifiers"]
    asked = {
        "language": "Solidity",
        "sources": _with_imports(list(recorded["sources"]), compiler["settings"]["remappings"]),
        "settings": {**compiler["settings"], "outputSelection": {"*": {"*": parts}}},
    }
    solc = ["node", REPOSITORY / "scripts" / "solc.js", "--standard-json"]
    answer = json.loads(
        subprocess.run(solc, input=json.dumps(asked), capture_output=True, text=True, check=True).stdout
    )
    assert [each for each in answer.get("errors", ()) if each["severity"] == "error"] == []
    built = {
        name: (file, made) for file in recorded["sources"] for name, made in answer["contracts"].get(file, {}).items()
    }
    assert sorted(recorded["contractTypes"]) == sorted(built)
    for name, one in recorded["contractTypes"].items():
        file, made = built[name]
        evm = made["evm"]
        selectors = {signature: f"0x{selector}" for signature, selector in evm["methodIdentifiers"].items()}
        assert (one["sourceId"], one["contractName"]) == (file, name)
        assert _sorted(one["abi"]) == _sorted(made["abi"]), name
        assert one["methodIdentifiers"] == selectors, name
        assert one["deploymentBytecode"]["bytecode"] == f"0x{evm['bytecode']['object']}", name
        assert one["runtimeBytecode"]["bytecode"] == f"0x{evm['deployedBytecode']['object']}", name


def _settings() -> dict[str, object]:
    """Return the settings of ape-config.yaml in the compiler's terms."""
    config = yaml.safe_load((REPOSITORY / "ape-config.yaml").read_text())
    asked = config["solidity"]
    locked = json.loads((REPOSITORY / "package-lock.json").read_text())["packages"]
    folders = {
        each["name"]: f"contracts/.cache/{each['name']}/{locked['node_modules/' + each['npm']]['version']}"
        for each in config["dependencies"]
    }
    remappings = (each.split("=") for each in asked["import_remapping"])
    return {
        "evmVersion": asked["evm_version"],
        "optimizer": {"enabled": asked["optimize"], "runs": asked["optimization_runs"]},
        "remappings": [f"{name}={folders[package]}" for name, package in remappings],
        "viaIR": asked["via_ir"],
    }


def _with_imports(waiting: list[str], remappings: list[str]) -> dict[str, dict[str, str]]:
    """Return the sources and everything they import, by the paths in the settings."""
    packages = dict(each.split("=") for each in remappings)
    sources: dict[str, dict[str, str]] = {}
    while waiting:
        path = waiting.pop()
        if path in sources:
            continue
        file = path
        for package, folder in packages.items():
            file = file.replace(folder, f"node_modules/{package}")
        text = (REPOSITORY / file).read_text()
        sources[path] = {"content": text}
        for what in IMPORT.findall(text):
            package = next((name for name in packages if what.startswith(f"{name}/")), None)
            relative = posixpath.join(posixpath.dirname(path), what)
            waiting.append(what.replace(package, packages[package]) if package else posixpath.normpath(relative))
    return sources


def _sorted(abi: list[dict[str, object]]) -> list[str]:
    return sorted(json.dumps(entry, sort_keys=True) for entry in abi)


def test_everything_that_is_deployed_is_recorded(local_genesis: Genesis) -> None:
    deployed = {
        name.split(" ")[0]
        for chain in ("base", "stock")
        for name in load_deployment(local_genesis.state.deployment(chain)).contracts
    }
    assert deployed == set(build.DEPLOYED)


def test_no_contract_is_near_the_size_limit(codes: dict[str, bytes]) -> None:
    """Room to mend. Fewer optimizer runs give thousands of bytes more, for up to one percent of gas."""
    sizes = {name: len(compiled_code(name).removeprefix("0x")) // 2 for name in build.DEPLOYED}
    assert {name: size for name, size in sizes.items() if size > MAX_CODE - ROOM} == {}


def test_another_build_is_not_deployed_to_a_live_network(codes: dict[str, bytes]) -> None:
    def project(built: dict[str, bytes]) -> SimpleNamespace:
        """Make a stand-in for ape's project that has only the contracts' creation code."""
        types = {
            name: SimpleNamespace(contract_type=SimpleNamespace(get_deployment_bytecode=lambda code=code: code))
            for name, code in built.items()
        }
        return SimpleNamespace(**types)

    require_recorded(project(codes))
    changed = {**codes, "RoundResolver": codes["RoundResolver"][:-1] + b"\xff"}
    with pytest.raises(ScriptRefused, match=r"this build of RoundResolver differs from scripts/_deploy/bytecode\.json"):
        require_recorded(project(changed))
