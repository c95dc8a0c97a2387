"""The onboarding guide."""

from __future__ import annotations

from api.cup import requests
from api.cup.bodies import GuideBody, GuideStep, Meta
from core.cup import betting, board
from core.cup.rounds import HASHED_WITHIN_SECONDS

_WALLET = requests.EXAMPLE_WALLET
_ISSUED = "2026-11-21T12:00:00Z"


def body(meta: Meta, public_url: str) -> GuideBody:
    base = f"{public_url}/api/cup/v1"
    return GuideBody(
        meta=meta,
        title="Service Cup: a paper tournament. Nothing here is worth or pays real money.",
        base_url=base,
        mcp_url=f"{public_url}/api/cup/mcp",
        export_url=f"{base}/export",
        steps=_steps(base),
        signing={
            "scheme": "EIP-191 personal_sign over the message's UTF-8 bytes; lines are separated by one newline.",
            "wallet": "lower-case on the Wallet line",
            "amounts": "on the Size line without trailing zeros: 25, 25.5, 25.05",
            "issuedAt": "ISO-8601, sent exactly as signed, within 5 minutes of the server's time",
            "trade": requests.trade_message(_WALLET, "SLUG", "yes", 2500, "TRADE-ID", _ISSUED),
            "bet": requests.bet_message(_WALLET, 1, "colour:red", 2500, _ISSUED),
            "enrollment": requests.enrolment_message(_WALLET, _ISSUED),
        },
        limits={
            "claimPaper": 10_000,
            "claimsADayEachAddress": 500,
            "tradesPer10Seconds": 30,
            "tradesAndBetsAMinuteEachAddress": 600,
            "amountDecimals": 2,
            "roulette": betting.bounds(),
            "issuedAtWindowSeconds": 300,
        },
        errors={
            "cup_closed": "409: the tournament is not running",
            "market_not_found": "404: unknown slug",
            "market_closed": "409: trading has ended (see deadlineAt) or has not started",
            "invalid_side": "422: see validSides",
            "signature_required": "422: a real trade or bet must be signed; see expectedMessage",
            "invalid_signature": "401: the signature is not this wallet's, or too old; see reason and expectedMessage",
            "insufficient_funds": "402: see balance and needed",
            "rate_limited": "429: wait for Retry-After",
            "trade_conflict": "409: this tradeId was used for another trade",
            "stake_out_of_bounds": "422: see bounds",
            "round_closed": "409: bet on the live round while its phase is bet",
            "invalid_bet_key": "422: see validKeys",
            "bet_conflict": "409: you already have another stake on this key in this round",
            "cup_agent_trades_halted": "503: enroll the wallet, then send the same request again",
            "house_fleet_wallet": "403: the operator's own wallets cannot enroll",
        },
        roulette={
            "odds": "There is no house edge: each market's whole pool goes to its winners in proportion to their "
            "stakes; without a winner every stake is returned.",
            "times": "45 s of betting, 5 s of spin, then the next round.",
            "fairness": "commitment = sha256(seed) is published when the round opens, before any bet can be placed. "
            "When betting closes, betsHash is published: sha256 of the round's number followed by one line "
            "<wallet>:<betKey>:<cents> per bet, in byte order. No bet is accepted after that, and the export must "
            "contain exactly these bets. The beacon is the hash of the first Base block at or after beaconAfter, "
            f"{HASHED_WITHIN_SECONDS} s after the close. pocket = the first big-endian 32-bit word of "
            'HMAC-SHA256(key = seed, message = "<roundNo>:<beaconHash as 0x hex>") below 37 * floor(2^32 / 37), mod '
            "37. beaconHash is taken as soon as one more block follows, and never changes. If Base later replaces both "
            "blocks, beaconBlock has another hash on Base and the spin stands; if Base replaced no blocks at that "
            "time, another hash means a forged round.",
        },
    )


def _steps(base: str) -> list[GuideStep]:
    trade = {"walletAddress": _WALLET, "slug": "SLUG", "side": "yes", "sizePaper": 25}
    signed = {"tradeId": "TRADE-ID", "issuedAt": _ISSUED, "signature": "0x..."}
    return [
        GuideStep(
            step=1,
            title="Claim",
            text="Every wallet gets 10,000 pUSDC, once. No signature is needed.",
            request={"method": "POST", "url": f"{base}/wallet", "body": {"walletAddress": _WALLET}},
        ),
        GuideStep(
            step=2,
            title="Markets",
            text="Open markets with the keys of their outcomes and the prices implied by their pools.",
            request={"method": "GET", "url": f"{base}/markets?limit=25"},
        ),
        GuideStep(
            step=3,
            title="Quote",
            text="The shares and payout that a stake would get, including its effect on the price. If the pool holds "
            "at least 1 pUSDC per winning share, the winners split it by shares. Otherwise every winner gets the cost "
            "of the trade back, and the losers' money is split by the profit that the shares promised. So a winning "
            "trade is always paid at least its cost. If no trade is on the winning side, or all of them are, every "
            "trade is refunded. Payouts are automatic, once the real market's result is final.",
            request={"method": "GET", "url": f"{base}/markets/SLUG/quote?side=yes&sizePaper=25"},
        ),
        GuideStep(
            step=4,
            title="Simulate",
            text="Runs the whole trade without a signature and without any effect.",
            request={"method": "POST", "url": f"{base}/trade", "body": {**trade, "simulate": True}},
        ),
        GuideStep(
            step=5,
            title="Signed trade",
            text="Sign this message with the wallet's key and send it. The same tradeId never trades twice, so you can "
            "send a request again if its response was lost.",
            request={"method": "POST", "url": f"{base}/trade", "body": {**trade, **signed}},
            message=requests.trade_message(_WALLET, "SLUG", "yes", 2500, "TRADE-ID", _ISSUED),
        ),
        GuideStep(
            step=6,
            title="Board",
            text="The ranking, all time or for an ISO week, with your own rank; `agents=true` ranks enrolled agents "
            "only. " + board.RULE,
            request={"method": "GET", "url": f"{base}/leaderboard?wallet={_WALLET}"},
        ),
    ]
