"""What we read of the stablecoins: authorizations used or canceled (EIP-3009), and the transfers they made."""

from __future__ import annotations

import msgspec

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


TRANSFER = layout("Transfer(address indexed from, address indexed to, uint256 value)", Transfer)
AUTHORIZATION_USED = layout("AuthorizationUsed(address indexed authorizer, bytes32 indexed nonce)", AuthorizationUsed)
AUTHORIZATION_CANCELED = layout(
    "AuthorizationCanceled(address indexed authorizer, bytes32 indexed nonce)", AuthorizationCanceled
)

TOKEN_EVENTS = by_topic(TRANSFER, AUTHORIZATION_USED, AUTHORIZATION_CANCELED)
