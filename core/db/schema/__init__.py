"""The schema, with one module per area and all tables on one MetaData. All modules in this folder are imported here.

Constraint names follow a fixed convention, so that migrations can refer to constraints.
"""

from __future__ import annotations

import importlib
import pkgutil
from typing import Any

import sqlalchemy as sa
from sqlalchemy.schema import SchemaItem

metadata = sa.MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s",
        "pk": "pk_%(table_name)s",
    }
)


def table(name: str, *parts: SchemaItem, **options: Any) -> sa.Table:
    return sa.Table(name, metadata, *parts, **options)


def partial_index(name: str, *columns: str | sa.TextClause, where: str, unique: bool = False) -> sa.Index:
    return sa.Index(name, *columns, unique=unique, postgresql_where=sa.text(where))


for _module in pkgutil.iter_modules(__path__):
    importlib.import_module(f"{__name__}.{_module.name}")
