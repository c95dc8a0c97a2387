"""The indexer's metrics, per chain."""

from prometheus_client import Counter, Gauge

CHAIN = ("chain",)

HEAD = Gauge("vpm_index_head_block", "Newest reported block.", CHAIN)
HEAD_TIME = Gauge("vpm_index_head_timestamp_seconds", "Time of the newest reported block.", CHAIN)
INDEXED = Gauge("vpm_index_block", "Last indexed block.", CHAIN)
LAG_BLOCKS = Gauge("vpm_index_lag_blocks", "Reported blocks that are not indexed yet.", CHAIN)
LAG_SECONDS = Gauge("vpm_index_lag_seconds", "Seconds since the index last reached the head.", CHAIN)
EVENTS = Counter("vpm_index_events", "Indexed logs.", CHAIN)
REORGS = Counter("vpm_index_reorgs", "Reorganizations undone.", CHAIN)
FAULTS = Counter("vpm_index_faults", "Failed and retried steps, by kind.", ("chain", "kind"))
SHORT_ANSWERS = Counter("vpm_index_short_answers", "Blocks with logs that a node left out.", CHAIN)
UNPROVED = Counter("vpm_index_unproved_blocks", "Blocks at the head whose logs could not be verified.", CHAIN)
REPAIRED = Counter("vpm_index_repaired_logs", "Missing logs inserted into committed blocks.", CHAIN)
UNPAID_STAKES = Counter("vpm_index_unpaid_stakes", "Stakes and refunds whose payment the token did not log.", CHAIN)
HALTED = Gauge("vpm_index_halted", "1 while a chain cannot be followed safely and is served as stale.", CHAIN)
AUDIT_MISMATCHES = Gauge(
    "vpm_index_audit_mismatches", "Mismatches in the last audit, absent before the first audit.", CHAIN
)
AUDITED = Gauge("vpm_index_audit_timestamp_seconds", "Time of the last audit, absent before the first audit.", CHAIN)


def forget_state(chain: str) -> None:
    """Remove the gauges of a chain that another process now leads. Stale values would raise alarms forever."""
    for each in (HALTED, LAG_BLOCKS, LAG_SECONDS):
        each.remove(chain)
