"""`vpm feed cost POOL [POOL]` and `vpm feed record [FEED]`: see the manual."""

from __future__ import annotations

import argparse
import asyncio
import math
import sys
from pathlib import Path

from eth_utils.address import is_address

from core.chain import ChainClient, RpcError
from core.chain.provider import ChainProvider
from core.contracts.deployments import Deployment
from core.errors import VpmError
from core.feeds.cost import FLOOR, MOVES, SAFE_SHARE
from core.feeds.live import MIN_LIVE_WINDOW, CostQuestion, CostReport, CostUnknown, report
from scripts._feed import record
from scripts._verify.chain import add_options, deployments_in, node_url

FAILED = 2
MARKETS = 12  # how many the keeper usually has unsettled on a pool feed


def main(argv: list[str] | None = None) -> int:
    options = parse(argv)
    try:
        if options.command == "record":
            return record.main(options)
        print("\n".join(report_lines(asyncio.run(cost_of(options)))))
    except VpmError as error:
        prefix = "the node failed: " if isinstance(error, RpcError) else ""
        print(f"vpm feed {options.command}: {prefix}{error.sentence()}", file=sys.stderr)
        return FAILED
    return 0


def parse(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="vpm feed", add_help=False)
    commands = parser.add_subparsers(dest="command", required=True)
    cost = commands.add_parser("cost", allow_abbrev=False, add_help=False)
    add_options(cost)
    cost.add_argument("pools", nargs="+", metavar="POOL")
    cost.add_argument("--window", type=int, default=MIN_LIVE_WINDOW)
    cost.add_argument("--sigma", type=float)
    cost.add_argument("--own-share", type=float, default=100 * SAFE_SHARE)
    cost.add_argument("--quote")
    record.add_options(commands.add_parser("record", allow_abbrev=False, add_help=False))
    return parser.parse_args(argv)


async def cost_of(options: argparse.Namespace) -> CostReport:
    if len(options.pools) > 2:
        raise CostUnknown("A feed has one or two pools.", hint="Give token/USDC, or token/WETH and then WETH/USDC.")
    for address in (*options.pools, *([options.quote] if options.quote else [])):
        if not is_address(address):
            raise CostUnknown(f"{address} is not an address.", hint="An address is 0x and 40 hexadecimal digits.")
    if options.window < 60:
        raise CostUnknown(f"A window of {options.window} s is too short.", hint="Use at least 60 s.")
    if not 0 <= options.own_share < 100:
        raise CostUnknown(f"--own-share cannot be {options.own_share:g}%.", hint="Use at least 0 and less than 100.")
    if options.sigma is not None and not options.sigma > 0:
        raise CostUnknown(f"--sigma cannot be {options.sigma:g}%.", hint="Use a positive yearly percentage.")
    async with ChainProvider([node_url(options.rpc, record.RPC_URLS)], chain_id=None, timeout_seconds=30.0) as rpc:
        client = ChainClient(rpc)
        deployment = _deployment(await client.eth.chain_id, options.deployments)
        asked = CostQuestion(
            tuple(options.pools),
            deployment.pool_factories,
            options.quote or _usdc(deployment, options.deployments),
            options.window,
            None if options.sigma is None else options.sigma / 100,
            options.own_share / 100,
            int(deployment.params.get("feeBps", 0)),
        )
        return await report(client, asked)


def _deployment(chain_id: int, folder: Path) -> Deployment:
    deployment = deployments_in(folder).get(chain_id)
    if deployment is None:
        raise CostUnknown(
            f"There is no deployment file for chain {chain_id} in {folder}.",
            hint="Name another folder with --deployments FOLDER.",
        )
    return deployment


def _usdc(deployment: Deployment, folder: Path) -> str:
    if "USDC" not in deployment.tokens:
        raise CostUnknown(
            f"The deployment file for chain {deployment.chain_id} in {folder} does not name USDC.",
            hint="Give its address with --quote TOKEN.",
        )
    return deployment.token("USDC").address


def report_lines(cost: CostReport) -> list[str]:
    cap, asked = cost.cap, cost.asked
    shown = [
        f"{cost.token.symbol} at {cost.price:.6g} USD, on chain {cost.chain_id} at block {cost.head.number}",
        f"window {asked.window} s; volatility {cost.sigma.yearly:.0%} a year ({cost.sigma.origin})",
        "",
    ]
    for pool, source in zip(cost.pools, cost.sources, strict=True):
        remembers = (cost.head.timestamp - pool.oldest_at) / 3_600
        shown += [
            f"{source.name} {pool.address}, fee {pool.pool.fee_pips / 10_000:g}%",
            f"  depth: {source.depth():,.0f} USD moves the price by 1%",
            f"  history: {remembers:.1f} h; room for {pool.cardinality} observations "
            f"(growing to {pool.cardinality_next}); the last is {cost.head.timestamp - pool.newest_at} s old",
        ]
        out = source.push_out(asked.window, asked.own_share)
        if out is None:
            shown.append(f"  liquidity: no push can leave less than {float(FLOOR):.0%} of it in range")
        else:
            shown.append(
                f"  liquidity: pushing it below {float(FLOOR):.0%} costs {out.cost:,.0f} USD "
                f"(tick {out.tick}, {out.seconds} s)"
            )
    shown += ["", f"{'the reading moves by':>22} {'without arbitrage':>24}"]
    shown += [f"{move:>21.1%}  {cost.cost(move):>20,.0f} USD" for move in MOVES]
    shown += [
        "",
        f"feed cap, for all unsettled markets together: {math.floor(cap.dollars):,} USD",
        f"  for each market, 1/{MARKETS} of it: {math.floor(cap.dollars / MARKETS):,} USD",
        f"  = {cap.factor:g} * phi * D1 * sd, with phi * D1 = {cap.resistance:,.2f} USD over all pools,",
        f"    without {asked.own_share:.0%} of the depth, which may be the attacker's own,",
        f"    and sd = {cap.sd:.3%}, the reading's standard deviation while it is measured",
    ]
    if cap.by_push_out is not None:
        limits = "this is the limit" if cap.by_push_out < cap.by_pushes else "more than the cap, as required"
        shown.append(f"  pushing the liquidity out costs {cap.by_push_out:,.0f} USD: {limits}")
    if not cap.window_is_long_enough:
        shown.append(
            f"  the window is short for the fee: the band covers {cap.reach:.0%} of the price's movement. "
            f"With {cost.least_window} s or more the whole factor applies"
        )
    return shown


if __name__ == "__main__":
    sys.exit(main())
