"""The tournament's service. Each method takes a validated request and the caller, and returns the response body."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Any, TypeVar, cast

import psycopg
from limits import RateLimitItem, parse
from msgspec import UNSET

from api.caching import TimedValue
from api.cup import bodies, guide, requests
from api.cup.boards import Boards
from api.cup.trades import Batcher, CheckedTrade, check_trades, message_of
from api.limits import RateLimits, network
from api.operations import Body, Json
from api.problems import Problem, invalid_part, unavailable
from core.config import Settings
from core.cup import MAX_CENTS, Refusal, betting, board, books, ledger, number_of, rounds, trading
from core.cup.ledger import snapshot, wallet_account
from core.cup.trading import PaperOrder, PaperReceipt
from core.db.engine import Connection, ConnectionPool
from core.iso import iso_datetime
from core.log import get_logger

log = get_logger(__name__)

WRITES_EACH_WALLET = parse("30 per 10 second")

# Wallets and paper money are free, and ledger rows are kept for ever. So one address may write as much as a hall full
# of players would, a network twice that, and all claims together at most a tenth of a gigabyte a day.
CLAIMS_EACH_CALLER = parse("500/day")
ENROLMENTS_EACH_CALLER = parse("500/day")
WRITES_EACH_CALLER = parse("600/minute")
CLAIMS_EACH_NETWORK = parse("1000/day")
ENROLMENTS_EACH_NETWORK = parse("1000/day")
WRITES_EACH_NETWORK = parse("1200/minute")
CLAIMS_OF_ALL = parse("5000/hour")

HISTORY = 20
# The pools on the wheel are a sum over all bets; one reading is shared for this long.
WHEEL_SECONDS = 0.5

# Pauses between attempts to place a trade or bet while its wallet is locked, for example by a settlement: ten seconds
# in all. Each attempt at a bet is a new transaction.
_BUSY_PAUSES = (0.01,) * 10 + (0.1,) * 99

R = TypeVar("R")
T = TypeVar("T")
B = TypeVar("B", bound=Body)
# A method of the service; the second argument is the caller, for rate limits.
ServiceMethod = Callable[[R, str], Awaitable[B]]


def now_utc() -> datetime:
    return datetime.now(UTC)


@dataclass(frozen=True, slots=True)
class ShownWheel:
    """The wheel at one moment. `history`: past rounds."""

    live: rounds.RouletteRound
    round_totals: betting.RoundTotals
    history: Sequence[rounds.RouletteRound]


@dataclass(frozen=True, slots=True)
class Player:
    """A wallet with its bets on the live round."""

    wallet: str
    bets: Sequence[betting.PlacedBet]
    balance_cents: int


class CupService:
    """The cup's reads and writes. Deadlines and rounds follow this machine's clock."""

    def __init__(self, settings: Settings, pool: ConnectionPool, limits: RateLimits) -> None:
        self._settings = settings
        self._pool = pool
        self._limits = limits
        self._boards = Boards(pool)
        self._wheel: tuple[rounds.RouletteRound | None, TimedValue[ShownWheel]] = (None, TimedValue(self._read_wheel))
        self._checks: Batcher[PaperOrder, CheckedTrade] = Batcher(partial(check_trades, pool))
        self._trades: Batcher[PaperOrder, PaperReceipt] = Batcher(self._place_trades)

    def meta(self) -> bodies.Meta:
        return bodies.Meta(
            name="Service Cup",
            version=bodies.VERSION,
            currency="pUSDC",
            paper=True,
            generated_at=iso_datetime(now_utc()),
            docs_url=f"{self._settings.public_url}/api/cup/v1/getting-started",
        )

    def error(self, problem: Problem) -> Json:
        return {**problem.body, "meta": self.meta()}

    def open_time(self) -> datetime:
        """Return the present time. Raise a 409 while the tournament is not running."""
        now, opens, closes = now_utc(), self._settings.cup_opens_at, self._settings.cup_closes_at
        if opens is None or closes is None or not opens <= now < closes:
            extra = {
                "opensAt": iso_datetime(opens) if opens else None,
                "closesAt": iso_datetime(closes) if closes else None,
            }
            raise Refusal(409, "cup_closed", "The tournament is not running.", extra)
        return now

    def require_open(self) -> None:
        try:
            self.open_time()
        except Refusal as refusal:
            raise _problem(refusal) from None

    async def answer(self, method: ServiceMethod[R, B], request: R, caller: str) -> B:
        """Call one of the service methods below. Raise a 409 while the tournament is not running."""
        try:
            self.open_time()
            return await method(request, caller)
        except Refusal as refusal:
            raise _problem(refusal) from None
        except psycopg.OperationalError as error:
            log.warning("database unavailable", action="cup.no_database", method=method.__name__, why=error)
            raise unavailable() from None

    # ---------------------------------------------------------------- reads

    async def getting_started(self, _request: None, _caller: str) -> bodies.GuideBody:
        return guide.body(self.meta(), self._settings.public_url)

    async def wallet(self, request: requests.WalletPath, _caller: str) -> bodies.WalletBody:
        async with self._pool.connection() as connection:
            summary = await books.summary(connection, request.address)
        return bodies.wallet_body(self.meta(), request.address, summary)

    async def markets(self, request: requests.MarketsQuery, _caller: str) -> bodies.MarketsBody:
        async with self._pool.connection() as connection:
            markets = await books.open_markets(connection, now_utc(), request.limit)
        shown = [bodies.market_body(each) for each in markets]
        return bodies.MarketsBody(meta=self.meta(), count=len(shown), markets=shown)

    async def quote(self, request: tuple[str, requests.QuoteQuery], _caller: str) -> bodies.QuoteBody:
        slug, stake = request
        async with self._pool.connection() as connection:
            market = await books.find(connection, slug)
        now = now_utc()
        receipt = trading.simulate(market, None, stake.side, stake.size_paper, None, now)
        warnings = bodies.trade_warnings(market, receipt.trade.outcome, now)
        return bodies.quote_body(self.meta(), receipt, warnings)

    async def board(self, request: requests.BoardQuery, _caller: str) -> bodies.BoardBody:
        period = request.week or board.ALL_TIME
        shown = await self._boards.get(period, agents=request.agents)
        total = shown.board.total
        written: Any = shown.first(request.limit)
        return bodies.BoardBody(
            meta=self.meta(),
            entries=written,
            total=total,
            week=request.week,
            agents=request.agents,
            rule=board.RULE,
            you=UNSET if request.wallet is None else bodies.You(rank=shown.board.rank(request.wallet), total=total),
        )

    async def round(self, request: requests.RoundQuery, _caller: str) -> bodies.RouletteRoundBody:
        shown, player = await self._wheel_for(request.wallet)
        bets = None if player is None else player.bets
        return bodies.round_body(self.meta(), shown.live, shown.round_totals, shown.history, bets, now_utc())

    async def _wheel_for(self, wallet: str | None) -> tuple[ShownWheel, Player | None]:
        """Return the wheel, and the player if `wallet` is given. If the cached wheel is from an earlier round or lacks
        one of the wallet's bets, read everything again in one snapshot."""
        async with self._pool.connection() as connection, snapshot(connection):
            live, player = await _live_with_player(connection, wallet)
        if self._wheel[0] != live:
            self._wheel = (live, TimedValue(self._read_wheel, WHEEL_SECONDS))
        shown = await self._wheel[1].get()
        if shown.live == live and (player is None or shown.round_totals.bets.get(player.wallet, 0) == len(player.bets)):
            return shown, player
        async with self._pool.connection() as connection, snapshot(connection):
            live, player = await _live_with_player(connection, wallet)
            return await _wheel_of(connection, live), player

    async def _read_wheel(self) -> ShownWheel:
        async with self._pool.connection() as connection, snapshot(connection):
            return await _wheel_of(connection, await _live(connection))

    # ---------------------------------------------------------------- writes

    @asynccontextmanager
    async def _writing(self, what: str) -> AsyncIterator[Connection]:
        """Yield a connection. If it is lost, raise a 503 whose message says that `what` may or may not be stored."""
        async with self._pool.connection() as connection:
            try:
                yield connection
            except psycopg.OperationalError as error:
                log.warning("lost the database during a write", action="cup.write_unknown", what=what, why=error)
                raise unavailable(
                    f"{what} may or may not have been stored. Send the same request again: it is never stored twice."
                ) from None

    async def claim(self, request: requests.WalletRequest, caller: str) -> bodies.ClaimBody:
        async with self._pool.connection() as connection:
            balance = await _balance(connection, request.wallet_address)
        minted = False
        if balance is None:
            message = "One {} can claim for at most {:,} wallets a day."
            await self._take("cup_claim", caller, CLAIMS_EACH_CALLER, CLAIMS_EACH_NETWORK, message)
            message = "At most 5,000 wallets an hour can be claimed for in total."
            await self._limits.take(CLAIMS_OF_ALL, "cup_claims", "all", message)
            async with self._writing("The claim") as connection:
                balance, minted = await ledger.claim(connection, request.wallet_address)
        return bodies.ClaimBody(
            meta=self.meta(),
            wallet_address=request.wallet_address,
            balance_paper=number_of(balance),
            minted=minted,
        )

    async def trade(self, request: requests.TradeRequest, caller: str) -> bodies.TradeBody:
        order = _signed_order(request)
        if request.simulate or order is None:
            return await self._unsigned_trade(request)
        seen = await self._checks.ask(order)
        if seen.market is None:
            raise books.no_market()
        seen.market.outcome(order.side)
        if not seen.signed:
            raise _mismatch(message_of(order))
        if seen.earlier is not None:
            return self._traded(seen.earlier.receipt(order, seen.market))
        self._require_in_window(order.issued_at)
        await self._take_write("cup_trade", order.wallet, caller)
        # Checked before the batch: a trade that waits for locks there keeps all later trades waiting.
        seen.market.require_open(now_utc())
        return self._traded(await _retry_while_busy(lambda: self._trades.ask(order)))

    def _traded(self, receipt: PaperReceipt, warnings: Sequence[bodies.WarningBody] = ()) -> bodies.TradeBody:
        return bodies.TradeBody(meta=self.meta(), receipt=bodies.trade_receipt(receipt, list(warnings)))

    async def _unsigned_trade(self, request: requests.TradeRequest) -> bodies.TradeBody:
        """Simulate the trade, or raise the error that says which parts of a real trade are missing."""
        async with self._pool.connection() as connection:
            market = await books.find(connection, request.slug)
            market.outcome(request.side)
            if request.simulate:
                wallet, size, now = request.wallet_address, request.size_paper, now_utc()
                if size > MAX_CENTS:
                    raise invalid_part("field", "sizePaper", requests.PRICED)
                balance = None if wallet is None else await _balance(connection, wallet) or 0
                receipt = trading.simulate(market, wallet, request.side, size, balance, now)
                warnings = bodies.trade_warnings(market, receipt.trade.outcome, now)
                if wallet is not None:
                    warnings += await _refusal_of(trading.require_allowed(connection, wallet, size, balance or 0))
                return self._traded(receipt, warnings)
        if request.wallet_address is None:
            raise invalid_part("field", "walletAddress", "is required for a real trade")
        trade_id, issued_at = request.trade_id or str(uuid.uuid4()), request.issued_at or iso_datetime(now_utc())
        message = requests.trade_message(
            request.wallet_address, request.slug, request.side, request.size_paper, trade_id, issued_at
        )
        raise _signature_required("trade", message, {"tradeId": trade_id, "issuedAt": issued_at})

    async def _place_trades(self, orders: Sequence[PaperOrder]) -> list[PaperReceipt | Exception]:
        async with self._writing("The trade") as connection:
            return await trading.place(connection, orders, self.open_time)

    async def bet(self, request: requests.BetRequest, caller: str) -> bodies.BetBody:
        betting.require_key(request.bet_key)
        betting.require_bounds(request.stake_paper)
        if request.simulate:
            return await self._simulated_bet(request)
        if request.wallet_address is None:
            raise invalid_part("field", "walletAddress", "is required for a real bet")
        if request.round_no is None or request.issued_at is None or request.signature is None:
            raise await self._unsigned_bet(request.wallet_address, request)
        message = requests.bet_message(
            request.wallet_address, request.round_no, request.bet_key, request.stake_paper, request.issued_at
        )
        signature = _verified(request.wallet_address, message, request.signature)
        bet = betting.RouletteBet(
            request.wallet_address,
            request.round_no,
            request.bet_key,
            request.stake_paper,
            request.issued_at,
            signature,
        )
        async with self._pool.connection() as connection:
            done = await betting.find_receipt(connection, bet)
        if done is not None:
            return bodies.BetBody(meta=self.meta(), receipt=bodies.bet_receipt(done))
        self._require_in_window(request.issued_at)
        await self._take_write("cup_bet", request.wallet_address, caller)
        placed = await _retry_while_busy(lambda: self._place_bet(bet))
        return bodies.BetBody(meta=self.meta(), receipt=bodies.bet_receipt(placed))

    async def _unsigned_bet(self, wallet: str, request: requests.BetRequest) -> Problem:
        """Return the error that shows the message to sign. The round defaults to the live one, and the time to now."""
        round_no, issued_at = request.round_no, request.issued_at or iso_datetime(now_utc())
        if round_no is None:
            async with self._pool.connection() as connection:
                round_no = (await _live(connection)).round_no
        message = requests.bet_message(wallet, round_no, request.bet_key, request.stake_paper, issued_at)
        return _signature_required("bet", message, {"roundNo": round_no, "issuedAt": issued_at})

    async def _place_bet(self, bet: betting.RouletteBet) -> betting.BetReceipt:
        async with self._writing("The bet") as connection:
            return await betting.place(connection, bet, self.open_time)

    async def enrol(self, request: requests.EnrolRequest, caller: str) -> bodies.EnrolBody:
        message = requests.enrolment_message(request.wallet_address, request.issued_at)
        signature = _verified(request.wallet_address, message, request.signature)
        self._require_in_window(request.issued_at)
        async with self._pool.connection() as connection:
            was_enrolled = await ledger.is_enrolled(connection, request.wallet_address)
        if not was_enrolled:
            message = "One {} can enroll at most {:,} wallets a day."
            await self._take("cup_enrolment", caller, ENROLMENTS_EACH_CALLER, ENROLMENTS_EACH_NETWORK, message)
        async with self._writing("The enrolment") as connection:
            created = await ledger.enrol(connection, request.wallet_address, request.note, request.issued_at, signature)
            halted = await ledger.trading_halted(connection)
        return bodies.EnrolBody(
            meta=self.meta(),
            wallet_address=request.wallet_address,
            enrolled=True,
            created=created,
            trading_halted=halted,
        )

    async def _simulated_bet(self, request: requests.BetRequest) -> bodies.BetBody:
        shown, player = await self._wheel_for(request.wallet_address)
        live, round_totals = shown.live, shown.round_totals
        if not live.takes_bets(now_utc()) or request.round_no not in (None, live.round_no):
            raise betting.round_closed(request.round_no or live.round_no, live)
        balance, warnings = None, []
        if player is not None:
            balance = player.balance_cents
            bet = betting.RouletteBet(player.wallet, live.round_no, request.bet_key, request.stake_paper, "", b"")
            async with self._pool.connection() as connection, snapshot(connection):
                warnings = await _refusal_of(betting.require_allowed(connection, bet, balance))
        receipt = bodies.simulated_bet(live, round_totals, request.bet_key, request.stake_paper, balance, warnings)
        return bodies.BetBody(meta=self.meta(), receipt=receipt)

    async def _take(self, rule: str, caller: str, each: RateLimitItem, each_network: RateLimitItem, text: str) -> None:
        """Count a request against the limits of its caller and of the caller's network. The caller's limit comes first:
        if it refuses the request, the network's limit is not used up."""
        await self._limits.take_external(each, rule, caller, text.format("address", each.amount))
        text = text.format("network", each_network.amount)
        await self._limits.take_external(each_network, f"{rule}_network", network(caller), text)

    async def _take_write(self, rule: str, wallet: str, caller: str) -> None:
        """Count a freshly signed write. Old signatures are not counted, because the export contains them and anyone can
        send them."""
        message = "One wallet can send at most 30 requests in 10 seconds."
        await self._limits.take(WRITES_EACH_WALLET, rule, wallet, message)
        message = "One {} can make at most {:,} trades and bets a minute."
        await self._take("cup_write", caller, WRITES_EACH_CALLER, WRITES_EACH_NETWORK, message)

    def _require_in_window(self, issued_at: str) -> None:
        if not requests.in_window(issued_at, now_utc()):
            raise Problem(
                401,
                "invalid_signature",
                "issuedAt is more than 5 minutes from the server's time; sign a new message.",
                extra={"reason": "issued_at_out_of_window", "serverTime": iso_datetime(now_utc())},
            )


