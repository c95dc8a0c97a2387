"""x402 0.2.1, the last Python client of version 1 alone, as anybody uses it: by its session, and by its parts.

Standard input: {"url", "body", "privateKey", "by"}. Standard output: {"status", "body", "settled"}, or {"stopped"} when
the client itself would not pay.
"""

import json
import sys
from typing import Any

import requests
from eth_account import Account
from x402.clients.base import PaymentError, decode_x_payment_response, x402Client
from x402.clients.requests import x402_requests
from x402.types import PaymentRequirements


def by_session(url: str, body: dict[str, Any], account: Any) -> requests.Response:
    return x402_requests(account).post(url, json=body, timeout=30)


def by_parts(url: str, body: dict[str, Any], account: Any) -> requests.Response:
    """What the session does, but for its model of the challenge as a whole, which wants a text under `error`."""
    challenge = requests.post(url, json=body, timeout=30)
    assert challenge.status_code == 402, challenge.text
    client = x402Client(account)
    terms = client.select_payment_requirements(
        [PaymentRequirements(**each) for each in challenge.json()["accepts"]], network_filter="base"
    )
    headers = {"X-PAYMENT": client.create_payment_header(terms, 1)}
    return requests.post(url, json=body, headers=headers, timeout=30)


def main() -> None:
    given = json.load(sys.stdin)
    pay = by_session if given["by"] == "session" else by_parts
    try:
        answer = pay(given["url"], given["body"], Account.from_key(given["privateKey"]))
    except PaymentError as error:
        print(json.dumps({"stopped": str(error)}))
        return
    header = answer.headers.get("X-PAYMENT-RESPONSE")
    settled = decode_x_payment_response(header) if header else None
    print(json.dumps({"status": answer.status_code, "body": answer.json(), "settled": settled}))


main()
