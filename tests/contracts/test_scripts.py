"""The ape scripts as an operator runs them, on chains that already have everything."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest
from eth_abi.abi import encode
from eth_utils.address import to_checksum_address
from eth_utils.crypto import keccak

from core.chain import Contract
from core.contracts.abi import abi
from core.contracts.deployments import load_deployment
from core.paths import REPOSITORY
from scripts._deploy import safe
from scripts._deploy.build import creation_code
from scripts._deploy.safe import OWNER_KEYS_VARIABLE, safe_abi
from scripts._deploy.sending import create_address
from scripts._local.anvil import ask
from scripts._stack import ape, wallets
from scripts._stack.chain_setup import LocalNode, send_all
from scripts._vpm import bootstrap
from tests.support import programs
from tests.support.genesis import Genesis, RunningChain
from tests.support.live_node import live_looking

pytestmark = pytest.mark.timeout(300)


@pytest.fixture(scope="module")
def facts(local_genesis: Genesis, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Copy the deployment files, so that a test can change them."""
    folder = tmp_path_factory.mktemp("facts")
    for name in ("base", "stock"):
        (folder / f"{name}.json").write_bytes(local_genesis.state.deployment(name).read_bytes())
    return folder


@pytest.fixture(scope="module")
def ape_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("ape")
    wallets.import_account(folder, ape.ACCOUNT, wallets.DEPLOYER)
    wallets.import_account(folder, "guardian", wallets.GUARDIAN)
    return folder


def _ape(ape_folder: Path, *arguments: str, owners: int = 0) -> subprocess.CompletedProcess[str]:
    env = {
        **bootstrap.environment(),
        "APE_DATA_FOLDER": str(ape_folder),
        "TMPDIR": str(REPOSITORY / ".vpm" / "env" / "tmp"),  # see scripts/_stack/ape.py
        f"APE_ACCOUNTS_{ape.ACCOUNT}_PASSPHRASE": ape.PASSPHRASE,
        "APE_ACCOUNTS_guardian_PASSPHRASE": ape.PASSPHRASE,
        OWNER_KEYS_VARIABLE: ",".join(one.private_key for one in wallets.SAFE_OWNERS[:owners]),
    }
    argv = [*ape.COMMAND, "run", *arguments]

    async def run() -> subprocess.CompletedProcess[str]:
        async with ape.ape_lock():
            return await asyncio.to_thread(programs.run, argv, {**os.environ, **env}, timeout=300)

    return asyncio.run(run())


def _options(url: str, facts: Path) -> list[str]:
    """Return the options of a script that the deployer runs."""
    return ["--network", url, "--account", ape.ACCOUNT, "--deployment", str(facts)]


def _standing(chain: RunningChain) -> tuple[str, str]:
    sent = ask(chain.url, "eth_getTransactionCount", wallets.DEPLOYER.address, "latest")
    return ask(chain.url, "eth_blockNumber"), sent


def _view(chain: RunningChain, contract: str, selector: str) -> int:
    call = {"to": chain.deployment.contract(contract).address, "data": selector}
    return int(ask(chain.url, "eth_call", call, "latest"), 16)


@pytest.mark.thorough
def test_check_wiring_confirms_a_deployment_and_names_what_differs(
    stock_chain: RunningChain, base_chain: RunningChain, facts: Path, ape_folder: Path
) -> None:
    for chain in (stock_chain, base_chain):
        file = str(facts / f"{chain.name}.json")
        done = _ape(ape_folder, "check_wiring", "--network", chain.url, "--deployment", file)
        assert done.returncode == 0, done.stdout + done.stderr
        assert "0 wrong" in done.stdout
        assert "WRONG" not in done.stdout
        assert "open" not in done.stdout.splitlines()[-1]
    damaged = json.loads((facts / "stock.json").read_text())
    damaged["params"]["kappa"] = 31
    damaged["safe"]["threshold"] = 3
    (facts / "damaged").mkdir()
    (facts / "damaged" / "stock.json").write_text(json.dumps(damaged))
    file = str(facts / "damaged" / "stock.json")
    done = _ape(ape_folder, "check_wiring", "--network", stock_chain.url, "--deployment", file)
    assert done.returncode == 1
    assert "WRONG MarketLister kappa is 10, but the file says 31" in done.stdout
    assert "WRONG Safe threshold is 2, but the file says 3" in done.stdout
    assert "2 wrong" in done.stdout


