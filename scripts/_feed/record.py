"""`vpm feed record [FEED] [--since TIME]`: records readings of pool feeds, with any key.

Everything comes from a node and the deployment file: the feeds, the markets that wait for readings, and what is
recorded already. A reading is the same for every sender, so no one has to be trusted; it costs only gas.
"""

from __future__ import annotations

import argparse
import asyncio
import getpass
import os
import re
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from eth_account import Account
from eth_account.signers.local import LocalAccount
from web3.types import TxParams

from core.chain import Call, ChainClient, Contract, RpcError, RpcErrorKind, checksum, values
from core.chain.provider import ChainProvider
from core.contracts.abi import abi
from core.contracts.deployments import Deployment
from core.contracts.feeds import PoolFeed
from core.contracts.statuses import AgentMarketStatus
from core.errors import VpmError
from core.feeds.grid import Needs, batches, missing
from core.hexadecimal import bytes_of
from scripts._verify.agent import specification
from scripts._verify.chain import PinnedChain, node_url, word
from scripts._verify.chain import add_options as add_chain_options

RPC_URLS = "VPM_BASE_RPC_URLS"
KEY_VARIABLE = "VPM_RECORDER_KEY"
PASSWORD_VARIABLE = "VPM_RECORDER_KEYSTORE_PASSWORD"  # noqa: S105 - the name of a variable
BATCH = 20
CALLS_PER_REQUEST = 500
MINED_WITHIN_SECONDS = 120.0
UNITS = {"m": 60, "h": 3600, "d": 86_400}


class CannotRecord(VpmError):
    """Something is missing or wrong that the caller has to put right."""

    code = "cannot_record"
    exit_code = 2


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("feeds", nargs="*", metavar="FEED", help="like BNKR/market_cap; every pool feed if left out")
    parser.add_argument("--since", metavar="TIME", help="every reading since then: 90m, 12h, 2d or 2026-11-22T15:00Z")
    add_chain_options(parser, f"the first in {RPC_URLS}")
    parser.add_argument("--keystore", type=Path, metavar="FILE", help=f"the key that pays; else in {KEY_VARIABLE}")
    parser.add_argument("--dry-run", action="store_true", help="say what is due, and send nothing; needs no key")


def main(options: argparse.Namespace) -> int:
    """Print what was recorded. 0: all that was due; CannotRecord or RpcError otherwise."""
    account = None if options.dry_run else _account(options.keystore)
    return asyncio.run(_run(options, account))


async def _run(options: argparse.Namespace, account: LocalAccount | None) -> int:
    async with ChainProvider([node_url(options.rpc, RPC_URLS)], chain_id=None, timeout_seconds=30.0) as rpc:
        chain = await PinnedChain.at(rpc, options.deployments, None)
        feeds = select_feeds(chain.deployment, options.feeds)
        since = None if options.since is None else parse_since(options.since, chain.head.timestamp)
        for feed in feeds:
            due = await find_due(chain, feed, since)
            if not due:
                print(f"{feed.key}: nothing to record")
            elif account is None:
                print(f"{feed.key}: {_describe(due)} to record")
            else:
                await _record(chain, feed, due, account)
    return 0


def select_feeds(deployment: Deployment, keys: Sequence[str]) -> list[PoolFeed]:
    """Return the feeds of these keys, or all; CannotRecord for one that no pools keep."""
    if not keys:
        if not deployment.pool_feeds:
            raise CannotRecord(f"The deployment file of {deployment.network} names no pool feed.")
        return list(deployment.pool_feeds)
    feeds = []
    for key in keys:
        feed = deployment.agent_feed(key)
        if not isinstance(feed, PoolFeed):
            raise CannotRecord(f"{key} is a feed whose publisher posts its values: nobody else can record there.")
        feeds.append(feed)
    return feeds


def parse_since(text: str, now: int) -> int:
    """Unix seconds of `90m`, `12h`, `2d` before now, or of an ISO time; CannotRecord for anything else."""
    ago = re.fullmatch(r"([1-9][0-9]{0,5})([mhd])", text)
    if ago:
        return now - int(ago[1]) * UNITS[ago[2]]
    try:
        since = datetime.fromisoformat(text)
    except ValueError:
        raise CannotRecord(f"--since {text!r} is no time.", hint="Say 90m, 12h, 2d or 2026-11-22T15:00Z.") from None
    at = int((since if since.tzinfo else since.replace(tzinfo=UTC)).timestamp())
    if at > now:
        raise CannotRecord(f"--since {text} is {at - now} s after the chain's newest block.")
    return at


# ---------------------------------------------------------------- what is due


