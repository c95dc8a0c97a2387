"""The bodies of /api/relay: what became of a bet, and one ready to sign."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import Meta, field

from api.http.body import Body
from api.stock.bodies.markets import HeadBody
from api.stock.bodies.parts import HexAddress, HexHash, Integer, ReadAt, Stale, UnixSeconds
from api.stock.bodies.positions import PositionBody
from api.stock.bodies.quotes import BetQuoteBody


class EscapeKit(Body):
    """The call that places the bet: anyone can send it, with or without this service, until the bet expires."""

    to: HexAddress
    data: Annotated[str, Meta(pattern=r"^0x[0-9a-f]+$")]
    chain_id: int
    expires_at: UnixSeconds


class RelayBody(Body):
    """What became of a relayed bet. `ok` is false only for `reverted`. `pending`: it was sent and is not mined yet;
    sending the same body again asks after it and never bets twice."""

    ok: bool
    tx_hash: HexHash
    nonce: Annotated[HexHash, Meta(description="The authorization's nonce.")]
    receipt: Literal["confirmed", "pending", "reverted"]
    position_id: Annotated[
        str | None,
        Meta(
            description="Once it is known. While the block that took the bet may be undone, another bet may get this "
            "id instead: GET /api/relay/receipt answers `final` when it stands. The nonce names the bet for good."
        ),
    ]
    block_number: Integer | None
    final: Annotated[
        bool | None,
        Meta(
            description="Of `reverted`: false while the block that refused the bet may be undone. What was signed may "
            "then still be taken in another block; GET /api/relay/receipt tells. Null of the others."
        ),
    ]
    escape_kit: EscapeKit


class ReceiptBody(Body):
    """A bet's receipt, whoever sent it. `pending`: not in any block up to `head`; once `head` is past the bet's
    validBefore it never will be. `confirmed`: in a block that a reorganization may still replace. `final`: in one that
    nothing undoes."""

    receipt: Literal["pending", "confirmed", "final"]
    tx_hash: HexHash | None
    block_number: Integer | None
    position: Annotated[
        PositionBody | None,
        Meta(description="What it made. Null while pending, and where its transaction made several alike."),
    ]
    head: HeadBody
    final_block: Annotated[Integer, Meta(description="The last block that nothing undoes.")]
    read_at: ReadAt
    stale: Stale


class DomainBody(Body):
    name: str
    version: str
    chain_id: int
    verifying_contract: HexAddress


class AuthorizationBody(Body):
    """The token's ReceiveWithAuthorization; numbers as text, so that no wallet rounds them."""

    from_: HexAddress = field(name="from")
    to: HexAddress
    value: Integer
    valid_after: Integer
    valid_before: Integer
    nonce: HexHash


class TypedDataBody(Body):
    """What to sign with `eth_signTypedData_v4` (domain, types, primaryType, message), and the relay's body without the
    signature. Fill in `message.from` and `request.from` when the query did not name the signer."""

    domain: DomainBody
    types: dict[str, list[dict[str, str]]]
    primary_type: Literal["ReceiveWithAuthorization"]
    message: AuthorizationBody
    nonce: HexHash
    nonce_formula: str
    request: dict[str, Any]
    quote: BetQuoteBody
