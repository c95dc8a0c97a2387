"""Errors of the indexer, beyond those of `core.chain.errors`."""

from __future__ import annotations

from core.errors import EXIT_UNAVAILABLE, VpmError


class NodeFault(VpmError):
    """A node's answer contradicts itself, an earlier answer or another node. Nothing is written; it is asked again."""

    code = "node_fault"
    default_retriable = True


class ChainMoved(NodeFault):
    """A node's answers come from two forks, or the node is behind. Its logs are not malformed."""


class Contradiction(VpmError):
    """A log does not follow from the earlier logs: some are missing, or they are not from our contracts."""

    code = "logs_contradict"
    default_retriable = True


class BeyondFinality(VpmError):
    """The chain replaced blocks below the newest final one."""

    code = "reorg_beyond_finality"
    default_retriable = True


class CursorMoved(VpmError):
    """Another process moved the cursor: this one no longer leads, and its transaction is rolled back."""

    code = "cursor_moved"
    default_retriable = True


class OtherSources(VpmError):
    """The database was filled from other contracts than those in the deployment file."""

    code = "other_sources"
    exit_code = EXIT_UNAVAILABLE
    default_hint = "Use a fresh database for a fresh deployment, or correct the deployment file."
