"""The bodies of /api/relay: the outcome of a bet, and a bet ready to sign."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import Meta, field

from api.operations import Body
from api.stock.bodies.markets import HeadBody
from api.stock.bodies.parts import HexAddress, HexHash, Integer, ReadAt, Stale, UnixSeconds
from api.stock.bodies.positions import PositionBody
from api.stock.quoting import BetQuoteBody


class EscapeKit(Body):
    """The call that places the bet: anyone can send it, with or without this service, until the bet expires."""

    to: HexAddress
    data: Annotated[str, Meta(pattern=r"^0x[0-9a-f]+$")]
    chain_id: int
    expires_at: UnixSeconds


class RelayBody(Body):
    """The outcome of a relayed bet. `ok` is false only for `reverted`. `pending`: it was sent and is not mined yet;
    send the same body again for its outcome, which never bets twice."""

    ok: bool
    tx_hash: HexHash
    nonce: Annotated[HexHash, Meta(description="The authorization's nonce.")]
    receipt: Literal["confirmed", "pending", "reverted"]
    position_id: Annotated[
        str | None,
        Meta(
            description="Null until it is known. While a reorganization may undo the bet's block, another bet may get "
            "this id instead: it is certain once GET /api/relay/receipt answers `final`. The nonce never changes."
        ),
    ]
    block_number: Integer | None
    final: Annotated[
        bool | None,
        Meta(
            description="For `reverted`: false while a reorganization may undo the block that refused the bet. The "
            "signed bet may then still be taken in another block; check GET /api/relay/receipt. Otherwise null."
        ),
    ]
    escape_kit: EscapeKit


class ReceiptBody(Body):
    """A bet's receipt, whoever sent it. `pending`: in no block up to `head`; once `head` is past the bet's validBefore,
    it never will be. `confirmed`: in a block that a reorganization may still replace. `final`: in a final block."""

    receipt: Literal["pending", "confirmed", "final"]
    tx_hash: HexHash | None
    block_number: Integer | None
    position: Annotated[
        PositionBody | None,
        Meta(
            description="The bet's position. Null while pending, or if its transaction opened several identical ones."
        ),
    ]
    head: HeadBody
    final_block: Annotated[Integer, Meta(description="The last final block.")]
    read_at: ReadAt
    stale: Stale


class DomainBody(Body):
    name: str
    version: str
    chain_id: int
    verifying_contract: HexAddress


class AuthorizationBody(Body):
    """The token's ReceiveWithAuthorization. Numbers are text, so that no wallet rounds them."""

    from_: HexAddress = field(name="from")
    to: HexAddress
    value: Integer
    valid_after: Integer
    valid_before: Integer
    nonce: HexHash


class TypedDataBody(Body):
    """What to sign with `eth_signTypedData_v4` (domain, types, primaryType, message), and the request body for the
    relay without the signature. Fill in `message.from` and `request.from` if the query did not name the signer."""

    domain: DomainBody
    types: dict[str, list[dict[str, str]]]
    primary_type: Literal["ReceiveWithAuthorization"]
    message: AuthorizationBody
    nonce: HexHash
    nonce_formula: str
    request: dict[str, Any]
    quote: BetQuoteBody
