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

STRUCT = [
    {"name": "feed", "type": "address"},
    {"name": "bounds", "type": "int256[]"},
    {"name": "closesAt", "type": "uint64"},
]
ENTRIES: list[dict[str, Any]] = [
    {
        "type": "function",
        "name": "transfer",
        "inputs": [{"name": "to", "type": "address"}, {"name": "value", "type": "uint256"}],
        "outputs": [{"name": "", "type": "bool"}],
    },
    {
        "type": "function",
        "name": "list",
        "inputs": [{"name": "id", "type": "bytes32"}, {"name": "spec", "type": "tuple", "components": STRUCT}],
        "outputs": [],
    },
    {
        "type": "function",
        "name": "market",
        "inputs": [{"name": "id", "type": "uint256"}],
        "outputs": [{"name": "", "type": "tuple", "components": STRUCT}],
    },
    {
        "type": "function",
        "name": "books",
        "inputs": [],
        "outputs": [
            {"name": "", "type": "tuple[2]", "components": [{"name": "principal", "type": "uint256"}]},
        ],
    },
    {
        "type": "function",
        "name": "headroom",
        "inputs": [],
        "outputs": [{"name": "up", "type": "uint256"}, {"name": "down", "type": "uint256"}],
    },
    {"type": "function", "name": "resolve", "inputs": [{"name": "id", "type": "bytes32"}], "outputs": []},
    {
        "type": "function",
        "name": "resolve",
        "inputs": [{"name": "id", "type": "bytes32"}, {"name": "round", "type": "uint80"}],
        "outputs": [],
    },
    {
        "type": "event",
        "name": "Transfer",
        "inputs": [
            {"name": "from", "type": "address", "indexed": True},
            {"name": "to", "type": "address", "indexed": True},
            {"name": "value", "type": "uint256", "indexed": False},
        ],
    },
    {
        "type": "error",
        "name": "EntryBelowMinimum",
        "inputs": [{"name": "amount", "type": "uint256"}, {"name": "minimum", "type": "uint256"}],
    },
    {"type": "error", "name": "NotTheResolver", "inputs": []},
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


def test_a_missing_contract_is_reported() -> None:
    with pytest.raises(RpcError, match="is there a contract"):
        ABI.function("transfer").decode(b"")


def test_a_short_answer_is_a_bad_answer() -> None:
    with pytest.raises(RpcError) as e:
        ABI.function("headroom").decode(b"\x00" * 32)
    assert e.value.kind is RpcErrorKind.BAD_ANSWER


def test_text_that_is_no_utf8_is_a_bad_answer() -> None:
    """A token may call itself anything."""
    function = Abi([{"type": "function", "name": "symbol", "outputs": [{"name": "", "type": "string"}]}]).function(
        "symbol"
    )
    with pytest.raises(RpcError) as e:
        function.decode(abi_encode(["bytes"], [b"\xff\xfe"]))
    assert e.value.kind is RpcErrorKind.BAD_ANSWER


def _custom(name: str, *values: int) -> bytes:
    error = next(each for each in ABI.errors.values() if each.name == name)
    return error.encode(*values)


@pytest.mark.parametrize(
    ("data", "name", "sentence"),
    [
        (b"", None, "The call reverted without a reason."),
        (
            _custom("EntryBelowMinimum", 5, 10),
            "EntryBelowMinimum",
            "The call reverted: entry below minimum (amount 5, minimum 10).",
        ),
        (_custom("NotTheResolver"), "NotTheResolver", "The call reverted: not the resolver."),
        (bytes.fromhex("08c379a0") + abi_encode(["string"], ["closed"]), "Error", "The call reverted: closed."),
        (
            bytes.fromhex("4e487b71") + abi_encode(["uint256"], [0x11]),
            "Panic",
            "The call reverted: an arithmetic operation overflowed or underflowed.",
        ),
        (bytes.fromhex("deadbeef"), None, "The call reverted with an unknown error (selector 0xdeadbeef)."),
        (
            _custom("EntryBelowMinimum", 5, 10)[:20],
            None,
            f"The call reverted with an unknown error (selector 0x{_custom('EntryBelowMinimum', 5, 10)[:4].hex()}).",
        ),
    ],
)
def test_reverts_as_sentences(data: bytes, name: str | None, sentence: str) -> None:
    found, _arguments, said = decode_revert(data, ABI.errors)
    assert (found, said) == (name, sentence)


def test_errors_of_contracts_below_are_known_too() -> None:
    token = Abi([{"type": "error", "name": "Frozen", "inputs": [{"name": "who", "type": "address"}]}])
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
    assert checksum(bytes.fromhex("833589fcd6edb6e08f4c7c32d4f71b54bda02913")) == (
        "0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913"
    )
    assert checksum("0x833589FCD6EDB6E08F4C7C32D4F71B54BDA02913") == "0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913"
