"""A unit test that starts a process or opens a socket is told where its place is: tests/support/nothing_started.py."""

from __future__ import annotations

import asyncio
import socket
import subprocess
import sys
from urllib.request import urlopen

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer


def test_no_process_is_started() -> None:
    with pytest.raises(AssertionError, match="starts no process"):
        subprocess.run([sys.executable, "-c", ""], check=True)


async def test_no_process_is_started_by_a_loop() -> None:
    with pytest.raises(AssertionError, match="starts no process"):
        await asyncio.create_subprocess_exec(sys.executable, "-c", "")


def test_no_socket_listens() -> None:
    with pytest.raises(AssertionError, match="neither listens"), socket.create_server(("127.0.0.1", 0)):
        pass


async def test_no_server_of_a_loop_listens() -> None:
    with pytest.raises(AssertionError, match="neither listens"):
        await TestServer(web.Application()).start_server()


def test_nobody_is_connected_to() -> None:
    with pytest.raises(AssertionError, match="nor connects"):
        urlopen("http://127.0.0.1:1/")


async def test_nobody_is_connected_to_by_a_loop() -> None:
    with pytest.raises(AssertionError, match="nor connects"):
        await asyncio.open_connection("127.0.0.1", 1)
