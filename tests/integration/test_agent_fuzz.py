"""Generated requests against the published description of the agent surface: none may end in a server error."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.agent_service import AgentChain, AgentService, agent_service
from tests.support.genesis import Genesis, RunningChain


@pytest.fixture
def service(
    base_chain: RunningChain, local_genesis: Genesis, database_url: str, tmp_path: Path
) -> Iterator[AgentService]:
    chain = AgentChain.on(base_chain.url, base_chain.deployment)
    chain.list("fuzzed")
    with agent_service(chain, database_url, local_genesis.deployments, tmp_path) as running:
        running.start("indexer", "relayer", "api")
        yield running


def test_no_request_ends_in_a_server_error(service: AgentService, tmp_path: Path) -> None:
    program = Path(sys.executable).parent / "schemathesis"
    given = {name: value for name, value in os.environ.items() if "proxy" not in name.lower()}
    done = subprocess.run(
        [
            str(program),
            "run",
            f"{service.url}/openapi/agent.json",
            "--url",
            service.url,
            "--checks",
            "not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance",
            "--max-examples",
            "25",
            "--seed",
            "8453",
            "--no-color",
            "--generation-database",
            "none",
        ],
        cwd=tmp_path,
        env=given,
        capture_output=True,
        text=True,
        timeout=250,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
