"""The onboarding guide: the same data for `GET /getting-started` and for the MCP tool."""

from __future__ import annotations

from api.cup.bodies import GuideBody, GuideStep, Meta
from api.cup.requests import EXAMPLE_WALLET
from core.cup import betting, messages, scoring
from core.cup.rounds import HASHED_WITHIN_SECONDS

_WALLET = EXAMPLE_WALLET
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
            "scheme": "EIP-191 personal_sign over the message's UTF-8 bytes; lines are joined by a single newline.",
            "wallet": "lower-case on the Wallet line",
            "amounts": "on the Size line without trailing zeros: 25, 25.5, 25.05",
            "issuedAt": "ISO-8601, sent exactly as signed, within 5 minutes of our time",
            "trade": messages.trade_message(_WALLET, "SLUG", "yes", 2500, "TRADE-ID", _ISSUED),
            "bet": messages.bet_message(_WALLET, 1, "colour:red", 2500, _ISSUED),
            "enrollment": messages.enrolment_message(_WALLET, _ISSUED),
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
            "market_closed": "409: trades have ended (see deadlineAt), or not begun",
            "invalid_side": "422: see validSides",
            "signature_required": "422: a real trade or bet must be signed; see expectedMessage",
            "invalid_signature": "401: the signature is not this wallet's, or too old; see reason and expectedMessage",
            "insufficient_funds": "402: see balance and needed",
            "rate_limited": "429: wait for Retry-After",
            "trade_conflict": "409: this tradeId was used for another trade",
            "stake_out_of_bounds": "422: see bounds",
            "round_closed": "409: bet on the live round while its phase is bet",
            "invalid_bet_key": "422: see validKeys",
            "bet_conflict": "409: this key has another stake of yours in this round",
            "cup_agent_trades_halted": "503: enroll the wallet, then send the same request again",
            "house_fleet_wallet": "403: the operator's own wallets cannot enroll",
        },
        roulette={
            "odds": "No house odds: each market's whole pool goes to its winners by stake; without a winner everybody "
            "has the stake back.",
            "times": "45 s of betting, 5 s of spin, then the next round.",
            "fairness": "commitment = sha256(seed) is shown from the round's opening on, before any bet can be placed. "
            "At the close betsHash is shown: sha256 of the round's number and, on a line each in byte order, "
            "<wallet>:<betKey>:<cents> of every bet. From then on none is taken, and the export has to have these. "
            f"The beacon is the hash of the first Base block at or after beaconAfter, {HASHED_WITHIN_SECONDS} s after "
            "the close. pocket = the first big-endian "
            "32-bit word of HMAC-SHA256(key = seed, "
            'message = "<roundNo>:<beaconHash as 0x hex>") below 37 * floor(2^32 / 37), mod 37. '
            "beaconHash is taken once one more block follows, and kept: should Base replace both later, beaconBlock "
            "has another hash there, and the spin stands. Where Base replaced no blocks then, another hash is a false "
            "round.",
        },
    )


def _steps(base: str) -> list[GuideStep]:
    trade = {"walletAddress": _WALLET, "slug": "SLUG", "side": "yes", "sizePaper": 25}
    signed = {"tradeId": "TRADE-ID", "issuedAt": _ISSUED, "signature": "0x..."}
    return [
        GuideStep(
            step=1,
            title="Claim",
            text="Every wallet gets 10,000 pUSDC, once. No signature.",
            request={"method": "POST", "url": f"{base}/wallet", "body": {"walletAddress": _WALLET}},
        ),
        GuideStep(
            step=2,
            title="Markets",
            text="Open markets with the keys of their outcomes and the prices their pools imply.",
            request={"method": "GET", "url": f"{base}/markets?limit=25"},
        ),
        GuideStep(
            step=3,
            title="Quote",
            text="What a stake would get. A price moves with the pool, and the quote has that in it. Winners split "
            "the pool by shares if it has a pUSDC for each; else every winner has back what the trade cost, and what "
            "the losers paid is split by what the shares promised beyond that. So a right trade never gets less than "
            "it cost. If nobody holds the side that wins, or nobody holds another one, all trades are given back. "
            "All of that happens by itself, once the listed market's result is final.",
            request={"method": "GET", "url": f"{base}/markets/SLUG/quote?side=yes&sizePaper=25"},
        ),
        GuideStep(
            step=4,
            title="Simulate",
            text="The whole trade without signature and without effect.",
            request={"method": "POST", "url": f"{base}/trade", "body": {**trade, "simulate": True}},
        ),
        GuideStep(
            step=5,
            title="Signed trade",
            text="Sign this message with the wallet's key and send it. The same tradeId never trades twice, so a "
            "request whose answer was lost can be sent again.",
            request={"method": "POST", "url": f"{base}/trade", "body": {**trade, **signed}},
            message=messages.trade_message(_WALLET, "SLUG", "yes", 2500, "TRADE-ID", _ISSUED),
        ),
        GuideStep(
            step=6,
            title="Board",
            text="All time or for an ISO week, with your own rank; `agents=true` is the board of enrolled agents. "
            + scoring.RULE,
            request={"method": "GET", "url": f"{base}/leaderboard?wallet={_WALLET}"},
        ),
    ]
