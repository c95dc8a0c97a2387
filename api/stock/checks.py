"""The chain's state for a bet, the checks of the bet before it is relayed, and the relay's other refusals.

Each check returns nothing, or raises a refusal.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from api.problems import Problem
from api.stock.bets import RelayedBet, StockBet
from api.stock.sources import StockContracts
from core.chain import Call, ChainClient, ContractReverted, RpcError, RpcErrorKind, values
from core.contracts.deployments import Token
from core.contracts.statuses import StockMarketStatus
from core.hexadecimal import hex_of
from core.money import USD, decimal_text
from core.outbox import Intent
from core.stock.vested import UP


@dataclass(frozen=True, slots=True)
class ChainFacts:
    """The chain's state for a bet at one block. `market`: None if its id was never listed. `room`: the amount that the
    bet's side still accepts; all bets in that block share it. `refusal`: the revert of the bet's call, if simulated."""

    block: int
    timestamp: int
    market: dict[str, Any] | None
    room: int
    entries_paused: bool
    signer_has_code: bool
    authorization_used: bool
    balance: int
    refusal: ContractReverted | None


async def read_facts(
    client: ChainClient, contracts: StockContracts, bet: StockBet, call: Call | None, timeout_seconds: float
) -> ChainFacts:
    """Read the facts about a bet. If `call`, which places the bet, is given, also simulate it on the same block. Raise
    RpcError if no node responds."""
    calls = [
        contracts.settler.call("market", bet.market_id),
        contracts.settler.call("books", bet.market_id),
        contracts.settler.call("entriesPaused"),
        contracts.token.call("authorizationState", bet.signer, bet.nonce),
        contracts.token.call("balanceOf", bet.signer),
    ]
    if call is not None:
        calls.append(call)
    head, code, (market, books, *answers) = await client.read_newest(bet.signer, calls, timeout_seconds=timeout_seconds)
    tried = None if call is None else answers.pop()
    refusal = tried if isinstance(tried, ContractReverted) else None
    if isinstance(market, RpcError) and market.kind is RpcErrorKind.REVERTED:
        market = books = None
    market, books, paused, used, balance, _ = values([market, books, *answers, None if refusal else tried])
    return ChainFacts(
        block=head.number,
        timestamp=head.timestamp,
        market=None if market is None or market["status"] == StockMarketStatus.NONE else market,
        room=0 if books is None else _room(books[1 - bet.outcome]),
        entries_paused=paused,
        signer_has_code=bool(code),
        authorization_used=used,
        balance=balance,
        refusal=refusal,
    )


def _room(opposite: Mapping[str, int]) -> int:
    """Return the amount that an outcome may still accept, from the book of the opposite outcome."""
    return max(0, opposite["capacity"] - opposite["vested"])


MIN_BET, MAX_BET = 1 * USD, 100 * USD
MIN_AHEAD_SECONDS, MAX_AHEAD_SECONDS = 30, 3600


def check_amount(amount: int, least: int = MIN_BET, most: int = MAX_BET) -> None:
    if not least <= amount <= most:
        raise Problem(
            400,
            "amount_out_of_bounds",
            f"A bet must be from {decimal_text(least)} to {decimal_text(most)} USDG; this one is "
            f"{decimal_text(amount)}.",
            extra={"minEntry": str(least), "maxEntry": str(most)},
        )


def check_bounds(bet: StockBet, facts: ChainFacts) -> None:
    if facts.market is not None:
        check_amount(bet.amount, max(MIN_BET, facts.market["minEntry"]), min(MAX_BET, facts.market["maxEntry"]))


def check_window(bet: StockBet, head_time: int, now: int) -> None:
    """Refuse a bet that has expired, is not valid yet or is valid for too long. `head_time`: the time of the newest
    block, on which the bet is simulated. `now`: the time by the chain's clock, which keeps running between blocks."""
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
        raise Problem(404, "market_not_found", f"Market {bet.market_id} was never listed.")
    if market["status"] != StockMarketStatus.OPEN:
        raise market_closed("This market is settled and takes no more bets.")
    if now >= market["freezeTime"]:
        raise market_closed("This market is past its bell and takes no more bets.")
    if facts.entries_paused:
        raise market_closed("New bets are paused on all markets; payouts continue.")


def market_closed(why: str) -> Problem:
    return Problem(409, "market_closed", why)


def check_halt(why: str | None) -> None:
    """Refuse a bet while betting is halted, because the price is frozen and the outcome may be known. `why`: the reason
    for the halt, or None."""
    if why is not None:
        raise market_closed(f"{why} Bets resume when the price moves again.")


