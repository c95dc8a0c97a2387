"""MCP servers whose tools are operations of the REST API: a surface declares `RestTool`s and serves them through an
`McpEndpoint`. A call becomes a request to the operation's handler, with the same validation, limits and error codes."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from decimal import Decimal
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any

import orjson
from aiohttp import HttpVersion10, StreamReader, web
from aiohttp.abc import AbstractStreamWriter
from aiohttp.http import RawRequestMessage
from multidict import CIMultiDict, CIMultiDictProxy
from pydantic import BaseModel
from yarl import URL

from api.caching import TimedValue, json_response
from api.operations import Body, DocumentedAnswer, ErrorBody, Json, Operation, Schema, schemas_of
from api.problems import REQUEST_ID, Problem, invalid, invalid_part, part_message, problem_of, request_id
from api.requests import read_json
from core.money import to_json

if TYPE_CHECKING:
    from api.mcp import McpServer

BODY_LIMIT = 64 * 1024
VERSION = "1.0.0"


@dataclass(frozen=True, slots=True)
class RestTool:
    """A tool for one operation.

    `operation`: the id of the operation. `renamed`: the tool's names for the operation's parameters, where they differ.
    `required`: arguments that the tool requires although the operation does not. `fixed`: the body fields that have a
    fixed value. `defaults`: the values of arguments that a call leaves out. `schemas`: additions to the arguments'
    schemas. `read_only`, `destructive`, `idempotent`: MCP's hints of these names.
    """

    name: str
    operation: str
    title: str
    description: str
    renamed: Mapping[str, str] = field(default_factory=dict)
    required: tuple[str, ...] = ()
    fixed: Mapping[str, Any] = field(default_factory=dict)
    defaults: Mapping[str, Any] = field(default_factory=dict)
    schemas: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    read_only: bool = True
    destructive: bool = False
    idempotent: bool = True


@dataclass(frozen=True, slots=True)
class ToolCall:
    request: web.Request
    name: str
    arguments: Mapping[str, Any]
    meta: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ToolResult:
    """The result of a tool call. The text and the structured content say the same."""

    text: str
    structured: Any = None
    meta: Json | None = None
    is_error: bool = False


def refusal(body: Mapping[str, Any]) -> ToolResult:
    """Return a REST error as text only. Clients validate structured content against the output schema even in errors,
    and would report the mismatch instead of the error."""
    return ToolResult(to_json(body).decode(), is_error=True)


def result_of(response: web.Response, meta: Json | None = None) -> ToolResult:
    """Return a REST response as a tool result. A refusal that a handler returned keeps its status."""
    body = response.body
    assert isinstance(body, bytes), "the response has no body in memory"
    content = orjson.loads(body)
    if response.status >= 300:
        return refusal({**content, "status": response.status})
    return ToolResult(body.decode(), content, meta)


class BoundTool:
    def __init__(self, tool: RestTool, operation: Operation) -> None:
        self.tool = tool
        self._handler = operation.measured()
        self._operation = operation
        self._parts = {
            "path": _field_names(operation.path_parameters),
            "query": _field_names(operation.query),
            "body": _field_names(operation.body),
        }
        self._arguments = {
            tool.renamed.get(name, name) for names in self._parts.values() for name in names if name not in tool.fixed
        }

    def describe(self, output: Schema | None = None) -> Json:
        """Return the tool's description as MCP's JSON. `output`: replaces the output schema of the operation."""
        tool = self.tool
        return {
            "name": tool.name,
            "title": tool.title,
            "description": tool.description,
            "inputSchema": self._input_schema(),
            "outputSchema": output or self.output_schema(),
            "annotations": {
                "title": tool.title,
                "readOnlyHint": tool.read_only,
                "destructiveHint": tool.destructive,
                "idempotentHint": tool.idempotent,
                "openWorldHint": tool.destructive,
            },
        }

    def output_schema(self) -> Schema:
        model = next(answer.model for status, answer in self._operation.answers.items() if status < 300)
        assert model is not None, f"{self._operation.id} returns no JSON"
        return output_schema(model)

    async def answer(
        self, call: ToolCall, *, forwarded: Sequence[str], headers: Sequence[tuple[str, str]] = ()
    ) -> web.Response:
        """Call the operation and return its response, or raise what the operation raises. `forwarded`: the names of
        headers to copy from the call's request. `headers`: further headers of the operation's request."""
        arguments = self._complete(call.arguments)
        try:
            path, query, body = (self._select(part, arguments) for part in ("path", "query", "body"))
            for name in self._parts["path"] - path.keys():
                raise invalid_part("argument", self._argument(name), "it is missing")
            has_body = self._operation.body is not None
            request = subrequest(
                call.request,
                self._operation.method,
                self._operation.path,
                match={name: text_of(name, value) for name, value in path.items()},
                query={name: text_of(name, value) for name, value in query.items()},
                headers=(*headers, *((("Content-Type", "application/json"),) if has_body else ())),
                forwarded=forwarded,
                body=json.dumps({**body, **self.tool.fixed}).encode() if has_body else b"",
            )
            response = await self._handler(request)
        except Problem as problem:
            raise self._name_arguments(problem) from problem
        assert isinstance(response, web.Response), f"{self._operation.id} streams"
        return response

    def _argument(self, name: str) -> str:
        return self.tool.renamed.get(name, name)

    def _name_arguments(self, problem: Problem) -> Problem:
        """Return the refusal with the request's fields renamed to the tool's arguments."""
        message, details = problem.message, problem.extra.get("details")
        if problem.code != "invalid_request" or not details:
            return problem  # other details do not name parts of the request
        arguments = [{**each, "field": self._argument(each["field"])} for each in details]
        for part, argument in zip(details, arguments, strict=True):
            if message.endswith(f" {part['field']} is invalid: {part['problem']}."):
                message = part_message("argument", argument["field"], argument["problem"])
        extra = {**problem.extra, "details": arguments}
        return Problem(problem.status, problem.code, message, headers=problem.headers, extra=extra)

    def _complete(self, arguments: Mapping[str, Any]) -> Json:
        """Return the arguments with defaults filled in. Null counts as missing, because models send null for arguments
        that they leave out."""
        complete = {**self.tool.defaults, **{name: value for name, value in arguments.items() if value is not None}}
        if unknown := sorted(complete.keys() - self._arguments):
            names = ", ".join(sorted(self._arguments)) or "none"
            name = unknown[0][:64]
            raise invalid(
                f"There is no argument {name!r}; the arguments of {self.tool.name} are: {names}.",
                details=[{"field": name, "problem": "is not an argument of this tool"}],
            )
        return complete

    def _select(self, part: str, arguments: Mapping[str, Any]) -> Json:
        """Return the arguments that belong to `part` (the path, the query or the body), under the operation's names."""
        names = {name: self._argument(name) for name in self._parts[part]}
        return {name: arguments[argument] for name, argument in names.items() if argument in arguments}

    def _input_schema(self) -> Schema:
        operation, tool = self._operation, self.tool
        models = (operation.path_parameters, operation.query, operation.body)
        made = input_schema(model for model in models if model is not None)
        properties = {}
        for name, schema in made["properties"].items():
            if name in tool.fixed:
                continue
            argument = self._argument(name)
            default = {"default": tool.defaults[argument]} if argument in tool.defaults else {}
            properties[argument] = {**schema, **tool.schemas.get(argument, {}), **default}
        required = [self._argument(name) for name in made.get("required", ()) if name not in tool.fixed]
        required = list(dict.fromkeys((*required, *tool.required)))
        for name in required:
            properties[name].pop("default", None)
        return {**made, "properties": properties, **({"required": required} if required else {})}


