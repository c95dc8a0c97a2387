"""Each alert rule that is easily wrong is silent on a healthy service and fires on a sick one."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from prometheus_client import REGISTRY

from api.agent.trade import trading
from core.db.leader import Leadership
from core.service.cancelling import cancel_and_wait
from relayer.leases import LaneSpec, Leases
from relayer.signing import LocalSigner
from scripts._local.ports import free_port
from scripts._stack.parts import DAEMONS
from tests.support.alert_rules import firing

NONE: Sequence[str] = ()
ONE: Sequence[str] = ("",)
FEED = 'feed="BNKR/market_cap"'
POOL = f'{FEED}, pool="BNKR/WETH"'


def _job(job: str, period: str, age: str) -> dict[str, str]:
    return {
        f'vpm_keeper_period_seconds{{job="{job}", instance="a"}}': period,
        f'vpm_keeper_success_age_seconds{{job="{job}", instance="a"}}': age,
    }


def _nodes(asked: str, failed: str, kind: str = "timeout", chain_id: str = "0x60") -> dict[str, str]:
    return {
        'vpm_rpc_requests_total{chain="8453", endpoint="0:a", method="eth_chainId", instance="leads"}': chain_id,
        'vpm_rpc_requests_total{chain="8453", endpoint="0:a", method="m", instance="leads"}': asked,
        f'vpm_rpc_errors_total{{chain="8453", endpoint="0:a", kind="{kind}", instance="leads"}}': failed,
        'vpm_rpc_endpoint_up{chain="8453", endpoint="0:a", instance="stands by"}': "1x60",
    }


def _lane(lane: str, in_flight: str, mined: str) -> dict[str, str]:
    labels = f'chain="base", lane="{lane}", instance="a"'
    return {
        f"vpm_relayer_in_flight{{{labels}}}": in_flight,
        f'vpm_relayer_changes_total{{{labels}, kind="settle", before="sent", after="mined"}}': mined,
    }


def _due(job: str, what: str, age: str) -> dict[str, str]:
    return {
        f'vpm_keeper_due_oldest_seconds{{job="{job}", what="{what}", instance="a"}}': age,
        f'vpm_keeper_due{{job="{job}", what="{what}", instance="a"}}': "7x60",
    }


def _refused(owners: str) -> dict[str, str]:
    return {'vpm_keeper_due{job="deliver", what="owners refused", instance="a"}': owners}


def _canary(errors: str, fine: str) -> dict[str, str]:
    """Return the series of canary runs every few minutes."""
    return {
        f'vpm_keeper_runs_total{{job="agent-canary", result="{result}", instance="a"}}': each
        for result, each in (("errors", errors), ("ok", fine))
    }


def _head(chain: str, at: str, lag: str = "0x60") -> dict[str, str]:
    return {
        f'vpm_index_head_timestamp_seconds{{chain="{chain}", instance="a"}}': at,
        f'vpm_index_lag_blocks{{chain="{chain}", instance="a"}}': lag,
    }


def _http(operation: str, failed: str) -> dict[str, str]:
    return {
        'vpm_http_requests_total{operation="get_api_markets", status="200", instance="a"}': "0+60x60",
        f'vpm_http_requests_total{{operation="{operation}", status="503", instance="a"}}': failed,
    }


def _slow(operation: str) -> dict[str, str]:
    """Return the series of responses that each take between one second and five."""
    name = f'vpm_http_request_seconds_bucket{{operation="{operation}", instance="a", le='
    return {f'{name}"1.0"}}': "0x60", f'{name}"5.0"}}': "0+60x60", f'{name}"+Inf"}}': "0+60x60"}


CASES: list[tuple[str, str, Mapping[str, str], Mapping[str, Sequence[str]]]] = [
    (
        "VpmJobFails",
        "once an hour",
        _job("tidy", "3600x300", "0+60x60 60+60x60 120+60x60"),
        {"59m": NONE, "119m": NONE},
    ),
    ("VpmJobFails", "not for hours", _job("tidy", "3600x300", "0+60x300"), {"2h": NONE, "200m": ['job="tidy"']}),
    (
        "VpmJobFails",
        "leads again after hours, and runs",
        _job("resolve", "10x30 _x200 10x60", "0x30 60+60x200 0x60"),
        {f"{at}m": NONE for at in range(225, 245)},
    ),
    (
        "VpmKeyUsedElsewhere",
        "a key is emptied by one transaction",
        {'vpm_relayer_foreign_total{chain="base", lane="0x1", instance="a"}': "0x10 1x30"},
        {"9m": NONE, "12m": ['chain="base", lane="0x1"']},
    ),
    (
        "VpmTradesUnknown",
        "one answer",
        {'vpm_agent_trades_unknown_total{instance="a"}': "0x10 1x30"},
        {"9m": NONE, "12m": ONE},
    ),
    (
        "VpmKeyUsedElsewhere",
        "it was by the time a new relayer took the lane",
        {
            'vpm_relayer_foreign_total{chain="base", lane="0x1", instance="b"}': "_x10 1x30",
            'process_start_time_seconds{daemon="relayer", instance="b"}': "_x10 590x30",
        },
        {"12m": ['chain="base", lane="0x1"'], "30m": NONE},
    ),
    (
        "VpmKeyUsedElsewhere",
        "it was a day ago, and one scrape failed",
        {
            'vpm_relayer_foreign_total{chain="base", lane="0x1", instance="b"}': "1x60 stale 1x60",
            'process_start_time_seconds{daemon="relayer", instance="b"}': "-86400x120",
        },
        {f"{at}m": NONE for at in range(50, 90)},
    ),
    ("VpmTokenRefuses", "two owners are frozen", _refused("2x60"), {"59m": NONE}),
    ("VpmOwnerRefused", "two owners are frozen", _refused("2x60"), {"5m": NONE, "59m": ['job="deliver"']}),
    ("VpmTokenRefuses", "the token is paused", _refused("5x60"), {"19m": NONE, "59m": ['job="deliver"']}),
    (
        "VpmDueLong",
        "nothing is sent",
        _due("deliver", "positions", "0+60x60"),
        {"19m": NONE, "59m": ['job="deliver", what="positions"']},
    ),
    (
        "VpmDueLong",
        "there is always something due, which is done in seconds",
        _due("deliver", "positions", "15x60"),
        {"59m": NONE},
    ),
    (
        "VpmDueLong",
        "a market waits for a second look at its stale reading",
        _due("agent-resolve", "markets", "0+60x17 0x20"),
        {f"{at}m": NONE for at in (17, 18, 19, 30)},
    ),
    ("VpmCanaryFails", "once", _job("agent-canary", "600x60", "0+60x9 0+60x9 0+60x9 600+60x9"), {"36m": NONE}),
    ("VpmCanaryFails", "twice", _job("agent-canary", "600x60", "0+60x9 0+60x60"), {"34m": NONE, "38m": ONE}),
    ("VpmCanaryUnsteady", "every second run", _canary("0+1x60", "0+1x60"), {"1m": NONE, "59m": ONE}),
    ("VpmCanaryUnsteady", "a bad minute", _canary("0x30 2x30", "0+1x60"), {"40m": NONE, "59m": NONE}),
    (
        "VpmTransactionsStand",
        "one key of two",
        {**_lane("0x1", "1x60", "0x60"), **_lane("0x2", "1x60", "0+3x60")},
        {"20m": ['chain="base", lane="0x1"']},
    ),
    (
        "VpmPayersBurnGas",
        "our own calls revert, and then those of wallets with code",
        {
            'vpm_relayer_gas_burnt_ether{chain="base", lane="0x1", payer="none", instance="a"}': "0.1x60",
            'vpm_relayer_gas_burnt_ether{chain="base", lane="0x1", payer="contract", instance="a"}': "0x20 0.02x40",
        },
        {"15m": NONE, "25m": ['chain="base", lane="0x1"']},
    ),
    (
        "VpmGasExceedsFees",
        "a day of gas costs twenty dollars, and its bets paid five, and then fifteen",
        {
            'vpm_relayer_gas_day_ether{chain="base", instance="a"}': "0.005x120",
            'vpm_relayer_gas_day_ether{chain="stock", instance="a"}': "1x120",
            'vpm_relayer_fees_day_usd{instance="a"}': "5x60 15x60",
        },
        {"10m": NONE, "59m": ONE, "90m": NONE},
    ),
    (
        "VpmRelayRefuses",
        "a payer moves its money to and fro",
        {
            'vpm_stock_relay_answers_total{answer="unproven", instance="a"}': "0+60x60",
            'vpm_stock_relay_answers_total{answer="relay_failed", instance="a"}': "0x60",
        },
        {"30m": NONE},
    ),
    (
        "VpmQueuedLong",
        "no relayer has the key",
        {
            'vpm_relayer_queued_oldest_seconds{chain="base", group="credit", instance="a"}': "0+60x60",
            'vpm_relayer_queued_oldest_seconds{chain="base", group="relay", instance="a"}': "5x60",
        },
        {"5m": NONE, "20m": ['chain="base", group="credit"']},
    ),
    ("VpmHeadStands", "history is read", _head("base", "0x60", "50000-100x60"), {"20m": NONE}),
    ("VpmHeadStands", "blocks come", _head("base", "0+60x60"), {"2m": NONE, "20m": NONE}),
    ("VpmHeadStands", "no new block", _head("base", "0x60"), {"1m": NONE, "2m": ['chain="base"']}),
    ("VpmHeadStands", "the stock chain stops", _head("stock", "0x60"), {"2m": NONE, "3m": ['chain="stock"']}),
    (
        "VpmDatabaseSilent",
        "one of two processes",
        {
            'vpm_database_silent{daemon="api", instance="a"}': "0x10 1x10",
            'vpm_database_silent{daemon="api", instance="b"}': "0x20",
        },
        {"9m": NONE, "12m": ['daemon="api"']},
    ),
    (
        "VpmIndexFaults",
        "every try fails",
        {'vpm_index_faults_total{chain="base", kind="database", instance="a"}': "0+12x60"},
        {"30m": ['chain="base", kind="database"']},
    ),
    (
        "VpmIndexFaults",
        "now and then",
        {'vpm_index_faults_total{chain="base", kind="timeout", instance="a"}': "0x5 1x5 2x5 3x5 4x5 5x30"},
        {"30m": NONE},
    ),
    ("VpmNoNodeAnswers", "who asks has no answer", _nodes("0+60x60", "0+60x60"), {"20m": ['chain="8453"']}),
    ("VpmNoNodeAnswers", "half of it fails", _nodes("0+60x60", "0+30x60", chain_id="0+30x60"), {"20m": NONE}),
    (
        "VpmNoNodeAnswers",
        "it says its number only",
        _nodes("0+60x60", "0+60x60", chain_id="0+60x60"),
        {"20m": ['chain="8453"']},
    ),
    ("VpmNoNodeAnswers", "calls revert", _nodes("0+60x60", "0+60x60", "reverted"), {"20m": NONE}),
    (
        "VpmNodeDown",
        "a spare is not asked",
        {'vpm_rpc_endpoint_up{chain="8453", endpoint="1:b", instance="a"}': "0x60", **_nodes("0+60x60", "0x60")},
        {"40m": NONE},
    ),
    (
        "VpmNodeDown",
        "it fails whenever it is asked",
        {
            'vpm_rpc_endpoint_up{chain="8453", endpoint="0:a", instance="a"}': "0x60",
            'vpm_rpc_errors_total{chain="8453", endpoint="0:a", kind="timeout", instance="a"}': "0+2x60",
        },
        {"40m": ['chain="8453", endpoint="0:a"']},
    ),
    ("VpmHttpErrors", "a monitor asks a health page that says no", _http("get_api_health", "0+6x60"), {"20m": NONE}),
    ("VpmHttpErrors", "answers fail", _http("get_api_markets", "0+6x60"), {"20m": ONE}),
    ("VpmHttpSlow", "reads are slow", _slow("get_api_markets"), {"30m": ONE}),
    ("VpmHttpSlow", "tools bet", _slow("post_api_agent_mcp"), {"30m": NONE}),
    (
        "VpmDaemonRestarts",
        "every few minutes",
        {'process_start_time_seconds{daemon="keeper", instance="a"}': "0x5 300x5 600x5 900x5 1200x5"},
        {"4m": NONE, "25m": ['daemon="keeper", instance="a"']},
    ),
    (
        "VpmNobodyLeads",
        "all stand by",
        {'vpm_leader{role="keeper", instance="a"}': "0x60", 'vpm_leader{role="keeper", instance="b"}': "0x60"},
        {"20m": ['role="keeper"']},
    ),
    *(
        (
            alert,
            "at its limit, and then just beyond",
            {f'{series}{{{labels}, instance="a"}}': f"{quiet}x80 {loud}x80"},
            {"70m": NONE, "155m": [labels]},
        )
        for alert, series, quiet, loud, labels in (
            ("VpmFeedBehind", "vpm_feed_behind_seconds", 300, 301, FEED),
            ("VpmReadingLost", "vpm_feed_lost_readings", 0, 1, FEED),
            ("VpmPoolThin", "vpm_pool_depth", 0.5, 0.49, POOL),
            ("VpmFeedCapFell", "vpm_feed_cap_supported", 0.7, 0.69, FEED),
            ("VpmFeedFull", "vpm_feed_room", 1, 0, FEED),
            ("VpmPoolQuiet", "vpm_pool_quiet", 0.7, 0.71, POOL),
        )
    ),
    *(
        (
            "VpmDaemonMissing",
            f"no target is a {gone}",
            {f'up{{daemon="{daemon}", instance="a"}}': "1x10" for daemon in DAEMONS if daemon != gone},
            {"1m": NONE, "5m": [f'daemon="{gone}"']},
        )
        for gone in DAEMONS
    ),
]


@pytest.mark.parametrize(
    ("alert", "series", "expected"),
    [(alert, series, expected) for alert, _, series, expected in CASES],
    ids=[f"{alert}: {what}" for alert, what, _, _ in CASES],
)
@pytest.mark.thorough
def test_a_rule_fires_for_the_sick_and_not_for_the_healthy(
    alert: str, series: Mapping[str, str], expected: Mapping[str, Sequence[str]], tmp_path: Path
) -> None:
    firing(tmp_path, alert, series, expected)


async def _unasked(*_: object) -> None:
    raise AssertionError


async def test_what_a_rule_counts_up_or_misses_is_shown_as_0_before_it_happens() -> None:
    """Prometheus sees no increase in a series that starts at 1, and no zero in one that is absent."""
    lane = LaneSpec("unheard-of", 1, ("relay",), LocalSigner(secrets.token_bytes(32)))
    nowhere = f"postgresql://unused@127.0.0.1:{free_port()}/none"
    leases = Leases(nowhere, [lane], lease_seconds=3.0, gained=lambda *_: None, lost=_unasked)
    for work in (leases.run(), Leadership(nowhere, "vacant role").run(_unasked)):
        task = asyncio.create_task(work)
        await asyncio.sleep(0)
        await cancel_and_wait(task)
    of = {"chain": "unheard-of", "lane": lane.signer.label}
    assert REGISTRY.get_sample_value("vpm_relayer_foreign_total", of) == 0
    assert REGISTRY.get_sample_value("vpm_relayer_lane_held", of) == 0
    assert REGISTRY.get_sample_value("vpm_leader", {"role": "vacant role"}) == 0
    assert trading.UNKNOWN.collect()[0].samples[0].name == "vpm_agent_trades_unknown_total"
