"""Every error code of every surface: what causes it and what to do next. /errors.txt shows it; a test holds it complete
against the codes in the code."""

from __future__ import annotations

from collections.abc import Mapping

from api.agent.errors import CATALOGUE

AGENT_CAUSES: Mapping[str, str] = {
    "invalid_request": "The request does not fit its description; issues names each field and what it must be.",
    "market_not_found": "No market has this id or slug.",
    "not_found": "There is nothing at this path, or no trade or webhook with this id.",
    "platform_disabled": "The operator has switched the agent platform off.",
    "market_closed": "The market takes no bets: they have ended (deadlineAt), or have not begun.",
    "idem_conflict": "This wallet used the idemKey for a trade of another market, side, size or builder.",
    "invalid_side": "The market has no outcome with this key.",
    "invalid_wallet": "It is no address, or the signature of a registration is not this wallet's.",
    "size_below_min": "The bet is below 1 USD.",
    "quote_required": "A bet above 10 USD came without quoteId, or without a limit beside it.",
    "quote_expired": "The quote is older than 60 seconds.",
    "quote_mismatch": "The quote is for another market, side or size, has served another trade, or is unknown.",
    "slippage_exceeded": "The book gives fewer shares now, or at a higher price, than the trade's limits allow.",
    "insufficient_balance": "The paying wallet holds less USDC on Base than the bet.",
    "pool_impact_exceeded": "The bet alone moves the price by over 40 points, or the market's stakes reach their cap.",
    "unsupported_market": "This service cannot settle the market: it does not know its feed.",
    "payment_invalid": "The chain refuses the payment: the authorization was used or cancelled, or will not move.",
    "rate_limited": "Too many requests of one address or wallet, or the same trade is being settled.",
    "internal_error": "Something on our side cannot be read or failed; a txHash means the payment was sent.",
    "platform_paused": "Bets are paused, or Base or the relayer cannot be reached.",
    "method_not_allowed": "The path does not take this method.",
    "payload_too_large": "The body or a header is longer than the path takes.",
    "unsupported_media_type": "The body did not come as application/json.",
    "payment_required": "No payment came, or it is not for this bet: the 402 challenge. Named so in logs only.",
    "deposit_above_max": "Reserved; never sent.",
    "deposit_unconfirmed": "Reserved; never sent.",
    "deposit_mismatch": "Reserved; never sent.",
    "deposit_tx_reused": "Reserved; never sent.",
}

COMMON: Mapping[str, tuple[str, str]] = {
    "invalid_request": ("The request does not fit its description.", "Correct what the message names."),
    "not_found": ("There is nothing at this path.", "Look the path up in /docs."),
    "method_not_allowed": ("The path does not take this method.", "Use one of those in the Allow header."),
    "payload_too_large": ("The body is too long.", "Send a shorter one."),
    "unsupported_media_type": ("The body did not come as application/json.", "Send it with that Content-Type."),
    "rate_limited": ("Too many requests.", "Wait for the seconds in Retry-After."),
    "busy": ("More is under way than can be taken in.", "Send the same again after Retry-After."),
    "unavailable": ("What the answer needs cannot be read now.", "Send the same again shortly."),
    "internal_error": ("Something broke on our side.", "Send the same again shortly; tell us the X-Request-Id."),
}

STOCK: Mapping[str, tuple[str, str]] = {
    "market_not_found": ("No market has this id.", "Take one from GET /api/markets."),
    "market_closed": ("The market takes no bets now.", "Take one whose phase is opens or live."),
    "amount_out_of_bounds": (
        "The bet is outside minEntry to maxEntry, or its side is full.",
        "Bet an amount within, where headroom is left.",
    ),
    "expired": ("validBefore is under 30 seconds or over an hour ahead.", "Ask for typed data again and sign it."),
    "bad_signature": ("The signature is not this signer's over this bet.", "Sign what /api/relay/typed-data gives."),
    "contract_signer": ("The signer is a contract; the relay takes keys only.", "Send escapeKit from the wallet."),
    "already_used": ("The authorization was used or cancelled.", "Look at /positions; sign anew with another salt."),
    "insufficient_balance": ("The signer holds less USDG than the bet.", "Fund the wallet, or bet less."),
    "simulation_failed": ("The contract would refuse the bet.", "Read the message; it has the contract's reason."),
    "region_blocked": ("The relay does not serve this region.", "The contract takes escapeKit from any wallet."),
    "relay_failed": ("The transaction could not be sent.", "Send the same body again: it is one bet."),
    "relay_unavailable": ("The relay is down or out of gas.", "Send the same body later, or escapeKit yourself."),
    "not_deployed": ("The contracts are not on this chain yet.", "Come back after the launch."),
    "keeper_unavailable": ("The keeper's job cannot be asked for.", "Call again; jobs run by themselves, too."),
    "unauthorized": ("A cron call came without the operator's secret.", "These calls are the operator's."),
}

CUP: Mapping[str, tuple[str, str]] = {
    "cup_closed": ("The tournament is not running.", "Come back within its window."),
    "market_not_found": ("No paper market has this slug.", "Take one from GET /markets."),
    "market_closed": ("Trades have ended (deadlineAt), or not begun.", "Take another market."),
    "invalid_side": ("The market has no such outcome.", "Use one of validSides."),
    "signature_required": ("A real trade or bet came unsigned.", "Sign the message that the answer shows."),
    "invalid_signature": ("It is not this wallet's, or too old: see reason.", "Sign expectedMessage again."),
    "insufficient_funds": ("The wallet has less than it needs: see balance and needed.", "Stake less."),
    "trade_conflict": ("The tradeId was used for another trade.", "Choose a new tradeId."),
    "cup_agent_trades_halted": ("Live trading of agents is halted.", "Enroll the wallet, then send the same again."),
    "house_fleet_wallet": ("The operator's own wallets cannot enroll.", "Use a wallet of your own."),
    "no_round": ("The first round has not opened.", "Ask again shortly."),
    "round_closed": ("It is not the live round, or its bets have ended.", "Bet on the live roundNo in phase bet."),
    "invalid_bet_key": ("The round has no such key.", "Use one of validKeys."),
    "stake_out_of_bounds": ("The stake is outside the bounds.", "Stake within bounds."),
    "bet_conflict": ("This key has another stake of yours in this round.", "Leave it, or take another key."),
}


def tables() -> Mapping[str, Mapping[str, tuple[str, str]]]:
    """By surface: each code's cause and next step."""
    agent = {code: (AGENT_CAUSES[code], entry.hint) for code, entry in CATALOGUE.items()}
    return {"Agent API": agent, "Stock surface": STOCK, "Cup": CUP, "Stock surface and cup": COMMON}
