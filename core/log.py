"""Structured logging: one JSON object (or one readable line) per event, with an `action` key and secrets redacted.

    log = get_logger(__name__)
    log.info("using the next URL", action="rpc.failed_over", chain_id=8453, url=url)

`action` never changes, so that it can be searched for; fields carry the values. Three guards keep secrets out: fields
with secret names are not written, URLs lose credentials and keys, and every value passed to `register_secret` (as all
SecretStr settings are) is replaced wherever it appears, tracebacks included.
"""

from __future__ import annotations

import contextlib
import logging
import re
import sys
import uuid
from collections.abc import Iterator
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import Any, Literal
from urllib.parse import urlsplit

import orjson

from core.hexadecimal import hex_of

REDACTED = "[redacted]"

_request_id: ContextVar[str | None] = ContextVar("request_id", default=None)
# The longest first: replacing a secret that is part of another would leave the rest readable.
_registered: list[str] = []

_SECRET_NAME = re.compile(
    r"(^|_)(password|passwd|secret|private_key|lane_key|api_key|apikey|mnemonic|authorization|signature|cookie"
    r"|x_payment|raw_transaction)s?($|_)"
)
_URL = re.compile(r"\b(?:https?|wss?|postgres(?:ql)?(?:\+\w+)?|rediss?)://[^\s\"'<>\\]+", re.IGNORECASE)
# A path segment that looks like a node provider's API key rather than a name.
_KEY_LIKE = re.compile(r"(?=[^/]*\d)[A-Za-z0-9_-]{20,}")
_MIN_SECRET_LENGTH = 6  # shorter values would redact ordinary words


class Logger:
    """A named logger. Each call takes a sentence (which may be empty), an action and fields."""

    def __init__(self, logger: logging.Logger) -> None:
        self._logger = logger

    def debug(self, message: str, /, *, action: str, **fields: Any) -> None:
        self._write(logging.DEBUG, action, message, fields)

    def info(self, message: str, /, *, action: str, **fields: Any) -> None:
        self._write(logging.INFO, action, message, fields)

    def warning(self, message: str, /, *, action: str, **fields: Any) -> None:
        self._write(logging.WARNING, action, message, fields)

    def error(self, message: str, /, *, action: str, exc: BaseException | None = None, **fields: Any) -> None:
        """Log an error. Pass `exc` only for unexpected errors, to add the traceback."""
        self._write(logging.ERROR, action, message, fields, exc)

    def _write(
        self, level: int, action: str, message: str, fields: dict[str, Any], exc: BaseException | None = None
    ) -> None:
        if self._logger.isEnabledFor(level):
            self._logger.log(level, message, extra={"action": action, "fields": fields}, exc_info=exc)


def get_logger(name: str) -> Logger:
    return Logger(logging.getLogger(name))


def configure(level: str = "INFO", style: Literal["json", "console"] = "json", stream: Any = None) -> None:
    """Send the log output of the process and its libraries to stderr through one redacting formatter."""
    handler = logging.StreamHandler(stream if stream is not None else sys.stderr)
    handler.setFormatter(JsonFormatter() if style == "json" else ConsoleFormatter())
    root = logging.getLogger()
    for old in root.handlers[:]:
        root.removeHandler(old)
    root.addHandler(handler)
    root.setLevel(level)
    for noisy in ("aiohttp.access", "alembic.runtime"):
        logging.getLogger(noisy).setLevel(max(logging.WARNING, logging.getLevelName(level)))


def register_secret(value: str) -> None:
    """Redact this value in all log output from now on."""
    forms = {value, value.removeprefix("0x")} if value != "memory://" else set()
    if "://" in value:
        forms.add(urlsplit(value).password or "")
    long_forms = {form for form in forms if len(form) >= _MIN_SECRET_LENGTH}
    _registered[:] = sorted({*_registered, *long_forms}, key=len, reverse=True)


def redact_url(url: str) -> str:
    """Remove credentials, the query string, and path segments that look like keys from a URL."""
    try:
        parts = urlsplit(url)
        login, _, hosts = parts.netloc.rpartition("@")
        shown = ",".join(_host_and_port(host) for host in hosts.split(","))
    except ValueError:
        return REDACTED
    user = f"{REDACTED}@" if login else ""
    path = "/".join(REDACTED if _KEY_LIKE.fullmatch(part) else part for part in parts.path.split("/"))
    return f"{parts.scheme}://{user}{shown}{path}{'?' + REDACTED if parts.query else ''}"


def _host_and_port(text: str) -> str:
    """Parse one host of a database URL. Raise ValueError if its port is not a number."""
    parts = urlsplit(f"//{text}")
    host = parts.hostname or ""
    return (f"[{host}]" if ":" in host else host) + (f":{parts.port}" if parts.port else "")


def redact_text(text: str) -> str:
    for secret in _registered:
        if secret in text:
            text = text.replace(secret, REDACTED)
    return _URL.sub(lambda match: redact_url(match.group()), text) if "://" in text else text


def redact(value: Any, name: str = "") -> Any:
    """Return a JSON-serializable copy of a value without secrets."""
    if name and _SECRET_NAME.search(name.lower().replace("-", "_")):
        return REDACTED
    if value is None or isinstance(value, bool | float):
        return value
    if isinstance(value, int):
        return value if -(2**63) <= value < 2**64 else str(value)
    if isinstance(value, bytes | bytearray | memoryview):
        return redact_text(hex_of(bytes(value)))
    if isinstance(value, dict):
        return {str(key): redact(item, str(key)) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [redact(item) for item in value]
    return redact_text(str(value))


@contextlib.contextmanager
def request_context(request_id: str | None = None) -> Iterator[str]:
    """Add this request id, or a new one, to all lines logged inside the block."""
    chosen = request_id or uuid.uuid4().hex
    token = _request_id.set(chosen)
    try:
        yield chosen
    finally:
        _request_id.reset(token)


class JsonFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        return orjson.dumps(self.line(record)).decode()

    def line(self, record: logging.LogRecord) -> dict[str, Any]:
        line: dict[str, Any] = {
            "at": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "action": getattr(record, "action", "log"),
        }
        message = record.getMessage()
        if message:
            line["message"] = redact_text(message)
        request_id = _request_id.get()
        if request_id is not None:
            line["requestId"] = request_id
        for name, value in getattr(record, "fields", {}).items():
            line[name if name not in line else f"{name}_"] = redact(value, name)
        if record.exc_info and record.exc_info[1] is not None:
            line["traceback"] = redact_text(self.formatException(record.exc_info))
        return line


class ConsoleFormatter(JsonFormatter):
    """A formatter of lines for people: time, level, action, message, then the fields as key=value."""

    def format(self, record: logging.LogRecord) -> str:
        line = self.line(record)
        at, level, action = line.pop("at"), line.pop("level"), line.pop("action")
        del line["logger"]
        message, traceback = line.pop("message", ""), line.pop("traceback", "")
        fields = " ".join(f"{name}={value}" for name, value in line.items())
        head = f"{at[11:23]} {level:<7} {action:<28} {message}".rstrip()
        return "\n".join(filter(None, (f"{head}  {fields}".rstrip(), traceback)))
