"""OpenAPI 3.1 documents, made from the operations and served at /openapi.json and /openapi/<surface>.json."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import orjson
from aiohttp import web
from pydantic import BaseModel
from pydantic.json_schema import CoreModeRef, CoreRef, DefsRef, GenerateJsonSchema, models_json_schema

from api.caching import Rendered, TimedValue, public
from api.operations import Body, DocumentedAnswer, Operation, Surface, schemas_of

VERSION = "1.0.0"
_REF = "#/components/schemas/{model}"


class CommonError(Body):
    """The error that any path may return: a code and a sentence."""

    error: str
    message: str


def required(*names: str) -> Callable[[dict[str, Any]], None]:
    """Return a `json_schema_extra` that publishes these fields as required. The model accepts requests without the
    fields, because the specification has a separate error code for a missing field."""

    def published(schema: dict[str, Any]) -> None:
        for name in names:
            schema["properties"][name] = _sent(schema["properties"][name])
        schema["required"] = [*schema.get("required", ()), *names]

    return published


def _sent(field: Mapping[str, Any]) -> dict[str, Any]:
    """Return an optional parameter's schema without the null alternative: a query or a header cannot contain null."""
    values = [each for each in field.get("anyOf", ()) if each != {"type": "null"}]
    if "default" not in field or field["default"] is not None or len(values) != 1:
        return dict(field)
    return {**{name: what for name, what in field.items() if name not in ("anyOf", "default")}, **values[0]}


class _Naming(GenerateJsonSchema):
    """A schema generator that names a class by its surface and its name, without its module: `StockMarket`, for
    example."""

    def get_defs_ref(self, core_mode_ref: CoreModeRef) -> DefsRef:
        ref, mode = core_mode_ref
        return super().get_defs_ref((CoreRef(_OF_SURFACE.sub(_published, ref)), mode))


_OF_SURFACE = re.compile(r"^api\.(stock|agent|cup)\.[a-z_.]+\.(\w+)")


def _published(matched: re.Match[str]) -> str:
    return f"api.{schema_name(matched[1], matched[2])}"


def schema_name(surface: str, name: str) -> str:
    """Return the published name of a surface's class. On the agent surface, `Body` in a name becomes `Answer`, because
    that surface publishes both an object, such as a quote, and the answer that contains it."""
    owner = surface.capitalize()
    if name.endswith("Body"):
        name = name.removesuffix("Body") + ("Answer" if owner == "Agent" else "")
    return name if name.startswith(owner) else owner + name


def _reference(surface: str, name: str) -> str:
    return _REF.format(model=schema_name(surface, name))


def document(surfaces: Sequence[Surface], *, title: str, server: str) -> dict[str, Any]:
    requests: dict[type[BaseModel], None] = {}
    definitions = schemas_of([CommonError], lambda name: _REF.format(model=name))
    names: dict[type[Any], dict[str, Any]] = {CommonError: {"$ref": _REF.format(model=CommonError.__name__)}}
    for surface in surfaces:
        bodies: dict[type[Body], None] = {}
        for operation in _shown(surface):
            for model in (operation.query, operation.path_parameters, operation.headers, operation.body):
                if model is not None:
                    requests[model] = None
            bodies |= {answer.model: None for answer in operation.answers.values() if answer.model is not None}
        reference = partial(_reference, surface.name)
        definitions |= {schema_name(surface.name, name): made for name, made in schemas_of(bodies, reference).items()}
        names |= {body: {"$ref": reference(body.__name__)} for body in bodies}
    made, schemas = models_json_schema(
        [(model, "validation") for model in requests], ref_template=_REF, schema_generator=_Naming
    )
    names |= {model: schema for (model, _), schema in made.items()}
    definitions |= schemas.get("$defs", {})
    paths: dict[str, dict[str, Any]] = {}
    security: dict[str, Any] = {}
    for surface in surfaces:
        security.update(surface.security_schemes)
        for operation in _shown(surface):
            paths.setdefault(operation.path, {})[operation.method.lower()] = _operation(
                surface, operation, names, definitions
            )
    descriptions = [f"## {surface.title}\n\n{surface.description}" for surface in surfaces]
    return {
        "openapi": "3.1.0",
        "info": {"title": title, "version": VERSION, "description": "\n\n".join(descriptions)},
        "servers": [{"url": server}],
        "tags": [tag for surface in surfaces for tag in _tags(surface)],
        "paths": paths,
        "components": {"schemas": definitions, "securitySchemes": security},
    }


Names = Mapping[type[Any], dict[str, Any]]


def _shown(surface: Surface) -> Iterable[Operation]:
    return (operation for operation in surface.operations if not operation.hidden)


def _tags(surface: Surface) -> list[dict[str, str]]:
    groups = dict.fromkeys(operation.group for operation in _shown(surface) if operation.group)
    return [
        {"name": surface.name, "description": surface.title},
        *({"name": f"{surface.name}: {group}", "description": f"{surface.title}: {group}"} for group in groups),
    ]


