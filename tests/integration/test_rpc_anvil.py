"""The chain client against a real node."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from eth_account import Account
from eth_account.signers.local import LocalAccount

from core.chain import Call, ChainClient, ChainProvider, Contract, ContractReverted, Log, RpcError, RpcErrorKind
from core.chain.wire import data_bytes, quantity
from tests.conftest import Anvil, StartAnvil
from tests.support.inconsistent_node import InconsistentNode

# The mnemonic's first two accounts.
ALICE: LocalAccount = Account.from_key("0xac0974bec39a17e36ba4a6b4d238ff944bacb478cbed5efcae784d7bf4f2ff80")
BOB: LocalAccount = Account.from_key("0x59c6995e998f97a5a0044966f0945389dc9e86dae88c7a8412f4603b6b78690d")

# Emits the word it is sent, under TOPIC, and returns it.
TOPIC = "7e" * 32
ECHO = "600035" + "80" + "600052" + f"7f{TOPIC}" + "6020" + "6000" + "a1" + "600052" + "60206000f3"
# Reverts with EntryTooSmall(uint256): selector and a 7.
REVERTER_ABI: list[dict[str, Any]] = [
    {"type": "function", "name": "enter", "inputs": [], "outputs": [{"name": "", "type": "uint256"}]},
    {"type": "error", "name": "EntryTooSmall", "inputs": [{"name": "amount", "type": "uint256"}]},
]
ECHO_ABI: list[dict[str, Any]] = [
    {"type": "function", "name": "echo", "inputs": [], "outputs": [{"name": "", "type": "uint256"}]},
]

NUMBER = "43" + "600052" + "60206000f3"  # returns the number of the block it runs in


class BusyNode(InconsistentNode):
    """A node on which a block is mined between any two answers of a batch."""

    async def _answer(self, call: dict[str, Any]) -> dict[str, Any]:
        answer = await super()._answer(call)
        await self._ask({"jsonrpc": "2.0", "id": 0, "method": "evm_mine", "params": []})
        return answer


def _reverter() -> str:
    (error,) = Contract("0x" + "11" * 20, REVERTER_ABI).errors.values()
    return f"63{error.selector.hex()}60e01b600052" + "6007600452" + "60246000fd"


def _creation(runtime: str) -> bytes:
    size = len(runtime) // 2
    return bytes.fromhex(f"60{size:02x}600c60003960{size:02x}6000f3" + runtime)


@pytest.fixture(scope="module")
def chain(module_anvil: StartAnvil) -> Anvil:
    return module_anvil(chain_id=31338)


@pytest.fixture
async def client(chain: Anvil) -> AsyncIterator[ChainClient]:
    async with ChainProvider([chain.url], chain_id=chain.chain_id) as rpc:
        await rpc.start()
        yield ChainClient(rpc)


async def _sign(client: ChainClient, **fields: Any) -> bytes:
    head = await client.head()
    given = {
        "chainId": 31338,
        "nonce": await client.eth.get_transaction_count(ALICE.address, "pending"),
        "gas": 500_000,
        "maxFeePerGas": 2 * (head.base_fee_wei or 0) + 10**9,
        "maxPriorityFeePerGas": 10**9,
        "value": 0,
    }
    return bytes(ALICE.sign_transaction(given | fields).raw_transaction)


async def _mined(client: ChainClient, raw: bytes) -> Any:
    sent = await client.provider.send_raw(raw)
    for _ in range(100):
        receipt = await client.receipt(sent)
        if receipt is not None:
            return receipt
        await asyncio.sleep(0.05)
    raise AssertionError("not mined")


async def _deploy(client: ChainClient, runtime: str, abi: list[dict[str, Any]]) -> Contract:
    receipt = await _mined(client, await _sign(client, data=_creation(runtime)))
    assert receipt.succeeded
    assert receipt.contract_address
    return Contract(receipt.contract_address, abi)


async def test_blocks(client: ChainClient) -> None:
    head = await client.head()
    assert await client.block(head.number) == head
    assert await client.block(head.hash) == head
    assert head.l1_block_number == head.number
    assert head.timestamp > 1_700_000_000
    assert await client.block(head.number + 1000) is None
    assert await client.block("0x" + "00" * 32) is None
    genesis, absent = await client.blocks([0, head.number + 1000])
    assert genesis is not None
    assert genesis.number == 0
    assert absent is None
    assert await client.eth.chain_id == 31338


async def test_logs_by_range(client: ChainClient) -> None:
    echo = await _deploy(client, ECHO, ECHO_ABI)
    receipts = [
        await _mined(client, await _sign(client, to=echo.address, data=number.to_bytes(32))) for number in (7, 8)
    ]
    first, last = receipts[0].block_number, receipts[-1].block_number
    logs: list[Log] = await client.logs(first, last, [echo.address], ["0x" + TOPIC])
    assert [int.from_bytes(data_bytes(log.data)) for log in logs] == [7, 8]
    assert [quantity(log.block_number) for log in logs] == [first, last]
    assert logs[0].block_hash == receipts[0].block_hash
    assert logs[0].transaction_hash == receipts[0].transaction_hash
    assert not logs[0].removed
    assert await client.logs(first, last, [echo.address], ["0x" + "00" * 32]) == []


async def test_views_at_one_block(client: ChainClient) -> None:
    echo = await _deploy(client, ECHO, ECHO_ABI)
    head = await client.head()
    function = echo.abi.function("echo")
    calls = [Call(echo.address, number.to_bytes(32), function) for number in range(150)]
    assert await client.read_many(calls, head.number) == list(range(150))
    assert await client.read_many(calls[:2], head.hash) == [0, 1]
    assert await client.read(calls[9], head.number) == 9
    with pytest.raises(RpcError) as e:
        await client.read(calls[9], head.number + 1000)
    assert e.value.kind is RpcErrorKind.BLOCK_NOT_FOUND


async def test_before_its_deployment_a_contract_is_not_there(client: ChainClient) -> None:
    echo = await _deploy(client, ECHO, ECHO_ABI)
    (answer,) = await client.read_many([echo.call("echo")], 0)
    assert isinstance(answer, RpcError)
    assert "is there a contract" in answer.message
    assert await client.eth.get_code(echo.address, 0) == b""
    assert (await client.eth.get_code(echo.address)).hex() == ECHO


async def test_a_revert_says_why(client: ChainClient) -> None:
    reverter = await _deploy(client, _reverter(), REVERTER_ABI)
    call = reverter.call("enter", sender=ALICE.address)
    for ask in (client.read(call), client.simulate(call)):
        with pytest.raises(ContractReverted, match=r"entry too small \(amount 7\)") as e:
            await ask
        assert e.value.name == "EntryTooSmall"
    (answer,) = await client.read_many([call], "latest")
    assert isinstance(answer, ContractReverted)


async def test_refusals_of_a_real_node_are_understood(client: ChainClient) -> None:
    mined = await _sign(client, to=BOB.address, value=1, gas=21_000)
    await _mined(client, mined)
    poor = Account.create()
    nonce = await client.eth.get_transaction_count(ALICE.address)
    given = {"chainId": 31338, "to": BOB.address, "gas": 21_000, "value": 1, "maxPriorityFeePerGas": 1}
    unfunded = poor.sign_transaction({**given, "nonce": 0, "maxFeePerGas": 10**10})
    cheap = ALICE.sign_transaction({**given, "nonce": nonce, "maxFeePerGas": 1})
    short = ALICE.sign_transaction({**given, "nonce": nonce, "maxFeePerGas": 10**10, "gas": 20_000})
    for raw, kind in (
        (mined, RpcErrorKind.NONCE_TOO_LOW),
        (unfunded.raw_transaction, RpcErrorKind.INSUFFICIENT_FUNDS),
        (cheap.raw_transaction, RpcErrorKind.FEE_TOO_LOW),
        (short.raw_transaction, RpcErrorKind.GAS_LIMIT),
        (b"\x02\x01", RpcErrorKind.TX_INVALID),
    ):
        with pytest.raises(RpcError) as e:
            await client.provider.send_raw(bytes(raw))
        assert e.value.kind is kind
        assert not e.value.maybe_delivered


async def test_the_pool_s_refusals(anvil: StartAnvil) -> None:
    chain = anvil(chain_id=31338, mine_on_demand=True)
    async with ChainProvider([chain.url], chain_id=31338) as rpc:
        client = ChainClient(rpc)
        first = await _sign(client, to=BOB.address, gas=21_000, nonce=0)
        await client.provider.send_raw(first)
        with pytest.raises(RpcError) as e:
            await client.provider.send_raw(first)
        assert e.value.kind is RpcErrorKind.ALREADY_KNOWN
        with pytest.raises(RpcError) as e:
            await client.provider.send_raw(await _sign(client, to=BOB.address, gas=21_000, nonce=0, value=3))
        assert e.value.kind is RpcErrorKind.REPLACEMENT_UNDERPRICED
        assert await client.eth.get_transaction_count(ALICE.address, "pending") == 1
        assert await client.eth.get_transaction_count(ALICE.address) == 0


async def test_what_is_read_together_is_of_one_block(client: ChainClient, chain: Anvil) -> None:
    made = await _mined(client, await _sign(client, data=_creation(NUMBER)))
    number = Contract(made.contract_address, ECHO_ABI).call("echo")
    async with BusyNode(chain.url, seed=1) as node, ChainProvider([node.url], chain_id=chain.chain_id) as rpc:
        node.head_seconds = 0
        await rpc.start()
        head, code, answers = await ChainClient(rpc).read_newest(made.contract_address, [number] * 4)
    assert code == bytes.fromhex(NUMBER)
    assert answers == [head.number] * 4


async def test_a_guess_of_the_newest_block_is_never_the_answer_when_it_is_wrong(
    client: ChainClient, chain: Anvil
) -> None:
    made = await _mined(client, await _sign(client, data=_creation(NUMBER)))
    number = Contract(made.contract_address, ECHO_ABI).call("echo")
    old = await client.head()
    await client.provider.call("anvil_mine", ["0x2"], object)
    newest = await client.head()
    assert newest.number == old.number + 2
    for guess in (newest.hash, old.hash, "0x" + "ab" * 32):
        block, code, answers = await client.read_newest(made.contract_address, [number], guess=guess)
        assert (block.hash, code, answers) == (newest.hash, bytes.fromhex(NUMBER), [newest.number])
