"""What a person sees while the stack starts, and once it runs."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Iterator

_open_line: list[str] = []
"""The step whose line is the last on a terminal and has not ended; several steps may be under way."""


@contextlib.contextmanager
def step(what: str) -> Iterator[None]:
    """A step is announced when it starts and ticked with its time when it is done, on the same line if nothing came
    between."""
    start = time.monotonic()
    interactive = sys.stdout.isatty()
    _end_line()
    print(f"  · {what} ...", end="" if interactive else "\n", flush=True)
    if interactive:
        _open_line.append(what)
    try:
        yield
    except BaseException:
        _end_line()
        raise
    here = _open_line == [what]
    took = f"{time.monotonic() - start:.1f} s"
    if here:
        _open_line.clear()
    _end_line()
    print(f"\r  ✓ {what} ({took})    " if here else f"  ✓ {what} ({took})", flush=True)


def _end_line() -> None:
    if _open_line:
        _open_line.clear()
        print(flush=True)


def box(title: str, rows: list[tuple[str, str]], tries: list[str]) -> str:
    """The one screen shown when everything runs."""
    width = max(len(name) for name, _ in rows)
    lines = ["", f"  {title}", ""]
    lines += [f"    {name:<{width}}  {value}" for name, value in rows]
    lines += ["", "  Try:", ""] + [f"    {one}" for one in tries]
    lines += ["", "  Ctrl-C stops everything.", ""]
    return "\n".join(lines)
