"""Checks the five sentences of the cup against its tables and the chain at the end."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from core.contracts.statuses import AgentMarketStatus
from core.cup import CLAIM_CENTS
from core.cup.ledger import wallet_account
from core.db.engine import connect
from core.hexadecimal import hex_of
from tests.simulator.clients import Outcome
from tests.simulator.contracts import Truth
from tests.simulator.cup_players import CupCrowd, PaperBet, cents
from tests.simulator.judge import Judge
from tests.simulator.judgement import AUDIT, LOST, PAID, TRUE, Judgement
from tests.support.cup_check import CupRow, CupRows, cup_faults, read_cup

_ENDED = {AgentMarketStatus.OPEN: "open", AgentMarketStatus.RESOLVED: "resolved", AgentMarketStatus.VOID: "void"}
SETTLES_WITHIN_SECONDS = 60


class CupJudge(Judge[Truth, PaperBet]):
    chain = "base"

    def __init__(self, truth: Truth, crowd: CupCrowd, database_url: str) -> None:
        super().__init__(truth, crowd, database_url, CLAIM_CENTS)
        self._players = crowd
        self._rows: CupRows = {}
        self._balances: dict[str, dict[int, int]] = {}

    async def all(self, chain_url: str) -> Judgement:
        async with await connect(self._database_url) as connection:
            self._rows = await read_cup(connection)
        for fault in cup_faults(self._rows):
            self.judgement.against(AUDIT, f"the cup's tables: {fault}")
        self.judgement.counts.update({f"rows of {kind}": len(rows) for kind, rows in self._rows.items()})
        self._balances = _balances(self._rows["transaction"])
        return await super().all(chain_url)

    def money(self) -> None:
        stands = {("trade", row["trade_id"]): row for row in self._rows["trade"]}
        stands |= {("bet", (row["round_no"], row["wallet"], row["bet_key"])): row for row in self._rows["bet"]}
        for each in self.crowd.bets:
            self._bet(each, stands.get(each.row))
        for wallet in self._players.claimed:
            if self._balances.get(wallet_account(wallet), {}).keys().isdisjoint(self._claims()):
                self.judgement.against(LOST, f"{wallet} has claimed, and has nothing")
        self._pools()
        self._seen()

    def _claims(self) -> set[int]:
        return {row["id"] for row in self._rows["transaction"] if row["kind"] == "claim"}

    def _bet(self, bet: PaperBet, row: Mapping[str, Any] | None) -> None:
        """Check that accepted bets are in the tables and refused ones are not. `cup_check` shows that each is there
        once, as signed."""
        about = f"{bet.row} of {bet.wallet.address} for {bet.amount}: {'; '.join(bet.answers[-6:])}"
        self.check_reported(bet, row is not None, about)
        if row is not None and bet.reported is Outcome.REFUSED:
            self.refused_and_there(bet, about)
        if row is None or bet.reported is not Outcome.TAKEN:
            return
        self.judgement.counts["receipts"] += 1
        status, answer = bet.last
        left = self._balances[wallet_account(row["wallet"])][row["transaction_id"]]
        for receipt in (bet.receipt, answer.get("receipt", {}) if status == 200 else {}):
            said = {name: cents(receipt[name]) for name in ("balancePaper", "shares") if name in receipt}
            true = {"balancePaper": left, "shares": row.get("shares_cents")}
            if not said or any(value != true[name] for name, value in said.items()):
                self.judgement.against(TRUE, f"the receipt says {said}, the ledger {true}: {about}")

    def was_refused(self, bet: PaperBet) -> bool:
        """Return False, because no fork undoes what is in a table."""
        return False

    def _pools(self) -> None:
        """Check that a market was seen as it stood after some number of trades that includes all those the reader knew
        of."""
        pools: dict[str, list[int]] = defaultdict(lambda: [0])
        for row in self._rows["trade"]:
            pools[row["slug"]].append(pools[row["slug"]][-1] + row["size_cents"])
        for seen in self._players.pools:
            self.judgement.counts["pools judged"] += 1
            then = pools[seen.slug][seen.trades : seen.trades + 1]
            if then != [seen.cents] or seen.trades < seen.acknowledged:
                self.judgement.against(TRUE, f"{seen} was seen, the ledger has {then}")

    def _seen(self) -> None:
        for balance in self._players.balances:
            self.judgement.counts["balances judged"] += 1
            if balance.cents not in self._balances.get(wallet_account(balance.wallet), {}).values():
                self.judgement.against(TRUE, f"{balance} was seen, and it never had that")
        rounds = {row["round_no"]: row for row in self._rows["round"]}
        for number, commitment in self._players.commitments:
            if number not in rounds or hex_of(rounds[number]["commitment"]) != commitment:
                self.judgement.against(
                    TRUE, f"round {number} was committed to {commitment}, it is {rounds.get(number)}"
                )
        for number, pocket in self._players.pockets:
            if rounds[number]["pocket"] != pocket:
                self.judgement.against(TRUE, f"round {number} was seen to fall on {pocket}, it is {rounds[number]}")

    def settled(self) -> None:
        for row in self._rows["market"]:
            self._market(row)
        for row in self._rows["position"]:
            self.judgement.counts["positions paid"] += row["status"] != "open"
        for row in self._rows["round"]:
            self._round(row)

    def _market(self, row: Mapping[str, Any]) -> None:
        key = row["market_key"]
        listed = self.truth.market_if_listed(key)
        if listed is None:  # a fork undid it
            self.judgement.counts["markets undone by a fork"] += 1
            if row["status"] == "resolved":
                self.judgement.against(TRUE, f"{row['slug']} was resolved, and is not listed")
            return
        ended, winner = _ENDED[AgentMarketStatus(listed["status"])], row["winner"]
        self.judgement.counts["markets settled"] += ended != "open"
        if row["status"] == "open" and ended != "open":
            self.judgement.against(PAID, f"{row['slug']} was {ended} and its paper market is open")
        elif row["status"] != ended or (ended == "resolved" and winner != listed["winner"]):
            self.judgement.against(TRUE, f"{row['slug']} was {ended} for {listed['winner']}, its paper market {row}")

    def _round(self, row: Mapping[str, Any]) -> None:
        """Check that the first block after its close decided the round, unless a fork has undone that block since."""
        number, now = row["round_no"], self.crowd.clock.now
        if row["settled_at"] is None:
            if row["ends_at"].timestamp() + SETTLES_WITHIN_SECONDS < now:
                self.judgement.against(PAID, f"round {number} could be settled for a minute and is not")
            return
        self.judgement.counts["rounds settled"] += 1
        block, before = (self._block(row["beacon_number"] - less) for less in (0, 1))
        if block is None or block["hash"] != hex_of(row["beacon_hash"]):
            self.judgement.counts["beacons undone by a fork"] += 1
            if not self.truth.chain.undone_since(row["beacon_number"], row["settled_at"].timestamp()):
                self.judgement.against(TRUE, f"round {number} fell by a block that is not there: {row}")
        elif not int(before["timestamp"], 16) < row["beacon_after"] <= int(block["timestamp"], 16):
            self.judgement.against(TRUE, f"round {number} fell by another block than the first after its close: {row}")

    def _block(self, number: int) -> Any:
        return self.truth.chain.ask("eth_getBlockByNumber", hex(number), False)


def _balances(transactions: Sequence[CupRow]) -> dict[str, dict[int, int]]:
    """Return each account's balance after each transaction that moved anything there, by transaction id."""
    held: dict[str, dict[int, int]] = defaultdict(dict)
    newest: Counter[str] = Counter()
    for row in transactions:
        for account, moved in (row["entries"] or {}).items():
            newest[account] += moved
            held[account][row["id"]] = newest[account]
    return held
