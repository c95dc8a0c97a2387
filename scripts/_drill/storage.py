"""Drills on PostgreSQL and its disk."""

from __future__ import annotations

import asyncio
import contextlib
import resource
import subprocess
import time
from typing import Any

import psycopg

from core.db.engine import conninfo
from core.hexadecimal import hex_of
from scripts._drill.checks import index_command
from scripts._drill.drill import Drill, DrillHeld, bet_taken, reads_served, require
from scripts._drill.fleet import Fleet, children
from scripts._drill.load import Load
from scripts._drill.witness import offered_by, public_offer
from scripts._stack.chains import CHAIN_IDS

AWAY_SECONDS = 8.0
# A write beyond this offset fails with EFBIG, which PostgreSQL meets exactly as it meets a full disk: it cannot extend
# a file or write its log. Nothing of the machine's disk is used up.
QUOTA_BYTES = 64 * 1024


async def stop_postgres(fleet: Fleet, load: Load) -> DrillHeld:
    await fleet.stop_postgres()
    await asyncio.sleep(AWAY_SECONDS / 2)
    served = await reads_served(load)
    status, answer = await load.call("POST", "/api/cup/v1/wallet", {"walletAddress": "0x" + "11" * 20})
    await asyncio.sleep(AWAY_SECONDS / 2)
    await fleet.start_postgres()
    require(served == 200, f"the market list answered {served} while the database was away")
    require(not 0 < status < 500, f"a write was answered {status} while the database was away: {answer}")
    took = await bet_taken(fleet, load, 60)
    restarts = fleet.restarts
    return DrillHeld(
        f"away for {AWAY_SECONDS:.0f} s: reads went on from memory, writes were refused ({status}); a bet was "
        f"confirmed {took:.1f} s after it was back; {restarts} daemons had to be started again so far",
        took,
    )


async def fill_disk(fleet: Fleet, load: Load) -> DrillHeld:
    pids = _servers(fleet)
    require(bool(pids), "no PostgreSQL process was found")
    await asyncio.to_thread(_limit, fleet, pids)
    failed = ""

    async def refuses() -> bool:
        nonlocal failed
        try:
            await asyncio.to_thread(_write, fleet)
        except psycopg.Error as error:
            failed = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        return bool(failed)

    await fleet.until(refuses, "PostgreSQL refusing writes for want of space", 60, pause=0.5)
    served = await reads_served(load)
    require(served == 200, f"the market list answered {served} while the disk was full")
    # What the runbook says: make room, then start PostgreSQL again.
    await fleet.stop_postgres()
    await fleet.start_postgres()
    took = await bet_taken(fleet, load, 90)
    await asyncio.gather(*(fleet.indexed(chain) for chain in CHAIN_IDS))
    return DrillHeld(
        f"writes failed ({_words(fleet) or failed[:80]}), reads went on; a bet was confirmed {took:.1f} s after there "
        "was room again",
        took,
    )


async def tamper_index(fleet: Fleet, load: Load) -> DrillHeld:
    """A number of the oldest bet changes behind the indexer's back, as by a faulty disk or a stray UPDATE."""
    ((position, owner),) = await fleet.ask_database(
        "SELECT position_id, owner FROM stock_position WHERE vintage > 0 ORDER BY position_id LIMIT 1"
    )
    page, true = hex_of(bytes(owner)), await offered_by(fleet, position)
    require(await public_offer(load, page, position) == true, "the public page was wrong before anything was changed")
    await fleet.ask_database(
        "UPDATE stock_position SET offered = offered + 1 WHERE position_id = %s RETURNING position_id", position
    )

    async def shows(number: int) -> bool:
        return await public_offer(load, page, position) == number

    await fleet.until(lambda: shows(true + 1), "the wrong number on the public page", 60, pause=0.5)
    code, said = await index_command(fleet, "audit", "--chain", "stock")
    require(code == 1 and "mismatches" in said, f"the audit did not find the changed row: {said.strip()[-300:]}")
    measured = await fleet.until(lambda: _mismatches(fleet, True), "the mismatch in the metrics", 60, pause=0.5)
    began = time.monotonic()
    code, said = await index_command(fleet, "rebuild", "--chain", "stock")
    require(code == 0, f"vpm rebuild: {said.strip()[-300:]}")
    # A reorganization or a bet between snapshot and question is worth a second try, as for an operator.
    await fleet.until(lambda: _clean(fleet), "an audit without mismatches", 60, pause=1.0)
    took = time.monotonic() - began
    await fleet.until(lambda: _mismatches(fleet, False), "no mismatch in the metrics", 60, pause=0.5)
    await fleet.until(lambda: shows(true), "the true number on the public page", 60, pause=0.5)
    return DrillHeld(
        f"the audit found the changed row, the metrics told {measured:.1f} s later; rebuilt and audited clean within "
        f"{took:.1f} s, and the public page shows the true number again",
        took,
    )


