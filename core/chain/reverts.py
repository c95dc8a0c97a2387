"""Why a call reverted, as a sentence: custom errors by their ABI, `require` texts, and the compiler's panics."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from eth_abi.exceptions import DecodingError

from core.chain.abi import CustomError, abi_decode
from core.chain.errors import ContractReverted, RpcError

_ERROR_STRING = bytes.fromhex("08c379a0")  # Error(string)
_PANIC = bytes.fromhex("4e487b71")  # Panic(uint256)
_PANICS = {
    0x01: "an assertion failed",
    0x11: "an addition, subtraction or multiplication overflowed",
    0x12: "a division by zero",
    0x21: "a value outside its enum",
    0x22: "a corrupt storage array",
    0x31: "a pop from an empty array",
    0x32: "an index outside its array",
    0x41: "too much memory asked for",
    0x51: "a call to an unset function",
}


def explain(error: RpcError, errors: Mapping[bytes, CustomError] | None = None) -> ContractReverted:
    """A revert with its reason; `errors` maps selectors to the custom errors the contract may raise."""
    data = bytes.fromhex(error.data[2:]) if error.data and len(error.data) % 2 == 0 else b""
    name, arguments, sentence = decode_revert(data, errors or {})
    if not data:
        # Some nodes give the text only in the message: "...: execution reverted: NotOwner."
        said = re.search(r"revert(?:ed)?(?: with reason string)?:? '?(.+?)'?\.?$", error.message)
        if said and said.group(1).strip("."):
            sentence = f"The call reverted: {said.group(1)}."
    return ContractReverted(sentence, method=error.method, name=name, arguments=arguments, data=error.data)


def decode_revert(data: bytes, errors: Mapping[bytes, CustomError]) -> tuple[str | None, dict[str, Any], str]:
    """(error name or None, its arguments, a sentence) for raw revert data."""
    if not data:
        return None, {}, "The call reverted without a reason."
    selector, rest = data[:4], data[4:]
    try:
        if selector == _ERROR_STRING:
            text = abi_decode(["string"], rest)[0]
            return "Error", {"message": text}, f"The call reverted: {text}."
        if selector == _PANIC:
            panic = abi_decode(["uint256"], rest)[0]
            return "Panic", {"code": panic}, f"The call hit {_PANICS.get(panic, f'panic 0x{panic:x}')}."
        if selector in errors:
            error = errors[selector]
            arguments = error.decode(data)
            return error.name, arguments, f"The call reverted: {_words(error.name)}{_listed(arguments)}."
    except (DecodingError, OverflowError, UnicodeDecodeError):
        pass  # a selector we know with arguments we cannot read: say the selector
    return None, {}, f"The call reverted with an unknown error (selector 0x{selector.hex()})."


def _words(name: str) -> str:
    """`EntryTooSmall` as `entry too small`."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", " ", name).lower()


def _listed(arguments: Mapping[str, Any]) -> str:
    if not arguments:
        return ""
    parts = (f"{key} {'0x' + value.hex() if isinstance(value, bytes) else value}" for key, value in arguments.items())
    return f" ({', '.join(parts)})"
