"""The API reference for people, from the OpenAPI document: /docs, and a page for each group of operations, with
parameters, responses and a form to try each operation."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from aiohttp import web
from markupsafe import Markup, escape

from api.agent.reads import AgentReads
from api.openapi import OpenApi, ServiceDescription
from api.operations import Json, Operation, Surface
from api.problems import not_found
from api.stock.reads import StockReads
from api.web.templating import Pages, or_none

JSON_TYPE = "application/json"
# An address without positions, for examples.
SAMPLE_ADDRESS = "0x0000000000000000000000000000000000000001"
GROUP_TITLES = {
    "markets": "Markets",
    "trading": "Quotes and trades",
    "positions": "Positions and proofs",
    "platform": "The platform",
    "events": "Events and webhooks",
}


@dataclass(frozen=True, slots=True)
class Group:
    """A page of the reference."""

    slug: str
    title: str
    surface: Surface
    operations: tuple[Operation, ...]


class Reference:
    """The pages of the reference. `stock` and `agent` provide existing markets as sample values for the forms."""

    def __init__(
        self, pages: Pages, described: ServiceDescription, stock: StockReads, agent: AgentReads | None
    ) -> None:
        self._pages = pages
        self._described = described
        self._groups = {each.slug: each for each in _groups(described.surfaces)}
        self._stock = stock
        self._agent = agent

    async def overview(self, request: web.Request) -> web.StreamResponse:
        async def render() -> bytes:
            return self._render(here=None, surfaces=self._described.surfaces)

        return await self._pages.answer(request, "docs", None, render)

    async def group(self, request: web.Request) -> web.StreamResponse:
        group = self._groups.get(request.match_info["group"])
        if group is None:
            raise not_found("There is no such page in the documentation; see /docs.")
        samples = self._samples(group.surface.name)

        async def render() -> bytes:
            whole = await self._described.whole.get()
            schemas: Mapping[str, Json] = whole["components"]["schemas"]
            return self._render(
                here=group,
                entries=[(each, _operation(whole, each), _is_tried(each)) for each in group.operations],
                samples=samples,
                bodies={name: schemas[name] for name in sorted(_used(whole, group))},
            )

        return await self._pages.answer(request, ("docs", group.slug), tuple(samples.items()), render)

    def _render(self, **values: Any) -> bytes:
        written = {"type_of": described_type, "paragraphs": paragraphs, "inline": inline}
        return self._pages.render("docs.html", path="/docs", groups=self._groups, **written, **values)

    def _samples(self, surface: str) -> dict[str, str]:
        samples = {"owner": SAMPLE_ADDRESS, "wallet": SAMPLE_ADDRESS, "address": SAMPLE_ADDRESS}
        if surface == "stock":
            overview = or_none(partial(self._stock.overview, 1))
            market = {"id": overview[0].markets[0].id} if overview and overview[0].markets else {}
            return {**samples, **market, "marketId": market.get("id", ""), "outcome": "0", "amount": "5000000"}
        example = (None if self._agent is None else or_none(self._agent.example)) or {}
        market_id = str(example.get("marketId", ""))
        return {
            **samples,
            "id": market_id,
            "marketId": market_id,
            "slug": market_id,
            "side": str(example.get("side", "")),
            "token": "BNKR",
        }


def _operation(whole: OpenApi, operation: Operation) -> Json:
    described: Json = whole["paths"][operation.path][operation.method.lower()]
    return described


def _is_tried(operation: Operation) -> bool:
    success = operation.answers.get(200)
    is_json = success is not None and success.content_type == JSON_TYPE
    return operation.method == "GET" and operation.security is None and is_json


def _used(whole: OpenApi, group: Group) -> set[str]:
    """Return the names of the schemas that a group's operations refer to, directly or indirectly."""
    names: set[str] = set()
    waiting = [name for each in group.operations for name in _named(_operation(whole, each))]
    while waiting:
        name = waiting.pop()
        if name not in names:
            names.add(name)
            waiting += _named(whole["components"]["schemas"][name])
    return names


def _groups(surfaces: tuple[Surface, ...]) -> Iterator[Group]:
    for surface in surfaces:
        shown = [each for each in surface.operations if not each.hidden]
        for name in dict.fromkeys(each.group for each in shown):
            title = f"{surface.title}: {GROUP_TITLES.get(name, name)}" if name else surface.title
            slug = f"{surface.name}-{name}" if name else surface.name
            yield Group(slug, title, surface, tuple(each for each in shown if each.group == name))


def _named(value: Any) -> Iterator[str]:
    """Yield the names of the schemas to which an OpenAPI description refers."""
    if isinstance(value, Mapping):
        if "$ref" in value:
            yield value["$ref"].rpartition("/")[2]
        for each in value.values():
            yield from _named(each)
    elif isinstance(value, list):
        for each in value:
            yield from _named(each)


def described_type(schema: Json) -> Markup:
    """Render a schema's type, as a link if it has a name."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return Markup('<a href="#schema-{0}"><code>{0}</code></a>').format(name)
    if "anyOf" in schema:
        return Markup(" or ").join(described_type(each) for each in schema["anyOf"])
    if schema.get("type") == "array" and "items" in schema:
        return Markup("array of ") + described_type(schema["items"])
    return Markup("<code>{}</code>").format(_plain_type(schema))


def _plain_type(schema: Json) -> str:
    if "enum" in schema:
        return " | ".join(str(each) for each in schema["enum"])
    if "const" in schema:
        return str(schema["const"])
    if "anyOf" in schema:
        return " | ".join(_plain_type(each) for each in schema["anyOf"])
    return str(schema.get("type", "any"))


def paragraphs(text: str) -> Markup:
    """Render a description with paragraphs and bullet lists."""
    blocks = []
    for block in re.split(r"\n\s*\n", text.strip()):
        if block.startswith("- "):
            items = [Markup("<li>{}</li>").format(inline(each[2:])) for each in re.split(r"\n(?=- )", block)]
            blocks.append(Markup("<ul>{}</ul>").format(Markup("").join(items)))
        elif block:
            blocks.append(Markup("<p>{}</p>").format(inline(block)))
    return Markup("").join(blocks)


def inline(text: str) -> Markup:
    return Markup(re.sub(r"`([^`]+)`", r"<code>\1</code>", str(escape(text))))  # noqa: S704 escaped before
