"""The shell blocks of "Going live" in docs/operate.md, run in order on two new local chains."""

from __future__ import annotations

import asyncio
import os
import re
from pathlib import Path

import pytest

from core.paths import REPOSITORY
from scripts._deploy import build
from scripts._deploy.safe import OWNER_KEYS_VARIABLE
from scripts._local.ports import free_port
from scripts._local.process import SpawnPlan, start_process
from scripts._stack import ape, wallets
from scripts._stack.deploying import _prepare_chain
from scripts._stack.parts import CHAIN_IDS, LocalChain
from scripts._stack.state import State
from scripts._vpm import bootstrap
from tests.conftest import StartAnvil, TestPostgres

PAGE = REPOSITORY / "docs" / "operate.md"
MAX_SECONDS = 840


# The daemons end with the session, however it ends. Two ape processes must not run in one checkout at once; waiting for
# one of them to finish is enough.
_PRELUDE = f"""\
set -euo pipefail
trap 'kill $(jobs -p) || true' EXIT
APE="$(command -v ape)"
ape() {{ flock "{REPOSITORY}/.vpm/env/ape.lock" "$APE" "$@"; }}
"""


def _script(ape_folder: Path) -> str:
    """Return the page's blocks as one shell session. `./vpm` becomes its command line; ape gets its own folder."""
    section = re.split(r"^## ", PAGE.read_text(), flags=re.MULTILINE)
    (going_live,) = (part for part in section if part.startswith("Going live"))
    blocks = re.findall(r"```sh\n(.*?)```", going_live, re.DOTALL)
    assert len(blocks) >= 10
    body = "\necho '--- next block'\n".join(blocks).replace("./vpm", "python -m scripts._vpm.cli")
    body = body.replace("source .vpm/env/activate", f"source .vpm/env/activate; export APE_DATA_FOLDER={ape_folder}")
    return f"{_PRELUDE}{body}\necho '--- the end'\n"


@pytest.mark.skipif(not os.environ.get("VPM_TEST_LONG"), reason="a whole deployment: minutes; VPM_TEST_LONG=1 runs it")
@pytest.mark.timeout(900)
def test_a_newcomer_reaches_a_running_deployment_with_the_document_alone(
    anvil: StartAnvil, postgres: TestPostgres, tmp_path: Path
) -> None:
    asyncio.run(build.compile_all())  # for the tokens that are placed; ape finds it done
    state = State(tmp_path / "state")
    for folder in (state.root, state.deployments):
        folder.mkdir(parents=True, exist_ok=True)
    chains = {}
    for name, chain_id in CHAIN_IDS.items():
        node = anvil(chain_id=chain_id, accounts=1)
        chains[name] = node.url
        _prepare_chain(LocalChain(name, node.url, node.ws_url, fork=False), state)
    wallets.import_account(state.ape, "deployer", wallets.DEPLOYER)
    database_url = postgres.create(migrated=False)
    port = free_port()
    relay, keeper = wallets.RELAY_LANES[:2]
    env = {
        **os.environ,
        **bootstrap.environment(),
        "TMPDIR": str(REPOSITORY / ".vpm" / "env" / "tmp"),  # see scripts/_stack/ape.py
        "APE_ACCOUNTS_deployer_PASSPHRASE": ape.PASSPHRASE,
        # On a live network the owners sign in their own wallets.
        OWNER_KEYS_VARIABLE: ",".join(each.private_key for each in wallets.SAFE_OWNERS[:2]),
        "STOCK_RPC": chains["stock"],
        "BASE_RPC": chains["base"],
        **{f"OWNER_{number}": each.address for number, each in enumerate(wallets.SAFE_OWNERS, 1)},
        "OPENER": wallets.OPENER.address,
        "LISTER": wallets.OPENER.address,
        "PUBLISHER": wallets.PUBLISHER.address,
        "CREDITOR": wallets.CREDITOR.address,
        "GUARDIAN": wallets.GUARDIAN.address,
        "RELAYER_1": relay.address,
        "ATTESTER": wallets.ATTESTATION.address,
        "DEPLOYMENT_FILES": str(state.deployments),
        "DATABASE_URL": database_url,
        "VPM_CUP_OPENS_AT": "2026-01-01T00:00:00Z",
        "VPM_CUP_CLOSES_AT": "2126-01-01T00:00:00Z",
        "VPM_PUBLIC_URL": f"http://127.0.0.1:{port}",
        "VPM_PORT": str(port),
        **{f"VPM_{name}_METRICS_PORT": "0" for name in ("API", "INDEXER", "KEEPER", "RELAYER")},
        "VPM_RELAYER_KEYS": f"relay={relay.private_key},keeper={keeper.private_key},"
        f"stock:opener={wallets.OPENER.private_key},"
        f"base:lister={wallets.OPENER.private_key},base:publisher={wallets.PUBLISHER.private_key},"
        f"base:credit={wallets.CREDITOR.private_key}",
        "VPM_ATTESTATION_KEY": wallets.ATTESTATION.private_key,
        "VPM_LOG_FORMAT": "console",
    }
    try:
        output, code = _followed(_script(state.ape), env, tmp_path / "session.log")
    finally:
        postgres.drop(database_url)
    tail = "\n".join(output.splitlines()[-60:])
    assert code == 0, tail
    assert "--- the end" in output, tail
    assert output.count("0 wrong") == 3, tail
    assert output.count("0 wrong, 1 open") == 1, tail
    assert "done by the Safe: allow agent markets on BNKR/market_cap" in output, tail
    assert "nothing needs attention" in output, tail
    assert re.search(r"\d+ claims: \d+ hold, 0 do not hold", output), tail
    assert output.count(" 0 mismatches") == 2, tail


def _followed(script: str, env: dict[str, str], log: Path) -> tuple[str, int]:
    plan = SpawnPlan("bash", ("bash", "-c", script), env=env, cwd=str(REPOSITORY))
    session = start_process(plan, log)
    try:
        code = session.program.wait(MAX_SECONDS)
    finally:
        session.stop()
    return log.read_text(errors="replace"), code
