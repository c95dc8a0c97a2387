"""`vpm reindex CHAIN`: deletes one chain's index, so that the indexer reads the chain again. Use it if a chain has
replaced final blocks, because the indexer never reverts those. The command only deletes the index; the tournament,
webhooks, events and the outbox stay. It refuses to run while an indexer is following the chain."""

from __future__ import annotations

import argparse
import sys
from types import ModuleType

import psycopg
from psycopg import sql
from sqlalchemy import Table

from core.config import Settings, load
from core.contracts.deployments import load_deployment
from core.db.engine import connection_error, conninfo
from core.db.leader import lock_key
from core.db.schema import index, index_agent, index_shared, index_stock, metadata
from core.errors import VpmError


def _tables(*modules: ModuleType) -> list[str]:
    declared = [each for module in modules for each in vars(module).values() if isinstance(each, Table)]
    return [table.name for table in reversed(metadata.sorted_tables) if table in declared]


# Tables with a chain_id lose that chain's rows; the others belong to one chain and are emptied. Audit results stay.
SHARED = [name for name in _tables(index_shared, index) if name not in ("chain_audit", "chain_cursor")]
OWN = {"base": _tables(index_agent), "stock": _tables(index_stock)}


class IndexerRunning(VpmError):
    """An indexer follows the chain, so it cannot be reindexed."""


def delete_index(url: str, chain: str, chain_id: int) -> dict[str, int]:
    """Delete a chain's rows in one transaction. Return the number of deleted rows by table."""
    removed: dict[str, int] = {}
    try:
        opened = psycopg.connect(conninfo(url), connect_timeout=5)
    except psycopg.Error as error:
        raise connection_error(url, error) from None
    with opened as connection:
        key = lock_key(f"indexer:{chain}")
        row = connection.execute("SELECT pg_try_advisory_xact_lock(%s)", (key,)).fetchone()
        if row is None or not row[0]:
            raise IndexerRunning(f"an indexer is following {chain}; stop every indexer first.")
        for table in (*SHARED, "chain_cursor"):
            delete = sql.SQL("DELETE FROM {} WHERE chain_id = %s").format(sql.Identifier(table))
            removed[table] = connection.execute(delete, (chain_id,)).rowcount
        for table in OWN[chain]:
            removed[table] = connection.execute(sql.SQL("DELETE FROM {}").format(sql.Identifier(table))).rowcount
    return removed


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="vpm reindex", add_help=False)
    parser.add_argument("chain", choices=sorted(OWN))
    parser.add_argument("--yes", action="store_true")
    options = parser.parse_args(argv)
    try:
        settings = load(Settings)
        deployment = load_deployment(settings.chain(options.chain).deployment_file)
        if not options.yes:
            print(f"This deletes the index of {deployment.name}; the indexer then builds it again. Add --yes to do it.")
            return 1
        removed = delete_index(settings.database_url.get_secret_value(), options.chain, deployment.chain_id)
    except VpmError as error:
        print(f"vpm reindex: {error.sentence()}", file=sys.stderr)
        return 2
    except psycopg.Error as error:
        print(f"vpm reindex: the database reported an error: {str(error).splitlines()[0]}", file=sys.stderr)
        return 2
    print(f"deleted {sum(removed.values()):,} rows; start the indexers to read {deployment.name} from its first block")
    return 0


if __name__ == "__main__":
    sys.exit(main())
