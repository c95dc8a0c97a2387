"""Checks the bodies of the stock surface against the contracts' views at the bodies' blocks."""

from __future__ import annotations

from typing import Any

from api.stock.bodies import MarketBody, MarketDetailBody, PositionBody
from api.stock.facts import SIDES
from tests.support.bodies import hold
from tests.support.stock_chain import StockChain

STATUS_OPEN, STATUS_UP, STATUS_DOWN = 1, 2, 3


def hold_detail(chain: StockChain, body: dict[str, Any]) -> None:
    hold(MarketDetailBody, body)
    block = int(body["head"]["blockNumber"])
    settler, market = chain.contracts.settler, body["market"]
    market_id = int(market["id"])

    header = chain.ask("eth_getBlockByNumber", hex(block), False)
    assert body["head"]["timestamp"] == int(header["timestamp"], 16)

    view = chain.read(settler.call("market", market_id), block)
    spec = chain.read(chain.contracts.resolver.call("spec", market_id), block)
    hold_market(chain, market, block)
    assert body["headroom"] == market["headroom"]
    assert body["entriesPaused"] == chain.read(settler.call("entriesPaused"), block)
    assert body["kappa"] == str(view["kappa"])

    books = chain.read(settler.call("books", market_id), block)
    assert body["books"] == [{name: str(value) for name, value in book.items()} for book in books]
    # The view names a vintage until it is finalized on chain; the body only while entries can still join it.
    open_now = view["vintageBlock"] == int(body["head"]["l1BlockNumber"]) and view["status"] == STATUS_OPEN
    frozen = body["head"]["timestamp"] >= view["freezeTime"]
    assert body["vintageBlock"] == (str(view["vintageBlock"]) if open_now and not frozen else None)

    ids = chain.read(settler.call("positionsOf", market_id, 0, 10_000), block)
    assert sorted(int(each["id"]) for each in body["positions"]) == sorted(ids)
    assert [int(each["vintage"]) for each in body["positions"]] == sorted(int(p["vintage"]) for p in body["positions"])
    for position in body["positions"]:
        hold_position(chain, position, block, settled=view["status"] != STATUS_OPEN)

    after_bell = body["head"]["timestamp"] > spec["finalTime"]
    assert (body["finder"] is not None) == after_bell
    assert (body["preview"] is not None) == after_bell
    assert (body["resolution"] is not None) == (view["status"] != STATUS_OPEN)


def hold_market(chain: StockChain, market: dict[str, Any], block: int) -> None:
    hold(MarketBody, market)
    if market["phase"] != "opens":
        assert None not in (market["strike"], market["live"], market["change"])
    settler, market_id = chain.contracts.settler, int(market["id"])
    view = chain.read(settler.call("market", market_id), block)
    spec = chain.read(chain.contracts.resolver.call("spec", market_id), block)
    books = chain.read(settler.call("books", market_id), block)
    up, down = chain.read(settler.call("headroom", market_id), block)
    assert market["href"] == f"/m/{market_id}"
    assert market["headroom"] == {"up": str(up), "down": str(down)}
    assert market["pool"] == {"up": str(books[0]["principal"]), "down": str(books[1]["principal"])}
    assert market["totals"]["pool"] == str(view["pool"])
    assert (market["totals"]["up"], market["totals"]["down"]) == (market["pool"]["up"], market["pool"]["down"])
    assert (market["totals"]["pendingUp"], market["totals"]["pendingDown"]) == tuple(str(b["demand"]) for b in books)
    assert market["limits"] == {
        "minEntry": str(view["minEntry"]),
        "maxEntry": str(view["maxEntry"]),
        "sideCap": str(view["sideCap"]),
        "feeBps": view["feeBps"],
    }
    assert (market["strikeTime"], market["finalTime"]) == (spec["strikeTime"], spec["finalTime"])
    assert (market["maxStrikeAge"], market["maxFinalAge"]) == (spec["maxStrikeAge"], spec["maxFinalAge"])
    assert market["feed"].lower() == spec["feed"]
    assert market["stockToken"].lower() == spec["stockToken"]
    assert market["opener"].lower() == view["opener"]
    assert market["seedPerLeg"] == str(view["seedPerLeg"])
    assert market["voidableAt"] == view["freezeTime"] + view["voidDelay"]
    assert market["winner"] == {STATUS_UP: "UP", STATUS_DOWN: "DOWN"}.get(view["status"])
    assert market["positions"] == view["positions"]
    for index in range(chain.read(chain.contracts.lister.call("listingCount"), block)):
        listing = chain.read(chain.contracts.lister.call("listing", index), block)
        if listing["marketId"] == market_id:
            assert market["specId"] == "0x" + listing["specId"].hex()
            assert market["openedAt"] == listing["openedAt"]
            assert market["family"] == ("daily", "weekly", "drill")[listing["family"]]


