"""The manifest is complete: no content line of a spec is uncited, and no name in one is unmentioned."""

from __future__ import annotations

import re
import shutil
from collections import defaultdict
from pathlib import Path

import pytest

from tests.requirements.manifest import DATA, ManifestError, Surface, load, manifest, mentions, spec_lines

SPECS = [surface for surface in manifest().surfaces if surface.spec]

# Lines that demand nothing: what the document covers, lead-ins to a table or list, and bare "not shown" remarks.
SAYS_NOTHING = {
    "stock": {3, 13, 94, 145, 172},
    "agent": {3, 169, 314, 334},
    "cup": {3, 83, 144, 161, 171},
}
# Names a line mentions without demanding anything of them there.
SAID_ELSEWHERE = {
    # The first column of the conventions table names rules, not fields.
    ("stock", 20): {"Outcomes"},
    ("stock", 21): {"Freshness"},
    ("stock", 22): {"Stability"},
    ("stock", 91): {"rules.segments"},  # "inner fields of ...: not shown"
    ("agent", 291): {"pending_verification"},  # "the handshake behind ...: not shown"
    ("cup", 167): {"issuedAt"},  # "the accepted age of ...: not shown"
    ("cup", 190): {"cup_agent_trades_halted", "roundNo"},  # names the error of line 187; "not shown"
}
_TYPES = "string|number|integer|boolean|object|array"
_TYPED = re.compile(rf"\b([a-z]\w*)(?:\[\])? (?:{_TYPES})\b")
_CAMEL = re.compile(r"\b[a-z]+[0-9]*[A-Z]\w*")
_SNAKE = re.compile(r"\b[a-z]+(?:_[a-z]+)+\b")
_HOST = re.compile(r"\{(?:base|vpm)_url\}")
_QUOTED = re.compile(r"`([^`]+)`")
_NOT_NAMES = {"and", "each"}  # "strings and boolean", "each string|null"


def content(lines: list[str]) -> dict[int, str]:
    """Lines that can demand something: no blanks, headings, table rules or table headers."""
    found = {}
    for number, line in enumerate(lines, 1):
        header = number < len(lines) and re.fullmatch(r"\|[-| ]+\|", lines[number])
        if line.strip() and not line.startswith("#") and not re.fullmatch(r"\|[-| ]+\|", line) and not header:
            found[number] = line
    return found


def quoted_names(quoted: str) -> set[str]:
    """The names in one quoted piece: the keys of a `{body}`, the choices of `a|b`, or the piece itself."""
    if quoted.startswith("{"):
        inside = re.sub(r"\([^)]*\)|\[[^\]]*\]", "", quoted.strip("{} "))
        keys = (re.match(r'"?([A-Za-z]\w*)', key.strip()) for key in inside.split(","))
        return {key[1] for key in keys if key}
    if "|" in quoted:
        return {choice.strip("<>") for choice in quoted.split("|")}
    return {quoted.removesuffix("[]")}


def names(line: str) -> set[str]:
    """Every name a line gives to a field, parameter, code or value."""
    line = _HOST.sub("", line)
    found = {*_TYPED.findall(line), *_CAMEL.findall(line), *_SNAKE.findall(line)} - _NOT_NAMES
    if line.startswith("|"):
        first = line.split("|")[1]
        found |= {name.strip() for name in first.split(",") if re.fullmatch(r"[A-Za-z]\w*", name.strip())}
    for quoted in _QUOTED.findall(line):
        found |= quoted_names(quoted)
    return found


def cited(surface: Surface) -> dict[int, str]:
    """Everything the manifest says of each line."""
    said: defaultdict[int, list[str]] = defaultdict(list)
    for requirement in surface.requirements:
        for line in requirement.lines:
            said[line].append(f"{requirement.id} {requirement.text} {requirement.token}")
    return {line: "\n".join(parts) for line, parts in said.items()}


@pytest.mark.parametrize("surface", SPECS, ids=lambda surface: surface.name)
def test_every_content_line_is_cited(surface: Surface) -> None:
    assert surface.spec
    lines = content(spec_lines(surface.spec))
    assert lines.keys() - cited(surface).keys() == SAYS_NOTHING[surface.name]


@pytest.mark.parametrize("surface", SPECS, ids=lambda surface: surface.name)
def test_every_name_in_a_line_is_mentioned_by_its_requirements(surface: Surface) -> None:
    assert surface.spec
    said = cited(surface)
    silent = {}
    for number, line in content(spec_lines(surface.spec)).items():
        if number in SAYS_NOTHING[surface.name]:
            continue
        missing = {name for name in names(line) if not mentions(said[number], name)}
        if missing:
            silent[(surface.name, number)] = missing
    assert silent == {key: value for key, value in SAID_ELSEWHERE.items() if key[0] == surface.name}


