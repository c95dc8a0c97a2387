"""A check of Schemathesis: a call that fits the published description is taken, or refused for a reason that the
description gives."""

from __future__ import annotations

import re
from typing import Any

from schemathesis import Case, CheckContext, GenerationMode, Response

# What a schema cannot say of a value, and the words of the description that do. A call that fits its schema is refused
# as `invalid_request` for one of these.
TOLD = {
    "sizeUsd": "at most 6 decimals",
    "minSharesOut": "at most 6 decimals",
    "sizePaper": "at most 2 decimals",
    "stakePaper": "at most 2 decimals",
    "cursor": "one that no answer gave is refused",
    "before": "of the page before",
    "week": "that its year has",
    "token": "printable characters without a space",
    "walletAddress": "Needed for a real",
    "url": "an https URL",
    "callbackUrl": "an https URL",
}
_NAMED = re.compile(r"^The [a-z ]+ (\w+) is wrong: ")


def refused_for_a_reason_that_is_told(_context: CheckContext, response: Response, case: Case[Any]) -> None:
    if response.status_code not in (400, 422) or case.meta is None:
        return
    if case.meta.generation.mode is not GenerationMode.POSITIVE:
        return
    body, described = response.json(), case.operation.definition.raw
    code = body["error"]
    if code != "invalid_request":
        meant = described["responses"][str(response.status_code)]["description"]
        assert f"`{code}`" in meant, f"{code} is not among what {response.status_code} means here: {meant}"
        return
    issues = body.get("issues") or body.get("details") or []
    fields = [each["field"] for each in issues] or _NAMED.findall(body["message"])
    assert fields, f"no field is named: {body['message']}"
    told = _descriptions(described, case)
    for field in fields:
        assert field in TOLD, f"the schema of {field} lets pass what is refused: {body['message']}"
        assert TOLD[field] in told.get(field, ""), f"nothing is said of why: {field}: {told.get(field)}"


def _descriptions(described: dict[str, Any], case: Case[Any]) -> dict[str, str]:
    """Of an operation's parameters and fields, by name."""
    found = {each["name"]: each.get("description", "") for each in described.get("parameters", ())}
    body = described.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema", {})
    if "$ref" in body:
        body = case.operation.schema.raw_schema["components"]["schemas"][body["$ref"].rpartition("/")[2]]
    return found | {name: each.get("description", "") for name, each in body.get("properties", {}).items()}
