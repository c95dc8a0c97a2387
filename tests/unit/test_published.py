"""Fields may be added, never renamed or removed: the interface holds all that was ever published of it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.support.published import broken, documents, lines, published

BEFORE = {
    "GET /a",
    "GET /a takes query limit",
    "GET /a gives 200",
    "GET /a gives 200 .name",
    "POST /b",
    "POST /b takes .who!",
    "POST /b takes .note",
}


def test_nothing_published_is_gone_and_nothing_more_must_be_sent() -> None:
    for name, described in asyncio.run(documents()).items():
        found = broken(published(name), lines(described))
        assert not found, f"{name}: clients of the published interface would break:\n" + "\n".join(found)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"-": "GET /a gives 200 .name", "+": "GET /a gives 200 .title"}, ["gone: GET /a gives 200 .name"]),
        ({"-": "GET /a takes query limit"}, ["gone: GET /a takes query limit"]),
        (
            {"-": "POST /b takes .note", "+": "POST /b takes .note!"},
            ["must be sent now: POST /b takes .note!"],
        ),
        ({"+": "POST /b takes .new!"}, ["must be sent now: POST /b takes .new!"]),
        ({"-": "POST /b takes .who!", "+": "POST /b takes .who"}, []),  # no longer has to: nobody minds
        ({"+": "GET /a gives 200 .more"}, []),
        ({"+": "GET /new takes query must!"}, []),
    ],
)
def test_what_counts_as_broken(change: dict[str, str], told: list[str]) -> None:
    now = (BEFORE - {change.get("-", "")}) | {change["+"]} if "+" in change else BEFORE - {change["-"]}
    assert broken(BEFORE, now) == told


def test_a_field_of_a_new_optional_object_demands_nothing() -> None:
    assert broken(BEFORE, BEFORE | {"POST /b takes .deal", "POST /b takes .deal.price!"}) == []
    known = BEFORE | {"POST /b takes .deal", "POST /b takes .deal.price!"}
    assert broken(known, known | {"POST /b takes .deal.size!"}) == ["must be sent now: POST /b takes .deal.size!"]


def test_nested_fields_arrays_and_schemas_within_themselves_are_followed() -> None:
    node = {"properties": {"name": {"type": "string"}, "children": {"type": "array", "items": ref("Node")}}}
    described: dict[str, Any] = {
        "paths": {
            "/tree": {
                "get": {
                    "parameters": [{"in": "query", "name": "depth", "required": True}],
                    "responses": {"200": {"content": {"application/json": {"schema": ref("Node")}}}},
                }
            }
        },
        "components": {"schemas": {"Node": node}},
    }
    assert lines(described) == {
        "GET /tree",
        "GET /tree takes query depth!",
        "GET /tree gives 200",
        "GET /tree gives 200 .name",
        "GET /tree gives 200 .children",
    }


def ref(name: str) -> dict[str, str]:
    return {"$ref": f"#/components/schemas/{name}"}
