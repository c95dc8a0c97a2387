"""`python -m indexer`: runs the daemon, or audits or rebuilds its tables."""

from __future__ import annotations

import argparse
import asyncio
import sys
import traceback
from collections.abc import Awaitable, Callable

import psycopg

from core import log as logging
from core.chain import ChainClient
from core.chain.provider import ChainProvider
from core.config import ChainSettings, Settings, load
from core.config.settings import CHAIN_NAMES
from core.contracts.deployments import load_deployment
from core.db.engine import ConnectionPool, make_pool
from core.db.migrate import check_fit
from core.db.schema import metadata
from core.errors import EXIT_UNAVAILABLE, ConfigError, VpmError
from indexer.audit.rows import Comparison
from indexer.audit.run import audit
from indexer.rebuild import rebuild
from indexer.service import serve
from indexer.sources import Sources, sources_of

DESCRIPTION = "Index the configured chains into the database, or audit or rebuild the tables."

# Only an audit that found differences exits with this code.
EXIT_DIFFERS = 1

ChainWork = Callable[[ConnectionPool, Settings, ChainSettings, Sources], Awaitable[bool]]


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="indexer", description=DESCRIPTION)
    commands = parser.add_subparsers(dest="command")
    commands.add_parser("run", help="follow the chains until stopped (the default)")
    for name, what in (
        ("rebuild", "delete the projections and fold them again from the raw logs"),
        ("audit", "compare raw logs, all rows, totals and views with the chain; exit with 1 if any differs"),
    ):
        command = commands.add_parser(name, help=what)
        command.add_argument("--chain", choices=CHAIN_NAMES, help="the only chain to work on")
    options = parser.parse_args(arguments)
    if options.command in (None, "run"):
        return serve()
    work: ChainWork = _rebuild if options.command == "rebuild" else _audit
    try:
        settings = load(Settings)
        logging.configure(settings.log_level, settings.log_format)
        return asyncio.run(_each_chain(settings, options.chain, work))
    except Exception as error:
        return _fault_code("indexer", error)


def _fault_code(what: str, error: Exception) -> int:
    """Print the error of a command that failed; return its exit code."""
    if isinstance(error, VpmError):
        print(f"{what}: {error.sentence()}", file=sys.stderr)
        return EXIT_UNAVAILABLE if error.exit_code == EXIT_DIFFERS else error.exit_code
    if isinstance(error, psycopg.Error):
        why = (str(error) or type(error).__name__).splitlines()[0]
        print(f"{what}: the database failed: {why}", file=sys.stderr)
    else:
        traceback.print_exception(error)
    return EXIT_UNAVAILABLE


async def _each_chain(settings: Settings, only: str | None, work: ChainWork) -> int:
    """Do the work on each chain and return the exit code. A difference on one chain takes precedence over an error on
    another."""
    url = settings.database_url.get_secret_value()
    await check_fit(settings)
    codes: list[int] = []
    async with make_pool(url, size=2, answer_seconds=None, application_name="vpm-indexer-command") as pool:
        for name in CHAIN_NAMES:
            chain = settings.chain(name)
            if only not in (None, name):
                continue
            deployment = load_deployment(chain.deployment_file)
            if not deployment.is_deployed:
                print(f"{name}: nothing is deployed")
                continue
            try:
                is_well = await work(pool, settings, chain, sources_of(deployment, name))
                codes.append(0 if is_well else EXIT_DIFFERS)
            except Exception as error:  # a fault of one chain must not stop work on the other
                codes.append(_fault_code(name, error))
    if not codes and only is not None:
        raise ConfigError(f"Nothing is deployed on the {only} chain.")
    return EXIT_DIFFERS if EXIT_DIFFERS in codes else max(codes, default=0)


async def _rebuild(pool: ConnectionPool, _settings: Settings, chain: ChainSettings, sources: Sources) -> bool:
    done = await rebuild(pool, sources)
    print(f"{chain.name}: {done.logs:,} logs folded up to block {done.block} in {done.seconds:.1f} s")
    return True


async def _audit(pool: ConnectionPool, settings: Settings, chain: ChainSettings, sources: Sources) -> bool:
    async with ChainProvider(
        chain.rpc_urls, chain_id=sources.chain_id, timeout_seconds=settings.rpc_timeout_seconds
    ) as rpc:
        done = await audit(pool, ChainClient(rpc), sources, progress=_show_progress)
    comparison, one = done.comparison, done.first_block == done.last_block
    blocks = f"block {done.last_block}" if one else f"blocks {done.first_block} to {done.last_block}"
    print(f"{chain.name}: {comparison.compared:,} numbers compared at {blocks}, {comparison.mismatches} mismatches")
    for each in comparison.detail[:20]:
        where = f"{each['what']} {each['key']} {each['field']}"
        print(f"  {where}: table {each['ours']}, chain {each['chain']} at block {each['block']}")
    if comparison.detail and comparison.detail[0]["what"] in metadata.tables:
        print("  The contracts' views were not compared: rows that differ from their logs must be rebuilt first.")
    return comparison.mismatches == 0


def _show_progress(stage: str, so_far: Comparison) -> None:
    """Replace the progress line in a terminal. If the output is not a terminal, write nothing."""
    if sys.stdout.isatty():
        print(f"\r\x1b[K{so_far.compared:,} numbers compared, at {stage}", end="\r", flush=True)