def hold_position(chain: StockChain, body: dict[str, Any], block: int, *, settled: bool) -> None:
    hold(PositionBody, {name: body[name] for name in PositionBody.__struct_encode_fields__})
    assert (body["enteredAt"] is None) == (body["entryTx"] is None)
    settler, position_id = chain.contracts.settler, int(body["id"])
    view = chain.read(settler.call("position", position_id), block)
    gross, fee, net, refund, total, deliverable = chain.read(settler.call("settlement", position_id), block)
    assert body["marketId"] == str(view["marketId"])
    assert body["owner"].lower() == view["owner"]
    assert body["side"] == SIDES[view["outcome"]]
    assert body["offered"] == str(view["offered"])
    assert body["accepted"] == (str(view["accepted"]) if view["finalized"] else None)
    assert body["refused"] == str(view["refused"])
    assert body["accrued"] == str(chain.read(settler.call("accrued", position_id), block))
    assert body["vintage"] == str(view["vintage"])
    assert (body["seed"], body["finalized"]) == (view["seed"], view["finalized"])
    assert body["settlement"] == {
        "gross": str(gross),
        "fee": str(fee),
        "net": str(net),
        "refund": str(refund),
        "total": str(total),
        "deliverable": deliverable,
    }
    assert body["payout"] == (str(net) if settled else None)
    entry = chain.ask("eth_getTransactionReceipt", body["entryTx"])
    (entered,) = [log for log in entry["logs"] if position_id in (int(topic, 16) for topic in log["topics"][2:3])]
    assert "0x" + entered["topics"][3][-40:] == body["enteredBy"].lower()
    header = chain.ask("eth_getBlockByNumber", entry["blockNumber"], False)
    assert body["enteredAt"] == int(header["timestamp"], 16)
    if body["payoutTx"] is not None:
        assert chain.ask("eth_getTransactionReceipt", body["payoutTx"])["status"] == "0x1"


def round_of(chain: StockChain, at: int, ticker: str = "NVDA") -> dict[str, Any]:
    number, problem = chain.read(chain.contracts.resolver.call("findRound", chain.feed(ticker).proxy, at))
    assert problem == 0
    _, answer, _, updated_at, _ = chain.read(chain.feed_contract(ticker).call("getRoundData", number))
    return {"answer": str(answer), "roundId": str(number), "at": updated_at}


def hold_preview(chain: StockChain, body: dict[str, Any]) -> None:
    preview = chain.read(chain.contracts.resolver.call("preview", int(body["market"]["id"])))
    status, strike_round, strike_answer, strike_at, final_round, final_answer, final_at = preview
    shown = body["preview"]
    assert shown["status"] == status
    assert (shown["strikeRound"], shown["strikeAnswer"], shown["strikeAt"]) == (
        str(strike_round),
        str(strike_answer),
        strike_at,
    )
    assert (shown["finalRound"], shown["finalAnswer"], shown["finalAt"]) == (
        str(final_round),
        str(final_answer),
        final_at,
    )
