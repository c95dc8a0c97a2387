"""The documentation: /openapi.json, /openapi/<surface>.json, and /docs, a page without outside resources."""

from __future__ import annotations

import html
import re
from base64 import b64encode
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any

import orjson
from aiohttp import web

from api.http.openapi import document, with_examples
from api.http.operation import DocumentedAnswer, Handler, Operation, Surface
from api.http.rendered import Rendered

CACHE = "public, max-age=300"
HTML = "text/html; charset=utf-8"
_HERE = Path(__file__).parent
_STYLE = (_HERE / "docs.css").read_text()
# The page runs no script and loads nothing; its one style sheet is named by its hash.
CONTENT_SECURITY_POLICY = (
    f"default-src 'none'; style-src 'sha256-{b64encode(sha256(_STYLE.encode()).digest()).decode()}'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)

Links = Sequence[tuple[str, str]]


def docs_surface(surfaces: Sequence[Surface], *, title: str, server: str, links: Links = ()) -> Surface:
    """Documents these surfaces. The page is rendered once: it changes only with the code; the documents for machines
    have examples that work now. `links`: address and label of the service's other pages."""
    whole = document(surfaces, title=title, server=server)
    operations = [
        _static("/docs", "The documentation, as a page", lambda: _page(surfaces, whole, title, links), HTML),
        _document("/openapi.json", "All surfaces in one OpenAPI document", whole, surfaces),
    ]
    for surface in surfaces:
        one = document([surface], title=f"{title}: {surface.title}", server=server)
        operations.append(_document(f"/openapi/{surface.name}.json", f"OpenAPI: {surface.title}", one, [surface]))
    return Surface(
        name="docs",
        title="Documentation",
        description="",
        prefixes=("/docs", "/openapi"),
        operations=tuple(operations),
        error_body=lambda problem, _id: {"error": problem.code, "message": problem.message},
    )


def _static(path: str, summary: str, render: Callable[[], bytes], content_type: str) -> Operation:
    @cache
    def held() -> bytes:
        return render()

    return Operation(
        "GET",
        path,
        _serve(held, content_type),
        summary,
        {200: DocumentedAnswer(summary, content_type=content_type)},
        from_memory=True,
        hidden=True,
    )


def _document(path: str, summary: str, described: Mapping[str, Any], surfaces: Sequence[Surface]) -> Operation:
    known: tuple[dict[str, Any], Rendered] | None = None

    async def serve(request: web.Request) -> web.StreamResponse:
        nonlocal known
        examples = {name: body for surface in surfaces if surface.examples for name, body in surface.examples().items()}
        if known is None or known[0] != examples:
            known = examples, await Rendered.make(orjson.dumps(with_examples(described, examples)), CACHE)
        return known[1].response(request)

    return Operation("GET", path, serve, summary, {200: DocumentedAnswer(summary)}, from_memory=True, hidden=True)


def _serve(content: Callable[[], bytes], content_type: str) -> Handler:
    rendered: list[Rendered] = []

    async def serve(request: web.Request) -> web.StreamResponse:
        if not rendered:
            rendered.append(await Rendered.make(content(), CACHE, content_type=content_type))
        response = rendered[0].response(request)
        if content_type.startswith("text/html"):
            response.headers["Content-Security-Policy"] = CONTENT_SECURITY_POLICY
            response.headers["Referrer-Policy"] = "no-referrer"
        return response

    return serve


# ---------------------------------------------------------------- the page


def _page(surfaces: Sequence[Surface], whole: Mapping[str, Any], title: str, links: Links) -> bytes:
    pages = "".join(f'<li><a href="{html.escape(href)}">{html.escape(label)}</a></li>' for href, label in links)
    site = f'<nav class="site" aria-label="Main"><ul>{pages}</ul></nav>' if pages else ""
    menu = "".join(f'<li><a href="#{surface.name}">{html.escape(surface.title)}</a></li>' for surface in surfaces)
    parts = "".join(_surface(surface, whole) for surface in surfaces)
    schemas = "".join(_schema(name, schema) for name, schema in sorted(whole["components"]["schemas"].items()))
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<meta name="color-scheme" content="light dark">'
        f"<title>{html.escape(title)}: documentation</title><style>{_STYLE}</style></head><body>"
        f'<header>{site}<h1>{html.escape(title)}</h1><nav aria-label="Contents"><ul>{menu}'
        '<li><a href="#schemas">Bodies</a></li><li><a href="/openapi.json">OpenAPI</a></li></ul></nav></header><main>'
        f'{parts}<section id="schemas"><h2>Bodies</h2>{schemas}</section></main></body></html>'
    ).encode()


