"""The proof page: what was done with the money, who can do what, and how anybody checks it."""

from __future__ import annotations

from dataclasses import dataclass

import orjson
from aiohttp import web

from api.vpm.proof import Proof
from api.web.answers import Held, html
from api.web.templating import Pages
from core.deployments import Deployment


@dataclass(frozen=True, slots=True)
class Power:
    """What a role can do, and what it cannot."""

    who: str
    can: str
    cannot: str


POWERS = (
    Power(
        "Anyone",
        "bet, resolve a market with the two proven rounds, void a stale or overdue one, deliver payouts and refunds "
        "to their owners, sweep fees to the treasury",
        "choose an outcome, or have a payout sent anywhere but to its owner",
    ),
    Power(
        "The Safe (owner of the lister)",
        "allow feeds and openers, within bounds fixed at deployment",
        "touch a stake, a listed market, its readings or its outcome",
    ),
    Power("An opener", "list markets on allowed feeds and seed both sides alike", "change a market once it is listed"),
    Power(
        "The guardian",
        "pause new bets and new markets",
        "stop a resolution, a payout or a refund; those never pause",
    ),
    Power(
        "The relayer",
        "send bets that their owners signed, and pay for the gas",
        "change the market, the side, the amount or the owner of a bet: the signature binds them",
    ),
    Power("The treasury", "receive fees and the dust of rounding", "take anything by itself"),
)


class ProofPage:
    def __init__(self, pages: Pages, held: Held, proof: Proof, base: Deployment) -> None:
        self._pages = pages
        self._held = held
        self._proof = proof
        self._base = base

    async def get(self, request: web.Request) -> web.StreamResponse:
        known = await self._proof.rendered()

        async def render() -> bytes:
            return self._pages.render(
                "proof.html", path="/proof", proof=orjson.loads(known.body), powers=POWERS, base=self._base
            )

        return html(request, await self._held.get("proof", known.tag, render))
