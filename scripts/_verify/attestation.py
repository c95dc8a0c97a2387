"""Checks the attestation key's signatures on offers and receipts, in the EIP-712 form of the x402 extension."""

from __future__ import annotations

from typing import Any

from eth_account import Account
from eth_account.messages import encode_typed_data

from core.agent.attestation import OFFER, RECEIPT, TYPES, domain_of
from core.chain import checksum
from scripts._verify.chain import DecodedLog, PinnedChain
from scripts._verify.claims import Findings


def check_receipt(chain: PinnedChain, extensions: Any, trade_id: str, stake: DecodedLog, findings: Findings) -> None:
    info = _info(extensions)
    if info is None:
        return
    payload = _signed(chain, info, info.get("receipt"), RECEIPT, findings)
    if payload is None:
        return
    findings = findings.about("the signed receipt names", "SettlementWallet.Staked")
    findings.same("the transaction", payload.get("transaction"), stake.tx)
    findings.address("the payer", payload.get("payer"), checksum(stake.event.wallet))
    resource = str(payload.get("resourceUrl"))
    findings.same("the trade", resource.rpartition("#")[2], trade_id, "the resource URL's fragment")


async def check_challenge(chain: PinnedChain, body: dict[str, Any], findings: Findings) -> None:
    """Check the payee and the token of a 402 response, and check that the attestation key signed the same terms."""
    wallet, token = chain.contract("SettlementWallet").address, chain.token.address
    for accept in body.get("accepts") or []:
        findings.address("the challenge pays the settlement wallet", accept.get("payTo"), wallet, "the deployment file")
        findings.address("the challenge requires USDC", accept.get("asset"), token, "the deployment file")
    info = _info(body.get("extensions"))
    if info is None:
        findings.unknown("the offer is signed", "the challenge has no signature", "extensions")
        return
    for offer in info.get("offers") or []:
        payload = _signed(chain, info, offer, OFFER, findings)
        at = offer.get("acceptIndex") if isinstance(offer, dict) else None
        accepts = body.get("accepts") or []
        if payload is None or not isinstance(at, int) or not 0 <= at < len(accepts):
            continue
        terms = accepts[at]
        stated = (payload.get("amount"), str(payload.get("payTo")).lower(), str(payload.get("asset")).lower())
        asked = (terms.get("maxAmountRequired"), str(terms.get("payTo")).lower(), str(terms.get("asset")).lower())
        findings.same("the signed offer matches the challenge", stated, asked, f"accepts[{at}]")
        findings.same(
            "the signed offer is for this resource", payload.get("resourceUrl"), terms.get("resource"), "accepts"
        )


def _info(extensions: Any) -> dict[str, Any] | None:
    extension = extensions.get("offer-receipt") if isinstance(extensions, dict) else None
    info = extension.get("info") if isinstance(extension, dict) else None
    return info if isinstance(info, dict) else None


def _signed(
    chain: PinnedChain, info: dict[str, Any], statement: Any, primary: str, findings: Findings
) -> dict[str, Any] | None:
    """Return the statement's payload, or None if it cannot be read. Check that the attester signed the statement. If no
    attester is known, check the signature against the signer that the document names."""
    what = f"the {primary.lower()}'s signature"
    if not isinstance(statement, dict) or not isinstance(statement.get("payload"), dict):
        findings.check(what, False, "extensions.offer-receipt", "there is no payload")
        return None
    payload: dict[str, Any] = statement["payload"]
    try:
        message = encode_typed_data(domain_of(primary), {primary: TYPES[primary]}, payload)
        signer = str(Account.recover_message(message, signature=statement["signature"]))
    except Exception as error:  # a hostile document can make the libraries raise any type
        findings.check(what, False, "EIP-712 recovery", f"it cannot be read ({type(error).__name__})")
        return None
    findings.address(f"{what} is by", chain.attester or info.get("signer"), signer, "EIP-712 recovery of the signer")
    if chain.attester is None:
        findings.unknown(
            f"{signer} is the service's attestation key",
            "the deployment file does not name it; compare it with the address that the service publishes",
            "--attester ADDRESS",
        )
    return payload
