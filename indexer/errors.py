"""What can be wrong with what a chain or a node says, beyond `core.chain.errors`."""

from __future__ import annotations

from core.errors import EXIT_UNAVAILABLE, VpmError


class NodeFault(VpmError):
    """A node's answer contradicts itself, its other answers, or another node; it is asked again, nothing is written."""

    code = "node_fault"
    default_retriable = True


class ChainMoved(NodeFault):
    """A node's answers are of two chains, or of one that is behind: a fork or a lag, for which no log is to blame."""


class Contradiction(VpmError):
    """A log does not follow from the logs before it: some are missing, or they are not our contracts'."""

    code = "logs_contradict"
    default_retriable = True


class BeyondFinality(VpmError):
    """The chain replaced blocks deeper than is ever undone."""

    code = "reorg_beyond_finality"
    default_retriable = True


class CursorMoved(VpmError):
    """Another process advanced the cursor: this one no longer leads, and what it was about to write is dropped."""

    code = "cursor_moved"
    default_retriable = True


class OtherSources(VpmError):
    """The database was filled from other contracts than the deployment file names."""

    code = "other_sources"
    exit_code = EXIT_UNAVAILABLE
    default_hint = "Use a fresh database for a fresh deployment, or correct the deployment file."


class AuditRuns(VpmError):
    """Another process audits the chain on the same database."""

    code = "audit_runs"
    default_retriable = True
