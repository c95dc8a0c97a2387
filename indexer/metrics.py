"""The indexer's metrics, per chain."""

from prometheus_client import Counter, Gauge, Histogram

from core.service.health import LATENCY_BUCKETS

CHAIN = ("chain",)

HEAD = Gauge("vpm_index_head_block", "Newest block a node reported", CHAIN)
HEAD_TIME = Gauge("vpm_index_head_timestamp_seconds", "Time of the newest block a node reported", CHAIN)
INDEXED = Gauge("vpm_index_block", "Last block in the tables", CHAIN)
LAG_BLOCKS = Gauge("vpm_index_lag_blocks", "Blocks known but not in the tables yet", CHAIN)
LAG_SECONDS = Gauge("vpm_index_lag_seconds", "Seconds since the tables last matched the nodes' head", CHAIN)
EVENTS = Counter("vpm_index_events", "Logs written", CHAIN)
BLOCKS = Counter("vpm_index_blocks", "Blocks read", CHAIN)
STEP_SECONDS = Histogram(
    "vpm_index_step_seconds",
    "Seconds from reading a page to its commit",
    ("chain", "way"),
    buckets=LATENCY_BUCKETS,
)
REORGS = Counter("vpm_index_reorgs", "Reorganizations undone", CHAIN)
REORG_DEPTH = Histogram(
    "vpm_index_reorg_depth_blocks",
    "Blocks removed by a reorganization",
    CHAIN,
    buckets=(1, 2, 4, 8, 16, 32, 64, 128, 512, 2048),
)
FAULTS = Counter("vpm_index_faults", "Failed steps, which are retried, by kind", ("chain", "kind"))
SHORT_ANSWERS = Counter("vpm_index_short_answers", "Blocks whose logs a node left out", CHAIN)
UNPROVED = Counter("vpm_index_unproved_blocks", "Blocks at the head whose logs could not be verified", CHAIN)
REPAIRED = Counter("vpm_index_repaired_logs", "Logs missing in committed blocks that were inserted", CHAIN)
UNPAID_STAKES = Counter(
    "vpm_index_unpaid_stakes", "Stakes and refunds booked for a payment that the token did not log", CHAIN
)
HALTED = Gauge("vpm_index_halted", "1 while a chain cannot be followed safely and is served as stale", CHAIN)
AUDIT_MISMATCHES = Gauge(
    "vpm_index_audit_mismatches", "Differences from the chain that the last audit found, absent before any audit", CHAIN
)
AUDITED = Gauge("vpm_index_audit_timestamp_seconds", "When a chain was last audited, absent before any audit", CHAIN)


def forget_state(chain: str) -> None:
    """Remove the gauges of a chain that this process no longer follows: the next leader exports them, and stale values
    would raise alarms forever."""
    for each in (HALTED, LAG_BLOCKS, LAG_SECONDS):
        each.remove(chain)
