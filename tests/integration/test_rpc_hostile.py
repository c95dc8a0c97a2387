"""The JSON-RPC client against nodes that fail in every way nodes do."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiohttp import web
from eth_abi.abi import encode
from eth_typing import HexStr
from prometheus_client import REGISTRY

from core.chain import ChainClient, ChainProvider, Contract, ContractReverted, RpcError, RpcErrorKind, checksum
from core.chain.heads import Heads
from core.errors import EXIT_CONFIG, ChainIdMismatch, ConfigError
from tests.integration.hostile_node import each, hang_up, hostile_node, raw, refuse, silence, status
from tests.support.serving import serving
from tests.waiting import until

CHAIN = 31337


@asynccontextmanager
async def client(*urls: str, **options: Any) -> AsyncIterator[ChainProvider]:
    given = {"timeout_seconds": 0.5, "pause_seconds": 0.01, "chain_id": CHAIN} | options
    async with ChainProvider(urls, **given) as rpc:
        yield rpc


def _closed_port() -> str:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{unused.getsockname()[1]}"


FAILURES = {
    "too slow": (silence(5), RpcErrorKind.TIMEOUT),
    "429": (status(429, headers={"Retry-After": "0"}), RpcErrorKind.RATE_LIMITED),
    "500": (status(500, "oops"), RpcErrorKind.UNAVAILABLE),
    "502 html": (status(502, "<html>Bad gateway</html>"), RpcErrorKind.UNAVAILABLE),
    "401": (status(401), RpcErrorKind.UNAUTHORIZED),
    "redirect": (status(302, headers={"Location": "http://127.0.0.1:9/"}), RpcErrorKind.BAD_ANSWER),
    "not json": (raw("<html>"), RpcErrorKind.BAD_ANSWER),
    "empty": (raw(""), RpcErrorKind.BAD_ANSWER),
    "cut short": (raw('{"jsonrpc":"2.0","id":0,"result":"0x'), RpcErrorKind.BAD_ANSWER),
    "a list": (raw("[]"), RpcErrorKind.BAD_ANSWER),
    "no result": (raw('{"jsonrpc":"2.0","id":0}'), RpcErrorKind.BAD_ANSWER),
    "another shape": (raw('{"jsonrpc":"2.0","id":0,"result":{"a":1}}'), RpcErrorKind.BAD_ANSWER),
    "hangs up": (hang_up, RpcErrorKind.UNAVAILABLE),
    "rate limited": (refuse(-32016, "over rate limit"), RpcErrorKind.RATE_LIMITED),
    "lags": (refuse(-32000, "header not found"), RpcErrorKind.BLOCK_NOT_FOUND),
    "pruned": (refuse(-32000, "missing trie node abc"), RpcErrorKind.PRUNED),
    "new error": (refuse(-32603, "Internal error"), RpcErrorKind.UNKNOWN),
}


@pytest.mark.parametrize("name", FAILURES)
async def test_a_failing_url_fails_over_to_the_next_and_alone_is_named_by_kind(name: str) -> None:
    reply, kind = FAILURES[name]
    async with hostile_node(reply) as bad, hostile_node("0x2a") as good, client(bad.url, good.url) as rpc:
        assert await rpc.call("eth_blockNumber", [], str) == "0x2a"
        assert bad.methods == ["eth_blockNumber"]
        assert good.methods == ["eth_blockNumber"]
    async with hostile_node(reply) as bad, client(bad.url, rounds=2) as rpc:
        with pytest.raises(RpcError) as e:
            await rpc.call("eth_blockNumber", [], str)
        assert e.value.kind is kind
        assert "127.0.0.1" in e.value.message


async def test_reads_are_tried_again_after_a_pause() -> None:
    async with hostile_node(status(503), status(503), "0x7") as node, client(node.url, rounds=3) as rpc:
        assert await rpc.call("eth_blockNumber", [], str) == "0x7"
        assert node.methods == ["eth_blockNumber"] * 3


async def test_an_error_of_the_request_is_raised_at_once() -> None:
    text = "query returned more than 10000 results"
    async with hostile_node(refuse(-32005, text)) as one, hostile_node("0x1") as two, client(one.url, two.url) as rpc:
        with pytest.raises(RpcError) as e:
            await ChainClient(rpc).logs(0, 10**6)
        assert e.value.kind is RpcErrorKind.RANGE_TOO_WIDE
        assert two.methods == []


async def test_retry_after_is_honoured() -> None:
    refusing = status(429, headers={"Retry-After": "2"})
    async with hostile_node(refusing, "0x1") as node, client(node.url, rounds=1) as rpc:
        started = time.monotonic()
        with pytest.raises(RpcError, match="429"):
            await rpc.call("eth_blockNumber", [], str)
        with pytest.raises(RpcError, match="429"):
            await rpc.call("eth_blockNumber", [], str)
        await asyncio.sleep(started + 2.1 - time.monotonic())
        assert await rpc.call("eth_blockNumber", [], str) == "0x1"
        assert len(node.methods) == 2


async def test_when_all_rest_the_answer_is_immediate() -> None:
    async with hostile_node(status(500)) as node, client(node.url, rounds=1) as rpc:
        for _ in range(3):
            with pytest.raises(RpcError):
                await rpc.call("eth_blockNumber", [], str)
        asked, started = len(node.methods), time.monotonic()
        with pytest.raises(RpcError, match=r"eth_blockNumber was not sent because every RPC URL .* HTTP 500"):
            await rpc.call("eth_blockNumber", [], str)
        assert time.monotonic() - started < 0.5, "it waited for the rest to end, which takes a second"
        assert len(node.methods) == asked


async def test_a_cancelled_probe_does_not_close_the_url_for_good() -> None:
    async with hostile_node(status(500)) as node, client(node.url, rounds=1, timeout_seconds=5) as rpc:
        for _ in range(3):
            with pytest.raises(RpcError):
                await rpc.call("eth_blockNumber", [], str)
        await asyncio.sleep(1.1)
        node.replies = [silence(3)]
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.2):
                await rpc.call("eth_blockNumber", [], str)
        node.replies = ["0x1"]
        assert await rpc.call("eth_blockNumber", [], str) == "0x1"


# What web3 asks through the same URLs

WALLET = checksum("0x" + "11" * 20)
VIEW = Contract(
    WALLET, [{"type": "function", "name": "total", "inputs": [], "outputs": [{"name": "", "type": "uint256"}]}]
).call("total")


@pytest.mark.parametrize("answer", ["12", "0x", "0xzz", "-0x1", 7, None, {"a": 1}, ["0x1"]])
async def test_a_number_that_is_none_fails_over(answer: Any) -> None:
    async with hostile_node(answer) as bad, hostile_node("0x2a") as good, client(bad.url, good.url) as rpc:
        assert await ChainClient(rpc).eth.get_balance(WALLET) == 42
        assert bad.methods == good.methods == ["eth_getBalance"]


@pytest.mark.parametrize("answer", ["12", "0xzz", "0x123", "hello", 7, None])
async def test_data_that_is_none_fails_over(answer: Any) -> None:
    seven = "0x" + (7).to_bytes(32).hex()
    async with hostile_node(answer) as bad, hostile_node(seven) as good, client(bad.url, good.url) as rpc:
        assert await ChainClient(rpc).read(VIEW) == 7
    bads, goods = each(lambda _: {"result": answer}), each(lambda _: {"result": seven})
    async with hostile_node(bads) as bad, hostile_node(goods) as good, client(bad.url, good.url) as rpc:
        assert await ChainClient(rpc).read_many([VIEW, VIEW], 1) == [7, 7]


@pytest.mark.parametrize("history", [{}, {"oldestBlock": "0x1", "baseFeePerGas": ["x"], "gasUsedRatio": []}, []])
async def test_fees_that_are_none_are_a_bad_answer(history: Any) -> None:
    async with hostile_node(history) as node, client(node.url, rounds=1) as rpc:
        with pytest.raises(RpcError) as e:
            await ChainClient(rpc).eth.fee_history(2, "latest", [50.0])
        assert e.value.kind is RpcErrorKind.BAD_ANSWER


@pytest.mark.parametrize(
    "data",
    [
        "0x4e487b71" + "77" * 32,  # a panic of an unknown code
        "0x08c379a0" + "ff" * 64,  # a text at an offset that is none
        "0x08c379a0" + (32).to_bytes(32).hex() + (2).to_bytes(32).hex() + "fffe" + "00" * 30,  # a text that is no UTF-8
        "0xzz",
        "Reverted 0x08c379a",
        {"data": {"data": 7}},
    ],
)
async def test_no_revert_is_a_crash(data: Any) -> None:
    async with hostile_node(refuse(3, "execution reverted", data)) as node, client(node.url) as rpc:
        for question in (ChainClient(rpc).read(VIEW), ChainClient(rpc).eth.estimate_gas({"to": WALLET})):
            with pytest.raises(RpcError) as e:
                await question
            assert e.value.kind is RpcErrorKind.REVERTED


async def test_no_contract_sends_us_to_a_url_of_its_own() -> None:
    """EIP-3668: web3 would ask the URLs that a contract reverts with."""
    async with hostile_node("0x") as elsewhere:
        types = ["address", "string[]", "bytes", "bytes4", "bytes"]
        lookup = "0x556f1830" + encode(types, [WALLET, [elsewhere.url], b"", bytes(4), b""]).hex()
        async with hostile_node(refuse(3, "execution reverted", lookup)) as node, client(node.url) as rpc:
            chain = ChainClient(rpc)
            with pytest.raises(RpcError) as e:
                await chain.eth.call({"to": WALLET, "data": HexStr("0x01")})
            assert e.value.kind is RpcErrorKind.REVERTED
            with pytest.raises(ContractReverted, match="unknown error"):
                await chain.read(VIEW)
        assert elsewhere.seen == []


# The chain id


async def test_start_names_both_chain_ids_within_seconds() -> None:
    async with hostile_node("0x1", chain_id=1) as node:
        started = time.monotonic()
        with pytest.raises(ChainIdMismatch, match="serves chain 1, but chain 8453 is configured") as e:
            await ChainProvider([node.url], chain_id=8453).start()
        assert e.value.exit_code == EXIT_CONFIG
        assert time.monotonic() - started < 3


async def test_start_fails_when_no_node_answers() -> None:
    started = time.monotonic()
    with pytest.raises(RpcError, match="No RPC URL of chain 1 responds"):
        await ChainProvider([_closed_port(), _closed_port()], chain_id=1).start()
    assert time.monotonic() - started < 3


async def test_start_bears_one_url_that_is_down() -> None:
    async with hostile_node("0x5") as node:
        rpc = ChainProvider([_closed_port(), node.url], chain_id=CHAIN)
        await rpc.start()
        try:
            assert await rpc.call("eth_blockNumber", [], str) == "0x5"
        finally:
            await rpc.close()


async def test_no_url_at_all() -> None:
    with pytest.raises(ConfigError):
        ChainProvider([], chain_id=1)


async def test_an_answer_of_another_chain_never_counts() -> None:
    async with hostile_node("0xbad", chain_id=1) as wrong, hostile_node("0x2") as right:
        async with client(wrong.url, right.url) as rpc:
            assert await rpc.call("eth_blockNumber", [], str) == "0x2"
            assert await rpc.send_raw(b"\x02") == "0x2"
            assert wrong.methods == []
        async with client(wrong.url, rounds=1) as rpc:
            with pytest.raises(RpcError, match="serves chain 1, but chain 31337") as e:
                await rpc.send_raw(b"\x02")
            assert e.value.kind is RpcErrorKind.WRONG_CHAIN
            assert not e.value.maybe_delivered


async def test_a_node_that_comes_back_as_another_chain_is_noticed() -> None:
    async with hostile_node("0x1") as node, client(node.url, rounds=1) as rpc:
        assert await rpc.call("eth_blockNumber", [], str) == "0x1"
        node.replies = [status(503)]
        with pytest.raises(RpcError):
            await rpc.call("eth_blockNumber", [], str)
        node.replies, node.chain_id = ["0x1"], 1
        with pytest.raises(RpcError) as e:
            await rpc.call("eth_blockNumber", [], str)
        assert e.value.kind is RpcErrorKind.WRONG_CHAIN


# Sending


@pytest.mark.parametrize(
    ("reply", "maybe"),
    [
        (silence(5), True),
        (hang_up, True),
        (status(504), True),
        (raw("garbage"), True),
        (status(429), False),
        (refuse(-32000, "txpool is full"), False),
        (refuse(-32000, "nonce too low"), False),
    ],
)
async def test_a_send_says_whether_it_may_have_arrived(reply: Any, maybe: bool) -> None:
    async with hostile_node(reply) as node, client(node.url) as rpc:
        with pytest.raises(RpcError) as e:
            await rpc.send_raw(b"\x02")
        assert e.value.maybe_delivered is maybe
        assert node.methods == ["eth_sendRawTransaction"], "offered to each URL once"


async def test_a_send_to_a_closed_port_cannot_have_arrived() -> None:
    async with client(_closed_port()) as rpc:
        with pytest.raises(RpcError) as e:
            await rpc.send_raw(b"\x02")
        assert not e.value.maybe_delivered


async def test_a_send_fails_over_with_the_same_bytes() -> None:
    async with hostile_node(status(500)) as one, hostile_node("0xhash") as two, client(one.url, two.url) as rpc:
        assert await rpc.send_raw(b"\x02\xff") == "0xhash"
        assert one.seen[-1]["params"] == two.seen[-1]["params"] == ["0x02ff"]


async def test_doubt_at_the_first_url_survives_a_refusal_at_the_second() -> None:
    knows = refuse(-32000, "already known")
    async with hostile_node(silence(5)) as one, hostile_node(knows) as two, client(one.url, two.url) as rpc:
        with pytest.raises(RpcError) as e:
            await rpc.send_raw(b"\x02")
        assert e.value.kind is RpcErrorKind.ALREADY_KNOWN
        assert e.value.maybe_delivered


async def test_a_batch_of_sends_keeps_order_and_single_errors() -> None:
    def answer(request: dict[str, Any]) -> dict[str, Any]:
        if request["params"] == ["0x02"]:
            return {"error": {"code": -32000, "message": "nonce too low"}}
        return {"result": "0xhash" + request["params"][0]}

    async with hostile_node(each(answer, shuffled=True)) as node, client(node.url) as rpc:
        first, second, third = await rpc.send_raw_batch([b"\x01", b"\x02", b"\x03"])
        assert (first, third) == ("0xhash0x01", "0xhash0x03")
        assert isinstance(second, RpcError)
        assert second.kind is RpcErrorKind.NONCE_TOO_LOW
        assert [item["params"] for item in node.seen[-1]] == [["0x01"], ["0x02"], ["0x03"]]


def _fills_up(request: dict[str, Any]) -> dict[str, Any]:
    if request["params"] == ["0x01"]:
        return {"result": "0x01 at one"}
    return {"error": {"code": -32000, "message": "txpool is full"}}


async def test_a_send_that_one_url_has_no_room_for_is_offered_to_the_next() -> None:
    two_answers = each(lambda request: {"result": request["params"][0] + " at two"})
    async with hostile_node(each(_fills_up)) as one, hostile_node(two_answers) as two, client(one.url, two.url) as rpc:
        answers = await rpc.send_raw_batch([b"\x01", b"\x02", b"\x03"])
        assert answers == ["0x01 at one", "0x02 at two", "0x03 at two"]
        assert [item["params"] for item in two.seen[-1]] == [["0x02"], ["0x03"]]


@pytest.mark.parametrize("raws", [[b"\x01"], [b"\x01", b"\x02"]])
async def test_what_is_offered_everywhere_is_taken_when_one_url_takes_it(raws: list[bytes]) -> None:
    knows = {"error": {"code": -32000, "message": "already known"}}

    def of(answer: dict[str, Any]) -> Any:
        error = answer.get("error")
        one = refuse(error["code"], error["message"]) if error else answer["result"]
        return one if len(raws) == 1 else each(lambda _: answer)

    poor = {"error": {"code": -32000, "message": "insufficient funds for gas * price + value"}}
    for first, second, expected in (
        ({"result": "0xhash"}, poor, "0xhash"),
        (poor, {"result": "0xhash"}, "0xhash"),
        (poor, knows, RpcErrorKind.ALREADY_KNOWN),
        (knows, poor, RpcErrorKind.ALREADY_KNOWN),
    ):
        async with hostile_node(of(first)) as one, hostile_node(of(second)) as two, client(one.url, two.url) as rpc:
            answers = await rpc.send_raw_everywhere(raws)
            assert [each.kind if isinstance(each, RpcError) else each for each in answers] == [expected] * len(raws)
            await until(lambda: len(one.methods) == len(two.methods) == 1)  # neither waits for the other
    async with hostile_node(silence(5)) as one, hostile_node(of(poor)) as two, client(one.url, two.url) as rpc:
        for answer in await rpc.send_raw_everywhere(raws):
            assert isinstance(answer, RpcError)
            assert (answer.kind, answer.maybe_delivered) == (RpcErrorKind.INSUFFICIENT_FUNDS, True)


async def test_a_url_that_hangs_does_not_hold_up_what_is_offered_everywhere() -> None:
    taken = each(lambda request: {"result": request["params"][0]})
    async with (
        hostile_node(silence(5)) as one,
        hostile_node(taken) as two,
        client(one.url, two.url, timeout_seconds=60) as rpc,
        asyncio.timeout(2),
    ):
        assert await rpc.send_raw_everywhere([b"\x01", b"\x02"]) == ["0x01", "0x02"]


# Batches


async def test_a_batch_matches_answers_by_id_not_by_place() -> None:
    reply = each(lambda request: {"result": request["params"][0]}, shuffled=True)
    async with hostile_node(reply) as node, client(node.url, max_batch=4) as rpc:
        asked = [("echo", [hex(n)]) for n in range(10)]
        assert await rpc.batch(asked, str) == [hex(n) for n in range(10)]
        assert sorted(len(body) for body in node.seen if isinstance(body, list)) == [2, 4, 4]


async def test_only_unanswered_items_are_asked_again_elsewhere() -> None:
    def lagging(request: dict[str, Any]) -> dict[str, Any]:
        if request["params"] == ["0x1"]:
            return {"error": {"code": -32000, "message": "header not found"}}
        if request["params"] == ["0x2"]:
            return {}
        if request["params"] == ["0x3"]:
            return {"error": {"code": 3, "message": "execution reverted", "data": "0x"}}
        return {"result": "from one"}

    async with hostile_node(each(lagging)) as one, hostile_node(each(lambda _: {"result": "from two"})) as two:
        async with client(one.url, two.url) as rpc:
            found = await rpc.batch([("echo", [hex(n)]) for n in range(4)], str)
        assert found[:3] == ["from one", "from two", "from two"]
        assert isinstance(found[3], RpcError)
        assert found[3].kind is RpcErrorKind.REVERTED
        assert [item["params"] for item in two.seen[-1]] == [["0x1"], ["0x2"]]


@pytest.mark.parametrize("reply", [status(500), refuse(-32600, "batch not supported"), raw("{}"), raw("no")])
async def test_a_node_that_refuses_batches_fails_over(reply: Any) -> None:
    good = each(lambda _: {"result": "0x1"})
    async with hostile_node(reply) as one, hostile_node(good) as two, client(one.url, two.url) as rpc:
        assert await rpc.batch([("echo", [])] * 2, str) == ["0x1", "0x1"]


async def test_an_unanswerable_batch_gives_each_item_its_error() -> None:
    async with hostile_node(status(500)) as node, client(node.url, rounds=2) as rpc:
        found = await rpc.batch([("echo", [])] * 3, str)
        assert [item.kind for item in found if isinstance(item, RpcError)] == [RpcErrorKind.UNAVAILABLE] * 3


async def test_nothing_is_offered_when_there_is_nothing() -> None:
    async with hostile_node(status(500)) as one, hostile_node(status(500)) as two, client(one.url, two.url) as rpc:
        assert await rpc.send_raw_batch([]) == await rpc.send_raw_everywhere([]) == await rpc.batch([], str) == []
        assert one.methods == two.methods == []


# Reverts, and what is said


async def test_no_message_shows_the_key_in_a_url() -> None:
    async with hostile_node(status(500)) as node:
        secret = "abcdef0123456789abcdef0123456789"
        async with client(f"{node.url}/v2/{secret}?key={secret}", rounds=1, chain_id=None) as rpc:
            with pytest.raises(RpcError) as e:
                await rpc.call("eth_blockNumber", [], str)
        assert secret not in str(e.value)


async def test_pinned_asks_one_url_only() -> None:
    async with hostile_node("0xa") as one, hostile_node("0xb") as two, client(one.url, two.url) as rpc:
        assert await rpc.pinned(1).call("eth_blockNumber", [], str) == "0xb"
        assert await rpc.pinned(0).call("eth_blockNumber", [], str) == "0xa"
        one.replies = [status(500)]
        with pytest.raises(RpcError):
            await rpc.pinned(0).call("eth_blockNumber", [], str)


async def test_errors_and_requests_are_counted_by_kind() -> None:
    async with hostile_node(status(429)) as node, client(node.url, rounds=1) as rpc:
        with pytest.raises(RpcError):
            await rpc.call("eth_blockNumber", [], str)
        where = {"chain": str(CHAIN), "endpoint": rpc.labels[0]}
    assert REGISTRY.get_sample_value("vpm_rpc_errors_total", where | {"kind": "rate_limited"}) == 1
    assert REGISTRY.get_sample_value("vpm_rpc_requests_total", where | {"method": "eth_blockNumber"}) == 1


# News of heads


@pytest.mark.parametrize("frame", ["null", "7", "[]", '"error"', '{"error": 7}', "no"])
async def test_a_frame_that_is_no_news_costs_a_subscription_and_nothing_else(frame: str) -> None:
    frames = [frame, '{"jsonrpc": "2.0", "method": "eth_subscription", "params": {}}']

    async def subscribed(request: web.Request) -> web.WebSocketResponse:
        socket = web.WebSocketResponse()
        await socket.prepare(request)
        await socket.receive()
        await socket.send_str(frames.pop(0))
        await socket.receive()
        return socket

    app = web.Application()
    app.router.add_get("/", subscribed)
    async with serving(app) as url:
        heads = Heads([url.replace("http", "ws")], poll_seconds=10.0)
        listening = asyncio.create_task(heads.listen())
        assert await heads.wait()
        assert not listening.done()
        listening.cancel()
