"""Recomputes the tournament from its export alone: `python -m core.cup.verify FILE`.

Nothing in the file is believed that follows from something else in it: balances from the entries, books and shares
from the signed trades, pockets from seeds and beacons, what every position and bet was paid, and the boards. Every
trade and bet must carry its wallet's signature. What a file cannot show is that a beacon is that block's hash;
`beacon_number` and `chain_id` say where to look (where the chain replaced that block after the round was drawn there is
another hash, and no proof of a false round), and a commitment noted before the close shows that the seed was not
changed. Nor can it show what a listed market was, and how it ended: on chain that stands under its `market_key`.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import orjson

from core.agent.book import Book
from core.cup import messages, scoring, wheel
from core.cup.amounts import CLAIM_CENTS
from core.cup.board import ALL_TIME, week_of
from core.cup.books import FEE_BPS
from core.cup.export import FORMAT
from core.cup.ledger import MINT, market_account, round_account, wallet_account
from core.hexadecimal import bytes_of

ExportRow = Mapping[str, Any]
Entries = dict[str, int]
MAX_SHOWN = 20

# What names a row of each kind.
_UNIQUE: Final[Mapping[str, tuple[str, ...]]] = {
    "account": ("account",),
    "enrolment": ("wallet",),
    "market": ("slug",),
    "round": ("round_no",),
    "transaction": ("id",),
    "trade": ("trade_id",),
    "bet": ("round_no", "wallet", "bet_key"),
    "position": ("slug", "wallet", "outcome"),
    "score": ("period", "wallet"),
}


@dataclass
class Verification:
    """What was recomputed, and everything that did not agree."""

    counts: dict[str, int] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        return not self.faults

    def expect(self, agrees: bool, fault: str) -> None:
        if not agrees:
            self.faults.append(fault)


@dataclass
class _Gain:
    """What a wallet realized on one board."""

    cents: int = 0
    at: datetime | None = None


class _Export:
    """The file's rows by kind, in its order."""

    def __init__(self, raw: Iterable[bytes], finding: Verification) -> None:
        self.rows: dict[str, list[ExportRow]] = {}
        count, ended, header = 0, False, False
        for number, line in enumerate(raw, 1):
            try:
                row: ExportRow = orjson.loads(line)
                kind = str(row["type"])
            except (orjson.JSONDecodeError, KeyError, TypeError):
                finding.faults.append(f"line {number} is not a row of an export")
                continue
            finding.expect(not ended, f"line {number} comes after the end")
            if kind == "end":
                ended = True
                finding.expect(row.get("lines") == count, f"the end counts {row.get('lines')} lines, there are {count}")
                continue
            count += 1
            if count == 1:
                header = kind == "export" and row.get("format") == FORMAT
            self.rows.setdefault(kind, []).append(row)
        finding.expect(header, f"this is no file of the format {FORMAT}")
        finding.expect(ended, "the file was cut short")

    def of(self, kind: str) -> list[ExportRow]:
        return self.rows.get(kind, [])


def verify(raw: Iterable[bytes]) -> Verification:
    """`raw`: the lines of an export."""
    finding = Verification()
    export = _Export(raw, finding)
    if finding.ok:
        try:
            _Check(export, finding).run()
        except (KeyError, ValueError, TypeError, IndexError, AttributeError, ZeroDivisionError) as error:
            finding.faults.append(f"a row lacks what it must hold: {type(error).__name__}: {error}")
    return finding


