"""The relayer's metrics; `relayer.polling` reads some of them from the database."""

from __future__ import annotations

from core.metrics import counter, gauge, histogram

# From queued to final: a quick lane takes milliseconds, finality minutes, an outage hours.
_BUCKETS = (0.01, 0.05, 0.1, 0.25, 0.5, 1, 2, 5, 10, 30, 60, 120, 300, 900, 3600)

CHANGES = counter("vpm_relayer_changes", "Changes of an intent's state", ("chain", "lane", "kind", "before", "after"))
STATE_SECONDS = histogram(
    "vpm_relayer_state_seconds", "Seconds an intent spent in a state it left", ("chain", "before", "after"), _BUCKETS
)
SENDS = counter("vpm_relayer_sends", "Signed transactions offered to a node, by its answer", ("chain", "answer"))
BUMPS = counter("vpm_relayer_bumps", "Transactions signed again with higher fees", ("chain", "lane"))
CANCELS = counter("vpm_relayer_cancels", "No-ops signed to take the nonce of a call", ("chain", "lane"))
RESENDS = counter("vpm_relayer_resends", "Transactions offered again unchanged", ("chain", "lane"))
HOLES = counter("vpm_relayer_holes", "Nonces that no intent owned, filled with no-ops", ("chain", "lane"))
FOREIGN = counter("vpm_relayer_foreign", "Nonces of our key that were used elsewhere", ("chain", "lane"))
UNPROVEN = gauge(
    "vpm_relayer_unproven", "Nonces that the chain has used, by a transaction that was not found yet",
    ("chain", "lane"),
)  # fmt: skip
DROPPED = counter("vpm_relayer_dropped", "Mined transactions that a reorg undid", ("chain", "lane"))
REORGS = counter("vpm_relayer_reorgs", "Reorgs seen", ("chain",))
QUEUED = gauge("vpm_relayer_queued", "Intents waiting for a lane", ("chain", "group"))
OLDEST_QUEUED = gauge(
    "vpm_relayer_queued_oldest_seconds", "How long the oldest of them has been waiting", ("chain", "group")
)
IN_FLIGHT = gauge("vpm_relayer_in_flight", "Transactions signed or sent and not mined", ("chain", "lane"))
NEXT_NONCE = gauge("vpm_relayer_next_nonce", "The next nonce a lane assigns", ("chain", "lane"))
HELD = gauge("vpm_relayer_lane_held", "1 while this process holds the lane", ("chain", "lane"))
STATUS = gauge("vpm_relayer_lane_status", "1 for the lane's current status", ("chain", "lane", "status"))
BALANCE = gauge("vpm_relayer_balance_ether", "The lane key's balance, in ether", ("chain", "lane"))
SPENT = gauge("vpm_relayer_gas_spent_ether", "Spent on gas in the last hour, in ether", ("chain", "lane"))
BURNT = gauge(
    "vpm_relayer_gas_burnt_ether",
    "Spent in the last hour on reverts, in ether, by kind of payer: none, wallet, contract",
    ("chain", "lane", "payer"),
)  # fmt: skip
PAYERS_REFUSED = counter(
    "vpm_relayer_payers_refused", "Transactions refused because of what their payers' reverts cost us, by reason",
    ("chain", "lane", "why"),
)  # fmt: skip
PENDING_NOTICES = gauge(
    "vpm_relayer_pending_notices", "Notices to wallets not written yet: waiting, or given_up after ten tries",
    ("chain", "state"),
)  # fmt: skip
GAS_DAY = gauge("vpm_relayer_gas_day_ether", "Spent on gas in the last day by all lanes, in ether", ("chain",))
FEES_DAY = gauge("vpm_relayer_fees_day_usd", "Fees of the agent markets' stakes of the last day, in USD")
HEAD = gauge("vpm_relayer_head_block", "The newest block seen", ("chain",))
BASE_FEE = gauge("vpm_relayer_base_fee_gwei", "The next block's base fee, in gwei", ("chain",))
# A key service answers in tens of milliseconds, or is slow, or hangs until the timeout.
SIGNATURE_SECONDS = histogram(
    "vpm_relayer_signature_seconds", "How long a key service took to answer a request for a signature", ("lane",),
    (0.01, 0.025, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10),
)  # fmt: skip
SIGNATURES = counter(
    "vpm_relayer_signatures",
    "Answers of a key service to requests for signatures: signed, throttled, away, denied, wrong",
    ("lane", "answer"),
)
SIGNER_UP = gauge("vpm_relayer_signer_up", "1 while a key in a key service signs, 0 while it does not", ("lane",))


def forget_lane(chain: str, lane: str) -> None:
    """Remove the gauges of a lane this process released: the next holder reports them, and old values would keep
    firing alarms."""
    for each in (UNPROVEN, IN_FLIGHT, NEXT_NONCE, STATUS, BALANCE, SPENT, BURNT):
        each.remove_by_labels({"chain": chain, "lane": lane})
