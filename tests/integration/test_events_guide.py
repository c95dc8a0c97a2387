"""docs/events.md: its examples run unchanged against real deliveries, and its tables are complete."""

from __future__ import annotations

import dataclasses
import json
import re
import subprocess
import time
from pathlib import Path

from eth_account import Account

from api.agent.notices.dispatcher import RETRIES
from api.agent.notices.sending import DeliverySigner
from core.agent.book import Book
from core.agent.document import Specification
from core.agent.notices import payloads
from core.agent.notices.log import EventType
from core.agent.notices.payloads import NoticeMarket
from core.agent.words import OutcomeWords
from core.contracts.events.agent import Staked
from core.contracts.statuses import MarketKind
from core.paths import REPOSITORY

GUIDE = (REPOSITORY / "docs" / "events.md").read_text()
KEY = "0x" + "11" * 32
SECRET = "whsec_guide"
BODY = b'{"eventId":"evt_1","payload":{"text":"\xc3\xa4 \\u20ac"}}'


def _examples(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", GUIDE, re.MULTILINE | re.DOTALL)


def _cases(signer: DeliverySigner, secret: str | None) -> list[tuple[dict[str, str], bytes, bool]]:
    """Return headers, body, and whether a receiver should accept them."""
    now = int(time.time())
    good = signer.headers("evt_1", BODY, secret, now)
    other = signer.headers("evt_1", BODY, None if secret is None else "another", now)
    cases = [(good, BODY, True), (good, BODY + b" ", False), ({**good, "Service-Event-Id": "evt_2"}, BODY, False)]
    cases.append(({**good, "Service-Timestamp": str(now - 10)}, BODY, False))
    cases.append((signer.headers("evt_1", BODY, secret, now - 400), BODY, False))
    if secret is not None:
        cases.append((other, BODY, False))
    return cases


def test_the_python_examples_accept_true_and_reject_false_deliveries() -> None:
    by_secret, by_key = _examples("python")
    found: dict[str, object] = {}
    exec(by_secret, found)
    exec(by_key, found)
    verified, signed = found["verified"], found["signed_by_service"]
    assert callable(verified)
    assert callable(signed)
    for headers, body, good in _cases(DeliverySigner(None), SECRET):
        assert verified(SECRET, headers, body) is good
    address = Account.from_key(KEY).address
    for headers, body, good in _cases(DeliverySigner(KEY), None):
        assert signed(address, headers, body) is good


def test_the_typescript_example_accepts_true_and_rejects_false_deliveries(tmp_path: Path) -> None:
    """Its type annotations are removed to run it as JavaScript."""
    (example,) = _examples("typescript")
    plain = re.sub(r": (string|Buffer|boolean|Record<string, string>)(?=[,)]| \{)", "", example)
    (tmp_path / "receiver.mjs").write_text(plain)
    cases = [
        [{name.lower(): value for name, value in headers.items()}, body.hex(), good]
        for headers, body, good in _cases(DeliverySigner(None), SECRET)
    ]
    (tmp_path / "run.mjs").write_text(
        f"""import {{ verified }} from "./receiver.mjs";
for (const [headers, hex, good] of {json.dumps(cases)}) {{
  const taken = verified({json.dumps(SECRET)}, headers, Buffer.from(hex, "hex"));
  if (taken !== good) throw new Error(JSON.stringify(headers));
}}
console.log("all as expected");
"""
    )
    done = subprocess.run(["node", "run.mjs"], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout == "all as expected\n", done.stderr


MARKET = NoticeMarket(
    b"\1" * 32,
    "m",
    Specification(
        MarketKind.THRESHOLD, 5, (), False, True, 3600, 0, 1_763_100_000, 0, 7, 8, b"f" * 20, 10, 1_763_000_000
    ),
    (OutcomeWords("yes", "Yes", "Yes"), OutcomeWords("no", "No", "No")),
    Book((10**7, 10**7), 200, (10**6, 10**6), (10**6, 10**6), (0, 0)),
)
ONE_SIDED = dataclasses.replace(MARKET, book=Book((10**7, 10**7), 200, (10**6, 10**6), (3 * 10**6, 10**6), (9, 0)))
TX = b"\2" * 32
STAKED = Staked(
    market_id=MARKET.key,
    stake_id=1,
    wallet=bytes(20),
    outcome=0,
    amount=5,
    fee=1,
    shares=3,
    nonce=bytes(32),
    bet_hash=bytes(32),
    idem_hash=bytes(32),
    builder=bytes(20),
    ref=bytes(32),
)
PAYLOADS = {
    EventType.BET_SUBMITTED: payloads.bet_submitted(MARKET, 0, 1, TX),
    EventType.BET_PLACED: payloads.bet_placed(MARKET, STAKED, tx=TX, block=1),
    EventType.MARKET_RESOLVED: payloads.market_resolved(MARKET, winner=0, observed=1, tx=TX, block=1),
    EventType.POSITION_WON: payloads.position_ended(MARKET, outcome=0, winner=0, amount=1, shares=1, owed=1),
    EventType.PAYOUT_SUBMITTED: payloads.payout(MARKET, outcome=0, amount=1, stake_id=1, tx=TX, refund=False),
}


def test_every_type_and_every_payload_key_is_documented() -> None:
    rows = {}
    for line in GUIDE.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("| `") and len(cells) == 3:
            for kind in re.findall(r"`([a-z_.]+)`", cells[0]):
                rows[kind] = cells[2]
    assert {each.value for each in EventType} <= set(rows)
    for kind, payload in PAYLOADS.items():
        for key in json.loads(payload):
            assert f"`{key}`" in rows[kind], (kind, key)
    assert len(RETRIES) == 9
    assert "nine more times" in GUIDE


def test_the_payout_per_share_is_null_when_payouts_differ() -> None:
    def paid_per_share(market: NoticeMarket, winner: int | None) -> object:
        return json.loads(payloads.market_resolved(market, winner=winner, observed=1, tx=TX, block=1))[
            "payoutPerShareUsd"
        ]

    assert paid_per_share(MARKET, 0) == 2
    assert paid_per_share(ONE_SIDED, 0) is None, "the pool holds less than a dollar a share"
    assert paid_per_share(ONE_SIDED, 1) == 2
    assert paid_per_share(MARKET, None) is None


def test_event_payloads_have_the_times_of_a_market() -> None:
    for kind in (EventType.BET_PLACED, EventType.MARKET_RESOLVED):
        payload = json.loads(PAYLOADS[kind])
        assert payload["deadlineAt"] == "2025-11-13T02:13:20Z"
        assert payload["endsAt"] == "2025-11-14T06:00:00Z"
        assert payload["settlesAfter"] == "1970-01-01T00:00:07Z"
