"""The units of a machine without containers as systemd reads them, and the script of the daily backup."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import psycopg
import pytest

from core.db.engine import conninfo
from core.paths import REPOSITORY

SYSTEMD = REPOSITORY / "deployments" / "systemd"
BACKUP = REPOSITORY / "deployments" / "backup" / "backup.sh"
DAEMONS = ("api", "indexer", "keeper", "relayer")


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="there is no systemd-analyze on this machine")
def test_systemd_reads_the_units(tmp_path: Path) -> None:
    units = tmp_path / "units"
    shutil.copytree(SYSTEMD, units)
    for path in units.rglob("*.*"):
        if path.is_file():  # what they run is elsewhere here
            text = path.read_text().replace("/opt/vpm/.vpm/env/venv/bin/python", sys.executable)
            path.write_text(text.replace("/opt/vpm", str(REPOSITORY)))
    named = [f"vpm@{name}.service" for name in DAEMONS]
    named += [path.name for path in units.glob("*") if path.is_file() and "@" not in path.name]

    def verified() -> str:
        env = {"PATH": os.environ["PATH"], "SYSTEMD_UNIT_PATH": f"{units}:"}
        argv = ["systemd-analyze", "verify", "--man=no", "--recursive-errors=no", *named]
        done = subprocess.run(argv, env=env, text=True, capture_output=True, check=False)
        return "".join(line for line in done.stderr.splitlines(keepends=True) if "vpm" in line)

    assert verified() == ""
    (units / "vpm-audit.timer").write_text("[Timer]\nOnCalendar=nightly\n")
    assert "vpm-audit.timer" in verified(), "what is wrong is said"


def dumps(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def backed_up(url: str, folder: Path, keep: int) -> subprocess.CompletedProcess[str]:
    secret = folder.parent / "url"
    secret.write_text(f"{url}\n")
    env = {"PATH": os.environ["PATH"], "DATABASE_URL_FILE": str(secret), "KEEP": str(keep)}
    return subprocess.run([BACKUP, folder], env=env, text=True, capture_output=True, check=False)


def test_a_backup_that_fails_is_none_and_the_last_ones_stay(tmp_path: Path) -> None:
    folder = tmp_path / "backups"
    folder.mkdir()
    (folder / "vpm-2026-01-01T000000Z.dump").touch()
    failed = backed_up("postgresql://unused@127.0.0.1:1/none", folder, keep=1)
    assert failed.returncode != 0
    assert [name for name in dumps(folder) if name.endswith(".dump")] == ["vpm-2026-01-01T000000Z.dump"]


def test_a_backup_is_whole_and_only_the_newest_are_kept(database_url: str, tmp_path: Path) -> None:
    program = shutil.which("pg_dump")
    with psycopg.connect(conninfo(database_url)) as connection:
        server = connection.info.server_version // 10_000
    said = subprocess.run([program or "false", "--version"], text=True, capture_output=True, check=False).stdout
    if program is None or int(said.split()[2].split(".")[0]) < server:
        pytest.skip(f"there is no pg_dump {server} on this machine: apt install postgresql-client")
    folder = tmp_path / "backups"
    folder.mkdir()
    for day in range(1, 4):
        (folder / f"vpm-2026-01-0{day}T000000Z.dump").touch()
    done = backed_up(database_url, folder, keep=2)
    assert done.returncode == 0, done.stderr
    old, made = dumps(folder)
    assert old == "vpm-2026-01-03T000000Z.dump"
    listed = subprocess.run(["pg_restore", "--list", folder / made], text=True, capture_output=True, check=True).stdout
    assert "TABLE DATA public cup_entry" in listed
    assert (folder / made).stat().st_mode & 0o077 == 0
