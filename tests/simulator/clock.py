"""Virtual time for every clock that the service reads, in Python and in SQL."""

from __future__ import annotations

import contextlib
import functools
import gc
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime, tzinfo
from pathlib import Path
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import Any

import psycopg

REAL_SLEEP = time.sleep

_PACKAGES = ("core", "api", "indexer", "keeper", "relayer", "apscheduler")

# Named before pg_catalog in the search path, so `now()` means this one; SQL that is defined after it follows it too.
# And a timeout set in PostgreSQL would go by the machine's clock.
SQL = """
CREATE FUNCTION public.clock_timestamp() RETURNS timestamptz LANGUAGE plpgsql VOLATILE PARALLEL SAFE AS $$ BEGIN
    RETURN to_timestamp(pg_read_file('{folder}/clock-' || current_database())::float8);
END $$;
CREATE FUNCTION public.now() RETURNS timestamptz LANGUAGE plpgsql STABLE PARALLEL SAFE AS $$ BEGIN
    RETURN to_timestamp(pg_read_file('{folder}/clock-' || current_database())::float8);
END $$;
CREATE FUNCTION public.set_config(text, text, boolean) RETURNS text LANGUAGE sql VOLATILE AS $$ SELECT $2 $$;
"""


class VirtualClock:
    """The clock of a simulated world. PostgreSQL reads it from the file `path`."""

    def __init__(self, epoch: float, path: Path) -> None:
        self._epoch_us = round(epoch * 1e6)
        self._us = 1_000_000_000  # since the machine was started: nothing of ours expects a clock at zero
        self._began_us = self._us
        self._file = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        self._written_us = -1
        self.write()

    @property
    def monotonic(self) -> float:
        return self._us / 1e6

    @property
    def now(self) -> float:
        return (self._epoch_us + self._us - self._began_us) / 1e6

    @property
    def elapsed_us(self) -> int:
        return self._us - self._began_us

    @property
    def elapsed(self) -> float:
        return (self._us - self._began_us) / 1e6

    def advance(self, seconds: float) -> None:
        self._us += max(1, -(-round(seconds * 1e7) // 10))

    def write(self) -> None:
        """Set PostgreSQL's clock. This runs before each of its statements."""
        if self._written_us != self._us:
            self._written_us = self._us
            os.pwrite(self._file, f"{self.now:.6f}".encode(), 0)


def install(clock: VirtualClock) -> None:
    """Switch this process to virtual time for good; each world has its own process."""

    class VirtualDatetime(datetime, metaclass=_AnyDatetime):
        @classmethod
        def now(cls, tz: tzinfo | None = None) -> Any:
            return datetime.fromtimestamp(clock.now, tz)

        @classmethod
        def utcnow(cls) -> Any:
            return datetime.fromtimestamp(clock.now, UTC).replace(tzinfo=None)

    virtual: dict[str, Callable[..., float]] = {
        "time": lambda: clock.now,
        "time_ns": lambda: round(clock.now * 1e9),
        "monotonic": lambda: clock.monotonic,
        "perf_counter": lambda: clock.monotonic,
        "clock_gettime": lambda _which: clock.monotonic,
    }
    real = {getattr(time, name): fake for name, fake in virtual.items()}
    for function in that_keep_a_clock():
        _put(function, real)
    for name, module in list(sys.modules.items()):
        if name == __name__:
            continue
        for known, value in list(vars(module).items()):  # some took it by name, as psycopg does
            if isinstance(value, BuiltinFunctionType) and value in real:
                setattr(module, known, real[value])
    for module in that_ask():
        module.datetime = VirtualDatetime  # type: ignore[attr-defined]


@functools.cache
def that_keep_a_clock() -> list[FunctionType]:
    """Return the functions of loaded modules that have a clock of the machine as the default of a parameter or a field.
    Such a default was bound at the definition, so replacing a module's name does not reach it. They are looked up once,
    before the collector is frozen."""
    clocks = {time.time, time.time_ns, time.monotonic, time.perf_counter}

    def keeps(function: FunctionType) -> bool:
        held = [*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values(), *_enclosed(function)]
        return any(isinstance(each, BuiltinFunctionType) and each in clocks for each in held)

    return [each for each in gc.get_objects() if isinstance(each, FunctionType) and keeps(each)]


def _enclosed(function: FunctionType) -> Iterator[Any]:
    for cell in function.__closure__ or ():
        with contextlib.suppress(ValueError):  # it is empty
            yield cell.cell_contents


def _put(function: FunctionType, real: Mapping[Any, Any]) -> None:
    def replaced(value: Any) -> Any:
        return real.get(value, value) if isinstance(value, BuiltinFunctionType) else value

    if function.__defaults__:
        function.__defaults__ = tuple(map(replaced, function.__defaults__))
    if function.__kwdefaults__:
        function.__kwdefaults__ = {name: replaced(value) for name, value in function.__kwdefaults__.items()}
    for cell in function.__closure__ or ():
        with contextlib.suppress(ValueError):
            cell.cell_contents = replaced(cell.cell_contents)


class _AnyDatetime(type):
    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, datetime)


@functools.cache
def that_ask() -> list[ModuleType]:
    """Return the loaded modules that read the date. Other modules are left alone, because some build decoders from the
    type that they name. They are looked up once, before worlds are forked."""
    found = []
    for name, module in list(sys.modules.items()):
        path = getattr(module, "__file__", None) or ""
        ours = name.split(".")[0] in _PACKAGES and path and getattr(module, "datetime", None) is datetime
        if ours and "datetime.now(" in Path(path).read_text():
            found.append(module)
    return found


def make_sql_follow(connection: psycopg.Connection[Any], folder: Path) -> None:
    """Make SQL's clock follow the file `clock-<database>` in this folder. The database must not have tables yet, so
    that their defaults and functions follow too."""
    connection.execute(SQL.format(folder=folder).encode())
