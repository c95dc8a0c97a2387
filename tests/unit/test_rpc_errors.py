"""The table of node error texts, on what real nodes and providers say."""

from __future__ import annotations

import pytest

from core.chain.errors import RpcErrorKind as K
from core.chain.errors import classify, classify_status

TEXTS: list[tuple[int, str, K]] = [
    # geth, reth and their descendants
    (-32000, "nonce too low: next nonce 5, tx nonce 3", K.NONCE_TOO_LOW),
    (-32000, "nonce too high: address 0xAb, tx: 9 state: 3", K.NONCE_TOO_HIGH),
    (-32000, "already known", K.ALREADY_KNOWN),
    (-32000, "replacement transaction underpriced", K.REPLACEMENT_UNDERPRICED),
    (-32000, "transaction underpriced: gas tip cap 0, minimum needed 1", K.FEE_TOO_LOW),
    (-32000, "max fee per gas less than block base fee: address 0xAb, maxFeePerGas: 1, baseFee: 2", K.FEE_TOO_LOW),
    (-32000, "insufficient funds for gas * price + value: address 0xAb have 0 want 1", K.INSUFFICIENT_FUNDS),
    (-32000, "intrinsic gas too low: have 0, want 21000", K.GAS_LIMIT),
    (-32000, "exceeds block gas limit", K.GAS_LIMIT),
    (-32000, "gas required exceeds allowance (50000)", K.GAS_LIMIT),
    (-32000, "txpool is full", K.POOL_FULL),
    (-32000, "in-flight transaction limit reached for delegated accounts", K.POOL_FULL),
    (-32000, "header not found", K.BLOCK_NOT_FOUND),
    (-32000, "block range extends beyond current head block", K.BLOCK_NOT_FOUND),
    (-32000, "missing trie node 1f (path ) state 0x1f is not available", K.PRUNED),
    (-32000, "required historical state unavailable (reexec=128)", K.PRUNED),
    (4444, "pruned history unavailable", K.PRUNED),
    (-32000, "old data not available due to pruning", K.PRUNED),
    (-32000, "distance to target block exceeds maximum proof window", K.PRUNED),
    (3, "execution reverted", K.REVERTED),
    (3, "execution reverted: insufficient funds", K.REVERTED),
    (-32000, "execution reverted: nonce too low", K.REVERTED),
    (-32015, "VM execution error: reverted with reason", K.REVERTED),
    (-32000, "invalid sender", K.TX_INVALID),
    (-32000, "rlp: value size exceeds available input length", K.TX_INVALID),
    (-32000, "only replay-protected (EIP-155) transactions allowed over RPC", K.TX_INVALID),
    (-32000, "context deadline exceeded", K.TIMEOUT),
    (-32002, "request timed out", K.TIMEOUT),
    (-32601, "the method eth_foo does not exist/is not available", K.METHOD_MISSING),
    (-32601, "rpc method is not whitelisted", K.METHOD_MISSING),
    (-32602, "invalid argument 0: json: cannot unmarshal hex string", K.INVALID_PARAMS),
    # anvil, hardhat
    (-32003, "transaction already imported", K.ALREADY_KNOWN),
    (-32003, "Insufficient funds for gas * price + value", K.INSUFFICIENT_FUNDS),
    (-32602, "BlockOutOfRangeError: block height is 0 but requested was 99", K.BLOCK_NOT_FOUND),
    (-32000, "Failed to decode transaction", K.TX_INVALID),
    (-32603, "Error: VM Exception while processing transaction: reverted with reason string 'no'", K.REVERTED),
    # nethermind, besu, erigon
    (-32010, "OldNonce, Current nonce: 5, nonce of rejected tx: 3", K.NONCE_TOO_LOW),
    (-32010, "AlreadyKnown", K.ALREADY_KNOWN),
    (-32010, "InsufficientFunds, Account balance: 0, cumulative cost: 1", K.INSUFFICIENT_FUNDS),
    (-32010, "FeeTooLow, MaxFeePerGas too low.", K.FEE_TOO_LOW),
    (-32010, "NonceGap, Future nonce.", K.NONCE_TOO_HIGH),
    (
        -32000,
        "One of the blocks specified in filter (fromBlock, toBlock or blockHash) cannot be found.",
        K.BLOCK_NOT_FOUND,
    ),
    (-32004, "Upfront cost exceeds account balance", K.INSUFFICIENT_FUNDS),
    (-32000, "Known transaction", K.ALREADY_KNOWN),
    (-32009, "Gas price below configured minimum gas price", K.FEE_TOO_LOW),
    (-32000, "could not replace existing tx", K.REPLACEMENT_UNDERPRICED),
    # hosted providers: too much asked of eth_getLogs
    (-32005, "query returned more than 10000 results", K.RANGE_TOO_WIDE),
    (
        -32602,
        "Log response size exceeded. You can make eth_getLogs requests with up to a 2K block range and no limit on the "
        "response size, or you can request any block range with a cap of 10K logs in the response.",
        K.RANGE_TOO_WIDE,
    ),
    (
        -32600,
        "Under the Free tier plan, you can make eth_getLogs requests with up to a 10 block range.",
        K.RANGE_TOO_WIDE,
    ),
    (-32614, "eth_getLogs is limited to a 10,000 range", K.RANGE_TOO_WIDE),
    (-32600, "block range is too wide", K.RANGE_TOO_WIDE),
    (-32701, "exceed maximum block range: 50000", K.RANGE_TOO_WIDE),
    (-32000, "block range greater than 10000 max", K.RANGE_TOO_WIDE),
    (-32000, "Block range limit exceeded.", K.RANGE_TOO_WIDE),
    (-32047, "Invalid eth_getLogs request. 'fromBlock'-'toBlock' range too large. Max range: 800", K.RANGE_TOO_WIDE),
    (-32602, "query exceeds max results 20000, retry with the range 1-2", K.RANGE_TOO_WIDE),
    (-32602, "query exceeds max block range 100000", K.RANGE_TOO_WIDE),
    (-32020, "backend response too large", K.RANGE_TOO_WIDE),
    (-32005, "query timeout exceeded. Consider reducing your block range.", K.RANGE_TOO_WIDE),
    # hosted providers: slow down
    (-32016, "over rate limit", K.RATE_LIMITED),
    (-32005, "daily request count exceeded, request rate limited", K.RATE_LIMITED),
    (429, "Your app has exceeded its compute units per second capacity.", K.RATE_LIMITED),
    (-32007, "50/second request limit reached - reduce calls per second", K.RATE_LIMITED),
    (-32005, "limit exceeded", K.RATE_LIMITED),
    (-32011, "no backend is currently healthy to serve traffic", K.UNAVAILABLE),
    (-32001, "Unauthorized: You must authenticate your request with an API key", K.UNAUTHORIZED),
    # nothing known
    (-32603, "Internal error", K.UNKNOWN),
    (-32000, "something new", K.UNKNOWN),
]


@pytest.mark.parametrize(("code", "text", "kind"), TEXTS, ids=[text[:40] for _, text, _ in TEXTS])
def test_texts(code: int, text: str, kind: K) -> None:
    assert classify(code, text) is kind


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (401, K.UNAUTHORIZED),
        (403, K.UNAUTHORIZED),
        (404, K.BAD_ANSWER),
        (408, K.TIMEOUT),
        (413, K.RANGE_TOO_WIDE),
        (429, K.RATE_LIMITED),
        (500, K.UNAVAILABLE),
        (502, K.UNAVAILABLE),
        (504, K.TIMEOUT),
    ],
)
def test_http_statuses(status: int, kind: K) -> None:
    assert classify_status(status) is kind


def test_what_decides_about_money_is_never_blamed_on_the_node() -> None:
    for kind in (K.NONCE_TOO_LOW, K.ALREADY_KNOWN, K.REPLACEMENT_UNDERPRICED, K.INSUFFICIENT_FUNDS, K.REVERTED):
        assert not kind.blames_node
        assert not kind.retriable
