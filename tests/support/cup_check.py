"""Recomputes the tournament from its tables: every balance, book, spin, payout and board that follows from something
else, and the wallet's signature of every trade, bet and enrolment."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from psycopg.rows import dict_row

from api.cup import requests
from core.agent.book import Book
from core.cup import CLAIM_CENTS, board, wheel
from core.cup.board import ALL_TIME, week_of
from core.cup.books import FEE_BPS
from core.cup.ledger import MINT, market_account, round_account, snapshot, wallet_account
from core.db.engine import Connection

CupRow = Mapping[str, Any]
CupRows = Mapping[str, Sequence[CupRow]]
Entries = dict[str, int]

# By kind, in the order of what happened.
_QUERIES: Final[Mapping[str, str]] = {
    "account": "SELECT account, CASE account WHEN 'mint' THEN -(SELECT sum(balance_cents)::bigint FROM cup_account)"
    " ELSE balance_cents END AS balance_cents FROM cup_account ORDER BY account",
    "enrolment": "SELECT * FROM cup_enrolment ORDER BY wallet",
    "market": "SELECT * FROM cup_market ORDER BY slug",
    "round": "SELECT * FROM cup_round ORDER BY round_no",
    "transaction": "SELECT t.*, (SELECT jsonb_object_agg(e.account, e.amount_cents) FROM cup_entry e"
    " WHERE e.transaction_id = t.id) AS entries FROM cup_transaction t ORDER BY t.id",
    "trade": "SELECT * FROM cup_trade ORDER BY transaction_id",
    "bet": "SELECT * FROM cup_bet ORDER BY transaction_id",
    "position": "SELECT * FROM cup_position ORDER BY slug, wallet, outcome",
    "score": "SELECT * FROM cup_score ORDER BY period, debit_cents, reached_at, wallet",
}


async def read_cup(connection: Connection) -> CupRows:
    async with snapshot(connection), connection.cursor(row_factory=dict_row) as cursor:
        return {kind: await (await cursor.execute(query.encode())).fetchall() for kind, query in _QUERIES.items()}


def cup_faults(rows: CupRows) -> list[str]:
    """Return a sentence for each difference."""
    check = _Check(rows)
    check.run()
    return check.faults


NEVER: Final = datetime.min.replace(tzinfo=UTC)


@dataclass
class _Gain:
    cents: int = 0
    at: datetime = NEVER


class _Check:
    def __init__(self, rows: CupRows) -> None:
        self.faults: list[str] = []
        self._rows = rows
        self._posted: dict[str, CupRow] = {}
        self._explained: set[str] = set()
        self._gains: dict[tuple[str, str], _Gain] = {}
        self._began: dict[str, datetime] = {}  # by wallet: its first trade or bet

    def run(self) -> None:
        self._ledger()
        self._claims()
        self._enrolments()
        self._began = _first([*self._rows["trade"], *self._rows["bet"]])
        self._markets()
        self._rounds()
        for key in self._posted.keys() - self._explained:
            self.faults.append(f"nothing explains the transaction {key}")
        self._boards()

    def _expect(self, agrees: bool, fault: str) -> None:
        if not agrees:
            self.faults.append(fault)

    def _ledger(self) -> None:
        balances: dict[str, int] = {}
        for row in self._rows["transaction"]:
            key, entries = row["key"], row["entries"] or {}
            self._expect(key not in self._posted, f"{key} is posted twice")
            self._expect(key.startswith(f"{row['kind']}:"), f"{key} is not of kind {row['kind']}")
            self._expect(sum(entries.values()) == 0, f"the entries of {key} do not sum to zero")
            self._posted[key] = row
            for account, cents in entries.items():
                balances[account] = balances.get(account, 0) + cents
                self._expect(
                    account == MINT or balances[account] >= 0, f"{account} owes {-balances[account]} after {key}"
                )
        stored = {row["account"]: row["balance_cents"] for row in self._rows["account"]}
        self._expect(sum(stored.values()) == 0, "the balances do not sum to zero")
        named = self._accounts()
        for account in balances.keys() | stored.keys():
            self._expect(account in named, f"{account} belongs to nothing")
            made, stated = balances.get(account, 0), stored.get(account)
            self._expect(made == stated, f"{account} has {made} cents by its entries, the table says {stated}")

    def _accounts(self) -> set[str]:
        claims = (key.removeprefix("claim:") for key, row in self._posted.items() if row["kind"] == "claim")
        return {
            MINT,
            *map(wallet_account, claims),
            *(market_account(row["slug"]) for row in self._rows["market"]),
            *(round_account(row["round_no"]) for row in self._rows["round"]),
        }

    def _posts(self, key: str, entries: Entries, transaction_id: int | None = None) -> None:
        row = self._posted.get(key)
        self._explained.add(key)
        if row is None:
            self.faults.append(f"the transaction {key} is missing")
            return
        moving = {account: cents for account, cents in entries.items() if cents}
        self._expect((row["entries"] or {}) == moving, f"{key} moved {row['entries']}, it should be {moving}")
        self._expect(transaction_id in (None, row["id"]), f"{key} stands under another id")

    def _claims(self) -> None:
        for key in [key for key, row in self._posted.items() if row["kind"] == "claim"]:
            account = wallet_account(key.removeprefix("claim:"))
            self._posts(key, {account: CLAIM_CENTS, MINT: -CLAIM_CENTS})

    def _enrolments(self) -> None:
        for row in self._rows["enrolment"]:
            message = requests.enrolment_message(row["wallet"], row["issued_at"])
            self._signed(f"the enrolment of {row['wallet']}", row, message)

    def _signed(self, what: str, row: CupRow, message: str) -> None:
        signer = requests.signer_of(message, row["signature"])
        self._expect(signer == row["wallet"], f"{what} is not signed by {row['wallet']}")

    # ---------------------------------------------------------------- markets

    def _markets(self) -> None:
        trades: dict[str, list[CupRow]] = {}
        for row in self._rows["trade"]:
            trades.setdefault(row["slug"], []).append(row)
        positions = {(row["slug"], row["wallet"], row["outcome"]): row for row in self._rows["position"]}
        for market in self._rows["market"]:
            self._market(market, trades.pop(market["slug"], []), positions)
        self._expect(not trades, f"trades on markets that are not there: {', '.join(trades)}")
        self._expect(not positions, f"{len(positions)} positions that no trade explains")

    def _market(self, market: CupRow, trades: list[CupRow], positions: dict[tuple[str, str, int], CupRow]) -> None:
        slug, sides = market["slug"], market["outcomes"]
        closes, decides = market["closes_at"], market["start_at"] or market["ends_at"]
        self._expect(closes < decides, f"{slug} takes trades until {closes}, while it is being decided")
        book = Book.empty(market["weights_cents"], FEE_BPS)
        self._expect(book.outcomes == len(sides), f"{slug} has {len(sides)} sides and {book.outcomes} weights")
        bought: dict[tuple[str, int], list[int]] = {}  # cost, shares
        for row in trades:
            what, size, outcome = f"trade {row['trade_id']}", row["size_cents"], row["outcome"]
            side = sides[outcome]["key"]
            # Its wallet may well sign for less than nothing: it would have a stake back before that is lost.
            self._expect(size > 0, f"{what} is of {size} cents")
            message = requests.trade_message(row["wallet"], slug, side, size, row["trade_id"], row["issued_at"])
            self._signed(what, row, message)
            in_time = market["opens_at"] <= row["at"] < closes
            self._expect(in_time, f"{what} came while the market took no trades")
            self._posts(
                f"trade:{row['trade_id']}",
                {wallet_account(row["wallet"]): -size, market_account(slug): size},
                row["transaction_id"],
            )
            book, got = book.staked(outcome, size)
            self._expect(
                got.shares == row["shares_cents"], f"{what} should have bought {got.shares}, not {row['shares_cents']}"
            )
            position = bought.setdefault((row["wallet"], outcome), [0, 0])
            position[0] += size
            position[1] += got.shares
        stated = (market["net_cents"], market["shares_cents"], market["trades"])
        self._expect(stated == (list(book.net), list(book.shares), len(trades)), f"the book of {slug} differs")
        self._settled_market(market, book, bought, positions, self._seasoned(trades))

    def _seasoned(self, stakes: list[CupRow]) -> set[str]:
        return {wallet for wallet, at in _first(stakes).items() if self._began[wallet] < board.day_of(at)}

    def _settled_market(
        self,
        market: CupRow,
        book: Book,
        bought: Mapping[tuple[str, int], list[int]],
        positions: dict[tuple[str, str, int], CupRow],
        seasoned: set[str],
    ) -> None:
        slug, is_open, winner = market["slug"], market["status"] == "open", market["winner"]
        self._expect((market["status"] == "resolved") == (winner is not None), f"{slug} is resolved without a winner")
        entries: Entries = {MINT: book.net_pool, market_account(slug): -book.net_pool}
        pool: dict[str, tuple[int, int]] = {}
        for (wallet, outcome), (cost, shares) in bought.items():
            status, paid = "open", 0
            if not is_open:
                paid = book.owed(winner, outcome, cost, shares)
                entries[wallet_account(wallet)] = entries.get(wallet_account(wallet), 0) + paid
                entries[MINT] -= paid
                status = "refunded" if book.refunds(winner) else "won" if outcome == winner else "lost"
                if status != "refunded":
                    staked, got = pool.get(wallet, (0, 0))
                    pool[wallet] = (staked + cost, got + paid)
            row = positions.pop((slug, wallet, outcome), None)
            stated = row and (row["cost_cents"], row["shares_cents"], row["status"], row["paid_cents"])
            self._expect(stated == (cost, shares, status, paid), f"{wallet}'s position on {slug} differs: {stated}")
        if not is_open:
            if bought:
                self._posts(f"market:{slug}", entries)
            self._realized(board.score_changes([pool], seasoned), market["settled_at"])

    # ---------------------------------------------------------------- roulette

    def _rounds(self) -> None:
        bets: dict[int, list[CupRow]] = {}
        for row in self._rows["bet"]:
            bets.setdefault(row["round_no"], []).append(row)
        last = 0
        for round_ in self._rows["round"]:
            number = round_["round_no"]
            self._expect(number == last + 1, f"round {number} follows round {last}")
            last = number
            self._round(round_, bets.pop(number, []))
        self._expect(not bets, f"bets on rounds that are not there: {sorted(bets)}")

    def _round(self, round_: CupRow, bets: list[CupRow]) -> None:
        number = round_["round_no"]
        closes = round_["closes_at"]
        in_time = closes.timestamp() <= round_["beacon_after"]
        self._expect(in_time, f"the beacon of round {number} may have been known before its close")
        totals: dict[str, int] = {}
        for row in bets:
            what, stake, wallet = f"bet {number}:{row['bet_key']} of {row['wallet']}", row["stake_cents"], row["wallet"]
            self._expect(row["bet_key"] in wheel.OUTCOMES, f"{what} is on no outcome of the wheel")
            self._signed(what, row, requests.bet_message(wallet, number, row["bet_key"], stake, row["issued_at"]))
            self._posts(
                f"bet:{number}:{wallet}:{row['bet_key']}",
                {wallet_account(wallet): -stake, round_account(number): stake},
                row["transaction_id"],
            )
            totals[wallet] = totals.get(wallet, 0) + stake
            inside = wheel.MIN_BET_CENTS <= stake <= wheel.MAX_BET_CENTS and totals[wallet] <= wheel.MAX_ROUND_CENTS
            self._expect(inside, f"{what} is out of bounds")
            self._expect(row["at"] <= closes, f"{what} came after the close")
        hashed = wheel.bets_hash(number, [wheel.WheelStake(b["wallet"], b["bet_key"], b["stake_cents"]) for b in bets])
        published = round_["bets_hash"]
        self._expect(
            published is None or published == hashed,
            f"round {number}: the bets are not those of its close",
        )
        if round_["settled_at"] is None:
            self._expect(round_["pocket"] is None, f"round {number} shows a result unsettled")
            stated = {(row["status"], row["paid_cents"]) for row in bets}
            self._expect(stated <= {("open", 0)}, f"bets of the open round {number} are not open")
            return
        self._expect(published is not None, f"round {number} was settled without a hash of its bets")
        self._expect(closes <= round_["settled_at"], f"round {number} was settled before its close")
        seed = round_["seed"]
        self._expect(wheel.commitment_of(seed) == round_["commitment"], f"round {number}: the seed is another")
        pocket = wheel.pocket_of(seed, number, round_["beacon_hash"])
        self._expect(pocket == round_["pocket"], f"round {number} fell on {pocket}, the table says {round_['pocket']}")
        self._paid_round(round_, pocket, bets)

    def _paid_round(self, round_: CupRow, pocket: int, bets: list[CupRow]) -> None:
        number = round_["round_no"]
        results = wheel.settle(
            [wheel.WheelStake(row["wallet"], row["bet_key"], row["stake_cents"]) for row in bets], pocket
        )
        pool = sum(row["stake_cents"] for row in bets)
        entries: Entries = {MINT: pool, round_account(number): -pool}
        for row, result in zip(bets, results, strict=True):
            stated = (row["status"], row["paid_cents"])
            self._expect(
                stated == (result.status, result.paid_cents),
                f"bet {number}:{row['bet_key']} of {row['wallet']} was {stated}, it should be "
                f"{(result.status, result.paid_cents)}",
            )
            account = wallet_account(row["wallet"])
            entries[account] = entries.get(account, 0) + result.paid_cents
            entries[MINT] -= result.paid_cents
        if bets:
            self._posts(f"round:{number}", entries)
        gains = board.score_changes(board.wheel_pools(results), self._seasoned(bets))
        self._realized(gains, round_["settled_at"])

    # ---------------------------------------------------------------- boards

    def _realized(self, gains: Mapping[str, int], at: datetime) -> None:
        for wallet, cents in gains.items():
            if not cents:  # moves no player on a board
                continue
            for period in (ALL_TIME, week_of(at)):
                gain = self._gains.setdefault((period, wallet), _Gain())
                gain.cents += cents
                gain.at = max(gain.at, at)

    def _boards(self) -> None:
        stated = [(row["period"], row["debit_cents"], row["reached_at"], row["wallet"]) for row in self._rows["score"]]
        made = [(period, -gain.cents, gain.at, wallet) for (period, wallet), gain in self._gains.items()]
        if sorted(stated) != sorted(made):
            differing = set(stated) ^ set(made)
            self.faults.append(f"the boards differ in {len(differing)} rows: {sorted(map(str, differing))[:2]}")
        self._expect(stated == sorted(stated), "the boards are not in order")


def _first(stakes: Iterable[CupRow]) -> dict[str, datetime]:
    first: dict[str, datetime] = {}
    for row in stakes:
        at = row["at"]
        first[row["wallet"]] = min(at, first.get(row["wallet"], at))
    return first