@pytest.mark.thorough
def test_check_wiring_compares_the_code_with_the_sources(
    stock_chain: RunningChain, facts: Path, ape_folder: Path
) -> None:
    resolver = stock_chain.deployment.contract("RoundResolver").address
    genuine = ask(stock_chain.url, "eth_getCode", resolver, "latest")
    # The last 53 bytes identify the source; another word there means another source, though it behaves the same.
    other = genuine[:-100] + ("1" if genuine[-100] == "0" else "0") + genuine[-99:]
    ask(stock_chain.url, "anvil_setCode", resolver, other)
    try:
        done = _ape(ape_folder, "check_wiring", "--network", stock_chain.url, "--deployment", str(facts / "stock.json"))
    finally:
        ask(stock_chain.url, "anvil_setCode", resolver, genuine)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "WRONG the code of RoundResolver does not match these sources" in done.stdout
    assert "1 wrong" in done.stdout


@pytest.mark.thorough
def test_check_wiring_refuses_a_safe_of_one_signature_or_of_other_code(
    stock_chain: RunningChain, facts: Path, ape_folder: Path
) -> None:
    assert stock_chain.deployment.safe is not None
    url, owner = stock_chain.url, stock_chain.deployment.safe.address
    other = "0x41675C099F32341bf84BFc5382aF534df5C7461a"
    node = ask(url, "evm_snapshot")
    try:
        ask(url, "anvil_setCode", other, ask(url, "eth_getCode", safe.SINGLETON, "latest"))
        ask(url, "anvil_setStorageAt", owner, "0x0", f"0x{int(other, 16):064x}")
        ask(url, "anvil_setStorageAt", owner, "0x4", f"0x{1:064x}")
        with live_looking(url) as live:
            done = _ape(ape_folder, "check_wiring", "--network", live, "--deployment", str(facts / "stock.json"))
    finally:
        ask(url, "evm_revert", node)
    assert done.returncode == 1, done.stdout + done.stderr
    assert f"WRONG Safe singleton (SafeL2 1.4.1) is {other}, but the file says {safe.SINGLETON}" in done.stdout
    assert "WRONG 1 owners of the Safe must sign; the minimum is 2" in done.stdout


@pytest.mark.thorough
def test_check_wiring_refuses_what_was_allowed_before_the_safe_owned_the_lister(
    base_chain: RunningChain, facts: Path, tmp_path: Path, ape_folder: Path
) -> None:
    """The deployer allows another feed before handing over."""
    url, deployment = base_chain.url, base_chain.deployment
    assert deployment.safe is not None
    deployer, lister = wallets.DEPLOYER.address, abi("AgentLister")
    settler, resolver = (deployment.contract(name).address for name in ("SettlementWallet", "FeedResolver"))
    bounds = "(uint16,uint32,uint32,uint32,uint32)"
    given = (settler, resolver, deployer, (200, 10**6, 10**9, 60, 3_600))
    code = creation_code("AgentLister") + encode(["address", "address", "address", bounds], given)
    node = ask(url, "evm_snapshot")
    try:
        ask(url, "anvil_impersonateAccount", deployer)
        ask(url, "anvil_impersonateAccount", deployment.safe.address)
        ask(url, "anvil_setBalance", deployment.safe.address, hex(10**18))

        def sent(by: str, to: str | None, data: bytes) -> str:
            request = {"from": by, "data": "0x" + data.hex(), "gas": hex(8_000_000)} | ({"to": to} if to else {})
            tx = ask(url, "eth_sendTransaction", request)
            ask(url, "evm_mine")
            receipt = ask(url, "eth_getTransactionReceipt", tx)
            assert int(receipt["status"], 16) == 1
            return to_checksum_address(receipt["contractAddress"]) if to is None else str(tx)

        mine = sent(deployer, None, code)
        allowed = sent(deployer, mine, lister.function("setFeed").encode(mine, False, 0, 0, 0, 0))
        sent(deployer, mine, lister.function("transferOwnership").encode(deployment.safe.address))
        sent(deployment.safe.address, mine, lister.function("acceptOwnership").encode())
        file = json.loads((facts / "base.json").read_text())
        file["contracts"]["AgentLister"]["address"] = mine
        (tmp_path / "base.json").write_text(json.dumps(file))
        done = _ape(ape_folder, "check_wiring", "--network", url, "--deployment", str(tmp_path / "base.json"))
    finally:
        ask(url, "evm_revert", node)
    assert f"WRONG nothing was listed in AgentLister before the Safe owned it, except in {allowed}" in done.stdout, (
        done.stdout
    )


