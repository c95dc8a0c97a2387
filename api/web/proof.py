"""The proof page: where the money went, who can do what, and how to verify it."""

from __future__ import annotations

from dataclasses import dataclass

from aiohttp import web

from api.stock.proof import Proof
from api.web.templating import Pages
from core.contracts.deployments import Deployment


@dataclass(frozen=True, slots=True)
class Power:
    """The powers of a role, and their limits."""

    who: str
    can: str
    cannot: str


# contracts/README.md names the test behind every "cannot".
POWERS = (
    Power(
        "Anyone",
        "resolve a market, void it on proof or after the delay, deliver payouts and refunds to their owners, sweep "
        "fees to the treasury",
        "choose an outcome, be paid for another owner's position, change a signed bet, prove rounds other than the "
        "ones in effect",
    ),
    Power("The owner of a position", "transfer it", "transfer another owner's position"),
    Power(
        "An opener",
        "open markets on allowed feeds, with its own seed on both sides",
        "take the seed back before the market settles, open a market whose answer is known, loosen the age bounds",
    ),
    Power(
        "The lister's owner, a Safe",
        "allow feeds and openers for future markets",
        "touch a listed market or any money",
    ),
    Power(
        "A guardian, a hot key, on both chains",
        "pause new bets, even right after its own bet; on Base delay what a published feed settles by one day, once",
        "resume bets, or stop a resolution, a payout, a refund or a sweep",
    ),
    Power("The treasury, the Safe", "receive fees and rounding dust", "block anything, even if the token freezes it"),
    Power(
        "Base: the relayer",
        "settle signed payments, and decide what a payment with a random nonce is staked on",
        "stake a bound payment on another bet, keep money, stake a payment twice",
    ),
    Power(
        "Base: the creditor",
        "book payments that were sent to the contract directly; a thief of its key could take those not booked yet",
        "touch anything booked, or credit a payment bound in the receive form",
    ),
    Power(
        "Base: a lister",
        "list markets on the feeds and within the bounds that the Safe has set",
        "list a market on another feed, accept stakes while the answer is measured, change a listed market",
    ),
    Power(
        "Base: the Safe",
        "allow feeds and set bounds for future markets, grant and revoke roles, resume stakes, and condemn a published "
        "feed for good: every unsettled stake on it is returned",
        "move a stake, choose an outcome, cancel a single market, take fees of open markets",
    ),
    Power(
        "The publisher of our own feeds",
        "post its observations, in order; they decide after a dispute window; void markets by posting nothing",
        "rewrite or back-date an observation, post one from the future, settle a market before the Safe can object",
    ),
)


async def proof_page(pages: Pages, proof: Proof, base: Deployment, request: web.Request) -> web.StreamResponse:
    body, tag = await proof.shown()

    async def render() -> bytes:
        return pages.render("proof.html", path="/proof", proof=body, powers=POWERS, base=base)

    return await pages.answer(request, "proof", tag, render)
