"""What a surface declares: routing, validation, OpenAPI and the docs page all come from these values."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web
from pydantic import BaseModel

from api.http.body import Body
from api.http.problem import Problem

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
ErrorWording = Callable[[Problem, str], Mapping[str, Any]]
ErrorResponse = Callable[[web.Request, Problem], web.StreamResponse]


def usual_error(problem: Problem, _request_id: str) -> Mapping[str, Any]:
    return problem.body


@dataclass(frozen=True, slots=True)
class DocumentedAnswer:
    """A documented answer. `model` describes its JSON body; None if it has no body, or is not JSON."""

    description: str
    model: type[Body] | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    content_type: str = "application/json"


@dataclass(frozen=True, slots=True)
class Operation:
    """One method on one path (`/api/markets/{id}`).

    path_parameters, query, body: the models that validate them. answers: every status that it can return, except those
    that all operations share (404 for unknown paths, 405, 500). group: a second tag within the surface. described_by:
    further OpenAPI fields. timed: its duration is measured; false for answers from memory and for streams.
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
        """Its stable id, like `get_api_markets_id`."""
        words = self.path.replace("{", "").replace("}", "").replace("-", "_").strip("/").split("/")
        return "_".join((self.method.lower(), *words))


@dataclass(frozen=True, slots=True)
class Cors:
    """The headers that pages of any origin may send and read: nothing here is authorized by cookies.

    Every answer carries them, since a shared cache gives all callers the copy that it fetched for the first.
    """

    allow_headers: tuple[str, ...] = ("Content-Type", "If-None-Match")
    expose_headers: tuple[str, ...] = ("ETag", "Retry-After", "X-Request-Id")

    @property
    def headers(self) -> dict[str, str]:
        """The headers of every answer."""
        return {
            "Access-Control-Allow-Origin": "*",
            "Access-Control-Expose-Headers": ", ".join(self.expose_headers),
        }


@dataclass(frozen=True, slots=True)
class Surface:
    """A part of the origin with its own conventions.

    prefixes: the paths whose errors it renders; the longest match of all surfaces wins. error_body: renders them, or
    error_response where errors are not JSON (pages). security_schemes: OpenAPI's, by the name that operations use.
    reads: the objects behind its operations, for pages that show the same data. examples: returns bodies that work now,
    by the id of the operation; called whenever the description is served.
    """

    name: str
    title: str
    description: str
    prefixes: tuple[str, ...]
    operations: tuple[Operation, ...]
    error_body: ErrorWording = usual_error
    error_response: ErrorResponse | None = None
    cors: Cors = Cors()
    security_schemes: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    reads: tuple[object, ...] = ()
    examples: Callable[[], Mapping[str, Mapping[str, Any]]] | None = None