@pytest.mark.thorough
def test_a_live_network_sees_a_dry_run(stock_chain: RunningChain, tmp_path: Path, ape_folder: Path) -> None:
    """Without --send nothing is sent and nothing is written, if the node is not a development node."""
    file = tmp_path / "stock.json"
    shutil.copy(REPOSITORY / "deployments" / "stock.json", file)
    before = _standing(stock_chain)
    with live_looking(stock_chain.url) as url:
        options = _options(url, file)
        owners = [part for each in wallets.SAFE_OWNERS for part in ("--safe-owner", each.address)]
        done = _ape(ape_folder, "deploy_stock", *options, *owners)
        alone = _ape(ape_folder, "deploy_stock", *options, *owners, "--threshold", "1")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "dry run (use --send to send)" in done.stdout
    assert "a new Safe, 2 of 3" in done.stdout
    assert alone.returncode == 1
    assert "a Safe that requires only 1 signature depends on a single key" in alone.stderr
    assert _standing(stock_chain) == before
    assert not load_deployment(file).is_deployed


@pytest.mark.thorough
def test_deploying_over_a_deployment_is_refused(stock_chain: RunningChain, facts: Path, ape_folder: Path) -> None:
    before = (facts / "stock.json").read_bytes()
    options = _options(stock_chain.url, facts / "stock.json")
    done = _ape(ape_folder, "deploy_stock", *options, "--safe", wallets.DEPLOYER.address)
    assert done.returncode != 0
    assert "is already deployed" in done.stderr
    assert (facts / "stock.json").read_bytes() == before


@pytest.mark.thorough
def test_deploying_on_another_chain_is_refused(base_chain: RunningChain, ape_folder: Path) -> None:
    options = _options(base_chain.url, REPOSITORY / "deployments/stock.json")
    done = _ape(ape_folder, "deploy_stock", *options, "--safe", wallets.DEPLOYER.address)
    assert done.returncode != 0
    assert "this node serves chain 8453, but the deployment file is for chain 4663" in done.stderr


@pytest.mark.thorough
def test_a_guardian_pauses_at_once_and_only_the_safe_resumes(
    stock_chain: RunningChain, facts: Path, ape_folder: Path
) -> None:
    chain, view = stock_chain, "0x" + keccak(text="entriesPaused()")[:4].hex()
    where = ["--network", chain.url, "--deployment", str(facts / f"{chain.name}.json")]
    guardian, stranger = [*where, "--account", "guardian"], [*where, "--account", ape.ACCOUNT]

    # Any other account gets what the Safe has to sign, and one of its two signatures is not enough.
    done = _ape(ape_folder, "pause", *stranger)
    assert done.returncode == 0, done.stdout + done.stderr
    payload = next(json.loads(line) for line in done.stdout.splitlines() if line.startswith("{"))
    assert chain.deployment.safe is not None
    assert payload["safe"] == chain.deployment.safe.address
    assert payload["to"] == chain.deployment.contract("Pauser").address
    assert _ape(ape_folder, "pause", *stranger, owners=1).returncode != 0
    assert not _view(chain, "VestedMarkets", view)

    done = _ape(ape_folder, "pause", *guardian)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "done by the guardian: stop new bets" in done.stdout
    assert _view(chain, "VestedMarkets", view)

    # The same key gets no further than the payload when it comes to resuming.
    done = _ape(ape_folder, "pause", *guardian, "--resume")
    assert done.returncode == 0, done.stdout + done.stderr
    assert '"what": "accept bets again"' in done.stdout
    assert _view(chain, "VestedMarkets", view)
    assert _ape(ape_folder, "pause", *stranger, "--resume", owners=2).returncode == 0
    assert not _view(chain, "VestedMarkets", view)


