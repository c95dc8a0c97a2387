"""The base class of our errors, and the errors of startup.

Every error has a `code` (stable, snake_case), a `message` (one sentence), a `hint` (what to do next) and `retriable`
(the same request may succeed later). `exit_code` is the exit code of a process that the error stops.
"""

from __future__ import annotations

from typing import ClassVar

EXIT_CRASH = 1
EXIT_UNAVAILABLE = 69  # sysexits.h EX_UNAVAILABLE: something we depend on is unavailable
EXIT_CONFIG = 78  # sysexits.h EX_CONFIG: restarting without a change will not help


class VpmError(Exception):
    """The base class of our errors. A subclass's docstring is its default message."""

    code: ClassVar[str] = "internal_error"
    default_hint: ClassVar[str] = ""
    default_retriable: ClassVar[bool] = False
    exit_code: ClassVar[int] = EXIT_CRASH

    def __init__(self, message: str | None = None, *, hint: str | None = None, retriable: bool | None = None) -> None:
        self.message: str = message if message is not None else (type(self).__doc__ or self.code).strip()
        self.hint: str = self.default_hint if hint is None else hint
        self.retriable: bool = self.default_retriable if retriable is None else retriable
        super().__init__(self.message)

    def sentence(self) -> str:
        """Return the message and the hint as text for a terminal."""
        return f"{self.message} {self.hint}".strip()


class ConfigError(VpmError):
    """A setting is missing or invalid."""

    code = "config_invalid"
    exit_code = EXIT_CONFIG


class DeploymentError(VpmError):
    """A deployment file is missing or invalid."""

    code = "deployment_invalid"
    exit_code = EXIT_CONFIG


class ChainIdMismatch(VpmError):
    """An RPC URL serves a different chain than the configured one."""

    code = "chain_id_mismatch"
    exit_code = EXIT_CONFIG


class DatabaseError(VpmError):
    """The database could not be used."""

    code = "database_error"
    exit_code = EXIT_UNAVAILABLE
    default_retriable = True


class DatabaseUnreachable(DatabaseError):
    """The database cannot be reached."""

    code = "database_unreachable"


class DatabaseRefused(DatabaseError):
    """The database refused the connection."""

    code = "database_refused"
    exit_code = EXIT_CONFIG
    default_retriable = False


class SchemaOutdated(DatabaseError):
    """The database schema is older than this code."""

    code = "schema_outdated"
    default_hint = "Run `./vpm migrate`."


class ProcessError(VpmError):
    """A local process did not start."""

    code = "process_failed"
    exit_code = EXIT_UNAVAILABLE


class MoneyError(VpmError, ValueError):
    """The amount is not an exact number of token units."""

    code = "amount_invalid"
