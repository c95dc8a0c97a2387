"""Tool schemas from the models of requests and answers, simplified for language models and all clients."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pydantic import BaseModel

from api.http.body import Body, Schema, schemas_of


def takes(models: Iterable[type[BaseModel]]) -> Schema:
    """Return one object schema of all fields of these models, without null alternatives and titles."""
    properties: Schema = {}
    required: list[str] = []
    for model in models:
        made = model.model_json_schema(by_alias=True, mode="validation")
        properties |= {name: _plain(field) for name, field in made.get("properties", {}).items()}
        required += made.get("required", ())
    plain: Schema = {"type": "object", "properties": properties, "additionalProperties": False}
    return {**plain, "required": required} if required else plain


def gives(model: type[Body]) -> Schema:
    """Return the schema of an answer, which may have further fields."""
    definitions = schemas_of([model], lambda name: f"#/$defs/{name}")
    made: Schema = untitled({**definitions.pop(model.__name__), "$defs": definitions})
    return made


def gives_either(*schemas: Schema) -> Schema:
    """Return the schema of one of several answers. Definitions with equal names are the same."""
    definitions: Schema = {}
    alternatives = []
    for schema in schemas:
        definitions |= schema.get("$defs", {})
        alternatives.append({key: value for key, value in schema.items() if key != "$defs"})
    return {"type": "object", "anyOf": alternatives, "$defs": definitions}


def _plain(field: Schema) -> Schema:
    options = [each for each in field.get("anyOf", ()) if each.get("type") != "null"]
    merged = {**(options[0] if len(options) == 1 else {}), **field}
    if len(options) == 1:
        del merged["anyOf"]
    if merged.get("default", ...) is None:
        del merged["default"]
    merged.pop("title", None)
    return merged


def untitled(schema: Any) -> Any:
    if isinstance(schema, list):
        return [untitled(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        key: {name: untitled(each) for name, each in value.items()}
        if key in ("properties", "$defs")
        else untitled(value)
        for key, value in schema.items()
        if key != "title"
    }
