"""The number of cases of property tests: enough in every run, and a campaign with `VPM_TEST_LONG=1`."""

from __future__ import annotations

import os

EXAMPLES = 5_000 if os.environ.get("VPM_TEST_LONG") == "1" else 60
