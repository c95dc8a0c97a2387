"""What a start of a stack does once, in processes that end with it, so that `./vpm up` itself stays small.

python -m scripts._stack migrate               brings the database in DATABASE_URL to the schema
python -m scripts._stack deploy STATE CHAINS   compiles and deploys what is missing on the chains, given as JSON
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from pathlib import Path

from core.db.migrate import migrate
from core.errors import VpmError
from scripts._stack import contracts
from scripts._stack.chains import LocalChain
from scripts._stack.deploying import deploy_all, what_stands
from scripts._stack.state import State, write_json


async def deploy(state: State, chains: dict[str, LocalChain]) -> None:
    """Bring the contracts onto the chains, and write down for `vpm up` what stands there."""
    if not contracts.compiled():
        await contracts.compile_all()
    await deploy_all(chains, state)
    write_json(state.standing, what_stands(chains, state))


def main(command: str, *arguments: str) -> int:
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # ape ends with this, as at Ctrl-C
    try:
        if command == "migrate":
            migrate(os.environ["DATABASE_URL"])
        else:
            root, chains = arguments
            asyncio.run(deploy(State(Path(root)), {each["name"]: LocalChain(**each) for each in json.loads(chains)}))
    except VpmError as error:
        print(f"vpm: {error.sentence()}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
