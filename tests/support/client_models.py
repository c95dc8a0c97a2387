"""The generated part of the client libraries: types of every answer and a method for every read, out of the published
description of the agent surface. `python -m tests.support.client_models` writes it anew; a test holds the files to it.

What needs thought stands beside it by hand: bets, streams, webhooks, wallets.
"""

from __future__ import annotations

import ast
import asyncio
import re
import subprocess
import textwrap
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from core.paths import REPOSITORY
from tests.support.descriptions import documents

CLIENTS = REPOSITORY / "api" / "clients"
PYTHON = CLIENTS / "python" / "src" / "vpm_client"
TYPESCRIPT = CLIENTS / "typescript" / "src"
PREFIX = "/api/agent/v1"
NAMES = {
    "GET /markets": "markets",
    "GET /markets/{id}": "market",
    "GET /markets/{id}/research": "research",
    "GET /discover": "discover",
    "GET /sentiment": "sentiment",
    "GET /quote": "quote",
    "GET /positions": "positions",
    "GET /result": "result",
    "GET /proof/{tradeId}": "proof",
    "GET /wallet/{address}/readiness": "readiness",
    "GET /stats": "stats",
    "GET /health": "health",
    "GET /getting-started": "getting_started",
    "GET /events/replay": "replay",
    "GET /resolved": "resolved",
    "GET /webhooks/{id}": "webhook",
    "DELETE /webhooks/{id}": "delete_webhook",
    "POST /webhooks/{id}/test": "test_webhook",
}
BY_HAND = {"POST /trade", "GET /events", "POST /webhooks"}
MADE = "Made by `python -m tests.support.client_models`; not to be edited."

Json = Mapping[str, Any]


def files() -> dict[Path, str]:
    """Every generated file, as it should read; Python before it is formatted."""
    described = asyncio.run(documents())["agent"]
    schemas = described["components"]["schemas"]
    operations = list(_operations(described))
    by_hand = ("AgentEvent", "AgentChallenge", "AgentTradeAnswer", "AgentWebhookAnswer")
    shown = _reached(schemas, [*by_hand, *(each.model for each in operations)])
    codes = schemas["AgentErrorAnswer"]["properties"]["error"]["enum"]
    return {
        PYTHON / "models.py": _python_models(schemas, shown),
        PYTHON / "calls.py": _python_calls(operations),
        PYTHON / "operations.py": _python_operations(operations),
        PYTHON / "refusals.py": _python_refusals(codes),
        TYPESCRIPT / "models.ts": _typescript_models(schemas, shown, codes),
        TYPESCRIPT / "operations.ts": _typescript_operations(operations),
    }


def main() -> None:
    for path, text in files().items():
        path.write_text(_formatted(text) if path.suffix == ".py" else text)


def is_current(path: Path, text: str) -> bool:
    """Whether a file says what it should, however its Python is laid out."""
    there = path.read_text()
    return ast.dump(ast.parse(there)) == ast.dump(ast.parse(text)) if path.suffix == ".py" else there == text


# ---------------------------------------------------------------- what is described


class _Parameter:
    """One parameter of an operation."""

    def __init__(self, described: Json) -> None:
        self.wire = described["name"]
        self.place = described["in"]
        # The client has a wallet of its own to name.
        self.required = described["required"] and not self.is_own_wallet
        self.schema = described["schema"]
        self.name = _snake(self.wire)

    @property
    def is_own_wallet(self) -> bool:
        return (self.wire, self.place) == ("wallet", "query")


class _Operation:
    """One operation that is a plain question and an answer."""

    def __init__(self, method: str, path: str, described: Json) -> None:
        label = f"{method.upper()} {path}"
        if label not in NAMES:
            raise SystemExit(f"{label} is new: name it in NAMES, or in BY_HAND if the libraries have it by hand.")
        self.method, self.path, self.name = method.upper(), path, NAMES[label]
        self.summary = described["summary"] + ("" if described["summary"].endswith("?") else ".")
        answer = next(value for status, value in described["responses"].items() if status.startswith("2"))
        self.model = answer["content"]["application/json"]["schema"]["$ref"].rpartition("/")[2]
        found = [_Parameter(each) for each in described.get("parameters", ())]
        self.given = [each for each in found if each.required]
        self.optional = [each for each in found if not each.required]


