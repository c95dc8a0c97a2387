"""A relayer of `./vpm bench scale`, in a process of its own: `python -m scripts._bench.relay_child`.

It reads one line of JSON: the node's and the database's address, the group its lanes serve, and their keys; it works
until its standard input ends.
"""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

import uvloop

from relayer.signing import LocalSigner
from scripts._bench.relay import lanes_at_work


async def _work(job: dict[str, Any]) -> None:
    signers = [LocalSigner(bytes.fromhex(key)) for key in job["keys"]]
    async with lanes_at_work(job["rpc"], job["database"], job["group"], signers) as tasks:
        end = asyncio.create_task(asyncio.to_thread(sys.stdin.read))
        done, _ = await asyncio.wait([end, *tasks], return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()


def main() -> None:
    job = json.loads(sys.stdin.readline())
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_work(job))


if __name__ == "__main__":
    main()
