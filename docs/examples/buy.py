"""Stake 1 USDC on an agent market through x402, without ether. Needs VPM_URL and VPM_KEY (a wallet that holds USDC)."""

import os
import uuid

from eth_account import Account
from x402 import x402ClientSync
from x402.http.clients.requests import x402_requests
from x402.mechanisms.evm.exact import register_exact_evm_client

base, wallet = os.environ["VPM_URL"] + "/api/agent/v1", Account.from_key(os.environ["VPM_KEY"])
payer = x402ClientSync()
register_exact_evm_client(payer, wallet)

with x402_requests(payer) as http:  # answers a 402 by signing what it asks for
    http.trust_env = False
    market = http.get(f"{base}/markets", params={"status": "open", "type": "market_cap"}).json()["markets"][0]
    trade = {
        "marketId": market["id"],
        "side": "yes",
        "sizeUsd": 1,
        "idemKey": str(uuid.uuid4()),  # the same key again replays the receipt, it never pays twice
        "walletAddress": wallet.address,
    }
    http.post(f"{base}/trade", json={**trade, "simulate": True}).raise_for_status()  # every check, nothing moves
    receipt = http.post(f"{base}/trade", json=trade, timeout=60).json()["receipt"]

held = receipt["position"]
print(market["question"], held["shares"], "shares at", held["avgPriceCents"], "cents, proof", receipt["proofUrl"])
