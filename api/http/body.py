"""The base of answers' bodies: what is made, read by the pages and written is one struct, which describes itself."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from inspect import cleandoc
from typing import Any, TypeGuard

import msgspec
from pydantic import BaseModel

Json = dict[str, Any]
Schema = dict[str, Any]


class Body(msgspec.Struct, kw_only=True, rename="camel", gc=False):
    """An answer's body, or a part of one, with names in camel case on the wire. None holds what holds it, so the
    collector passes them over."""


# What describes an answer. A body with fields of its own for every case, as an error's is, has a model of pydantic's.
AnswerModel = type[Body] | type[BaseModel]

encode = msgspec.json.Encoder().encode


def is_body(model: type[Any]) -> TypeGuard[type[Body]]:
    return issubclass(model, Body)


def schemas_of(bodies: Iterable[type[Body]], reference: Callable[[str], str]) -> dict[str, Schema]:
    """The schemas of these bodies and of all that they are made of, by the names of their classes. `reference`: where
    the schema of such a name stands."""

    def tidy(schema: Any) -> Any:
        if isinstance(schema, list):
            return [tidy(each) for each in schema]
        if not isinstance(schema, dict):
            return schema
        plain = {key: tidy(value) for key, value in schema.items()}
        if isinstance(plain.get("description"), str):
            plain["description"] = cleandoc(plain["description"])
        if "$ref" in plain:
            plain["$ref"] = reference(plain["$ref"])
        texts = plain.get("enum")
        if isinstance(texts, list) and all(isinstance(each, str) for each in texts):
            plain["type"] = "string"  # not every reader takes it from the texts
            if len(texts) == 1:
                plain["const"] = plain.pop("enum")[0]
        return plain

    _, made = msgspec.json.schema_components(bodies, ref_template="{name}")
    return {name: tidy(schema) for name, schema in made.items()}