class _Check:
    """The recomputation of an export, row by row."""

    def __init__(self, export: _Export, finding: Verification) -> None:
        self._export = export
        self._finding = finding
        self._expect = finding.expect
        self._posted: dict[str, ExportRow] = {}
        self._explained: set[str] = set()
        self._gains: dict[tuple[str, str], _Gain] = {}
        self._began: dict[str, datetime] = {}  # by wallet: its first trade or bet

    def run(self) -> None:
        for kind, columns in _UNIQUE.items():
            self._once_each(kind, columns)
        self._ledger()
        self._claims()
        self._enrolments()
        self._began = _first([*self._export.of("trade"), *self._export.of("bet")])
        self._markets()
        self._rounds()
        for key in self._posted.keys() - self._explained:
            self._finding.faults.append(f"nothing explains the transaction {key}")
        self._boards()
        for kind in ("transaction", "trade", "bet", "market", "round", "score", "account", "enrolment"):
            self._finding.counts[kind] = len(self._export.of(kind))

    def _once_each(self, kind: str, columns: tuple[str, ...]) -> None:
        seen: set[tuple[Any, ...]] = set()
        for row in self._export.of(kind):
            key = tuple(row[column] for column in columns)
            self._expect(key not in seen, f"the {kind} {' '.join(map(str, key))} stands in the file twice")
            seen.add(key)

    def _ledger(self) -> None:
        balances: dict[str, int] = {}
        for row in self._export.of("transaction"):
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
        exported = {row["account"]: row["balance_cents"] for row in self._export.of("account")}
        self._expect(sum(exported.values()) == 0, "the balances do not sum to zero")
        named = self._accounts()
        for account in balances.keys() | exported.keys():
            self._expect(account in named, f"{account} belongs to nothing in the file")
            made, stated = balances.get(account, 0), exported.get(account)
            self._expect(made == stated, f"{account} has {made} cents by its entries, the file says {stated}")

    def _accounts(self) -> set[str]:
        """The mint's, and one for each claim, market and round."""
        claims = (key.removeprefix("claim:") for key, row in self._posted.items() if row["kind"] == "claim")
        return {
            MINT,
            *map(wallet_account, claims),
            *(market_account(row["slug"]) for row in self._export.of("market")),
            *(round_account(row["round_no"]) for row in self._export.of("round")),
        }

    def _posts(self, key: str, entries: Entries, transaction_id: int | None = None) -> None:
        """Exactly these entries stand under this key."""
        row = self._posted.get(key)
        self._explained.add(key)
        if row is None:
            self._finding.faults.append(f"the transaction {key} is missing")
            return
        moving = {account: cents for account, cents in entries.items() if cents}
        self._expect((row["entries"] or {}) == moving, f"{key} moved {row['entries']}, it should be {moving}")
        self._expect(transaction_id in (None, row["id"]), f"{key} stands under another id")

    def _claims(self) -> None:
        for key in [key for key, row in self._posted.items() if row["kind"] == "claim"]:
            account = wallet_account(key.removeprefix("claim:"))
            self._posts(key, {account: CLAIM_CENTS, MINT: -CLAIM_CENTS})

    def _enrolments(self) -> None:
        for row in self._export.of("enrolment"):
            message = messages.enrolment_message(row["wallet"], row["issued_at"])
            self._signed(f"the enrolment of {row['wallet']}", row, message)

    def _signed(self, what: str, row: ExportRow, message: str) -> None:
        signer = messages.signer_of(message, bytes_of(row["signature"]))
        self._expect(signer == row["wallet"], f"{what} is not signed by {row['wallet']}")

    # ---------------------------------------------------------------- markets

    def _markets(self) -> None:
        trades: dict[str, list[ExportRow]] = {}
        for row in self._export.of("trade"):
            trades.setdefault(row["slug"], []).append(row)
        positions = {(row["slug"], row["wallet"], row["outcome"]): row for row in self._export.of("position")}
        for market in self._export.of("market"):
            self._market(market, trades.pop(market["slug"], []), positions)
        self._expect(not trades, f"trades on markets that are not in the file: {', '.join(trades)}")
        self._expect(not positions, f"{len(positions)} positions that no trade explains")

    def _market(
        self, market: ExportRow, trades: list[ExportRow], positions: dict[tuple[str, str, int], ExportRow]
    ) -> None:
        slug, sides = market["slug"], market["outcomes"]
        closes, decides = _time(market["closes_at"]), _time(market["start_at"] or market["ends_at"])
        self._expect(closes < decides, f"{slug} takes trades until {closes}, while it is being decided")
        book = Book.empty(market["weights_cents"], FEE_BPS)
        self._expect(book.outcomes == len(sides), f"{slug} has {len(sides)} sides and {book.outcomes} weights")
        bought: dict[tuple[str, int], list[int]] = {}  # cost, shares
        for row in trades:
            what, size, outcome = f"trade {row['trade_id']}", row["size_cents"], row["outcome"]
            side = sides[outcome]["key"]
            # Its wallet may well sign for less than nothing: it would have a stake back before that is lost.
            self._expect(size > 0, f"{what} is of {size} cents")
            message = messages.trade_message(row["wallet"], slug, side, size, row["trade_id"], row["issued_at"])
            self._signed(what, row, message)
            in_time = _time(market["opens_at"]) <= _time(row["at"]) < closes
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

    def _seasoned(self, stakes: list[ExportRow]) -> set[str]:
        return {wallet for wallet, at in _first(stakes).items() if self._began[wallet] < scoring.day_of(at)}

    def _settled_market(
        self,
        market: ExportRow,
        book: Book,
        bought: Mapping[tuple[str, int], list[int]],
        positions: dict[tuple[str, str, int], ExportRow],
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
            self._realized(scoring.counted([pool], seasoned), _time(market["settled_at"]))

    # ---------------------------------------------------------------- roulette

    def _rounds(self) -> None:
        bets: dict[int, list[ExportRow]] = {}
        for row in self._export.of("bet"):
            bets.setdefault(row["round_no"], []).append(row)
        last = 0
        for round_ in self._export.of("round"):
            number = round_["round_no"]
            self._expect(number == last + 1, f"round {number} follows round {last}")
            last = number
            self._round(round_, bets.pop(number, []))
        self._expect(not bets, f"bets on rounds that are not in the file: {sorted(bets)}")

    def _round(self, round_: ExportRow, bets: list[ExportRow]) -> None:
        number = round_["round_no"]
        closes = _time(round_["closes_at"])
        in_time = closes.timestamp() <= round_["beacon_after"]
        self._expect(in_time, f"the beacon of round {number} may have been known before its close")
        totals: dict[str, int] = {}
        for row in bets:
            what, stake, wallet = f"bet {number}:{row['bet_key']} of {row['wallet']}", row["stake_cents"], row["wallet"]
            self._expect(row["bet_key"] in wheel.OUTCOMES, f"{what} is on no outcome of the wheel")
            self._signed(what, row, messages.bet_message(wallet, number, row["bet_key"], stake, row["issued_at"]))
            self._posts(
                f"bet:{number}:{wallet}:{row['bet_key']}",
                {wallet_account(wallet): -stake, round_account(number): stake},
                row["transaction_id"],
            )
            totals[wallet] = totals.get(wallet, 0) + stake
            inside = wheel.MIN_BET_CENTS <= stake <= wheel.MAX_BET_CENTS and totals[wallet] <= wheel.MAX_ROUND_CENTS
            self._expect(inside, f"{what} is out of bounds")
            self._expect(_time(row["at"]) <= closes, f"{what} came after the close")
        hashed = wheel.bets_hash(number, [wheel.WheelStake(b["wallet"], b["bet_key"], b["stake_cents"]) for b in bets])
        published = round_["bets_hash"]
        self._expect(
            published is None or bytes_of(published, 32) == hashed,
            f"round {number}: the bets are not those of its close",
        )
        if round_["settled_at"] is None:
            self._expect(
                round_["seed"] is None and round_["pocket"] is None, f"round {number} shows a result unsettled"
            )
            stated = {(row["status"], row["paid_cents"]) for row in bets}
            self._expect(stated <= {("open", 0)}, f"bets of the open round {number} are not open")
            return
        self._expect(published is not None, f"round {number} was settled without a hash of its bets")
        self._expect(closes <= _time(round_["settled_at"]), f"round {number} was settled before its close")
        seed = bytes_of(round_["seed"], 32)
        self._expect(
            wheel.commitment_of(seed) == bytes_of(round_["commitment"], 32), f"round {number}: the seed is another"
        )
        pocket = wheel.pocket_of(seed, number, bytes_of(round_["beacon_hash"], 32))
        self._expect(pocket == round_["pocket"], f"round {number} fell on {pocket}, the file says {round_['pocket']}")
        self._paid_round(round_, pocket, bets)

    def _paid_round(self, round_: ExportRow, pocket: int, bets: list[ExportRow]) -> None:
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
        gains = scoring.counted(scoring.wheel_pools(results), self._seasoned(bets))
        self._realized(gains, _time(round_["settled_at"]))

    # ---------------------------------------------------------------- boards

    def _realized(self, gains: Mapping[str, int], at: datetime) -> None:
        for wallet, cents in gains.items():
            if not cents:  # moves nobody on a board
                continue
            for period in (ALL_TIME, week_of(at)):
                gain = self._gains.setdefault((period, wallet), _Gain())
                gain.cents += cents
                gain.at = at if gain.at is None else max(gain.at, at)

    def _boards(self) -> None:
        stated = [
            (row["period"], -row["score_cents"], _time(row["reached_at"]), row["wallet"])
            for row in self._export.of("score")
        ]
        made = [(period, -gain.cents, gain.at, wallet) for (period, wallet), gain in self._gains.items()]
        if sorted(stated) != sorted(made, key=_order):
            differing = set(stated) ^ set(made)
            self._finding.faults.append(
                f"the boards differ in {len(differing)} rows: {sorted(map(str, differing))[:2]}"
            )
        self._expect(stated == sorted(stated), "the boards are not in order")


def _order(row: tuple[str, int, datetime | None, str]) -> tuple[Any, ...]:
    return row


def _first(stakes: Iterable[ExportRow]) -> dict[str, datetime]:
    """When each wallet's first of these was taken."""
    first: dict[str, datetime] = {}
    for row in stakes:
        at = _time(row["at"])
        first[row["wallet"]] = min(at, first.get(row["wallet"], at))
    return first


def _time(text: str) -> datetime:
    return datetime.fromisoformat(text)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="core.cup.verify", description="Recompute the tournament from its export.")
    parser.add_argument("file", type=Path)
    options = parser.parse_args(arguments)
    try:
        with options.file.open("rb") as file:
            finding = verify(file)
    except OSError as error:
        print(f"{options.file} cannot be read: {error.strerror}.", file=sys.stderr)
        return 2
    if finding.ok:
        print("everything agrees: " + ", ".join(f"{count} {kind}s" for kind, count in finding.counts.items()))
        return 0
    print(f"{len(finding.faults)} faults:", file=sys.stderr)
    for fault in finding.faults[:MAX_SHOWN]:
        print(f"  {fault}", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
