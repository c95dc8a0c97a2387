"""What a wallet of ours signs to pay an x402 offer: always bound to the one bet it is for.

In the receive form only the settlement wallet can take the payment, so it cannot be front-run. In the transfer form,
which any client knows, `validAfter` and the nonce bind it. `docs/guide` says the same to others.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from typing import Any

from eth_account import Account
from eth_account.messages import encode_typed_data

from core.contracts.statuses import Form
from core.eip3009 import FIELDS, TRANSFER
from core.hexadecimal import hex_of
from scripts._stack.wallets import Wallet

CHAIN_ID = 8453


def bound_header(offer: Mapping[str, Any], who: Wallet, now: int, form: Form) -> dict[str, str]:
    extra = offer["extra"]
    receive = form is Form.RECEIVE
    primary = extra["receivePrimaryType"] if receive else TRANSFER
    authorization = {
        "from": who.address,
        "to": offer["payTo"],
        "value": offer["maxAmountRequired"],
        "validAfter": "0" if receive else extra["intentValidAfter"],
        "validBefore": str(now + offer["maxTimeoutSeconds"]),
        "nonce": extra["receiveNonce"] if receive else extra["intentNonce"],
    }
    numbers = {name: int(authorization[name]) for name in ("value", "validAfter", "validBefore")}
    signable = encode_typed_data(
        domain_data={
            "name": extra["name"],
            "version": extra["version"],
            "chainId": CHAIN_ID,
            "verifyingContract": offer["asset"],
        },
        message_types={primary: list(FIELDS)},
        message_data={**authorization, **numbers},
    )
    signature = Account.sign_message(signable, who.private_key).signature
    payload = {"signature": hex_of(bytes(signature)), "authorization": authorization}
    envelope = {"x402Version": 1, "scheme": "exact", "network": "base", "payload": payload}
    return {"X-PAYMENT": base64.b64encode(json.dumps(envelope).encode()).decode()}