async def _retry_while_busy(place: Callable[[], Awaitable[T]]) -> T:
    """Retry `place` until its wallet is free; raise a 503 if that takes too long. No connection is held between
    attempts."""
    for pause in _BUSY_PAUSES:
        try:
            return await place()
        except trading.WalletBusy:
            await asyncio.sleep(pause)
    raise unavailable()


async def _refusal_of(check: Awaitable[None]) -> list[bodies.WarningBody]:
    """Run the check of a real trade or bet. If the check raises a refusal, return it as a warning."""
    try:
        await check
    except Refusal as refusal:
        return [bodies.WarningBody(code=cast("bodies.WarningCode", refusal.code), message=refusal.message)]
    return []


def _problem(refusal: Refusal) -> Problem:
    return Problem(refusal.status, refusal.code, refusal.message, extra=refusal.extra)


def _signed_order(request: requests.TradeRequest) -> PaperOrder | None:
    """Return the order, or None if a field of a real trade is missing."""
    wallet, trade_id = request.wallet_address, request.trade_id
    issued_at, signature = request.issued_at, request.signature
    if wallet is None or trade_id is None or issued_at is None or signature is None:
        return None
    raw = requests.signature_bytes(signature) or b""
    return PaperOrder(trade_id, wallet, request.slug, request.side, request.size_paper, issued_at, raw)


