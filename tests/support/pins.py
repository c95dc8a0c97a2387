"""Reads the pins of a lock of Python packages."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Pin:
    """One version of a package. `marker` says where it is wanted, and is empty for everywhere; `hashes` are those of
    its files."""

    name: str
    version: str
    marker: str
    hashes: tuple[str, ...]


def pins(lock: Path) -> list[Pin]:
    return [_pin(block) for block in re.split(r"\n(?=\S)", lock.read_text().strip())]


def _pin(block: str) -> Pin:
    first, *rest = (line.strip().rstrip("\\").strip() for line in block.splitlines())
    pinned, _, marker = first.partition(";")
    name, _, version = pinned.strip().partition("==")
    hashes = tuple(line.removeprefix("--hash=") for line in rest if line.startswith("--hash="))
    return Pin(name, version, marker.strip(), hashes)
