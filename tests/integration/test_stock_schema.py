"""Generated requests against the description of the stock surface: no server error, no undocumented answer."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, settings
from schemathesis import checks

from scripts._stack import wallets
from tests.support.genesis import Genesis, RunningChain
from tests.support.stock_chain import FLAT_PRICE, USDG, StockChain
from tests.support.stock_service import CRON_SECRET, StockService, stock_service

_callers = itertools.count(1)

# Data of the right shape may still be refused: a market that is not there, a signature nobody made.
CHECKS = [
    checks.not_a_server_error,
    checks.status_code_conformance,
    checks.content_type_conformance,
    checks.response_headers_conformance,
    checks.response_schema_conformance,
    checks.negative_data_rejection,
    checks.missing_required_header,
    checks.unsupported_method,
    checks.allow_header_conformance,
]


@pytest.fixture(scope="module")
def service(
    local_genesis: Genesis, stock_chain: RunningChain, database_url: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[StockService]:
    chain = StockChain.on(stock_chain.url, stock_chain.deployment)
    chain.push(FLAT_PRICE)
    chain.open_market(strike_in=86_400, lasts=86_400)
    chain.enter(wallets.DEV[1], 1, 0, 5 * USDG)
    folder = tmp_path_factory.mktemp("stock-schema")
    with stock_service(chain, database_url, local_genesis.deployments, folder) as service:
        service.start("indexer", "relayer", "keeper", "api")
        yield service


@pytest.fixture(scope="module")
def session() -> Iterator[requests.Session]:
    with requests.Session() as session:
        session.trust_env = False
        yield session


@pytest.fixture
def described(service: StockService, session: requests.Session) -> Any:
    described = session.get(f"{service.url}/openapi/vpm.json", timeout=10).json()
    schema = schemathesis.openapi.from_dict(described)
    schema.config.update(base_url=service.url)
    return schema


schema = schemathesis.pytest.from_fixture("described")


@schema.parametrize()
@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True, database=None)
def test_every_answer_is_documented(case: Any, session: requests.Session) -> None:
    number = next(_callers)
    headers = {"X-Forwarded-For": f"10.{number >> 16 & 255}.{number >> 8 & 255}.{number & 255}"}
    if case.path == "/api/cron/{job}":
        headers["Authorization"] = f"Bearer {CRON_SECRET}"
    case.call_and_validate(session=session, headers=headers, timeout=30, checks=CHECKS)
