"""A busy history on real contracts: random traffic on a local chain, some of which reverts. Each `step` sends a handful
of transactions and mines them into one block; the chain must mine on demand. Accounts are impersonated, so only token
authorizations need keys."""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from typing import Any, ClassVar

import orjson
from eth_account import Account
from eth_utils.crypto import keccak

from core import eip3009
from core.agent.bet import ZERO_ADDRESS, Bet, bet_hash, bound_nonce, idem_hash
from core.chain import ChainClient, Contract
from core.chain.provider import ChainProvider
from core.contracts.abi import abi
from core.contracts.deployments import Deployment, Token
from core.contracts.statuses import Form
from scripts._stack import wallets
from tests.support.agent_payments import cancelling_digest

UNIT = 10**6
GAS = hex(4_000_000)


class Players(ABC):
    ODDS_AND_ENDS: ClassVar[int]

    def __init__(self, rpc: ChainProvider, deployment: Deployment, token: Token, seed: object) -> None:
        self.rpc = rpc
        self.client = ChainClient(rpc)
        self.deployment = deployment
        self.rng = random.Random(repr(seed))
        self.token_facts = token
        self.token = Contract(token.address, abi("LocalUSDG"))
        self.sent: list[str] = []
        self.pauser = Contract(deployment.contracts["Pauser"].address, abi("Pauser"))

    async def prepare(self) -> None:
        await self.ask("anvil_autoImpersonateAccount", True)
        # The saved genesis may be an hour old: dated by its last block, a first reading came too late for its feed.
        await self.mine()

    async def everything_once(self) -> None:
        """Add the rare events, so that a short history has them too. Stakes are open afterwards."""
        for which in range(self.ODDS_AND_ENDS):
            await self._odds_and_ends(which)
            await self.mine()
        await self.by_the_safe(self.pauser, "resume")
        await self.mine()

    @abstractmethod
    async def _odds_and_ends(self, which: int) -> None:
        """Do one of the rare `ODDS_AND_ENDS`."""

    async def by_the_safe(self, contract: Contract, name: str, *arguments: Any) -> None:
        owner = await self.client.read(contract.call("owner"))
        await self.ask("anvil_setBalance", owner, hex(10**18))
        await self.send(owner, contract, name, *arguments)

    async def pause_or_resume(self) -> None:
        """Usually resume, so that traffic continues; sometimes pause, or add or remove a guardian."""
        pick = self.rng.random()
        if pick < 0.3:
            await self.send(self.deployment.operator_wallets["guardian"], self.pauser, "pause")
        elif pick < 0.4:
            who = self.rng.choice(wallets.DEV).address
            await self.by_the_safe(self.pauser, "setGuardian", who, self.rng.random() < 0.5)
        else:
            await self.by_the_safe(self.pauser, "resume")

    async def ask(self, method: str, *params: object) -> Any:
        return await self.rpc.call(method, params, object)

    async def send(self, sender: str, contract: Contract, name: str, *arguments: Any) -> str:
        call = contract.call(name, *arguments)
        transaction = {"from": sender, "to": call.to, "data": "0x" + call.data.hex(), "gas": GAS}
        self.sent.append(await self.ask("eth_sendTransaction", transaction))
        return self.sent[-1]

    async def mine(self, seconds: int = 2) -> None:
        await self.ask("evm_increaseTime", hex(max(seconds - 1, 0)))
        await self.ask("evm_mine")

    async def now(self) -> int:
        return (await self.client.head()).timestamp

    async def reverted(self) -> int:
        receipts = await self.client.receipts(self.sent)
        return sum(receipt is not None and not receipt.succeeded for receipt in receipts)

    def authorization(
        self, kind: str, who: wallets.Wallet, to: str, value: int, valid_after: int, valid_before: int, nonce: bytes
    ) -> bytes:
        values = (who.address, to, value, valid_after, valid_before, nonce)
        message = dict(zip((each["name"] for each in eip3009.FIELDS), values, strict=True))
        return self.signed(who, eip3009.digest(kind, message, self.token_facts, self.deployment.chain_id))

    def signed(self, who: wallets.Wallet, digest: bytes) -> bytes:
        return bytes(Account.unsafe_sign_hash(digest, who.private_key).signature)


