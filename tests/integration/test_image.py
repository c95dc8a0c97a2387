"""The image's files and packages run the service and its operator's commands, with no more than a container has."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from core.db.engine import conninfo
from scripts._local.ports import free_port
from scripts._stack import wallets
from scripts._stack.deploying import lanes
from scripts._stack.parts import DAEMONS, metrics_variable
from scripts._vpm.cli import CHECKOUT_ONLY, local_stack
from tests.support.genesis import Genesis
from tests.support.image import Image
from tests.support.stack import stack_of

READY_SECONDS = 240
OF_THE_CHECKOUT = (
    *(
        "scripts._bench",
        "scripts._deploy",
        "scripts._feed",
        "scripts._prove",
        "scripts._stack",
        "tests",
    ),
    # The key service: in an image that is built with them.
    *("aiobotocore", "botocore"),
)
IMPORTS = """
import ast, importlib, pathlib, sys

elsewhere = sys.argv[1:]
wanted = set()
for path in pathlib.Path().rglob("*.py"):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            wanted |= {each.name for each in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            wanted.add(node.module)
missing = []
for name in sorted(wanted):
    if not any(name == each or name.startswith(each + ".") for each in elsewhere):
        try:
            importlib.import_module(name)
        except ImportError as error:
            missing.append(f"{name}: {error}")
print(*missing, len(wanted), sep="\\n")
sys.exit(bool(missing))
"""

pytestmark = [pytest.mark.thorough, pytest.mark.timeout(420)]


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Image:
    return Image(tmp_path_factory.mktemp("image"))


@pytest.fixture(scope="module")
def settings(local_genesis: Genesis, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """Return the settings of a running service whose daemons are suspended, so that the image's daemons can replace
    them."""
    with stack_of(local_genesis, tmp_path_factory.mktemp("stack")) as stack:
        stack.ready()
        found = local_stack({}, stack.state)
        assert found is not None
        with stack.standing_still():
            yield dict(found) | {
                "VPM_RELAYER_KEYS": ",".join(lanes()),
                "VPM_ATTESTATION_KEY": wallets.ATTESTATION.private_key,
                "CRON_SECRET": "sixteen characters",
                "VPM_PORT": str(free_port()),
                **{metrics_variable(daemon): str(free_port()) for daemon in DAEMONS},
            }


def test_every_daemon_of_the_image_gets_ready_and_its_health_check_sees_it(
    image: Image, settings: dict[str, str], tmp_path: Path
) -> None:
    before = image.files()
    assert _said(image.run(image.argv("migrate"), given=settings, ready_file=tmp_path / "none")) == 0
    running = {}
    try:
        for daemon in DAEMONS:
            with (tmp_path / f"{daemon}.txt").open("wb") as output:
                running[daemon] = subprocess.Popen(
                    image.argv(daemon),
                    cwd=image.app,
                    env=image.variables(settings, tmp_path / f"{daemon}.json"),
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
        probed = image.run(image.inside(*image.health_check), given={}, ready_file=ready_file)
        if probed.returncode == 0:
            return
        assert process.poll() is None, output.read_text()
        assert time.monotonic() < deadline, probed.stdout + probed.stderr + output.read_text()
        time.sleep(0.2)


@pytest.mark.parametrize("name", DAEMONS)
def test_a_daemon_does_not_start_before_the_migration(
    image: Image, settings: dict[str, str], name: str, tmp_path: Path
) -> None:
    """During a rollout the previous version serves until then."""
    before_it = "not_migrated"
    with psycopg.connect(conninfo(settings["DATABASE_URL"]), autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {before_it}")
        try:
            given = {**settings, "DATABASE_URL": settings["DATABASE_URL"].rpartition("/")[0] + "/" + before_it}
            ended = image.run(image.argv(name), given=given, ready_file=tmp_path / "none")
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
    ended = image.run(image.argv(*words), given=settings, ready_file=tmp_path / "none")
    said = _said(ended)
    assert "needs a checkout" not in ended.stderr
    assert said == code or (code is None and said in (0, 1))


def test_everything_that_is_imported_anywhere_is_in_the_image(image: Image, tmp_path: Path) -> None:
    """This includes imports in functions, such as the calendars of a keeper that begins to lead."""
    program = tmp_path / "imports.py"
    program.write_text(IMPORTS)
    ended = image.run(image.inside("python", str(program), *OF_THE_CHECKOUT), given={}, ready_file=tmp_path / "none")
    assert _said(ended) == 0, ended.stdout
    assert int(ended.stdout.split()[-1]) > 300


@pytest.mark.parametrize("name", ["audit", "rebuild"])
def test_a_command_that_was_given_nothing_says_what_it_needs(image: Image, name: str, tmp_path: Path) -> None:
    ended = image.run(image.argv(name), given={}, ready_file=tmp_path / "none")
    assert _said(ended) != 0
    assert "DATABASE_URL" in ended.stderr


@pytest.mark.parametrize("name", sorted(CHECKOUT_ONLY))
def test_a_command_that_needs_a_checkout_says_so(image: Image, name: str, tmp_path: Path) -> None:
    ended = image.run(image.argv(name), given={}, ready_file=tmp_path / "none")
    assert _said(ended) == 2
    assert "needs a checkout" in ended.stderr


def _said(ended: subprocess.CompletedProcess[str]) -> int:
    assert "Traceback" not in ended.stderr, ended.stderr
    return ended.returncode
