"""MCP tools that are operations of the REST API: a call becomes the operation's request and goes through its handler,
with the same validation, limits, locks and error codes.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

import mcp_types as types
import orjson
from aiohttp import web
from pydantic import BaseModel

from api.http import tool_schemas
from api.http.application import instrumented, problem_of
from api.http.body import Schema
from api.http.mcp_door import refusal, success
from api.http.operation import ErrorWording, Operation
from api.http.problem import Problem, invalid, invalid_part
from api.http.requests import request_id
from api.http.subrequest import subrequest

JSON = "application/json"


@dataclass(frozen=True, slots=True)
class RestTool:
    """A tool for one operation.

    operation: its id. called: new names for the operation's parameters. required: arguments that are required in
    addition to the operation's. fixed: body fields with a fixed value. defaults: values of arguments that a call leaves
    out. schemas: additions to the arguments' schemas. reads: it changes nothing. risks: it cannot be undone.
    repeatable: repeating a call changes nothing more.
    """

    name: str
    operation: str
    title: str
    description: str
    called: Mapping[str, str] = field(default_factory=dict)
    required: tuple[str, ...] = ()
    fixed: Mapping[str, Any] = field(default_factory=dict)
    defaults: Mapping[str, Any] = field(default_factory=dict)
    schemas: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    reads: bool = True
    risks: bool = False
    repeatable: bool = True


class BoundTool:
    """A tool bound to its operation."""

    def __init__(self, tool: RestTool, operation: Operation) -> None:
        self.tool = tool
        self._handler = instrumented(operation)
        self._operation = operation
        self._places = {
            "path": _names(operation.path_parameters),
            "query": _names(operation.query),
            "body": _names(operation.body),
        }
        self._arguments = {
            tool.called.get(name, name) for names in self._places.values() for name in names if name not in tool.fixed
        }

    def described(self, output: Schema | None = None) -> types.Tool:
        """Return the tool's description. `output`: its output schema, if not the operation's."""
        tool = self.tool
        return types.Tool(
            name=tool.name,
            title=tool.title,
            description=tool.description,
            input_schema=self._input(),
            output_schema=output or self.gives(),
            annotations=types.ToolAnnotations(
                title=tool.title,
                read_only_hint=tool.reads,
                destructive_hint=tool.risks,
                idempotent_hint=tool.repeatable,
                open_world_hint=tool.risks,
            ),
        )

    def gives(self) -> Schema:
        model = next(answer.model for status, answer in self._operation.answers.items() if status < 300)
        assert model is not None, f"{self._operation.id} gives no JSON"
        return tool_schemas.gives(model)

    async def call(
        self,
        outer: web.Request,
        arguments: Mapping[str, Any],
        *,
        kept: Sequence[str],
        headers: Sequence[tuple[str, str]] = (),
    ) -> web.Response:
        """Return the operation's answer, or raise what it raises. `headers`: of its request, in addition to the `kept`
        ones of `outer`."""
        given = self._given(arguments)
        try:
            return await self._answer(outer, given, kept, headers)
        except Problem as problem:
            raise self._of_arguments(problem) from problem

    async def _answer(
        self,
        outer: web.Request,
        given: Mapping[str, Any],
        kept: Sequence[str],
        headers: Sequence[tuple[str, str]],
    ) -> web.Response:
        path, query, body = (self._part(place, given) for place in ("path", "query", "body"))
        for name in self._places["path"] - path.keys():
            missing = self.tool.called.get(name, name)
            raise invalid_part("argument", missing, "it is missing")
        has_body = self._operation.body is not None
        request = subrequest(
            outer,
            self._operation.method,
            self._operation.path,
            match={name: text_of(name, value) for name, value in path.items()},
            query={name: text_of(name, value) for name, value in query.items()},
            headers=(*headers, *((("Content-Type", JSON),) if has_body else ())),
            kept=kept,
            body=json.dumps({**body, **self.tool.fixed}).encode() if has_body else b"",
        )
        response = await self._handler(request)
        assert isinstance(response, web.Response), f"{self._operation.id} streams"
        return response

    def _of_arguments(self, problem: Problem) -> Problem:
        """Return the refusal with parts of the request named as the tool's arguments."""
        message, details = problem.message, problem.extra.get("details")
        if problem.code != "invalid_request" or not details:
            return problem  # other details do not name parts of the request
        arguments = [{**each, "field": self.tool.called.get(each["field"], each["field"])} for each in details]
        for part, argument in zip(details, arguments, strict=True):
            if message.endswith(f" {part['field']} is wrong: {part['problem']}."):
                message = invalid_part("argument", argument["field"], argument["problem"]).message
        extra = {**problem.extra, "details": arguments}
        return Problem(problem.status, problem.code, message, headers=problem.headers, extra=extra)

    def _given(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Return the arguments with defaults filled in. Null counts as missing, since models send it for what they
        leave out."""
        given = {**self.tool.defaults, **{name: value for name, value in arguments.items() if value is not None}}
        if unknown := sorted(given.keys() - self._arguments):
            names = ", ".join(sorted(self._arguments)) or "none"
            named = unknown[0][:64]
            raise invalid(
                f"There is no argument {named!r}; {self.tool.name} takes: {names}.",
                details=[{"field": named, "problem": "is no argument of this tool"}],
            )
        return given

    def _part(self, place: str, given: Mapping[str, Any]) -> dict[str, Any]:
        """Return the arguments for the path, the query or the body, under the operation's names."""
        names = {name: self.tool.called.get(name, name) for name in self._places[place]}
        return {name: given[called] for name, called in names.items() if called in given}

    def _input(self) -> Schema:
        """Return the input schema: the operation's parameters under the tool's names."""
        operation, tool = self._operation, self.tool
        models = (operation.path_parameters, operation.query, operation.body)
        made = tool_schemas.takes(model for model in models if model is not None)
        properties = {}
        for name, schema in made["properties"].items():
            if name in tool.fixed:
                continue
            called = tool.called.get(name, name)
            usual = {"default": tool.defaults[called]} if called in tool.defaults else {}
            properties[called] = {**schema, **tool.schemas.get(called, {}), **usual}
        required = [tool.called.get(name, name) for name in made.get("required", ()) if name not in tool.fixed]
        required = list(dict.fromkeys((*required, *tool.required)))
        for name in required:
            properties[name].pop("default", None)
        return {**made, "properties": properties, **({"required": required} if required else {})}


class RestTools:
    """A surface's tools. `kept`: headers of a call that are passed on to the operation."""

    def __init__(
        self,
        tools: Sequence[RestTool],
        operations: Sequence[Operation],
        error_body: ErrorWording,
        *,
        kept: Sequence[str] = (),
    ) -> None:
        by_id = {operation.id: operation for operation in operations}
        self._tools = {tool.name: BoundTool(tool, by_id[tool.operation]) for tool in tools}
        self._error_body = error_body
        self._kept = tuple(kept)

    def __getitem__(self, name: str) -> BoundTool:
        return self._tools[name]

    def described(self, **outputs: Schema) -> list[types.Tool]:
        """Return the descriptions. `outputs`: the output schemas of tools that differ from their operations."""
        return [tool.described(outputs.get(name)) for name, tool in self._tools.items()]

    async def answer(
        self, outer: web.Request, name: str, arguments: Mapping[str, Any], headers: Sequence[tuple[str, str]] = ()
    ) -> web.Response | types.CallToolResult:
        """Return the operation's answer, or a refusal."""
        try:
            return await self._tools[name].call(outer, arguments, kept=self._kept, headers=headers)
        except Exception as error:
            problem = problem_of(error, outer)
            body = {**self._error_body(problem, request_id(outer)), "status": problem.status}
            seconds = problem.headers.get("Retry-After")
            # Tool results have no headers.
            return refusal(body if seconds is None else {"retryAfter": int(seconds), **body})

    async def call(self, outer: web.Request, params: types.CallToolRequestParams) -> types.CallToolResult:
        """Answer a call of a tool whose answers are all JSON bodies of 2xx."""
        answered = await self.answer(outer, params.name, params.arguments or {})
        return answered if isinstance(answered, types.CallToolResult) else result_of(answered)


def result_of(response: web.Response, meta: dict[str, Any] | None = None) -> types.CallToolResult:
    """Return a REST answer as a tool result. Handlers may also return refusals, which keep their status."""
    body = response.body
    assert isinstance(body, bytes), "the answer is no body in memory"
    if response.status < 300:
        return success(body, meta=meta)
    return refusal({**orjson.loads(body), "status": response.status})


def _names(model: type[BaseModel] | None) -> frozenset[str]:
    """Return the names by which a model takes its fields."""
    return frozenset() if model is None else frozenset(each.alias or name for name, each in model.model_fields.items())


def text_of(name: str, value: object) -> str:
    """Return a value as text for a query or path."""
    match value:
        case str():
            text = value
        case bool():
            text = "true" if value else "false"
        case int():
            text = str(value)
        case float() if value.is_integer():
            text = str(int(value))
        case float():
            text = format(Decimal(repr(value)), "f")
        case _:
            raise invalid_part("argument", name, "it is neither text nor a number")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise invalid_part("argument", name, "it is no text in Unicode") from None
    return text
