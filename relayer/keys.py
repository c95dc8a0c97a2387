"""Reading the lane keys: in the clear for development, from encrypted keystore files in production.

Keys of a cloud's key service are opened by `relayer.kms.opening`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from eth_account import Account

from core.config import RelayerSecrets
from core.errors import ConfigError
from core.hexadecimal import bytes_of, hex_of
from core.outbox.lanes import RELAY
from relayer.leases import LaneSpec
from relayer.signing import LocalSigner, Signer


@dataclass(frozen=True, slots=True)
class NamedKey:
    """A key and what it serves; chain None means every chain."""

    chain: str | None
    groups: tuple[str, ...]
    signer: Signer


def read_keys(secrets: RelayerSecrets) -> list[NamedKey]:
    """Every key that lies here. Blocking: unlocking a keystore takes about a second each. ConfigError with the file."""
    keys = [
        NamedKey(each.chain, each.groups, LocalSigner(bytes_of(each.secret.get_secret_value())))
        for each in secrets.lane_keys
    ]
    files = [(each, each.place) for each in secrets.keystore_files if isinstance(each.place, Path)]
    if files:
        assert secrets.keystore_password_file is not None
        try:
            password = secrets.keystore_password_file.read_text().rstrip("\r\n")
        except OSError as error:
            raise ConfigError(
                f"VPM_RELAYER_KEYSTORE_PASSWORD_FILE ({secrets.keystore_password_file}) cannot be read: "
                f"{error.strerror}."
            ) from None
        for keystore, path in files:
            try:
                secret = bytes(Account.decrypt(path.read_text(), password))
            except OSError as error:
                raise ConfigError(f"The keystore {path} cannot be read: {error.strerror}.") from None
            except (ValueError, KeyError, TypeError):
                raise ConfigError(
                    f"The keystore {path} cannot be opened: it is no keystore, or the password is wrong."
                ) from None
            keys.append(NamedKey(keystore.chain, keystore.groups, LocalSigner(secret)))
    if not keys and not secrets.keystore_files:
        raise ConfigError(
            "No lane key is configured.", hint="Set VPM_RELAYER_KEYS or VPM_RELAYER_KEYSTORES (see core.config.lanes)."
        )
    return keys


def lane_specs(keys: list[NamedKey], chain_ids: Mapping[str, int]) -> list[LaneSpec]:
    """The lanes those keys make on the configured chains. One key named twice on a chain is one lane with all groups,
    because two lanes of one key would fight over its nonces."""
    groups: dict[tuple[str, bytes], list[str]] = {}
    signers: dict[bytes, Signer] = {}
    for key in keys:
        for chain in chain_ids:
            if key.chain in (None, chain):
                signers[key.signer.address] = key.signer
                groups_served = groups.setdefault((chain, key.signer.address), [])
                groups_served += [group for group in key.groups if group not in groups_served]
    return [
        LaneSpec(chain, chain_ids[chain], tuple(served), signers[address])
        for (chain, address), served in groups.items()
    ]


def check_apart(specs: Sequence[LaneSpec], live: Collection[str]) -> None:
    """Strangers can make a lane that sends their bets burn gas until its stop-loss holds it. On live chains nothing
    else may stand still with it: ConfigError when the key of one serves more."""
    for spec in specs:
        if spec.chain in live and RELAY in spec.groups and len(spec.groups) > 1:
            others = " and ".join([RELAY, *(group for group in spec.groups if group != RELAY)])
            raise ConfigError(
                f"The key {hex_of(spec.signer.address)} serves {others} on {spec.chain}: whoever makes bets burn gas "
                "would stop the rest with them.",
                hint=f"Give `{RELAY}` keys of its own, as in deployments/compose/.env.example.",
            )
