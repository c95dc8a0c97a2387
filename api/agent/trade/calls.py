"""The calls of the settlement wallet that take a payment for a bet."""

from __future__ import annotations

from api.agent.chain import AgentContracts
from api.agent.trade.payment import Payment
from core.agent.bet import ZERO_ADDRESS, Bet
from core.chain import Call, checksum


def payment_call(contracts: AgentContracts, name: str, bet: Bet, payment: Payment) -> Call:
    """`settle` or `credit` of a payment; what follows the selector is the same for both."""
    return contracts.settlement.call(
        name,
        (
            bet.market_id,
            bet.outcome,
            bet.amount,
            bet.min_shares,
            checksum(bet.wallet),
            bet.idem_hash,
            checksum(bet.builder) if bet.builder != ZERO_ADDRESS else ZERO_ADDRESS,
            bet.ref,
        ),
        (
            int(payment.form),
            payment.value,
            payment.valid_after,
            payment.valid_before,
            payment.nonce,
            payment.signature,
        ),
    )