class RestTools:
    """The tools of a surface. `forwarded`: the names of headers that are passed on from a call to the operation."""

    def __init__(
        self,
        tools: Sequence[RestTool],
        operations: Sequence[Operation],
        error_body: ErrorBody,
        *,
        forwarded: Sequence[str] = (),
    ) -> None:
        by_id = {operation.id: operation for operation in operations}
        self._tools = {tool.name: BoundTool(tool, by_id[tool.operation]) for tool in tools}
        self._error_body = error_body
        self._forwarded = tuple(forwarded)

    def __getitem__(self, name: str) -> BoundTool:
        return self._tools[name]

    def describe(self, **outputs: Schema) -> list[Json]:
        """Return the descriptions of all tools. `outputs` maps tool names to schemas that override the operations'
        output schemas."""
        return [tool.describe(outputs.get(name)) for name, tool in self._tools.items()]

    async def answer(self, call: ToolCall, headers: Sequence[tuple[str, str]] = ()) -> web.Response | ToolResult:
        """Call the tool's operation and return its response, or the refusal if it raises an error."""
        try:
            return await self._tools[call.name].answer(call, forwarded=self._forwarded, headers=headers)
        except Exception as error:
            problem = problem_of(error, call.request)
            body = {**self._error_body(problem, request_id(call.request)), "status": problem.status}
            seconds = problem.headers.get("Retry-After")  # tool results have no headers
            return refusal(body if seconds is None else {"retryAfter": int(seconds), **body})

    async def call(self, call: ToolCall) -> ToolResult:
        answered = await self.answer(call)
        return answered if isinstance(answered, ToolResult) else result_of(answered)


