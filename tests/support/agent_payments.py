"""Payments that payers and third parties make directly at the token, with their own keys and higher tips."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from eth_account import Account
from eth_account.messages import encode_typed_data

from core import eip3009
from core.chain import Call
from core.contracts.deployments import Token
from core.signatures import message_hash
from scripts._stack.wallets import Wallet
from tests.support.agent_chain import AgentChain

STRANGER_TIP = 5_000 * 10**9
_SPEND = "{}(address,address,uint256,uint256,uint256,bytes32,bytes)"

# Makes every call that its calldata lists, each as two bytes of length, twenty of address and the data; or none at all.
MANY_CALLS_CODE = (
    "0x5f"  # p = 0
    "5b803614603057"  # while p != calldatasize
    "803560f01c816002013560601c"  # length, target
    "8183601601" + "5f37"  # data to memory
    "5f5f835f5f855af115603257"  # call, or fail
    "5001601601600156"  # p += length + 22
    "5b00"
    "5b5f5ffd"
)
# isValidSignature by the key whose address this stands at.
OWNER_CODE = (
    "0x6004355f52"  # the hash
    "60a43560f81c602052606435604052608435606052"  # v, r, s
    "6020608060805f60015afa50"  # ecrecover
    "6080513014631626ba7e0260e01b5f5260205ff3"  # the magic value if it is us
)
# isValidSignature that takes anything.
YES_CODE = "0x631626ba7e60e01b5f5260205ff3"
# That takes any signature of 65 bytes, and no other.
PLAIN_CODE = "0x3660c414600a575f5ffd5b" + YES_CODE[2:]


def spending(chain: AgentChain, envelope: Mapping[str, Any], function: str = "transferWithAuthorization") -> Call:
    given = envelope["payload"]["authorization"]
    return chain.contracts.token.call(
        _SPEND.format(function),
        given["from"],
        given["to"],
        int(given["value"]),
        int(given["validAfter"]),
        int(given["validBefore"]),
        bytes.fromhex(given["nonce"][2:]),
        bytes.fromhex(envelope["payload"]["signature"][2:]),
    )


def offered(chain: AgentChain, call: Call, sender: str) -> str:
    """Send a transaction with a higher tip than all pending ones; return its hash."""
    chain.ask("anvil_setBalance", sender, hex(10**22))
    chain.ask("anvil_impersonateAccount", sender)
    fees = {"gas": hex(1_500_000), "maxFeePerGas": hex(STRANGER_TIP), "maxPriorityFeePerGas": hex(STRANGER_TIP)}
    return str(chain.ask("eth_sendTransaction", {**call.parameters(), "from": sender, **fees}))


def together(chain: AgentChain, calls: Sequence[Call], sender: str, at: str) -> dict[str, Any]:
    """Make all calls in one transaction, through a contract placed at `at`; return the receipt."""
    chain.ask("anvil_setCode", at, MANY_CALLS_CODE)
    data = b"".join(len(each.data).to_bytes(2) + bytes.fromhex(each.to[2:]) + each.data for each in calls)
    chain.ask("anvil_setBalance", sender, hex(10**22))
    chain.ask("anvil_impersonateAccount", sender)
    sent = chain.ask(
        "eth_sendTransaction", {"from": sender, "to": at, "data": "0x" + data.hex(), "gas": hex(2_000_000)}
    )
    return chain.receipt(sent)


def cancelling_digest(signer: str, nonce: bytes, token: Token, chain_id: int) -> bytes:
    fields = [{"name": "authorizer", "type": "address"}, {"name": "nonce", "type": "bytes32"}]
    signable = encode_typed_data(
        domain_data=eip3009.domain(token, chain_id),
        message_types={"CancelAuthorization": fields},
        message_data={"authorizer": signer, "nonce": nonce},
    )
    return message_hash(signable)


def cancelling(chain: AgentChain, who: Wallet, nonce: bytes) -> Call:
    digest = cancelling_digest(who.address, nonce, chain.contracts.token_facts, chain.contracts.chain_id)
    signature = bytes(Account.unsafe_sign_hash(digest, who.private_key).signature)
    return chain.contracts.token.call("cancelAuthorization(address,bytes32,bytes)", who.address, nonce, signature)


def nonce_of(envelope: Mapping[str, Any]) -> bytes:
    return bytes.fromhex(envelope["payload"]["authorization"]["nonce"][2:])
