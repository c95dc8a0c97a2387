"""An API that cannot start says what is wrong and ends with 78, with one process and with several."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from core.errors import EXIT_CONFIG
from core.paths import REPOSITORY
from scripts._local.ports import free_port
from tests.support.service import Service, serving
from tests.waiting import PATIENCE


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service[None]]:
    nowhere = f"postgresql://unused@127.0.0.1:{free_port()}/none"
    with serving(Service, None, nowhere, REPOSITORY / "deployments", tmp_path, {}) as made:
        yield made


def test_a_port_that_is_taken_is_named(service: Service[None]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as holder:
        port = holder.getsockname()[1]
        ended = subprocess.run(
            (sys.executable, "-m", "api"),
            env={**service.env, "VPM_PORT": str(port)},
            cwd=REPOSITORY,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )
    said = ended.stdout + ended.stderr
    assert ended.returncode == EXIT_CONFIG, said
    assert f"Cannot listen on 127.0.0.1:{port}" in said
    assert "Set VPM_HOST or VPM_PORT." in said
    assert "CancelledError" not in said
