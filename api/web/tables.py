"""Tables that can stand as cards on a phone: every cell is told its column's name.

The names are put in where pages are rendered, so that no template says a header twice. They are read from our own
markup, in which every value is escaped already.
"""

from __future__ import annotations

import re

_TABLE = re.compile(r"<table\b.*?</table>", re.DOTALL)
_HEAD = re.compile(r"<thead>(.*?)</thead>", re.DOTALL)
_HEADER = re.compile(r"<th\b[^>]*>(.*?)</th>", re.DOTALL)
_BODY = re.compile(r"<tbody>.*?</tbody>", re.DOTALL)
_ROW = re.compile(r"<tr\b.*?</tr>", re.DOTALL)
_CELL = re.compile(r"<(td|th)\b")
_TAG = re.compile(r"<[^>]*>")


def labelled(page: str) -> str:
    """The page with `data-label` on each cell of its tables that have a head."""
    return _TABLE.sub(lambda table: _labelled(table[0]), page)


def _labelled(table: str) -> str:
    head = _HEAD.search(table)
    if head is None:
        return table
    names = [_TAG.sub("", each).strip().replace('"', "&quot;") for each in _HEADER.findall(head[1])]
    return _BODY.sub(lambda body: _ROW.sub(lambda row: _row(row[0], names), body[0]), table)


def _row(row: str, names: list[str]) -> str:
    columns = iter(names)

    def cell(tag: re.Match[str]) -> str:
        name = next(columns, "")
        return f'<{tag[1]} data-label="{name}"' if name else tag[0]

    return _CELL.sub(cell, row)
