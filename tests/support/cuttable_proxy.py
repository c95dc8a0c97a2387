"""A TCP proxy that can be cut, to take a database or a node away from running processes."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field

_CHUNK = 64 * 1024


@dataclass
class Cut:
    """A line to the target that listens on `port`. `cut` breaks it and `mend` lets new connections through again."""

    target: tuple[str, int]
    port: int = 0
    _listener: socket.socket | None = None
    _open: set[socket.socket] = field(default_factory=set)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def mend(self) -> None:
        listener = socket.create_server(("127.0.0.1", self.port), backlog=64, reuse_port=False)
        self.port = listener.getsockname()[1]
        self._listener = listener
        threading.Thread(target=self._accept, args=(listener,), daemon=True).start()

    def cut(self) -> None:
        listener, self._listener = self._listener, None
        if listener is not None:
            with contextlib.suppress(OSError):
                listener.shutdown(socket.SHUT_RDWR)
            listener.close()
        with self._lock:
            broken, self._open = self._open, set()
        for each in broken:
            _close(each)

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                inner, _ = listener.accept()
            except OSError:
                return
            try:
                outer = socket.create_connection(self.target, timeout=5)
            except OSError:
                inner.close()
                continue
            outer.settimeout(None)
            with self._lock:
                if self._listener is not listener:
                    _close(inner)
                    _close(outer)
                    return
                self._open |= {inner, outer}
            for source, sink in ((inner, outer), (outer, inner)):
                threading.Thread(target=self._pump, args=(source, sink), daemon=True).start()

    def _pump(self, source: socket.socket, sink: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while chunk := source.recv(_CHUNK):
                sink.sendall(chunk)
        for each in (source, sink):
            _close(each)
            with self._lock:
                self._open.discard(each)


@contextlib.contextmanager
def cuttable(host: str, port: int) -> Iterator[Cut]:
    proxy = Cut((host, port))
    proxy.mend()
    try:
        yield proxy
    finally:
        proxy.cut()


def _close(each: socket.socket) -> None:
    with contextlib.suppress(OSError):
        each.shutdown(socket.SHUT_RDWR)
    each.close()
