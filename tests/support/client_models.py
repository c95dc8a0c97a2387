"""Generates the types of the client libraries from the published description of the agent surface: `python -m
tests.support.client_models`. A test compares the files with it. docs/decisions/0026-types-of-the-client-libraries.md
says why no public generator does this."""

from __future__ import annotations

import ast
import asyncio
import re
import subprocess
import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from core.paths import REPOSITORY
from tests.support.descriptions import documents

CLIENTS = REPOSITORY / "api" / "clients"
PYTHON = CLIENTS / "python" / "src" / "vpm_client"
TYPESCRIPT = CLIENTS / "typescript" / "src"
PREFIX = "/api/agent/v1"
BY_HAND = {"POST /trade", "GET /events", "POST /webhooks"}
"""Operations that are more than a plain question and its answer."""
TIMES = ("deadlineAt", "startAt", "endsAt", "settlesAfter")
MARKETS = ("AgentMarketRef", "AgentProofMarket")
MADE = "Made by `python -m tests.support.client_models`; not to be edited."

Json = Mapping[str, Any]


def description() -> Json:
    return asyncio.run(documents())["agent"]


def files(described: Json) -> dict[Path, str]:
    schemas = described["components"]["schemas"]
    by_hand = ("AgentEvent", "AgentChallenge", "AgentTradeAnswer", "AgentWebhookAnswer")
    shown = _reached(schemas, [*by_hand, *(model for _, _, model, _ in operations(described))])
    schemas = {**schemas, **_bases(schemas)}
    shown = sorted([*shown, *_bases(schemas)])
    codes = schemas["AgentErrorAnswer"]["properties"]["error"]["enum"]
    return {
        PYTHON / "models.py": _python_models(schemas, shown),
        TYPESCRIPT / "models.ts": _typescript_models(schemas, shown, codes),
    }


def main() -> None:
    for path, text in files(description()).items():
        path.write_text(_formatted(text) if path.suffix == ".py" else text)


def is_current(path: Path, text: str) -> bool:
    there = path.read_text()
    return ast.dump(ast.parse(there)) == ast.dump(ast.parse(text)) if path.suffix == ".py" else there == text


def operations(described: Json) -> Iterator[tuple[str, str, str, frozenset[str]]]:
    for path, methods in described["paths"].items():
        short = path.removeprefix(PREFIX)
        for method, operation in methods.items():
            if short == path or f"{method.upper()} {short}" in BY_HAND:
                continue
            answer = next(value for status, value in operation["responses"].items() if status.startswith("2"))
            model = answer["content"]["application/json"]["schema"]["$ref"].rpartition("/")[2]
            asked = frozenset(each["name"] for each in operation.get("parameters", ()) if each["in"] == "query")
            yield method.upper(), short, model, asked


def _reached(schemas: Json, names: list[str]) -> list[str]:
    """Return these schemas and those they contain, by name, without non-objects."""
    found: set[str] = set()
    left = list(names)
    while left:
        name = left.pop()
        if name not in found and "properties" in schemas[name]:
            found.add(name)
            left += re.findall(r"#/components/schemas/(\w+)", str(schemas[name]))
    return sorted(found)


def _bases(schemas: Json) -> dict[str, Json]:
    """Return schemas of fields that several answers share, and that no published schema has alone."""
    market, other = (schemas[name] for name in MARKETS)
    shared = [each for each in market["properties"].items() if each in other["properties"].items()]
    return {
        name: {"properties": dict(fields), "required": [wire for wire, _ in fields if wire in market["required"]]}
        for name, fields in (
            ("AgentMarketTimes", [each for each in shared if each[0] in TIMES]),
            ("AgentMarketFacts", shared),
        )
    }


def _extended(schemas: Json, shown: list[str]) -> dict[str, str]:
    """Return the schema that a schema extends: the longest base or schema with the same first fields, unless they are
    few."""
    bases = _bases(schemas)
    fields = {
        name: [(*each, each[0] in schemas[name].get("required", ())) for each in schemas[name]["properties"].items()]
        for name in shown
    }
    found = {}
    for name, own in fields.items():
        begun = [
            each
            for each, some in fields.items()
            if 4 <= len(some) < len(own)
            and (all(field in own for field in some) if each in bases else own[: len(some)] == some)
        ]
        if begun:
            found[name] = max(begun, key=lambda each: len(fields[each]))
    return found


def _own(schemas: Json, name: str, extended: Mapping[str, str]) -> list[tuple[str, Json]]:
    taken = schemas[extended[name]]["properties"] if name in extended else ()
    return [each for each in schemas[name]["properties"].items() if each[0] not in taken]


def _nullable(schema: Json) -> tuple[Json, bool]:
    options = schema.get("anyOf")
    if options is None:
        return schema, False
    (one,) = (each for each in options if each.get("type") != "null")
    return one, len(options) > 1


def _words(schema: Json, schemas: Json) -> list[str]:
    one, _ = _nullable(schema)
    if "$ref" in one:
        one = schemas[one["$ref"].rpartition("/")[2]]
    return list(one.get("enum", ()))


