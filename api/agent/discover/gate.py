"""The silence gate: checks whether a social post claims anything that a market could settle. Fixed rules; pure.

Its reasons, in order: `scam` (phrases, deceptive links), `greeting` (only greetings and small talk), `settled_fact`
(about the past, with nothing still open), `no_claim` (no cashtag, question, forecast or price level).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from enum import StrEnum
from typing import Final

from api.agent.discover.words import LEXICON, LINK, folded, scanned, without_links


class Silence(StrEnum):
    """A reason to answer a post with silence."""

    SCAM = "scam"
    GREETING = "greeting"
    SETTLED_FACT = "settled_fact"
    NO_CLAIM = "no_claim"


_QUESTION: Final = re.compile(r"[?\u037e\u061f\u00bf]")
_LEVEL: Final = re.compile(r"\$\s?\d|\d\s?%|\d\s?(?:k|m|b|x|bn|million|billion|млн|млрд)(?!\w)|\d\s?[万萬亿億]")
_HOST: Final = re.compile(r"(?:https?://)?(?:www\.)?([^/\s:?#]+)")
_NUMERIC_HOST: Final = re.compile(r"\d+(?:\.\d+){3}")
_WORDS_BETWEEN: Final = r"(?:\s+\S+){1,4}?\s+"
_NO_BOUNDARIES: Final = re.compile(r"[\u3040-\u30ff\u3400-\u9fff]")
_NOT_WORD: Final = re.compile(r"[\W_]+")
_EDGE: Final = re.compile(r"^[\W_]+|[\W_]+$")


def silence(post: str) -> Silence | None:
    """Return why a post is no reason to bet, or None if it may be one."""
    text = " ".join(folded(post).split())
    if _SCAM.search(text) is not None or any(_baits(link) for link in LINK.findall(text)):
        return Silence.SCAM
    said = without_links(text)
    if _is_greeting(said):
        return Silence.GREETING
    forward = _FORWARD.search(said) is not None or _QUESTION.search(said) is not None
    if not forward and _SETTLED.search(said) is not None:
        return Silence.SETTLED_FACT
    claims = forward or bool(scanned(said).cashtags) or _DIRECTION.search(said) is not None
    return None if claims or _LEVEL.search(said) is not None else Silence.NO_CLAIM


def _baits(link: str) -> bool:
    """Return whether a link hides its target or promises a gift."""
    parsed = _HOST.match(link)
    host = "" if parsed is None else parsed[1]
    if host in _HOSTS or host.startswith("xn--") or ".xn--" in host or _NUMERIC_HOST.fullmatch(host):
        return True
    return any(bait in link for bait in _LINK_PARTS) or not _LINK_WORDS.isdisjoint(_NOT_WORD.split(link))


def _is_greeting(said: str) -> bool:
    rest, greetings = _GREETING.subn(" ", said)
    if greetings == 0:
        return False
    left = (_EDGE.sub("", word) for word in rest.split() if not word.startswith("$"))
    return all(word in _FILLERS for word in left if word)


def _any_of(phrases: Iterable[str]) -> re.Pattern[str]:
    """Return one pattern for all phrases, the longest first, so that it wins over its own beginnings."""
    forms = sorted({" ".join(folded(phrase).split()) for phrase in phrases}, key=lambda each: (-len(each), each))
    anywhere = [_pattern(form) for form in forms if _NO_BOUNDARIES.search(form)]
    bounded = [_pattern(form) for form in forms if not _NO_BOUNDARIES.search(form)]
    return re.compile("|".join([rf"(?<!\w)(?:{'|'.join(bounded)})(?!\w)", *anywhere]))


def _pattern(phrase: str) -> str:
    return _WORDS_BETWEEN.join(re.escape(part) for part in phrase.split(" _ "))


_SCAM: Final = _any_of(LEXICON["scam_phrases"])
_GREETING: Final = _any_of(LEXICON["greetings"])
_SETTLED: Final = _any_of(LEXICON["settled"])
_FORWARD: Final = _any_of(LEXICON["forward"])
_DIRECTION: Final = _any_of(LEXICON["direction"])
_FILLERS: Final = frozenset(_EDGE.sub("", folded(word).strip()) for word in LEXICON["greeting_fillers"])
_HOSTS: Final = frozenset(LEXICON["scam_hosts"])
_LINK_PARTS: Final = tuple(LEXICON["scam_link_parts"])
_LINK_WORDS: Final = frozenset(LEXICON["scam_link_words"])
