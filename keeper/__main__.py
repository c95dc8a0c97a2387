"""`python -m keeper` runs the daemon; `python -m keeper run-once JOB` runs one job and prints its report."""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from collections.abc import Sequence

from core import log as logging
from core.config import KeeperSettings, Settings, load
from core.errors import VpmError
from core.outbox import IntentWatch
from core.service.daemon import run_daemon
from keeper.jobs import BY_NAME, JOBS, Job, Runner, wait_for_hashes
from keeper.run import RunReport
from keeper.service import open_keeper, setup

HASH_SECONDS = 10.0


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="keeper", description="List, settle and pay markets until stopped.")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")
    once = commands.add_parser("run-once", help="run one job now, print what it did and what it skipped, and exit")
    jobs = "\n".join(f"  {job.name:15} {job.purpose}" for job in JOBS)
    once.formatter_class = argparse.RawDescriptionHelpFormatter
    once.description = f"Jobs:\n{jobs}"
    once.add_argument("job", choices=tuple(BY_NAME), metavar="JOB")
    once.add_argument("--dry-run", action="store_true", help="submit nothing; print what would be submitted")
    once.add_argument("--json", action="store_true", help="print the report as JSON")
    options = parser.parse_args(arguments)
    if options.command is None:
        return run_daemon("keeper", setup, metrics_port=lambda settings: settings.keeper_metrics_port)
    return _run_once(BY_NAME[options.job], dry_run=options.dry_run, as_json=options.json)


def _run_once(job: Job, *, dry_run: bool, as_json: bool) -> int:
    try:
        settings, how = load(Settings), load(KeeperSettings)
        logging.configure("WARNING", settings.log_format)
        report = asyncio.run(_once(settings, how, job, dry_run))
    except VpmError as error:
        print(f"keeper: {error.sentence()}", file=sys.stderr)
        return error.exit_code
    print(json.dumps(report.body(), indent=2) if as_json else as_text(report, dry_run))
    return 0 if report.ok else 1


async def _once(settings: Settings, how: KeeperSettings, job: Job, dry_run: bool) -> RunReport:
    async with open_keeper(settings, how) as keeper:
        report = await Runner(keeper).run(job, dry_run=dry_run)
        if not dry_run:
            async with IntentWatch(settings.database_url.get_secret_value(), keeper.pool) as watch:
                await wait_for_hashes(report, watch, HASH_SECONDS)
    return report


def as_text(report: RunReport, dry_run: bool) -> str:
    verb = "would submit" if dry_run else "submitted"
    lines = [f"{report.job}: {verb} {len(report.actions)}, skipped {len(report.skipped)}, {len(report.errors)} errors"]
    for action in report.actions:
        state = "" if dry_run else f" [{action.status}{' ' + action.tx_hash if action.tx_hash else ''}]"
        lines.append(f"  {verb:12} {action.kind} {action.target}: {action.detail}{state}")
    lines += [f"  skipped      {each.target}: {each.reason}" for each in report.skipped]
    lines += [f"  error        {each}" for each in report.errors]
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