def check_room(bet: StockBet, facts: ChainFacts) -> None:
    """Refuse a bet if its side has no room for the smallest bet, because booking the bet and refunding it would both
    cost gas."""
    assert facts.market is not None
    least = max(MIN_BET, facts.market["minEntry"])
    if facts.room < least:
        side, other = ("UP", "DOWN") if bet.outcome == UP else ("DOWN", "UP")
        raise Problem(
            400,
            "amount_out_of_bounds",
            f"{side} is full: it has room for {decimal_text(facts.room)} USDG, and the smallest bet is "
            f"{decimal_text(least)}. It will have room again when {other} grows.",
            extra={"headroom": str(facts.room)},
        )


def check_wallet(facts: ChainFacts) -> None:
    if facts.signer_has_code:
        raise Problem(
            400,
            "contract_signer",
            "The signing wallet is a smart contract; gasless bets need a regular wallet's signature. Send the call "
            "in escapeKit yourself: the token checks the signature with your wallet (ERC-1271).",
        )


def check_domain(relayed: RelayedBet) -> None:
    bet, chain, settler = relayed.bet, relayed.named_chain, relayed.named_settler
    if chain is not None and chain != bet.chain_id:
        raise _bad_signature(f"The bet is for chain {chain}, but this service is on chain {bet.chain_id}.")
    if settler is not None and settler.lower() != bet.settler.lower():
        raise _bad_signature(f"The bet is for another contract; this service uses {bet.settler}.")


def check_signature(relayed: RelayedBet, token: Token) -> None:
    if not relayed.is_signed:
        raise _bad_signature(
            "The signature does not match this wallet, market, side, amount, time window and salt. Sign "
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
            f"The contract would refuse the bet. {facts.refusal.message}",
            extra={"reason": facts.refusal.name},
        )


# ---------------------------------------------------------------- refusals that no check raises

TOO_MANY = "The relay accepts 10 requests a minute."

_FAILED = (
    "The transaction could not be confirmed; the bet may have been placed. Send the same body again: a signature is "
    "accepted once, so this never bets twice."
)


class NodesDisagree(Problem):
    """The 502 for a bet when nodes contradict each other about it. It raises no alarm, because a payer can cause it by
    moving money back and forth. Nodes that do not respond do raise an alarm."""


def region_blocked(region: str) -> Problem:
    return Problem(403, "region_blocked", f"Stock-price markets are not offered in {region}.")


def not_deployed() -> Problem:
    return Problem(503, "not_deployed", "The stock markets are not deployed yet; there is nothing to bet on.")


def already_booked(relayed: RelayedBet, tx: bytes, position: str | None) -> Problem:
    """Refuse a bet whose confirmation has already reached the bettor. If the refusal looked like a failure, the bettor
    would bet again."""
    as_position = "" if position is None else f" as position {position}"
    return Problem(
        409,
        "already_used",
        f"This bet is already booked{as_position} in transaction {hex_of(tx)}; send nothing more. "
        "Its signature is used: to place another bet, sign a new one.",
        extra={"nonce": relayed.nonce_hex, "txHash": hex_of(tx), "positionId": position, "receipt": "confirmed"},
    )


def not_sent(intent: Intent) -> Problem:
    """Refuse a bet that the relayer refused before assigning a nonce."""
    return Problem(
        422,
        "simulation_failed",
        f"The bet was not sent: {intent.reason or 'the contract would refuse it'}",
        extra={"reason": intent.reason_code},
    )


def payer_limited(intent: Intent) -> Problem:
    """Refuse a bet for now, because the wallet's reverted bets have cost too much gas."""
    message = f"The bet was not sent. {intent.reason} You can also send the call in escapeKit yourself."
    return Problem(429, "rate_limited", message, retry_after=300)


def funds_reserved(reserved: int, balance: int) -> Problem:
    message = (
        f"The wallet holds {decimal_text(balance)} USDG, and its pending bets need {decimal_text(reserved)} of it, "
        "which leaves too little for this one. Send the same body again when they are booked."
    )
    return Problem(429, "rate_limited", message, retry_after=5)


def too_many_returned(bets: int) -> Problem:
    message = (
        f"In the past hour {bets} bets of this wallet were refunded almost entirely, because their sides were full. "
        "Bet later, on a side with headroom, or send the call in escapeKit yourself."
    )
    return Problem(429, "rate_limited", message, retry_after=600)


def busy(waiting: int) -> Problem:
    # About a second for every fifty bets ahead, and never longer than a few Ethereum blocks.
    seconds = min(30, 2 + waiting // 50)
    message = f"Many bets are pending. Send the same body again in {seconds} s."
    return Problem(503, "busy", message, retry_after=seconds, extra={"retryAfter": seconds})


def relayer_unavailable() -> Problem:
    message = "The relayer is down or out of gas. Send the call in escapeKit yourself, or try again later."
    return Problem(503, "relay_unavailable", message, retry_after=30)


def outcome_unknown() -> Problem:
    return Problem(502, "relay_failed", _FAILED)


def nodes_disagree() -> NodesDisagree:
    return NodesDisagree(502, "relay_failed", _FAILED)
