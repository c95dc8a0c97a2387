"""Signatures of contract wallets that are not deployed yet (ERC-6492): factory, its call, and the signature itself."""

from __future__ import annotations

from dataclasses import dataclass

from x402.mechanisms.evm.erc6492 import is_erc6492_signature, parse_erc6492_signature

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
                    b"\x73" + bytes.fromhex(wallet[2:]) + bytes.fromhex("5afa"),  # STATICCALL
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


def _copy(length: bytes, at: int) -> bytes:
    """CODECOPY to the start of memory."""
    return b"\x61" + length + b"\x61" + at.to_bytes(2) + bytes.fromhex("600039")
