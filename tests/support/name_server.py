"""A local name server over UDP that answers with fixed addresses, or never."""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import struct
from collections.abc import AsyncIterator, Callable, Sequence

# The addresses of a name; None: no answer, ever. KeyError: there is no such name.
Zone = Callable[[str], Sequence[str] | None]

_NO_SUCH_NAME = 3
_TYPES = {1: 4, 28: 6}  # A and AAAA


class NameServer(asyncio.DatagramProtocol):
    """A server of one zone. `asked`: the queried names, in order, once for A and once for AAAA."""

    def __init__(self, zone: Zone) -> None:
        self._zone = zone
        self.asked: list[str] = []
        self.address = ""

    def connection_made(self, transport: asyncio.DatagramTransport) -> None:  # type: ignore[override]
        self._transport = transport
        host, port = transport.get_extra_info("sockname")
        self.address = f"{host}:{port}"

    def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
        name, end = _name_in(data, 12)
        (kind,) = struct.unpack_from(">H", data, end)
        self.asked.append(name)
        try:
            found = self._zone(name)
        except KeyError:
            self._transport.sendto(_answer(data, end + 4, _NO_SUCH_NAME, kind, ()), addr)
            return
        if found is not None:
            self._transport.sendto(_answer(data, end + 4, 0, kind, found), addr)


@contextlib.asynccontextmanager
async def name_server(zone: Zone) -> AsyncIterator[NameServer]:
    loop = asyncio.get_running_loop()
    transport, server = await loop.create_datagram_endpoint(lambda: NameServer(zone), ("127.0.0.1", 0))
    try:
        yield server
    finally:
        transport.close()


def _name_in(data: bytes, at: int) -> tuple[str, int]:
    labels = []
    while length := data[at]:
        labels.append(data[at + 1 : at + 1 + length].decode())
        at += 1 + length
    return ".".join(labels).lower(), at + 1


def _answer(question: bytes, end: int, code: int, kind: int, addresses: Sequence[str]) -> bytes:
    packed = [each.packed for each in map(ipaddress.ip_address, addresses) if each.version == _TYPES.get(kind)]
    head = question[:2] + struct.pack(">HHHHH", 0x8180 | code, 1, len(packed), 0, 0)
    # To the name in the question, of its kind, in the Internet, with no time to live.
    records = (b"\xc0\x0c" + struct.pack(">HHIH", kind, 1, 0, len(each)) + each for each in packed)
    return head + question[12:end] + b"".join(records)
