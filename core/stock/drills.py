"""What makes a short market a drill of refunds: age bounds that no reading keeps, so that it is provably void."""

from __future__ import annotations

from typing import Final

REFUND_DRILL_AGE_SECONDS: Final = 1
"""Age bound of a refund drill: no feed prints that often, so its readings are provably stale."""
