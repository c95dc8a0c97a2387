"""TCP inside one process: connections that have a delay, break, and die with the process at either end."""

from __future__ import annotations

import asyncio
import contextvars
import random
from collections.abc import Callable
from typing import Any

from aiohttp import ClientConnectorError
from aiohttp.connector import TCPConnector

from tests.simulator.loop import PROCESS, VirtualLoop

FIRST_PORT = 20_000


class _Socket:
    def __init__(self, address: tuple[str, int]) -> None:
        self._address = address

    def getsockname(self) -> tuple[str, int]:
        return self._address


class _End(asyncio.Transport):
    peer: _End

    def __init__(self, network: Network, protocol: asyncio.Protocol, extra: dict[str, Any]) -> None:
        super().__init__(extra)
        self._network = network
        self._protocol: Any = protocol
        self._context = contextvars.copy_context()
        self.process = PROCESS.get()
        self._closing = False
        self._lost = False
        self._arrives_at = 0.0
        self._paused: list[bytes] | None = None
        self.process.on_kill.append(self._reset)

    # what a protocol calls

    def get_protocol(self) -> Any:
        return self._protocol

    def set_protocol(self, protocol: Any) -> None:
        self._protocol = protocol

    def is_closing(self) -> bool:
        return self._closing

    def is_reading(self) -> bool:
        return self._paused is None

    def pause_reading(self) -> None:
        if self._paused is None:
            self._paused = []

    def resume_reading(self) -> None:
        held, self._paused = self._paused, None
        for data in held or ():
            self._network.loop.call_soon(self._take, data, context=self._context)

    def get_write_buffer_size(self) -> int:
        return 0

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass

    def write(self, data: Any) -> None:
        if not self._closing and data:
            self._after(self.peer._take, bytes(data), context=self.peer._context)

    def writelines(self, parts: Any) -> None:
        self.write(b"".join(bytes(each) for each in parts))

    def can_write_eof(self) -> bool:
        return False

    def close(self) -> None:
        if self._closing:
            return
        self._closing = True
        self._after(self.peer._end, None, context=self.peer._context)
        self._network.loop.call_soon(self._end, None, context=self._context)

    def abort(self) -> None:
        self._reset()

    # what happens to it

    def _after(self, what: Callable[..., Any], *args: Any, context: contextvars.Context) -> None:
        loop = self._network.loop
        # Never two at one moment: nothing says which of them would be first.
        self._arrives_at = max(self._arrives_at + 1e-6, loop.time() + self._network.delay())
        loop.call_at(self._arrives_at, what, *args, context=context)

    def _take(self, data: bytes) -> None:
        if self._lost or self._closing:
            return
        if self._paused is not None:
            self._paused.append(data)
        else:
            self._protocol.data_received(data)

    def _end(self, error: Exception | None) -> None:
        self._closing = True
        if not self._lost:
            self._lost = True
            if self._reset in self.process.on_kill:
                self.process.on_kill.remove(self._reset)
            self._protocol.connection_lost(error)

    def _reset(self) -> None:
        """Reset both ends. The dead process's callback is dropped with its others."""
        self._closing = True
        error = ConnectionResetError(104, "Connection reset by peer")
        self._after(self.peer._end, error, context=self.peer._context)
        self._network.loop.call_soon(self._end, error, context=self._context)


class _Server(asyncio.AbstractServer):
    def __init__(self, network: Network, address: tuple[str, int], factory: Callable[[], Any]) -> None:
        self.sockets = (_Socket(address),)
        self.factory = factory
        self.process = PROCESS.get()
        self.context = contextvars.copy_context()
        self._network = network
        self._address = address
        self.process.on_kill.append(self.close)

    def close(self) -> None:
        if self._network.servers.get(self._address) is self:
            del self._network.servers[self._address]

    async def wait_closed(self) -> None:
        return

    def get_loop(self) -> VirtualLoop:
        return self._network.loop

    async def start_serving(self) -> None:
        return

    async def serve_forever(self) -> None:
        await asyncio.get_running_loop().create_future()

    def is_serving(self) -> bool:
        return self._network.servers.get(self._address) is self


class Network:
    """Everything that accepts connections. `break_rate`: the share of new connections that will break later."""

    def __init__(self, loop: VirtualLoop, dice: random.Random) -> None:
        self.loop = loop
        self.dice = dice
        self.servers: dict[tuple[str, int], _Server] = {}
        self.break_rate = 0.0
        self._next_port = FIRST_PORT
        loop.create_server = self._create_server  # type: ignore[method-assign, assignment]
        TCPConnector._wrap_create_connection = self._connect_for  # type: ignore[method-assign, assignment]

    def delay(self) -> float:
        return self.dice.uniform(0.0001, 0.004) if self.dice.random() < 0.97 else self.dice.uniform(0.004, 0.25)

    async def _create_server(self, factory: Any, host: Any = None, port: Any = None, **_: Any) -> _Server:
        if not port:
            self._next_port += 1
            port = self._next_port
        address = ("127.0.0.1", int(port))
        if address in self.servers:
            raise OSError(98, "Address already in use")
        self.servers[address] = server = _Server(self, address, factory)
        return server

    async def _connect_for(self, factory: Any, *, req: Any, **_: Any) -> Any:
        """Replace `TCPConnector._wrap_create_connection`, bound to this network and not to the connector."""
        address = (req.url.host, req.url.port)
        await asyncio.sleep(self.delay())
        server = self.servers.get(address)
        if server is None:
            raise ClientConnectorError(req.connection_key, ConnectionRefusedError(111, "Connection refused"))
        return self.connected(factory, server)

    def connected(self, factory: Any, server: _Server) -> tuple[Any, Any]:
        ours: Any = factory()
        near = _End(self, ours, {"peername": ("127.0.0.1", 1), "sockname": ("127.0.0.1", 2)})

        def accept() -> tuple[Any, _End]:
            theirs = server.factory()
            return theirs, _End(self, theirs, {"peername": ("127.0.0.1", 2), "sockname": ("127.0.0.1", 1)})

        theirs, far = server.context.copy().run(accept)
        near.peer, far.peer = far, near
        self.loop.call_soon(theirs.connection_made, far, context=far._context)
        ours.connection_made(near)
        if self.dice.random() < self.break_rate:
            self.loop.call_later(self.dice.expovariate(1 / 2.0), near._reset, context=contextvars.Context())
        return near, ours
