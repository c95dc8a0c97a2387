"""A process's hold on a lane: its lease, and until when it may believe in it without asking."""

from __future__ import annotations

import time
from dataclasses import dataclass

from relayer.rows import Lease
from relayer.store import LeaseLost


@dataclass(slots=True)
class Hold:
    """valid_until: monotonic seconds; extended by each renewal, counted from before it was asked for."""

    lease: Lease
    valid_until: float

    @property
    def valid(self) -> bool:
        return time.monotonic() < self.valid_until

    def check(self) -> None:
        """LeaseLost when time ran out: perhaps we were stopped and another process works this lane."""
        if not self.valid:
            raise LeaseLost(f"The lease on lane {self.lease.lane_id} ran out before it was renewed.")
