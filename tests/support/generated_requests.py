"""Generated requests against the description that a running service publishes. Any request gets one of the described
responses, with the described body, and none is a server error.

Each operation gets the same requests in every run, from four sources, POST as well as GET: boundary values of one
parameter or field at a time (too long, too small, of another type, missing, given twice) and methods that the path does
not have; random requests that fit the description; random requests that break it; and fitting ones filled with values
that the service knows, since random ids name nothing. `known` has these values by name of a parameter or field, or
whole bodies by operation, which are sent as they are and then with one field changed. Every response is checked by
`CHECKS`.

`seen.reached` fails for an operation that was never requested or never returned 2xx, and for an expected status that
never came, because a generated test that reaches nothing proves nothing. Each request comes from its own address
(`X-Forwarded-For`; the service needs VPM_TRUST_PROXY=1), so that it meets no rate limit. `examples` bounds each of the
random sources. A failure prints the curl command that repeats it.
"""

from __future__ import annotations

import contextlib
import itertools
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import requests
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from hypothesis.errors import Unsatisfiable
from schemathesis import Case, GenerationMode, checks
from schemathesis.core.result import Ok
from schemathesis.schemas import APIOperation

from tests.support.service import fresh_address

AnyCase = Case[Any]

SECONDS = 30
MAX_BOUNDARY_CASES = 400

CHECKS = (
    checks.status_code_conformance,
    checks.content_type_conformance,
    checks.response_headers_conformance,
    checks.response_schema_conformance,
    checks.negative_data_rejection,
    checks.missing_required_header,
    checks.unsupported_method,
    checks.allow_header_conformance,
)

Known = Mapping[str, Sequence[Any]]
Refusal = tuple[str, str, int]


@dataclass
class Seen:
    """How often each operation returned each status. Requests by methods that a path does not have are not counted."""

    statuses: dict[str, dict[int, int]] = field(default_factory=lambda: defaultdict(lambda: defaultdict(int)))

    def reached(self, statuses: Mapping[str, Collection[int]] | None = None, *, refuse: Collection[str] = ()) -> None:
        """Check that every operation except those in `refuse` returned 2xx, and that each named one returned all its
        statuses."""
        assert self.statuses, "the document describes no operation"
        silent = [name for name, found in self.statuses.items() if not any(200 <= each < 300 for each in found)]
        assert set(silent) == set(refuse), f"never returned 2xx: {silent}; expected of {list(refuse)}"
        for name, wanted in (statuses or {}).items():
            missing = set(wanted) - set(self.statuses[name])
            assert not missing, f"{name} never returned {sorted(missing)}; it gave {dict(self.statuses[name])}"


def generated_requests(
    document_url: str,
    *,
    known: Known | None = None,
    headers: Callable[[AnyCase], Mapping[str, str]] | None = None,
    not_errors: Iterable[Refusal] = (),
    examples: int = 40,
    only: Collection[str] | None = None,
) -> Seen:
    """Send all requests, and raise at the first response that is not as described. `only`: names such as `GET
    /api/x`."""
    seen, server = Seen(), document_url.partition("/openapi")[0]
    with requests.Session() as session:
        session.trust_env = False
        described = session.get(document_url, timeout=SECONDS)
        described.raise_for_status()
        schema = schemathesis.openapi.from_dict(described.json())
        schema.config.update(base_url=server)
        asking = _Asking(session, seen, headers, frozenset(not_errors))
        for result in schema.get_all_operations():
            assert isinstance(result, Ok), f"the document cannot be read: {result.err()}"
            operation = result.ok()
            if only is None or operation.label in only:
                _ask(asking, operation, known or {}, examples)
    return seen


@dataclass(frozen=True)
class _Asking:
    session: requests.Session
    seen: Seen
    headers: Callable[[AnyCase], Mapping[str, str]] | None
    not_errors: frozenset[Refusal]

    def call(self, case: AnyCase) -> None:
        headers = {"X-Forwarded-For": fresh_address()}
        if self.headers is not None:
            headers |= self.headers(case)
        response = case.call(session=self.session, headers=headers, timeout=SECONDS)
        case.validate_response(response, checks=[*CHECKS], headers=headers)
        label = f"{case.method.upper()} {case.path}"
        if (
            response.status_code >= 500
            and (case.method.upper(), case.path, response.status_code) not in self.not_errors
        ):
            raise AssertionError(f"{label} returned {response.status_code}: {response.text}\n{case.as_curl_command()}")
        if label == case.operation.label:
            self.seen.statuses[label][response.status_code] += 1


def _ask(asking: _Asking, operation: APIOperation[Any, Any, Any, Any], known: Known, examples: int) -> None:
    asking.seen.statuses[operation.label]  # an operation that cannot be called must show as never reached
    for body in known.get(operation.label, ()):
        path = {each.name: known[each.name][0] for each in operation.path_parameters}
        asking.call(operation.Case(body=body, path_parameters=path, media_type="application/json"))
    config = operation.schema.config.generation_for(operation=operation, phase="coverage")
    boundary = operation.schema.iter_coverage_cases(
        operation, generation_modes=[GenerationMode.POSITIVE, GenerationMode.NEGATIVE], generation_config=config
    )
    for case in itertools.islice(boundary, MAX_BOUNDARY_CASES):
        asking.call(case)
    fits = operation.as_strategy(generation_mode=GenerationMode.POSITIVE)
    _random(asking, fits, examples)
    _random(asking, fits.flatmap(lambda case: _filled(case, known)), examples)
    with contextlib.suppress(Unsatisfiable):  # what takes any text, or nothing, cannot be asked wrongly
        _random(asking, operation.as_strategy(generation_mode=GenerationMode.NEGATIVE), examples)


def _random(asking: _Asking, cases: st.SearchStrategy[AnyCase], examples: int) -> None:
    # Never shrunk: the curl command is enough to repeat it, and each try is a request.
    @settings(
        max_examples=examples,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        derandomize=True,
        database=None,
        phases=[Phase.generate],
    )
    @given(case=cases)
    def call(case: AnyCase) -> None:
        asking.call(case)

    call()


@st.composite
def _filled(draw: st.DrawFn, case: AnyCase, known: Known) -> AnyCase:
    """Return the request with most of the parts that `known` names replaced by a value from there. A whole body usually
    stays as given; sometimes one field of it is replaced."""
    parts: list[tuple[Any, list[str]]] = [
        (values, [name for name in values if name in known and draw(st.integers(0, 9)) > 0])
        for values in (case.path_parameters, case.query, case.headers)
    ]
    if case.operation.label in known:
        case.body = dict(draw(st.sampled_from(known[case.operation.label])))
        named = [name for name in case.body if name in known]
        parts.append((case.body, [draw(st.sampled_from(named))] if named and draw(st.integers(0, 2)) == 0 else []))
    elif isinstance(case.body, dict):
        parts.append((case.body, [name for name in case.body if name in known]))
    for values, names in parts:
        for name in names:
            values[name] = draw(st.sampled_from(known[name]))
    return case
