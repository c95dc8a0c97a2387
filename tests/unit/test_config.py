"""Settings: what is read from where, what is refused, and that every refusal is a sentence naming the variable."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from core.config import ApiSecrets, RelayerSecrets, Settings, exposed_files, load, unknown_variables
from core.config.__main__ import main
from core.config.loading import SettingsBase
from core.config.settings import CHAIN_NAMES
from core.errors import EXIT_CONFIG, ConfigError
from core.log import redact_text

DATABASE = {"DATABASE_URL": "postgresql://vpm:correct-horse@db.internal:5432/vpm"}
KEY = "0x" + "11" * 32


def _refused(env: dict[str, str]) -> str:
    with pytest.raises(ConfigError) as e:
        load(Settings, env)
    assert e.value.exit_code == EXIT_CONFIG
    return e.value.message


def test_by_default_each_chain_has_its_deployment_file_and_no_node() -> None:
    settings = load(Settings, DATABASE)
    for name in CHAIN_NAMES:
        chain = settings.chain(name)
        assert chain.deployment_file.name == f"{name}.json"
        assert chain.deployment_file.exists()
        assert chain.rpc_urls == ()


def test_lists_are_written_with_commas() -> None:
    env = DATABASE | {"VPM_BASE_RPC_URLS": "http://a:1, https://b/rpc ,", "VPM_BLOCKED_REGIONS": "us, fr"}
    settings = load(Settings, env)
    assert settings.chain("base").rpc_urls == ("http://a:1", "https://b/rpc")
    assert settings.blocked_regions == ("US", "FR")


def test_networks_choose_the_deployment_files(tmp_path: Path) -> None:
    env = DATABASE | {"VPM_DEPLOYMENTS_DIR": str(tmp_path), "VPM_STOCK_NETWORK": "local-stock"}
    assert load(Settings, env).chain("stock").deployment_file == tmp_path / "local-stock.json"


@pytest.mark.parametrize(
    ("env", "said"),
    [
        ({}, "DATABASE_URL is not set; expected a URL like postgresql://"),
        ({"DATABASE_URL": "mysql://u:p@h/db"}, "DATABASE_URL is invalid: not a URL that has a host and starts with"),
        ({"DATABASE_URL": "postgresql:///db"}, "has a host"),
        (DATABASE | {"VPM_PORT": "eighty"}, "VPM_PORT is invalid"),
        (DATABASE | {"VPM_PORT": "65536"}, "expected a port from 0 to 65535"),
        (DATABASE | {"VPM_BASE_RPC_URLS": "ftp://x"}, "VPM_BASE_RPC_URLS"),
        (DATABASE | {"VPM_BASE_RPC_URLS": "http://a,http://a"}, "the same URL is listed twice"),
        (DATABASE | {"VPM_BASE_WS_URLS": "http://a"}, "ws:// or wss://"),
        (DATABASE | {"VPM_BLOCKED_REGIONS": "USA"}, "'USA' is not a two-letter country code"),
        (DATABASE | {"VPM_TRADING_PAUSED": "perhaps"}, "VPM_TRADING_PAUSED"),
        (DATABASE | {"VPM_CUP_OPENS_AT": "2026-11-21T00:00:00"}, "the time has no time zone"),
        (DATABASE | {"VPM_CUP_OPENS_AT": "2026-11-21T00:00:00Z"}, "set both or neither"),
        (
            DATABASE | {"VPM_CUP_OPENS_AT": "2026-11-22T00:00:00Z", "VPM_CUP_CLOSES_AT": "2026-11-21T00:00:00Z"},
            "VPM_CUP_CLOSES_AT must be later than VPM_CUP_OPENS_AT",
        ),
        (DATABASE | {"VPM_STOCK_NETWORK": "../vpm"}, "VPM_STOCK_NETWORK"),
        (DATABASE | {"VPM_RPC_TIMEOUT_SECONDS": "0"}, "expected a number of seconds above 0"),
        (DATABASE | {"VPM_LOG_LEVEL": "loud"}, "expected DEBUG, INFO, WARNING or ERROR"),
    ],
)
def test_refusals_name_the_variable_and_what_to_write(env: dict[str, str], said: str) -> None:
    assert said in _refused(env)


def test_every_fault_is_named_at_once() -> None:
    message = _refused({"VPM_PORT": "x", "VPM_LOG_FORMAT": "yaml"})
    for variable in ("DATABASE_URL", "VPM_PORT", "VPM_LOG_FORMAT"):
        assert variable in message


def test_a_refused_secret_is_not_quoted() -> None:
    assert "hunter2" not in _refused({"DATABASE_URL": "mysql://u:hunter2@h/db"})
    with pytest.raises(ConfigError) as e:
        load(RelayerSecrets, {"VPM_RELAYER_KEYS": "0xdeadbeef"})
    assert "deadbeef" not in str(e.value)


def test_an_empty_variable_counts_as_unset() -> None:
    assert load(Settings, DATABASE | {"VPM_PORT": " "}) == load(Settings, DATABASE)


def test_a_misspelt_environment_variable_is_reported() -> None:
    sentences = unknown_variables({"VPM_TRADING_PAUSE": "1", "VPM_READY_FILE": "1", "VPM_PORT": "1", "HOME": "/"})
    assert sentences == ["VPM_TRADING_PAUSE is set but unknown; did you mean VPM_TRADING_PAUSED?"]


def test_every_variable_is_listed_with_what_to_write(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 0
    listed = capsys.readouterr().out
    for group in (Settings, ApiSecrets, RelayerSecrets):
        for field in group.model_fields.values():
            assert field.alias
            assert field.description
            assert f"{field.alias}: {field.description} (" in listed
    assert "VPM_PORT: a port from 0 to 65535 (default 8400)" in listed
    assert "(required; or name a file with it in DATABASE_URL_FILE)" in listed


def test_checking_what_is_set(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DATABASE_URL", DATABASE["DATABASE_URL"])
    assert main(["--check"]) == 0
    monkeypatch.setenv("VPM_PORT", "x")
    assert main(["--check"]) == EXIT_CONFIG
    assert "VPM_PORT" in capsys.readouterr().err
    monkeypatch.delenv("VPM_PORT")
    for name in ("VPM_KEEPER_LIST_SERIES", "VPM_RELAYER_BASE_MAX_FEE_GWEI"):  # every group that some daemon reads
        with monkeypatch.context() as set_wrongly:
            set_wrongly.setenv(name, "x")
            assert main(["--check"]) == EXIT_CONFIG
            assert name in capsys.readouterr().err


def test_nothing_secret_is_shown() -> None:
    env = DATABASE | {"VPM_BASE_RPC_URLS": "https://node/v2/abcdef01", "VPM_BASE_WS_URLS": "wss://n/key77"}
    settings = load(Settings, env)
    for shown in (repr(settings), str(settings), repr(settings.chain("base"))):
        assert not any(secret in shown for secret in ("correct-horse", "abcdef01", "key77"))


def test_loaded_secrets_are_known_to_the_log() -> None:
    load(RelayerSecrets, {"VPM_RELAYER_KEYS": f"{KEY},stock:relay=0x{'22' * 32}"})
    load(ApiSecrets, {"CRON_SECRET": "a-long-cron-secret"})
    load(Settings, DATABASE)
    text = redact_text(f"{'11' * 32} {'22' * 32} a-long-cron-secret correct-horse")
    assert text == "[redacted] [redacted] [redacted] [redacted]"


def test_each_role_reads_only_its_own_secrets() -> None:
    env = DATABASE | {"VPM_RELAYER_KEYS": KEY, "CRON_SECRET": "a-long-cron-secret", "VPM_ATTESTATION_KEY": KEY}
    assert KEY[2:] not in str(load(Settings, env).model_dump())
    assert not {"lane_keys", "keystore_files"} & set(ApiSecrets.model_fields)
    assert [key.secret.get_secret_value() for key in load(RelayerSecrets, env).lane_keys] == [KEY]
    attestation = load(ApiSecrets, env).attestation_key
    assert attestation is not None
    assert attestation.get_secret_value() == KEY


@pytest.mark.parametrize(
    ("group", "env", "said"),
    [
        (RelayerSecrets, {"VPM_RELAYER_KEYS": "0x00"}, "not 64 hexadecimal digits"),
        (RelayerSecrets, {"VPM_RELAYER_KEYS": "0x" + "00" * 32}, "not a valid secp256k1 key"),
        (RelayerSecrets, {"VPM_RELAYER_KEYS": "0x" + "ff" * 32}, "not a valid secp256k1 key"),
        (RelayerSecrets, {"VPM_RELAYER_KEYSTORES": "/a,/b"}, "set VPM_RELAYER_KEYSTORE_PASSWORD_FILE"),
        (RelayerSecrets, {"VPM_RELAYER_KEYS": KEY, "VPM_RELAYER_KEYSTORES": "/a"}, "are both set"),
        (ApiSecrets, {"CRON_SECRET": "short"}, "CRON_SECRET"),
    ],
)
def test_secrets_that_are_refused(group: type[SettingsBase], env: dict[str, str], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        load(group, env)


def test_times_become_utc() -> None:
    env = DATABASE | {"VPM_CUP_OPENS_AT": "2026-11-21T02:00:00+02:00", "VPM_CUP_CLOSES_AT": "2026-12-21T00:00:00Z"}
    assert load(Settings, env).cup_opens_at == datetime(2026, 11, 21, tzinfo=UTC)


def test_every_secret_may_lie_in_a_file(tmp_path: Path) -> None:
    for settings, name, value, field in (
        (Settings, "DATABASE_URL", "postgresql://u:p@h/d", "database_url"),
        (Settings, "VPM_BASE_RPC_URLS", "https://one.example/KEY", "base_rpc_urls"),
        (Settings, "VPM_LIMITS_STORAGE_URL", "redis://:p@h", "limits_storage_url"),
        (ApiSecrets, "CRON_SECRET", "sixteen-letters-or-more", "cron_secret"),
        (ApiSecrets, "VPM_ATTESTATION_KEY", "0x" + "11" * 32, "attestation_key"),
        (RelayerSecrets, "VPM_RELAYER_KEYS", "relay=0x" + "11" * 32, "lane_keys"),
    ):
        base = {} if name == "DATABASE_URL" else {"DATABASE_URL": "postgresql://u:p@h/d"}
        file = tmp_path / name
        file.write_text(f"{value}\n")
        file.chmod(0o600)
        by_file = {**base, f"{name}_FILE": str(file)}
        assert getattr(load(settings, by_file), field) == getattr(load(settings, {**base, name: value}), field)
        assert unknown_variables(by_file) == []
        assert exposed_files(by_file) == []
        file.chmod(0o644)
        (warning,) = exposed_files(by_file)
        assert f"{name}_FILE names {file}" in warning
        assert value not in warning


def test_a_secret_file_that_cannot_serve_is_named_and_not_shown(tmp_path: Path) -> None:
    secret = tmp_path / "url"
    secret.write_text("no url at all")
    for env, said in (
        ({"DATABASE_URL_FILE": str(tmp_path / "none")}, "cannot be read: No such file"),
        ({"DATABASE_URL_FILE": str(secret), "DATABASE_URL": "postgresql://u:p@h/d"}, "are both set"),
        ({"DATABASE_URL_FILE": str(secret)}, "DATABASE_URL is invalid"),
    ):
        with pytest.raises(ConfigError) as refused:
            load(Settings, env)
        assert said in refused.value.sentence()
        assert "no url at all" not in refused.value.sentence()
    secret.write_text("\n")
    with pytest.raises(ConfigError, match="which is empty"):
        load(Settings, {"DATABASE_URL_FILE": str(secret)})


def test_a_key_of_another_process_is_not_even_read(tmp_path: Path) -> None:
    env = {"DATABASE_URL": "postgresql://u:p@h/d", "VPM_RELAYER_KEYS_FILE": str(tmp_path / "not-there")}
    load(Settings, env)
    load(ApiSecrets, env)
    with pytest.raises(ConfigError):
        load(RelayerSecrets, env)
