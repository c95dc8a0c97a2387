"""What each drill is about, and how it is taken out of the daemons: without it the drill must not hold.

`python -m tests.support.sabotage` writes docs/drills.md from this list and the drills themselves.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from core.paths import REPOSITORY
from scripts._drill.catalogue import DRILLS
from scripts._drill.fleet import Fleet

PAGE = REPOSITORY / "docs" / "drills.md"
TEST = "integration/test_drill_guards.py::test_a_drill_fails_without_the_guard_it_is_about"


@dataclass(frozen=True)
class Sabotage:
    """A guard and how daemons are started without it.

    guard: what it does, and where it stands. daemons: which run without it. code: run at their start, before their own.
    env: or what they are given. told: part of what the drill says then, so that it fails for this and nothing else.
    at_once: they are started again before the drill; otherwise only those that start during it are without the guard.
    """

    guard: str
    where: str
    daemons: tuple[str, ...]
    told: str
    code: str = ""
    env: Mapping[str, str] = field(default_factory=dict)
    at_once: bool = True

    def begin(self, fleet: Fleet, folder: Path) -> list[str]:
        """Takes the guard out; the instances concerned."""
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "sitecustomize.py").write_text(f"import sys\nsys.path.insert(0, {str(REPOSITORY)!r})\n{self.code}")
        names = [name for name in fleet.running if name.rpartition("-")[0] in self.daemons]
        for name in names:
            fleet.extra[name] = {"PYTHONPATH": str(folder), **self.env} if self.code else dict(self.env)
            if self.at_once:
                fleet.keep_down(name)
                fleet.start(name)
        return names

    def end(self, fleet: Fleet, names: list[str]) -> None:
        """Puts the guard back."""
        for name in names:
            fleet.extra.pop(name, None)
            if name in fleet.running:
                fleet.keep_down(name)
            fleet.start(name)


def _nothing(module: str, *functions: str, returns: str = "None") -> str:
    """These functions of a module do nothing."""
    lines = [f"import {module} as there", "async def nothing(*_, **__):", f"    return {returns}"]
    return "\n".join([*lines, *(f"there.{name} = nothing" for name in functions)]) + "\n"


SABOTAGE: dict[str, Sabotage] = {
    "kill-indexer": Sabotage(
        "whoever stands by, or starts again, takes the lead",
        "core/db/leader.py",
        ("indexer",),
        "the index of",
        "import asyncio\nfrom core.db.leader import Leadership\n"
        "async def never(self):\n    await asyncio.Event().wait()\nLeadership._acquire = never\n",
        at_once=False,
    ),
    "kill-keeper": Sabotage(
        "a keeper's jobs ask for transactions, and do not only run",
        "keeper/run.py",
        ("keeper",),
        "an observation of after the blow",
        _nothing("keeper.run", "JobRun.ask"),
    ),
    "kill-relayer": Sabotage(
        "a lane begins with what its rows say is in flight",
        "relayer/store.py",
        ("relayer",),
        "on the chain",
        "from relayer.store import LaneStore\nfirst = LaneStore.transactions\n"
        "async def forgotten(self):\n    _, next_nonce, highest = await first(self)\n"
        "    return [], next_nonce, highest\nLaneStore.transactions = forgotten\n",
        at_once=False,
    ),
    "kill-api": Sabotage(
        "a process that starts again follows the index",
        "api/followed_index.py",
        ("api",),
        "that was read after that bet",
        "import asyncio\nfrom api.followed_index import FollowedIndex\n"
        "async def never(self):\n    await asyncio.Event().wait()\nFollowedIndex.run = never\n",
        at_once=False,
    ),
    "kill-worker": Sabotage(
        "a worker that ended is replaced by one that serves",
        "api/workers.py",
        ("api",),
        "an answer of the worker started again",
        # Nothing of the API is imported here: its metrics of several processes are set up first.
        "import asyncio\nfirst, begun = asyncio.create_subprocess_exec, set()\n"
        "async def idle(*command, **how):\n"
        "    number = command[-1] if '--worker' in command else None\n"
        "    again = number is not None and number in begun\n    begun.add(number)\n"
        "    return await first(*(('sleep', '300') if again else command), **how)\n"
        "asyncio.create_subprocess_exec = idle\n",
        at_once=False,
    ),
    "tamper-index": Sabotage(
        "the audit compares the numbers of a market with the contract's",
        "indexer/audit/compare.py",
        ("indexer",),
        "the audit did not find the changed row",
        "from indexer.audit.compare import Comparison\nComparison.fields = lambda *_, **__: None\n"
        "Comparison.value = lambda *_, **__: None\n",
    ),
    "stop-postgres": Sabotage(
        "the relayer connects again and takes its lanes back",
        "relayer/leases.py",
        ("relayer",),
        "a new bet confirmed",
        "import asyncio\nimport relayer.leases as there\nfirst, times = there.connect, []\n"
        "async def once(*args, **how):\n    times.append(1)\n"
        "    if len(times) > 1:\n        await asyncio.Event().wait()\n"
        "    return await first(*args, **how)\nthere.connect = once\n",
    ),
    "fill-disk": Sabotage(
        "the indexer connects again and leads again",
        "core/db/leader.py",
        ("indexer",),
        "a new bet confirmed",
        "import asyncio\nfrom core.db.leader import Leadership\nfirst, roles = Leadership._acquire, set()\n"
        "async def once(self):\n    if self.role in roles:\n        await asyncio.Event().wait()\n"
        "    roles.add(self.role)\n    return await first(self)\nLeadership._acquire = once\n",
    ),
    "drop-rpc": Sabotage(
        "what is shown from memory says that it is old",
        "api/stock/reads.py",
        ("api",),
        "did not say that it is stale",
        "from api.stock.reads import StockReads\nStockReads.stale = property(lambda self: False)\n",
    ),
    "hang-rpc": Sabotage(
        "a node that does not answer is given up after a while",
        "core/config/settings.py",
        ("indexer", "relayer"),
        "a new bet confirmed",
        env={"VPM_RPC_TIMEOUT_SECONDS": "120"},
    ),
    "corrupt-rpc": Sabotage(
        "a block whose bloom allows more logs than were given is not believed",
        "indexer/bloom.py",
        ("indexer",),
        "the left-out logs noticed",
        "from indexer.bloom import BloomTest\nBloomTest.allows_ours = lambda self, bits: False\n"
        "BloomTest.allows_payment = lambda self, bits: False\n",
    ),
    "reorg": Sabotage(
        "a transaction whose block was replaced is on its way again",
        "relayer/following.py",
        ("relayer",),
        "every undone transaction in another block",
        _nothing("relayer.following", "Follower._undo_reorged"),
    ),
    "stand-still": Sabotage(
        "what the node does not have is offered again, and what does not move at a higher fee",
        "relayer/transaction.py",
        ("relayer",),
        "them offered again",
        "import relayer.replacing as there\nfrom relayer.transaction import NextStep\n"
        "there.next_step = lambda *_, **__: NextStep.KEEP\n",
    ),
    "jam-nonce": Sabotage(
        "a nonce that somebody else took is given up, and its intent gets another",
        "relayer/following.py",
        ("relayer",),
        "not within",
        _nothing("relayer.following", "NonceRepair.repair", "Follower._give_up_taken", returns="True"),
    ),
    "out-of-gas": Sabotage(
        "a lane that cannot pay says so and signs nothing",
        "relayer/standing.py",
        ("relayer",),
        "every lane out of gas",
        "import relayer.assigning as there\nfrom core.outbox.lanes import LaneStatus\n"
        "there.lane_status = lambda standing: (LaneStatus.READY, '')\n",
    ),
    "freeze-owner": Sabotage(
        "the keeper sends what is owed to whoever can be paid",
        "keeper/stock/deliver_job.py",
        ("keeper",),
        "the other owner paid",
        _nothing("keeper.stock.deliver_job", "_pay"),
    ),
    "pause-token": Sabotage(
        "the keeper settles whatever the token does",
        "keeper/stock/resolve_job.py",
        ("keeper",),
        "settled: not within",
        _nothing("keeper.stock.resolve_job", "_due", returns="[]"),
    ),
    "miss-bell": Sabotage(
        "a keeper that comes late settles what is long past its bell",
        "keeper/stock/resolve_job.py",
        ("keeper",),
        "settled: not within",
        _nothing("keeper.stock.resolve_job", "_due", returns="[]"),
        at_once=False,
    ),
    "lose-source": Sabotage(
        "where no source answers nothing is posted",
        "keeper/agent/snapshot_job.py",
        ("keeper",),
        "was posted without a source",
        "import keeper.agent.snapshot_job as there\nfirst = there._believe\n"
        "async def invented(run, feed, contract, observed, last):\n"
        "    try:\n        return await first(run, feed, contract, observed, last)\n"
        "    except there.SampleRefused as refused:\n"
        "        there.metrics.REFUSALS.labels(feed.key, str(refused.why)).inc()\n"
        "        return await first(run, feed, contract, there.SIMULATED, last)\n"
        "there._believe = invented\n",
    ),
    "thin-pool": Sabotage(
        "a reading that is no good is recorded like any other, because it decides that stakes go back",
        "keeper/agent/record_job.py",
        ("keeper",),
        "given back: not within",
        _nothing("keeper.agent.record_job", "_record"),
    ),
    "pause-bets": Sabotage(
        "the door refuses bets while the contract is paused",
        "api/agent/switch.py",
        ("api",),
        "agent bets refused",
        "from dataclasses import replace\nfrom api.agent.switch import Trading\nfirst = Trading.why_off\n"
        "def blind(self, venue):\n"
        "    return first(self, venue if venue is None else replace(venue, stakes_paused=False))\n"
        "Trading.why_off = blind\n",
    ),
    "condemn-feed": Sabotage(
        "the keeper pays stakes back",
        "keeper/agent/pay_job.py",
        ("keeper",),
        "given back: not within",
        _nothing("keeper.agent.pay_job", "_pay", "_pay_lost"),
    ),
    "deep-reorg": Sabotage(
        "beyond finality nothing is undone by itself",
        "indexer/chain.py",
        ("indexer",),
        "the index halted",
        "import indexer.chain as there\nthere.final_block = lambda *_: 0\n",
    ),
}


def page() -> str:
    """docs/drills.md."""
    rows = [
        f"| `{name}` | {drill.breaks} | {drill.afterwards} | {SABOTAGE[name].guard} (`{SABOTAGE[name].where}`) |"
        for name, drill in DRILLS.items()
    ]
    return "\n".join([_HEAD, *rows, ""])


_HEAD = f"""\
# Drills

`./vpm drill NAME` breaks one thing on a local service of its own, with bets going on, and looks at what the chain or
the public pages show afterwards: what the service says of itself proves nothing. Each drill is about a guard; with that
taken out of the daemons it must not hold, which `{TEST}`
sees for each of them (`VPM_TEST_LONG=1`; a few with `--thorough`). What to do when it happens for real:
[operate.md](operate.md).

This page is written by `python -m tests.support.sabotage`.

| Drill | Breaks | What is different afterwards | The guard it fails without |
|---|---|---|---|"""


if __name__ == "__main__":
    sys.exit(0 if PAGE.write_text(page()) else 1)