@pytest.mark.thorough
def test_the_same_command_pauses_base(base_chain: RunningChain, facts: Path, ape_folder: Path) -> None:
    view = "0x" + keccak(text="paused()")[:4].hex()
    where = ["--network", base_chain.url, "--deployment", str(facts / "base.json")]
    assert _ape(ape_folder, "pause", *where, "--account", "guardian").returncode == 0
    assert _view(base_chain, "SettlementWallet", view)
    assert _ape(ape_folder, "pause", *where, "--account", ape.ACCOUNT, "--resume", owners=2).returncode == 0
    assert not _view(base_chain, "SettlementWallet", view)


@pytest.mark.thorough
def test_a_power_that_was_kept_is_found(base_chain: RunningChain, facts: Path, ape_folder: Path) -> None:
    """The wiring check reports a deployer's own RELAYER role, a second lister, and an unrecorded feed."""
    deployer, safe = wallets.DEPLOYER.address, base_chain.deployment.safe
    assert safe is not None
    before = ask(base_chain.url, "evm_snapshot")
    try:
        relayer = keccak(text="RELAYER")
        _as_safe(base_chain, "SettlementWallet", "setRole", relayer, deployer, True)
        _as_safe(base_chain, "AgentLister", "setLister", deployer, True)
        source = base_chain.deployment.published_feeds[0]
        memory, caps = source.memory_seconds + 1, (source.pot_cap_units, source.feed_cap_units)
        _read_anew(base_chain, source.address)
        _as_safe(base_chain, "AgentLister", "setFeed", source.address, True, memory, source.max_age_seconds, *caps)
        _as_safe(base_chain, "Pauser", "transferOwnership", deployer)
        file = facts / "base.json"
        done = _ape(ape_folder, "check_wiring", "--network", base_chain.url, "--deployment", str(file))
    finally:
        ask(base_chain.url, "evm_revert", before)
    assert done.returncode == 1, done.stdout + done.stderr
    assert f"WRONG no one else may settle payments, except {deployer}" in done.stdout
    assert f"WRONG no one else may list agent markets, except {deployer}" in done.stdout
    assert f"WRONG {source.key} memory (s) is 61, but the file says 60" in done.stdout
    assert f"WRONG the ownership of Pauser is offered to {deployer}" in done.stdout
    assert "4 wrong" in done.stdout


@pytest.mark.thorough
def test_a_feed_that_was_kept_is_found_on_the_stock_chain(
    stock_chain: RunningChain, facts: Path, ape_folder: Path
) -> None:
    """The wiring check reports an extra feed, other bounds and another name of a feed in the file, and a module of the
    Safe."""
    chain, one = stock_chain, stock_chain.deployment.price_feeds[0]
    assert chain.deployment.safe is not None
    module = wallets.GUARDIAN.address
    before = ask(chain.url, "evm_snapshot")
    try:
        now = int(ask(chain.url, "eth_getBlockByNumber", "latest", False)["timestamp"], 16)
        kept = create_address(wallets.DEPLOYER.address, 2**32)
        ask(chain.url, "anvil_setCode", kept, ask(chain.url, "eth_getCode", one.proxy, "latest"))
        answer = Contract(kept, abi("LocalFeed")).call("pushMany", [10**8], [now])
        send_all(LocalNode(chain.url), [answer], wallets.DEPLOYER.address)
        terms = (5 * 86_400, 3 * 3600, one.side_cap_units)
        _as_safe(chain, "MarketLister", "setFeed", kept, one.stock_token, one.ticker, *terms, True)
        ages = (one.max_strike_age_seconds + 1, one.max_final_age_seconds - 2, one.side_cap_units)
        _as_safe(chain, "MarketLister", "setFeed", one.proxy, one.stock_token, "OTHER", *ages, True)
        enable = Contract(chain.deployment.safe.address, safe_abi()).call("enableModule", module)
        send_all(LocalNode(chain.url), [enable], chain.deployment.safe.address)
        done = _ape(ape_folder, "check_wiring", "--network", chain.url, "--deployment", str(facts / "stock.json"))
    finally:
        ask(chain.url, "evm_revert", before)
    assert done.returncode == 1, done.stdout + done.stderr
    for said in (
        f"no other feed is allowed, except {kept}",
        f"{one.ticker} ticker at the lister is OTHER, but the file says {one.ticker}",
        f"{one.ticker} maximum strike age (s) is {ages[0]}, but the file says {ages[0] - 1}",
        f"{one.ticker} maximum final age (s) is {ages[1]}, but the file says {ages[1] + 2}",
        f"{module} may act for the Safe",
    ):
        assert f"WRONG {said}" in done.stdout
    assert "5 wrong" in done.stdout


