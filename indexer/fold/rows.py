"""The input and output of folds: pages of logs, and projection rows as objects. A row has its table's columns as
attributes. Its attribute `stored` is True if it replaces a row with the same key in the database."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, make_dataclass
from operator import attrgetter
from typing import Any

import msgspec
from sqlalchemy import Table


class BlockInfo(msgspec.Struct, frozen=True, gc=False):
    """A block as stored. `l1_number` is what contracts read as block.number. On most chains that is the block's own
    number."""

    number: int
    hash: bytes
    timestamp: int
    l1_number: int


class LogRecord(msgspec.Struct, frozen=True, gc=False):
    """A decoded log of our contracts or feeds. `topics` are concatenated; `entity` and `event` come from the log's
    layout in core.contracts.events."""

    block: int
    index: int
    at: int  # its block's Unix seconds
    tx: bytes
    address: bytes
    topics: bytes
    data: bytes
    entity: bytes | None
    event: Any


@dataclass(frozen=True, slots=True)
class Page:
    """Consecutive blocks from `first` to `end`. `logs` are all of our logs in these blocks, in chain order. `blocks`
    are the blocks to store, in ascending order: `end`, every block with logs, and perhaps others."""

    first: int
    end: BlockInfo
    blocks: tuple[BlockInfo, ...]
    logs: list[LogRecord]

    @property
    def hashes(self) -> dict[int, bytes]:
        return {each.number: each.hash for each in self.blocks}


@dataclass(frozen=True, slots=True)
class Need:
    """A fold's request for the stored rows whose `columns` equal one of `values`."""

    kind: RowKind
    columns: tuple[str, ...]
    values: list[tuple[Any, ...]]


@dataclass(frozen=True, slots=True)
class Write:
    """Rows to write, with values in column order. Rows in `changed` replace those with the same key."""

    table: Table
    added: list[tuple[Any, ...]]
    changed: list[tuple[Any, ...]]


@dataclass(frozen=True, slots=True)
class AffectedRows:
    """The rows whose contributions to the sums may change in a step: the positions or stakes with these `ids`, those
    `added` in the step, all those of these `vintages` or of the `whole` markets, and the rows of `markets` themselves.
    """

    ids: list[int] = field(default_factory=list)
    added: list[int] = field(default_factory=list)
    vintages: list[tuple[int, int]] = field(default_factory=list)
    whole: list[Any] = field(default_factory=list)
    markets: list[Any] = field(default_factory=list)


def fields_of(event: Any) -> dict[str, Any]:
    """Return an event's fields as column values, with tuples as lists."""
    fields = msgspec.structs.asdict(event)
    return {name: list(value) if isinstance(value, tuple) else value for name, value in fields.items()}


def copy_fields(row: Any, event: Any, *names: str) -> None:
    """Copy an event's fields (all, or only those named) to the columns of the same names."""
    for name in names or event.__struct_fields__:
        setattr(row, name, getattr(event, name))


class RowKind:
    """A table's row class: `new(...)` makes a new row, and `values(row)` returns a row's values in column order."""

    def __init__(self, table: Table) -> None:
        self.table = table
        self.columns = tuple(column.name for column in table.columns)
        self.key = tuple(column.name for column in table.primary_key.columns)
        slots = [(name, Any, field(default=None)) for name in self.columns]
        self.new: Any = make_dataclass(table.name, [*slots, ("stored", bool, field(default=False))], slots=True)
        self.values = attrgetter(*self.columns)

    def loaded(self, values: Sequence[Any]) -> Any:
        return self.new(*values, stored=True)

    def write(self, rows: Iterable[Any], added: Iterable[tuple[Any, ...]] = ()) -> Write:
        """Return the Write that stores `rows`, and mark them as stored. `added` are the values of further new rows."""
        write = Write(self.table, list(added), [])
        for row in rows:
            (write.changed if row.stored else write.added).append(self.values(row))
            row.stored = True
        return write
