"""What agents and the people who build them read: the guide in plain text (/agents.txt), and what is paid for here, as
older directories of x402 read it."""

from __future__ import annotations

import textwrap

import orjson

from api.agent.errors import CATALOGUE, RETRIABLE
from api.agent.platform import custody
from api.stock.authorization import NONCE_FORMULA
from api.web.templating import Pages
from core.contracts.deployments import Deployment

LINE = 120


def guide_text(pages: Pages, base: Deployment, stock: Deployment) -> bytes:
    return pages.render(
        "agents.txt",
        base=base,
        stock=stock,
        custody=_filled(custody(base.contracts["SettlementWallet"].address))
        if "SettlementWallet" in base.contracts
        else "",
        catalogue=CATALOGUE,
        retriable=RETRIABLE,
        nonce_formula=NONCE_FORMULA,
    )


def paid_resources(origin: str) -> bytes:
    return orjson.dumps(
        {
            "version": 1,
            "resources": [f"{origin}/api/agent/v1/trade"],
            "instructions": f"Bets on prediction markets in USDC on Base. POST a bet to learn what it costs. "
            f"{origin}/agents.txt is the guide, {origin}/openapi.json has a bet that works now as example.",
        }
    )


def _filled(text: str) -> str:
    return textwrap.fill(text, LINE, break_long_words=False, break_on_hyphens=False)
