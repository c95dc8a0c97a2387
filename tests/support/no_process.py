"""A unit test starts nothing, nor does a study."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from typing import Any, NoReturn

import pytest


@pytest.fixture(autouse=True, scope="module")
def no_process_is_started() -> Iterator[None]:
    def refused(_self: object, arguments: Any, *_more: object) -> NoReturn:
        raise AssertionError(f"a unit test starts no process: {arguments}. Its place is tests/integration.")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(subprocess.Popen, "_execute_child", refused)
        yield
