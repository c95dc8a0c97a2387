"""The image as its Dockerfile makes it, without a container: its files, packages and variables."""

from __future__ import annotations

import importlib.metadata
import json
import re
import shutil
import subprocess
import sys
import venv
from collections.abc import Mapping
from pathlib import Path

from packaging.markers import Marker

from core.paths import REPOSITORY
from tests.support.pins import pins

DOCKER = REPOSITORY / "deployments" / "docker"


def instructions() -> list[tuple[str, str]]:
    joined = re.sub(r"\\\n", " ", (DOCKER / "Dockerfile").read_text())
    lines = [line.strip() for line in joined.splitlines() if line.strip() and not line.startswith("#")]
    return [(line.split(None, 1)[0], line.split(None, 1)[1]) for line in lines]


class Image:
    """A folder with the image's files. Its Python is the one that runs the tests, and sees only the installed packages
    of the image's lock."""

    def __init__(self, folder: Path) -> None:
        self.app, self._venv = folder / "app", folder / "venv"
        self.app.mkdir()
        steps = instructions()
        last_stage = max(at for at, (name, _) in enumerate(steps) if name == "FROM")
        for name, words in steps[last_stage:]:
            if name == "COPY" and "--from" not in words:
                _copy(*words.split(), into=self.app)
        settings = dict(steps)
        self.entry_point: list[str] = json.loads(settings["ENTRYPOINT"])
        self.health_check: list[str] = json.loads(settings["HEALTHCHECK"].partition("CMD ")[2])
        venv.create(self._venv, symlinks=True)
        (packages,) = self._venv.glob("lib/python*/site-packages")
        _link_packages(packages)
        # As the Dockerfile does. What may not write keeps nothing that it compiles, so each command would do it again.
        subprocess.run([sys.executable, "-m", "compileall", "-q", "-j0", self.app, packages], check=False)

    def variables(self, given: Mapping[str, str], ready_file: Path) -> dict[str, str]:
        own = dict(each.split("=", 1) for name, words in instructions() if name == "ENV" for each in words.split())
        own |= {"PATH": str(self._venv / "bin"), "PYTHONPATH": str(self.app)}
        own |= {"VPM_HOST": "127.0.0.1", "VPM_METRICS_HOST": "127.0.0.1", "VPM_READY_FILE": str(ready_file)}
        return {**own, **given}

    def argv(self, *words: str) -> list[str]:
        return self.inside(*self.entry_point, *words)

    def inside(self, program: str, *words: str) -> list[str]:
        return [str(self._venv / "bin" / program), *words]

    def run(self, argv: list[str], *, given: Mapping[str, str], ready_file: Path) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            argv,
            cwd=self.app,
            env=self.variables(given, ready_file),
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    def files(self) -> set[Path]:
        return {path for path in self.app.rglob("*") if path.is_file()}


def _copy(*words: str, into: Path) -> None:
    *sources, where = words
    for source in sources:
        there = into / where / (Path(source).name if where.endswith("/") else "")
        there.parent.mkdir(parents=True, exist_ok=True)
        if (REPOSITORY / source).is_dir():
            shutil.copytree(REPOSITORY / source, there, ignore=_left_out)
        else:
            shutil.copy(REPOSITORY / source, there)


def _left_out(folder: str, names: list[str]) -> set[str]:
    listed = (DOCKER / "Dockerfile.dockerignore").read_text().split()
    return {name for name in names if str(Path(folder).relative_to(REPOSITORY) / name) in listed}


def _link_packages(packages: Path) -> None:
    for pin in pins(DOCKER / "requirements.txt"):
        if pin.marker and not Marker(pin.marker).evaluate():
            continue
        for file in importlib.metadata.distribution(pin.name).files or ():
            # The Dockerfile takes the packages' own tests away.
            if file.parts[0] == ".." or "tests" in file.parts or "__pycache__" in file.parts:
                continue
            link, installed = packages / file, Path(str(file.locate()))
            if not link.parent.exists():
                link.parent.mkdir(parents=True)
                if (compiled := installed.parent / "__pycache__").is_dir():
                    (link.parent / "__pycache__").symlink_to(compiled)
            if not link.is_symlink():  # some packages install their documentation, under one name
                link.symlink_to(installed)
