"""The agents' tools, in words: which operation of the REST API each is, and what a model must know to use it."""

from __future__ import annotations

from api.tools import RestTool

INSTRUCTIONS = """\
Prediction markets in real USDC on Base. The wallet that pays is the account: no key, no sign-up, no ether. This server
never asks for a private key or a seed phrase: send none.

To play: list_markets or discover_markets; research_market (its resolutionRules say what decides); get_quote;
simulate_trade; trade. Then get_positions, get_result, get_proof. Winners are paid to their wallet by themselves.

Units: amounts are USD with at most 6 decimals, a bet is at least 1 USD; prices are cents for a share, 0 to 100, and
those of all outcomes are 100 together. Winners split the pool less the fee (feeBps, 100 is 1 %), so what a share pays
moves until bets end; projectedPayoutUsd is what a bet would be paid if its side won with the book as it stands, and a
right bet never gets less than its stake less the fee. A wrong one loses all of it. Heed `warnings`.

Times are UTC. Bets end at deadlineAt, to the second, before anything that decides is measured. A price_direction market
(up or down) compares its reading at endsAt with the one at startAt: a round is that long. A market_cap market (yes or
no) is decided by the readings up to endsAt, or the one at it, as its summary says; a market_cap_range by the one at
endsAt. From settlesAfter on it is settled.

Paying: trade costs its sizeUsd. Called without a payment it moves nothing and answers with x402's PaymentRequired
(version 2). Sign that, and call again with the same arguments and the payment in _meta["x402/payment"]; a client with
an x402 wallet does so by itself. The receipt is the answer, the settlement is in _meta["x402/payment-response"]. Up to
10 USD nothing else is needed; above, pass quoteId and suggestedMinSharesOut (as minSharesOut) of a quote for the same
market, side and size, at most 60 seconds old.

In doubt, after a time-out or internal_error, call trade again with the same arguments and the same idemKey: nothing is
paid twice. A new idemKey is a new bet.

Errors are text: JSON with error (a code), message, hint, retriable and status; retryAfter says how many seconds to
wait."""

# The REST API has a separate code for sizes above 0 and below 1.
SIZE = {"sizeUsd": {"minimum": 1, "examples": [5]}}

