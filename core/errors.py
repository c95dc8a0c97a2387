"""One error base for everything the service can refuse or fail at, and the start-up errors.

    VpmError
    ├── ConfigError          a setting is missing or wrong              (exit 78)
    ├── DeploymentError      a deployments file is missing or wrong     (exit 78)
    ├── ChainIdMismatch      an RPC URL answers for another chain       (exit 78)
    ├── DatabaseError        the database refused or cannot be reached  (exit 69)
    │   ├── DatabaseUnreachable
    │   ├── DatabaseRefused
    │   └── SchemaOutdated
    ├── ProcessError         a local process did not start              (exit 69)
    ├── MoneyError           an amount that is not exact token units
    └── core.chain.errors.RpcError, ContractReverted

Every error carries `code` (stable, snake_case), `message` (one sentence), `hint` (what to do next) and `retriable`
(the same request may succeed later). `exit_code` is what a process ends with when the error stops it.
"""

from __future__ import annotations

from typing import ClassVar

EXIT_CRASH = 1
EXIT_UNAVAILABLE = 69  # sysexits.h EX_UNAVAILABLE: something we need is not there
EXIT_CONFIG = 78  # sysexits.h EX_CONFIG: starting again without a change cannot help


class VpmError(Exception):
    """The base of every error this code raises on purpose; the docstring of a subclass is its default message."""

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
        """Return what a person at a terminal should read: the message, then the hint."""
        return f"{self.message} {self.hint}".strip()


class ConfigError(VpmError):
    """A setting is missing or wrong."""

    code = "config_invalid"
    exit_code = EXIT_CONFIG


class DeploymentError(VpmError):
    """A deployments file is missing or wrong."""

    code = "deployment_invalid"
    exit_code = EXIT_CONFIG


class ChainIdMismatch(VpmError):
    """An RPC URL answers for another chain than the one configured."""

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
    """The database schema is older or newer than this code."""

    code = "schema_outdated"
    default_hint = "Run `./vpm migrate`."


class ProcessError(VpmError):
    """A local process did not start."""

    code = "process_failed"
    exit_code = EXIT_UNAVAILABLE


class MoneyError(VpmError, ValueError):
    """The amount is not an exact number of token units."""

    code = "amount_invalid"
