"""`vpm verify SUBJECT --rpc URL`: see the manual."""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from core.chain import RpcError
from core.chain.provider import ChainProvider
from core.config import environment
from core.errors import VpmError
from scripts._verify import attestation, proof, relay, stock, trade
from scripts._verify.chain import PinnedChain, add_options, node_url
from scripts._verify.claims import Findings, NotCheckable
from scripts._verify.subject import Subject, SubjectKind, subject_of

CANNOT_CHECK = 2


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="vpm verify", allow_abbrev=False, add_help=False)
    parser.add_argument("subject")
    add_options(parser)
    parser.add_argument("--service", default=environment().get("VPM_PUBLIC_URL"))
    parser.add_argument("--attester")
    parser.add_argument("--block", type=int)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(argv)
    try:
        chain, subject, findings = asyncio.run(run(options))
    except VpmError as error:
        prefix = "the node failed: " if isinstance(error, RpcError) else ""
        print(f"vpm verify: {prefix}{error.sentence()}", file=sys.stderr)
        return CANNOT_CHECK
    chain_id, head = chain.deployment.chain_id, chain.head
    if options.json:
        about: dict[str, Any] = {"subject": subject.name, "kind": subject.kind.value, "chainId": chain_id}
        about |= {"block": head.number, "hash": head.hash, "holds": findings.exit_code == 0, "claims": findings.body()}
        print(json.dumps(about, indent=2))
    else:
        print(f"{subject.kind} {subject.name}, on chain {chain_id} at block {head.number} ({head.hash})\n")
        print("\n".join(findings.lines()))
    return findings.exit_code


async def run(options: argparse.Namespace) -> tuple[PinnedChain, Subject, Findings]:
    subject, findings = subject_of(options.subject, options.service), Findings()
    url = node_url(options.rpc, "VPM_BASE_RPC_URLS" if subject.kind.chain == "base" else "VPM_STOCK_RPC_URLS")
    async with ChainProvider([url], chain_id=None, timeout_seconds=30.0) as rpc:
        chain = await PinnedChain.connect(rpc, options.deployments, options.block)
        chain.attester = options.attester or chain.attester
        # The proof page covers both chains, and each node confirms its part.
        if chain.name != subject.kind.chain and subject.kind is not SubjectKind.PROOF:
            about = "Base" if subject.kind.chain == "base" else "the stock chain"
            raise NotCheckable(
                f"A {subject.kind} belongs to {about}, but the node serves chain {chain.deployment.chain_id} "
                f"({chain.deployment.name})."
            )
        try:
            await CHECKS[subject.kind](chain, subject.body, findings)
        except (AttributeError, LookupError, TypeError, ValueError, ArithmeticError) as error:
            # The document is untrusted. The claims checked so far stand, but the rest is malformed.
            raise NotCheckable(
                f"The {subject.kind} does not match its documented format ({type(error).__name__}: {error})."
            ) from error
    if not findings.claims:
        raise NotCheckable("The document has no claims that can be checked.")
    return chain, subject, findings


CHECKS: Mapping[SubjectKind, Callable[[PinnedChain, Any, Findings], Awaitable[None]]] = {
    SubjectKind.RECEIPT: trade.check_receipt,
    SubjectKind.CHALLENGE: attestation.check_challenge,
    SubjectKind.TRADE_PROOF: trade.check_proof,
    SubjectKind.AGENT_POSITIONS: trade.check_positions,
    SubjectKind.RESULT: trade.check_result_document,
    SubjectKind.TRADE: trade.check_trade,
    SubjectKind.AGENT_MARKET: trade.check_market,
    SubjectKind.RELAY: relay.check_relay,
    SubjectKind.MARKET: stock.check_detail,
    SubjectKind.POSITIONS: stock.check_positions,
    SubjectKind.PROOF: proof.check_page,
}

if __name__ == "__main__":
    sys.exit(main())
