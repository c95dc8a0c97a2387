"""Writes api/web/static/betting.js: the TypeScript client and viem's local accounts, as one file that a page loads.

`python -m scripts._vpm.bundles` makes it with the pinned esbuild; `--check` fails when what is there differs.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "api" / "web" / "bundles" / "betting.ts"
BUNDLE = ROOT / "api" / "web" / "static" / "betting.js"
ESBUILD = ROOT / "node_modules" / "esbuild" / "bin" / "esbuild"


def made() -> bytes:
    """The bundle of the sources as they are, with the licenses of what is in it at its end."""
    shape = ("--bundle", "--format=esm", "--minify", "--target=es2022", "--legal-comments=eof")
    return subprocess.run([str(ESBUILD), str(SOURCE), *shape], cwd=ROOT, check=True, stdout=subprocess.PIPE).stdout


def main() -> int:
    if "--check" in sys.argv[1:]:
        if BUNDLE.read_bytes() == made():
            return 0
        print("api/web/static/betting.js is out of date: run python -m scripts._vpm.bundles", file=sys.stderr)
        return 1
    BUNDLE.write_bytes(made())
    return 0


if __name__ == "__main__":
    sys.exit(main())
