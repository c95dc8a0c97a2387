"""From a rule to a pager: a real Prometheus with our rules, a real Alertmanager with our routes, and a receiver on this
machine that records what a pager would get. Both are Debian packages (prometheus, prometheus-alertmanager); CI installs
them."""

from __future__ import annotations

import functools
import json
import os
import shutil
import subprocess
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import yaml

from core.paths import REPOSITORY
from scripts._local.ports import free_port
from tests.waiting import PATIENCE, wait

FILES = REPOSITORY / "deployments" / "prometheus"
PROGRAMS = ("prometheus", "prometheus-alertmanager")
MISSING = [name for name in PROGRAMS if shutil.which(name) is None]
pytestmark = pytest.mark.skipif(
    bool(MISSING) and not os.environ.get("CI"), reason=f"needs Debian's {' and '.join(MISSING)}"
)

PAGER_KEY = "the-pager's-routing-key"


class Receiver:
    """An HTTP server that keeps every POST, and serves GET /metrics while `up` is set."""

    def __init__(self) -> None:
        self.posts: list[tuple[str, dict[str, Any]]] = []
        self.up = threading.Event()
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                receiver.posts.append((self.path, json.loads(body)))
                self._answer(202, b'{"status": "success", "message": "taken", "dedup_key": "k"}')

            def do_GET(self) -> None:
                self._answer(200 if receiver.up.is_set() else 503, b"")

            def _answer(self, status: int, body: bytes) -> None:
                self.send_response(status)
                self.send_header("Content-Type", "application/json" if body else "text/plain")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.port = self.server.server_address[1]

    def at(self, path: str) -> list[dict[str, Any]]:
        return [body for to, body in self.posts if to == path]


@contextmanager
def _receiver() -> Iterator[Receiver]:
    receiver = Receiver()
    thread = threading.Thread(target=receiver.server.serve_forever, daemon=True)
    thread.start()
    try:
        yield receiver
    finally:
        receiver.server.shutdown()
        receiver.server.server_close()
        thread.join()


@contextmanager
def _running(log: Path, *argv: str) -> Iterator[None]:
    with log.open("wb") as out:
        process = subprocess.Popen(argv, stdout=out, stderr=subprocess.STDOUT)
    try:
        yield
        assert process.poll() is None, log.read_text()
    finally:
        process.terminate()
        process.wait(timeout=PATIENCE)


def _quick_rules(folder: Path) -> None:
    """Return our rules, unchanged except for shorter waits."""
    rules = yaml.safe_load((FILES / "alerts.yml").read_text())
    for group in rules["groups"]:
        for rule in group["rules"]:
            if "for" in rule:
                rule["for"] = "1s"
    (folder / "alerts.yml").write_text(yaml.safe_dump(rules))


def _prometheus(folder: Path, receiver: Receiver, alertmanager: int) -> Path:
    """Return our scrape configuration, with every daemon at the receiver."""
    config = yaml.safe_load((FILES / "prometheus.yml").read_text())
    config["global"] = {"scrape_interval": "1s", "evaluation_interval": "1s"}
    (scrape,) = config["scrape_configs"]
    for target in scrape["static_configs"]:
        # Only the relayer is scraped where something may be down; the others stay up.
        own = receiver.port if target["labels"]["daemon"] == "relayer" else alertmanager
        target["targets"] = [f"127.0.0.1:{own}"]
    (manager,) = config["alerting"]["alertmanagers"]
    assert manager["static_configs"][0]["targets"] == ["alertmanager:9093"]
    manager["static_configs"][0]["targets"] = [f"127.0.0.1:{alertmanager}"]
    path = folder / "prometheus.yml"
    path.write_text(yaml.safe_dump(config))
    return path


def _alertmanager(folder: Path, receiver: Receiver) -> Path:
    """Return our routes, with addresses, secret files and waits of this machine."""
    text = (FILES / "alertmanager.yml").read_text()
    secrets = folder / "secrets"
    secrets.mkdir()
    (secrets / "pager_key").write_text(PAGER_KEY)
    (secrets / "tickets_url").write_text(f"http://127.0.0.1:{receiver.port}/tickets")
    assert text.count("/etc/alertmanager/secrets/") == 2
    config = yaml.safe_load(text.replace("/etc/alertmanager/secrets", str(secrets)))
    config["global"]["pagerduty_url"] = f"http://127.0.0.1:{receiver.port}/pager"
    for route in (config["route"], *config["route"]["routes"]):
        route["group_wait"], route["group_interval"] = "0s", "1s"
    path = folder / "alertmanager.yml"
    path.write_text(yaml.safe_dump(config))
    return path


