"""ABI coding against known selectors and eth_abi itself, and reverts as sentences."""

from __future__ import annotations

from typing import Any

import pytest
from eth_abi.abi import encode as abi_encode
from eth_utils.abi import event_abi_to_log_topic
from eth_utils.crypto import keccak

from core.chain.contract import Abi, Contract, checksum, decode_revert, explain
from core.chain.endpoint import revert_data
from core.chain.errors import RpcError, RpcErrorKind
from core.chain.wire import ErrorObject
from core.signatures import struct_fields

STRUCT = {"type": "tuple", "components": struct_fields("address feed,int256[] bounds,uint64 closesAt")}
ID = struct_fields("bytes32 id")


def _entry(name: str, inputs: list[Any], outputs: list[Any] | None = None, kind: str = "function") -> Any:
    return {"type": kind, "name": name, "inputs": inputs, "outputs": outputs or []}


ENTRIES = [
    _entry("transfer", struct_fields("address to,uint256 value"), [{"name": "", "type": "bool"}]),
    _entry("list", [*ID, {"name": "spec", **STRUCT}]),
    _entry("market", struct_fields("uint256 id"), [{"name": "", **STRUCT}]),
    _entry("books", [], [{"name": "", "type": "tuple[2]", "components": struct_fields("uint256 principal")}]),
    _entry("headroom", [], struct_fields("uint256 up,uint256 down")),
    _entry("resolve", ID),
    _entry("resolve", [*ID, *struct_fields("uint80 round")]),
    _entry("Transfer", struct_fields("address from,address to,uint256 value"), kind="event"),
    _entry("EntryBelowMinimum", struct_fields("uint256 amount,uint256 minimum"), kind="error"),
    _entry("NotTheResolver", [], kind="error"),
]
ABI = Abi(ENTRIES)
ALICE = "0x" + "a1" * 20


def test_known_selectors_and_topics() -> None:
    assert ABI.function("transfer").selector.hex() == "a9059cbb"
    topic = event_abi_to_log_topic(ABI.events["Transfer"])
    assert topic.hex() == "ddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef"


def test_a_struct_is_spelled_out_and_given_either_way() -> None:
    function = ABI.function("list")
    assert function.signature == "list(bytes32,(address,int256[],uint64))"
    as_mapping = function.encode(b"\x01" * 32, {"closesAt": 9, "feed": ALICE, "bounds": [-1, 2]})
    as_tuple = function.encode(b"\x01" * 32, (ALICE, [-1, 2], 9))
    expected = abi_encode(["bytes32", "(address,int256[],uint64)"], [b"\x01" * 32, (ALICE, [-1, 2], 9)])
    assert as_mapping == as_tuple == function.selector + expected
    assert function.decode_inputs(as_tuple)["spec"] == {"feed": ALICE, "bounds": [-1, 2], "closesAt": 9}


def test_results_one_several_and_structs() -> None:
    data = abi_encode(["(address,int256[],uint64)"], [(ALICE, [-5], 7)])
    assert ABI.function("market").decode(data) == {"feed": ALICE, "bounds": [-5], "closesAt": 7}
    two = abi_encode(["uint256", "uint256"], [3, 4])
    assert ABI.function("headroom").decode(two) == (3, 4)
    books = abi_encode(["(uint256)[2]"], [[(1,), (2,)]])
    assert ABI.function("books").decode(books) == [{"principal": 1}, {"principal": 2}]


def test_an_overloaded_name_needs_its_signature() -> None:
    with pytest.raises(KeyError, match="overloaded"):
        ABI.function("resolve")
    assert ABI.function("resolve(bytes32,uint80)").selector == keccak(text="resolve(bytes32,uint80)")[:4]


def test_undecodable_results_are_a_bad_answer() -> None:
    symbol = Abi([_entry("symbol", [], [{"name": "", "type": "string"}])]).function("symbol")
    for function, data in (
        (symbol, abi_encode(["bytes"], [b"\xff\xfe"])),
        (ABI.function("headroom"), b"\x00" * 32),
        (ABI.function("headroom"), b""),
    ):
        with pytest.raises(RpcError) as e:
            function.decode(data)
        assert e.value.kind is RpcErrorKind.BAD_ANSWER


def _custom(name: str, *values: int) -> bytes:
    return next(each for each in ABI.errors.values() if each.name == name).encode(*values)


TOO_SMALL = _custom("EntryBelowMinimum", 5, 10)


@pytest.mark.parametrize(
    ("data", "name", "sentence"),
    [
        (b"", None, "The call reverted without a reason."),
        (TOO_SMALL, "EntryBelowMinimum", "The call reverted: entry below minimum (amount 5, minimum 10)."),
        (_custom("NotTheResolver"), "NotTheResolver", "The call reverted: not the resolver."),
        (bytes.fromhex("08c379a0") + abi_encode(["string"], ["closed"]), "Error", "The call reverted: closed."),
        (
            bytes.fromhex("4e487b71") + abi_encode(["uint256"], [0x11]),
            "Panic",
            "The call reverted: an arithmetic operation overflowed or underflowed.",
        ),
        (bytes.fromhex("deadbeef"), None, "The call reverted with an unknown error (selector 0xdeadbeef)."),
        (TOO_SMALL[:20], None, f"The call reverted with an unknown error (selector 0x{TOO_SMALL[:4].hex()})."),
    ],
)
def test_reverts_as_sentences(data: bytes, name: str | None, sentence: str) -> None:
    found, _arguments, said = decode_revert(data, ABI.errors)
    assert (found, said) == (name, sentence)


def test_errors_of_contracts_below_are_known_too() -> None:
    token = Abi([_entry("Frozen", struct_fields("address who"), kind="error")])
    contract = Contract(ALICE, ABI, token)
    data = token.errors[next(iter(token.errors))].selector + abi_encode(["address"], [ALICE])
    error = RpcError(RpcErrorKind.REVERTED, "execution reverted", data="0x" + data.hex())
    explained = explain(error, contract.errors)
    assert explained.name == "Frozen"
    assert explained.arguments == {"who": ALICE}
    assert not explained.retriable


def test_a_reason_only_in_the_message_is_kept() -> None:
    error = RpcError(RpcErrorKind.REVERTED, "0:node refused eth_call: execution reverted: too late.")
    assert explain(error).message == "The call reverted: too late."


@pytest.mark.parametrize(
    ("data", "found"),
    [
        ("0x1234", "0x1234"),
        ({"data": "0x1234"}, "0x1234"),
        ("Reverted 0x1234", "0x1234"),
        ("0x", "0x"),
        (None, None),
        (["0x1234"], None),
        ("nothing", None),
        ("0xzz", None),
        ("0x123", None),
    ],
)
def test_where_nodes_put_revert_data(data: object, found: str | None) -> None:
    assert revert_data(ErrorObject(3, "execution reverted", data)) == found


def test_checksum_takes_text_or_bytes() -> None:
    usdc = "0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913"
    assert checksum(bytes.fromhex(usdc[2:])) == checksum("0x" + usdc[2:].upper()) == usdc
