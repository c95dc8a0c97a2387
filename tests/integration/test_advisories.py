"""`vpm advisories` against a server that answers as an OSV database documents it."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from scripts._vpm import advisories, sbom

OLD, FINE, BUSY = "pkg:pypi/old@1.0", "pkg:npm/%40fine/one@2.0.0", "pkg:pypi/busy@3.1"
KNOWN = {OLD: ["GHSA-1", "GHSA-withdrawn"], BUSY: [f"GHSA-b{n}" for n in range(5)]}
PAGE = 2
DETAILS: dict[str, dict[str, Any]] = {
    "GHSA-1": {
        "summary": "Old lets anybody in",
        "affected": [
            {
                "package": {"purl": "pkg:pypi/old"},
                "ranges": [
                    {"type": "ECOSYSTEM", "events": [{"introduced": "0"}, {"fixed": "1.2"}]},
                    {"type": "GIT", "events": [{"introduced": "0"}, {"fixed": "c0ffee"}]},
                ],
            },
            {
                "package": {"purl": "pkg:pypi/other"},
                "ranges": [{"type": "ECOSYSTEM", "events": [{"fixed": "9.9"}]}],
            },
        ],
    },
    "GHSA-withdrawn": {"summary": "A mistake", "withdrawn": "2026-01-01T00:00:00Z"},
}


class Database(BaseHTTPRequestHandler):
    asked: list[int] = []  # noqa: RUF012 (one server a test)
    short = False

    def do_POST(self) -> None:
        queries = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["queries"]
        self.asked.append(len(queries))
        results: list[dict[str, Any]] = []
        for query in queries:
            known, at = KNOWN.get(query["package"]["purl"], []), int(query.get("page_token", 0))
            result: dict[str, Any] = {}
            if known[at : at + PAGE]:
                result["vulns"] = [{"id": each, "modified": "2026-01-01T00:00:00Z"} for each in known[at : at + PAGE]]
            if at + PAGE < len(known):
                result["next_page_token"] = str(at + PAGE)
            results.append(result)
        self._say({"results": results[1:] if self.short else results})

    def do_GET(self) -> None:
        self._say({"id": self.path.rpartition("/")[2], **DETAILS.get(self.path.rpartition("/")[2], {})})

    def _say(self, body: object) -> None:
        told = json.dumps(body).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(told)))
        self.end_headers()
        self.wfile.write(told)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def database(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.setattr(Database, "asked", [])
    server = ThreadingHTTPServer(("127.0.0.1", 0), Database)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def test_what_is_known_is_told_with_its_remedy(database: str) -> None:
    found = advisories.advisories([OLD, FINE], database)
    assert [each.sentence() for each in found] == [f"{OLD}: GHSA-1 Old lets anybody in (fixed in 1.2)"]


def test_every_page_and_every_batch_is_read(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(advisories, "BATCH", 2)
    found = advisories.advisories([FINE, BUSY, OLD], database)
    assert [each.id for each in found] == [*KNOWN[BUSY], "GHSA-1"]
    assert Database.asked == [2, 1, 1, 1]


def test_an_answer_that_lacks_a_package_is_none(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Database, "short", True)
    with pytest.raises(advisories.Unreachable, match="did not answer for each package"):
        advisories.advisories([OLD, FINE], database)


def test_the_command_asks_about_everything_that_is_locked(database: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert advisories.main(["--database", database]) == 0
    locked = len(sbom.document()["components"])
    assert capsys.readouterr().out == f"{locked} packages, 0 advisories\n"
    assert sum(Database.asked) == locked


def test_a_database_that_is_away_says_nothing_either_way(capsys: pytest.CaptureFixture[str]) -> None:
    assert advisories.main(["--database", "http://127.0.0.1:1"]) == advisories.CANNOT_ASK
    assert "Nothing is known either way" in capsys.readouterr().err