async def find_due(chain: PinnedChain, feed: PoolFeed, since: int | None) -> list[int]:
    """Return the times of what markets wait for and, with `since`, of every reading from then on, oldest first; without
    what is recorded or forgotten."""
    contract, now = Contract(feed.address, abi("PoolFeed")), chain.head.timestamp
    oldest = await chain.read(contract.call("oldestTellable"))
    needs = await _market_needs(chain, feed)
    if since is not None:
        needs.append(Needs((), (since, now - 1)))
    due = missing(needs, set(), feed.step_seconds, oldest, now)
    return await _unrecorded(chain, contract, due)


async def _market_needs(chain: PinnedChain, feed: PoolFeed) -> list[Needs]:
    """Return what the feed's open markets need."""
    topics = [None, word(bytes_of(feed.address))]
    listed = [each.event for each in await chain.logs("AgentLister", topics, "MarketListed")]
    wallet = chain.contract("SettlementWallet")
    views = await _read(chain, [wallet.call("market", each.market_id) for each in listed])
    return [
        Needs.from_market(specification(event))
        for event, view in zip(listed, views, strict=True)
        if view["status"] == AgentMarketStatus.OPEN
    ]


async def _unrecorded(chain: PinnedChain, contract: Contract, times: Sequence[int]) -> list[int]:
    qualities = await _read(chain, [contract.call("qualityOf", at) for at in times])
    return [at for at, quality in zip(times, qualities, strict=True) if not quality]


async def _read(chain: PinnedChain, calls: Sequence[Call]) -> list[Any]:
    answers: list[Any] = []
    for start in range(0, len(calls), CALLS_PER_REQUEST):
        answers += await chain.client.read_many(calls[start : start + CALLS_PER_REQUEST], chain.head.number)
    return values(answers)


# ---------------------------------------------------------------- sending


async def _record(chain: PinnedChain, feed: PoolFeed, due: list[int], account: LocalAccount) -> None:
    contract = Contract(feed.address, abi("PoolFeed"))
    for times in batches(due, BATCH, len(due)):
        tx, gas, fee = await send(chain.client, chain.deployment.chain_id, account, contract.call("record", times))
        print(f"{feed.key}: recorded {_describe(times)} in {tx}, {gas} gas, {fee / 10**18:.9f} ETH")


async def send(client: ChainClient, chain_id: int, account: LocalAccount, call: Call) -> tuple[str, int, int]:
    """Send a call; return its transaction, its gas and its cost in wei. RpcError or CannotRecord if it failed."""
    request: TxParams = {"from": account.address, "to": checksum(call.to), "data": call.data}
    try:
        needed = await client.eth.estimate_gas(request)
    except RpcError as error:
        if error.kind is RpcErrorKind.INSUFFICIENT_FUNDS:
            raise CannotRecord(f"{account.address} cannot pay for the gas.", hint="Send it some ether.") from None
        raise
    tip = await client.eth.max_priority_fee
    head = await client.head()
    transaction: dict[str, Any] = {
        "chainId": chain_id,
        "nonce": await client.eth.get_transaction_count(account.address, "pending"),
        "to": call.to,
        "data": call.data,
        "value": 0,
        "gas": needed * 5 // 4,
        "maxFeePerGas": 2 * (head.base_fee_wei or 0) + tip,
        "maxPriorityFeePerGas": tip,
    }
    tx = await client.provider.send_raw(bytes(account.sign_transaction(transaction).raw_transaction))
    async with asyncio.timeout(MINED_WITHIN_SECONDS):
        while (receipt := await client.receipt(tx)) is None:
            await asyncio.sleep(0.5)
    if not receipt.succeeded:
        raise CannotRecord(f"The transaction {tx} was mined and failed.")
    return tx, receipt.gas_used, receipt.fee_wei


def _account(keystore: Path | None) -> LocalAccount:
    if keystore is not None:
        password = os.environ.get(PASSWORD_VARIABLE) or getpass.getpass(f"Password of {keystore}: ")
        try:
            return _to_account(bytes(Account.decrypt(keystore.read_text(), password)))
        except OSError as error:
            raise CannotRecord(f"The keystore {keystore} cannot be read: {error.strerror}.") from None
        except (ValueError, KeyError, TypeError):
            raise CannotRecord(
                f"The keystore {keystore} cannot be opened: it is no keystore, or the password is wrong."
            ) from None
    secret = os.environ.get(KEY_VARIABLE, "")
    if not secret:
        raise CannotRecord("Which key pays for the gas?", hint=f"Say --keystore FILE, or set {KEY_VARIABLE}.")
    if not re.fullmatch(r"(0x)?[0-9a-fA-F]{64}", secret):
        raise CannotRecord(f"{KEY_VARIABLE} is no private key.", hint="It is 0x and 64 hexadecimal digits.")
    return _to_account(bytes_of(secret))


def _to_account(secret: bytes) -> LocalAccount:
    account: LocalAccount = Account.from_key(secret)
    return account


def _describe(times: Sequence[int]) -> str:
    first, last = (datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ") for at in (times[0], times[-1]))
    return f"the reading of {first}" if len(times) == 1 else f"{len(times)} readings, {first} to {last}"
