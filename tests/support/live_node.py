"""A node that looks like one of a live network: by its name, and because it has no keys and no powers over its
chain."""

from __future__ import annotations

import contextlib
import json
import threading
import urllib.request
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from scripts._local.ports import DIRECT

ONLY_LOCAL = (b'"anvil_', b'"evm_', b'"hardhat_', b'"eth_accounts"', b'"eth_sendTransaction"', b'"eth_sign')


@contextlib.contextmanager
def live_looking(node: str, on_send: Callable[[str], None] = lambda _moment: None) -> Iterator[str]:
    """Return the URL of a node that passes everything on. `on_send` is called before a raw transaction is passed on
    ("before") and before the response is returned ("after")."""

    class Passing(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            with contextlib.suppress(ConnectionError):
                self._pass_on()

        def _pass_on(self) -> None:
            asked = self.rfile.read(int(self.headers["Content-Length"]))
            sends = b"eth_sendRawTransaction" in asked
            if b"web3_clientVersion" in asked:
                body = json.dumps({"jsonrpc": "2.0", "id": json.loads(asked)["id"], "result": "nitro/v3.5"}).encode()
            elif any(method in asked for method in ONLY_LOCAL):
                missing = {"code": -32601, "message": "the method does not exist"}
                body = json.dumps({"jsonrpc": "2.0", "id": json.loads(asked)["id"], "error": missing}).encode()
            else:
                if sends:
                    on_send("before")
                passed = urllib.request.Request(node, asked, {"Content-Type": "application/json"})
                with DIRECT.open(passed, timeout=30) as answer:
                    body = answer.read()
                if sends:
                    on_send("after")
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Passing)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
