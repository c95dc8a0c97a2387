"""What those share who keep one lane going: who takes in, who follows, who mends."""

from __future__ import annotations

from typing import NamedTuple

from relayer.feed import ChainFeed
from relayer.lane_signer import LaneSigner
from relayer.lane_transactions import LaneTransactions
from relayer.policy import LanePolicy
from relayer.sending import LaneSender
from relayer.store import LaneStore


class LaneParts(NamedTuple):
    """The parts of one lane at work, each there once: they are made anew, together, whenever the lane starts afresh."""

    feed: ChainFeed
    store: LaneStore
    transactions: LaneTransactions
    sender: LaneSender
    signer: LaneSigner
    policy: LanePolicy
