"""A client for the VPM agent API: exactly-once bets, gap-free events and verified webhooks."""

from vpm_client.aio import AsyncClient
from vpm_client.betting import Placed, SignedPayment, Ticket
from vpm_client.call import API_VERSION
from vpm_client.client import Client
from vpm_client.errors import (
    ApiError,
    Issue,
    NotFinal,
    OutcomeUnknown,
    Payment,
    PaymentRefused,
    ReceiptWrong,
    UnexpectedAnswer,
    Unreachable,
    Untrusted,
    VpmError,
    WebhookRefused,
    WrongVersion,
)
from vpm_client.events import Cursor
from vpm_client.wallets import ContractWallet, DerSigner, DigestSigner, TypedDataSigner, Wallet
from vpm_client.webhooks import WebhookVerifier, handshake

__version__ = "1.0.0"

__all__ = [
    "API_VERSION",
    "ApiError",
    "AsyncClient",
    "Client",
    "ContractWallet",
    "Cursor",
    "DerSigner",
    "DigestSigner",
    "Issue",
    "NotFinal",
    "OutcomeUnknown",
    "Payment",
    "PaymentRefused",
    "Placed",
    "ReceiptWrong",
    "SignedPayment",
    "Ticket",
    "TypedDataSigner",
    "UnexpectedAnswer",
    "Unreachable",
    "Untrusted",
    "VpmError",
    "Wallet",
    "WebhookRefused",
    "WebhookVerifier",
    "WrongVersion",
    "__version__",
    "handshake",
]
