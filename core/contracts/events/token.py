"""The stablecoins' events that we read: EIP-3009 authorizations used or canceled, and transfers."""

from __future__ import annotations

import msgspec

from core.contracts.abi import abi
from core.contracts.events.layout import by_topic, layout


class Transfer(msgspec.Struct, frozen=True, gc=False):
    sender: bytes
    to: bytes
    value: int


class AuthorizationUsed(msgspec.Struct, frozen=True, gc=False):
    authorizer: bytes
    nonce: bytes


class AuthorizationCanceled(msgspec.Struct, frozen=True, gc=False):
    authorizer: bytes
    nonce: bytes


_TOKEN = abi("IERC3009").events

TRANSFER = layout(_TOKEN["Transfer"], Transfer)
AUTHORIZATION_USED = layout(_TOKEN["AuthorizationUsed"], AuthorizationUsed)
AUTHORIZATION_CANCELED = layout(_TOKEN["AuthorizationCanceled"], AuthorizationCanceled)

TOKEN_EVENTS = by_topic(TRANSFER, AUTHORIZATION_USED, AUTHORIZATION_CANCELED)
