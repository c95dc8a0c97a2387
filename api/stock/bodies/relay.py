"""The bodies of /api/relay: a signed bet, what became of it, and a bet ready to sign."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator
from pydantic.alias_generators import to_camel

from api.http.body import Body, further_fields
from api.http.requests import WHOLE
from api.stock.bodies.markets import HeadBody
from api.stock.bodies.parts import Address, Hash, Integer, ReadAt, Seconds, Stale
from api.stock.bodies.positions import PositionBody

UINT256_MAX = 2**256 - 1
Uint256Text = Annotated[
    str,
    Field(pattern=r"^(0|[1-9][0-9]{0,77})$", description="A decimal integer below 2^256."),
]


class RelayRequest(BaseModel):
    """A signed bet. Sign the token's ReceiveWithAuthorization; `GET /api/relay/typed-data` gives it ready to sign."""

    model_config = ConfigDict(alias_generator=to_camel, validate_by_alias=True, extra="ignore")

    from_: Annotated[
        str,
        Field(
            alias="from",
            strict=True,
            pattern=r"^0[xX][0-9a-fA-F]{40}$",
            description="The signer's address; becomes the position's owner.",
        ),
    ]
    market_id: Annotated[
        str, Field(strict=True, pattern=r"^[1-9][0-9]{0,18}$", description="The market's id.", examples=["1"])
    ]
    outcome: Annotated[int, Field(strict=True, ge=0, le=1, description="0 = UP, 1 = DOWN."), WHOLE]
    amount: Annotated[Uint256Text, Field(strict=True, description="USDG units (6 decimals).", examples=["5000000"])]
    valid_after: Annotated[Uint256Text, Field(strict=True, description="Unix seconds; 0 is fine.", examples=["0"])]
    valid_before: Annotated[
        Uint256Text, Field(strict=True, description="Unix seconds, from 30 s to 1 hour ahead of the chain's clock.")
    ]
    salt: Annotated[
        str, Field(strict=True, pattern=r"^(0[xX])?[0-9a-fA-F]{64}$", description="32 random bytes, in hex.")
    ]
    signature: Annotated[
        str,
        Field(
            strict=True,
            pattern=r"^(0[xX])?([0-9a-fA-F]{2}){1,2048}$",
            description="65 bytes r, s, v, in hex: EIP-712 over the token's ReceiveWithAuthorization.",
        ),
    ]
    chain_id: Annotated[
        Annotated[int, Field(strict=True, ge=0, le=2**53 - 1), WHOLE] | None, Field(description="Checked when given.")
    ] = None
    service_vpm: Annotated[
        str | None,
        Field(strict=True, pattern=r"^0[xX][0-9a-fA-F]{40}$", description="The settler's address; checked when given."),
    ] = None

    @field_validator("amount", "valid_after", "valid_before")
    @classmethod
    def _fits(cls, text: str) -> str:
        if int(text) > UINT256_MAX:
            raise ValueError("it does not fit 256 bits")
        return text


class EscapeKit(Body):
    """The call that places the bet: anyone can send it, with or without this service, until the bet expires."""

    to: Address
    data: Annotated[str, Field(pattern=r"^0x[0-9a-f]+$")]
    chain_id: int
    expires_at: Seconds


class RelayBody(Body):
    """What became of a relayed bet. `ok` is false only for `reverted`. `pending`: it was sent and is not mined yet;
    sending the same body again asks after it and never bets twice."""

    ok: bool
    tx_hash: Hash
    nonce: Annotated[Hash, Field(description="The authorization's nonce.")]
    receipt: Literal["confirmed", "pending", "reverted"]
    position_id: Annotated[str | None, Field(description="Once it is known.")]
    block_number: Integer | None
    escape_kit: EscapeKit


class ReceiptQuery(BaseModel):
    model_config = ConfigDict(alias_generator=to_camel, validate_by_alias=True)

    from_: Annotated[str, Field(alias="from", pattern=r"^0[xX][0-9a-fA-F]{40}$", description="Who signed the bet.")]
    nonce: Annotated[
        str,
        Field(pattern=r"^(0[xX])?[0-9a-fA-F]{64}$", description="The authorization's nonce, as typed-data gave it."),
    ]


class ReceiptBody(Body):
    """A bet's receipt, whoever sent it. `pending`: not in any block up to `head`; once `head` is past the bet's
    validBefore it never will be. `confirmed`: in a block that a reorganization may still replace. `final`: in one that
    nothing undoes."""

    receipt: Literal["pending", "confirmed", "final"]
    tx_hash: Hash | None
    block_number: Integer | None
    position: Annotated[
        PositionBody | None,
        Field(description="What it made. Null while pending, and where its transaction made several alike."),
    ]
    head: HeadBody
    final_block: Annotated[Integer, Field(description="The last block that nothing undoes.")]
    read_at: ReadAt
    stale: Stale


class TypedDataQuery(BaseModel):
    model_config = ConfigDict(alias_generator=to_camel, validate_by_alias=True)

    market_id: Annotated[str, Field(pattern=r"^[1-9][0-9]{0,18}$", description="The market's id.", examples=["1"])]
    outcome: Annotated[int, Field(ge=0, le=1, description="0 = UP, 1 = DOWN.")]
    amount: Annotated[
        str, Field(pattern=r"^[1-9][0-9]{0,77}$", description="USDG units (6 decimals).", examples=["5000000"])
    ]
    from_: Annotated[
        str | None,
        Field(alias="from", pattern=r"^0[xX][0-9a-fA-F]{40}$", description="The signer; the zero address otherwise."),
    ] = None
    salt: Annotated[
        str | None,
        Field(pattern=r"^(0[xX])?[0-9a-fA-F]{64}$", description="32 bytes in hex; random ones otherwise."),
    ] = None
    valid_seconds: Annotated[int, Field(ge=60, le=3540, description="How long the bet may be entered.")] = 600


class DomainBody(Body):
    name: str
    version: str
    chain_id: int
    verifying_contract: Address


class AuthorizationBody(BaseModel):
    """The token's ReceiveWithAuthorization; numbers as text, so that no wallet rounds them."""

    model_config = ConfigDict(
        alias_generator=to_camel,
        validate_by_alias=True,
        extra="forbid",
        strict=True,
        json_schema_extra=further_fields,
    )

    from_: Annotated[Address, Field(alias="from")]
    to: Address
    value: Integer
    valid_after: Integer
    valid_before: Integer
    nonce: Hash


class TypedDataBody(Body):
    """What to sign with `eth_signTypedData_v4` (domain, types, primaryType, message), and the relay's body without the
    signature. Fill in `message.from` and `request.from` when the query did not name the signer."""

    domain: DomainBody
    types: dict[str, list[dict[str, str]]]
    primary_type: Literal["ReceiveWithAuthorization"]
    message: AuthorizationBody
    nonce: Hash
    nonce_formula: str
    request: dict[str, Any]
