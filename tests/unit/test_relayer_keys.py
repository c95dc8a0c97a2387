"""Which keys serve which lanes, and how keys are read."""

from __future__ import annotations

import json
import re
from decimal import Decimal
from pathlib import Path

import pytest
from eth_account import Account

from core.config import RelayerSecrets, RelayerSettings, load
from core.config.settings import CHAIN_NAMES
from core.contracts.abi import all_errors
from core.errors import ConfigError
from core.outbox import CREDIT, KEEPER, RELAY
from core.paths import REPOSITORY
from relayer.leases import check_separate_keys, lane_specs
from relayer.policy import policy_from
from relayer.signing import read_keys

FIRST, SECOND = "0x" + "11" * 32, "0x" + "22" * 32
CHAINS = {"base": 8453, "stock": 4663}


def lanes(keys: str, chains: dict[str, int] = CHAINS) -> list[tuple[str, int, tuple[str, ...], str]]:
    specs = lane_specs(read_keys(load(RelayerSecrets, {"VPM_RELAYER_KEYS": keys})), chains)
    return [(spec.chain, spec.chain_id, spec.groups, "0x" + spec.signer.address.hex()) for spec in specs]


def address(key: str) -> str:
    return str(Account.from_key(key).address).lower()


def test_a_bare_key_relays_and_keeps_on_every_chain() -> None:
    assert lanes(FIRST) == [
        ("base", 8453, ("relay", "keeper"), address(FIRST)),
        ("stock", 4663, ("relay", "keeper"), address(FIRST)),
    ]


def test_a_key_may_name_its_chain_and_its_groups() -> None:
    assert lanes(f"stock:opener={FIRST}, base:lister+publisher={SECOND}") == [
        ("stock", 4663, ("opener",), address(FIRST)),
        ("base", 8453, ("lister", "publisher"), address(SECOND)),
    ]


def test_the_creditor_has_a_separate_lane() -> None:
    assert lanes(f"base:credit={SECOND},{FIRST}") == [
        ("base", 8453, (CREDIT,), address(SECOND)),
        ("base", 8453, (RELAY, KEEPER), address(FIRST)),
        ("stock", 4663, (RELAY, KEEPER), address(FIRST)),
    ]


def test_a_key_named_twice_on_a_chain_is_one_lane() -> None:
    assert lanes(f"stock:opener={FIRST},relay={FIRST}") == [
        ("stock", 4663, ("opener", "relay"), address(FIRST)),
        ("base", 8453, ("relay",), address(FIRST)),
    ]


def test_a_group_named_twice_for_a_key_is_served_once() -> None:
    assert lanes(f"stock:opener+relay={FIRST},stock:relay={FIRST}") == [
        ("stock", 4663, ("opener", "relay"), address(FIRST))
    ]


def test_a_chain_that_is_not_configured_has_no_lanes() -> None:
    assert [spec[0] for spec in lanes(FIRST, {"base": 8453})] == ["base"]


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        (f"moon:relay={FIRST}", "'moon' is not a chain"),
        ("relay=0x1234", "not 64 hexadecimal digits"),
        (f"relay+2x={FIRST}", "'2x' is not a group; expected a lower-case word"),
    ],
)
def test_the_error_for_a_wrong_key_does_not_show_it(keys: str, said: str) -> None:
    with pytest.raises(ConfigError, match="VPM_RELAYER_KEYS") as raised:
        lanes(keys)
    assert said in raised.value.message
    assert FIRST[2:] not in raised.value.message


def test_keys_are_read_from_encrypted_keystores(tmp_path: Path) -> None:
    keystore, password = tmp_path / "lane.json", tmp_path / "password"
    keystore.write_text(json.dumps(Account.encrypt(FIRST, "a long password", kdf="pbkdf2", iterations=2)))
    password.write_text("a long password\n")
    env = {
        "VPM_RELAYER_KEYSTORES": f"base:publisher={keystore}",
        "VPM_RELAYER_KEYSTORE_PASSWORD_FILE": str(password),
    }
    (key,) = read_keys(load(RelayerSecrets, env))
    assert (key.chain, key.groups, "0x" + key.signer.address.hex()) == ("base", ("publisher",), address(FIRST))
    password.write_text("another")
    with pytest.raises(ConfigError, match=r"lane\.json cannot be decrypted"):
        read_keys(load(RelayerSecrets, env))


