"""Drives a local stock chain: prices, markets, bets. Every transaction is mined at once in its own block; the contracts
call `block.number` the vintage."""

from __future__ import annotations

import secrets
import time
from typing import Any

from eth_account import Account
from eth_account.messages import encode_typed_data

from api.stock.bets import StockBet
from api.stock.sources import StockContracts
from core.chain import Contract, checksum
from core.contracts.abi import abi
from core.contracts.deployments import Deployment
from core.contracts.feeds import PriceFeed
from scripts._stack import wallets
from scripts._stack.wallets import Wallet
from tests.support.chain_driver import ChainDriver

USDG = 10**6
FLAT_PRICE = 187_40000000


class StockChain(ChainDriver[StockContracts]):
    @classmethod
    def on(cls, url: str, deployment: Deployment, *, mine_after: bool = False) -> StockChain:
        contracts = StockContracts.of(deployment)
        assert contracts is not None
        return cls(url, deployment, contracts, mine_after)

    # ------------------------------------------------------------ feeds

    def feed(self, ticker: str = "NVDA") -> PriceFeed:
        return next(feed for feed in self.deployment.price_feeds if feed.ticker == ticker)

    def feed_contract(self, ticker: str = "NVDA") -> Contract:
        return Contract(self.feed(ticker).proxy, abi("LocalFeed"))

    def push(self, answer: int, at: int | None = None, ticker: str = "NVDA") -> None:
        self.send(
            self.feed_contract(ticker).call("push", answer, self.now if at is None else at), wallets.DEPLOYER.address
        )

    def pause_oracle(self, paused: bool, ticker: str = "NVDA") -> None:
        token = Contract(self.feed(ticker).stock_token, abi("LocalStockToken"))
        self.send(token.call("setOraclePaused", paused), wallets.DEPLOYER.address)

    def set_multiplier(self, multiplier: int, ticker: str = "NVDA") -> None:
        token = Contract(self.feed(ticker).stock_token, abi("LocalStockToken"))
        self.send(token.call("setMultiplier", multiplier), wallets.DEPLOYER.address)

    def witness(self, ticker: str = "NVDA") -> None:
        call = self.contracts.resolver.call("witness", self.feed(ticker).stock_token)
        self.send(call, wallets.DEV[5].address)

    # ------------------------------------------------------------ markets

    def open_market(
        self,
        *,
        ticker: str = "NVDA",
        strike_in: int = 600,
        lasts: int = 3600,
        family: int = 0,
        seed: int = 10 * USDG,
        min_entry: int = USDG,
        max_entry: int = 100 * USDG,
        max_age: int | None = None,
        final_at: int | None = None,
    ) -> int:
        """List a market as the opener does, and return its id. `final_at`, if given, is the final time instead of
        `lasts`."""
        opener, feed = wallets.OPENER.address, self.feed(ticker)
        self.send(self.contracts.token.call("approve", self.contracts.lister.address, 2 * seed), opener)
        strike = self.now + strike_in
        call = self.contracts.lister.call(
            "open",
            {
                "feed": feed.proxy,
                "strikeTime": strike,
                "finalTime": final_at or strike + lasts,
                "maxStrikeAge": max_age or feed.max_strike_age_seconds,
                "maxFinalAge": max_age or feed.max_final_age_seconds,
                "seedPerLeg": seed,
                "minEntry": min_entry,
                "maxEntry": max_entry,
                "family": family,
            },
        )
        self.send(call, opener)
        return int(self.read(self.contracts.settler.call("marketCount")))

    def enter(self, wallet: Wallet, market_id: int, outcome: int, amount: int) -> None:
        self.send(self.contracts.token.call("approve", self.contracts.settler.address, amount), wallet.address)
        self.send(self.contracts.settler.call("enter", market_id, outcome, amount), wallet.address)

    def positions(self, market_id: int) -> list[int]:
        return list(self.read(self.contracts.settler.call("positionsOf", market_id, 0, 10_000)))

    # ------------------------------------------------------------ bets

    def bet(self, wallet: Wallet, market_id: int, outcome: int = 0, amount: int = 5 * USDG, **changes: Any) -> StockBet:
        values: dict[str, Any] = {
            "chain_id": self.deployment.chain_id,
            "settler": self.contracts.settler.address,
            "signer": checksum(wallet.address),
            "market_id": market_id,
            "outcome": outcome,
            "amount": amount,
            "valid_after": 0,
            "valid_before": max(self.now, int(time.time())) + 600,
            "salt": secrets.token_bytes(32),
        }
        return StockBet(**{**values, **changes})

    def signed(self, wallet: Wallet, bet: StockBet) -> dict[str, Any]:
        typed = bet.typed_data(self.deployment.token("USDG"))
        message = encode_typed_data(full_message={**typed, "message": _as_integers(typed["message"])})
        signature = Account.sign_message(message, wallet.private_key).signature
        return body_of(bet, bytes(signature))


def body_of(bet: StockBet, signature: bytes) -> dict[str, Any]:
    return {
        "from": bet.signer,
        "marketId": str(bet.market_id),
        "outcome": bet.outcome,
        "amount": str(bet.amount),
        "validAfter": str(bet.valid_after),
        "validBefore": str(bet.valid_before),
        "salt": "0x" + bet.salt.hex(),
        "signature": "0x" + signature.hex(),
    }


def _as_integers(message: dict[str, Any]) -> dict[str, Any]:
    return {
        name: int(value) if name in ("value", "validAfter", "validBefore") else value for name, value in message.items()
    }