class StockPlayers(Players):
    ODDS_AND_ENDS = 5

    def __init__(self, rpc: ChainProvider, deployment: Deployment, seed: object) -> None:
        super().__init__(rpc, deployment, deployment.token("USDG"), seed)
        address = {name: contract.address for name, contract in deployment.contracts.items()}
        self.settler = Contract(address["VestedMarkets"], abi("VestedMarkets"))
        self.resolver = Contract(address["RoundResolver"], abi("RoundResolver"))
        self.lister = Contract(address["MarketLister"], abi("MarketLister"))
        self.feeds = [Contract(feed.proxy, abi("LocalFeed")) for feed in deployment.price_feeds]
        self.markets = 0
        self.final: dict[int, int] = {}
        self.most: dict[int, int] = {}

    async def prepare(self) -> None:
        await super().prepare()
        for who in (*wallets.DEV, wallets.OPENER):
            spender = self.lister if who is wallets.OPENER else self.settler
            await self.send(who.address, self.token, "approve", spender.address, 2**255)
        await self.mine()

    async def recount(self) -> None:
        self.markets = int(await self.client.read(self.settler.call("marketCount")))
        self.final = {market: final for market, final in self.final.items() if market <= self.markets}
        self.most = {market: self.most.get(market, 100 * UNIT) for market in range(1, self.markets + 1)}

    async def open(self, life: int, kappa_room: bool = False) -> None:
        now = await self.now()
        feed = self.rng.choice(self.deployment.price_feeds)
        strike, final = now + life // 2, now + life
        most = 10_000 * UNIT if kappa_room else 100 * UNIT
        params = (feed.proxy, strike, final, 3600, 3600, 10 * UNIT, UNIT, most, self.rng.randrange(3))
        await self.send(wallets.OPENER.address, self.lister, "open", params)
        self.markets += 1
        self.final[self.markets], self.most[self.markets] = final, most

    async def step(self) -> None:
        rng = self.rng
        if self.markets < 2 or rng.random() < 0.08:
            await self.open(rng.randint(30, 120), rng.random() < 0.7)
        for _ in range(rng.randrange(6)):
            # Now and then on a market that is over, which reverts.
            running = list(self.final) if rng.random() < 0.95 else list(self.most)
            if running:
                await self._bet(rng.choice(running))
        if rng.random() < 0.4:
            await self.send(
                wallets.DEV[0].address, rng.choice(self.feeds), "push", rng.randint(90, 110) * 10**8, await self.now()
            )
        now = await self.now()
        for market, final in list(self.final.items()):
            if now > final:
                await self._settle(market)
        if rng.random() < 0.3:
            await self.send(
                wallets.DEV[1].address, self.settler, "finalizeVintage", rng.randint(1, max(1, self.markets))
            )
        if rng.random() < 0.3:
            await self._deliver()
        if rng.random() < 0.1:
            await self._odds_and_ends(rng.randrange(self.ODDS_AND_ENDS))
        await self.mine(rng.randint(1, 6))

    async def _bet(self, market: int) -> None:
        rng = self.rng
        who, outcome = rng.choice(wallets.DEV), rng.randrange(2)
        amount = rng.choice((UNIT, rng.randint(1, 100) * UNIT, rng.randint(UNIT, min(self.most[market], 2_000 * UNIT))))
        if rng.random() < 0.5:
            await self.send(who.address, self.settler, "enter", market, outcome, amount)
            return
        salt, before = rng.randbytes(32), await self.now() + 600
        nonce = await self.client.read(self.settler.call("entryNonce", market, outcome, amount, salt))
        signature = self.authorization(eip3009.RECEIVE, who, self.settler.address, amount, 0, before, nonce)
        await self.send(
            wallets.RELAY_LANES[0].address,
            self.settler,
            "enterWithAuthorization",
            who.address,
            market,
            outcome,
            amount,
            0,
            before,
            salt,
            signature,
        )

    async def _settle(self, market: int) -> None:
        status = (await self.client.read(self.resolver.call("preview", market)))[0]
        if status in (1, 2, 3):
            await self.send(wallets.DEV[2].address, self.resolver, "resolve", market)
        del self.final[market]

    async def _deliver(self) -> None:
        market = self.rng.randint(1, max(1, self.markets))
        try:
            ids = await self.client.read(self.settler.call("positionsOf", market, 0, 40))
        except Exception:
            return
        if ids:
            chosen = self.rng.sample(ids, self.rng.randint(1, len(ids)))
            await self.send(wallets.DEV[3].address, self.settler, "deliver", chosen)

    async def _odds_and_ends(self, which: int) -> None:
        rng = self.rng
        market = rng.randint(1, max(1, self.markets))
        frozen = wallets.DEV[7].address
        match which:
            case 0:
                await self.send(wallets.DEV[4].address, self.settler, "claimResidue", market)
            case 1:
                await self.send(wallets.DEV[4].address, self.settler, "sweepFees")
            case 2:
                await self.send(frozen, self.token, rng.choice(("freeze", "unfreeze")), frozen)
            case 3:
                position = market << 32 | rng.randrange(1, 4) << 1 | rng.randrange(2)
                try:
                    owner = (await self.client.read(self.settler.call("position", position)))["owner"]
                except Exception:
                    return
                await self.send(owner, self.settler, "transferPosition", position, wallets.DEV[5].address)
            case 4:
                await self.pause_or_resume()


