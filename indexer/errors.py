"""The indexer's errors, in addition to those of `core.chain.errors`."""

from __future__ import annotations

from core.errors import EXIT_UNAVAILABLE, VpmError


class NodeFault(VpmError):
    """A node's response contradicts itself, an earlier response or another node. Nothing was written; the indexer
    will retry."""

    code = "node_fault"
    default_retriable = True


class ChainMoved(NodeFault):
    """A node's responses come from two forks, or the node is behind."""


class Contradiction(VpmError):
    """A log does not follow from the earlier logs. Some are missing, or they are not from our contracts."""

    code = "logs_contradict"
    default_retriable = True


class BeyondFinality(VpmError):
    """The chain replaced blocks below the newest final block."""

    code = "reorg_beyond_finality"
    default_retriable = True


class CursorMoved(VpmError):
    """Another process moved the cursor, so this process no longer leads. Its transaction was rolled back."""

    code = "cursor_moved"
    default_retriable = True


class OtherSources(VpmError):
    """The database was filled from contracts that are not in the deployment file."""

    code = "other_sources"
    exit_code = EXIT_UNAVAILABLE
    default_hint = "Use a fresh database for a fresh deployment, or correct the deployment file."
