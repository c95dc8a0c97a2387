"""`./vpm bench provider`: what the daemons ask of a chain's node, with a block each 250 ms, and what a month costs.

The four daemons run as in production, with default settings, against a local chain of that pace; between them and the
node stands a proxy that counts every call, each of a batch for itself, as providers do. Nobody bets while it counts, so
what is seen is what merely being there costs; then transactions are sent one after the other, and what is asked more is
what each costs. It is repeated with other poll intervals and with subscriptions.

Units are the weights that providers with compute units publish for each method, about the same everywhere: 10 for the
lightest, 20 for a block or a receipt, 26 for a call, 60 for logs. A subscription is billed by its messages' bytes, 0.04
units each, or not at all. Months have 30 days. There is no target: prices are not ours.
"""

from __future__ import annotations

import asyncio
import secrets
from collections import Counter
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import orjson
from aiohttp import web

from core.db.engine import make_pool
from core.outbox import IntentRequest, enqueue
from scripts._bench.ground import database, ground, keep
from tests.support.genesis import genesis
from tests.support.keeper_rig import Rig, rigged

DAEMONS = ("indexer", "relayer", "keeper", "api")
BLOCK_SECONDS = 0.25
WARM_UP_SECONDS = 20.0
COUNTED_SECONDS = 60.0
TRANSACTIONS = 40
MONTH_SECONDS = 30 * 24 * 3600
UNITS = {"eth_blockNumber": 10, "eth_feeHistory": 10, "eth_subscribe": 10, "eth_chainId": 0, "net_version": 0}
UNITS |= {"eth_call": 26, "eth_getLogs": 60, "eth_sendRawTransaction": 40}
OTHER_UNITS = 20
UNITS_A_BYTE = 0.04
# Poll interval in milliseconds, and whether nodes tell of new blocks.
CASES = ((1000, False), (250, False), (4000, False), (1000, True))


@dataclass
class CountingProxy:
    """One URL for each daemon, and what it asked there: by daemon and method."""

    target: str
    asked: Counter[tuple[str, str]] = field(default_factory=Counter)
    url: str = ""

    async def handle(self, request: web.Request) -> web.Response:
        body = await request.read()
        asked = orjson.loads(body)
        for call in asked if isinstance(asked, list) else [asked]:
            self.asked[request.path.strip("/"), call["method"]] += 1
        async with (
            aiohttp.ClientSession() as session,
            session.post(self.target, data=body, headers={"Content-Type": "application/json"}) as response,
        ):
            return web.Response(body=await response.read(), content_type="application/json")


@dataclass(frozen=True)
class Rates:
    """The calls and units a second, by daemon; units of subscriptions apart."""

    calls: dict[str, float]
    units: dict[str, float]
    methods: dict[str, float]
    subscription: float = 0.0


def rates(asked: Counter[tuple[str, str]], seconds: float, subscription: float = 0.0) -> Rates:
    calls: Counter[str] = Counter()
    units: Counter[str] = Counter()
    methods: Counter[str] = Counter()
    for (daemon, method), count in asked.items():
        calls[daemon] += count
        units[daemon] += count * UNITS.get(method, OTHER_UNITS)
        methods[method] += count
    return Rates(
        {each: calls[each] / seconds for each in DAEMONS},
        {each: units[each] / seconds for each in DAEMONS},
        {method: count / seconds for method, count in methods.most_common()},
        subscription,
    )


async def measure(rig: Rig) -> tuple[list[tuple[int, bool, Rates]], dict[str, float]]:
    node = rig.chains["stock"]
    proxy = CountingProxy(node.url)
    app = web.Application(client_max_size=2**26)
    app.router.add_post("/{daemon}", proxy.handle)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=1.0)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    proxy.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    cases: list[tuple[int, bool, Rates]] = []
    sending: dict[str, float] = {}
    try:
        for poll_ms, subscribed in CASES:
            await _start(rig, proxy, poll_ms, node.ws_url if subscribed else "")
            await asyncio.sleep(WARM_UP_SECONDS)
            proxy.asked.clear()
            heads = await _bytes_of_heads(node.ws_url) if subscribed else 0.0
            await asyncio.sleep(COUNTED_SECONDS - (5.0 if subscribed else 0.0))
            asked = Counter(proxy.asked)
            # The indexer and the relayer subscribe, each for itself.
            cases.append((poll_ms, subscribed, rates(asked, COUNTED_SECONDS, 2 * heads * UNITS_A_BYTE)))
            if not sending:
                sending = await _cost_of_sending(rig, proxy, cases[-1][2])
            await asyncio.to_thread(rig.stop)
    finally:
        await runner.cleanup()
    return cases, sending


