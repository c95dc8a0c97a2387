"""Drills on keys, owners, tokens, bells and feeds."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from eth_account import Account

from core.chain import checksum
from core.hexadecimal import bytes_of, hex_of
from scripts._drill.checks import verified
from scripts._drill.drill import Drill, DrillHeld, bet_taken, require
from scripts._drill.fleet import DidNotHappen, Fleet
from scripts._drill.load import Load, LoadReport, Promise
from scripts._drill.witness import balance, is_settled, mined, observations, prices, terms, times_there
from scripts._stack import wallets
from scripts._stack.chains import CHAIN_IDS
from scripts._stack.wallets import ETH, Wallet

SETTLE_AFTER_SECONDS = 65
UP, DOWN = 0, 1


# ---------------------------------------------------------------- keys


async def jam_nonce(fleet: Fleet, load: Load) -> DrillHeld:
    """Somebody sends with a lane's key: its next nonces are gone. Afterwards the chain has their transactions, each
    intent of ours that had one of those nonces under another, and ones of this very lane with later nonces."""
    key = wallets.RELAY_LANES[0]
    foreign = 3
    seen = await _foreign(fleet)
    bets = [asyncio.create_task(load.stock()) for _ in range(4)]
    nonce = int(await fleet.rpc("stock", "eth_getTransactionCount", key.address, "latest"), 16)
    sent = [await fleet.rpc("stock", "eth_sendRawTransaction", _nothing(key, nonce + step)) for step in range(foreign)]
    took = await bet_taken(fleet, load, 90)
    await asyncio.gather(*bets)
    landed = [
        nonce + step
        for step, each in enumerate(sent)
        if await fleet.rpc("stock", "eth_getTransactionReceipt", each) is not None
    ]
    require(bool(landed), "none of the foreign transactions was mined: nothing was jammed")
    bereft = await _signed_with(fleet, key, landed)
    require(bool(bereft), "no intent of ours had one of those nonces: nothing was jammed")

    async def all_elsewhere() -> bool:
        load.adopt([asyncio.create_task(load.stock())])  # until this lane, of several, gets one
        taken = await _signed_with(fleet, key, landed)
        return await _mined_after(fleet, key, landed[-1]) and all([await _stands(fleet, *each) for each in taken])

    again = await fleet.until(all_elsewhere, "every intent that lost its nonce mined under another", 90, pause=3.0)
    counted = await _foreign(fleet) - seen
    require(counted > 0, "the lane did not notice that its nonces were used")
    return DrillHeld(
        f"{foreign} transactions were sent with a lane's key and took the nonces of {len(bereft)} intents; a bet was "
        f"confirmed after {took:.1f} s, those intents {again:.1f} s later",
        took,
    )


async def _signed_with(fleet: Fleet, key: Wallet, nonces: Sequence[int]) -> list[tuple[str, int]]:
    """The intents that this lane signed with one of these nonces, and that were not a no-op: where each stands now, by
    its transaction and nonce."""
    rows = await fleet.ask_database(
        "SELECT DISTINCT coalesce(encode(i.tx_hash, 'hex'), ''), coalesce(i.nonce, -1) FROM outbox_intent i"
        " JOIN outbox_transaction t ON t.intent_id = i.id JOIN outbox_lane l ON l.id = t.lane_id"
        " WHERE l.chain_id = %s AND l.address = %s AND t.nonce = ANY(%s) AND NOT t.is_cancel AND i.kind <> 'noop'",
        CHAIN_IDS["stock"],
        bytes_of(key.address),
        list(nonces),
    )
    return [(tx, nonce) for tx, nonce in rows]


async def _stands(fleet: Fleet, tx: str, nonce: int) -> bool:
    """Whether the chain has this transaction of ours, and it went well."""
    return nonce >= 0 and bool(tx) and await mined(fleet, "stock", ["0x" + tx])


async def _mined_after(fleet: Fleet, key: Wallet, nonce: int) -> bool:
    """Whether the chain has a transaction of an intent of this lane with a later nonce."""
    rows = await fleet.ask_database(
        "SELECT encode(i.tx_hash, 'hex'), i.nonce FROM outbox_intent i JOIN outbox_lane l ON l.id = i.lane_id"
        " WHERE l.chain_id = %s AND l.address = %s AND i.nonce > %s AND i.kind <> 'noop' AND i.block_hash IS NOT NULL",
        CHAIN_IDS["stock"],
        bytes_of(key.address),
        nonce,
    )
    return any([await _stands(fleet, *each) for each in rows])


def _nothing(key: Wallet, nonce: int) -> str:
    transaction = {
        "chainId": CHAIN_IDS["stock"],
        "nonce": nonce,
        "to": key.address,
        "value": 0,
        "gas": 21_000,
        "maxFeePerGas": 5 * 10**9,
        "maxPriorityFeePerGas": 10**9,
    }
    return hex_of(bytes(Account.sign_transaction(transaction, key.private_key).raw_transaction))


async def _foreign(fleet: Fleet) -> float:
    return sum(value for _, value in await fleet.samples("relayer", "vpm_relayer_foreign_total"))


async def out_of_gas(fleet: Fleet, load: Load) -> DrillHeld:
    relay = [each.address for each in wallets.RELAY_LANES]
    for address in relay:
        await fleet.rpc("stock", "anvil_setBalance", address, "0x0")
    try:
        await fleet.until(lambda: _dry(fleet) >= len(relay), "every lane out of gas", 60, pause=0.5)
        bet = await _answered(fleet, load)
        said = bet.answer
        require(
            said["error"] == "relay_unavailable" and "escapeKit" in said,
            f"the door said {said} with every lane empty, not how to send the bet without us",
        )
        require(await times_there(fleet, bet) == 0, "a bet was on the chain although nobody could pay for it")
    finally:
        for address in relay:
            await fleet.rpc("stock", "anvil_setBalance", address, hex(100 * ETH))
    took = await bet_taken(fleet, load, 60)
    took += await fleet.until(lambda: _is_there(fleet, bet), "the bet that was refused taken and on the chain", 60)
    return DrillHeld(
        f"every relay key was empty; the door said {said['error']} and how to go without us; that bet and a new one "
        f"were on the chain {took:.1f} s after funding",
        took,
    )


async def _is_there(fleet: Fleet, bet: Promise) -> bool:
    return bet.report is LoadReport.TAKEN and await times_there(fleet, bet) == 1


async def _answered(fleet: Fleet, load: Load) -> Promise:
    """A bet to which the door has said something; the bettor goes on asking by itself."""
    made, asker = len(load.promises), wallets.DEV[6]
    load.adopt([asyncio.create_task(load.stock(asker))])
    mine: list[Promise] = []

    def answered() -> bool:
        mine[:] = [one for one in load.promises[made:] if one.wallet == asker and one.answer is not None]
        return bool(mine)

    await fleet.until(answered, "an answer to a bet", 60)
    return mine[0]


def _dry(fleet: Fleet) -> int:
    rows = fleet.rows(
        "SELECT count(*) FROM outbox_lane WHERE chain_id = %s AND status = 'out_of_gas'", CHAIN_IDS["stock"]
    )
    return int(rows[0][0])


# ---------------------------------------------------------------- owners, tokens, bells


async def freeze_owner(fleet: Fleet, load: Load) -> DrillHeld:
    frozen, free = wallets.BETTORS[0], wallets.BETTORS[1]
    market = await _both_sides(fleet, load, frozen, free)
    token, before = fleet.token("stock"), {each: await balance(fleet, each) for each in (frozen, free)}
    await fleet.send("stock", token.call("freeze", frozen.address))
    try:
        await _ring(fleet, market)
        settled = await fleet.until(lambda: is_settled(fleet, market), f"market {market} settled", 90)
        paid = await fleet.until(lambda: _is_paid(fleet, market, free), "the other owner paid", 90)
        require(await balance(fleet, free) > before[free], "the other owner is owed nothing and got nothing")
        require(not await _is_paid(fleet, market, frozen), "the frozen owner was paid all the same")
        require(await balance(fleet, frozen) == before[frozen], "the frozen owner's balance changed")
    finally:
        await fleet.send("stock", token.call("unfreeze", frozen.address))
    took = await _deliver_by_hand(fleet, market, frozen)
    require(await balance(fleet, frozen) > before[frozen], "the released owner is owed nothing and got nothing")
    return DrillHeld(
        f"settled after {settled:.1f} s, the other owner paid {paid:.1f} s later, the frozen one {took:.1f} s after it "
        "was released",
        took,
    )


async def pause_token(fleet: Fleet, load: Load) -> DrillHeld:
    one, other = wallets.BETTORS[2], wallets.BETTORS[3]
    market = await _both_sides(fleet, load, one, other)
    token, before = fleet.token("stock"), {each: await balance(fleet, each) for each in (one, other)}
    await fleet.send("stock", token.call("setPaused", True))
    try:
        await _ring(fleet, market)
        settled = await fleet.until(lambda: is_settled(fleet, market), f"market {market} settled", 90)
        await asyncio.sleep(8)
        for each in (one, other):
            require(not await _is_paid(fleet, market, each), f"{each.role} is owed nothing while the token is paused")
            require(await balance(fleet, each) == before[each], f"{each.role} was paid while the token was paused")
    finally:
        await fleet.send("stock", token.call("setPaused", False))
    took = await _deliver_by_hand(fleet, market, one) + await _deliver_by_hand(fleet, market, other)
    for each in (one, other):
        require(await balance(fleet, each) > before[each], f"{each.role} is owed nothing and got nothing")
    bet = await bet_taken(fleet, load, 60)
    return DrillHeld(
        f"the market was settled {settled:.1f} s after its bell although the token was paused; owners were paid "
        f"{took:.1f} s after it went on, a bet confirmed {bet:.1f} s later",
        took + bet,
    )


async def miss_bell(fleet: Fleet, load: Load) -> DrillHeld:
    bettors = wallets.BETTORS[4], wallets.BETTORS[5]
    market = await _both_sides(fleet, load, *bettors)
    before = {each: await balance(fleet, each) for each in bettors}
    names = fleet.instances("keeper")
    for name in names:
        fleet.keep_down(name)
    try:
        await _ring(fleet, market)
        await asyncio.sleep(6)
        require(not await is_settled(fleet, market), f"market {market} was settled without a keeper")
    finally:
        for name in names:
            fleet.start(name)
    took = await fleet.until(lambda: is_settled(fleet, market), f"market {market} settled", 120)
    paid = await fleet.until(lambda: _is_paid(fleet, market), "everybody paid", 120)
    for each in bettors:
        require(await balance(fleet, each) > before[each], f"{each.role} is owed nothing and got nothing")
    wrong = await verified(fleet, market)
    require(not wrong, "; ".join(wrong))
    return DrillHeld(
        f"no keeper ran over the bell; settled {took:.1f} s after the keepers were back, paid {paid:.1f} s later, "
        "and the rounds are those of the bell",
        took + paid,
    )


async def lose_source(fleet: Fleet, load: Load) -> DrillHeld:
    """The only source of one observation feed answers nothing; the keepers read their file at every run."""
    key = fleet.deployment("base").published_feeds[0].key
    source = 'kind = "http"\nname = "away"\nurl = "http://127.0.0.1:9/"\nvalue = "price"\n'
    fleet.sources_file.write_text(f'["{key}"]\n[["{key}".sources]]\n{source}')
    try:
        await fleet.until(lambda: _refused(fleet, key), "a refusal in the metrics", 60, pause=0.5)
        since, then = await fleet.now("base"), await fleet.now("stock")

        async def others_go_on() -> bool:
            return all(at > then for at in (await prices(fleet)).values())

        await fleet.until(others_go_on, "a new price on every other feed that the keepers write", 60, pause=0.5)
        require((await observations(fleet))[key] <= since, f"{key} was posted without a source")
    finally:
        fleet.sources_file.write_text("")

    async def is_back() -> bool:
        return (await observations(fleet))[key] > since

    took = await fleet.until(is_back, f"an observation of {key} on the chain", 60)
    return DrillHeld(f"nothing was posted for {key}, prices went on; it was posted {took:.1f} s after its return", took)


async def _refused(fleet: Fleet, key: str) -> bool:
    refusals = await fleet.samples("keeper", "vpm_keeper_source_refusals_total")
    return any(("feed", key) in labels and value > 0 for labels, value in refusals)


async def _both_sides(fleet: Fleet, load: Load, *bettors: Wallet) -> int:
    """A market in which each of them has a bet on both sides, so that each wins one."""
    market = await _open_market(fleet, load)
    for bettor in bettors:
        for side in (UP, DOWN):
            await _insisted(load, bettor, market, side)
    await fleet.indexed("stock")
    return market


async def _insisted(load: Load, bettor: Wallet, market: int, side: int) -> Promise:
    for _ in range(5):
        promise = await load.stock(bettor, str(market), side)
        if promise is not None and promise.report is LoadReport.TAKEN:
            return promise
        await asyncio.sleep(1)
    raise DidNotHappen(f"no bet could be placed in market {market}")


async def _open_market(fleet: Fleet, load: Load) -> int:
    """One that takes bets for a while yet; the keeper of a local stack always has some."""
    ids: list[int] = []

    async def there() -> bool:
        status, listed = await load.call("GET", "/api/markets")
        now = await fleet.now("stock")
        if status == 200:
            ids.extend(
                int(each["id"])
                for each in listed["markets"]
                if each["acceptingBets"] and each["family"] == "drill" and each["finalTime"] > now + 60
            )
        return bool(ids)

    await fleet.until(there, "an open market", 90, pause=0.5)
    return ids[0]


async def _ring(fleet: Fleet, market: int) -> None:
    """Moves the chain past the market's bell and the keeper's minute of patience."""
    bell = (await terms(fleet, market))["freezeTime"]
    await fleet.warp("stock", max(0, bell - await fleet.now("stock")) + SETTLE_AFTER_SECONDS)


async def _owed(fleet: Fleet, market: int, owner: Wallet | None) -> list[int]:
    """Position ids with something still to be sent, by the contract's own view."""
    settler = fleet.contract("stock", "VestedMarkets")
    rows = await fleet.ask_database("SELECT position_id, owner FROM stock_position WHERE market_id = %s", market)
    mine = [row[0] for row in rows if owner is None or checksum(bytes(row[1])) == checksum(owner.address)]
    return [int(each) for each in mine if (await fleet.read("stock", settler.call("settlement", each)))[5]]