async def _clean(fleet: Fleet) -> bool:
    return (await index_command(fleet, "audit", "--chain", "stock"))[0] == 0


async def _mismatches(fleet: Fleet, some: bool) -> bool:
    """Whether every indexer tells of some, or every one of none."""
    audits = [await fleet.metric(each, "vpm_index_audit_mismatches") for each in fleet.instances("indexer")]
    counts = [samples.get((("chain", "stock"),)) for samples in audits]
    return all(value is not None and (value > 0) is some for value in counts)


def _words(fleet: Fleet) -> str:
    """What PostgreSQL wrote of it into its log."""
    lines = (fleet.folder / "postgres.log").read_text(errors="replace").splitlines()
    said = [line for line in lines if "File too large" in line or "No space left" in line]
    return said[0].partition("UTC ")[2][:120] if said else ""


def _write(fleet: Fleet) -> None:
    """Enough that a file has to grow."""
    with psycopg.connect(conninfo(fleet.database_url), autocommit=True, connect_timeout=3) as connection:
        connection.execute("CREATE TABLE IF NOT EXISTS drill_ballast (filler text)")
        connection.execute("INSERT INTO drill_ballast SELECT repeat(md5(i::text), 50) FROM generate_series(1, 2000) i")
        connection.execute("DROP TABLE drill_ballast")


def _limit(fleet: Fleet, pids: list[int]) -> None:
    """Sets the quota as the servers' own user, which needs no privilege."""

    def as_their_user() -> None:
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                resource.prlimit(pid, resource.RLIMIT_FSIZE, (QUOTA_BYTES, resource.RLIM_INFINITY))

    user = fleet.database.plan.user
    drop: dict[str, Any] = {} if user is None else {"user": user, "group": user, "extra_groups": []}
    subprocess.run(["true"], check=True, cwd="/", preexec_fn=as_their_user, **drop)


def _servers(fleet: Fleet) -> list[int]:
    """The postmaster and its backends: every process whose data folder is ours."""
    with contextlib.suppress(OSError, ValueError, IndexError):
        first = int((fleet.database.data_dir / "postmaster.pid").read_text().splitlines()[0])
        return [first, *children(first)]
    return []


DRILLS = (
    Drill(
        "tamper-index",
        "one number of one bet is changed in PostgreSQL",
        "the audit finds it and the metrics tell; a rebuild beside the running indexers makes it good",
        "the public page, which showed the wrong number, shows the contract's, and the audit finds nothing more",
        "the-index-differs-from-the-chain",
        tamper_index,
    ),
    Drill(
        "stop-postgres",
        f"PostgreSQL stops for {AWAY_SECONDS:.0f} s",
        "reads go on from memory, writes are refused; a bet is confirmed within 60 s of its return",
        "a new bet is on the chain and on its owner's public page",
        "postgresql-is-away",
        stop_postgres,
    ),
    Drill(
        "fill-disk",
        "PostgreSQL may not write another byte beyond its quota",
        "writes are refused and nothing is lost; a bet is confirmed within 90 s once there is room",
        "a new bet is on the chain and on its owner's public page",
        "the-disk-is-full",
        fill_disk,
    ),
)
