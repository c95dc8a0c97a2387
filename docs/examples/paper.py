"""The cup: claim 10,000 paper dollars and trade 25 with a signed message. Needs VPM_URL and VPM_KEY (any key)."""

import os
import uuid
from datetime import UTC, datetime

import requests
from eth_account import Account
from eth_account.messages import encode_defunct

base, wallet = os.environ["VPM_URL"] + "/api/cup/v1", Account.from_key(os.environ["VPM_KEY"])
http = requests.Session()

claim = http.post(f"{base}/wallet", json={"walletAddress": wallet.address}).json()
market = http.get(f"{base}/markets", params={"limit": 1}).json()["markets"][0]
side = market["outcomes"][0]["key"]  # "yes", "up", or the first of several

trade_id, issued = str(uuid.uuid4()), datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
message = "\n".join(
    (
        "Service Cup paper trade",
        f"Wallet: {wallet.address.lower()}",
        f"Market: {market['slug']}",
        f"Side: {side}",
        "Size: 25 pUSDC",
        f"Trade: {trade_id}",
        f"Issued: {issued}",
    )
)
trade = {
    "walletAddress": wallet.address,
    "slug": market["slug"],
    "side": side,
    "sizePaper": 25,
    "tradeId": trade_id,
    "issuedAt": issued,
    "signature": "0x" + wallet.sign_message(encode_defunct(text=message)).signature.hex(),
}
receipt = http.post(f"{base}/trade", json=trade).json()["receipt"]
print(market["question"], receipt["shares"], "shares, balance", receipt["balancePaper"])
