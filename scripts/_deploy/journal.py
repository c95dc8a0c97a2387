"""The journal of an unfinished deployment: its signed transactions, in a file next to the deployment file."""

from __future__ import annotations

import fcntl
import json
import os
from pathlib import Path
from typing import Any, BinaryIO

from core.errors import DeploymentError
from core.hexadecimal import bytes_of, hex_of


class Journal:
    """The journal of one deployment: a header, and each transaction, written before the transaction is sent. The file
    is deleted once everything is recorded. An interrupted deployment continues from its journal."""

    def __init__(self, target: Path) -> None:
        self.path = target.with_name(f"{target.name}.unfinished")
        self._file: BinaryIO | None = None
        self._sent: dict[int, dict[str, bytes]] = {}

    def read_header(self) -> dict[str, Any] | None:
        """Return the header of an interrupted deployment: chain, deployer, first nonce, Safe, and a digest of its
        transactions. Return None if no deployment was interrupted."""
        if not self.path.exists():
            return None
        try:
            lines = [json.loads(line) for line in _complete_lines(self.path.read_bytes())]
        except (OSError, ValueError) as error:
            raise DeploymentError(f"{self.path} cannot be read: {error}.") from None
        self._sent = {}
        for line in lines[1:]:
            self._sent.setdefault(line["nonce"], {})[line["tx"]] = bytes_of(line["raw"])
        return lines[0] if lines else None

    def begin(self, deployment: dict[str, Any]) -> None:
        """Open the file and lock it for this process, before anything is sent. For an interrupted deployment, check
        that the header is the same."""
        try:
            self._file = self.path.open("ab+")
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise DeploymentError(
                f"Another process is deploying with {self.path}.", hint="Wait until it has finished."
            ) from None
        except OSError as error:
            raise DeploymentError(f"{self.path} cannot be written: {error.strerror}.") from None
        # A transaction is only sent after its line is complete, so an incomplete last line can be dropped.
        self._file.truncate(sum(map(len, _complete_lines(self.path.read_bytes()))))
        if (before := self.read_header()) is None:
            self._append(deployment)
        elif before != deployment:
            raise DeploymentError(
                f"{self.path} belongs to another deployment, which was interrupted.",
                hint="Use the options of that deployment, or move the file away and deploy again.",
            )

    def sent(self, nonce: int) -> dict[str, bytes]:
        """Return the transactions that were signed with this nonce, by hash, the latest last."""
        return dict(self._sent.get(nonce, {}))

    def store(self, nonce: int, what: str, digest: str, raw: bytes) -> None:
        self._append({"nonce": nonce, "what": what, "tx": digest, "raw": hex_of(raw)})

    def end(self) -> None:
        """Delete the file. Everything must be recorded by then."""
        self.path.unlink()

    def close(self) -> None:
        if self._file is not None:
            self._file.close()

    def _append(self, what: dict[str, Any]) -> None:
        assert self._file is not None
        self._file.write(json.dumps(what).encode() + b"\n")
        self._file.flush()
        os.fsync(self._file.fileno())


def _complete_lines(content: bytes) -> list[bytes]:
    return [line for line in content.splitlines(keepends=True) if line.endswith(b"\n")]
