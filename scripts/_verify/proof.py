"""Checks the proof page against logs and views: the contracts, the Safe, solvency, settled markets and totals."""

from __future__ import annotations

from typing import Any

from core.chain import Contract, checksum
from core.contracts.abi import abi
from core.contracts.events import stock as ev
from core.stock.vested import Moment
from scripts._verify.chain import DecodedLog, PinnedChain
from scripts._verify.claims import Findings, integer_or_none
from scripts._verify.stock import StockMarket, check_settlement, fold_into

_HOLDERS = {"stock": "VestedMarkets", "base": "SettlementWallet"}


async def check_page(chain: PinnedChain, body: dict[str, Any], findings: Findings) -> None:
    """Check the page's statements about this node's chain. On Base, these are about the agent markets' money; on the
    stock chain, they are about everything else."""
    for one in body.get("solvency") or []:
        stated = one.get("chain")
        if stated == chain.name:
            await _check_solvency(chain, one, findings)
        elif stated not in _HOLDERS:
            findings.check(
                "the solvency entry is for a known chain", False, "the deployment files", f"{stated!r} is not known"
            )
    if chain.name == "base":
        return
    await _check_contracts(chain, body, findings)
    await _check_safe(chain, body.get("safe"), findings)
    logs = await chain.logs("VestedMarkets")
    venue = _Venue(logs)
    findings.about("usdg", "VestedMarkets logs, summed").fields(body.get("usdg") or {}, venue.totals, Findings.at_most)
    swept = {one.tx: one.event.amount for one in logs if isinstance(one.event, ev.FeesSwept)}
    for sweep in body.get("feeSweeps") or []:
        amount = swept.get(sweep.get("tx"))
        findings.integer(f"fee sweep {sweep.get('tx')}", sweep.get("amount"), amount, "VestedMarkets.FeesSwept")
    await _check_settled(chain, body.get("settled") or [], venue, findings)


async def _check_contracts(chain: PinnedChain, body: dict[str, Any], findings: Findings) -> None:
    file = "the deployment file"
    for one in body.get("contracts") or []:
        name = str(one.get("name"))
        info = chain.deployment.contracts.get(name)
        contract = findings.about(f"contract {name}", file)
        if info is None:
            contract.check("is in the deployment file", False)
            continue
        contract.address("", one.get("address"), info.address)
        code = await chain.client.eth.get_code(checksum(info.address), chain.head.number)
        contract.check("has code", bool(code), f"eth_getCode({info.address})", f"{len(code)} bytes")
        if one.get("deployTx"):
            receipt = await chain.receipt(one["deployTx"])
            made = None if receipt is None else receipt.contract_address
            shown = f"eth_getTransactionReceipt({one['deployTx']}).contractAddress"
            if made is None and receipt is not None:
                contract.unknown("was created by its transaction", "it was created by another contract", shown)
            else:
                contract.address("was created by its transaction", made, info.address, shown)
    feeds = {feed.proxy for feed in chain.deployment.price_feeds}
    for one in body.get("feeds") or []:
        findings.check(f"feed {one.get('name')}", one.get("address") in feeds, file, str(one.get("address")))


async def _check_safe(chain: PinnedChain, stated: Any, findings: Findings) -> None:
    if not isinstance(stated, dict) or chain.deployment.safe is None:
        return
    wallet = Contract(chain.deployment.safe.address, abi("Safe"))
    findings.address("safe address", stated.get("address"), wallet.address, "the deployment file")
    threshold, owners = await chain.read(wallet.call("getThreshold")), await chain.read(wallet.call("getOwners"))
    findings.integer("safe threshold", stated.get("threshold"), threshold, f"Safe.getThreshold() of {wallet.address}")
    findings.integer("safe owners", stated.get("owners"), len(owners), f"Safe.getOwners() of {wallet.address}")
    owner, call = await chain.view("MarketLister", "owner")
    findings.address("the Safe owns the lister", owner, wallet.address, call)


async def _check_solvency(chain: PinnedChain, stated: dict[str, Any], findings: Findings) -> None:
    """Check solvency at the pinned block and, if the node still has the state of the document's block, at that block
    too."""
    name = _HOLDERS[chain.name]
    holder, token = chain.contract(name), chain.token
    findings.address(f"the solvency entry names {name}", stated.get("address"), holder.address, "the deployment file")
    calls = (token.call("balanceOf", holder.address), holder.call("liabilities"))
    balance, owed = [_total(await chain.read(call)) for call in calls]
    shown = f"balanceOf({holder.address}) of {token.address} against {name}.liabilities()"
    what = f"{name} holds what it owes at block {chain.head.number}"
    findings.check(what, balance >= owed, shown, f"{balance} against {owed}")
    block = integer_or_none(stated.get("block"))
    if block is None or block > chain.head.number:
        findings.check(
            "solvency block", False, "eth_blockNumber", f"{stated.get('block')} is not a block of this chain yet"
        )
        return
    then = await chain.client.read_many(calls, block)
    for field, call, answer in zip(("balance", "liabilities"), ("balanceOf", "liabilities"), then, strict=True):
        what, shown = f"solvency {field} at block {block}", f"{call} at block {block}"
        if isinstance(answer, Exception):
            findings.unknown(what, "the node no longer has that state", shown)
        else:
            findings.integer(what, stated.get(field), _total(answer), shown)