def test_the_name_search_sees_every_form_the_specs_use() -> None:
    line = (
        "| slug, feeBps | object | `a[]` (key, label string), `up|down`, body `{ok boolean, rows[]}`, code bad_code |"
    )
    assert names(line) == {"slug", "feeBps", "a", "label", "up", "down", "ok", "rows", "bad_code"}
    assert names("At `{base_url}/api/cup/mcp`: `x: 1`, quality {distinctBettors integer}") == {
        "/api/cup/mcp",
        "x: 1",
        "distinctBettors",
    }


@pytest.mark.parametrize("surface", SPECS, ids=lambda surface: surface.name)
def test_every_endpoint_has_its_requirement(surface: Surface) -> None:
    assert surface.spec
    headings = re.compile(r"### (?:(?:GET|POST|DELETE) /|MCP server)")
    lines = [number for number, line in enumerate(spec_lines(surface.spec), 1) if headings.match(line)]
    endpoints = {line for each in surface.requirements if each.kind == "endpoint" for line in each.lines}
    named = {line for line in lines if line in endpoints or line + 1 in endpoints}
    assert len(lines) == {"stock": 8, "agent": 20, "cup": 11}[surface.name]
    assert named == set(lines)


def test_every_error_row_has_an_error_requirement() -> None:
    for surface in SPECS:
        assert surface.spec
        lines = spec_lines(surface.spec)
        errors = {line for each in surface.requirements if each.kind == "error" for line in each.lines}
        behaviours = {line for each in surface.requirements if each.kind == "behaviour" for line in each.lines}
        rows = {number for number, line in enumerate(lines, 1) if re.match(r"\| [45]\d\d \|", line)}
        assert len(rows) >= 10
        assert rows <= errors | behaviours
        assert rows - errors == set()


def test_every_limit_row_has_a_limit_requirement() -> None:
    for surface in SPECS:
        assert surface.spec
        lines = spec_lines(surface.spec)
        start = lines.index("## Limits") + 1
        end = lines.index("## Versioning")
        rows = {number for number, line in content(lines).items() if start < number <= end and line.startswith("|")}
        cited_limits = {line for each in surface.requirements if each.kind == "limit" for line in each.lines}
        assert len(rows) >= 7
        assert rows <= cited_limits


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A copy of the data to damage."""
    for path in DATA.glob("*.toml"):
        shutil.copy(path, tmp_path)
    return tmp_path


_LOCK = 'id = "agent.quote.limit.lock", line = 225, also = [323], kind = "limit"'


@pytest.mark.parametrize(
    ("good", "bad", "complaint"),
    [
        pytest.param(_LOCK, _LOCK.replace("225", "999"), "the spec has lines 1 to 338", id="no-such-line"),
        pytest.param(_LOCK, _LOCK.replace("225", "58"), "an empty one", id="empty-line"),
        pytest.param(_LOCK, _LOCK.replace("323", "225"), "cites a line twice", id="line-twice"),
        pytest.param(_LOCK, _LOCK.replace('"limit"', '"rule"'), "unknown kind rule", id="unknown-kind"),
        pytest.param(_LOCK, _LOCK.replace('"limit"', '"field"'), "not a part of the id", id="kind-not-in-id"),
        pytest.param(_LOCK, _LOCK + ", tokn = 1", "unknown keys ['tokn']", id="unknown-key"),
        pytest.param(_LOCK, _LOCK.replace("agent.quote", "cup.quote"), "an id is agent.", id="other-surface"),
        pytest.param(_LOCK, 'kind = "limit"', "lacks id, kind or text", id="no-id"),
        pytest.param("agent.quote.field.tier", "agent.quote.field.teir", "does not mention 'teir'", id="token"),
        pytest.param("agent.quote.field.tier", "agent.quote.field.side", "is used 2 times", id="same-id"),
        pytest.param("up to 10 USD has tier", "up to 10 USD.\\nhas tier", "not one sentence", id="two-lines"),
        pytest.param('source = "decision"', "line = 1", 'a decision has source = "decision"', id="decision-with-line"),
    ],
)
def test_load_refuses_damaged_data(folder: Path, good: str, bad: str, complaint: str) -> None:
    path = folder / "agent.toml"
    text = path.read_text()
    assert good in text
    path.write_text(text.replace(good, bad, 1))
    with pytest.raises(ManifestError, match=re.escape(complaint)):
        load(folder)


def test_load_refuses_an_unknown_finished_surface(folder: Path) -> None:
    (folder / "finished.toml").write_text('surfaces = ["agents"]\n')
    with pytest.raises(ManifestError, match="unknown surfaces: \\['agents'\\]"):
        load(folder)


def test_expand_takes_ids_and_wildcards_over_fields_only() -> None:
    assert manifest().expand("agent.quote.limit.lock") == ("agent.quote.limit.lock",)
    odds = manifest().expand("agent.quote.field.postTradeOdds.*")
    assert odds == ("agent.quote.field.postTradeOdds.yesPriceCents", "agent.quote.field.postTradeOdds.noPriceCents")
    for wrong in ("agent.quote.limit.locks", "agent.quote.error.*", "agent.*", "agent.quote.field.nothing.*"):
        with pytest.raises(LookupError):
            manifest().expand(wrong)