def _snake(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()


def _camel(name: str) -> str:
    head, *rest = name.split("_")
    return head + "".join(part[:1].upper() + part[1:] for part in rest)


# ---------------------------------------------------------------- types


@dataclass(frozen=True)
class Language:
    plain: Mapping[str, str]
    null: str
    anything: str
    many: str
    by_name: str
    words: str = ""

    def type(self, schema: Json, schemas: Json) -> str:
        one, nullable = _nullable(schema)
        if "$ref" in one:
            name = one["$ref"].rpartition("/")[2]
            made = name if "properties" in schemas[name] else self.type(schemas[name], schemas)
        elif "const" in one:
            made = self.plain[{"str": "string", "int": "integer", "bool": "boolean"}[type(one["const"]).__name__]]
        elif self.words and one.get("enum"):
            made = self.words.format(" | ".join(f'"{each}"' for each in one["enum"]))
        elif one["type"] == "array":
            made = self.many.format(self.type(one["items"], schemas))
        elif one["type"] == "object":
            made = self.by_name.format(self._value(one.get("additionalProperties"), schemas))
        else:
            made = self.plain[one["type"]]
        return f"{made} | {self.null}" if nullable else made

    def _value(self, schema: Any, schemas: Json) -> str:
        return self.type(schema, schemas) if isinstance(schema, Mapping) and schema else self.anything


_PYTHON = Language(
    {"string": "str", "number": "Decimal", "integer": "int", "boolean": "bool"},
    "None",
    "Any",
    "list[{}]",
    "dict[str, {}]",
)
_TYPESCRIPT = Language(
    {"string": "string", "number": "number", "integer": "number", "boolean": "boolean"},
    "null",
    "unknown",
    "Array<{}>",
    "Record<string, {}>",
    "Known<{}>",
)


# ---------------------------------------------------------------- Python


def _python_models(schemas: Json, shown: list[str]) -> str:
    parts = [
        f'"""The API\'s response bodies. Where values are listed, more may come.\n\n{MADE}\n"""',
        "from __future__ import annotations\n\nfrom decimal import Decimal\nfrom typing import Any\n\nimport msgspec",
        'class Body(msgspec.Struct, frozen=True, rename="camel"):\n    """The base of all bodies."""',
    ]
    extended = _extended(schemas, shown)

    def depth(name: str) -> int:
        return 1 + depth(extended[name]) if name in extended else 0

    for name in sorted(shown, key=depth):  # in Python what is extended stands before
        fields = []
        required = set(schemas[name].get("required", ()))
        for wire, schema in _own(schemas, name, extended):
            default = wire not in required
            kind = _PYTHON.type(schema, schemas)
            if default and "None" not in kind:
                kind += " | None"
            field, words = (
                f"    {_snake(wire)}: {kind}{_python_default(wire, default)}",
                ", ".join(_words(schema, schemas)),
            )
            if words and len(field) + len(words) < 115:
                field += f"  # {words}"
            elif words:
                field = "".join(f"    # {line}\n" for line in textwrap.wrap(words, 110)) + field
            fields.append(field)
        about = schemas[name].get("description")
        text = _python_docstring(about) + "\n\n" if about else ""
        base = extended.get(name, "Body")
        parts.append(f"class {name}({base}, frozen=True, kw_only=True):\n{text}" + "\n".join(fields))
    return "\n\n\n".join(parts) + "\n"


def _python_docstring(about: str) -> str:
    quoted = f'"""{" ".join(about.split())}"""'
    return textwrap.fill(quoted, 120, initial_indent=" " * 4, subsequent_indent=" " * 4, break_on_hyphens=False)


def _python_default(wire: str, default: bool) -> str:
    if _camel(_snake(wire)) != wire:
        return f' = msgspec.field({"default=None, " if default else ""}name="{wire}")'
    return " = None" if default else ""


def _formatted(text: str) -> str:
    done = subprocess.run(
        ["ruff", "format", "--line-length", "120", "-"], input=text, capture_output=True, text=True, check=True
    )
    return done.stdout


# ---------------------------------------------------------------- TypeScript


def _typescript_models(schemas: Json, shown: list[str], codes: list[str]) -> str:
    listed = "".join(f'  | "{code}"\n' for code in codes)
    parts = [
        f"// The API's response bodies. {MADE}",
        "/** One of these; more may come. */\nexport type Known<T extends string> = T | (string & {});",
        "/** Every code that the API refuses with; /errors.txt has their causes. */\n"
        f"export type ErrorCode = Known<\n{listed}>;",
    ]
    extended = _extended(schemas, shown)
    for name in shown:
        required = set(schemas[name].get("required", ()))
        lines = []
        for wire, schema in _own(schemas, name, extended):
            about = schema.get("description")
            if about:
                lines.append(f"  /** {about} */")
            lines.append(f"  {wire}{'' if wire in required else '?'}: {_TYPESCRIPT.type(schema, schemas)};")
        about = schemas[name].get("description")
        text = f"/** {about} */\n" if about else ""
        base = f" extends {extended[name]}" if name in extended else ""
        parts.append(f"{text}export interface {name}{base} {{\n" + "\n".join(lines) + "\n}")
    return "\n\n".join(parts) + "\n"


if __name__ == "__main__":
    main()
