"""The relayer's metrics, and the gauges that every process reads from the database at intervals."""

from __future__ import annotations

from collections.abc import Mapping

from prometheus_client import Counter, Gauge, Histogram

from core.db.engine import ConnectionPool
from core.money import USD

CHANGES = Counter("vpm_relayer_changes", "Intent state changes", ("chain", "lane", "kind", "before", "after"))
STATE_SECONDS = Histogram(
    "vpm_relayer_state_seconds", "Seconds that an intent spent in a state", ("chain", "before", "after"),
    buckets=(0.01, 0.05, 0.1, 0.25, 0.5, 1, 2, 5, 10, 30, 60, 120, 300, 900, 3600),
)  # fmt: skip
BUMPS = Counter("vpm_relayer_bumps", "Transactions signed again with higher fees", ("chain", "lane"))
CANCELS = Counter("vpm_relayer_cancels", "No-ops signed to use up a call's nonce", ("chain", "lane"))
RESENDS = Counter("vpm_relayer_resends", "Transactions rebroadcast unchanged", ("chain", "lane"))
HOLES = Counter("vpm_relayer_holes", "Nonces without an intent, filled with no-ops", ("chain", "lane"))
FOREIGN = Counter("vpm_relayer_foreign", "Lane nonces used outside the relayer", ("chain", "lane"))
UNPROVEN = Gauge(
    "vpm_relayer_unproven", "Used nonces whose transaction has not been found yet",
    ("chain", "lane"),
)  # fmt: skip
QUEUED = Gauge("vpm_relayer_queued", "Intents waiting for a lane", ("chain", "group"))
OLDEST_QUEUED = Gauge("vpm_relayer_queued_oldest_seconds", "Age of the oldest queued intent", ("chain", "group"))
IN_FLIGHT = Gauge("vpm_relayer_in_flight", "Transactions signed or sent but not mined", ("chain", "lane"))
HELD = Gauge("vpm_relayer_lane_held", "1 while this process holds the lane", ("chain", "lane"))
STATUS = Gauge("vpm_relayer_lane_status", "1 for the lane's current status", ("chain", "lane", "status"))
BALANCE = Gauge("vpm_relayer_balance_ether", "The lane key's balance, in ether", ("chain", "lane"))
SPENT = Gauge("vpm_relayer_gas_spent_ether", "Gas cost of the last hour, in ether", ("chain", "lane"))
BURNT = Gauge(
    "vpm_relayer_gas_burnt_ether",
    "Gas cost of reverts in the last hour, in ether, by kind of payer: none, wallet, contract",
    ("chain", "lane", "payer"),
)  # fmt: skip
PAYERS_REFUSED = Counter(
    "vpm_relayer_payers_refused", "Transactions refused because of the cost of their payers' reverts, by reason",
    ("chain", "lane", "why"),
)  # fmt: skip
PENDING_NOTICES = Gauge(
    "vpm_relayer_pending_notices", "Wallet notices not written yet: waiting, or given_up after ten tries",
    ("chain", "state"),
)  # fmt: skip
GAS_DAY = Gauge("vpm_relayer_gas_day_ether", "Gas cost of all lanes in the last day, in ether", ("chain",))
FEES_DAY = Gauge("vpm_relayer_fees_day_usd", "Fees on the last day's stakes in agent markets, in USD")
BASE_FEE = Gauge("vpm_relayer_base_fee_gwei", "The next block's base fee, in gwei", ("chain",))
SIGNATURE_SECONDS = Histogram(
    "vpm_relayer_signature_seconds", "Response time of a key service to a signature request", ("lane",),
    buckets=(0.01, 0.025, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10),
)  # fmt: skip
SIGNATURES = Counter(
    "vpm_relayer_signatures", "Signature requests to a key service: signed, throttled, away, denied, wrong",
    ("lane", "answer"),
)  # fmt: skip
SIGNER_UP = Gauge("vpm_relayer_signer_up", "1 while a key in a key service signs, 0 while it does not", ("lane",))


def forget_lane(chain: str, lane: str) -> None:
    """Remove the gauges of a lane that this process released; old values would keep alarms firing."""
    for each in (UNPROVEN, IN_FLIGHT, STATUS, BALANCE, SPENT, BURNT):
        each.remove_by_labels({"chain": chain, "lane": lane})


QUEUES_SECONDS = 5.0
ECONOMY_SECONDS = 60.0

_QUEUES = b"""
SELECT chain_id, lane_group, count(*), extract(epoch FROM clock_timestamp() - min(state_at))::float8
FROM outbox_intent WHERE state = 'queued' GROUP BY chain_id, lane_group
"""
_GAS = b"""
SELECT l.chain_id, coalesce(sum(i.fee_wei), 0) FROM outbox_lane l LEFT JOIN outbox_intent i
ON i.lane_id = l.id AND i.mined_at IS NOT NULL AND i.mined_at > now() - interval '1 day'
WHERE l.chain_id = ANY(%s) GROUP BY 1
"""
# Fees of stakes in a book or paid out of one. A void market returns its fees, which shows a day later.
_FEES = b"""
SELECT coalesce(sum(fee), 0) FROM agent_stake
WHERE refund_reason IS NULL AND staked_at > extract(epoch FROM now() - interval '1 day')
"""


class Gauges:
    """The gauges that are read from the database, with the chains' names by id."""

    def __init__(self, pool: ConnectionPool, names: Mapping[int, str]) -> None:
        self._pool = pool
        self._names = names
        self._seen: set[tuple[str, str]] = set()

    async def read_queues(self) -> None:
        """Measure the queue of each group of lanes, including groups without a key."""
        async with self._pool.connection() as connection:
            rows = await connection.fetch_all(_QUEUES)
        queues = {(self._names[chain], group): sizes for chain, group, *sizes in rows if chain in self._names}
        self._seen |= queues.keys()
        for key in self._seen:
            count, oldest = queues.get(key, (0, 0.0))  # an emptied queue is reported as empty
            QUEUED.labels(*key).set(count)
            OLDEST_QUEUED.labels(*key).set(max(0.0, oldest))

    async def read_economy(self) -> None:
        async with self._pool.connection() as connection:
            spent = await connection.fetch_all(_GAS, (list(self._names),))
            fees = await connection.fetch_value(_FEES)
        for chain_id, wei in spent:
            GAS_DAY.labels(self._names[chain_id]).set(int(wei) / 1e18)
        FEES_DAY.set(int(fees) / USD)