def _total(answer: Any) -> int:
    """Return an amount as a single number. The SettlementWallet returns its liabilities in three parts: open stakes,
    unpaid amounts and fees. They are added up."""
    return sum(answer) if isinstance(answer, tuple) else int(answer)


class _Venue:
    def __init__(self, logs: list[DecodedLog]) -> None:
        self._of: dict[int, list[DecodedLog]] = {}
        self.offered = self.paid = self.fees = self.swept = self.seeded = 0
        self.positions: dict[int, int] = {}
        self.paid_by_market: dict[int, int] = {}
        for one in logs:
            event = one.event
            self._of.setdefault(market_of(event) or 0, []).append(one)
            match event:
                case ev.MarketCreated():
                    self.seeded += 2 * event.seed_per_leg
                case ev.Entered():
                    self.offered += event.offered
                    self.positions[event.market_id] = self.positions.get(event.market_id, 0) + 1
                case ev.Delivered():
                    self.paid += event.payout
                    self.fees += event.fee
                    market = event.position_id >> 32
                    self.paid_by_market[market] = self.paid_by_market.get(market, 0) + event.payout
                case ev.FeesSwept():
                    self.swept += event.amount

    def logs_of(self, market_id: int) -> list[DecodedLog]:
        return self._of.get(market_id, [])

    @property
    def totals(self) -> dict[str, int]:
        """Return the totals. They can only grow, so an earlier page may state lower totals."""
        return {
            "seeded": self.seeded,
            "staked": self.offered - self.seeded,
            "paidOut": self.paid,
            "feesTaken": self.fees,
            "feesSwept": self.swept,
        }


async def _check_settled(chain: PinnedChain, rows: list[dict[str, Any]], venue: _Venue, findings: Findings) -> None:
    specs: dict[int, ev.SpecRegistered] = {}
    ends: dict[int, ev.Settled] = {}
    for one in await chain.logs("RoundResolver", (), "SpecRegistered", "Settled"):
        kept: dict[int, Any] = specs if isinstance(one.event, ev.SpecRegistered) else ends
        kept[one.event.market_id] = one.event
    now = Moment(chain.head.l1_block_number, chain.head.timestamp)
    for row in rows:
        market_id = integer_or_none(row.get("id"))
        if market_id is None or market_id not in venue.positions:
            findings.check(f"market {row.get('id')} exists", False, "VestedMarkets.MarketCreated")
            continue
        market = StockMarket(market_id, chain.head.number, now)
        market.registered, market.settled = specs.get(market_id), ends.get(market_id)
        fold_into(market, venue.logs_of(market_id))
        _check_row(market, row, venue, findings.about(f"market {market_id}"))
        await check_settlement(chain, market, findings)


def _check_row(market: StockMarket, row: dict[str, Any], venue: _Venue, findings: Findings) -> None:
    if row.get("outcome") is not None:
        shown = f"RoundResolver.Settled / VestedMarkets.Voided of {market.id}"
        findings.same("outcome", row["outcome"], market.outcome, shown)
    findings.same("resolveTx", row.get("resolveTx"), market.closing_tx, "VestedMarkets.Resolved / Voided")
    findings.integer("positions", row.get("positions"), venue.positions[market.id], "VestedMarkets.Entered")
    paid = venue.paid_by_market.get(market.id, 0)
    findings.at_most("totalPaid", row.get("totalPaid"), paid, "VestedMarkets.Delivered")
    settled = market.settled
    if settled is None:
        return
    for name, *ours in (
        ("strike", settled.strike_round, settled.strike_answer, settled.strike_at),
        ("final", settled.final_round, settled.final_answer, settled.final_at),
    ):
        stated = row.get(name)
        if isinstance(stated, dict):
            given = [integer_or_none(stated.get(each)) for each in ("roundId", "answer", "at")]
            findings.same(f"{name} round, answer and time", given, ours, f"RoundResolver.Settled of {market.id}")


def market_of(event: Any) -> int | None:
    """Return the id of the market that a settler's event is about. A position's id includes its market's id."""
    if hasattr(event, "market_id"):
        return int(event.market_id)
    return int(event.position_id) >> 32 if hasattr(event, "position_id") else None
