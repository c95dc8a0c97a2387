"""The right to write for a lane, and until when its process may believe in it without asking."""

from __future__ import annotations

import time
from dataclasses import dataclass

from core.errors import VpmError
from relayer.signing import Signer


class LeaseLost(VpmError):
    """Another relayer process holds this lane now."""

    code = "lease_lost"
    default_retriable = True


@dataclass(slots=True)
class Lease:
    """The right to write for a lane, until another process takes it: `epoch` tells the two apart.

    valid_until: monotonic seconds; extended by each renewal, counted from before it was asked for.
    """

    lane_id: int
    epoch: int
    chain_id: int
    groups: tuple[str, ...]
    signer: Signer
    valid_until: float

    @property
    def valid(self) -> bool:
        return time.monotonic() < self.valid_until

    def check(self) -> None:
        """LeaseLost when time ran out: perhaps we were stopped and another process works this lane."""
        if not self.valid:
            raise LeaseLost(f"The lease on lane {self.lane_id} ran out before it was renewed.")
