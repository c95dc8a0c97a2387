"""A buyer on the agent API: its signatures and calls."""

from __future__ import annotations

import base64
import json
import re
import secrets
import time
from collections.abc import Mapping
from typing import Any, Protocol

import aiohttp
from eth_account import Account
from eth_account.messages import encode_typed_data

from core.contracts.statuses import Form
from core.eip3009 import FIELDS
from scripts._stack.wallets import Wallet
from tests.support.agent_chain import AgentChain
from tests.support.service import Door
from tests.waiting import PATIENCE, until


class Selling(Protocol):
    @property
    def api(self) -> str: ...

    @property
    def url(self) -> str: ...

    @property
    def chain(self) -> AgentChain: ...


def sign(
    offer: Mapping[str, Any],
    who: Wallet,
    *,
    now: int | None = None,
    chain_id: int = 8453,
    nonce: bytes | None = None,
    form: Form = Form.TRANSFER,
    **changes: Any,
) -> dict[str, Any]:
    """Return a payer's envelope for an offer. `changes` replace fields of the authorization before it is signed. form:
    the signed form; the receive form uses the offer's own nonce unless another is given."""
    moment = int(time.time()) if now is None else now
    if nonce is None and form is Form.RECEIVE:
        nonce = bytes.fromhex(offer["extra"]["receiveNonce"][2:])
    primary = {Form.TRANSFER: "TransferWithAuthorization", Form.RECEIVE: offer["extra"]["receivePrimaryType"]}[form]
    authorization = {
        "from": who.address,
        "to": offer["payTo"],
        "value": offer["maxAmountRequired"],
        "validAfter": "0",
        "validBefore": str(moment + offer["maxTimeoutSeconds"]),
        "nonce": "0x" + (secrets.token_bytes(32) if nonce is None else nonce).hex(),
        **changes,
    }
    message = {
        name: int(value) if name in ("value", "validAfter", "validBefore") else value
        for name, value in authorization.items()
    }
    signable = encode_typed_data(
        domain_data={
            "name": offer["extra"]["name"],
            "version": offer["extra"]["version"],
            "chainId": chain_id,
            "verifyingContract": offer["asset"],
        },
        message_types={primary: list(FIELDS)},
        message_data=message,
    )
    signature = Account.sign_message(signable, who.private_key).signature
    payload = {"signature": "0x" + bytes(signature).hex(), "authorization": authorization}
    return {"x402Version": 1, "scheme": "exact", "network": "base", "payload": payload}


def header(envelope: Mapping[str, Any]) -> dict[str, str]:
    return {"X-PAYMENT": base64.b64encode(json.dumps(envelope).encode()).decode()}


def bound_header(offer: Mapping[str, Any], who: Wallet, now: int, form: Form) -> dict[str, str]:
    """Return the X-PAYMENT header of a payment that is bound to its one bet; `now` is the chain's time in seconds."""
    if form is Form.RECEIVE:
        return header(sign(offer, who, now=now, form=form))
    nonce, valid_after = offer["extra"]["intentNonce"], offer["extra"]["intentValidAfter"]
    return header(sign(offer, who, now=now, nonce=bytes.fromhex(nonce[2:]), validAfter=valid_after))


class Buyer:
    """A client of the API. Each call comes from `ip`, a new one unless given, so that rate limits stay apart. Calls may
    name markets as the test listed them; requests have their ids."""

    def __init__(self, session: aiohttp.ClientSession, service: Selling) -> None:
        self.session = session
        self.service = service
        self._door = Door(session, service.api)

    async def get(self, path: str, *, ip: str | None = None, **query: object) -> tuple[aiohttp.ClientResponse, Any]:
        known = {name: self._ids(value) for name, value in query.items()}
        return await self._door.get(self.named(path), query=known, ip=ip)

    def named(self, path: str) -> str:
        return _NAMED.sub(self._id, path)

    async def post(
        self, body: object, *, headers: Mapping[str, str] | None = None, ip: str | None = None
    ) -> tuple[aiohttp.ClientResponse, Any]:
        if isinstance(body, dict) and isinstance(body.get("marketId"), str):
            body = {**body, "marketId": self._ids(body["marketId"])}
        return await self._door.post("/trade", body, headers=headers, ip=ip)

    def _ids(self, text: object) -> object:
        ids = self.service.chain.ids
        return ",".join(ids.get(each, each) for each in text.split(",")) if isinstance(text, str) else text

    def _id(self, found: re.Match[str]) -> str:
        return found[1] + self.service.chain.ids.get(found[2], found[2])

    async def buy(self, body: Mapping[str, Any], who: Wallet, **changes: Any) -> tuple[aiohttp.ClientResponse, Any]:
        challenge = await self.challenged(body)
        now = self.service.chain.now
        envelope = sign(challenge["accepts"][0], who, now=max(now, min(int(time.time()), now + 60)), **changes)
        return await self.post(body, headers=header(envelope))

    async def challenged(self, body: Mapping[str, Any], *, seconds: float = PATIENCE) -> dict[str, Any]:
        """Return a trade's payment challenge; wait while the relayer is unavailable, as an agent would."""

        async def asked() -> dict[str, Any] | None:
            response, challenge = await self.post(body)
            if response.status == 402:
                return dict(challenge)
            assert (response.status, challenge["error"]) == (503, "platform_paused"), challenge
            return None

        return await until(asked, "trades to be taken again", seconds, pause=0.2)

    async def shows(self, market: str, *, seconds: float = PATIENCE) -> None:
        async def shown() -> bool:
            return (await self.get(f"/markets/{market}"))[0].status == 200

        await until(shown, f"{market} to be shown", seconds)


_NAMED = re.compile(r"(/markets/|[?&]marketId=)([^/?&]+)")


def bet(market: str, who: Wallet, side: str = "yes", size: float = 5, **more: object) -> dict[str, Any]:
    return {
        "marketId": market,
        "side": side,
        "sizeUsd": size,
        "idemKey": f"key-{secrets.token_hex(8)}",
        "walletAddress": who.address,
        **more,
    }
