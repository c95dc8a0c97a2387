"""What a bet that is to be relayed is checked for: by its body alone, then by what the chain says of it.

Each check passes, or raises the refusal.
"""

from __future__ import annotations

from api.stock import refusals
from api.stock.authorization import StockBet
from api.stock.bet_bounds import MAX_BET, MIN_BET, check_amount
from api.stock.landing import ChainFacts
from api.stock.relayed import RelayedBet
from core.contracts.deployments import Token
from core.contracts.statuses import StockMarketStatus

MIN_AHEAD_SECONDS, MAX_AHEAD_SECONDS = 30, 3600


def check_bounds(bet: StockBet, facts: ChainFacts) -> None:
    """The tighter of ours and the market's."""
    if facts.market is not None:
        check_amount(bet.amount, max(MIN_BET, facts.market["minEntry"]), min(MAX_BET, facts.market["maxEntry"]))


def check_window(bet: StockBet, head_time: int, now: int) -> None:
    """head_time: of the newest block, which it is tried on before it is sent. now: the chain's clock, which runs on
    between blocks."""
    if bet.valid_after >= head_time:
        raise refusals.expired(
            f"The bet is valid only after {bet.valid_after}; the chain's newest block is of {head_time}."
        )
    if bet.valid_before < now + MIN_AHEAD_SECONDS:
        raise refusals.expired(
            f"The bet is valid until {bet.valid_before}, less than {MIN_AHEAD_SECONDS} s ahead of the chain's clock "
            f"({now}). Sign a new one."
        )
    if bet.valid_before > now + MAX_AHEAD_SECONDS:
        raise refusals.expired(
            f"The bet is valid until {bet.valid_before}, more than an hour ahead of the chain's clock ({now}). Sign a "
            "shorter one."
        )


def check_market(bet: StockBet, facts: ChainFacts, now: int) -> None:
    market = facts.market
    if market is None:
        raise refusals.market_not_found(bet.market_id)
    if market["status"] != StockMarketStatus.OPEN:
        raise refusals.market_closed("This market is settled.")
    if now >= market["freezeTime"]:
        raise refusals.market_closed("This market is past its bell.")
    if facts.entries_paused:
        raise refusals.market_closed("New bets are paused on all markets; payouts go on.")


def check_halt(why: str | None) -> None:
    """Refuse a bet on a price that stands still: its answer may be known."""
    if why is not None:
        raise refusals.market_closed(f"{why} Bets go on once the price moves again.")


def check_room(bet: StockBet, facts: ChainFacts) -> None:
    """A side that takes less than the least bet would book it and give it back, both at our expense."""
    assert facts.market is not None
    least = max(MIN_BET, facts.market["minEntry"])
    if facts.room < least:
        raise refusals.side_is_full(bet.outcome, facts.room, least)


def check_wallet(relayed: RelayedBet, facts: ChainFacts) -> None:
    if facts.signer_has_code:
        raise refusals.contract_signer(relayed)


def check_domain(relayed: RelayedBet) -> None:
    bet, chain, settler = relayed.bet, relayed.chain_named, relayed.settler_named
    if chain is not None and chain != bet.chain_id:
        raise refusals.bad_signature(f"This service is on chain {bet.chain_id}, and the bet names chain {chain}.")
    if settler is not None and settler.lower() != bet.settler.lower():
        raise refusals.bad_signature(f"The bet names another contract; this service's is {bet.settler}.")


def check_signature(relayed: RelayedBet, token: Token) -> None:
    if not relayed.is_signed:
        raise refusals.bad_signature(
            "The signature does not match this wallet, market, side, amount, window and salt. Sign "
            f"ReceiveWithAuthorization of {token.domain_name} version {token.domain_version} on chain "
            f"{relayed.bet.chain_id}, with the nonce that GET /api/relay/typed-data shows."
        )


def check_unused(facts: ChainFacts) -> None:
    if facts.authorization_used:
        raise refusals.already_used()


def check_balance(bet: StockBet, facts: ChainFacts) -> None:
    if facts.balance < bet.amount:
        raise refusals.insufficient_balance(facts.balance, bet.amount)


def check_call(facts: ChainFacts) -> None:
    if facts.refusal is not None:
        raise refusals.would_revert(facts.refusal)
