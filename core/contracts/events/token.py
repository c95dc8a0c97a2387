"""What we read of the stablecoins: authorizations used or canceled (EIP-3009), and the transfers they made."""

from __future__ import annotations

import msgspec

from core.contracts.events.layout import by_topic, layout, num


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


def _transfer(t: bytes, d: bytes) -> Transfer:
    return Transfer(t[44:64], t[76:96], num(d))


def _authorization_used(t: bytes, _d: bytes) -> AuthorizationUsed:
    return AuthorizationUsed(t[44:64], t[64:96])


def _authorization_canceled(t: bytes, _d: bytes) -> AuthorizationCanceled:
    return AuthorizationCanceled(t[44:64], t[64:96])


TRANSFER = layout("Transfer(address indexed from, address indexed to, uint256 value)", _transfer)
AUTHORIZATION_USED = layout("AuthorizationUsed(address indexed authorizer, bytes32 indexed nonce)", _authorization_used)
AUTHORIZATION_CANCELED = layout(
    "AuthorizationCanceled(address indexed authorizer, bytes32 indexed nonce)", _authorization_canceled
)

TOKEN_EVENTS = by_topic(TRANSFER, AUTHORIZATION_USED, AUTHORIZATION_CANCELED)
