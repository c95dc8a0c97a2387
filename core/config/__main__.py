"""Lists all variables with `python -m core.config`, and checks the environment with `--check`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator

from pydantic import SecretStr

from core.config import ApiSecrets, RelayerSecrets, Settings, exposed_files, load, unknown_variables
from core.config.loading import FILE, SettingsBase, is_secret
from core.errors import ConfigError

FIRST: tuple[type[SettingsBase], ...] = (Settings, ApiSecrets, RelayerSecrets)


def groups() -> Iterator[type[SettingsBase]]:
    yield from FIRST
    yield from (each for each in SettingsBase.__subclasses__() if each not in FIRST)


def listing() -> Iterator[str]:
    for group in groups():
        yield f"# {group.__name__}"
        for name, field in group.model_fields.items():
            default = field.default.get_secret_value() if isinstance(field.default, SecretStr) else field.default
            shown = ",".join(map(str, default)) if isinstance(default, tuple) else default
            required = "required" if field.is_required() else f"default {'unset' if shown in (None, '') else shown}"
            in_file = "; or name a file with it in " + (field.alias or name) + FILE
            yield f"{field.alias or name}: {field.description} ({required}{in_file if is_secret(field) else ''})"


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="core.config", description="List all settings, or check the environment.")
    parser.add_argument("--check", action="store_true", help="check the environment instead")
    if not parser.parse_args(arguments).check:
        print("\n".join(listing()))
        return 0
    try:
        for group in groups():
            load(group)
    except ConfigError as error:
        print(error.sentence(), file=sys.stderr)
        return error.exit_code
    for sentence in (*unknown_variables(), *exposed_files()):
        print(sentence)
    return 0


if __name__ == "__main__":
    sys.exit(main())