def _field_names(model: type[BaseModel] | None) -> frozenset[str]:
    return frozenset() if model is None else frozenset(each.alias or name for name, each in model.model_fields.items())


def text_of(name: str, value: object) -> str:
    if isinstance(value, bool):
        text = str(value).lower()
    elif isinstance(value, float):
        text = str(int(value)) if value.is_integer() else format(Decimal(repr(value)), "f")
    elif isinstance(value, int | str):
        text = str(value)
    else:
        raise invalid_part("argument", name, "it is neither text nor a number")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise invalid_part("argument", name, "it is not valid Unicode text") from None
    return text


# ---------------------------------------------------------------- schemas, simplified for language models


def input_schema(models: Iterable[type[BaseModel]]) -> Schema:
    """Return one schema with the fields of all these models, without null alternatives and titles."""
    properties: Schema = {}
    required: list[str] = []
    for model in models:
        made = model.model_json_schema(by_alias=True, mode="validation")
        properties |= {name: _plain(field) for name, field in made.get("properties", {}).items()}
        required += made.get("required", ())
    plain: Schema = {"type": "object", "properties": properties, "additionalProperties": False}
    return {**plain, "required": required} if required else plain


def output_schema(model: type[Body]) -> Schema:
    definitions = schemas_of([model], lambda name: f"#/$defs/{name}")
    made: Schema = without_titles({**definitions.pop(model.__name__), "$defs": definitions})
    return made


def any_of(*schemas: Schema) -> Schema:
    """Return a schema that matches any of these schemas. Definitions with equal names must be equal."""
    definitions: Schema = {}
    alternatives = []
    for schema in schemas:
        definitions |= schema.get("$defs", {})
        alternatives.append({key: value for key, value in schema.items() if key != "$defs"})
    return {"type": "object", "anyOf": alternatives, "$defs": definitions}


def _plain(field: Schema) -> Schema:
    options = [each for each in field.get("anyOf", ()) if each.get("type") != "null"]
    merged = {**(options[0] if len(options) == 1 else {}), **field}
    if len(options) == 1:
        del merged["anyOf"]
    if merged.get("default", ...) is None:
        del merged["default"]
    merged.pop("title", None)
    return merged


