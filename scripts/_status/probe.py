"""A container's HEALTHCHECK: exit code 0 if its daemon is ready, else 1 and the reason.

A daemon writes where its /ready is into `VPM_READY_FILE`. A container that runs no daemon (a migration) has none, and
is not to be asked.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from urllib.parse import urlsplit

from scripts._local.direct import DIRECT

SECONDS = 3.0


def main() -> int:
    try:
        address = json.loads(Path(os.environ.get("VPM_READY_FILE", "")).read_text())["metrics"]
        with DIRECT.open(f"http://127.0.0.1:{urlsplit(address).port}/ready", timeout=SECONDS):
            print("ready")
            return 0
    except (OSError, ValueError, KeyError) as error:  # an answer of another status among them
        print(f"not ready: {error}")
        return 1


if __name__ == "__main__":
    sys.exit(main())
