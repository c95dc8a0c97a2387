"""The image as its Dockerfile makes it, without a container: its files, packages and variables, and nothing else."""

from __future__ import annotations

import importlib.metadata
import os
import re
import shutil
import subprocess
import venv
from collections.abc import Iterator, Mapping
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[2]
DOCKER = ROOT / "deployments" / "docker"


def instructions() -> list[tuple[str, str]]:
    """Each instruction of the Dockerfile with its words."""
    joined = re.sub(r"\\\n", " ", (DOCKER / "Dockerfile").read_text())
    lines = [line.strip() for line in joined.splitlines() if line.strip() and not line.startswith("#")]
    return [(line.split(None, 1)[0], line.split(None, 1)[1]) for line in lines]


class Image:
    """A folder with what the image holds. Its Python sees the packages of the image's lock, of those that are installed
    here, and none that only development needs."""

    def __init__(self, folder: Path) -> None:
        self.app, self._venv = folder / "app", folder / "venv"
        self.app.mkdir()
        for name, words in instructions():
            if name == "COPY" and words.split()[-1] not in ("/", "/requirements.txt") and "--from" not in words:
                _copy(*words.split(), into=self.app)
        venv.create(self._venv, symlinks=True)
        (packages,) = self._venv.glob("lib/python*/site-packages")
        _link_packages(packages)

    def variables(self, given: Mapping[str, str], ready_file: Path) -> dict[str, str]:
        """What a container has that is given these."""
        own = dict(each.split("=", 1) for name, words in instructions() if name == "ENV" for each in words.split())
        own |= {"PATH": f"{self._venv / 'bin'}:{os.environ['PATH']}", "PYTHONPATH": str(self.app)}
        own |= {"VPM_HOST": "127.0.0.1", "VPM_METRICS_HOST": "127.0.0.1", "VPM_READY_FILE": str(ready_file)}
        return {**own, **given}

    def argv(self, *words: str, module: str = "scripts._vpm.cli") -> list[str]:
        return [str(self._venv / "bin" / "python"), "-m", module, *words]

    def run(
        self, *words: str, given: Mapping[str, str], ready_file: Path, module: str = "scripts._vpm.cli"
    ) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self.argv(*words, module=module),
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
        if (ROOT / source).is_dir():
            shutil.copytree(ROOT / source, there)  # with what is compiled: the Dockerfile compiles everything
        else:
            shutil.copy(ROOT / source, there)


def _link_packages(packages: Path) -> None:
    for name in _locked():
        for file in importlib.metadata.distribution(name).files or ():
            # The Dockerfile takes the packages' own tests away.
            if file.parts[0] == ".." or "tests" in file.parts or "__pycache__" in file.parts:
                continue
            link, installed = packages / file, Path(str(file.locate()))
            if not link.parent.exists():
                link.parent.mkdir(parents=True)
                if (compiled := installed.parent / "__pycache__").is_dir():
                    (link.parent / "__pycache__").symlink_to(compiled)
            link.symlink_to(installed)


def _locked() -> Iterator[str]:
    for line in (DOCKER / "requirements.txt").read_text().splitlines():
        if line[:1].strip() and not line.startswith("#"):
            wanted = Requirement(line.rstrip("\\").strip())
            if wanted.marker is None or wanted.marker.evaluate():
                yield canonicalize_name(wanted.name)
