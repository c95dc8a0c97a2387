"""The parts of one lane at work, shared by the modules that assign, follow and repair."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from core.log import get_logger
from relayer.feed import ChainFeed
from relayer.in_flight import LaneTransactions
from relayer.leases import Lease
from relayer.policy import LanePolicy
from relayer.sending import LaneSender
from relayer.signing import Fees, Signed, SignerUnavailable, Unsigned
from relayer.store import LaneStore

log = get_logger(__name__)

# Signed at once.
REPLACEMENTS = 200


class LaneSigner:
    """A lane's key, for what was not queued: no-ops, and replacements of earlier transactions.

    noop_gas: the gas of an empty transfer to ourselves.
    """

    def __init__(self, lease: Lease, transactions: LaneTransactions, noop_gas: int) -> None:
        self._lease = lease
        self._transactions = transactions
        self.noop_gas = noop_gas

    def noop(self, nonce: int, fees: Fees) -> Unsigned:
        lease = self._lease
        return Unsigned(lease.chain_id, nonce, fees, self.noop_gas, lease.signer.address, value_wei=0, data=b"")

    async def sign(self, unsigned: Sequence[Unsigned]) -> list[Signed]:
        """Sign the first of these, at most REPLACEMENTS; none while the signer does not sign."""
        signer = self._lease.signer
        try:
            return await signer.sign_all(unsigned[: min(REPLACEMENTS, signer.at_once or REPLACEMENTS)])
        except SignerUnavailable as error:
            log.warning(
                error.message, action="relayer.not_signed", chain=self._transactions.chain, lane=self._transactions.lane
            )
            return []


class LaneParts(NamedTuple):
    """The parts of one lane, made anew together whenever the lane starts afresh."""

    feed: ChainFeed
    store: LaneStore
    transactions: LaneTransactions
    sender: LaneSender
    signer: LaneSigner
    policy: LanePolicy
