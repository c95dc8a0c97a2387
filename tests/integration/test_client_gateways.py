"""The payment state that our client libraries report when a proxy stands between them and the service: firewalls, pages
instead of answers, lost answers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import pytest
from aiohttp import web
from eth_account import Account
from vpm_client import Client, Payment

from core.money import USD
from scripts._stack import wallets
from scripts._stack.wallets import Wallet
from tests.support.agent_service import AgentService
from tests.support.client_bets import Attempt, Sync, TypeScript
from tests.support.client_libraries import strangers
from tests.support.gateway import CUT_OFF, Answer, gateway

DEV = wallets.DEV


def is_trade(request: web.BaseRequest) -> bool:
    return request.path.endswith("/trade")


def is_paid(request: web.BaseRequest) -> bool:
    return "X-PAYMENT" in request.headers


def is_quote(request: web.BaseRequest) -> bool:
    return request.path.endswith("/quote")


def is_market(request: web.BaseRequest) -> bool:
    return "/markets/" in request.path


def is_proof(request: web.BaseRequest) -> bool:
    return "/proof/" in request.path


def refusal_of(code: str, message: str = "It says no.", **more: Any) -> dict[str, Any]:
    return {"ok": False, "error": code, "message": message, "retriable": False, **more}


SWITCHED_OFF = Answer(404, refusal_of("platform_disabled"))
OTHERS = "0x" + "05" * 32
CLOSED = Answer(409, refusal_of("market_closed"))
SUBMITTED = refusal_of("internal_error", retriable=True, txHash=OTHERS)

Rule = Callable[[web.BaseRequest], Answer | None]


def in_turn(holds: Callable[[web.BaseRequest], bool], *answers: Answer | None) -> Rule:
    """Answer matching calls with these in turn, and all later ones with the last."""
    left = list(answers)

    def rule(request: web.BaseRequest) -> Answer | None:
        if not holds(request):
            return None
        return left.pop(0) if len(left) > 1 else left[0]

    return rule


def once(holds: Callable[[web.BaseRequest], bool], then: Rule) -> Rule:
    """Switch to the other rule from the first matching call on."""
    came = False

    def rule(request: web.BaseRequest) -> Answer | None:
        nonlocal came
        came = came or holds(request)
        return then(request) if came else None

    return rule


@dataclass(frozen=True)
class Story:
    """The fate of a bet of `size` dollars, and the error that the client raises. `payment`: None if the bet is placed;
    `stakes`: how many result; `own_key`: the bet's key, if the caller names it; `is_made`: whether an earlier call
    placed the bet; `final_seconds`: how long the client waits for finality."""

    rule: Callable[[], Rule]
    payment: Payment | None
    error: str = ""  # the code of a refusal, else the name of the error's class
    final: bool = False
    stakes: int = 1
    size: int = 1
    own_key: str | None = None
    is_made: bool = False
    final_seconds: float = 20


TAKEN_AND = partial(Answer, passes_on=True)


def closed_and(*answers: Answer | None) -> Rule:
    """Answer calls for a trade like this, and quotes with a closed market."""
    return either(in_turn(is_trade, *answers), in_turn(is_quote, CLOSED))


made_story = partial(Story, is_made=True, own_key="order-0004")

LOST = "an answer that is cut off"
STORIES = {
    "a page instead of the receipt": Story(
        lambda: in_turn(is_paid, TAKEN_AND(200)), Payment.UNKNOWN, "UnexpectedAnswer"
    ),
    LOST: Story(lambda: in_turn(is_paid, TAKEN_AND(CUT_OFF), None), None),
    "a firewall after an answer that was lost": Story(
        lambda: in_turn(is_paid, TAKEN_AND(502), Answer(403)), Payment.UNKNOWN, "OutcomeUnknown"
    ),
    "a firewall instead of the first answer": Story(
        lambda: in_turn(is_paid, TAKEN_AND(403), Answer(403)), Payment.UNKNOWN, "OutcomeUnknown"
    ),
    "a firewall that lets the next call through": Story(lambda: in_turn(is_paid, TAKEN_AND(403), None), None),
    "a hosting's page instead of the first answer": Story(
        lambda: in_turn(is_paid, TAKEN_AND(402)), Payment.UNKNOWN, "OutcomeUnknown"
    ),
    "a hosting that wants to be paid in JSON": Story(
        lambda: in_turn(is_paid, TAKEN_AND(402, {"error": {"code": "402", "message": "Payment required"}})),
        Payment.UNKNOWN,
        "OutcomeUnknown",
    ),
    "a gateway's own challenge": Story(
        lambda: in_turn(is_paid, TAKEN_AND(402, {"x402Version": 1, "error": "Pay to crawl.", "accepts": []})),
        Payment.UNKNOWN,
        "OutcomeUnknown",
    ),
    "a firewall that speaks JSON": Story(
        lambda: in_turn(is_paid, TAKEN_AND(403, {"error": "Forbidden"})), Payment.UNKNOWN, "OutcomeUnknown"
    ),
    "a deployment while its transaction is on the way": Story(
        lambda: in_turn(is_paid, TAKEN_AND(500, SUBMITTED), Answer(404, {"status": 404, "error": "Not Found"})),
        Payment.UNKNOWN,
        "OutcomeUnknown",
    ),
    "switched off while its transaction is on the way": Story(
        lambda: in_turn(is_paid, TAKEN_AND(500, SUBMITTED), SWITCHED_OFF), Payment.UNKNOWN, "platform_disabled"
    ),
    "switched off after an answer that was lost": Story(
        lambda: in_turn(is_paid, TAKEN_AND(502), SWITCHED_OFF), Payment.UNKNOWN, "platform_disabled"
    ),
    "switched off before it was taken": Story(
        lambda: in_turn(is_paid, SWITCHED_OFF), Payment.REFUSED, "platform_disabled", stakes=0
    ),
    "a deployment while it becomes final": Story(
        lambda: in_turn(is_proof, Answer(404), Answer(404), None), None, final=True
    ),
    "switched off while it becomes final": Story(
        lambda: in_turn(is_proof, SWITCHED_OFF), Payment.MADE, "NotFinal", final=True
    ),
    "a page instead of the proof": Story(lambda: in_turn(is_proof, Answer(200)), Payment.MADE, "NotFinal", final=True),
    "gone for a while, and a firewall": Story(
        lambda: either(
            in_turn(is_proof, Answer(404, refusal_of("not_found"))), once(is_proof, in_turn(is_trade, Answer(403)))
        ),
        Payment.MADE,
        "NotFinal",
        final=True,
        final_seconds=4,
    ),
    "the same bet under another key is on its way": Story(
        lambda: in_turn(is_trade, Answer(429, refusal_of("rate_limited", retriable=True, tradeId=OTHERS))),
        Payment.NONE,
        "rate_limited",
        stakes=0,
    ),
    "refused by a block that may be undone": Story(
        lambda: in_turn(is_paid, Answer(409, refusal_of("market_closed", retriable=True, final=False))),
        Payment.UNKNOWN,
        "market_closed",
        stakes=0,
    ),
    "refused for now, and there is no other lock": Story(
        lambda: either(
            in_turn(is_paid, Answer(422, refusal_of("quote_expired", retriable=True, final=False))),
            in_turn(is_quote, None, Answer(409, refusal_of("market_closed"))),
        ),
        Payment.UNKNOWN,
        "market_closed",
        stakes=0,
        size=25,
    ),
    "a key of the caller's own that is settling for long": Story(
        lambda: in_turn(is_trade, Answer(429, refusal_of("rate_limited", retriable=True))),
        Payment.UNKNOWN,
        "rate_limited",
        stakes=0,
        own_key="order-0001",
    ),
    "the same bet under another key than the caller's own": Story(
        lambda: in_turn(is_trade, Answer(429, refusal_of("rate_limited", retriable=True, tradeId=OTHERS))),
        Payment.NONE,
        "rate_limited",
        stakes=0,
        own_key="order-0002",
    ),
    "a bet that is made, and its market is not found": made_story(
        lambda: in_turn(is_market, Answer(404, refusal_of("market_not_found"))), Payment.MADE, "market_not_found"
    ),
    "a bet that is made, and no further answer": made_story(
        lambda: in_turn(is_trade, None, Answer(503)), Payment.MADE, "Unreachable"
    ),
    "a portal's 200 where a bet is made": made_story(
        lambda: closed_and(Answer(200, {"ok": True})), Payment.UNKNOWN, "UnexpectedAnswer"
    ),
    "a hosting that wants to be paid where a bet is made": made_story(
        lambda: closed_and(Answer(402)), Payment.UNKNOWN, "UnexpectedAnswer"
    ),
    "a gateway's own challenge where a bet is made": made_story(
        lambda: closed_and(Answer(402, {"x402Version": 1, "error": "Pay to crawl.", "accepts": []})),
        Payment.UNKNOWN,
        "UnexpectedAnswer",
    ),
    "a call that came too slowly where a bet is made": made_story(
        lambda: closed_and(Answer(408, refusal_of("invalid_request")), None), None
    ),
    "a deployment without the route where a bet is made": made_story(
        lambda: closed_and(Answer(404, refusal_of("not_found"))), Payment.UNKNOWN, "not_found"
    ),
    "refused for good": Story(
        lambda: in_turn(is_paid, Answer(409, refusal_of("market_closed", moneyMoved=False))),
        Payment.REFUSED,
        "market_closed",
        stakes=0,
    ),
}


def either(*rules: Rule) -> Rule:
    return lambda request: next(filter(None, (rule(request) for rule in rules)), None)


BOTH = [Sync, TypeScript]
CASES = [
    pytest.param(kind, title, marks=() if kind is Sync or title == LOST else pytest.mark.thorough)
    for kind in BOTH
    for title in STORIES
]


@pytest.mark.parametrize(("kind", "title"), CASES)
async def test_the_payment_is_reported_correctly_behind_any_gateway(
    quick_service: AgentService, quick_market: str, kind: type[Sync | TypeScript], title: str
) -> None:
    story, library = STORIES[title], kind(quick_service)
    who = with_fifty_dollars(quick_service, f"behind a gateway, {kind.__name__}: {title}")
    await made_earlier(quick_service, quick_market, who, story)
    async with gateway(quick_service.url, story.rule()) as before:
        attempt = Attempt(
            before.url,
            quick_market,
            story.size,
            final=story.final,
            idem_key=story.own_key,
            patience_seconds=3,
            final_seconds=story.final_seconds,
        )
        outcome = await library.try_bet(who, attempt)
    assert (outcome.payment, outcome.error) == (story.payment and story.payment.value, story.error), outcome
    left = 50 * USD - story.stakes * story.size * USD
    assert quick_service.chain.balance(who.address) == left
    if story.stakes and outcome.ticket is not None:
        placed = await library.place(who, outcome.ticket)  # whichever error came: it is one bet
        assert placed["replay"]
        assert quick_service.chain.balance(who.address) == left


@pytest.mark.parametrize("kind", BOTH)
async def test_repeating_a_bet_with_its_key_returns_it_after_the_market_closed(
    quick_service: AgentService, quick_market: str, kind: type[Sync | TypeScript]
) -> None:
    who = with_fifty_dollars(quick_service, f"a key of one's own, {kind.__name__}")
    async with gateway(quick_service.url, in_turn(is_quote, None, CLOSED)) as before:
        attempt = Attempt(before.url, quick_market, 25, idem_key="order-0003")
        first, again = [(await kind(quick_service).try_bet(who, attempt)).placed for _ in range(2)]
    assert (first["replay"], again["replay"]) == (False, True)
    assert again["receipt"] == first["receipt"]
    # If its block is undone, the bet is made again with at least as many shares.
    assert again["ticket"]["minSharesOut"] == first["receipt"]["position"]["shares"]
    assert 50 * USD - quick_service.chain.balance(who.address) == 25 * USD


def with_fifty_dollars(service: AgentService, name: str) -> Wallet:
    who = wallets.wallet(name)
    service.chain.give(who.address, 50 * USD, DEV[7])
    return who


async def made_earlier(service: AgentService, market: str, who: Wallet, story: Story) -> None:
    if story.is_made:
        with strangers() as http:
            client = Client(service.url, Account.from_key(who.private_key), http=http)
            await asyncio.to_thread(partial(client.bet, market, "yes", story.size, final=False, idem_key=story.own_key))
