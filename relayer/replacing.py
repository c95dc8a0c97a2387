"""What is sent and not mined: offered again, replaced at higher fees, or its nonce taken by a no-op."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from core.log import get_logger
from relayer import metrics
from relayer.fees import bump, most
from relayer.intents import attempt_of
from relayer.lane_parts import REPLACEMENTS, LaneParts
from relayer.signing import Unsigned
from relayer.transaction import LaneQueue, LaneTransaction, NextStep, next_step

log = get_logger(__name__)


class Replacer:
    """One lane's care for what stands still. It remembers since when the key's count of mined ones has not moved."""

    def __init__(self, parts: LaneParts) -> None:
        self._feed, self._store, self._transactions, self._sender, self._signer, self._policy = parts
        self._moved_at: tuple[float, int] | None = None
        self._latest = -1

    def rest(self) -> None:
        """Nothing is in flight: what is sent next stands still from then on at the earliest."""
        self._moved_at = None

    async def unstick(self, latest: int, pending: int) -> None:
        """Raises, cancels or offers again each transaction that the chain has not mined, as `next_step` says."""
        line, patience = self._line(latest, pending), self._policy.patience
        standing = [
            transaction
            for nonce, transaction in sorted(self._transactions.unmined.items())
            if nonce >= latest and not self._sender.waits(transaction)
        ]
        replacements: list[tuple[LaneTransaction, Unsigned, bool]] = []
        for transaction in standing:
            step = next_step(transaction, line, patience)
            if step in (NextStep.BUMP, NextStep.CANCEL) and len(replacements) < REPLACEMENTS:
                cancel = step is NextStep.CANCEL or transaction.cancelling
                replacement = self._replacement(transaction, cancel=cancel)
                if replacement is not None:
                    replacements.append((transaction, replacement, cancel))
                elif line.stuck_seconds >= patience.bump_after_seconds:
                    self._doom_if_only_its_own_cap_holds_it(transaction)
        if replacements:
            await self._replace(replacements, line.now)
        # A replacement that the cap forbids, or the signer did not sign, must not keep what there is from the node.
        again = [
            transaction
            for transaction in standing
            if not self._sender.waits(transaction)
            and next_step(transaction, line, patience, may_bump=False) is NextStep.RESEND
        ]
        if again:
            metrics.RESENDS.labels(self._transactions.chain, self._transactions.lane).inc(len(again))
            self._sender.push(again)

    def _line(self, latest: int, pending: int) -> LaneQueue:
        now, head = asyncio.get_running_loop().time(), self._feed.head
        if latest != self._latest or not self._transactions.unmined or self._moved_at is None:
            self._moved_at = (now, head.number)
        self._latest = latest
        since, height = self._moved_at
        return LaneQueue(
            latest=latest,
            pending=pending,
            now=now,
            chain_time=head.timestamp,
            stuck_seconds=now - since,
            stuck_blocks=head.number - height,
            market=self._feed.market,
        )

    def _replacement(self, transaction: LaneTransaction, *, cancel: bool) -> Unsigned | None:
        """The same nonce at higher fees; None when they would exceed the cap, and only waiting is left. A first no-op
        there always is: where the cap leaves no room above what it replaces, for the nodes that lost or refused that.
        """
        policy, old = self._policy.fees, transaction.newest.fees
        fees = bump(policy, self._feed.market, old, None if cancel else transaction.max_fee_cap_wei)
        if cancel and not transaction.cancelling:
            fees = fees or most(policy, old)
        if fees is None:
            return None
        if cancel:
            return self._signer.noop(transaction.nonce, fees)
        return Unsigned(
            self._store.lease.chain_id,
            transaction.nonce,
            fees,
            transaction.newest.gas_limit,
            transaction.to,
            transaction.value_wei,
            transaction.data,
        )

    def _doom_if_only_its_own_cap_holds_it(self, transaction: LaneTransaction) -> None:
        """An intent that may pay less than the chain's cap must not hold up everything behind it."""
        if transaction.max_fee_cap_wei is None or transaction.doomed is not None:
            return
        if bump(self._policy.fees, self._feed.market, transaction.newest.fees) is not None:
            cap = transaction.max_fee_cap_wei / 1e9
            reason = f"It was not mined, and may not pay more than {cap:g} gwei for gas; a no-op took its nonce."
            transaction.doomed = ("fee_cap", reason)

    async def _replace(self, replacements: Sequence[tuple[LaneTransaction, Unsigned, bool]], now: float) -> None:
        signed = await self._signer.sign([unsigned for _, unsigned, _ in replacements])
        async with self._transactions.writing:
            # Signing may have taken its time: what is no longer on its way, or no longer on this nonce, is left alone.
            replaced = [
                (transaction, attempt_of(each, is_cancel=cancel))
                for (transaction, _, cancel), each in zip(replacements, signed, strict=False)
                if transaction.state.in_flight and self._transactions.unmined.get(each.nonce) is transaction
            ]
            if not replaced:
                return
            await self._store.add_attempts(replaced)
            for transaction, attempt in replaced:
                transaction.attempts.append(attempt)
                transaction.replaced_at = now
        for transaction, attempt in replaced:
            (metrics.CANCELS if attempt.is_cancel else metrics.BUMPS).labels(
                self._transactions.chain, self._transactions.lane
            ).inc()
            log.info(
                "cancelling" if attempt.is_cancel else "raising the fees",
                action="relayer.replaced",
                chain=self._transactions.chain,
                intent=transaction.intent_id,
                nonce=transaction.nonce,
                max_fee_wei=attempt.fees.max_fee_wei,
                attempt=len(transaction.attempts),
            )
        self._sender.push([transaction for transaction, _ in replaced])
