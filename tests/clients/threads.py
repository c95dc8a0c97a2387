"""Every answer of the Python library met for the first time by several threads at once."""

from __future__ import annotations

import sys
import threading
import types
import typing
from decimal import Decimal
from typing import Any

import msgspec
from vpm_client import models
from vpm_client.call import decoded, to_json

THREADS = 4
PLAIN = {str: "x", int: 1, Decimal: 1, float: 1.5, bool: True}


def example(of: Any) -> Any:
    """Something that a type takes, as JSON has it."""
    origin, inner = typing.get_origin(of), typing.get_args(of)
    if origin is list:
        return [example(inner[0])]
    if origin is dict:
        return {}
    if origin in (typing.Union, types.UnionType):
        return example(inner[0])
    if origin is typing.Literal:
        return inner[0]
    if isinstance(of, type) and issubclass(of, msgspec.Struct):
        fields = typing.get_type_hints(of)
        return {
            name: example(fields[field])
            for field, name in zip(of.__struct_fields__, of.__struct_encode_fields__, strict=True)
        }
    return PLAIN.get(of)


def meet(model: type[Any], problems: list[str]) -> None:
    body, gate = to_json(example(model)), threading.Barrier(THREADS)

    def read() -> None:
        gate.wait()
        try:
            decoded(model, body)
        except Exception as problem:
            if type(problem).__name__ != "WrongVersion":
                problems.append(f"{model.__name__}: {problem!r}")

    threads = [threading.Thread(target=read) for _ in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def main() -> None:
    sys.setswitchinterval(1e-6)
    problems: list[str] = []
    met = [made for name, made in vars(models).items() if name.startswith("Agent") and name.endswith("Answer")]
    for model in met:
        meet(model, problems)
    print(f"{len(met)} met", *problems, sep="\n")


main()
