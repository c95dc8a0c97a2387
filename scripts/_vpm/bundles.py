"""Writes what pages load that is made of packages: each a file of api/web/static, from a source in api/web/bundles.

`python -m scripts._vpm.bundles` makes them with the pinned esbuild; a test fails while one that is there differs.
"""

from __future__ import annotations

import subprocess
import sys
from typing import Final

from core.paths import REPOSITORY

STATIC = REPOSITORY / "api" / "web" / "static"
ESBUILD = REPOSITORY / "node_modules" / "esbuild" / "bin" / "esbuild"
SOURCES: Final = {
    "betting.js": REPOSITORY / "api" / "web" / "bundles" / "betting.ts",
    "charts.js": REPOSITORY / "api" / "web" / "bundles" / "charts.ts",
    "charts.css": REPOSITORY / "node_modules" / "uplot" / "dist" / "uPlot.min.css",
}


def build(name: str) -> bytes:
    """Return the bundle of the sources as they are, with the licenses of what is in it at its end."""
    shape = ("--bundle", "--format=esm", "--minify", "--target=es2022", "--legal-comments=eof")
    return subprocess.run(
        [str(ESBUILD), str(SOURCES[name]), *shape], cwd=REPOSITORY, check=True, stdout=subprocess.PIPE
    ).stdout


def main() -> int:
    for name in SOURCES:
        (STATIC / name).write_bytes(build(name))
    return 0


if __name__ == "__main__":
    sys.exit(main())
