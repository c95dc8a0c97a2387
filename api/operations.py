"""The declarations of a surface: its operations and the structs of their responses. Routing, validation and OpenAPI
follow from them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from inspect import cleandoc
from typing import Any, Final, TypeVar, get_args

import msgspec
from aiohttp import web
from msgspec import structs
from prometheus_client import Counter, Histogram
from pydantic import BaseModel

from api.problems import Problem, request_id
from core.log import request_context
from core.service.health import LATENCY_BUCKETS

REQUESTS = Counter("vpm_http_requests", "Completed requests.", ("operation", "status"))
SECONDS = Histogram(
    "vpm_http_request_seconds", "Response time of operations that do I/O.", ("operation",), buckets=LATENCY_BUCKETS
)

Json = dict[str, Any]
Schema = dict[str, Any]
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
ErrorBody = Callable[[Problem, str], Mapping[str, Any]]
ErrorResponse = Callable[[web.Request, Problem], web.StreamResponse]


class Body(msgspec.Struct, kw_only=True, rename="camel", gc=False):
    """The body of a response, or a part of one. Names are encoded in camel case, and decimals as JSON numbers with the
    same digits. Bodies have no reference cycles, so the garbage collector skips them."""


B = TypeVar("B", bound=Body)


# Where `body_from` takes each field from, by the types of its arguments: looking for it takes five times as long.
_PLANS: dict[tuple[object, ...], list[tuple[str, int, bool]]] = {}


def body_from(body: type[B], *sources: object, **more: Any) -> B:
    """Build a body from `more` and, for the other fields, the sources' attributes of the same names. The first source
    that has an attribute wins. Integers become text if the field is text."""
    key = (body, *map(type, sources), *more)
    plan = _PLANS.get(key)
    if plan is None:
        plan = _PLANS[key] = [
            (field.name, next(at for at, each in enumerate(sources) if hasattr(each, field.name)), _is_text(field.type))
            for field in structs.fields(body)
            if field.name not in more
        ]
    for name, at, is_text in plan:
        value = getattr(sources[at], name)
        more[name] = str(value) if is_text and isinstance(value, int) else value
    return body(**more)


def _is_text(kind: object) -> bool:
    return kind is str or any(_is_text(each) for each in get_args(kind))


def schemas_of(bodies: Iterable[type[Body]], reference: Callable[[str], str]) -> dict[str, Schema]:
    """Return the schemas of these bodies and of their parts, by class name. `reference`: returns the `$ref` of a
    class."""

    def tidy(schema: Any) -> Any:
        if isinstance(schema, list):
            return [tidy(each) for each in schema]
        if not isinstance(schema, dict):
            return schema
        plain = {key: tidy(value) for key, value in schema.items()}
        if isinstance(plain.get("description"), str):
            plain["description"] = cleandoc(plain["description"])
        if plain.get("format") == "decimal":
            plain = {key: value for key, value in plain.items() if key != "format"} | {"type": "number"}
        if "$ref" in plain:
            plain["$ref"] = reference(plain["$ref"])
        values = plain.get("enum")
        if isinstance(values, list):
            for kind, name in ((str, "string"), (int, "integer")):
                if all(isinstance(each, kind) for each in values):
                    plain["type"] = name  # some readers do not infer it
            if len(values) == 1:
                plain["const"] = plain.pop("enum")[0]
        return plain

    _, made = msgspec.json.schema_components(bodies, ref_template="{name}")
    return {name: tidy(schema) for name, schema in made.items()}


def default_error_body(problem: Problem, _request_id: str) -> Mapping[str, Any]:
    return problem.body


@dataclass(frozen=True, slots=True)
class DocumentedAnswer:
    """A documented response. `model`: the struct of its body; None if the response has no body or a body that is not
    JSON."""

    description: str
    model: type[Body] | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    content_type: str = "application/json"


@dataclass(frozen=True, slots=True)
class Answers:
    """The documentation of a surface's responses. `usual`: the errors that most operations share, by status."""

    error: type[Body]
    usual: Mapping[int, str]

    def __call__(
        self, success: str, model: type[Body], *usual: int, errors: Mapping[int, str] | None = None
    ) -> dict[int, DocumentedAnswer]:
        """Return the documented responses by status: the success, the `usual` errors listed, and further `errors`."""
        described = {**{status: self.usual[status] for status in usual}, **(errors or {})}
        documented = {status: self.refusal(description, status) for status, description in described.items()}
        return {200: DocumentedAnswer(success, model), **documented}

    def refusal(self, description: str, status: int = 400) -> DocumentedAnswer:
        headers = {"Retry-After": "Seconds to wait."} if status == 429 else {}
        return DocumentedAnswer(description, self.error, headers)


