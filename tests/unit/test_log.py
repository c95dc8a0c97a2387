"""What reaches a log line, and what never does."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest

from core import log as vpm_log
from core.log import configure, get_logger, redact, redact_url, register_secret, request_context

KEY = "0x" + "5e" * 32


@pytest.fixture
def written() -> Iterator[io.StringIO]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    stream = io.StringIO()
    configure("DEBUG", "json", stream)
    yield stream
    root.handlers[:] = handlers
    root.setLevel(level)


def _lines(stream: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_a_line_has_an_action_a_sentence_and_fields(written: io.StringIO) -> None:
    get_logger("indexer").info("took a page", action="indexer.page", chain_id=8453, blocks=50, big=2**200)
    (line,) = _lines(written)
    assert line.pop("at").endswith("+00:00")
    named = {"level": "info", "logger": "indexer", "action": "indexer.page", "message": "took a page"}
    assert line == named | {"chain_id": 8453, "blocks": 50, "big": str(2**200)}


def test_fields_never_replace_the_frame_of_a_line(written: io.StringIO) -> None:
    get_logger("x").info("m", action="a", level="mine")
    (line,) = _lines(written)
    assert line["level"] == "info"
    assert line["level_"] == "mine"


def test_request_ids_follow_the_context(written: io.StringIO) -> None:
    log = get_logger("api")
    with request_context("abc") as given:
        log.info("in", action="a")
        assert given == "abc"
        with request_context() as inner:
            assert inner != "abc"
    log.info("out", action="a")
    first, second = _lines(written)
    assert first["requestId"] == "abc"
    assert "requestId" not in second


@pytest.mark.parametrize(
    "name", ["password", "private_key", "cron_secret", "x-payment", "Authorization", "signature", "keystore_password"]
)
def test_secret_named_fields_are_dropped(name: str) -> None:
    assert redact("visible", name) == "[redacted]"
    assert redact({"deep": {name: "visible"}}) == {"deep": {name: "[redacted]"}}


@pytest.mark.parametrize("name", ["token_symbol", "key", "market_key", "nonce", "signer", "secretary"])
def test_ordinary_fields_are_kept(name: str) -> None:
    assert redact("visible", name) == "visible"


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("https://node.example/v2/abcDEF0123456789abcDEF01", "https://node.example/v2/[redacted]"),
        ("https://user:pass@node.example:8545/rpc", "https://[redacted]@node.example:8545/rpc"),
        ("postgresql://vpm:pw@db:5432/vpm?sslmode=require", "postgresql://[redacted]@db:5432/vpm?[redacted]"),
        ("postgresql://vpm:pw@one:5432,two/vpm", "postgresql://[redacted]@one:5432,two/vpm"),
        ("postgresql://vpm:pw@one:5432,two:x/vpm", "[redacted]"),
        ("https://node.example/?apikey=1", "https://node.example/?[redacted]"),
        ("http://127.0.0.1:8545", "http://127.0.0.1:8545"),
        ("http://[::1]:8545/x", "http://[::1]:8545/x"),
        ("https://h/api/getting-started-with-markets", "https://h/api/getting-started-with-markets"),
        ("http://h:99999/x", "[redacted]"),
    ],
)
def test_urls_keep_only_what_names_the_host(url: str, shown: str) -> None:
    assert redact_url(url) == shown
    assert redact(f"asked {url} now") == f"asked {shown} now"


def test_a_registered_secret_never_appears(written: io.StringIO) -> None:
    register_secret(KEY)
    log = get_logger("relayer")
    log.info(f"signing with {KEY}", action="a", note=KEY[2:], nested=[{"x": KEY}], raw=bytes.fromhex(KEY[2:]))
    try:
        raise RuntimeError(f"bad key {KEY}")
    except RuntimeError as error:
        log.error("failed", action="b", exc=error)
    logging.getLogger("some.library").warning("key=%s", KEY)
    assert KEY[2:] not in written.getvalue()
    assert len(_lines(written)) == 3
    assert "RuntimeError" in _lines(written)[1]["traceback"]


def test_a_secret_within_another_leaves_nothing_of_it() -> None:
    for number in range(20):  # in any order
        register_secret(f"inner-{number}")
        register_secret(f"a-long-inner-{number}-word")
    for number in range(20):
        assert redact(f"it was a-long-inner-{number}-word") == "it was [redacted]"


def test_a_short_value_is_not_registered() -> None:
    register_secret("ab")
    assert redact("about") == "about"


def test_a_url_registers_its_password() -> None:
    register_secret("postgresql://u:swordfish@h/db")
    assert redact("password was swordfish") == "password was [redacted]"


def test_everything_can_be_logged(written: io.StringIO) -> None:
    get_logger("x").info("", action="a", o=object(), s={1, 2}, b=b"\x01", n=None, f=1.5, t=(1, "a"), neg=-(2**80))
    (line,) = _lines(written)
    assert line["b"] == "0x01"
    assert line["t"] == [1, "a"]
    assert "message" not in line


def test_the_console_form_is_one_readable_line() -> None:
    record = logging.LogRecord("x", logging.WARNING, "", 0, "the node is slow", None, None)
    record.action = "rpc.slow"
    record.fields = {"seconds": 3, "signature": "0xabc"}
    text = vpm_log.ConsoleFormatter().format(record)
    assert text.splitlines() == [text]
    assert all(part in text for part in ("warning", "rpc.slow", "the node is slow", "seconds=3"))
    assert "0xabc" not in text
