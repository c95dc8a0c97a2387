"""The container's HEALTHCHECK. It exits with 0 if the container's daemon is ready; otherwise it prints the reason and
exits with 1. A daemon writes the address of its /ready endpoint to the file that `VPM_READY_FILE` names. Do not use
this check in a container without a daemon, such as one that runs a migration."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from urllib.parse import urlsplit

from scripts._local.ports import DIRECT

SECONDS = 3.0


def main() -> int:
    try:
        address = json.loads(Path(os.environ.get("VPM_READY_FILE", "")).read_text())["metrics"]
        with DIRECT.open(f"http://127.0.0.1:{urlsplit(address).port}/ready", timeout=SECONDS):
            print("ready")
            return 0
    except (OSError, ValueError, KeyError) as error:  # including responses with another status
        print(f"not ready: {error}")
        return 1


if __name__ == "__main__":
    sys.exit(main())
