"""Keeps unit tests and studies from starting processes and opening connections."""

from __future__ import annotations

import socket
import subprocess
from collections.abc import Iterator
from typing import Any, NoReturn

import pytest


@pytest.fixture(autouse=True, scope="module")
def nothing_is_started() -> Iterator[None]:
    def no_process(_self: object, arguments: Any, *_more: object) -> NoReturn:
        raise AssertionError(f"a unit test starts no process: {arguments}. Its place is tests/integration.")

    def no_socket(self: socket.socket, *_where: object) -> NoReturn:
        self.close()
        raise AssertionError("a unit test neither listens nor connects. Its place is tests/integration.")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(subprocess.Popen, "_execute_child", no_process)
        for name in ("listen", "connect", "connect_ex"):
            patch.setattr(socket.socket, name, no_socket)
        yield
