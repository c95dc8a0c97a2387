"""Bet 5 USDG on UP with one signature: no ether, no account. Needs VPM_URL and VPM_KEY (a wallet that holds USDG)."""

import os
import time

import requests
from eth_account import Account

base, wallet = os.environ["VPM_URL"], Account.from_key(os.environ["VPM_KEY"])
http = requests.Session()

# `opens` and `live` markets take bets; /api/markets lists the newest first.
market = next(m for m in http.get(f"{base}/api/markets").json()["markets"] if m["phase"] in ("opens", "live"))

# The service prepares what there is to sign; read it before you do. The nonce commits to market, side and amount.
query = {"marketId": market["id"], "outcome": 0, "amount": 5_000_000, "from": wallet.address}
bet = http.get(f"{base}/api/relay/typed-data", params=query).json()
assert int(bet["message"]["value"]) == 5_000_000
typed = {name: bet[name] for name in ("types", "primaryType", "domain", "message")}
signature = Account.sign_typed_data(wallet.key, full_message=typed).signature

# Sending the same body again never bets twice: keep it, and repeat it when an answer got lost.
body = {**bet["request"], "signature": "0x" + signature.hex()}
answer = http.post(f"{base}/api/relay/enter", json=body).json()
print(market["ticker"], "UP", answer)

while True:  # shown as soon as the block is indexed
    held = http.get(f"{base}/api/positions", params={"owner": wallet.address}).json()["positions"]
    if any(p["entryTx"] == answer["txHash"] for p in held):
        break
    time.sleep(0.5)
print("position", held[0]["id"], "accepted", held[0]["accepted"])
