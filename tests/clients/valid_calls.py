"""Hooks of Schemathesis, which calls every operation with what its published description allows: a call that fits is
taken, or refused for a reason that the description gives.

Loaded by `SCHEMATHESIS_HOOKS`; nothing of the product is imported here.
"""

import itertools
import re
from typing import Any

import schemathesis

# What a schema cannot say of a value, and the words of the description that do. A call that fits its schema is refused
# as `invalid_request` for one of these.
TOLD = {
    "sizeUsd": "at most 6 decimals",
    "minSharesOut": "at most 6 decimals",
    "sizePaper": "at most 2 decimals",
    "stakePaper": "at most 2 decimals",
    "cursor": "one that no answer gave is refused",
    "before": "of the page before",
    "walletAddress": "Needed for a real",
    "url": "an https URL",
    "callbackUrl": "an https URL",
}
_NAMED = re.compile(r"^The [a-z ]+ (\w+) is wrong: ")
_numbers = itertools.count(1)


@schemathesis.hook
def before_call(_context: Any, case: Any, _kwargs: Any) -> None:
    """An address of its own for every call, so that limits stay out of the way."""
    number = next(_numbers)
    case.headers = {**(case.headers or {}), "X-Forwarded-For": f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}"}


@schemathesis.check
def breaks_nothing(_context: Any, response: Any, case: Any) -> None:
    """`/api/health` says 503 of what is ill elsewhere, which is its answer."""
    assert response.status_code < 500 or case.operation.path == "/api/health", response.text


@schemathesis.check
def refused_for_a_reason_that_is_told(_context: Any, response: Any, case: Any) -> None:
    if response.status_code not in (400, 422):
        return
    body, described = response.json(), case.operation.definition.raw
    code = body["error"]
    if code != "invalid_request":
        told = described["responses"][str(response.status_code)]["description"]
        assert f"`{code}`" in told, f"{code} is not among what {response.status_code} means here: {told}"
        return
    issues = body.get("issues") or body.get("details") or []
    fields = [each["field"] for each in issues] or _NAMED.findall(body["message"])
    assert fields, f"no field is named: {body['message']}"
    texts = descriptions(described, case)
    for field in fields:
        assert field in TOLD, f"the schema of {field} lets pass what is refused: {body['message']}"
        assert TOLD[field] in texts.get(field, ""), f"nothing is said of why: {field}: {texts.get(field)}"


def descriptions(described: dict[str, Any], case: Any) -> dict[str, str]:
    """Of an operation's parameters and fields, by name."""
    found = {each["name"]: each.get("description", "") for each in described.get("parameters", ())}
    body = described.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema", {})
    if "$ref" in body:
        body = case.operation.schema.raw_schema["components"]["schemas"][body["$ref"].rpartition("/")[2]]
    return found | {name: each.get("description", "") for name, each in body.get("properties", {}).items()}
