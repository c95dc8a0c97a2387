"""Python's recursion limit holds in each of our processes, even if a library we import changes it."""

from __future__ import annotations

import json
import sys

import pytest

import core.signatures  # which imports eth-account


def test_a_document_of_brackets_is_refused_and_does_not_end_the_process() -> None:
    assert core.signatures
    assert sys.getrecursionlimit() <= 1_000, "reading it would overflow the stack"
    with pytest.raises(RecursionError):
        json.loads("[" * 100_000)
