"""What seeds share: PostgreSQL with a migrated template whose clock is the world's, and the saved origin. Each seed has
its own database, chain and process, which is forked from this one because everything is imported here."""

from __future__ import annotations

import contextlib
import gc
import json
import os
import resource
import secrets
import signal
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import psycopg
from psycopg import sql
from sqlalchemy import make_url

from core.db.engine import conninfo
from core.db.migrate import migrate
from scripts._local.ports import free_port
from scripts._local.postgres import UNSAFE_BUT_FAST, prepare_postgres, start_postgres
from tests.simulator import clock
from tests.simulator.origin import origin
from tests.simulator.sides import CHAINS
from tests.simulator.world import SeedResult, World
from tests.support.genesis import Genesis, started

TEMPLATE = "simulated_template"
# A seed takes about fifteen seconds of processor time, one whose clients wait to its end minutes.
MAX_PROCESSOR_SECONDS, MAX_SECONDS = 300, 1_800
# No background work runs there: no seed would decide when.
SETTINGS = {**UNSAFE_BUT_FAST, "autovacuum": "off"}


@dataclass
class Stand:
    """A server and an origin that any number of seeds use."""

    url: str
    folder: Path
    surface: str
    origin: Genesis
    weather: str = ""

    def database(self, name: str) -> str:
        return make_url(self.url).set(drivername="postgresql", database=name).render_as_string(False)

    def make_template(self) -> None:
        with psycopg.connect(conninfo(self.url), autocommit=True) as connection:
            name = sql.Identifier(TEMPLATE)
            connection.execute(sql.SQL("DROP DATABASE IF EXISTS {}").format(name))
            connection.execute(sql.SQL("CREATE DATABASE {}").format(name))
            _follow_virtual_time(connection, name)
        (self.folder / f"clock-{TEMPLATE}").write_text("1900000000")
        with psycopg.connect(conninfo(self.database(TEMPLATE)), autocommit=True) as connection:
            clock.make_sql_follow(connection, self.folder)
        migrate(self.database(TEMPLATE))

    def start(self, seed: int, prepare: Callable[[World], None]) -> Callable[[], SeedResult]:
        """Start a process that ends with the seed. Return a function that waits for its end."""
        reading, writing = os.pipe()
        sys.stdout.flush()
        pid = os.fork()
        if pid == 0:
            os.close(reading)
            with os.fdopen(writing, "w") as out:
                out.write(json.dumps(self._in_child(seed, prepare)))
            os._exit(0)  # nothing of that world is tidied up
        os.close(writing)

        def ended() -> SeedResult:
            with os.fdopen(reading) as answer:
                text = answer.read()
            os.waitpid(pid, 0)
            result = json.loads(text or '{"error": "the process of the seed died"}')
            if "error" in result:
                return SeedResult(seed, [("it ran to its end", result["error"])], {}, "", "")
            return SeedResult(**{**result, "found": [tuple(each) for each in result["found"]]})

        return ended

    def _in_child(self, seed: int, prepare: Callable[[World], None]) -> dict[str, Any]:
        name = f"simulated_{secrets.token_hex(6)}"
        log = self.folder / f"{name}.log"
        chain = None
        try:
            # A collection runs what the dead left behind; and none is needed in a process that lives for seconds.
            gc.disable()
            gc.collect = lambda generation=2: 0
            with psycopg.connect(conninfo(self.url), autocommit=True) as connection:
                connection.execute(
                    sql.SQL("CREATE DATABASE {} TEMPLATE {}").format(sql.Identifier(name), sql.Identifier(TEMPLATE))
                )
                _follow_virtual_time(connection, sql.Identifier(name))
            chain, options = started(self.origin, CHAINS[self.surface], log, None, True, ("--order", "fifo"))
            signal.signal(signal.SIGALRM, _too_long)
            signal.signal(signal.SIGPROF, _too_long)
            signal.alarm(MAX_SECONDS)
            signal.setitimer(signal.ITIMER_PROF, MAX_PROCESSOR_SECONDS)
            world = World(
                seed,
                self.surface,
                options.url,
                conninfo(self.database(name)),
                self.folder / f"clock-{name}",
                self.origin.deployments,
                weather=self.weather,
            )
            prepare(world)
            result = world.run()
            used = resource.getrusage(resource.RUSAGE_SELF)
            result.cpu_seconds = used.ru_utime + used.ru_stime
            return asdict(result)
        except BaseException:
            return {"error": traceback.format_exc()[-3000:]}
        finally:
            if chain is not None:
                chain.stop()
            for path in (log, self.folder / f"clock-{name}"):
                path.unlink(missing_ok=True)
            with contextlib.suppress(psycopg.Error), psycopg.connect(conninfo(self.url), autocommit=True) as connection:
                connection.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))


class TooLong(KeyboardInterrupt):
    """The end of a seed that takes too long. The event loop lets no other kind of exception through."""


def _too_long(_signal: int, _frame: object) -> None:
    raise TooLong(f"it took {MAX_PROCESSOR_SECONDS} s of processor time or {MAX_SECONDS} s; it was here")


def _follow_virtual_time(connection: psycopg.Connection[Any], name: sql.Identifier) -> None:
    for setting in ("search_path = public, pg_catalog", "deadlock_timeout = '10ms'"):
        connection.execute(sql.SQL("ALTER DATABASE {} SET ").format(name) + sql.SQL(setting))


@contextlib.contextmanager
def standing(surface: str, weather: str = "") -> Iterator[Stand]:
    """Start a separate server that ends with the context. `surface`: the side that its worlds simulate; `weather`:
    settings that no seed draws, see `Weather.but`."""
    with tempfile.TemporaryDirectory(prefix="vpm-simulator-") as made:
        folder = Path(made)
        folder.chmod(0o755)
        server = prepare_postgres(folder / "postgres", free_port(), settings=SETTINGS, max_connections=200)
        running = start_postgres(server, folder / "postgres.log")
        try:
            stand = Stand(server.url(), folder, surface, origin(CHAINS[surface]), weather)
            stand.make_template()
            clock.that_keep_a_clock()
            clock.that_ask()
            gc.freeze()
            yield stand
        finally:
            running.stop()