def _surface(surface: Surface, whole: Mapping[str, Any]) -> str:
    rows = []
    for operation in surface.operations:
        if operation.hidden:
            continue
        described = whole["paths"][operation.path][operation.method.lower()]
        rows.append(_operation(operation, described))
    return (
        f'<section id="{surface.name}"><h2>{html.escape(surface.title)}</h2>{_text(surface.description)}'
        f"{''.join(rows)}</section>"
    )


def _operation(operation: Operation, described: Mapping[str, Any]) -> str:
    parameters = "".join(
        f"<tr><td><code>{html.escape(each['name'])}</code></td><td>{each['in']}"
        f"{'' if each['required'] else ', optional'}</td><td><code>{_type(each['schema'])}</code></td>"
        f"<td>{_inline(each.get('description', ''))}</td></tr>"
        for each in described.get("parameters", ())
    )
    if parameters:
        parameters = _table("Parameters", ("Name", "In", "Type", ""), parameters)
    body = ""
    if "requestBody" in described:
        schema = described["requestBody"]["content"]["application/json"]["schema"]
        body = f"<p>Request body: {_type_link(schema)}</p>"
    answers = "".join(
        f"<tr><td>{status}</td><td>{_inline(answer['description'])}</td><td>{_answer_body(answer)}</td></tr>"
        for status, answer in described["responses"].items()
    )
    return (
        f'<article id="{operation.id}"><h3><code>{operation.method} {html.escape(operation.path)}</code></h3>'
        f"<p>{_inline(operation.summary)}</p>{_text(operation.description)}{parameters}{body}"
        f"{_table('Answers', ('Status', 'When', 'Body'), answers)}</article>"
    )


def _answer_body(answer: Mapping[str, Any]) -> str:
    content = answer.get("content")
    return "" if not content else _type_link(next(iter(content.values()))["schema"])


def _schema(name: str, schema: Mapping[str, Any]) -> str:
    required = set(schema.get("required", ()))
    rows = "".join(
        f"<tr><td><code>{html.escape(field)}</code>{'' if field in required else ' (optional)'}</td>"
        f"<td>{_type_link(described)}</td><td>{_inline(described.get('description', ''))}</td></tr>"
        for field, described in schema.get("properties", {}).items()
    )
    return (
        f'<article id="schema-{html.escape(name)}"><h3><code>{html.escape(name)}</code></h3>'
        f"{_text(schema.get('description', ''))}{_table('Fields', ('Field', 'Type', ''), rows)}</article>"
    )


def _table(caption: str, heads: Sequence[str], rows: str) -> str:
    head = "".join(f'<th scope="col">{each}</th>' for each in heads)
    return (
        f'<div class="scroll" tabindex="0"><table><caption>{caption}</caption><thead><tr>{head}</tr></thead>'
        f"<tbody>{rows}</tbody></table></div>"
    )


def _type_link(schema: Mapping[str, Any]) -> str:
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return f'<a href="#schema-{html.escape(name)}"><code>{html.escape(name)}</code></a>'
    if "anyOf" in schema:
        return " or ".join(_type_link(each) for each in schema["anyOf"])
    if schema.get("type") == "array" and "items" in schema:
        return f"array of {_type_link(schema['items'])}"
    return f"<code>{_type(schema)}</code>"


def _type(schema: Mapping[str, Any]) -> str:
    if "enum" in schema:
        return html.escape(" | ".join(str(each) for each in schema["enum"]))
    if "const" in schema:
        return html.escape(str(schema["const"]))
    if "anyOf" in schema:
        return " | ".join(_type(each) for each in schema["anyOf"])
    return html.escape(str(schema.get("type", "any")))


def _text(text: str) -> str:
    """Paragraphs and bullet lists of the little Markdown the descriptions use."""
    blocks = []
    for block in re.split(r"\n\s*\n", text.strip()):
        if not block:
            continue
        if block.startswith("- "):
            items = re.split(r"\n(?=- )", block)
            blocks.append("<ul>" + "".join(f"<li>{_inline(item[2:])}</li>" for item in items) + "</ul>")
        else:
            blocks.append(f"<p>{_inline(block)}</p>")
    return "".join(blocks)


def _inline(text: str) -> str:
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", html.escape(text, quote=False))
