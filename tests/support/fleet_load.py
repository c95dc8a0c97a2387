"""Bettors on all three surfaces during a fault test, through any API process that responds. A bettor behaves as the
specifications ask: after an unknown outcome it sends the same body again, and never signs a new bet instead.
`fleet_checks` compares its final response with the chains and the ledger."""

from __future__ import annotations

import asyncio
import itertools
import json
import random
import secrets
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

import aiohttp
from eth_account import Account

from core.contracts.statuses import Form
from core.cup.wheel import OUTCOMES
from core.hexadecimal import hex_of
from core.money import USD
from scripts._stack.parts import CHAIN_IDS
from scripts._stack.wallets import Wallet
from scripts._stack.wallets import wallet as wallet_of
from tests.support.buyer import bound_header
from tests.support.cup_rig import Signer
from tests.support.fleet import Fleet
from tests.support.service import fresh_address

PATIENCE_SECONDS = 180.0  # until an unknown answer must have become a known one
ANSWER_SECONDS = 25.0
PAUSE_SECONDS = 1.5
UNPAID_TRIES = 3  # a payment whose window has passed is challenged afresh: it was never taken
AT_ONCE = 25  # bets of one surface that may be on their way
BETTORS = 32
MIN_LEFT_SECONDS = 30  # a market that stops taking stakes sooner might do so before the payment is signed


class LoadReport(StrEnum):
    WAITING = "waiting"
    TAKEN = "taken"  # confirmed, or a receipt
    REFUSED = "refused"  # a definite no: it never happened and never will


@dataclass
class Promise:
    """A bet and its outcome. `key` finds it again: a nonce, an idempotency key, or a trade id."""

    surface: str
    wallet: Wallet
    key: str
    amount: int
    report: LoadReport = LoadReport.WAITING
    answer: Any = None
    busy: bool = False  # a request for it is under way
    tries: int = 0
    seconds: float = 0.0
    request: tuple[str, Any, frozenset[str], Mapping[str, str] | None] | None = None  # what is sent again, as it was