def _operations(described: Json) -> Iterator[_Operation]:
    """Those of the interface itself; what tells tools of it is for whoever calls tools."""
    for path, methods in described["paths"].items():
        if not path.startswith(PREFIX):
            continue
        short = path.removeprefix(PREFIX)
        for method, operation in methods.items():
            if f"{method.upper()} {short}" not in BY_HAND:
                yield _Operation(method, short, operation)


def _reached(schemas: Json, names: list[str]) -> list[str]:
    """These schemas and what they are made of, by name; not those that are no objects."""
    found: set[str] = set()
    left = list(names)
    while left:
        name = left.pop()
        if name not in found and "properties" in schemas[name]:
            found.add(name)
            left += re.findall(r"#/components/schemas/(\w+)", str(schemas[name]))
    return sorted(found)


def _extended(schemas: Json, shown: list[str]) -> dict[str, str]:
    """What a schema extends: the longest other one that its fields begin with, unless they are few."""
    fields = {
        name: [(*each, each[0] in schemas[name].get("required", ())) for each in schemas[name]["properties"].items()]
        for name in shown
    }
    found = {}
    for name, own in fields.items():
        begun = [each for each, some in fields.items() if 4 <= len(some) < len(own) and own[: len(some)] == some]
        if begun:
            found[name] = max(begun, key=lambda each: len(fields[each]))
    return found


def _own(schemas: Json, name: str, extended: Mapping[str, str]) -> list[tuple[str, Json]]:
    """The fields of a schema but for those of the one that it extends."""
    begun = len(schemas[extended[name]]["properties"]) if name in extended else 0
    return list(schemas[name]["properties"].items())[begun:]


def _nullable(schema: Json) -> tuple[Json, bool]:
    options = schema.get("anyOf")
    if options is None:
        return schema, False
    (one,) = (each for each in options if each.get("type") != "null")
    return one, len(options) > 1


def _words(schema: Json, schemas: Json) -> list[str]:
    """The values that a text is one of, where they are listed."""
    one, _ = _nullable(schema)
    if "$ref" in one:
        one = schemas[one["$ref"].rpartition("/")[2]]
    return list(one.get("enum", ()))