def without_titles(schema: Any) -> Any:
    if isinstance(schema, list):
        return [without_titles(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        key: {name: without_titles(each) for name, each in value.items()}
        if key in ("properties", "$defs")
        else without_titles(value)
        for key, value in schema.items()
        if key != "title"
    }


# ---------------------------------------------------------------- internal requests


# Names the caller; the proxy in front of the service sets it.
FORWARDED = "X-Forwarded-For"
_MATCH = web.RequestKey("match", web.UrlMappingMatchInfo)


def subrequest(
    outer: web.Request,
    method: str,
    path: str,
    *,
    match: Mapping[str, str],
    query: Mapping[str, str],
    headers: Sequence[tuple[str, str]],
    forwarded: Sequence[str],
    body: bytes,
) -> web.Request:
    """Return an internal request. Its response is not written to the connection. `match`: the path's parameters.
    `headers`: the headers of the new request. `forwarded`: the names of headers that are copied from the outer request;
    nothing else is copied."""
    all_headers = CIMultiDict(headers)
    for name in (FORWARDED, *forwarded):
        for value in outer.headers.getall(name, ()):
            all_headers.add(name, value)
    if body:
        all_headers["Content-Length"] = str(len(body))
    url = URL.build(path=path, query=query)
    message = RawRequestMessage(
        method=method,
        path=str(url),
        version=HttpVersion10,  # prevents prepared responses: the tool reads this one
        headers=CIMultiDictProxy(all_headers),
        raw_headers=tuple((name.encode(), value.encode()) for name, value in all_headers.items()),
        should_close=False,
        compression=None,
        upgrade=False,
        chunked=False,
        url=url,
    )
    loop = asyncio.get_running_loop()
    # A stream over its limit would pause the outer connection, and a handler that refuses the body by its length would
    # never resume it.
    payload = StreamReader(outer.protocol, limit=max(2**16, len(body)), loop=loop)
    payload.feed_data(body)
    payload.feed_eof()
    inner = _Routed(
        message,
        payload,
        outer.protocol,
        _NullWriter(outer),
        outer.task,
        loop,
        client_max_size=2**20,
        remote=outer.remote,
    )
    inner[REQUEST_ID] = request_id(outer)
    inner[_MATCH] = web.UrlMappingMatchInfo(dict(match), outer.match_info.route)
    return inner


class _Routed(web.Request):
    """A request whose path parameters are set directly rather than matched by a router."""

    @property
    def match_info(self) -> web.UrlMappingMatchInfo:
        return self[_MATCH]


class _NullWriter(AbstractStreamWriter):
    """A writer for handlers that send their response before they finish. It writes nothing, because the content is sent
    with the outer response. It raises an error if the caller has disconnected."""

    def __init__(self, outer: web.Request) -> None:
        self._outer = outer

    async def _discard(self, *_: Any, **__: Any) -> None:
        transport = self._outer.transport
        if transport is None or transport.is_closing():
            raise ConnectionResetError("The caller has disconnected.")

    write = write_eof = drain = write_headers = _discard

    def _ignore(self, *_: Any, **__: Any) -> None:
        pass

    enable_compression = enable_chunking = _ignore


# ---------------------------------------------------------------- the server


CallTool = Callable[[ToolCall], Awaitable[ToolResult]]


@dataclass(frozen=True, slots=True)
class ServerInfo:
    name: str
    title: str
    instructions: str
    origin: str
    path: str
    docs_url: str


class McpEndpoint:
    """The HTTP operations of an MCP server, which work within `async with endpoint.running():`. `describe`: returns the
    server's tools; it is called when they are first needed."""

    def __init__(self, info: ServerInfo, describe: Callable[[], Sequence[Json]], call: CallTool) -> None:
        self._info = info
        self._tools = TimedValue(partial(asyncio.to_thread, describe))
        self._call = call
        self._server = TimedValue(self._start)
        self._stop = asyncio.Event()
        self._running: asyncio.Task[None] | None = None

    def operations(self) -> tuple[Operation, ...]:
        path = self._info.path
        manifest = {200: DocumentedAnswer("Name, version, url and tools.")}
        json_rpc = {200: DocumentedAnswer("JSON-RPC.")}
        return (
            Operation("GET", f"{path}.json", self.manifest, "The MCP server's manifest", manifest),
            Operation("POST", path, self.handle, "MCP: stateless streamable HTTP", json_rpc, hidden=True),
        )

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        try:
            yield
        finally:
            self._stop.set()
            if self._running is not None:
                await self._running

    async def _start(self) -> McpServer:
        """Start the server on the first call, because the MCP library takes 30 MB. The server's task group runs in a
        separate task, because the task that enters a task group must also leave it."""
        tools = await self._tools.get()
        module = await asyncio.to_thread(import_module, "api.mcp")
        server: McpServer = module.McpServer(self._info, VERSION, tools, self._call, BODY_LIMIT)
        ready = asyncio.Event()
        self._running = asyncio.create_task(server.run(ready, self._stop), name=f"mcp {self._info.name}")
        waiting = asyncio.create_task(ready.wait())
        await asyncio.wait((self._running, waiting), return_when=asyncio.FIRST_COMPLETED)
        waiting.cancel()
        if self._running.done():
            self._running.result()
        return server

    async def manifest(self, _request: web.Request) -> web.StreamResponse:
        info = self._info
        url = f"{info.origin}{info.path}"
        fields = ("name", "title", "description", "inputSchema", "outputSchema")
        body = {
            "name": info.name,
            "version": VERSION,
            "url": url,
            "type": "http",
            "description": info.instructions,
            "docsUrl": info.docs_url,
            "mcpServers": {info.name: {"type": "http", "url": url}},
            "tools": [{name: tool[name] for name in fields} for tool in await self._tools.get()],
        }
        return json_response(body, cache_control="public, max-age=60")

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """Pass a request to the MCP library. First refuse what the library would handle differently from the rest of
        the API: other content types and duplicate fields."""
        if request.method == "POST":
            try:
                await read_json(request, limit=BODY_LIMIT)
            except Problem as problem:
                return _json_rpc_error(problem)
        return await (await self._server.get()).answer(request)


PARSE_ERROR, INVALID_REQUEST = -32700, -32600  # of JSON-RPC


def _json_rpc_error(problem: Problem) -> web.StreamResponse:
    is_json_error = isinstance(problem.__cause__ or problem.__context__, orjson.JSONDecodeError)
    code = PARSE_ERROR if is_json_error else INVALID_REQUEST
    # The id of a call that cannot be parsed is unknown.
    body = {"jsonrpc": "2.0", "id": None, "error": {"code": code, "message": problem.message}}
    return json_response(body, status=problem.status)
