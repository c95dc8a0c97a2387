"""`./vpm study`: measures anew, keeps the figures, draws the plots and writes docs/fairness.md. See the manual."""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from collections.abc import Sequence

from scripts._study import claims, measured, page, plots
from scripts._vpm.bootstrap import SetupError


def main(argv: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="vpm study", description="what bettors, the venue and attackers can expect")
    parser.add_argument(
        "--page", action="store_true", help="measure nothing: write the page and plots from the figures"
    )
    args = parser.parse_args(argv)
    if not args.page:
        started = time.monotonic()

        def said(part: str) -> None:
            print(f"{time.monotonic() - started:5.0f} s  {part}", flush=True)

        measured.keep({"whole": measured.measure(measured.WHOLE, said), "quick": measured.measure(measured.QUICK)})
    figures = measured.kept()["whole"]
    broken = claims.broken(figures)
    for sentence in broken:
        print(f"vpm study: no longer true: {sentence}", file=sys.stderr)
    try:
        plots.draw(figures)
    except (SetupError, subprocess.CalledProcessError) as error:
        print(f"vpm study: {error}", file=sys.stderr)
        return 1
    page.write(figures)
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
