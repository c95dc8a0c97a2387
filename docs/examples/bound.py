"""Stake 1 USDC with a payment bound to its bet. Needs VPM_URL and VPM_KEY (a wallet that holds USDC)."""

import base64
import json
import os
import time
import uuid

import requests
from eth_account import Account

base, wallet = os.environ["VPM_URL"] + "/api/agent/v1", Account.from_key(os.environ["VPM_KEY"])
http = requests.Session()
http.trust_env = False
market = http.get(f"{base}/markets", params={"status": "open", "type": "market_cap"}).json()["markets"][0]
quote = http.get(f"{base}/quote", params={"marketId": market["id"], "side": "yes"}).json()["quote"]
trade = {
    "marketId": market["id"],
    "side": "yes",
    "sizeUsd": 1,
    # The holder of the signature chooses when it is sent.
    "minSharesOut": round(quote["suggestedMinSharesOut"] * 0.95, 6),
    "idemKey": str(uuid.uuid4()),
    "walletAddress": wallet.address,
}
offer = http.post(f"{base}/trade", json=trade).json()["accepts"][0]  # the 402
kinds = {"from": "address", "to": "address", "value": "uint256", "validAfter": "uint256", "validBefore": "uint256"}
authorization = {
    "from": wallet.address,
    "to": offer["payTo"],
    "value": int(offer["maxAmountRequired"]),
    "validAfter": 0,
    "validBefore": int(time.time()) + offer["maxTimeoutSeconds"],
    "nonce": offer["extra"]["receiveNonce"],  # names this bet, and no other
}
signed = wallet.sign_typed_data(
    {
        "name": offer["extra"]["name"],
        "version": offer["extra"]["version"],
        "chainId": 8453,
        "verifyingContract": offer["asset"],
    },
    {
        offer["extra"]["receivePrimaryType"]: [
            {"name": name, "type": kind} for name, kind in {**kinds, "nonce": "bytes32"}.items()
        ]
    },
    authorization,
)
payload = {"signature": signed.signature.to_0x_hex(), "authorization": authorization}
envelope = {"x402Version": 1, "scheme": "exact", "network": "base", "payload": payload}
paid = {"X-PAYMENT": base64.b64encode(json.dumps(envelope).encode()).decode()}
receipt = http.post(f"{base}/trade", json=trade, headers=paid, timeout=60).json()["receipt"]

print(market["question"], "payout if it wins now:", receipt["projectedPayoutUsd"], "USDC,", receipt["proofUrl"])
