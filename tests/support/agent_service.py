"""The agent surface as it runs: indexer, relayer and API as processes of their own, on a real chain and PostgreSQL."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import itertools
import json
import os
import secrets
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
from eth_account import Account
from eth_account.messages import encode_typed_data
from eth_utils.crypto import keccak

from api.agent.chain import AgentContracts, abi
from core.chain import Call, Contract
from core.deployments import Deployment
from core.local.anvil import ask
from core.local.process import RunningProcess, SpawnPlan, free_port, start_process
from core.money import USD
from scripts._stack import wallets
from scripts._stack.wallets import Wallet

ROOT = Path(__file__).resolve().parents[2]
READY_SECONDS = 60.0
V = 1_000 * USD
_callers = itertools.count(1)


@dataclass(frozen=True)
class AgentChain:
    """Playing on a local Base: time, markets, observations. Blocking, one request at a time."""

    url: str
    deployment: Deployment
    contracts: AgentContracts

    @classmethod
    def on(cls, url: str, deployment: Deployment) -> AgentChain:
        contracts = AgentContracts.of(deployment)
        assert contracts is not None
        made = cls(url, deployment, contracts)
        made.ask("evm_mine")  # the saved genesis may be hours old; a block of now makes `now` the present
        return made

    def ask(self, method: str, *params: object) -> Any:
        return ask(self.url, method, *params)

    @property
    def now(self) -> int:
        return int(self.ask("eth_getBlockByNumber", "latest", False)["timestamp"], 16)

    def warp_to(self, timestamp: int) -> None:
        self.ask("evm_setNextBlockTimestamp", hex(timestamp))
        self.ask("evm_mine")

    def read(self, call: Call) -> Any:
        return call.function.decode(bytes.fromhex(self.ask("eth_call", call.parameters(), "latest")[2:]))

    def send(self, call: Call, sender: str) -> dict[str, Any]:
        """As an account the node impersonates; the receipt of a success."""
        self.ask("anvil_setBalance", sender, hex(10**20))
        self.ask("anvil_impersonateAccount", sender)
        sent = self.ask("eth_sendTransaction", {**call.parameters(), "from": sender, "gas": hex(6_000_000)})
        for _ in range(200):
            receipt = self.ask("eth_getTransactionReceipt", sent)
            if receipt is not None:
                assert receipt["status"] == "0x1", f"{call} reverted"
                return dict(receipt)
            time.sleep(0.02)
        raise AssertionError(f"{sent} was not mined")

    @property
    def feed(self) -> Contract:
        """The observation feed of a market cap."""
        source = next(each for each in self.deployment.observation_feeds if each.key.endswith("/market_cap"))
        return Contract(source.address, abi("ObservationFeed"))

    def observe(self, value: int) -> None:
        """Posts a value with 8 decimals, observed now."""
        self.send(self.feed.call("post", value, self.now), self.deployment.operator_wallets["publisher"])

    def list(self, name: str, *, kind: int = 0, metadata: Mapping[str, Any] | None = None, **spec: Any) -> str:
        """Lists a market, by default a threshold one of 100M that closes in a day; returns its id."""
        now = self.now
        words = {"id": name, "slug": name, "question": f"Question of {name}?", "tokenSymbol": "BNKR"}
        bounds = spec.get("bounds", [])
        fields = (
            kind,
            spec.get("feed", self.feed.address),
            spec.get("target", 100_000_000 * 10**8 if kind == 0 else 0),
            bounds,
            spec.get("early", False),
            now,
            spec.get("closes_at", now + 86_400),
            spec.get("start_at", now + 3600 if kind == 2 else 0),
            3600,
            86_400,
            spec.get("fee_bps", 200),
            len(bounds) + 1 if kind == 1 else 2,
            spec.get("virtual", V),
        )
        key = keccak(text=name)
        text = json.dumps({**words, **(metadata or {})})
        self.send(self.contracts.settlement.call("list", key, fields, text), self.deployment.operator_wallets["lister"])
        return name


@dataclass
class AgentService:
    """Daemons by name; `start` and `stop` them one by one, the port of the API stays."""

    chain: AgentChain
    folder: Path
    env: Mapping[str, str]
    port: int
    running: dict[str, RunningProcess] = field(default_factory=dict)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def api(self) -> str:
        return f"{self.url}/api/agent/v1"

    def start(self, *names: str, **env: str) -> None:
        for name in names:
            ready = self.folder / f"{name}.ready"
            ready.unlink(missing_ok=True)
            given = {**self.env, **env, "VPM_READY_FILE": str(ready)}
            plan = SpawnPlan(name, (sys.executable, "-m", name), env=given, cwd=str(ROOT))
            self.running[name] = start_process(plan, self.folder / f"{name}.log")
        for name in names:
            process, ready = self.running[name], self.folder / f"{name}.ready"
            deadline = time.monotonic() + READY_SECONDS
            while not ready.exists():
                assert process.alive(), f"{name} ended:\n{process.tail(30)}"
                assert time.monotonic() < deadline, f"{name} did not get ready:\n{process.tail(30)}"
                time.sleep(0.05)

    def stop(self, *names: str) -> None:
        for name in names or tuple(self.running):
            self.running.pop(name).stop()

    def kill(self, name: str) -> None:
        self.running.pop(name).kill_program()

    def log(self, name: str) -> str:
        return (self.folder / f"{name}.log").read_text()


@contextlib.contextmanager
def agent_service(
    chain: AgentChain, database_url: str, deployments: Path, folder: Path, **env: str
) -> Iterator[AgentService]:
    """Nothing runs yet; whatever was started ends with the context."""
    lanes = ",".join(f"base:relay+keeper={w.private_key}" for w in wallets.RELAY_LANES[:2])
    port = free_port()
    given = {
        "PATH": os.environ["PATH"],
        "HOME": os.environ.get("HOME", "/tmp"),
        "DATABASE_URL": database_url,
        "VPM_BASE_RPC_URLS": chain.url,
        "VPM_BASE_POLL_INTERVAL_MS": "50",
        "VPM_DEPLOYMENTS_DIR": str(deployments),
        "VPM_PORT": str(port),
        "VPM_PUBLIC_URL": f"http://127.0.0.1:{port}",
        "VPM_API_METRICS_PORT": "0",
        "VPM_INDEXER_METRICS_PORT": "0",
        "VPM_RELAYER_METRICS_PORT": "0",
        "VPM_DATABASE_POOL_SIZE": "4",
        "VPM_LOG_FORMAT": "console",
        "VPM_STOP_GRACE_SECONDS": "3",
        # So that a test may come from an address of its own.
        "VPM_TRUST_PROXY": "1",
        "VPM_RELAYER_KEYS": lanes,
        "VPM_ATTESTATION_KEY": wallets.ATTESTATION.private_key,
    }
    service = AgentService(chain, folder, {**given, **env}, port)
    try:
        yield service
    finally:
        service.stop()


def sign(
    offer: Mapping[str, Any],
    who: Wallet,
    *,
    now: int | None = None,
    chain_id: int = 8453,
    nonce: bytes | None = None,
    **changes: Any,
) -> dict[str, Any]:
    """The envelope a payer makes of an offer; `changes` replace fields of the authorization before it is signed."""
    moment = int(time.time()) if now is None else now
    authorization = {
        "from": who.address,
        "to": offer["payTo"],
        "value": offer["maxAmountRequired"],
        "validAfter": "0",
        "validBefore": str(moment + offer["maxTimeoutSeconds"]),
        "nonce": "0x" + (secrets.token_bytes(32) if nonce is None else nonce).hex(),
        **changes,
    }
    message = {
        name: int(value) if name in ("value", "validAfter", "validBefore") else value
        for name, value in authorization.items()
    }
    fields = [
        ("from", "address"),
        ("to", "address"),
        ("value", "uint256"),
        ("validAfter", "uint256"),
        ("validBefore", "uint256"),
        ("nonce", "bytes32"),
    ]
    signable = encode_typed_data(
        domain_data={
            "name": offer["extra"]["name"],
            "version": offer["extra"]["version"],
            "chainId": chain_id,
            "verifyingContract": offer["asset"],
        },
        message_types={"TransferWithAuthorization": [{"name": name, "type": kind} for name, kind in fields]},
        message_data=message,
    )
    signature = Account.sign_message(signable, who.private_key).signature
    payload = {"signature": "0x" + bytes(signature).hex(), "authorization": authorization}
    return {"x402Version": 1, "scheme": "exact", "network": "base", "payload": payload}


def header(envelope: Mapping[str, Any]) -> dict[str, str]:
    return {"X-PAYMENT": base64.b64encode(json.dumps(envelope).encode()).decode()}


class Buyer:
    """A client at the door. Each call comes from `ip`, a new one unless given, so limits stay apart."""

    def __init__(self, session: aiohttp.ClientSession, service: AgentService) -> None:
        self.session = session
        self.service = service

    async def get(self, path: str, *, ip: str | None = None, **query: object) -> tuple[aiohttp.ClientResponse, Any]:
        params = {name: str(value) for name, value in query.items()}
        async with self.session.get(
            self.service.api + path, params=params, headers={"X-Forwarded-For": ip or _caller()}
        ) as response:
            return response, json.loads(await response.read())

    async def post(
        self, body: object, *, headers: Mapping[str, str] | None = None, ip: str | None = None
    ) -> tuple[aiohttp.ClientResponse, Any]:
        given = {"X-Forwarded-For": ip or _caller(), **(headers or {})}
        async with self.session.post(self.service.api + "/trade", json=body, headers=given) as response:
            return response, json.loads(await response.read())

    async def buy(self, body: Mapping[str, Any], who: Wallet, **changes: Any) -> tuple[aiohttp.ClientResponse, Any]:
        """Challenge, signature, payment."""
        response, challenge = await self.post(body)
        assert response.status == 402, challenge
        now = self.service.chain.now
        envelope = sign(challenge["accepts"][0], who, now=max(now, min(int(time.time()), now + 60)), **changes)
        return await self.post(body, headers=header(envelope))

    async def shows(self, market: str, *, seconds: float = 15.0) -> None:
        """Waits until the index has the market."""
        deadline = time.monotonic() + seconds
        while (await self.get(f"/markets/{market}"))[0].status != 200:
            assert time.monotonic() < deadline, f"{market} never appeared"
            await asyncio.sleep(0.05)


def bet(market: str, who: Wallet, side: str = "yes", size: float = 5, **more: object) -> dict[str, Any]:
    return {
        "marketId": market,
        "side": side,
        "sizeUsd": size,
        "idemKey": f"key-{secrets.token_hex(8)}",
        "walletAddress": who.address,
        **more,
    }


def _caller() -> str:
    number = next(_callers)
    return f"10.{number >> 16 & 255}.{number >> 8 & 255}.{number & 255}"
