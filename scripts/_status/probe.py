"""Whether the daemon in this container is ready, for a HEALTHCHECK: exit code 0 or 1, and one word why.

A daemon writes where its /ready is into `VPM_READY_FILE`. A container that runs no daemon (a migration) has none, and
is not to be asked.
"""

from __future__ import annotations

import json
import os
import sys
import urllib.error
import urllib.request
from pathlib import Path
from urllib.parse import urljoin, urlsplit

from scripts._local.direct import DIRECT

SECONDS = 3.0


def main() -> int:
    ready_file = os.environ.get("VPM_READY_FILE", "")
    try:
        address = json.loads(Path(ready_file).read_text())["metrics"]
    except (OSError, ValueError, KeyError):
        print("not ready yet")
        return 1
    port = urlsplit(address).port
    try:
        with DIRECT.open(urljoin(f"http://127.0.0.1:{port}", "/ready"), timeout=SECONDS) as answer:
            ready = answer.status == 200
    except (OSError, urllib.error.URLError) as error:
        print(f"no answer: {getattr(error, 'reason', error)}")
        return 1
    print("ready" if ready else "not ready")
    return 0 if ready else 1


if __name__ == "__main__":
    sys.exit(main())
