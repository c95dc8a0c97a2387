"""The wallets of a local stack. Each key is the hash of its role's name, so every stack has the same wallets, and an
address reveals its role. The keys are public: never fund them on a live network. The well-known anvil keys are not
used, because on live chains and their forks, those accounts have delegated code and no longer behave like plain
wallets."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from eth_account import Account
from eth_utils.crypto import keccak

from core.hexadecimal import bytes_of, hex_of
from scripts._stack.ape import PASSPHRASE

ETH = 10**18
DEV_WALLETS = 8


@dataclass(frozen=True)
class Wallet:
    role: str
    address: str
    private_key: str


def wallet(role: str) -> Wallet:
    key = keccak(text=f"vpm local stack: {role}")
    return Wallet(role, str(Account.from_key(key).address), hex_of(key))


def import_account(folder: Path, alias: str, wallet: Wallet) -> None:
    path = folder / "accounts" / f"{alias}.json"
    if path.exists():
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    # Few iterations: the key is public anyway, and every script decrypts it when it starts.
    keystore = Account.encrypt(bytes_of(wallet.private_key), PASSPHRASE, kdf="pbkdf2", iterations=1_000)
    path.write_text(json.dumps({**keystore, "address": wallet.address.removeprefix("0x").lower()}))


DEPLOYER = wallet("deployer")
OPENER = wallet("opener")  # lists stock markets and seeds their legs
PUBLISHER = wallet("publisher")  # posts observations to our own feeds
CREDITOR = wallet("creditor")  # books payments that were sent directly to the token
GUARDIAN = wallet("guardian")  # stops new bets on both chains
RELAY_LANES = tuple(wallet(f"relay lane {n}") for n in range(4))
SAFE_OWNERS = tuple(wallet(f"safe owner {n}") for n in range(3))
ATTESTATION = wallet("attestation")  # signs offers, receipts and callbacks; holds no money
BETTORS = tuple(wallet(f"demo bettor {n}") for n in range(6))  # for the demo only, so that dev wallets stay untouched
DEMO = wallet("demo wallet")  # the pages of a local stack give its key to every visitor
DEV = tuple(wallet(f"dev wallet {n}") for n in range(DEV_WALLETS))

SAFE_THRESHOLD = 2

# All wallets that may have to send a transaction.
GAS_HOLDERS = (DEPLOYER, OPENER, PUBLISHER, CREDITOR, GUARDIAN, *RELAY_LANES, *SAFE_OWNERS, *DEV)
