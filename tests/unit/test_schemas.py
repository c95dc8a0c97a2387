"""What machines read before they ask: the schemas of OpenAPI and of the tools are plain JSON Schema."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import jsonschema

from scripts._stack import wallets
from tests.support.descriptions import documents, tools

KEYWORDS = {
    "$defs",
    "$ref",
    "additionalProperties",
    "allOf",
    "anyOf",
    "const",
    "default",
    "description",
    "enum",
    "examples",
    "exclusiveMaximum",
    "exclusiveMinimum",
    "format",
    "items",
    "maxItems",
    "maxLength",
    "maximum",
    "minItems",
    "minLength",
    "minimum",
    "oneOf",
    "pattern",
    "prefixItems",
    "properties",
    "propertyNames",
    "required",
    "title",
    "type",
}
NUMBERS = {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "minLength", "maxLength", "minItems"}


def tool_schemas() -> Iterator[tuple[str, dict[str, Any]]]:
    for surface, listed in asyncio.run(tools()).items():
        for tool in listed:
            yield f"{surface} {tool['name']} takes", tool["inputSchema"]
            yield f"{surface} {tool['name']} gives", tool["outputSchema"]


def api_schemas() -> Iterator[tuple[str, dict[str, Any]]]:
    for surface, document in asyncio.run(documents()).items():
        for name, schema in document["components"]["schemas"].items():
            yield f"{surface} {name}", schema
        for path, methods in document["paths"].items():
            for operation in methods.values():
                for each in operation.get("parameters", ()):
                    yield f"{surface} {path} {each['name']}", each["schema"]


def faults(schema: Any) -> Iterator[str]:
    """What a reader of JSON Schema 2020-12 does not know, or would refuse."""
    if isinstance(schema, bool):
        return
    for key, value in schema.items():
        if key not in KEYWORDS:
            yield f"{key} is no keyword"
        elif key in NUMBERS and (isinstance(value, bool) or not isinstance(value, int | float)):
            yield f"{key} is {value!r}"
        elif key in ("properties", "$defs"):
            for inner in value.values():
                yield from faults(inner)
        elif key in ("anyOf", "allOf", "oneOf", "prefixItems"):
            for inner in value:
                yield from faults(inner)
        elif key in ("items", "additionalProperties", "propertyNames"):
            yield from faults(value)


def closed(schema: Any) -> bool:
    """Whether it refuses a field that it does not name."""
    if isinstance(schema, list):
        return any(closed(each) for each in schema)
    if not isinstance(schema, dict):
        return False
    return schema.get("additionalProperties") is False or any(closed(each) for each in schema.values())


def test_every_schema_is_made_of_keywords_that_readers_know() -> None:
    seen = [*tool_schemas(), *api_schemas()]
    assert len(seen) > 100
    found = [f"{name}: {fault}" for name, schema in seen for fault in faults(schema)]
    assert not found, "\n".join(found)


def test_what_a_tool_gives_may_have_further_fields() -> None:
    gives = [(name, schema) for name, schema in tool_schemas() if name.endswith("gives")]
    assert gives
    assert [name for name, schema in gives if closed(schema)] == []
    for surface, document in asyncio.run(documents()).items():
        assert not [answer for answer, schema in answers(document) if closed(schema)], surface


def answers(document: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """Each body that can come, with all that it is made of."""
    schemas = document["components"]["schemas"]
    for path, methods in document["paths"].items():
        for operation in methods.values():
            for status, answer in operation["responses"].items():
                for content in answer.get("content", {}).values():
                    yield f"{path} {status}", whole(content["schema"], schemas)


def whole(schema: Any, schemas: dict[str, Any], within: tuple[str, ...] = ()) -> Any:
    """With what it refers to in its place."""
    if isinstance(schema, list):
        return [whole(each, schemas, within) for each in schema]
    if not isinstance(schema, dict):
        return schema
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return {} if name in within else whole(schemas[name], schemas, (*within, name))
    return {key: whole(value, schemas, within) for key, value in schema.items()}


def test_no_example_is_an_address_whose_key_everybody_knows() -> None:
    known = [each.address.lower() for each in (*wallets.DEV, wallets.ATTESTATION)]
    known += ["0x70997970c51812dc3a010c7d01b50e0d17dc79c8", "0xf39fd6e51aad88f6f4ce6ab8827279cfffb92266"]
    for name, text in (
        ("tools", json.dumps([schema for _, schema in tool_schemas()])),
        *((surface, json.dumps(document)) for surface, document in asyncio.run(documents()).items()),
    ):
        assert not [each for each in known if each in text.lower()], name


def test_each_server_has_the_tools_of_its_surface() -> None:
    """Every argument is described or named by its schema; what money moves is marked as what cannot be taken back."""
    listed = asyncio.run(tools())
    assert {name: len(each) for name, each in listed.items()} == {"agent": 14, "stock": 7, "cup": 9}
    undescribed = [
        f"{surface} {tool['name']} {name}"
        for surface in ("agent", "stock")
        for tool in listed[surface]
        for name, schema in tool["inputSchema"]["properties"].items()
        if "description" not in schema
    ]
    assert undescribed == []


def test_what_schemas_show_fits_them() -> None:
    """Defaults and examples; and what must be sent has no default."""
    for name, schema in tool_schemas():
        if name.endswith("takes"):
            for field, inner in schema["properties"].items():
                shown = [*inner.get("examples", ()), *([inner["default"]] if "default" in inner else [])]
                wrong = [each for each in shown if not jsonschema.Draft202012Validator(inner).is_valid(each)]
                assert not wrong, f"{name} {field}: {wrong}"
                assert not (field in schema.get("required", ()) and "default" in inner), f"{name} {field}"
