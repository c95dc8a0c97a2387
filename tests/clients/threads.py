"""Every type of an answer that the Python library reads, met for the first time by several threads at once."""

from __future__ import annotations

import sys
import threading
import types
import typing
from decimal import Decimal
from typing import Any

import msgspec
from vpm_client import VpmError, models
from vpm_client.call import API_VERSION, decode, to_json

THREADS = 4
PLAIN = {str: API_VERSION, int: 1, Decimal: 1, bool: True}
"""Any text will do, except for the version of the API."""


def example(of: Any) -> Any:
    """Something that a type takes, as JSON has it."""
    origin, inner = typing.get_origin(of), typing.get_args(of)
    if origin is list:
        return [example(inner[0])]
    if origin is dict:
        return {}
    if origin in (typing.Union, types.UnionType):
        return example(inner[0])
    if isinstance(of, type) and issubclass(of, msgspec.Struct):
        fields = typing.get_type_hints(of)
        return {
            name: example(fields[field])
            for field, name in zip(of.__struct_fields__, of.__struct_encode_fields__, strict=True)
        }
    return PLAIN[of]


def meet(model: type[Any], problems: list[str]) -> None:
    body, gate = to_json(example(model)), threading.Barrier(THREADS)

    def read() -> None:
        gate.wait()
        try:
            decode(model, body)
        except VpmError as problem:
            problems.append(f"{model.__name__}: {problem!r}")

    threads = [threading.Thread(target=read) for _ in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def main() -> None:
    sys.setswitchinterval(1e-6)
    problems: list[str] = []
    met = models.Body.__subclasses__()
    for model in met:
        meet(model, problems)
    print(f"{len(met)} met", *problems, sep="\n")


main()