async def _live(connection: Connection) -> rounds.RouletteRound:
    live = await rounds.latest(connection)
    if live is None:
        raise Problem(
            503,
            "no_round",
            "The first round has not opened yet; try again in a few seconds.",
            headers={"Retry-After": "5"},
        )
    return live


async def _live_with_player(connection: Connection, wallet: str | None) -> tuple[rounds.RouletteRound, Player | None]:
    live = await _live(connection)
    if wallet is None:
        return live, None
    bets = await betting.bets_of(connection, live.round_no, wallet)
    return live, Player(wallet, bets, await _balance(connection, wallet) or 0)


async def _wheel_of(connection: Connection, live: rounds.RouletteRound) -> ShownWheel:
    return ShownWheel(
        live, await betting.round_totals(connection, live.round_no), await rounds.settled(connection, HISTORY)
    )


async def _balance(connection: Connection, wallet: str) -> int | None:
    """Return the wallet's balance in cents, or None if the wallet has never claimed one."""
    return await ledger.balance(connection, wallet_account(wallet))


def _signature_required(what: str, message: str, signed: Json) -> Problem:
    """Return the error that shows which message to sign. The fields `signed` must be sent with the signature."""
    return Problem(
        422,
        "signature_required",
        f"A real {what} needs {', '.join(signed)} and signature. Sign expectedMessage with the wallet's key and send "
        "the fields shown here with the signature, or send simulate: true for a dry run.",
        extra={"expectedMessage": message, **signed},
    )


def _verified(wallet: str, message: str, signature: str) -> bytes:
    """Return the signature's bytes. Raise a 401 unless `wallet` signed `message` with this signature."""
    raw = requests.signature_bytes(signature)
    if raw is None or requests.signer_of(message, raw) != wallet:
        raise _mismatch(message)
    return raw


def _mismatch(message: str) -> Problem:
    return Problem(
        401,
        "invalid_signature",
        "walletAddress did not sign this message; sign expectedMessage with its key.",
        extra={"reason": "signer_mismatch", "expectedMessage": message},
    )