@pytest.mark.thorough
def test_feeds_are_allowed_dropped_and_condemned_by_the_safe(
    base_chain: RunningChain, facts: Path, ape_folder: Path
) -> None:
    source = base_chain.deployment.published_feeds[0]
    options = ["--network", base_chain.url, "--deployment", str(facts / "base.json"), "--account", ape.ACCOUNT]
    wiring = ["check_wiring", "--network", base_chain.url, "--deployment", str(facts / "base.json")]
    before = ask(base_chain.url, "evm_snapshot")
    try:
        done = _ape(ape_folder, "allow_feed", *options, "--feed", source.key, "--drop", owners=2)
        assert done.returncode == 0, done.stdout + done.stderr
        assert f"done by the Safe: stop listing agent markets on {source.key}" in done.stdout
        done = _ape(ape_folder, *wiring)
        assert f"open  {source.key} is not allowed for markets yet" in done.stdout
        assert "0 wrong, 1 open" in done.stdout

        # Its last reading is too old by now: the contract's own reason comes before anyone signs.
        ask(base_chain.url, "evm_increaseTime", hex(2 * source.max_age_seconds))
        ask(base_chain.url, "evm_mine")
        done = _ape(ape_folder, "allow_feed", *options, owners=2)
        assert done.returncode != 0
        assert "feed not fresh" in done.stderr.lower()

        _read_anew(base_chain, source.address)
        # Without the owners' keys it prints what they have to sign.
        done = _ape(ape_folder, "allow_feed", *options)
        payload = next(json.loads(line) for line in done.stdout.splitlines() if line.startswith("{"))
        assert payload["what"] == f"allow agent markets on {source.key}"
        assert payload["to"] == base_chain.deployment.contract("AgentLister").address
        done = _ape(ape_folder, "allow_feed", *options, "--feed", source.key, owners=2)
        assert done.returncode == 0, done.stdout + done.stderr
        assert f"done by the Safe: allow agent markets on {source.key}" in done.stdout

        done = _ape(ape_folder, "condemn_feed", *options, "--feed", source.key, owners=2)
        assert done.returncode == 0, done.stdout + done.stderr
        assert f"done by the Safe: condemn {source.key}" in done.stdout
        done = _ape(ape_folder, "allow_feed", *options, "--feed", source.key, owners=2)
        assert done.returncode != 0
        assert "feed is condemned" in done.stderr.lower()
        done = _ape(ape_folder, *wiring)
        assert f"WRONG {source.key} is condemned" in done.stdout
    finally:
        ask(base_chain.url, "evm_revert", before)


def _as_safe(chain: RunningChain, name: str, function: str, *values: object) -> None:
    assert chain.deployment.safe is not None
    call = Contract(chain.deployment.contract(name).address, abi(name)).call(function, *values)
    send_all(LocalNode(chain.url), [call], chain.deployment.safe.address)


def _read_anew(chain: RunningChain, feed: str) -> None:
    """Post a present value as the publisher; the last block's may be too old for the next block."""
    ask(chain.url, "evm_mine")
    now = int(ask(chain.url, "eth_getBlockByNumber", "latest", False)["timestamp"], 16)
    call = Contract(feed, abi("ObservationFeed")).call("post", 90_000_000 * 10**8, now)
    send_all(LocalNode(chain.url), [call], wallets.PUBLISHER.address)


@pytest.mark.thorough
def test_hand_over_finds_nothing_left(base_chain: RunningChain, facts: Path, ape_folder: Path) -> None:
    options = ["--network", base_chain.url, "--deployment", str(facts / "base.json"), "--account", ape.ACCOUNT]
    done = _ape(ape_folder, "hand_over", *options, owners=2)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "nothing to hand over" in done.stdout
