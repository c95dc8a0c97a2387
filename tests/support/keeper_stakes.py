"""Stakes on agent markets for tests of the keeper: payments bound to their bet, which anybody may settle."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from eth_account import Account

from core.agent.bet import BOUND_ONLY, Bet, bet_hash, idem_hash, market_key
from core.contracts.abi import abi
from core.contracts.deployments import Deployment
from core.contracts.statuses import Form
from scripts._stack import wallets
from tests.support.keeper_rig import Rig

AUTHORIZATION = ("from", "to", "value", "validAfter", "validBefore", "nonce")
TYPES = ("address", "address", "uint256", "uint256", "uint256", "bytes32")
DOMAIN = (("name", "string"), ("version", "string"), ("chainId", "uint256"), ("verifyingContract", "address"))


def wallet_address(rig: Rig) -> str:
    return rig.deployment("base").contract("SettlementWallet").address


def usdc(rig: Rig, owner: str) -> int:
    return rig.balance("base", rig.deployment("base").token("USDC").address, owner)


def stake(rig: Rig, bettor: wallets.Wallet, public_id: str, outcome: int, amount: int, key: str) -> None:
    """A stake in token units, sent in by another wallet."""
    deployment = rig.deployment("base")
    given = bound(deployment, rig.now("base"), bettor, public_id, outcome, amount, key)
    data = abi("SettlementWallet").function("settle").encode(given.bet, given.authorization)
    rig.send("base", wallets.DEV[6].address, wallet_address(rig), data)


@dataclass(frozen=True)
class Bound:
    """A bet and the payment that is bound to it, as `settle` and `credit` take them."""

    bet: tuple[Any, ...]
    authorization: tuple[Any, ...]


def bound(
    deployment: Deployment, now: int, bettor: wallets.Wallet, public_id: str, outcome: int, amount: int, key: str
) -> Bound:
    """A transfer of so many token units for one bet, signed; valid for an hour."""
    to, token = deployment.contract("SettlementWallet").address, deployment.token("USDC")
    bet = Bet(market_key(public_id), outcome, amount, 0, bettor.address, idem_hash(key))
    nonce, before = bet_hash(bet, deployment.chain_id, to), now + 3600
    values = (bettor.address, to, amount, BOUND_ONLY, before, nonce)
    message: dict[str, Any] = {
        "types": {
            "EIP712Domain": [{"name": name, "type": kind} for name, kind in DOMAIN],
            "TransferWithAuthorization": [
                {"name": name, "type": kind} for name, kind in zip(AUTHORIZATION, TYPES, strict=True)
            ],
        },
        "primaryType": "TransferWithAuthorization",
        "domain": {
            "name": token.domain_name,
            "version": token.domain_version,
            "chainId": deployment.chain_id,
            "verifyingContract": token.address,
        },
        "message": dict(zip(AUTHORIZATION, values, strict=True)),
    }
    signature = bytes(Account.sign_typed_data(bettor.private_key, full_message=message).signature)
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