class AgentPlayers(Players):
    """Traffic on Base. Readings are posted often, because nothing is listed on a feed that is not fresh."""

    ODDS_AND_ENDS = 7

    def __init__(self, rpc: ChainProvider, deployment: Deployment, seed: object) -> None:
        super().__init__(rpc, deployment, deployment.token("USDC"), seed)
        address = {name: contract.address for name, contract in deployment.contracts.items()}
        self.wallet = Contract(address["SettlementWallet"], abi("SettlementWallet"))
        self.resolver = Contract(address["FeedResolver"], abi("FeedResolver"))
        self.lister = Contract(address["AgentLister"], abi("AgentLister"))
        self.feeds = [Contract(each.address, abi("ObservationFeed")) for each in deployment.published_feeds]
        self.source = deployment.published_feeds[0]
        self.markets: dict[bytes, tuple[int, int, int]] = {}  # id -> closes, settles after, outcomes
        self.settled: set[bytes] = set()
        self.lister_key = deployment.operator_wallets["lister"]
        self.publisher = deployment.operator_wallets["publisher"]
        self.creditor = deployment.operator_wallets["creditor"]
        self.relayer = deployment.operator_wallets["relay 0"]
        self.past_us: list[tuple[tuple[Any, ...], tuple[Any, ...]]] = []

    async def observe(self) -> None:
        await self.send(self.publisher, self.feeds[0], "post", self.rng.randint(80, 120) * 10**8, await self.now())

    async def list(self, life: int) -> None:
        """List a market that takes stakes for `life` seconds."""
        rng = self.rng
        await self.observe()
        await self.mine()
        now, memory = await self.now(), self.source.memory_seconds
        key = keccak(text=f"market {len(self.markets)}")
        kind = rng.randrange(3)
        outcomes = rng.randint(2, 5) if kind == 1 else 2
        closes = now + life
        starts = closes + 60 + memory + 1 if kind == 2 else 0
        ends = starts + 2 * memory + life if kind == 2 else closes + life + 60 + memory + 10
        spec = (
            kind,
            self.feeds[0].address,
            100 * 10**8 if kind == 0 else 0,
            [(90 + 5 * n) * 10**8 for n in range(outcomes - 1)] if kind == 1 else [],
            False,
            now,
            closes,
            starts,
            ends,
            [rng.randint(5, 15) * UNIT for _ in range(outcomes)],
        )
        metadata = orjson.dumps({"id": f"market {len(self.markets)}", "links": {}, "series": ""}).decode()
        await self.send(self.lister_key, self.lister, "list", key, spec, metadata)
        terms = await self.client.read(self.lister.call("preview", spec))
        self.markets[key] = (closes, int(terms["settlesAfter"]), outcomes)

    async def step(self) -> None:
        rng = self.rng
        if len(self.markets) < 2 or rng.random() < 0.08:
            await self.list(rng.randint(600, 6_000))
        for _ in range(rng.randrange(5)):
            running = [key for key, (closes, *_) in self.markets.items() if closes > await self.now() + 10]
            await self._stake(rng.choice(running if running and rng.random() < 0.95 else list(self.markets)))
        now = await self.now()
        if rng.random() < 0.4:
            await self.observe()
        for key, (_, settles, _) in self.markets.items():
            if key not in self.settled and now > settles and rng.random() < 0.3:
                self.settled.add(key)
                name = rng.choice(("resolve", "resolve", "voidMarket"))
                await self.send(wallets.DEV[1].address, self.resolver, name, key)
        if rng.random() < 0.4:
            await self._pay(rng.choice(list(self.markets)))
        if self.past_us and rng.random() < 0.5:
            await self.send(self.creditor, self.wallet, "credit", *self.past_us.pop(0))
        if rng.random() < 0.2:
            await self._odds_and_ends(rng.randrange(self.ODDS_AND_ENDS))
        await self.mine(rng.choice((1, 5, 60, 600)))

    async def _odds_and_ends(self, which: int) -> None:
        rng = self.rng
        match which:
            case 0:
                await self.send(wallets.DEV[1].address, self.wallet, "sweepFees")
            case 1:
                frozen = wallets.DEV[6].address
                await self.send(frozen, self.token, rng.choice(("freeze", "unfreeze")), frozen)
            case 2:
                await self.pause_or_resume()
            case 3:
                await self.by_the_safe(self.lister, "setBounds", (rng.randrange(500), 1, 10**9, 60, 3_600))
            case 4:
                await self.by_the_safe(self.lister, "setLister", rng.choice(wallets.DEV).address, rng.random() < 0.5)
            case 5:
                role = keccak(text=rng.choice(("RELAYER", "CREDITOR")))
                who = rng.choice(wallets.DEV).address
                await self.by_the_safe(self.wallet, "setRole", role, who, rng.random() < 0.5)
            case 6:
                await self._cancel(rng.choice(wallets.DEV))

    async def condemn(self) -> None:
        """Condemn the feed: its open markets can only be voided from now on."""
        await self.by_the_safe(self.lister, "condemn", self.feeds[0].address)
        await self.mine()
        voided = sorted(self.markets.keys() - self.settled)
        for key in voided:
            await self.send(wallets.DEV[1].address, self.resolver, "voidMarket", key)
            self.settled.add(key)
        await self.mine()
        for key in voided:
            await self._pay(key)
        await self.mine()

    async def _cancel(self, who: wallets.Wallet) -> None:
        nonce = self.rng.randbytes(32)
        digest = cancelling_digest(who.address, nonce, self.token_facts, self.deployment.chain_id)
        signature = self.signed(who, digest)
        overload = "cancelAuthorization(address,bytes32,bytes)"
        await self.send(wallets.DEV[2].address, self.token, overload, who.address, nonce, signature)

    async def _stake(self, key: bytes) -> None:
        rng = self.rng
        who = rng.choice(wallets.DEV)
        amount = rng.randint(UNIT, 200 * UNIT)
        outcome = rng.randrange(self.markets[key][2])
        builder = rng.choice((ZERO_ADDRESS, wallets.DEV[0].address))
        bet = Bet(key, outcome, amount, 0, who.address, idem_hash(str(rng.random())), builder)
        values = (key, outcome, amount, 0, who.address, bet.idem_hash, builder, bet.ref)
        hashed = bet_hash(bet, self.deployment.chain_id, self.wallet.address)
        form = rng.choice((Form.RECEIVE, Form.TRANSFER))
        nonce = bound_nonce(hashed) if form is Form.RECEIVE else rng.choice((hashed, rng.randbytes(32)))
        kind = eip3009.RECEIVE if form is Form.RECEIVE else eip3009.TRANSFER
        # Now and then a payment brings another amount than its bet says.
        paid = amount if rng.random() < 0.8 else amount + UNIT
        before = await self.now() + 3_600
        signature = self.authorization(kind, who, self.wallet.address, paid, 0, before, nonce)
        authorization = (form, paid, 0, before, nonce, signature)
        if form is Form.TRANSFER and rng.random() < 0.4:
            # A third party submits the signature straight to the token; the creditor books what came.
            overload = "transferWithAuthorization(address,address,uint256,uint256,uint256,bytes32,bytes)"
            moved = (who.address, self.wallet.address, paid, 0, before, nonce, signature)
            await self.send(wallets.DEV[2].address, self.token, overload, *moved)
            self.past_us.append((values, authorization))
        else:
            await self.send(self.relayer, self.wallet, "settle", values, authorization)

    async def _pay(self, key: bytes) -> None:
        try:
            ids = await self.client.read(self.wallet.call("stakesOf", key, 0, 50))
        except Exception:
            return
        if ids:
            await self.send(wallets.DEV[3].address, self.wallet, "pay", key, ids)
