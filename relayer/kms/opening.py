"""Opening the keys of key services at start: connections, addresses, and the check of who each key is."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from core.config.key_names import KeyName
from core.config.lanes import LaneKeystore
from core.contracts.deployments import Deployment
from core.errors import ConfigError
from core.hexadecimal import bytes_of, hex_of
from core.outbox.lanes import CREDIT, LISTER, OPENER, PUBLISHER, RELAY
from relayer.keys import NamedKey
from relayer.kms.aws import AwsKey, aws_client
from relayer.kms.gcp import GcpKey, gcp_client
from relayer.kms.key import KmsDenied, KmsFault, KmsKey
from relayer.kms.signer import KeyServiceAway, KmsPatience, KmsSigner, address_in, persistently, unavailable
from relayer.signing import SignerUnavailable

# In a deployment file's `operatorWallets` the holders of one role are `relay 0`, `relay 1`; of another, `creditor`.
WALLET_WORDS = {OPENER: "opener", LISTER: "lister", PUBLISHER: "publisher", CREDIT: "creditor", RELAY: "relay"}


class Holder(NamedTuple):
    """The address a deployment file names for a role."""

    chain: str
    word: str
    wallet: str
    address: bytes


@contextlib.asynccontextmanager
async def opened_keys(
    keystores: Sequence[LaneKeystore], deployments: Mapping[str, Deployment], patience: KmsPatience, *, gcp_url: str
) -> AsyncIterator[list[NamedKey]]:
    """The keys among these that lie in key services, each seen to sign as who it should be.

    A key whose address is known beforehand is opened although its service is away: its lanes follow what they sent,
    and sign again when it is back.
    """
    uses: dict[KeyName, list[LaneKeystore]] = {}
    for each in keystores:
        if isinstance(each.place, KeyName):
            uses.setdefault(each.place, []).append(each)
    async with contextlib.AsyncExitStack() as stack:
        keys = await _keys(list(uses), stack, patience, gcp_url)
        opening = [_open(name, keys[name], list(_holders(used, deployments)), patience) for name, used in uses.items()]
        signers = dict(zip(uses, await asyncio.gather(*opening), strict=True))
        yield [NamedKey(each.chain, each.groups, signers[name]) for name, used in uses.items() for each in used]


async def _keys(
    names: Sequence[KeyName], stack: contextlib.AsyncExitStack, patience: KmsPatience, gcp_url: str
) -> dict[KeyName, KmsKey]:
    keys: dict[KeyName, KmsKey] = {}
    room = patience.at_once * max(1, len(names))
    amazon = [each for each in names if each.service == "aws-kms"]
    for region in sorted({each.region for each in amazon}):
        client = await stack.enter_async_context(aws_client(region, at_once=room, try_seconds=patience.try_seconds))
        keys |= {each: AwsKey(client, each) for each in amazon if each.region == region}
    google = [each for each in names if each.service == "gcp-kms"]
    if google:
        session, tokens = await stack.enter_async_context(gcp_client(at_once=room, try_seconds=patience.try_seconds))
        keys |= {each: GcpKey(session, tokens, gcp_url, each) for each in google}
    return keys


async def _open(name: KeyName, key: KmsKey, holders: Sequence[Holder], patience: KmsPatience) -> KmsSigner:
    expected, trouble = name.address or _only(each.address for each in holders), None
    try:
        address = address_in(await persistently(key.public_key, patience), key.name)
    except KmsDenied as error:
        raise _refused(key, error) from None
    except KmsFault as error:
        if expected is None:
            raise KeyServiceAway(
                f"{key.name} cannot be asked for its public key. {error.message}",
                hint="Write its address behind # in VPM_RELAYER_KEYSTORES; its lanes then start without it.",
            ) from None
        address, trouble = expected, unavailable(key.name, error).message
    if name.address not in (None, address):
        raise ConfigError(
            f"The key at {name} is {hex_of(address)}, VPM_RELAYER_KEYSTORES says {hex_of(name.address or b'')}.",
            hint="Correct the name, or the address behind #.",
        )
    _compare(name, address, holders)
    signer = KmsSigner(key, address, patience, trouble=trouble)
    if trouble is None:
        try:
            await signer.check()
        except SignerUnavailable as error:
            if not error.retriable:
                raise _refused(key, error) from None
            signer.fail(error.message)  # the right key, only busy: its lanes wait
    return signer


def _holders(used: Iterable[LaneKeystore], deployments: Mapping[str, Deployment]) -> Iterator[Holder]:
    for keystore in used:
        words = {WALLET_WORDS[group] for group in keystore.groups if group in WALLET_WORDS}
        for chain, deployment in deployments.items():
            if keystore.chain in (None, chain):
                for wallet, address in deployment.operator_wallets.items():
                    if (word := wallet.split(" ")[0]) in words:
                        yield Holder(chain, word, wallet, bytes_of(address))


def _compare(name: KeyName, address: bytes, holders: Sequence[Holder]) -> None:
    """Of each role that the deployment files give to somebody, the key must be one of its holders."""
    for chain, word in {(each.chain, each.word): None for each in holders}:
        named = [each for each in holders if (each.chain, each.word) == (chain, word)]
        if all(each.address != address for each in named):
            says = " and ".join(f"{each.wallet} is {hex_of(each.address)}" for each in named)
            raise ConfigError(
                f"The key at {name} is {hex_of(address)}, the deployment file {chain}.json says {says}.",
                hint=f"Correct VPM_RELAYER_KEYSTORES; or, once the key holds the role on the chain, add it there as "
                f"another {word}.",
            )


def _only(addresses: Iterable[bytes]) -> bytes | None:
    distinct = set(addresses)
    return distinct.pop() if len(distinct) == 1 else None


def _refused(key: KmsKey, error: KmsDenied | SignerUnavailable) -> ConfigError:
    said = error.message if key.name in error.message else f"{key.name}: {error.message}"
    return ConfigError(f"A key of VPM_RELAYER_KEYSTORES cannot be used. {said}", hint=error.hint)