@dataclass(frozen=True, slots=True)
class Operation:
    """One method on one path (`/api/markets/{id}`).

    `path_parameters`, `query`, `body`: the models that validate these parts of a request. `answers`: every status that
    the operation can return, except those that all operations share (404 for unknown paths, 405, 500). `group`: a
    second tag within the surface. `described_by`: further OpenAPI fields. `timed`: whether the duration is measured;
    false for responses from memory and for streams.
    """

    method: str
    path: str
    handler: Handler
    summary: str
    answers: Mapping[int, DocumentedAnswer]
    description: str = ""
    path_parameters: type[BaseModel] | None = None
    query: type[BaseModel] | None = None
    body: type[BaseModel] | None = None
    headers: type[BaseModel] | None = None
    security: str | None = None
    group: str = ""
    described_by: Mapping[str, Any] = field(default_factory=dict)
    timed: bool = True
    hidden: bool = False

    @property
    def id(self) -> str:
        """Return a stable id, such as `get_api_markets_id`."""
        words = self.path.replace("{", "").replace("}", "").replace("-", "_").strip("/").split("/")
        return "_".join((self.method.lower(), *words))

    def measured(self) -> Handler:
        """Return the handler with metrics. The log lines of a timed operation also contain the request id."""
        handler, counts = self.handler, {200: REQUESTS.labels(self.id, "200")}

        async def counted(request: web.Request) -> web.StreamResponse:
            status = 500
            try:
                response = await handler(request)
                status = response.status
                return response
            except Problem as problem:
                status = problem.status
                raise
            finally:
                count = counts.get(status)
                if count is None:
                    count = counts[status] = REQUESTS.labels(self.id, str(status))
                count.inc()

        if not self.timed:
            return counted
        seconds = SECONDS.labels(self.id)

        async def timed(request: web.Request) -> web.StreamResponse:
            with request_context(request_id(request)), seconds.time():
                return await counted(request)

        return timed


# Any origin is allowed, because nothing here is authorized by cookies. Every response carries these headers, because a
# shared cache gives all callers the copy that it fetched for the first.
CORS: Final = {
    "Access-Control-Allow-Origin": "*",
    "Access-Control-Expose-Headers": "ETag, PAYMENT-REQUIRED, PAYMENT-RESPONSE, X-Payment-Response, Retry-After, "
    "X-Request-Id",
}
# The request headers that pages may send: those of our API, of payments and of MCP. The official x402 clients send
# Access-Control-Expose-Headers as a request header, so browsers ask for it too.
ALLOWED_HEADERS: Final = (
    "Content-Type, If-None-Match, Last-Event-ID, PAYMENT-SIGNATURE, X-PAYMENT, Access-Control-Expose-Headers, Accept, "
    "Mcp-Protocol-Version, Mcp-Session-Id, Mcp-Method, Mcp-Name"
)


@dataclass(frozen=True, slots=True)
class Surface:
    """A part of the origin with its own conventions.

    `prefixes`: the paths whose errors this surface renders; the longest matching prefix of all surfaces wins.
    `error_body`: renders errors as JSON. `error_response`: renders errors that are not JSON (pages).
    `security_schemes`: the OpenAPI security schemes, by the name that operations use. `reads`: the objects behind the
    operations, for pages that show the same data. `examples`: returns request bodies that work now, by operation id.
    """

    name: str
    title: str
    description: str
    prefixes: tuple[str, ...]
    operations: tuple[Operation, ...]
    error_body: ErrorBody = default_error_body
    error_response: ErrorResponse | None = None
    security_schemes: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    reads: tuple[object, ...] = ()
    examples: Callable[[], Mapping[str, Mapping[str, Any]]] | None = None
