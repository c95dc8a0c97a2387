"""Rows that a query is given, beside those of its tables."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from sqlalchemy import FromClause, column, func, literal
from sqlalchemy.dialects.postgresql import ARRAY
from sqlalchemy.types import TypeEngine


def given(name: str, **columns: tuple[type[TypeEngine[Any]], Iterable[Any]]) -> FromClause:
    """A table of these columns, each an array of as many values: one parameter each, so that the statement is the same
    however many rows there are, and SQLAlchemy and PostgreSQL prepare it once. VALUES is compiled anew each time."""
    arrays = [literal(list(values), ARRAY(kind)) for kind, values in columns.values()]
    names = [column(each, kind) for each, (kind, _) in columns.items()]
    return func.unnest(*arrays).table_valued(*names).render_derived(name=name)
