"""The image's files and packages run the service and what its operator needs: no more is there than in a container."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from core.db.engine import conninfo
from core.local.ports import free_port
from scripts._stack import wallets
from scripts._stack.daemons import DAEMONS, lanes
from scripts._stack.found import local_stack
from scripts._vpm.cli import OF_A_CHECKOUT
from tests.support.genesis import Genesis
from tests.support.image import Image
from tests.support.stack import stack_of

READY_SECONDS = 90

pytestmark = pytest.mark.timeout(420)


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Image:
    return Image(tmp_path_factory.mktemp("image"))


@pytest.fixture(scope="module")
def settings(local_genesis: Genesis, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """Those of a service that runs: the image's daemons are its doubles."""
    with stack_of(local_genesis, tmp_path_factory.mktemp("stack")) as stack:
        stack.ready()
        found = local_stack({}, stack.state)
        assert found is not None
        yield dict(found.variables) | {
            "VPM_RELAYER_KEYS": ",".join(lanes()),
            "VPM_ATTESTATION_KEY": wallets.ATTESTATION.private_key,
            "CRON_SECRET": "sixteen characters",
            "VPM_PORT": str(free_port()),
            **{daemon.metrics_variable: str(free_port()) for daemon in DAEMONS},
        }


def test_every_daemon_of_the_image_gets_ready_and_its_health_check_sees_it(
    image: Image, settings: dict[str, str], tmp_path: Path
) -> None:
    before = image.files()
    assert _said(image.run("migrate", given=settings, ready_file=tmp_path / "none")) == 0
    running = {}
    try:
        for daemon in DAEMONS:
            with (tmp_path / f"{daemon.package}.txt").open("wb") as output:
                running[daemon.package] = subprocess.Popen(
                    image.argv(daemon.package),
                    cwd=image.app,
                    env=image.variables(settings, tmp_path / f"{daemon.package}.json"),
                    stdout=output,
                    stderr=subprocess.STDOUT,
                )
        for name, process in running.items():
            _gets_healthy(image, process, tmp_path / f"{name}.json", tmp_path / f"{name}.txt")
    finally:
        for process in running.values():
            process.terminate()
        ended = {name: process.wait(60) for name, process in running.items()}
    assert ended == dict.fromkeys(running, 0)
    assert image.files() == before, "its file system may be read-only"


def _gets_healthy(image: Image, process: subprocess.Popen[bytes], ready_file: Path, output: Path) -> None:
    deadline = time.monotonic() + READY_SECONDS
    while True:
        probed = image.run(given={}, ready_file=ready_file, module="scripts._status.probe")
        if probed.returncode == 0:
            return
        assert process.poll() is None, output.read_text()
        assert time.monotonic() < deadline, probed.stdout + probed.stderr + output.read_text()
        time.sleep(0.2)


@pytest.mark.parametrize("name", [daemon.package for daemon in DAEMONS])
def test_a_daemon_does_not_start_before_the_migration(
    image: Image, settings: dict[str, str], name: str, tmp_path: Path
) -> None:
    """While a new version is rolled out, the one before goes on until then."""
    before_it = "not_migrated"
    with psycopg.connect(conninfo(settings["DATABASE_URL"]), autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {before_it}")
        try:
            given = {**settings, "DATABASE_URL": settings["DATABASE_URL"].rpartition("/")[0] + "/" + before_it}
            ended = image.run(name, given=given, ready_file=tmp_path / "none")
        finally:
            connection.execute(f"DROP DATABASE {before_it} WITH (FORCE)")
    assert _said(ended) != 0
    assert "older than this code" in ended.stderr


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("audit",), 0),
        (("status",), None),
        (("switch",), 0),
        (("config",), 0),
        (("config", "--check"), 0),
        (("reindex", "stock"), 1),
        (("rebuild", "--help"), 0),
        (("verify", "0x" + "1" * 64), 2),
        (("--help",), 0),
        (("nothing",), 2),
    ],
)
def test_an_operators_commands_are_in_the_image(
    image: Image, settings: dict[str, str], words: tuple[str, ...], code: int | None, tmp_path: Path
) -> None:
    said = _said(image.run(*words, given=settings, ready_file=tmp_path / "none"))
    assert said == code or (code is None and said in (0, 1))


@pytest.mark.parametrize("name", ["audit", "rebuild"])
def test_a_command_that_was_given_nothing_says_what_it_needs(image: Image, name: str, tmp_path: Path) -> None:
    ended = image.run(name, given={}, ready_file=tmp_path / "none")
    assert _said(ended) != 0
    assert "DATABASE_URL" in ended.stderr


@pytest.mark.parametrize("name", sorted(OF_A_CHECKOUT))
def test_a_command_that_needs_a_checkout_says_so(image: Image, name: str, tmp_path: Path) -> None:
    ended = image.run(name, given={}, ready_file=tmp_path / "none")
    assert _said(ended) == 2
    assert "needs a checkout" in ended.stderr


def _said(ended: subprocess.CompletedProcess[str]) -> int:
    assert "Traceback" not in ended.stderr, ended.stderr
    return ended.returncode
