"""Stakes on agent markets for tests of the keeper: payments that are bound to their bet, which any account may
settle."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from eth_account import Account

from core import eip3009
from core.agent.bet import BOUND_ONLY, Bet, bet_hash, idem_hash, market_key
from core.contracts.abi import abi
from core.contracts.deployments import Deployment
from core.contracts.statuses import Form
from scripts._stack import wallets
from tests.support.keeper_rig import Rig


def wallet_address(rig: Rig) -> str:
    return rig.deployment("base").contract("SettlementWallet").address


def usdc(rig: Rig, owner: str) -> int:
    data = abi("LocalUSDC").function("balanceOf").encode(owner)
    asked = {"to": rig.deployment("base").token("USDC").address, "data": "0x" + data.hex()}
    return int(rig.ask("base", "eth_call", asked, "latest"), 16)


def stake(rig: Rig, bettor: wallets.Wallet, public_id: str, outcome: int, amount: int, key: str) -> None:
    deployment = rig.deployment("base")
    given = bound(deployment, rig.now("base"), bettor, public_id, outcome, amount, key)
    data = abi("SettlementWallet").function("settle").encode(given.bet, given.authorization)
    rig.send("base", wallets.DEV[6].address, wallet_address(rig), data)


@dataclass(frozen=True)
class Bound:
    bet: tuple[Any, ...]
    authorization: tuple[Any, ...]


def bound(
    deployment: Deployment, now: int, bettor: wallets.Wallet, public_id: str, outcome: int, amount: int, key: str
) -> Bound:
    """Sign a transfer of token units for one bet, valid for an hour."""
    to, token = deployment.contract("SettlementWallet").address, deployment.token("USDC")
    bet = Bet(market_key(public_id), outcome, amount, 0, bettor.address, idem_hash(key))
    nonce, before = bet_hash(bet, deployment.chain_id, to), now + 3600
    values = (bettor.address, to, amount, BOUND_ONLY, before, nonce)
    message = dict(zip((each["name"] for each in eip3009.FIELDS), values, strict=True))
    digest = eip3009.digest(eip3009.TRANSFER, message, token, deployment.chain_id)
    signature = bytes(Account.unsafe_sign_hash(digest, bettor.private_key).signature)
    bet_values = (
        bet.market_id,
        outcome,
        amount,
        0,
        bettor.address,
        bet.idem_hash,
        bet.builder,
        bet.ref,
    )
    return Bound(bet_values, (int(Form.TRANSFER), amount, BOUND_ONLY, before, nonce, signature))
