"""Secrets, one class per process; load a class only in its process."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Self

from pydantic import Field, SecretStr, model_validator

from core.config.lanes import LaneKeys, LaneKeystores
from core.config.loading import SettingsBase, named_after
from core.config.values import PrivateKey


class ApiSecrets(SettingsBase):
    """The API process's secrets. None can move money on a live chain."""

    model_config = named_after("VPM_")

    cron_secret: Annotated[SecretStr, Field(min_length=16)] | None = Field(
        default=None, alias="CRON_SECRET", description="at least 16 random characters, or leave it unset to refuse cron"
    )
    attestation_key: PrivateKey | None = Field(
        default=None,
        description="a private key of 0x and 64 hexadecimal digits that signs offers, receipts and callbacks",
    )
    demo_wallet_key: PrivateKey | None = Field(
        default=None,
        description="a private key that pages give to every visitor to bet with; only allowed if both chains are local",
    )


class RelayerSecrets(SettingsBase):
    """The keys that send transactions. Plain keys are for development; in production use keystore files or AWS KMS."""

    model_config = named_after("VPM_RELAYER_")

    lane_keys: LaneKeys = Field(
        default=(),
        alias="VPM_RELAYER_KEYS",
        description="private keys of 0x and 64 hexadecimal digits, each perhaps after chain:group+group=, with commas",
    )
    keystore_files: LaneKeystores = Field(
        default=(),
        alias="VPM_RELAYER_KEYSTORES",
        description="paths of encrypted keystore files, or keys as aws-kms://REGION/alias/NAME#ADDRESS, "
        "each perhaps after chain:group+group=, with commas",
    )
    keystore_password_file: Path | None = Field(
        default=None, description="the path of a file holding the keystores' password"
    )

    @model_validator(mode="after")
    def _check_one_kind(self) -> Self:
        if self.lane_keys and self.keystore_files:
            raise ValueError("VPM_RELAYER_KEYS and VPM_RELAYER_KEYSTORES exclude each other: set only one of them")
        files = [each.place for each in self.keystore_files if isinstance(each.place, Path)]
        if files and self.keystore_password_file is None:
            raise ValueError("VPM_RELAYER_KEYSTORES needs VPM_RELAYER_KEYSTORE_PASSWORD_FILE for its files")
        return self
