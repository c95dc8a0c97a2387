"""Loads settings from the environment, and reports every mistake in a sentence that names the variable.

An empty variable counts as unset. A secret may be in a file: set `DATABASE_URL_FILE=/run/secrets/database_url` instead
of `DATABASE_URL`.
"""

from __future__ import annotations

import difflib
import os
import stat
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, TypeVar, get_args, get_type_hints

from pydantic import BaseModel, ConfigDict, SecretStr, ValidationError
from pydantic.fields import FieldInfo

from core.errors import ConfigError
from core.log import register_secret

FILE = "_FILE"
KEYSTORE_PASSWORD = "VPM_RELAYER_KEYSTORE_PASSWORD_FILE"  # noqa: S105 - the name of a variable that names a file

# Read by the process runner, the launcher, deployment scripts or tests rather than by a settings class.
PROCESS_VARIABLES = frozenset(
    {"VPM_READY_FILE", "VPM_SAFE_OWNER_KEYS", "VPM_TEST_DATABASE_URL", "VPM_TEST_FORK_BASE", "VPM_TEST_FORK_STOCK"}
)


class SettingsBase(BaseModel):
    """A frozen group of settings. A field's alias is its environment variable, and its description says which value is
    expected."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", validate_by_alias=True, validate_by_name=True, hide_input_in_errors=True
    )


def variables_with_prefix(prefix: str) -> ConfigDict:
    return ConfigDict(alias_generator=lambda name: prefix + name.upper())


S = TypeVar("S", bound=SettingsBase)


def load(settings: type[S], env: Mapping[str, str] | None = None) -> S:
    """Load and check one class of settings. Raise ConfigError with a sentence for each invalid variable."""
    given = environment(env)
    values = {name: text for name, text in given.items() if name in variables(settings)}
    for name in _secrets_of(settings):
        if name + FILE in given:
            values[name] = _read_secret(name, given)
    try:
        loaded = settings.model_validate(values)
    except ValidationError as error:
        raise ConfigError(_sentences(settings, error)) from None
    for field in type(loaded).model_fields:
        for secret in _secrets_in(getattr(loaded, field)):
            register_secret(secret)
    return loaded


def environment(env: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the known variables that are set."""
    env = os.environ if env is None else env
    known = known_variables()
    return {name: text.strip() for name, text in env.items() if name in known and text.strip()}


def setting(name: str, env: Mapping[str, str] | None = None) -> str | None:
    """Return the value of one variable, or None if the variable is not set. The value may be in a file."""
    given = environment(env)
    return _read_secret(name, given) if name + FILE in given else given.get(name)


def variables(settings: type[SettingsBase]) -> dict[str, str]:
    """Return the field name for each variable of a settings class."""
    return {field.alias or name: name for name, field in settings.model_fields.items()}


def known_variables() -> frozenset[str]:
    settings = SettingsBase.__subclasses__()
    files = {name + FILE for each in settings for name in _secrets_of(each)}
    return PROCESS_VARIABLES.union(files, *(variables(each) for each in settings))


def exposed_files(env: Mapping[str, str] | None = None) -> list[str]:
    """Return a warning for each secret file that all users of the machine can read."""
    files = {name + FILE for each in SettingsBase.__subclasses__() for name in _secrets_of(each)} | {KEYSTORE_PASSWORD}
    return [
        f"{name} names {path}, which holds a secret but is readable by all users of this machine: run chmod o-r {path}"
        for name, path in sorted(environment(env).items())
        if name in files and _is_world_readable(path)
    ]


def unknown_variables(env: Mapping[str, str] | None = None) -> list[str]:
    """Return a warning for each unknown VPM_* variable. The warning suggests the closest known variable."""
    env = os.environ if env is None else env
    names = known_variables()
    return [
        f"{name} is set but unknown"
        + "".join(f"; did you mean {close}?" for close in difflib.get_close_matches(name, names, n=1, cutoff=0.75))
        for name in sorted(env)
        if name.startswith("VPM_") and name not in names
    ]


def _secrets_of(settings: type[SettingsBase]) -> list[str]:
    """Return the variables of a settings class that hold a secret, or a URL that may contain one."""
    return [field.alias or name for name, field in settings.model_fields.items() if is_secret(field)]


def is_secret(field: FieldInfo) -> bool:
    return not field.repr or _has_secret(field.annotation)


def _has_secret(kind: Any) -> bool:
    if kind is SecretStr:
        return True
    parts = get_type_hints(kind).values() if hasattr(kind, "_fields") else get_args(kind)
    return any(_has_secret(part) for part in parts)


def _read_secret(name: str, given: Mapping[str, str]) -> str:
    if name in given:
        raise ConfigError(f"{name} and {name}{FILE} are both set: set only one.")
    path = Path(given[name + FILE])
    try:
        text = path.read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not text"
        raise ConfigError(
            f"{name}{FILE} names {path}, which cannot be read: {why}.", hint="Correct the path or the file's mode."
        ) from None
    if not text:
        raise ConfigError(f"{name}{FILE} names {path}, which is empty: write the secret into the file.")
    return text


def _is_world_readable(path: str) -> bool:
    try:
        return bool(os.stat(path).st_mode & stat.S_IROTH)
    except OSError:
        return False  # reported when the file is read


def _sentences(settings: type[SettingsBase], error: ValidationError) -> str:
    by_field = {field: variable for variable, field in variables(settings).items()}
    lines = []
    for problem in error.errors(include_input=False, include_url=False):
        place = str(problem["loc"][0]) if problem["loc"] else ""
        variable = by_field.get(place, place)
        message = problem["msg"].removeprefix("Value error, ").rstrip(".")
        if not variable:  # a check of several variables; its message names them
            lines.append(f"{message}.")
            continue
        description = settings.model_fields[variables(settings)[variable]].description or "a valid value"
        if problem["type"] == "missing":
            lines.append(f"{variable} is not set; expected {description}.")
        else:
            message = message[0].lower() + message[1:] if message[:2] != message[:2].upper() else message
            lines.append(f"{variable} is invalid: {message}; expected {description}.")
    return " ".join(dict.fromkeys(lines))


def _secrets_in(value: object) -> Iterable[str]:
    if isinstance(value, SecretStr):
        yield value.get_secret_value()
    elif isinstance(value, tuple):
        for item in value:
            yield from _secrets_in(item)
