"""The error catalogue against the specification: complete, and reserved codes are never sent."""

from __future__ import annotations

import re

import msgspec
import pytest

from api.agent.bodies.parts import ErrorBody
from api.agent.errors import CATALOGUE, RESERVED, RETRIABLE, error_body, problem
from api.payments.pipeline import mark_not_final
from api.problems import Problem
from core.paths import REPOSITORY

# Errors of any HTTP service; documented, as the decisions ask.
ADDITIONS = {
    "not_found",
    "platform_disabled",
    "method_not_allowed",
    "payload_too_large",
    "unsupported_media_type",
}


def specified() -> set[str]:
    text = (REPOSITORY / "docs" / "spec" / "agent-api.md").read_text()
    (line,) = [each for each in text.splitlines() if "Catalogue of `error` codes:" in each]
    return set(re.findall(r"`([a-z_]+)`", line.partition("Catalogue of `error` codes:")[2]))


def test_the_catalogue_is_the_specifications_and_its_additions() -> None:
    codes = specified()
    assert len(codes) == 23
    assert codes | ADDITIONS == set(CATALOGUE)
    assert {"deposit_above_max", "deposit_unconfirmed", "deposit_mismatch", "deposit_tx_reused"} < RESERVED
    # The published description names every code that is sent, so a generated test finds one that is not in it.
    assert (
        set(msgspec.json.schema(ErrorBody)["$defs"]["ErrorBody"]["properties"]["error"]["enum"])
        == set(CATALOGUE) - RESERVED
    )


@pytest.mark.parametrize("code", sorted(RESERVED))
def test_a_reserved_code_cannot_be_sent(code: str) -> None:
    with pytest.raises(KeyError):
        problem(code, "never")


@pytest.mark.parametrize("code", sorted(CATALOGUE.keys() - RESERVED))
def test_every_code_says_what_to_do(code: str) -> None:
    raised = problem(code, "What happened.")
    body = error_body(raised, "id", "https://example.org/errors")
    assert body["error"] == code
    assert body["hint"].endswith(". More: https://example.org/errors")
    assert body["retriable"] is (code in RETRIABLE)
    assert raised.status == CATALOGUE[code].status


def test_a_bet_that_may_still_be_made_is_retriable() -> None:
    """A client that obeys `retriable: false` bets again under another key, and after a reorg both bets may be made."""
    refused = mark_not_final(problem("market_closed", "It closed."), "Send the same request again for the outcome.")
    body = error_body(refused, "id", "https://example.org/errors")
    assert (body["error"], body["final"], body["retriable"]) == ("market_closed", False, True)
    assert "same request" in body["hint"]
    assert "another market" not in body["hint"]
    waits = mark_not_final(
        problem("rate_limited", "Wait.", hint="Wait for it."), "Send the same request again for the outcome."
    )
    assert error_body(waits, "id", "https://example.org/errors")["hint"].startswith("Wait for it.")


@pytest.mark.parametrize(
    ("status", "code", "sent"), [(503, "unavailable", "internal_error"), (400, "bad_thing", "invalid_request")]
)
def test_errors_of_the_http_layer_get_codes_of_the_catalogue(status: int, code: str, sent: str) -> None:
    assert error_body(Problem(status, code, "What happened."), "id", "https://example.org")["error"] == sent