async def _is_paid(fleet: Fleet, market: int, owner: Wallet | None = None) -> bool:
    return not await _owed(fleet, market, owner)


async def _deliver_by_hand(fleet: Fleet, market: int, owner: Wallet) -> float:
    """What the runbook says: anybody may send what is owed; the keeper would come to it within its hours of rest."""
    owed = await _owed(fleet, market, owner)
    if owed:
        call = fleet.contract("stock", "VestedMarkets").call("deliver", owed)
        await fleet.send("stock", call, sender=wallets.DEV[7].address)
    return await fleet.until(lambda: _is_paid(fleet, market, owner), f"{owner.role} paid", 60)


DRILLS = (
    Drill(
        "jam-nonce",
        "somebody else sends with a lane's key, taking its next nonces",
        "the lane goes on after them, and each bet is sent once; a new one is confirmed within 90 s",
        "the chain has the foreign transactions, and each intent that lost its nonce to one of them under another",
        "transactions-stand-still",
        jam_nonce,
    ),
    Drill(
        "out-of-gas",
        "every relay key on the stock chain is empty",
        "bets are refused with words; they are confirmed within 60 s of funding, with no restart",
        "the bet that was refused, and told how to go without us, is on the chain once",
        "a-key-runs-out-of-gas",
        out_of_gas,
    ),
    Drill(
        "freeze-owner",
        "the token freezes a winner before the payout",
        "everybody else is paid; the frozen owner is paid once released",
        "the other owner's balance rose while the frozen one's stood still, and that rose after its release",
        "a-payout-does-not-arrive",
        freeze_owner,
    ),
    Drill(
        "pause-token",
        "the token is paused over a bell",
        "the market is settled all the same, and owners are paid once the token goes on",
        "the contract settled during the pause with every balance as it was; afterwards each owner's is higher",
        "a-payout-does-not-arrive",
        pause_token,
    ),
    Drill(
        "miss-bell",
        "no keeper runs over a market's bell",
        "it is settled within two minutes of a keeper's return, from the rounds of the bell",
        "the contract has settled it, from rounds that `./vpm verify` finds to be those of the bell, and balances rose",
        "a-market-is-not-settled",
        miss_bell,
    ),
    Drill(
        "lose-source",
        "the only source of one observation feed does not answer",
        "nothing is posted for it and the metrics tell why; prices go on, and it is posted within 60 s of the return",
        "the feed has no observation of the time without its source, each price feed has, and it has one of after it",
        "a-feed-gets-no-observations",
        lose_source,
    ),
)
