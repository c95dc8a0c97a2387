"""`python -m scripts._stack STATE CHAINS` deploys the contracts that are missing on a stack's chains (CHAINS is JSON).
This work has its own short-lived process so that `./vpm up` stays small. On a first start, another process imports ape
on a second core while this process imports its own modules."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from pathlib import Path

from core.errors import VpmError
from scripts._stack.ape import ape
from scripts._stack.parts import LocalChain
from scripts._stack.state import State


def main(root: str, described: str) -> int:
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # ape ends with this, as at Ctrl-C
    state = State(Path(root))
    try:
        with ape(state.ape, eager=not state.deployed.exists()) as started:
            from scripts._stack.deploying import deploy_all  # noqa: PLC0415

            asyncio.run(deploy_all([LocalChain(**each) for each in json.loads(described)], state, started))
    except VpmError as error:
        print(f"vpm: {error.sentence()}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
