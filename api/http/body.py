"""The base of every answer's model that knows all its fields."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict
from pydantic.alias_generators import to_camel


def further_fields(schema: dict[str, Any]) -> None:
    """`json_schema_extra` of an answer's model that knows all its fields: published, it may have more. Fields are
    added to answers, and whoever holds one to its schema must not be thrown by them."""
    schema.pop("additionalProperties", None)


class Body(BaseModel):
    """An answer's body, or a part of one, with names in camel case on the wire."""

    model_config = ConfigDict(
        alias_generator=to_camel,
        validate_by_alias=True,
        validate_by_name=True,
        extra="forbid",  # by the tests, which hold every answer to these
        strict=True,
        json_schema_extra=further_fields,
    )
