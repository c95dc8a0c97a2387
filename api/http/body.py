"""The base of answers' bodies: one struct is built, shown by pages, encoded, and described in OpenAPI. Amounts are
decimals, which are written as JSON numbers with these digits."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from inspect import cleandoc
from typing import Any

import msgspec

Json = dict[str, Any]
Schema = dict[str, Any]


class Body(msgspec.Struct, kw_only=True, rename="camel", gc=False):
    """An answer's body, or a part of one, with camel-case names on the wire. Bodies have no reference cycles, so the
    garbage collector skips them. That of an error describes the fields that all errors have; it may carry more."""


def schemas_of(bodies: Iterable[type[Body]], reference: Callable[[str], str]) -> dict[str, Schema]:
    """Return the schemas of these bodies and their parts, by class name. `reference`: returns the `$ref` of a name."""

    def tidy(schema: Any) -> Any:
        if isinstance(schema, list):
            return [tidy(each) for each in schema]
        if not isinstance(schema, dict):
            return schema
        plain = {key: tidy(value) for key, value in schema.items()}
        if isinstance(plain.get("description"), str):
            plain["description"] = cleandoc(plain["description"])
        if plain.get("format") == "decimal":
            plain = {key: value for key, value in plain.items() if key != "format"} | {"type": "number"}
        if "$ref" in plain:
            plain["$ref"] = reference(plain["$ref"])
        values = plain.get("enum")
        if isinstance(values, list):
            for kind, name in ((str, "string"), (int, "integer")):
                if all(isinstance(each, kind) for each in values):
                    plain["type"] = name  # some readers do not infer it
            if len(values) == 1:
                plain["const"] = plain.pop("enum")[0]
        return plain

    _, made = msgspec.json.schema_components(bodies, ref_template="{name}")
    return {name: tidy(schema) for name, schema in made.items()}