def _operation(surface: Surface, operation: Operation, names: Names, definitions: Mapping[str, Any]) -> dict[str, Any]:
    described: dict[str, Any] = {
        "operationId": operation.id,
        "tags": [surface.name, f"{surface.name}: {operation.group}"] if operation.group else [surface.name],
        "summary": operation.summary,
        "responses": {str(status): _answer(answer, names) for status, answer in sorted(operation.answers.items())},
    }
    common = {405: "The path does not support this method.", 500: "Internal error."}
    if operation.description:
        described["description"] = operation.description
    parameters = [
        *_parameters(operation.path_parameters, "path", names, definitions),
        *_parameters(operation.query, "query", names, definitions),
        *_parameters(operation.headers, "header", names, definitions),
    ]
    if parameters:
        described["parameters"] = parameters
    if operation.body is not None:
        schema = names[operation.body]
        described["requestBody"] = {"required": True, "content": {"application/json": {"schema": schema}}}
        common |= {408: "The body did not arrive in time.", 413: "The body is too large.", 415: "The body is not JSON."}
    for status, what in common.items():
        described["responses"].setdefault(str(status), _answer(DocumentedAnswer(what, CommonError), names))
    if operation.security is not None:
        described["security"] = [{operation.security: []}]
    return {**described, **operation.described_by}


def with_examples(described: Mapping[str, Any], examples: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Return the document with example request bodies. `examples`: the bodies by operation id."""
    paths = {
        path: {method: _exemplified(operation, examples) for method, operation in methods.items()}
        for path, methods in described["paths"].items()
    }
    return {**described, "paths": paths}


def _exemplified(operation: dict[str, Any], examples: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    example = examples.get(operation["operationId"])
    if example is None or "requestBody" not in operation:
        return operation
    content = {kind: {**body, "example": example} for kind, body in operation["requestBody"]["content"].items()}
    return {**operation, "requestBody": {**operation["requestBody"], "content": content}}


def _answer(answer: DocumentedAnswer, names: Names) -> dict[str, Any]:
    described: dict[str, Any] = {"description": answer.description}
    if answer.model is not None:
        described["content"] = {answer.content_type: {"schema": names[answer.model]}}
    headers = {"X-Request-Id": "This request's id in the service's logs.", **answer.headers}
    described["headers"] = {name: {"description": text, "schema": {"type": "string"}} for name, text in headers.items()}
    return described


def _parameters(
    model: type[BaseModel] | None, place: str, names: Names, definitions: Mapping[str, Any]
) -> list[dict[str, Any]]:
    if model is None:
        return []
    schema = definitions[names[model]["$ref"].rpartition("/")[2]]
    required = set(schema.get("required", ()))
    parameters = []
    for name, field in schema["properties"].items():
        described = {key: value for key, value in _sent(field).items() if key not in ("title", "description")}
        parameter: dict[str, Any] = {"name": name, "in": place, "required": name in required, "schema": described}
        if "description" in field:
            parameter["description"] = field["description"]
        parameters.append(parameter)
    return parameters


# ---------------------------------------------------------------- served

CACHE = public(300)

OpenApi = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ServiceDescription:
    """The surfaces, and the OpenAPI document of all of them."""

    surfaces: tuple[Surface, ...]
    whole: TimedValue[OpenApi]


def docs_surface(surfaces: Sequence[Surface], *, title: str, server: str) -> Surface:
    """Return a surface that serves the documents of these surfaces. The example requests are generated so that they
    work when a document is read."""
    whole = _described(surfaces, title, server)
    operations = [_document("/openapi.json", "All surfaces in one OpenAPI document", whole, surfaces)]
    for surface in surfaces:
        one = _described([surface], f"{title}: {surface.title}", server)
        operations.append(_document(f"/openapi/{surface.name}.json", f"OpenAPI: {surface.title}", one, [surface]))
    return Surface(
        name="docs",
        title="Documentation",
        description="",
        prefixes=("/openapi",),
        operations=tuple(operations),
        reads=(ServiceDescription(tuple(surfaces), whole),),
    )


def _described(surfaces: Sequence[Surface], title: str, server: str) -> TimedValue[OpenApi]:
    """Return the document. It is built in a thread on the first request, because building it earlier would delay the
    start."""
    return TimedValue(partial(asyncio.to_thread, partial(document, surfaces, title=title, server=server)))


def _document(path: str, summary: str, described: TimedValue[OpenApi], surfaces: Sequence[Surface]) -> Operation:
    rendered: tuple[dict[str, Any], Rendered] | None = None

    async def serve(request: web.Request) -> web.StreamResponse:
        nonlocal rendered
        examples = {name: body for surface in surfaces if surface.examples for name, body in surface.examples().items()}
        if rendered is None or rendered[0] != examples:
            body = orjson.dumps(with_examples(await described.get(), examples))
            rendered = examples, await Rendered.make(body, CACHE)
        return rendered[1].response(request)

    return Operation("GET", path, serve, summary, {200: DocumentedAnswer(summary)}, timed=False, hidden=True)