def test_no_key_at_all_is_an_error_that_names_the_variables() -> None:
    with pytest.raises(ConfigError) as raised:
        read_keys(load(RelayerSecrets, {}))
    assert "VPM_RELAYER_KEYS or VPM_RELAYER_KEYSTORES" in raised.value.sentence()


def test_the_policy_follows_the_settings_of_its_chain() -> None:
    settings = load(RelayerSettings, {"VPM_RELAYER_BASE_MAX_FEE_GWEI": "0.5", "VPM_RELAYER_GAS_PER_HOUR_ETHER": "0.25"})
    base, stock = policy_from(settings, "base", {}), policy_from(settings, "stock", {})
    assert base.fees.cap_wei == 500_000_000
    assert stock.fees.cap_wei == int(settings.stock_max_fee_gwei * 10**9)
    assert base.gas_per_hour_wei == int(Decimal("0.25") * 10**18)


def test_a_bet_of_a_dollar_never_costs_us_a_dollar_of_gas() -> None:
    """The least bet is fixed, and its fee is two cents: what may be paid to carry it is not a matter of the market."""
    gas, dollars_an_ether = 195_000 + 40_000, 4_000  # settled and paid out
    for chain in CHAIN_NAMES:
        policy = policy_from(load(RelayerSettings, {}), chain, {})
        carries, settles = policy.for_groups((RELAY,)), policy.for_groups((KEEPER,))
        assert carries.fees.cap_wei * gas * dollars_an_ether < 10**18
        assert settles.fees.cap_wei == policy.fees.cap_wei > carries.fees.cap_wei
        assert policy.for_groups((KEEPER, RELAY)).fees.cap_wei == carries.fees.cap_wei
    tight = policy_from(load(RelayerSettings, {"VPM_RELAYER_BASE_MAX_FEE_GWEI": "0.1"}), "base", {})
    assert tight.for_groups((RELAY,)).fees.cap_wei == 10**8


def test_every_custom_error_of_our_contracts_is_known_by_name() -> None:
    names = {error.name for error in all_errors().values()}
    assert len(names) > 20


EXAMPLES = (
    "deployments/compose/.env.example",
    "docs/relayer.md",
    "docs/operate.md",
    "core/config/lanes.py",
)


@pytest.mark.parametrize("file", EXAMPLES)
def test_in_no_example_does_a_key_send_bets_and_anything_else(file: str) -> None:
    text = (REPOSITORY / file).read_text()
    shared = [groups for groups in re.findall(r"[a-z]+(?:\+[a-z]+)+(?==)", text) if RELAY in groups.split("+")]
    assert shared == []


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        (FIRST, "relay and keeper on base"),
        (f"stock:relay={FIRST},stock:keeper={FIRST}", "relay and keeper on stock"),
        (f"relay={FIRST},base:lister={FIRST}", "relay and lister on base"),
        (f"base:relay={FIRST},stock:keeper={FIRST}", None),
        (f"relay={FIRST},keeper={SECOND},base:credit={SECOND}", None),
    ],
)
def test_on_a_live_chain_a_key_that_sends_bets_serves_nothing_else(keys: str, said: str | None) -> None:
    """Otherwise an attacker whose bets burn gas would stop settling and payouts, too."""
    specs = lane_specs(read_keys(load(RelayerSecrets, {"VPM_RELAYER_KEYS": keys})), CHAINS)
    check_separate_keys(specs, live=())
    if said is None:
        check_separate_keys(specs, live=CHAINS)
        return
    with pytest.raises(ConfigError, match=said):
        check_separate_keys(specs, live=CHAINS)
