"""`agent-credit`: books payments that somebody sent past us and whose payer never came back.

An authorization may be used by anybody straight on the token; then the money lies in the settlement wallet without a
stake, and our transaction for it has failed. The failed transaction holds the signed intent, which `credit` takes as it
stands: as a stake if it still can be one, else as a refund.
"""

from __future__ import annotations

from typing import Any

from core.outbox import RELAY, Intent
from keeper import metrics
from keeper.agent.crediting import Payment, Sent, Trade, carried, credit_data, why_wait
from keeper.desk import Run
from keeper.errands import Also, Connection, Rest, Want

REST = Rest(after_success=600.0, after_failure=60.0, longest=6 * 3600.0)
LOOK_BACK_SECONDS = 7 * 86_400
"""Chain time; an authorization is valid for minutes, and whoever was away this long has other worries."""
AT_MOST = 200
"""Payments looked at in one run. Those of trades we know come first: anybody may send us money that nobody explains."""

# Where a transaction booked as many stakes of a payer as it used authorizations of theirs, nothing was sent past us.
_PAST_US = b"""
SELECT a.authorizer, a.nonce, a.value, a.at FROM token_authorization a
WHERE a.chain_id = %(chain)s AND a.recipient = %(wallet)s AND a.at > %(since)s
AND (SELECT count(*) FROM agent_stake s WHERE s.wallet = a.authorizer AND s.staked_tx = a.tx)
  < (SELECT count(*) FROM token_authorization b WHERE b.chain_id = a.chain_id AND b.block_number = a.block_number
     AND b.tx = a.tx AND b.authorizer = a.authorizer AND b.recipient = a.recipient)
ORDER BY EXISTS (SELECT FROM agent_trade t WHERE t.wallet = a.authorizer AND t.nonce = a.nonce) DESC,
  a.block_number DESC, a.log_index DESC LIMIT %(limit)s
"""
_SENT = b"""
SELECT data, state IN ('final', 'failed', 'replaced') OR outcome IN ('reverted', 'cancelled') FROM outbox_intent
WHERE chain_id = %(chain)s AND kind IN ('settle', 'credit') AND outcome IS DISTINCT FROM 'succeeded'
AND created_at > now() - make_interval(secs => %(seconds)s) AND position(%(nonce)s IN data) > 0 ORDER BY id DESC
"""
_FOLLOW = b"""
UPDATE agent_trade SET attempt = attempt + 1, intent_id = %s WHERE wallet = %s AND idem_hash = %s AND attempt = %s
"""


async def credit(run: Run) -> None:
    wallet = run.desk.contract("SettlementWallet")
    payments = await _past_us(run, bytes.fromhex(wallet.address[2:]))
    booked = await run.read_all([wallet.call("booked", "0x" + each.wallet.hex(), each.nonce) for each in payments])
    open_ = [each for each, is_booked in zip(payments, booked, strict=True) if is_booked is not True]
    unexplained = 0
    settle, selector = (wallet.abi.function(name).selector for name in ("settle", "credit"))
    for payment in open_:
        target = f"payment of {payment.value} units by 0x{payment.wallet.hex()}"
        sent, trades = await _known(run, payment)
        data = why_wait(payment, run.now) or credit_data(payment, sent, settle, selector)
        if isinstance(data, str):
            unexplained += not sent
            run.report.skip(target, data)
            continue
        want = Want(
            kind="credit",
            subjects=(f"agent:credit:0x{payment.wallet.hex()}:0x{payment.nonce.hex()}",),
            target=target,
            detail=f"book a {target}, which was sent past us",
            group=RELAY,
            to=wallet.address,
            data=data,
            priority=2,
        )
        await run.ask(want, REST, _following(payment, carried(data, trades)))
    metrics.DUE.labels(run.report.job, "payments").set(len(open_) - unexplained)
    metrics.DUE.labels(run.report.job, "unexplained payments").set(unexplained)


async def _past_us(run: Run, wallet: bytes) -> list[Payment]:
    values = {
        "chain": run.desk.chain_id,
        "wallet": wallet,
        "since": run.now - LOOK_BACK_SECONDS,
        "limit": AT_MOST,
    }
    async with run.keeper.pool.connection() as connection:
        rows = await (await connection.execute(_PAST_US, values)).fetchall()
    return [Payment(bytes(authorizer), bytes(nonce), int(value), at) for authorizer, nonce, value, at in rows]


async def _known(run: Run, payment: Payment) -> tuple[list[Sent], list[Trade]]:
    """Our transactions for a payment, and the API's trades whose latest payment it is."""
    values: dict[str, Any] = {"chain": run.desk.chain_id, "nonce": payment.nonce, "seconds": LOOK_BACK_SECONDS}
    async with run.keeper.pool.connection() as connection:
        sent = await (await connection.execute(_SENT, values)).fetchall()
        found = await connection.execute(
            "SELECT idem_hash, attempt FROM agent_trade WHERE wallet = %s AND nonce = %s",
            (payment.wallet, payment.nonce),
        )
        trades = await found.fetchall()
    return [Sent(bytes(data), ended) for data, ended in sent], [Trade(bytes(key), attempt) for key, attempt in trades]


def _following(payment: Payment, trade: Trade | None) -> Also:
    """Makes our attempt the trade's latest, so that its payer is told of it; not if the API made one meanwhile."""

    async def follow(connection: Connection, intent: Intent) -> bool:
        if trade is None:
            return True
        values = (intent.id, payment.wallet, trade.idem_hash, trade.attempt)
        return (await connection.execute(_FOLLOW, values)).rowcount == 1

    return follow
