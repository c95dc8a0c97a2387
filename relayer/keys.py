"""Opening the lane keys at start: plain keys for development, encrypted keystore files, or keys in a key service."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from eth_account import Account

from core.config import RelayerSecrets
from core.config.lanes import KeyName, LaneKeystore
from core.errors import ConfigError
from core.hexadecimal import bytes_of, hex_of
from core.outbox import RELAY
from relayer.kms.aws import AwsKey, aws_client
from relayer.kms.signer import KmsKey, KmsPatience, KmsSigner, address_of, with_retries
from relayer.leases import LaneSpec
from relayer.signing import LocalSigner, Signer, SignerUnavailable


@dataclass(frozen=True, slots=True)
class NamedKey:
    """A key with its chain and groups. The chain is None for a key of every chain."""

    chain: str | None
    groups: tuple[str, ...]
    signer: Signer


def read_keys(secrets: RelayerSecrets) -> list[NamedKey]:
    """Read plain keys and keystore files. This blocks: decrypting a keystore takes about a second."""
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
                    f"The keystore {path} cannot be decrypted: it is not a keystore, or the password is wrong."
                ) from None
            keys.append(NamedKey(keystore.chain, keystore.groups, LocalSigner(secret)))
    if not keys and not secrets.keystore_files:
        raise ConfigError(
            "No lane key is configured.", hint="Set VPM_RELAYER_KEYS or VPM_RELAYER_KEYSTORES (see core.config.lanes)."
        )
    return keys


def lane_specs(keys: list[NamedKey], chain_ids: Mapping[str, int]) -> list[LaneSpec]:
    """Return the lanes of these keys on the configured chains. A key named twice on a chain is one lane with all its
    groups, because two lanes of one key would compete for its nonces."""
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


def check_separate_keys(specs: Sequence[LaneSpec], live: Collection[str]) -> None:
    """Raise ConfigError if a key that sends users' bets on a live chain serves anything else. Users can make that lane
    burn gas until its stop-loss stops it. That must stop nothing else."""
    for spec in specs:
        if spec.chain in live and RELAY in spec.groups and len(spec.groups) > 1:
            others = " and ".join([RELAY, *(group for group in spec.groups if group != RELAY)])
            raise ConfigError(
                f"The key {hex_of(spec.signer.address)} serves {others} on {spec.chain}. Bets made to burn its gas "
                "would stop everything it serves.",
                hint=f"Give `{RELAY}` separate keys, as in deployments/compose/.env.example.",
            )


@contextlib.asynccontextmanager
async def open_kms_keys(keystores: Sequence[LaneKeystore], patience: KmsPatience) -> AsyncIterator[list[NamedKey]]:
    """Open those keys that are in a key service, and check that each signs for its address.

    A key whose name includes its address is opened even if its service does not answer. Its lanes follow what they
    sent, and sign again when the service is back.
    """
    uses: dict[KeyName, list[LaneKeystore]] = {}
    for each in keystores:
        if isinstance(each.place, KeyName):
            uses.setdefault(each.place, []).append(each)
    async with contextlib.AsyncExitStack() as stack:
        keys = await _keys(list(uses), stack, patience)
        opened = await asyncio.gather(*(_open(name, keys[name], patience) for name in uses))
        signers = dict(zip(uses, opened, strict=True))
        yield [NamedKey(each.chain, each.groups, signers[name]) for name, used in uses.items() for each in used]


async def _keys(
    names: Sequence[KeyName], stack: contextlib.AsyncExitStack, patience: KmsPatience
) -> dict[KeyName, KmsKey]:
    keys: dict[KeyName, KmsKey] = {}
    room = patience.at_once * max(1, len(names))
    for region in sorted({each.region for each in names}):
        client = await stack.enter_async_context(aws_client(region, at_once=room, try_seconds=patience.try_seconds))
        keys |= {each: AwsKey(client, each) for each in names if each.region == region}
    return keys


async def _open(name: KeyName, key: KmsKey, patience: KmsPatience) -> KmsSigner:
    try:
        address = name.address or address_of(await with_retries(key, key.public_key, patience), key.name)
    except SignerUnavailable as error:
        if not error.retriable:
            raise _unusable(error) from None
        raise SignerUnavailable(
            f"Cannot read the public key of {key.name}. {error.message}",
            hint="Append # and its address in VPM_RELAYER_KEYSTORES; its lanes then start without the service.",
        ) from None
    signer = KmsSigner(key, address, patience)
    try:
        await signer.check()
    except SignerUnavailable as error:
        if not error.retriable:
            raise _unusable(error) from None
        signer.fail(error.message)  # its lanes start, and sign once the service does
    return signer


def _unusable(error: SignerUnavailable) -> ConfigError:
    return ConfigError(f"A key of VPM_RELAYER_KEYSTORES cannot be used. {error.message}", hint=error.hint)
