"""Revert reasons as sentences, from custom errors by their ABI, `require` texts, and compiler panics."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from core.chain.contract import UNDECODABLE, CustomError
from core.chain.errors import ContractReverted, RpcError
from core.hexadecimal import bytes_of, hex_of

# Declared by the compiler.
_REASON = CustomError({"type": "error", "name": "Error", "inputs": [{"name": "message", "type": "string"}]})
_PANIC = CustomError({"type": "error", "name": "Panic", "inputs": [{"name": "code", "type": "uint256"}]})
# By panic code, as documented by Solidity.
_PANICS = {
    0x00: "the compiler's own check failed",
    0x01: "an assertion failed",
    0x11: "an arithmetic operation overflowed or underflowed",
    0x12: "division by zero",
    0x21: "a value is outside its enum",
    0x22: "a stored byte array is badly encoded",
    0x31: "pop from an empty array",
    0x32: "an index is out of bounds",
    0x41: "too much memory was allocated",
    0x51: "an unset internal function was called",
}


def explain(error: RpcError, errors: Mapping[bytes, CustomError] | None = None) -> ContractReverted:
    """Decode a revert reason. `errors` maps selectors to the custom errors that the contract may raise."""
    data = bytes_of(error.data) if error.data and len(error.data) % 2 == 0 else b""
    name, arguments, sentence = decode_revert(data, errors or {})
    if not data:
        # Some nodes put the text only into the message: "...: execution reverted: NotOwner."
        reason = re.search(r"revert(?:ed)?(?: with reason string)?:? '?(.+?)'?\.?$", error.message)
        if reason and reason.group(1).strip("."):
            sentence = f"The call reverted: {reason.group(1)}."
    return ContractReverted(sentence, name=name, arguments=arguments, data=error.data)


def decode_revert(data: bytes, errors: Mapping[bytes, CustomError]) -> tuple[str | None, dict[str, Any], str]:
    """Return the error's name (or None), its arguments, and a sentence."""
    if not data:
        return None, {}, "The call reverted without a reason."
    selector = data[:4]
    error = {_REASON.selector: _REASON, _PANIC.selector: _PANIC}.get(selector) or errors.get(selector)
    try:
        arguments = {} if error is None else error.decode_inputs(data)
    except UNDECODABLE:
        error = None  # a known selector with undecodable arguments: show the selector
    if error is _REASON:
        return "Error", arguments, f"The call reverted: {arguments['message']}."
    if error is _PANIC:
        code = arguments["code"]
        return "Panic", arguments, f"The call reverted: {_PANICS.get(code, f'panic code {code:#04x}')}."
    if error is not None:
        return error.name, arguments, f"The call reverted: {_words(error.name)}{_listed(arguments)}."
    return None, {}, f"The call reverted with an unknown error (selector {hex_of(selector)})."


def _words(name: str) -> str:
    """Turn `EntryTooSmall` into `entry too small`."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", " ", name).lower()


def _listed(arguments: Mapping[str, Any]) -> str:
    if not arguments:
        return ""
    parts = (f"{key} {hex_of(value) if isinstance(value, bytes) else value}" for key, value in arguments.items())
    return f" ({', '.join(parts)})"