TOOLS = (
    RestTool(
        "discover_markets",
        "get_api_agent_v1_discover",
        "Find markets for a text",
        "Open markets that a question, a cashtag ($SYM) or a social post is about, best match first; without either, "
        "the most active. A post that claims nothing a market could decide gives silent: true and why.",
        defaults={"limit": 5},
    ),
    RestTool(
        "list_markets",
        "get_api_agent_v1_markets",
        "List markets",
        "Markets with their outcomes, odds and times, the soonest deadline first; the open ones unless told otherwise. "
        "Pass nextCursor as cursor for the next page.",
        defaults={"limit": 20},
    ),
    RestTool(
        "get_market",
        "get_api_agent_v1_markets_id",
        "One market",
        "One market: outcomes (`key` is the side to bet on, impliedPct its price), odds, fee, times, stakes so far; "
        "once it has ended its result instead of odds.",
        renamed={"id": "marketId"},
    ),
    RestTool(
        "research_market",
        "get_api_agent_v1_markets_id_research",
        "Rules and research",
        "Everything known of a market: resolutionRules (what is read where and when, word for word), odds and their "
        "history, the readings so far, what bets of several sizes would do to the price, related markets.",
        renamed={"id": "marketId"},
    ),
    RestTool(
        "get_sentiment",
        "get_api_agent_v1_sentiment",
        "What bettors think of a token",
        "A score from 0 (bearish) to 100 (bullish) of the open markets on a token, by the stakes in them, with how "
        "much it can be trusted. 50 and hasSignal false without any. Data only, no advice.",
    ),
    RestTool(
        "get_quote",
        "get_api_agent_v1_quote",
        "Price a bet",
        "What a bet would get now: shares, average price in cents, projected payout, warnings, and limits to pass on "
        "(suggestedMinSharesOut is 1 % under it). Above 10 USD the price is locked for 60 seconds under quoteId. "
        "Nothing is paid. 30 a minute.",
        required=("side", "sizeUsd"),
    ),
    RestTool(
        "check_wallet",
        "get_api_agent_v1_wallet_address_readiness",
        "Can this wallet bet?",
        "A wallet's USDC on Base, whether it is enough for the smallest bet (1 USD), and how to fund it.",
        renamed={"address": "wallet"},
    ),
    RestTool(
        "simulate_trade",
        "post_api_agent_v1_trade",
        "Rehearse a bet",
        "Runs every check of trade and says what it would get, without a payment: the receipt has simulated: true. "
        "Nothing is moved or written, and the wallet needs no money.",
        fixed={"simulate": True},
        schemas=SIZE,
    ),
    RestTool(
        "trade",
        "post_api_agent_v1_trade",
        "Place a bet with real money",
        "Stakes sizeUsd of real USDC on a side; it cannot be taken back. Without a payment it moves nothing and "
        'answers with x402\'s PaymentRequired; with the signed payment in _meta["x402/payment"] it answers with the '
        "receipt: tradeId, shares, txHash. The same idemKey with the same market, side and size never pays twice: "
        "after any doubt call again with it. Above 10 USD pass quoteId and minSharesOut. 10 a minute for each wallet.",
        fixed={"simulate": False},
        schemas=SIZE,
        read_only=False,
        destructive=True,
    ),
    RestTool(
        "get_positions",
        "get_api_agent_v1_positions",
        "A wallet's positions",
        "A wallet's bets, newest first: status (open, resolved-won, resolved-lost, resolved-refunded), stake, shares, "
        "value now, payoutUsd once settled; and the sums over all of them.",
        required=("wallet",),
        defaults={"limit": 50},
    ),
    RestTool(
        "get_result",
        "get_api_agent_v1_result",
        "How a market ended",
        "Whether a market is resolved or pending, the outcome that won, what was read, and the transaction.",
    ),
    RestTool(
        "get_proof",
        "get_api_agent_v1_proof_tradeId",
        "Proof of a bet",
        "A settled bet on the chain: transaction, block, contract, and whether it is final.",
    ),
    RestTool(
        "get_events",
        "get_api_agent_v1_events_replay",
        "A wallet's events in order",
        "What happened to a wallet's bets, from fromSeq on: bet.placed, market.resolved, position.won, payout.paid and "
        "so on. Numbers have no gap; pass nextSeq as fromSeq for more. Where it is null that is all there is: the next "
        "time go on from lastSeq + 1.",
        required=("wallet",),
        defaults={"limit": 50},
    ),
    RestTool(
        "get_resolved",
        "get_api_agent_v1_resolved",
        "What has been decided since",
        "How a wallet's markets ended after an instant, oldest first; pass nextSince as since for more. Where it is "
        "null that is all there is: the next time go on from the createdAt of the last one, with all its digits.",
        required=("wallet",),
    ),
    RestTool(
        "register_webhook",
        "post_api_agent_v1_webhooks",
        "Push a wallet's events to a URL",
        "Has every event of a wallet posted to an https URL. The wallet signs `message` with personal_sign; a refusal "
        "shows in details.message the exact text that would be taken. The answer has the secret that deliveries are "
        "signed with, once.",
        read_only=False,
        idempotent=False,
    ),
    RestTool(
        "get_webhook",
        "get_api_agent_v1_webhooks_id",
        "How a webhook stands",
        "Whether a webhook is verified, active or switched off, and its last failure.",
        renamed={"id": "webhookId"},
    ),
    RestTool(
        "test_webhook",
        "post_api_agent_v1_webhooks_id_test",
        "Send a test event",
        "Pushes an event of the type `test` to a webhook; one that was switched off begins anew.",
        renamed={"id": "webhookId"},
        read_only=False,
        idempotent=False,
    ),
    RestTool(
        "remove_webhook",
        "delete_api_agent_v1_webhooks_id",
        "Remove a webhook",
        "Ends the deliveries to a webhook for good.",
        renamed={"id": "webhookId"},
        read_only=False,
        destructive=True,
    ),
    RestTool(
        "get_health",
        "get_api_agent_v1_health",
        "Are bets taken now?",
        "Whether bets are taken (ok), and if not, why; how many markets are open.",
    ),
)