@contextmanager
def _manager(folder: Path, receiver: Receiver) -> Iterator[int]:
    """Run an Alertmanager with our routes; return its port."""
    port = free_port()
    with _running(
        folder / "alertmanager.log",
        "prometheus-alertmanager",
        f"--config.file={_alertmanager(folder, receiver)}",
        f"--storage.path={folder / 'alertmanager'}",
        f"--web.listen-address=127.0.0.1:{port}",
        "--cluster.listen-address=",
    ):
        yield port


@pytest.mark.thorough
def test_a_daemon_that_is_down_pages_and_resolves_when_it_is_back(tmp_path: Path) -> None:
    assert not MISSING, f"{MISSING} must be installed in CI"
    with _receiver() as receiver, ExitStack() as stack:
        manager, prometheus = stack.enter_context(_manager(tmp_path, receiver)), free_port()
        _quick_rules(tmp_path)
        stack.enter_context(
            _running(
                tmp_path / "prometheus.log",
                "prometheus",
                f"--config.file={_prometheus(tmp_path, receiver, manager)}",
                f"--storage.tsdb.path={tmp_path / 'prometheus'}",
                f"--web.listen-address=127.0.0.1:{prometheus}",
            )
        )

        def about(path: str, **fields: str) -> list[dict[str, Any]]:
            return [
                body
                for body in receiver.at(path)
                if "relayer" in body["payload"]["summary"] and fields.items() <= body.items()
            ]

        wait(lambda: bool(about("/pager", event_action="trigger")), "the pager to be called")
        page = about("/pager", event_action="trigger")[0]
        assert page["routing_key"] == PAGER_KEY
        assert page["payload"]["severity"] == "critical"
        assert "does not respond" in page["payload"]["summary"]
        assert page["payload"]["custom_details"]["runbook"] == "docs/operate.md#a-daemon-is-down"

        receiver.up.set()
        wait(lambda: bool(about("/pager", event_action="resolve")), "the pager to get the resolve")
        assert about("/pager", event_action="resolve")[0]["dedup_key"] == page["dedup_key"]
        assert not receiver.at("/tickets"), "what pages is not filed as a ticket as well"


def _rule(severity: str) -> dict[str, Any]:
    groups = yaml.safe_load((FILES / "alerts.yml").read_text())["groups"]
    return next(rule for group in groups for rule in group["rules"] if rule["labels"]["severity"] == severity)


def _raise(manager: int, rule: dict[str, Any], summary: str, *more: str) -> bool:
    """Send Alertmanager an alarm of this rule, identified by its summary. Return whether it was accepted."""
    words = [f"alertname={rule['alert']}", f"severity={rule['labels']['severity']}", f"instance={summary}"]
    notes = [f"--annotation={name}={value}" for name, value in {**rule["annotations"], "summary": summary}.items()]
    argv = ["amtool", f"--alertmanager.url=http://127.0.0.1:{manager}", "alert", "add", *more, *words, *notes]
    return subprocess.run(argv, capture_output=True, check=False).returncode == 0


def test_alarms_of_one_name_are_sent_together_each_with_its_own_text(tmp_path: Path) -> None:
    assert not MISSING, f"{MISSING} must be installed in CI"
    with _receiver() as receiver, _manager(tmp_path, receiver) as manager:
        rules = (_rule("page"), _rule("ticket"))
        for rule in rules:
            for summary in ("the first is away", "the second is away"):
                wait(functools.partial(_raise, manager, rule, summary), "Alertmanager to take an alert")

        def sent(words: str) -> bool:
            pages = [str(body["payload"]["summary"]) for body in receiver.at("/pager")]
            tickets = [str(body["attachments"][0]["text"]) for body in receiver.at("/tickets")]
            assert all("is away" in text for text in (*pages, *tickets)), "each message says what it is about"
            assert all(text.startswith(f"{rules[0]['alert']}: ") for text in pages), "only paging alarms page"
            assert all("docs/operate.md#" in text for text in tickets)
            return any(f": {words}" in text for text in pages) and any(text.startswith(words) for text in tickets)

        wait(lambda: sent("the first is away; the second is away"), "one message with both")
        for rule in rules:
            assert _raise(manager, rule, "the first is away", "--end=2020-01-01T00:00:00Z")
            assert _raise(manager, rule, "a third is away")
        wait(lambda: sent("a third is away; the second is away"), "one message with those still firing")