@dataclass
class Load:
    """Bets during a test: `async with Load(fleet, pace)` makes one on each surface every `pace` seconds."""

    fleet: Fleet
    pace: float = 2.0
    promises: list[Promise] = field(default_factory=list)
    unexpected: list[str] = field(default_factory=list)
    reads: int = 0
    failed_reads: int = 0
    _tasks: set[asyncio.Task[None]] = field(default_factory=set)
    _dice: random.Random = field(default_factory=lambda: random.Random(20))
    _calls: Any = field(default_factory=lambda: itertools.count(1))
    bettors: list[Wallet] = field(default_factory=lambda: [wallet_of(f"fleet bettor {n}") for n in range(BETTORS)])
    _claimed: set[str] = field(default_factory=set)

    async def __aenter__(self) -> Load:
        await self._fund()
        for work in (self.stock, self.agent, self.cup):
            self._spawn(self._again(work))
        self._spawn(self._reading())
        return self

    async def __aexit__(self, *_: object) -> None:
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _fund(self) -> None:
        """Give many bettors tokens on both chains and no ether. There are many because each may make only ten requests
        a minute."""
        for chain in CHAIN_IDS:
            token = self.fleet.token(chain)
            await self.fleet.send(chain, *(token.call("mint", each.address, 10_000 * USD) for each in self.bettors))

    async def settle(self, seconds: float = 240.0) -> None:
        """Stop new bets, and repeat each unknown one until its outcome is final."""
        self.pace = 0.0
        began = time.monotonic()
        while self.waiting and time.monotonic() - began < seconds * self.fleet.patience:
            await asyncio.gather(*(self._ask_again(one) for one in self.waiting))
            await asyncio.sleep(2)

    async def _ask_again(self, promise: Promise) -> None:
        if promise.request is not None and not promise.busy:
            await self._once(promise)

    @property
    def waiting(self) -> list[Promise]:
        return [one for one in self.promises if one.report is LoadReport.WAITING]

    def taken(self, surface: str) -> list[Promise]:
        return [one for one in self.promises if one.surface == surface and one.report is LoadReport.TAKEN]

    def adopt(self, tasks: Iterable[asyncio.Task[Any]]) -> None:
        """Add bets that were begun elsewhere. They continue, and end with the load."""
        for task in tasks:
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    def also(self, work: Callable[[], Awaitable[None]]) -> None:
        """Run other work until the load ends. Any error in it is unexpected."""
        self._spawn(self._guarded(work))

    def _spawn(self, work: Any) -> None:
        self.adopt([asyncio.create_task(work)])

    async def _again(self, work: Any) -> None:
        while self.pace:
            if len(self.waiting) < AT_ONCE:
                self._spawn(self._guarded(work))
            await asyncio.sleep(self.pace)

    async def _guarded(self, work: Any) -> None:
        try:
            await work()
        except asyncio.CancelledError:
            raise
        except (aiohttp.ClientError, TimeoutError, OSError):
            return  # nothing was signed yet: a page that could not be read
        except Exception as error:
            self.unexpected.append(f"{type(error).__name__}: {error}"[:300])

    async def _reading(self) -> None:
        while True:
            status, _ = await self.call("GET", "/api/markets")
            self.reads += 1
            self.failed_reads += status != 200
            await asyncio.sleep(0.5)

    # ------------------------------------------------------------ requests

    async def call(
        self, method: str, path: str, body: Any = None, headers: Mapping[str, str] | None = None
    ) -> tuple[int, Any]:
        """Return status and JSON from any API process that responds, or 0 if none does. Each call has its own caller
        address."""
        number = next(self._calls)
        given = {"X-Forwarded-For": fresh_address(), **(headers or {})}
        patience = aiohttp.ClientTimeout(total=ANSWER_SECONDS)
        doors = self.fleet.base_urls
        for turn in range(len(doors)):
            url = doors[(number + turn) % len(doors)] + path
            try:
                async with self.fleet.session.request(
                    method, url, json=body, headers=given, timeout=patience
                ) as answer:
                    return answer.status, json.loads(await answer.read() or b"null")
            except (aiohttp.ClientConnectorError, aiohttp.ServerDisconnectedError, aiohttp.ClientOSError):
                continue
            except (aiohttp.ClientError, TimeoutError, ValueError):
                return 0, None
        return 0, None

    async def insist(
        self, promise: Promise, path: str, body: Any, refusals: frozenset[str], headers: Mapping[str, str] | None = None
    ) -> None:
        promise.request, promise.busy = (path, body, refusals, headers), True
        began = time.monotonic()
        try:
            while promise.seconds < PATIENCE_SECONDS:
                wait = await self._once(promise)
                promise.seconds = time.monotonic() - began
                if promise.report is not LoadReport.WAITING:
                    return
                await asyncio.sleep(wait)
        finally:
            promise.busy = False

    async def again(self, promise: Promise) -> None:
        assert promise.request is not None
        path, body, refusals, headers = promise.request
        promise.report, promise.seconds = LoadReport.WAITING, 0.0
        await self.insist(promise, path, body, refusals, headers)

    async def _once(self, promise: Promise) -> float:
        """Send the request once. Return the seconds to wait before the next time, as the response asks."""
        assert promise.request is not None
        path, body, refusals, headers = promise.request
        promise.tries += 1
        status, answer = await self.call("POST", path, body, headers)
        promise.answer = answer
        fields = answer if isinstance(answer, dict) else {}
        # A bet whose confirmation was delivered before is 409, and says that it is confirmed.
        if fields.get("receipt") == "confirmed" or (status == 200 and fields.get("receipt") != "pending"):
            promise.report = LoadReport.REFUSED if fields.get("receipt") == "reverted" else LoadReport.TAKEN
        elif (fields.get("error") in refusals and fields.get("final", True)) or (
            status == 402 and promise.tries > UNPAID_TRIES
        ):
            promise.report = LoadReport.REFUSED
        return max(PAUSE_SECONDS, min(float(fields.get("retryAfter") or 0), 10.0)) * (4 if status == 429 else 1)

    # ------------------------------------------------------------ one bet on each surface

    async def stock(
        self, wallet: Wallet | None = None, market: str | None = None, side: int | None = None
    ) -> Promise | None:
        wallet = wallet or self._dice.choice(self.bettors)
        if market is None:
            status, listed = await self.call("GET", "/api/markets")
            if status != 200:
                return None
            latest = await self.fleet.now("stock")
            open_now = [each for each in listed["markets"] if each["acceptingBets"] and each["finalTime"] > latest + 45]
            if not open_now:
                return None
            market = str(self._dice.choice(open_now)["id"])
        amount = self._dice.randrange(1, 9) * USD + self._dice.randrange(10**5)
        outcome = self._dice.randrange(2) if side is None else side
        query = f"marketId={market}&outcome={outcome}&amount={amount}&from={wallet.address}"
        status, typed = await self.call("GET", f"/api/relay/typed-data?{query}")
        if status != 200:
            return None
        message = {**typed["message"], "from": wallet.address}
        parts = {name: typed[name] for name in ("domain", "types", "primaryType")} | {"message": message}
        signed = Account.sign_typed_data(wallet.private_key, full_message=parts)
        body = {**typed["request"], "from": wallet.address, "signature": hex_of(signed.signature)}
        promise = Promise("stock", wallet, str(message["nonce"]), amount)
        self.promises.append(promise)
        refusals = frozenset({"expired", "market_closed", "already_used", "insufficient_balance", "bad_signature"})
        refusals |= {"amount_out_of_bounds"}  # others filled its side first
        await self.insist(promise, "/api/relay/enter", body, refusals)
        return promise

    async def agent(
        self, wallet: Wallet | None = None, market: str | None = None, side: str | None = None
    ) -> Promise | None:
        """Bet on an agent market; return None if nothing was signed. `market` and `side` are names in the API; by
        default an open market is chosen."""
        wallet = wallet or self._dice.choice(self.bettors)
        latest = await self.fleet.now("base")
        if market is None:
            status, listed = await self.call("GET", "/api/agent/v1/markets?limit=50")
            near = datetime.fromtimestamp(latest + MIN_LEFT_SECONDS, UTC).isoformat()
            choices = [] if status != 200 else [each for each in listed["markets"] if each["deadlineAt"] > near]
            if not choices:
                return None
            chosen = self._dice.choice(choices)
            market, side = chosen["id"], chosen["outcomes"][0]["key"] if chosen["outcomes"] else "yes"
        amount = USD + self._dice.randrange(2 * USD)
        body = {
            "marketId": market,
            "side": side,
            "sizeUsd": amount / USD,
            "idemKey": f"fleet-{secrets.token_hex(8)}",
            "walletAddress": wallet.address,
        }
        status, challenge = await self.call("POST", "/api/agent/v1/trade", body)
        if status != 402:
            return None
        form = self._dice.choice((Form.TRANSFER, Form.RECEIVE))
        header = bound_header(challenge["accepts"][0], wallet, latest, form)
        promise = Promise("agent", wallet, str(body["idemKey"]), amount)
        self.promises.append(promise)
        refusals = frozenset({"market_closed", "idem_conflict", "payment_invalid", "insufficient_balance"})
        await self.insist(promise, "/api/agent/v1/trade", body, refusals, header)
        return promise

    async def cup(self) -> Promise | None:
        wallet = self._dice.choice(self.bettors)
        if wallet.address not in self._claimed:
            status, _ = await self.call("POST", "/api/cup/v1/wallet", {"walletAddress": wallet.address})
            if status != 200:
                return None
            self._claimed.add(wallet.address)
        status, listed = await self.call("GET", "/api/cup/v1/markets?limit=25")
        if status != 200 or not listed["markets"]:
            return None
        market = self._dice.choice(listed["markets"])
        cents = self._dice.randrange(100, 2000)
        signer = Signer(Account.from_key(wallet.private_key))
        body = signer.trade(market["slug"], market["outcomes"][0]["key"], cents, f"fleet-{secrets.token_hex(8)}")
        promise = Promise("cup", wallet, body["tradeId"], cents)
        self.promises.append(promise)
        refusals = frozenset({"market_closed", "invalid_signature", "insufficient_funds", "cup_closed"})
        await self.insist(promise, "/api/cup/v1/trade", body, refusals)
        return promise

    async def wheel(self) -> Promise | None:
        """Bet on the live round of the wheel, differently from the wallet's other bets there. Return None if nothing
        was signed."""
        wallet = self._dice.choice(self.bettors)
        if wallet.address not in self._claimed:
            return None
        status, live = await self.call("GET", "/api/cup/v1/roulette")
        bet_key, cents = self._dice.choice(sorted(OUTCOMES)), self._dice.randrange(1_000, 5_000)
        if status != 200 or live["secondsToClose"] < 5:
            return None
        key = f"{live['roundNo']} {wallet.address.lower()} {bet_key}"
        if any(one.key == key for one in self.promises):
            return None
        body = Signer(Account.from_key(wallet.private_key)).bet(live["roundNo"], bet_key, cents)
        promise = Promise("wheel", wallet, key, cents)
        self.promises.append(promise)
        refusals = frozenset({"round_closed", "invalid_signature", "insufficient_funds", "stake_out_of_bounds"})
        await self.insist(promise, "/api/cup/v1/roulette/bet", body, refusals)
        return promise
