"""Error messages that tell the sender what is wrong with a request."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from typing import Annotated, Any

import pytest
from annotated_types import BaseMetadata
from pydantic import BaseModel, Field, TypeAdapter, ValidationError

import api.agent.requests
import api.cup.requests
from api.problems import Problem
from api.requests import PATTERNS, WHOLE, reject_duplicate_fields, validation_problem
from api.stock import bets, cron, owned, quoting, reads, receipt


class Wanted(BaseModel):
    wallet: str = Field(pattern=r"^0x[0-9a-fA-F]{40}$")
    note: str = Field(pattern="^unheard of$")


def test_a_format_is_described_in_words_and_never_as_a_regular_expression() -> None:
    with pytest.raises(ValidationError) as raised:
        Wanted.model_validate({"wallet": "0x12", "note": "x"})
    refusal = validation_problem(raised.value, "field")
    assert refusal.message == "The field wallet is invalid: must be 0x and 40 hexadecimal digits."
    assert refusal.extra["details"] == [
        {"field": "wallet", "problem": "must be 0x and 40 hexadecimal digits"},
        {"field": "note", "problem": "does not match the documented format"},
    ]


def patterns(module: Any) -> Iterator[str]:
    for model in vars(module).values():
        if isinstance(model, type) and issubclass(model, BaseModel) and _is_request(model):
            for field in model.model_fields.values():
                yield from _of(field.metadata)
                yield from _of(getattr(field.annotation, "__args__", ()))


def _is_request(model: type[BaseModel]) -> bool:
    return model.__name__.endswith(("Request", "Query", "Path"))


def _of(metadata: Any) -> Iterator[str]:
    for each in metadata:
        pattern = getattr(each, "pattern", None)
        if isinstance(pattern, str):
            yield pattern
        if not isinstance(each, BaseMetadata):
            yield from _of(getattr(each, "__metadata__", ()))
            yield from _of(getattr(each, "metadata", ()) or ())


def test_every_pattern_of_a_request_has_its_words() -> None:
    modules = (api.agent.requests, api.cup.requests, bets, cron, owned, quoting, reads, receipt)
    found = {pattern for module in modules for pattern in patterns(module)}
    assert len(found) >= 8
    assert found <= PATTERNS.keys()


@pytest.mark.parametrize(
    "body",
    [b'{"a": 1, "a": 1}', b'{"in": {"a": 1, "b": 2, "a": 3}}', b'[{"a": null, "\\u0061": 2}]'],
)
def test_a_field_named_twice_is_refused_by_name(body: bytes) -> None:
    with pytest.raises(Problem) as raised:
        reject_duplicate_fields(body)
    assert (raised.value.status, raised.value.extra["details"]) == (
        400,
        [{"field": "a", "problem": "is given twice"}],
    )


def test_the_same_name_in_two_objects_is_fine() -> None:
    reject_duplicate_fields(b'{"a": {"a": 1e400}, "b": [{"a": 2}, {"a": ' + b"9" * 6000 + b"}]}")


@pytest.mark.parametrize(
    ("given", "taken"),
    [(1.0, 1), (Decimal("1.0"), 1), (Decimal("1E+1"), 10), (1.5, 1.5), (Decimal("0.1"), Decimal("0.1")), ("1", "1")],
)
def test_a_whole_number_is_one_however_it_is_written(given: object, taken: object) -> None:
    adapter = TypeAdapter(Annotated[Any, WHOLE])
    assert (adapter.validate_python(given), type(adapter.validate_python(given))) == (taken, type(taken))


@pytest.mark.parametrize("given", [Decimal("1E+999999999"), Decimal("-1E+999999999"), float("inf"), float("-inf")])
def test_a_number_beyond_all_fields_is_left_as_it_is(given: object) -> None:
    assert TypeAdapter(Annotated[Any, WHOLE]).validate_python(given) == given


def test_every_429_has_retry_after() -> None:
    assert int(Problem(429, "rate_limited", "Too many.").headers["Retry-After"]) > 0
    assert Problem(429, "rate_limited", "Too many.", headers={"Retry-After": "7"}).headers == {"Retry-After": "7"}
    assert Problem(400, "invalid_request", "No.").headers == {}
