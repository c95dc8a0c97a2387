"""What a lane signs besides what is queued: no-ops, and replacements of what it has signed before."""

from __future__ import annotations

from collections.abc import Sequence

from core.log import get_logger
from relayer.lane_transactions import LaneTransactions
from relayer.lease import Lease
from relayer.signing import Fees, Signed, SignerUnavailable, Unsigned

log = get_logger(__name__)

# Signed at one look.
REPLACEMENTS = 200


class LaneSigner:
    """A lane's key as a look at the chain uses it. noop_gas: what a transfer of nothing to ourselves needs there."""

    def __init__(self, lease: Lease, transactions: LaneTransactions, noop_gas: int) -> None:
        self._lease = lease
        self._transactions = transactions
        self.noop_gas = noop_gas

    def noop(self, nonce: int, fees: Fees) -> Unsigned:
        lease = self._lease
        return Unsigned(lease.chain_id, nonce, fees, self.noop_gas, lease.signer.address, value_wei=0, data=b"")

    async def sign(self, unsigned: Sequence[Unsigned]) -> list[Signed]:
        """The first of these, at most what one look may sign; none while the signer does not sign."""
        signer = self._lease.signer
        try:
            return await signer.sign_all(unsigned[: min(REPLACEMENTS, signer.at_once or REPLACEMENTS)])
        except SignerUnavailable as error:
            log.warning(
                error.message, action="relayer.not_signed", chain=self._transactions.chain, lane=self._transactions.lane
            )
            return []
