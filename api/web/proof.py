"""The proof page: what was done with the money, who can do what, and how to check it."""

from __future__ import annotations

from dataclasses import dataclass

from aiohttp import web

from api.stock.proof import Proof
from api.web.templating import Pages
from core.contracts.deployments import Deployment


@dataclass(frozen=True, slots=True)
class Power:
    """What a role can do, and what it cannot."""

    who: str
    can: str
    cannot: str


# In the words of contracts/README.md, which names the test behind every "cannot".
POWERS = (
    Power(
        "Anyone",
        "resolve a market, void it on proof or after the delay, deliver payouts and refunds to their owners, sweep "
        "fees to the treasury",
        "choose an outcome, be paid for somebody else's position, change a signed bet it relays, prove another pair of "
        "rounds than the one in effect",
    ),
    Power("The owner of a position", "transfer it", "transfer anybody else's"),
    Power(
        "An opener",
        "open markets on allowed feeds, with its own seed on both sides",
        "take the seed back before the market settles, open on a known answer or on looser age bounds",
    ),
    Power(
        "The lister's owner, a Safe",
        "allow feeds and openers for markets to come",
        "touch a listed market or any money",
    ),
    Power(
        "A guardian, a hot key, on both chains",
        "pause new bets, also right after one of its own; on Base put off what a published feed settles by a day, once",
        "resume them, or stop a resolution, a payout, a refund or a sweep",
    ),
    Power("The treasury, the Safe", "receive fees and the dust of rounding", "hold anything up by being frozen"),
    Power(
        "Base: the relayer",
        "settle signed payments; with a random nonce it decides what a payment is staked on",
        "stake a bound payment on another bet, keep money, stake a payment twice",
    ),
    Power(
        "Base: the creditor",
        "book payments that reached the contract by themselves; its thief could take those that are not booked yet",
        "touch anything booked, or credit a payment bound in the receive form",
    ),
    Power(
        "Base: a lister",
        "list markets on the feeds and within the bounds that the Safe has set",
        "list on a feed of its own, take stakes while the answer is measured, change a listed market",
    ),
    Power(
        "Base: the Safe",
        "allow feeds and set bounds for markets to come, give and take roles, resume stakes, and condemn a feed that "
        "somebody publishes, once and for good: every unsettled stake on it goes back",
        "move a stake, choose an outcome, cancel one market alone, take fees of open markets",
    ),
    Power(
        "The publisher of our own feeds",
        "post what it observed, in order; the readings decide, after a dispute window; void by silence",
        "rewrite or back-date an observation, post one from the future, settle a market before the Safe could object",
    ),
)


async def proof_page(pages: Pages, proof: Proof, base: Deployment, request: web.Request) -> web.StreamResponse:
    body, tag = await proof.shown()

    async def render() -> bytes:
        return pages.render("proof.html", path="/proof", proof=body, powers=POWERS, base=base)

    return await pages.answer(request, "proof", tag, render)
