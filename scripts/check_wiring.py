"""Compares the contracts with their deployment file: `ape run check_wiring --network URL --deployment FILE`."""

from pathlib import Path
from typing import Any

import click
from ape import Contract, project

from core.contracts.deployments import load_deployment
from scripts._deploy import wiring
from scripts._deploy.command import connected


@connected
def cli(provider: Any, deployment: str) -> None:
    """Check code, constructor arguments, bounds, feeds, owners and roles; exit with 1 if anything differs."""
    findings = wiring.check(provider, project, Contract, load_deployment(Path(deployment)))
    for one in findings:
        click.echo(one.line())
    still_open = sum(one.open for one in findings)
    wrong = sum(not one.ok for one in findings) - still_open
    left = f", {still_open} open" if still_open else ""
    click.echo(f"{len(findings) - wrong - still_open} right, {wrong} wrong{left}")
    raise SystemExit(1 if wrong else 0)
