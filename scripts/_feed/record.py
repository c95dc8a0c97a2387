"""`vpm feed record [FEED] [--since TIME]`: records readings of pool feeds with any key. The feeds come from the
deployment file. A node shows which readings the markets wait for, and which are already recorded. A reading is the same
no matter who sends it, so the sender need not be trusted. Recording only costs gas."""

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
    """Recording failed; the message says what the user has to correct."""

    code = "cannot_record"
    exit_code = 2


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("feeds", nargs="*", metavar="FEED")
    parser.add_argument("--since")
    add_chain_options(parser)
    parser.add_argument("--keystore", type=Path)
    parser.add_argument("--dry-run", action="store_true")


def main(options: argparse.Namespace) -> int:
    account = None if options.dry_run else _account(options.keystore)
    return asyncio.run(_run(options, account))


async def _run(options: argparse.Namespace, account: LocalAccount | None) -> int:
    async with ChainProvider([node_url(options.rpc, RPC_URLS)], chain_id=None, timeout_seconds=30.0) as rpc:
        chain = await PinnedChain.connect(rpc, options.deployments, None)
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
    """Return the feeds with these keys, or all pool feeds if `keys` is empty. Raise CannotRecord if a key does not
    belong to a pool feed."""
    if not keys:
        if not deployment.pool_feeds:
            raise CannotRecord(f"The deployment file of {deployment.network} names no pool feed.")
        return list(deployment.pool_feeds)
    feeds = []
    for key in keys:
        feed = deployment.agent_feed(key)
        if not isinstance(feed, PoolFeed):
            raise CannotRecord(f"{key} is a published feed, so only its publisher can add values.")
        feeds.append(feed)
    return feeds


def parse_since(text: str, now: int) -> int:
    """Return the Unix time of an ISO time, or of an age such as `90m`, `12h` or `2d`. Raise CannotRecord for anything
    else."""
    ago = re.fullmatch(r"([1-9][0-9]{0,5})([mhd])", text)
    if ago:
        return now - int(ago[1]) * UNITS[ago[2]]
    try:
        since = datetime.fromisoformat(text)
    except ValueError:
        raise CannotRecord(f"--since {text!r} is not a time.", hint="Give 90m, 12h, 2d or 2026-11-22T15:00Z.") from None
    at = int((since if since.tzinfo else since.replace(tzinfo=UTC)).timestamp())
    if at > now:
        raise CannotRecord(f"--since {text} is {at - now} s after the chain's newest block.")
    return at


# ---------------------------------------------------------------- due readings


async def find_due(chain: PinnedChain, feed: PoolFeed, since: int | None) -> list[int]:
    """Return the times of the readings to record, oldest first: those that markets wait for and, if `since` is given,
    all from that time on. Readings that are already recorded or no longer available are left out."""
    contract, now = Contract(feed.address, abi("PoolFeed")), chain.head.timestamp
    oldest = await chain.read(contract.call("oldestTellable"))
    needs = await _market_needs(chain, feed)
    if since is not None:
        needs.append(Needs((), (since, now - 1)))
    due = missing(needs, set(), feed.step_seconds, oldest, now)
    return await _unrecorded(chain, contract, due)


async def _market_needs(chain: PinnedChain, feed: PoolFeed) -> list[Needs]:
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
    responses: list[Any] = []
    for start in range(0, len(calls), CALLS_PER_REQUEST):
        responses += await chain.client.read_many(calls[start : start + CALLS_PER_REQUEST], chain.head.number)
    return values(responses)


# ---------------------------------------------------------------- sending


async def _record(chain: PinnedChain, feed: PoolFeed, due: list[int], account: LocalAccount) -> None:
    contract = Contract(feed.address, abi("PoolFeed"))
    for times in batches(due, BATCH, len(due)):
        tx, gas, fee = await send(chain.client, chain.deployment.chain_id, account, contract.call("record", times))
        print(f"{feed.key}: recorded {_describe(times)} in {tx}, {gas} gas, {fee / 10**18:.9f} ETH")


async def send(client: ChainClient, chain_id: int, account: LocalAccount, call: Call) -> tuple[str, int, int]:
    """Send a call. Return its transaction, the gas used and the cost in wei. Raise RpcError or CannotRecord if it
    fails."""
    request: TxParams = {"from": account.address, "to": checksum(call.to), "data": call.data}
    try:
        needed = await client.eth.estimate_gas(request)
    except RpcError as error:
        if error.kind is RpcErrorKind.INSUFFICIENT_FUNDS:
            raise CannotRecord(f"{account.address} does not have enough ether for gas.", hint="Fund it.") from None
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
        raise CannotRecord(f"The transaction {tx} was mined but reverted.")
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
                f"The keystore {keystore} cannot be opened: it is not a keystore file, or the password is wrong."
            ) from None
    secret = os.environ.get(KEY_VARIABLE, "")
    if not secret:
        raise CannotRecord("No key was given to pay for gas.", hint=f"Give --keystore FILE, or set {KEY_VARIABLE}.")
    if not re.fullmatch(r"(0x)?[0-9a-fA-F]{64}", secret):
        raise CannotRecord(f"{KEY_VARIABLE} is not a private key.", hint="A key is 0x and 64 hexadecimal digits.")
    return _to_account(bytes_of(secret))


def _to_account(secret: bytes) -> LocalAccount:
    account: LocalAccount = Account.from_key(secret)
    return account


def _describe(times: Sequence[int]) -> str:
    first, last = (datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ") for at in (times[0], times[-1]))
    return f"the reading of {first}" if len(times) == 1 else f"{len(times)} readings, {first} to {last}"
