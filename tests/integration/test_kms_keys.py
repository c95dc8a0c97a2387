"""AWS KMS keys, through the client the relayer uses, against a server that follows the documentation."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from eth_account import Account

from core.config import RelayerSecrets, load
from core.errors import ConfigError
from core.service.cancelling import cancel_and_wait
from relayer.kms import PROBE, KmsPatience, KmsSigner, open_kms_keys
from relayer.signing import Fees, NamedKey, SignerUnavailable, Unsigned
from tests.support.kms_clouds import REGION, Aws, Key, served
from tests.waiting import until

PATIENCE = KmsPatience(at_once=4, seconds=3.0)


@dataclass
class Opened:
    """The service and the names of its keys as an operator writes them."""

    cloud: Aws

    def add(self, number: int = 0, key: Key | None = None) -> tuple[str, Key]:
        """(its name for VPM_RELAYER_KEYSTORES, the key)"""
        key = key or Key()
        self.cloud.keys[f"alias/relay-{number}"] = key
        return f"aws-kms://{REGION}/alias/relay-{number}", key

    @contextlib.asynccontextmanager
    async def keys(self, keystores: str) -> AsyncIterator[list[NamedKey]]:
        named = load(RelayerSecrets, {"VPM_RELAYER_KEYSTORES": keystores}).keystore_files
        async with open_kms_keys(named, PATIENCE) as keys:
            yield keys

    @contextlib.asynccontextmanager
    async def signer(self, keystores: str | None = None) -> AsyncIterator[KmsSigner]:
        async with self.keys(keystores or self.add()[0]) as (key,):
            assert isinstance(key.signer, KmsSigner)
            watching = asyncio.create_task(key.signer.watch())
            yield key.signer
            await cancel_and_wait(watching)


@pytest.fixture
async def service(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Opened]:
    cloud = Aws()
    async with served(cloud):
        for name, value in cloud.env.items():
            monkeypatch.setenv(name, value)
        yield Opened(cloud)


def unsigned(nonce: int) -> Unsigned:
    return Unsigned(8453, nonce, Fees(50, 2), 21_000, b"\1" * 20, value_wei=1, data=b"the call data")


async def test_it_signs_and_sends_only_a_digest(service: Opened) -> None:
    name, key = service.add(key=Key(high=True))
    wanted = [unsigned(number) for number in range(9)]
    async with service.signer(name) as signer:
        signed = await signer.sign_all(wanted)
        assert signer.problem is None
    assert [Account.recover_transaction(each.raw).lower() for each in signed] == [key.address] * 9
    assert [each.nonce for each in signed] == list(range(9))
    assert service.cloud.digests == [PROBE, *(each.digest for each in wanted)]
    assert service.cloud.most_at_once <= PATIENCE.at_once
    assert not any(b"call data" in body for body in service.cloud.bodies)


async def test_throttled_and_failed_requests_are_made_again(service: Opened) -> None:
    async with service.signer() as signer:
        service.cloud.faults.extend(["throttled", "failed", "throttled"])
        assert len(await signer.sign_all([unsigned(0)])) == 1
        assert signer.problem is None
    assert not service.cloud.faults


async def test_a_batch_ends_before_the_first_that_could_not_be_signed(service: Opened) -> None:
    async with service.signer() as signer:
        service.cloud.faults.extend(["ok", "ok", "other", "ok"])
        signed = await signer.sign_all([unsigned(number) for number in range(4)])
        assert len(signed) < 4
        assert [each.nonce for each in signed] == list(range(len(signed)))
        assert signer.problem is None or not signed


@pytest.mark.parametrize("fault", ["garbage", "other"])
async def test_a_wrong_signature_is_never_returned(service: Opened, fault: str) -> None:
    async with service.signer() as signer:
        service.cloud.faults.append(fault)
        with pytest.raises(SignerUnavailable, match="returned a wrong signature"):
            await signer.sign_all([unsigned(0)])
        with pytest.raises(SignerUnavailable, match="returned a wrong signature"):  # at once, without asking
            await signer.sign_all([unsigned(0)])
        await until(_well(signer), "the signer's recovery")
        assert len(await signer.sign_all([unsigned(0)])) == 1


async def test_while_it_is_down_no_call_waits_and_it_recovers(service: Opened) -> None:
    async with service.signer() as signer:
        service.cloud.down = True
        with pytest.raises(SignerUnavailable, match="does not sign"):
            await signer.sign_all([unsigned(0)])
        asked = len(service.cloud.bodies)
        with pytest.raises(SignerUnavailable, match="does not sign"):
            await signer.sign_all([unsigned(0)])
        assert len(service.cloud.bodies) == asked, "it asked the service again"
        assert not await _well(signer)()
        service.cloud.down = False
        await until(_well(signer), "the signer's recovery")
        assert len(await signer.sign_all([unsigned(0)])) == 1


@pytest.mark.thorough
async def test_a_request_that_hangs_is_given_up(service: Opened) -> None:
    name, _ = service.add()
    async with service.signer(name) as signer:
        service.cloud.slow_seconds = dict.fromkeys(service.cloud.keys, 30.0)
        async with asyncio.timeout(15):
            with pytest.raises(SignerUnavailable, match="did not respond"):
                await signer.sign_all([unsigned(0)])


# ---------------------------------------------------------------- who it is, at start


async def _refused(service: Opened, keystores: str) -> str:
    with pytest.raises(ConfigError) as raised:
        async with service.keys(keystores):
            pass
    return raised.value.sentence()


@pytest.mark.thorough
async def test_a_command_prints_the_address_of_a_key(service: Opened) -> None:
    name, key = service.add()
    for asked, code, said in ((name, 0, key.address), (name.replace("relay-0", "relay-7"), 78, "cannot be used")):
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "relayer.kms", asked, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
        )
        out, error = await asyncio.wait_for(process.communicate(), 60)
        assert process.returncode == code, error
        assert said in (error if code else out).decode()


async def test_a_key_with_another_address_than_configured_is_refused(service: Opened) -> None:
    (name, key), other = service.add(), Key().address
    said = await _refused(service, f"{name}#{other}")
    assert f"The key at {name} is {key.address}, but {other} was expected." in said
    async with service.keys(f"{name}#{key.address}") as (opened,):
        assert "0x" + opened.signer.address.hex() == key.address


async def test_a_key_of_another_kind_is_refused(service: Opened) -> None:
    name, _ = service.add(key=Key(ec.generate_private_key(ec.SECP256R1())))
    said = await _refused(service, name)
    assert f"{name} cannot sign transactions: the key is not on the curve secp256k1" in said
    assert "Create a key with the spec ECC_SECG_P256K1" in said


async def test_a_missing_or_forbidden_key_is_refused_with_a_hint(service: Opened) -> None:
    name, _ = service.add()
    said = await _refused(service, name.replace("relay-0", "relay-7"))
    assert "NotFoundException" in said
    assert "Check the region" in said
    service.cloud.denied = set(service.cloud.keys)
    said = await _refused(service, name)
    assert name in said
    assert "kms:Sign and kms:GetPublicKey" in said


async def test_wrong_credentials_are_named_and_never_shown(service: Opened, monkeypatch: pytest.MonkeyPatch) -> None:
    name, _ = service.add()
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIAANOTHER")
    said = await _refused(service, name)
    assert "UnrecognizedClientException" in said
    assert service.cloud.secret not in said
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    assert "No AWS credentials" in await _refused(service, name)


@pytest.mark.thorough
async def test_a_service_down_at_start_stops_only_keys_without_an_address(service: Opened) -> None:
    name, key = service.add()
    service.cloud.down = True
    with pytest.raises(SignerUnavailable, match="Cannot read the public key"):
        async with service.keys(f"base:relay={name}"):
            pass
    async with service.signer(f"{name}#{key.address}") as signer:
        assert signer.problem is not None
        service.cloud.down = False
        await until(_well(signer), "the signer's recovery")
    service.cloud.down = True
    async with service.signer(f"{name}#{Key().address}") as signer:  # the wrong one, as it turns out
        service.cloud.down = False

        async def noticed() -> bool:
            return f"is {key.address}, but 0x{signer.address.hex()} was expected" in (signer.problem or "")

        await until(noticed, "the wrong key's being noticed")


@pytest.mark.thorough
async def test_a_key_throttled_at_start_is_opened(service: Opened) -> None:
    name, _ = service.add()
    service.cloud.faults.extend(["throttled"] * 60)
    async with service.signer(name) as signer:
        assert signer.problem is not None
        service.cloud.faults.clear()
        await until(_well(signer), "the signer's recovery")


def _well(signer: KmsSigner) -> Callable[[], Awaitable[bool]]:
    async def well() -> bool:
        return signer.problem is None

    return well