def _snake(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()


def _camel(name: str) -> str:
    head, *rest = name.split("_")
    return head + "".join(part[:1].upper() + part[1:] for part in rest)


# ---------------------------------------------------------------- Python

_PYTHON = {"string": "str", "number": "Decimal", "integer": "int", "boolean": "bool"}


def _python_type(schema: Json, schemas: Json) -> str:
    one, nullable = _nullable(schema)
    made = _python_one(one, schemas)
    return f"{made} | None" if nullable else made


def _python_one(schema: Json, schemas: Json) -> str:
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return name if "properties" in schemas[name] else _python_one(schemas[name], schemas)
    if "const" in schema:
        return type(schema["const"]).__name__
    if schema["type"] == "array":
        return f"list[{_python_type(schema['items'], schemas)}]"
    if schema["type"] == "object":
        more = schema.get("additionalProperties")
        return f"dict[str, {_python_type(more, schemas) if isinstance(more, Mapping) and more else 'Any'}]"
    return _PYTHON[schema["type"]]


def _python_models(schemas: Json, shown: list[str]) -> str:
    parts = [
        f'"""The answers of the API. Where values are listed, more may come.\n\n{MADE}\n"""',
        "from __future__ import annotations\n\nfrom decimal import Decimal\nfrom typing import Any\n\nimport msgspec",
        'class Body(msgspec.Struct, frozen=True, rename="camel"):\n    """What every answer is made of."""',
    ]
    extended = _extended(schemas, shown)

    def depth(name: str) -> int:
        return 1 + depth(extended[name]) if name in extended else 0

    for name in sorted(shown, key=depth):  # in Python what is extended stands before
        fields = []
        required = set(schemas[name].get("required", ()))
        for wire, schema in _own(schemas, name, extended):
            default = wire not in required
            kind = _python_type(schema, schemas)
            if default and "None" not in kind:
                kind += " | None"
            words = textwrap.wrap(", ".join(_words(schema, schemas)), 110)
            note = "".join(f"    # {line}\n" for line in words)
            fields.append(f"{note}    {_snake(wire)}: {kind}{_python_default(wire, default)}")
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


def _python_kind(parameter: _Parameter) -> str:
    one, _ = _nullable(parameter.schema)
    return "Amount" if one["type"] == "number" else _PYTHON[one["type"]]


def _python_signature(each: _Operation) -> str:
    given = [f"{one.name}: {_python_kind(one)}" for one in each.given]
    optional = [f"{one.name}: {_python_kind(one)} | None = None" for one in each.optional]
    return ", ".join([*given, *(["*"] if optional else []), *optional])


def _python_calls(operations: list[_Operation]) -> str:
    kinds = "Amount, " if any(_python_kind(p) == "Amount" for o in operations for p in (*o.given, *o.optional)) else ""
    parts = [
        f'"""Every plain question to the API.\n\n{MADE}\n"""',
        "from __future__ import annotations\n\nfrom vpm_client import models\n"
        f"from vpm_client.call import PREFIX, {kinds}Call, segment, texts",
    ]
    for each in operations:
        path = re.sub(r"\{(\w+)\}", lambda found: f"{{segment({_snake(found[1])})}}", each.path)
        query = ", ".join(f"{one.wire}={one.name}" for one in (*each.given, *each.optional) if one.place == "query")
        asked = f", texts({query})" if query else ""
        parts.append(
            f"def {each.name}({_python_signature(each)}) -> Call[models.{each.model}]:\n"
            f'    return Call("{each.method}", f"{{PREFIX}}{path}", models.{each.model}{asked})'
        )
    return "\n\n\n".join(parts) + "\n"


def _python_operations(operations: list[_Operation]) -> str:
    kinds = "Amount, " if any(_python_kind(p) == "Amount" for o in operations for p in (*o.given, *o.optional)) else ""
    parts = [
        f'"""Every plain question to the API, as a method.\n\n{MADE}\n"""',
        "from __future__ import annotations\n\nfrom abc import ABC, abstractmethod\nfrom typing import TypeVar\n\n"
        "from vpm_client import calls, models\n"
        f"from vpm_client.call import {kinds}Call\nfrom vpm_client.shared import Settings\n\n"
        'T = TypeVar("T")',
    ]
    for kind, begins, asks in (("Operations", "def", "return"), ("AsyncOperations", "async def", "return await")):
        body = [
            f"class {kind}(ABC):",
            '    """The reads and the smaller writes. A `wallet` left out is the client\'s own."""\n',
            "    _settings: Settings\n",
            f"    @abstractmethod\n    {begins} _call(self, call: Call[T]) -> T:",
            '        """The answer to a call."""\n',
        ]
        for each in operations:
            signature = _python_signature(each)
            own = {one.name: f"self._settings.own({one.name})" for one in each.optional if one.is_own_wallet}
            named = [f"{one.name}={own.get(one.name, one.name)}" for one in each.optional]
            passed = ", ".join([*(one.name for one in each.given), *named])
            body += [
                f"    {begins} {each.name}(self{', ' + signature if signature else ''}) -> models.{each.model}:",
                f'        """{each.summary}"""',
                f"        {asks} self._call(calls.{each.name}({passed}))\n",
            ]
        parts.append("\n".join(body).rstrip())
    return "\n\n\n".join(parts) + "\n"


def _python_refusals(codes: list[str]) -> str:
    parts = [
        f'"""A class for each code that the API refuses with.\n\n{MADE}\n"""',
        "from __future__ import annotations\n\nfrom vpm_client.errors import ApiError",
    ]
    parts += [f'class {_class(code)}(ApiError):\n    """The code `{code}`."""' for code in codes]
    table = "".join(f'    "{code}": {_class(code)},\n' for code in codes)
    parts.append(f"BY_CODE: dict[str, type[ApiError]] = {{\n{table}}}")
    return "\n\n\n".join(parts) + "\n"


def _class(code: str) -> str:
    return "".join(part.title() for part in code.split("_"))


def _formatted(text: str) -> str:
    done = subprocess.run(
        ["ruff", "format", "--line-length", "120", "-"], input=text, capture_output=True, text=True, check=True
    )
    return done.stdout


# ---------------------------------------------------------------- TypeScript

_TYPESCRIPT = {"string": "string", "number": "number", "integer": "number", "boolean": "boolean"}


def _typescript_type(schema: Json, schemas: Json) -> str:
    one, nullable = _nullable(schema)
    made = _typescript_one(one, schemas)
    return f"{made} | null" if nullable else made


def _typescript_one(schema: Json, schemas: Json) -> str:
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return name if "properties" in schemas[name] else _typescript_one(schemas[name], schemas)
    if "const" in schema:
        return _TYPESCRIPT[{"str": "string", "int": "integer", "bool": "boolean"}[type(schema["const"]).__name__]]
    if schema.get("enum"):
        words = [f'"{each}"' for each in schema["enum"]]
        return f"Known<{' | '.join(words)}>"
    if schema["type"] == "array":
        inner = _typescript_type(schema["items"], schemas)
        return f"({inner})[]" if " " in inner and not inner.startswith("Record") else f"{inner}[]"
    if schema["type"] == "object":
        more = schema.get("additionalProperties")
        return f"Record<string, {_typescript_type(more, schemas) if isinstance(more, Mapping) and more else 'unknown'}>"
    return _TYPESCRIPT[schema["type"]]


def _typescript_models(schemas: Json, shown: list[str], codes: list[str]) -> str:
    listed = "".join(f'  | "{code}"\n' for code in codes)
    parts = [
        f"// The answers of the API. {MADE}",
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
            lines.append(f"  {wire}{'' if wire in required else '?'}: {_typescript_type(schema, schemas)};")
        about = schemas[name].get("description")
        text = f"/** {about} */\n" if about else ""
        base = f" extends {extended[name]}" if name in extended else ""
        parts.append(f"{text}export interface {name}{base} {{\n" + "\n".join(lines) + "\n}")
    return "\n\n".join(parts) + "\n"


def _typescript_operations(operations: list[_Operation]) -> str:
    models = sorted({each.model for each in operations})
    parts = [
        f"// Every plain question to the API, as a method. {MADE}",
        f'import type {{ {", ".join(models)} }} from "./models.js";',
        "export type Query = Record<string, string | number | boolean | undefined>;",
    ]
    body = [
        "/** The reads and the smaller writes. A `wallet` left out is the client's own. */",
        "export abstract class Operations {",
        "  protected abstract call<T>(method: string, path: string, query?: Query): Promise<T>;",
        "  protected abstract own(wallet: string | undefined): string | undefined;",
    ]
    for each in operations:
        required = [one for one in each.given if one.place == "path"]
        asked = [one for one in (*each.given, *each.optional) if one.place == "query"]
        signature = [f"{one.wire}: string" for one in required]
        if asked:
            fields = "; ".join(f"{one.wire}{'' if one.required else '?'}: {_typescript_query(one)}" for one in asked)
            any_required = any(one.required for one in asked)
            signature.append(f"query: {{ {fields} }}{'' if any_required else ' = {}'}")
        path = re.sub(r"\{(\w+)\}", r"${encodeURIComponent(\1)}", each.path)
        own = any(one.is_own_wallet for one in asked)
        passed = ", { ...query, wallet: this.own(query.wallet) }" if own else ", query" if asked else ""
        body += [
            "",
            f"  /** {each.summary} */",
            f"  {_camel(each.name)}({', '.join(signature)}): Promise<{each.model}> {{",
            f'    return this.call("{each.method}", `{path}`{passed});',
            "  }",
        ]
    parts.append("\n".join([*body, "}"]))
    return "\n\n".join(parts) + "\n"


def _typescript_query(parameter: _Parameter) -> str:
    one, _ = _nullable(parameter.schema)
    return _TYPESCRIPT[one["type"]]


if __name__ == "__main__":
    main()