async def _start(rig: Rig, proxy: CountingProxy, poll_ms: int, ws_url: str) -> None:
    for daemon in DAEMONS:
        await asyncio.to_thread(
            rig.start,
            daemon,
            VPM_STOCK_RPC_URLS=f"{proxy.url}/{daemon}",
            VPM_STOCK_WS_URLS=ws_url,
            VPM_STOCK_POLL_INTERVAL_MS=str(poll_ms),
            VPM_STOCK_FINALITY_BLOCKS="512",
            VPM_KEEPER_SETTLE_EVERY_SECONDS="10",
            VPM_KEEPER_LIST_EVERY_SECONDS="30",
            VPM_KEEPER_SNAPSHOT_EVERY_SECONDS="60",
            VPM_PORT="0",
        )
    await rig.works()


async def _bytes_of_heads(ws_url: str) -> float:
    """A second's worth of one subscription."""
    total = 0
    async with aiohttp.ClientSession() as session, session.ws_connect(ws_url) as socket:
        await socket.send_str('{"jsonrpc":"2.0","id":1,"method":"eth_subscribe","params":["newHeads"]}')
        try:
            async with asyncio.timeout(5.0):
                async for message in socket:
                    total += len(message.data)
        except TimeoutError:
            pass
    return total / 5.0


async def _cost_of_sending(rig: Rig, proxy: CountingProxy, idle: Rates) -> dict[str, float]:
    """Calls and units for each transaction, beyond what would have been asked anyway."""
    chain_id = rig.deployment("stock").chain_id
    proxy.asked.clear()
    loop = asyncio.get_running_loop()
    started = loop.time()
    async with make_pool(rig.database_url, size=1, autocommit=True) as pool:
        for _ in range(TRANSACTIONS):
            request = IntentRequest(
                key=f"bench:{secrets.token_hex(8)}",
                chain_id=chain_id,
                group="relay",
                kind="transfer",
                to="0x" + secrets.token_hex(20),
                value_wei=1,
            )
            async with pool.connection() as connection:
                await enqueue(connection, request)
            await asyncio.sleep(1.0)
    await asyncio.sleep(5.0)
    seconds = loop.time() - started
    with_them = rates(Counter(proxy.asked), seconds)
    return {
        "calls": (sum(with_them.calls.values()) - sum(idle.calls.values())) * seconds / TRANSACTIONS,
        "units": (sum(with_them.units.values()) - sum(idle.units.values())) * seconds / TRANSACTIONS,
    }


def main(json_path: Path | None) -> int:
    with (
        ground("provider") as folder,
        database(folder) as url,
        rigged(genesis(), url, folder, "stock", block_seconds=BLOCK_SECONDS) as rig,
    ):
        rig.extra = {"VPM_KEEPER_LOCAL_PRICES": "0"}
        cases, sending = asyncio.run(measure(rig))
    print(f"{'calls a second, nobody betting':38}" + "".join(f"{each:>9}" for each in DAEMONS) + f"{'all':>8}")
    rows: list[dict[str, Any]] = []
    for poll_ms, subscribed, each in cases:
        title = f"poll {poll_ms} ms{', told of new blocks' if subscribed else ''}"
        calls, units = sum(each.calls.values()), sum(each.units.values())
        print(f"{title:38}" + "".join(f"{each.calls[one]:9.2f}" for one in DAEMONS) + f"{calls:8.2f}")
        rows.append({**asdict(each), "poll_ms": poll_ms, "told": subscribed, "all_calls": calls, "all_units": units})
    print(f"{'a month, in millions':38}{'calls':>9}{'units':>9}{'with heads by the byte':>25}")
    for row in rows:
        month = MONTH_SECONDS / 1e6
        title = f"poll {row['poll_ms']} ms{', told of new blocks' if row['told'] else ''}"
        with_heads = (row["all_units"] + row["subscription"]) * month
        print(f"{title:38}{row['all_calls'] * month:9.1f}{row['all_units'] * month:9.0f}{with_heads:25.0f}")
    print(f"Each transaction sent: {sending['calls']:.1f} calls, {sending['units']:.0f} units more.")
    print("Most asked at the default: " + ", ".join(f"{m} {n:.2f}/s" for m, n in list(rows[0]["methods"].items())[:6]))
    asked, told_of = (next(row["all_calls"] for row in rows if row["told"] is heard) for heard in (False, True))
    ratios = {"calls, told of new blocks / asking for them": told_of / asked}
    keep(json_path, {"bench": "provider", "rows": rows, "sending": sending, "ratios": ratios})
    return 0
