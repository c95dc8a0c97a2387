"""The checks of a bet before it is relayed, by its body and by the chain's state. Each passes or raises a refusal."""

from __future__ import annotations

from api.problems import Problem
from api.stock.authorization import StockBet
from api.stock.bets import RelayedBet
from api.stock.landing import ChainFacts
from api.stock.refusals import with_kit
from core.contracts.deployments import Token
from core.contracts.statuses import StockMarketStatus
from core.money import USD, decimal_text
from core.stock.vested import UP

MIN_BET, MAX_BET = 1 * USD, 100 * USD
MIN_AHEAD_SECONDS, MAX_AHEAD_SECONDS = 30, 3600


def check_amount(amount: int, least: int = MIN_BET, most: int = MAX_BET) -> None:
    """Refuse an amount outside these bounds."""
    if not least <= amount <= most:
        raise Problem(
            400,
            "amount_out_of_bounds",
            f"A bet here is from {decimal_text(least)} to {decimal_text(most)} USDG; this one is "
            f"{decimal_text(amount)}.",
            extra={"minEntry": str(least), "maxEntry": str(most)},
        )


def check_bounds(bet: StockBet, facts: ChainFacts) -> None:
    if facts.market is not None:
        check_amount(bet.amount, max(MIN_BET, facts.market["minEntry"]), min(MAX_BET, facts.market["maxEntry"]))


def check_window(bet: StockBet, head_time: int, now: int) -> None:
    """Refuse a bet whose window is over, not open yet or too long. head_time: time of the newest block, on which the
    bet is simulated. now: the chain's clock, which runs on between blocks."""
    if bet.valid_after >= head_time:
        raise _expired(f"The bet is valid only after {bet.valid_after}; the newest block has time {head_time}.")
    if bet.valid_before < now + MIN_AHEAD_SECONDS:
        raise _expired(
            f"The bet is valid until {bet.valid_before}, less than {MIN_AHEAD_SECONDS} s ahead of the chain's clock "
            f"({now}). Sign a new one."
        )
    if bet.valid_before > now + MAX_AHEAD_SECONDS:
        raise _expired(
            f"The bet is valid until {bet.valid_before}, more than an hour ahead of the chain's clock ({now}). Sign a "
            "shorter one."
        )


def _expired(message: str) -> Problem:
    return Problem(400, "expired", message)


def check_market(bet: StockBet, facts: ChainFacts, now: int) -> None:
    market = facts.market
    if market is None:
        raise Problem(404, "market_not_found", f"No market {bet.market_id} was ever listed.")
    if market["status"] != StockMarketStatus.OPEN:
        raise market_closed("This market is settled.")
    if now >= market["freezeTime"]:
        raise market_closed("This market is past its bell.")
    if facts.entries_paused:
        raise market_closed("New bets are paused on all markets; payouts continue.")


def market_closed(why: str) -> Problem:
    return Problem(409, "market_closed", f"{why} It takes no bets.")


def check_halt(why: str | None) -> None:
    """Refuse a bet while the price stands still, since the outcome may be known."""
    if why is not None:
        raise market_closed(f"{why} Bets resume once the price moves again.")


def check_room(bet: StockBet, facts: ChainFacts) -> None:
    """Refuse a bet on a side without room for the smallest bet: booking it and refunding it would both cost us gas."""
    assert facts.market is not None
    least = max(MIN_BET, facts.market["minEntry"])
    if facts.room < least:
        side, other = ("UP", "DOWN") if bet.outcome == UP else ("DOWN", "UP")
        raise Problem(
            400,
            "amount_out_of_bounds",
            f"{side} is full: it takes {decimal_text(facts.room)} USDG more, and a bet is at least "
            f"{decimal_text(least)}. It has room again when {other} grows.",
            extra={"headroom": str(facts.room)},
        )


def check_wallet(relayed: RelayedBet, facts: ChainFacts) -> None:
    if facts.signer_has_code:
        raise Problem(
            400,
            "contract_signer",
            "The signing wallet is a smart contract; gasless bets need a regular wallet's signature. Send the call "
            "in escapeKit yourself: the token asks your wallet to confirm the signature (ERC-1271).",
            extra=with_kit(relayed),
        )


def check_domain(relayed: RelayedBet) -> None:
    bet, chain, settler = relayed.bet, relayed.named_chain, relayed.named_settler
    if chain is not None and chain != bet.chain_id:
        raise _bad_signature(f"The bet names chain {chain}, and this service is on chain {bet.chain_id}.")
    if settler is not None and settler.lower() != bet.settler.lower():
        raise _bad_signature(f"The bet names another contract; this service's is {bet.settler}.")


def check_signature(relayed: RelayedBet, token: Token) -> None:
    if not relayed.is_signed:
        raise _bad_signature(
            "The signature does not match this wallet, market, side, amount, window and salt. Sign "
            f"ReceiveWithAuthorization of {token.domain_name} version {token.domain_version} on chain "
            f"{relayed.bet.chain_id}, with the nonce that GET /api/relay/typed-data shows."
        )


def _bad_signature(message: str) -> Problem:
    return Problem(400, "bad_signature", message)


def check_unused(facts: ChainFacts) -> None:
    if facts.authorization_used:
        raise Problem(409, "already_used", "This signature was already used or cancelled; sign a new bet.")


def check_balance(bet: StockBet, facts: ChainFacts) -> None:
    if facts.balance < bet.amount:
        raise Problem(
            422,
            "insufficient_balance",
            f"The wallet holds {decimal_text(facts.balance)} USDG on this chain, and the bet is "
            f"{decimal_text(bet.amount)}. Add USDG and send the same body again.",
        )


def check_call(facts: ChainFacts) -> None:
    if facts.refusal is not None:
        raise Problem(
            422,
            "simulation_failed",
            f"The bet would be refused by the contract. {facts.refusal.message}",
            extra={"reason": facts.refusal.name},
        )
