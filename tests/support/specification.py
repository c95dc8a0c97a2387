"""The shapes that docs/spec describes, read from its tables and sentences, and a check of responses against them. A
field without a type in the text may have any type but must be there; one with a type may be null only where the text
says so."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

from core.paths import REPOSITORY

DOCUMENTS = {"stock": "vpm-api.md", "agent": "agent-api.md", "cup": "cup-api.md"}

# Words of a description that read like fields and are none, and what is read in their place.
EXPLANATIONS = {
    "; the operator's own wallets are excluded from the distinct count and reported separately": "",
    ", more)": ")",
    "two entries; ": "",
    "(null, or ": "(null; ",
    "id required, plus ": "id, ",
    "; null when no directional market exists": "",
    "free-form key/value map": "",
}
# Names whose round brackets hold their fields; those of any other name explain it.
OPENED = {"safe", "refundDrill", "bettors", "usdg", "market", "position", "settlement", "attribution", "funding"}

_TYPE = re.compile(r"\b(?P<type>string|number|integer|boolean|object|array)(?P<many>s\b|\[\])?")
_ITEM = re.compile(r"(?:and )?`?(?P<name>[A-Za-z]\w*)(?P<many>\[[^\]]*\])?`?(?P<null>\|null)?(?P<rest>.*)", re.DOTALL)


@dataclass(frozen=True)
class Field:
    """A field of a response. `type` is empty where the text names none; `fields` are those of an object, or of each
    entry where there are `many`; `optional` fields may be left out."""

    type: str = ""
    null: bool = False
    many: bool = False
    optional: bool = False
    fields: dict[str, Field] = field(default_factory=dict)


Fields = dict[str, Field]


# ---------------------------------------------------------------- the documents


@cache
def document(name: str) -> str:
    return (REPOSITORY / "docs/spec" / DOCUMENTS[name]).read_text()


def sections(name: str, heading: str) -> dict[str, str]:
    (chapter,) = re.findall(rf"^## {re.escape(heading)}\n(.*?)(?=^## |\Z)", document(name), re.DOTALL | re.MULTILINE)
    return dict(re.findall(r"^### ([^\n]+)\n(.*?)(?=^### |\Z)", chapter, re.DOTALL | re.MULTILINE))


def resource(name: str, heading: str) -> str:
    (found,) = [
        text for title, text in sections(name, "Resources and their fields").items() if title.startswith(heading)
    ]
    return found


def body(name: str, endpoint: str) -> str:
    return str(re.findall(r"`\{([^`]*)\}`", sections(name, "Endpoints")[endpoint])[-1])


# ---------------------------------------------------------------- reading


def rows(text: str) -> list[list[str]]:
    lines = [line for line in text.splitlines() if line.startswith("|") and not re.fullmatch(r"[|\- ]+", line)]
    return [[cell.strip() for cell in re.split(r"(?:^|(?<= ))\|(?:(?= )|$)", line)[1:-1]] for line in lines]


def table(text: str) -> Fields:
    found: Fields = {}
    for names, kind, *notes in rows(text)[1:]:
        said = notes[0] if notes else ""
        if not (simple := re.match(r"(string|number|integer|boolean|object|array)(\|null)?(?:$|;)", kind)):
            said, array = re.subn("^array of ", "", kind)
            one = Field("array" if array else "object", many=bool(array), null="nullable" in kind)
        else:
            one = Field(simple[1], null=simple[2] is not None, many=simple[1] == "array")
        if one.type in ("object", "array") and not said.startswith(("as in", "object with", "(")):
            one = replace(one, fields=listed(said.removeprefix("items: ")))
        found |= {each.strip(): one for each in names.split(",")}
    return found


def listed(text: str) -> Fields:
    """Read fields from a sentence such as "`id` string, `pools[]` (key, size number), up and down (strings)"."""
    for words, instead in EXPLANATIONS.items():
        text = text.replace(words, instead)
    text, name, inside = ([*re.split(r"`(\w+)\[\]`(?: items)?: ", text, maxsplit=1), "", ""])[:3]
    found: Fields = {name: Field("array", many=True, fields=listed(inside))} if name else {}
    clauses = list(_split(text, ";"))
    for clause in clauses:
        waiting: list[str] = []
        items = [one for part in _split(clause, ",") for one in re.split(r" and (?=[a-z]+[A-Z]\w* \()", part)]
        for item in items:
            if (match := _ITEM.match(item.strip())) is None or match["name"] in ("null", "Numeric"):
                continue
            one, plural = _described(match)
            found[match["name"]] = one
            # "a, b, c as strings", and in a separate clause "a, b, c string|null", give all of them the type.
            if plural or (one.type and item is items[-1] and len(clauses) > 1 and len(waiting) == len(items) - 1):
                found |= {name: replace(found[name], type=one.type, null=one.null) for name in waiting}
            if one.type:
                waiting = []
            else:
                waiting.append(match["name"])
    return found


def _described(match: re.Match[str]) -> tuple[Field, bool]:
    """Read one item of a list, and whether the names before it have its type as well."""
    own, groups = _without_brackets(match["rest"])
    plural, one = False, Field(null=match["null"] is not None, many=match["many"] is not None)
    own = own.partition(". ")[0]
    if said := _TYPE.search(re.sub(r"`[^`]*`", "", own)):
        one, plural = replace(one, type=said["type"], many=one.many or said["many"] == "[]"), said["many"] == "s"
    elif own.strip().startswith("`"):
        one = replace(one, type="string")  # the values it can have
    one = replace(one, null=one.null or "null" in own)
    for bracket, inside in groups:
        typed = re.match(r"(each )?" + _TYPE.pattern, inside)
        opened = "," in inside and not typed and (one.many or match["name"] in OPENED)
        if bracket == "{" or opened or inside.startswith("{"):
            fields = listed(inside[1:].partition("}")[0] if inside.startswith("{") else inside)
            one = replace(one, fields=fields, type=one.type or "object", null=one.null or inside.startswith("null"))
        elif typed:
            one = replace(one, type=typed["type"])
            plural = typed["many"] == "s" or typed[1] is not None
        elif inside.startswith("`"):
            one = replace(one, type=one.type or "string")  # the values it can have
        if bracket == "(" and not one.fields:
            one = replace(one, null=one.null or bool(re.search(r"\bnull\b", inside)))
        one = replace(one, optional=one.optional or bool(re.search(r"optional|absent|present (?:when|on)", inside)))
    if one.many:
        one = replace(one, type="array" if one.type in ("", "object") else f"{one.type}[]")
    return one, plural


def _split(text: str, at: str) -> Iterator[str]:
    depth, start = 0, 0
    for position, letter in enumerate(text):
        depth += (letter in "({[") - (letter in ")}]")
        if letter == at and depth == 0:
            yield text[start:position]
            start = position + 1
    yield text[start:]


def _without_brackets(text: str) -> tuple[str, list[tuple[str, str]]]:
    own, groups, depth, start = "", [], 0, 0
    for position, letter in enumerate(text):
        if letter in "({":
            start, depth = (position if depth == 0 else start), depth + 1
        elif letter in ")}" and depth:
            depth -= 1
            if depth == 0:
                groups.append((text[start], text[start + 1 : position]))
        elif depth == 0:
            own += letter
    return own, groups


# ---------------------------------------------------------------- holding answers to it

_KINDS: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "number": (int, float),
    "integer": (int,),
    "boolean": (bool,),
    "object": (dict,),
    "array": (list,),
}


@dataclass
class Held:
    """The result of comparing responses. `seen` are the expected fields that had a value in one of them."""

    faults: set[str] = field(default_factory=set)
    expected: set[str] = field(default_factory=set)
    seen: set[str] = field(default_factory=set)

    def hold(self, fields: Fields, answer: Any, at: str) -> None:
        for name, one in fields.items():
            path = f"{at}.{name}"
            self.expected.add(path)
            if not isinstance(answer, dict) or name not in answer:
                if not one.optional:
                    self.faults.add(f"{path} is missing")
            elif answer[name] is None:
                if one.type and not one.null:
                    self.faults.add(f"{path} is null")
            else:
                self.seen.add(path)
                self._typed(one, answer[name], path)

    def _typed(self, one: Field, value: Any, path: str) -> None:
        kind = "array" if one.many else one.type
        if kind and (not isinstance(value, _KINDS[kind]) or (isinstance(value, bool) and kind != "boolean")):
            self.faults.add(f"{path} is no {kind}: {value!r:.80}")
        elif one.many:
            for each in value:
                if one.fields:
                    self.hold(one.fields, each, f"{path}[]")
                elif one.type.endswith("[]") and not isinstance(each, _KINDS[one.type[:-2]]):
                    self.faults.add(f"{path}[] is no {one.type[:-2]}: {each!r:.80}")
        elif one.fields:
            self.hold(one.fields, value, path)
