"""Signatures of contract wallets: whether the wallet accepts one (ERC-1271), be it deployed or not yet (ERC-6492)."""

from __future__ import annotations

from dataclasses import dataclass

from x402.mechanisms.evm.constants import EIP1271_MAGIC_VALUE, IS_VALID_SIGNATURE_ABI
from x402.mechanisms.evm.erc6492 import is_erc6492_signature, parse_erc6492_signature

from core.chain import Abi, Call, ChainClient, Contract, RpcError, checksum
from core.chain.wire import Data, data_bytes
from core.hexadecimal import bytes_of, hex_of

# What foreign contracts may use to judge a signature, one that is made for it included: several times what is sent for
# one, and a small part of what a node would let them.
SIGNATURE_GAS = 5_000_000
_ERC1271 = Abi(IS_VALID_SIGNATURE_ABI)  # type: ignore[arg-type]  # an ABI, whose type x402 does not say
# Where the wallet's answer goes in memory: behind everything that is copied there.
_ANSWER_AT = 0x8000
_MAX_CALL_BYTES = 0x7000


@dataclass(frozen=True, slots=True)
class Counterfactual:
    """A signature of a contract wallet that is not deployed yet, with the call that deploys it."""

    factory: bytes
    factory_call: bytes
    signature: bytes

    def trial(self, wallet: str, question: bytes) -> bytes:
        """Code for an `eth_call` without a target: calls the factory, then asks the wallet, and returns its first word,
        or zero when it reverts. Nothing of it stays on the chain."""
        first, second = len(self.factory_call).to_bytes(2), len(question).to_bytes(2)
        answer = _ANSWER_AT.to_bytes(2)

        def code(at: int) -> bytes:
            return b"".join(
                (
                    _copy(first, at),  # the factory's call into memory
                    bytes.fromhex("6000600061") + first + bytes.fromhex("60006000"),
                    b"\x73" + self.factory + bytes.fromhex("5af150"),  # CALL, whatever becomes of it
                    _copy(second, at + len(self.factory_call)),  # the question
                    bytes.fromhex("602061") + answer + b"\x61" + second + bytes.fromhex("6000"),
                    b"\x73" + bytes_of(wallet) + bytes.fromhex("5afa"),  # STATICCALL
                    b"\x61" + answer + bytes.fromhex("5102"),  # its answer, times its success
                    bytes.fromhex("60005260206000f3"),
                )
            )

        return code(len(code(0))) + self.factory_call + question


def counterfactual(signature: bytes) -> Counterfactual | None:
    """What the signature wraps; None for one of another kind."""
    if not is_erc6492_signature(signature):
        return None
    try:
        wrapped = parse_erc6492_signature(signature)
    except ValueError:
        return None
    if len(wrapped.factory_calldata) + len(wrapped.inner_signature) > _MAX_CALL_BYTES:
        return None
    return Counterfactual(wrapped.factory, wrapped.factory_calldata, wrapped.inner_signature)


async def accepts_signature(
    client: ChainClient, wallet: str, digest: bytes, signature: bytes, timeout_seconds: float
) -> bool:
    """Whether the contract at `wallet` takes the signature (ERC-1271), also one that its factory has yet to make
    (ERC-6492). RpcError when the chain cannot be asked."""
    made_by = counterfactual(signature)
    if made_by is None:
        return await accepts_as_it_is(client, wallet, digest, signature, timeout_seconds)
    trial = made_by.trial(wallet, _question(wallet, digest, made_by.signature).data)
    params = [{"data": hex_of(trial), "gas": hex(SIGNATURE_GAS)}, "latest"]
    try:
        answer = await client.provider.call("eth_call", params, Data, timeout_seconds=timeout_seconds)
    except RpcError as error:
        return _refuses(error)
    return data_bytes(answer)[:4] == EIP1271_MAGIC_VALUE


async def accepts_as_it_is(
    client: ChainClient, wallet: str, digest: bytes, signature: bytes, timeout_seconds: float
) -> bool:
    """Whether the contract that stands at `wallet` takes these very bytes (ERC-1271), as a token asks it: a token
    unwraps nothing. RpcError when the chain cannot be asked."""
    call = _question(wallet, digest, signature)
    try:
        raw = await client.simulate(call, gas=SIGNATURE_GAS, timeout_seconds=timeout_seconds)
    except RpcError as error:
        return _refuses(error)
    return raw[:4] == EIP1271_MAGIC_VALUE and len(raw) == 32


def _question(wallet: str, digest: bytes, signature: bytes) -> Call:
    return Contract(checksum(wallet), _ERC1271).call("isValidSignature", digest, signature)


def _refuses(error: RpcError) -> bool:
    """False: the signature is not taken; raises what says nothing of it."""
    if error.retriable:
        raise error
    return False


def _copy(length: bytes, at: int) -> bytes:
    """CODECOPY to the start of memory."""
    return b"\x61" + length + b"\x61" + at.to_bytes(2) + bytes.fromhex("600039")
