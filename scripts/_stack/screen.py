"""What a person sees while the stack starts, and once it runs."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Iterator


@contextlib.contextmanager
def step(what: str) -> Iterator[None]:
    """One line per step: announced when it starts, ticked with its time when it is done."""
    start = time.monotonic()
    interactive = sys.stdout.isatty()
    print(f"  · {what} ...", end="" if interactive else "\n", flush=True)
    try:
        yield
    except BaseException:
        if interactive:
            print(flush=True)
        raise
    took = f"{time.monotonic() - start:.1f} s"
    print(f"\r  ✓ {what} ({took})    " if interactive else f"  ✓ {what} ({took})", flush=True)


def box(title: str, rows: list[tuple[str, str]], tries: list[str]) -> str:
    """The one screen shown when everything runs."""
    width = max(len(name) for name, _ in rows)
    lines = ["", f"  {title}", ""]
    lines += [f"    {name:<{width}}  {value}" for name, value in rows]
    lines += ["", "  Try:", ""] + [f"    {one}" for one in tries]
    lines += ["", "  Ctrl-C stops everything.", ""]
    return "\n".join(lines)
