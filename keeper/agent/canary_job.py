"""`agent-canary`: quotes and makes a simulated trade through the public address, as an agent would. A failed step is
reported as an error of the run, so it shows in health and metrics."""

from __future__ import annotations

import time
from typing import Any

import aiohttp
import orjson

from core.log import redact_text
from keeper import metrics
from keeper.run import Action, JobRun

TIMEOUT_SECONDS = 10.0
SIZE_USD = 1
WALLET = "0x00000000000000000000000000000000Ca4a4700"  # it needs no money


class CanaryFailure(Exception):
    """Raised if a step fails. The message is a full sentence."""


async def canary(run: JobRun) -> None:
    if not run.keeper.how.canary:
        run.report.skip("everything", "VPM_KEEPER_CANARY is 0")
        return
    base = run.keeper.settings.public_url.rstrip("/") + "/api/agent/v1"
    if run.dry_run:
        run.report.actions.append(Action("canary", base, "dry-run", "would quote and trade (simulated)"))
        return
    try:
        health = await _step(run, "health", "GET", f"{base}/health")
        if not _object(health, "health").get("ok"):
            run.report.skip("trade", "/health says that trading is paused or settlement is down")
            return
        markets = (await _step(run, "markets", "GET", f"{base}/markets?status=open&limit=1")).get("markets")
        if not isinstance(markets, list) or not markets:
            run.report.skip("quote", "no market is open")
            return
        market = markets[0]
        side = (market.get("outcomes") or [{"key": "yes"}])[0]["key"]
        query = f"marketId={market['id']}&side={side}&sizeUsd={SIZE_USD}"
        quote = _object(await _step(run, "quote", "GET", f"{base}/quote?{query}"), "quote")
        price = quote.get("priceCents")
        if isinstance(price, bool) or not isinstance(price, int | float) or not 0 < price < 100:
            raise CanaryFailure(f"The quote's price is {price!r} cents, not between 0 and 100.")
        trade = {
            "marketId": market["id"],
            "side": side,
            "sizeUsd": SIZE_USD,
            "idemKey": f"canary-{run.head}-{int(time.time())}",
            "walletAddress": WALLET,
            "simulate": True,
        }
        receipt = _object(await _step(run, "trade", "POST", f"{base}/trade", trade), "receipt")
        if receipt.get("simulated") is not True or receipt.get("txHash") is not None:
            raise CanaryFailure("A simulated trade returned a receipt that is not simulated.")
        detail = f"{side} at {price} cents, {receipt['position']['shares']} shares for {SIZE_USD} USD"
        run.report.actions.append(Action("canary", market["id"], "ok", detail))
    except CanaryFailure as error:
        run.report.errors.append(str(error))
    except (KeyError, TypeError, IndexError) as error:
        run.report.errors.append(f"A response does not match the documented format: {type(error).__name__} {error}.")


async def _step(run: JobRun, step: str, method: str, url: str, body: Any = None) -> dict[str, Any]:
    """Return the JSON object in the response. Raise CanaryFailure unless the status is 200."""
    timeout = aiohttp.ClientTimeout(total=TIMEOUT_SECONDS)
    try:
        async with run.keeper.http.request(method, url, json=body, timeout=timeout) as response:
            content, status = await response.read(), response.status
        answer = orjson.loads(content)
        if status != 200:
            code = answer.get("error") if isinstance(answer, dict) else None
            raise CanaryFailure(f"The {step} step returned HTTP {status} ({code}).")
        if not isinstance(answer, dict):
            raise CanaryFailure(f"The {step} step did not return a JSON object.")
    except TimeoutError:
        metrics.CANARY.labels(step, "late").inc()
        raise CanaryFailure(f"The {step} step timed out after {TIMEOUT_SECONDS:g} s.") from None
    except aiohttp.ClientError as error:
        metrics.CANARY.labels(step, "unreachable").inc()
        raise CanaryFailure(f"The {step} step could not connect: {redact_text(str(error))}.") from None
    except orjson.JSONDecodeError:
        metrics.CANARY.labels(step, "wrong").inc()
        raise CanaryFailure(f"The {step} step returned HTTP {status} without JSON.") from None
    except CanaryFailure:
        metrics.CANARY.labels(step, "wrong").inc()
        raise
    metrics.CANARY.labels(step, "ok").inc()
    return answer


def _object(answer: dict[str, Any], key: str) -> dict[str, Any]:
    value = answer.get(key)
    if not isinstance(value, dict):
        raise CanaryFailure(f"The response has no {key}.")
    return value
