"""The models that validate requests of the stock surface."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from api.requests import WHOLE

UINT256_MAX = 2**256 - 1
_ADDRESS = r"^0[xX][0-9a-fA-F]{40}$"
_BYTES32 = r"^(0[xX])?[0-9a-fA-F]{64}$"


def _fits(text: str) -> str:
    if int(text) > UINT256_MAX:
        raise ValueError("it does not fit in 256 bits")
    return text


Uint256Text = Annotated[
    str,
    Field(pattern=r"^(0|[1-9][0-9]{0,77})$", description="A decimal integer below 2^256."),
    AfterValidator(_fits),
]
# The most positions in one answer: all of nearly every address, and a bound for clients that do not page.
POSITIONS_LISTED = 5_000


class MarketPath(BaseModel):
    id: Annotated[str, Field(description="The market's id.", examples=["1"])]


class MarketsQuery(BaseModel):
    limit: Annotated[
        int | None, Field(ge=1, le=500, description="The most markets to return; 200 if only `before` is given.")
    ] = None
    before: Annotated[int | None, Field(ge=1, le=2**63 - 1, description="Only markets with a lower id.")] = None


class OwnerQuery(BaseModel):
    owner: Annotated[str, Field(pattern=_ADDRESS, description="An address, in any case.")]
    limit: Annotated[int, Field(ge=1, le=POSITIONS_LISTED, description="The most positions to return.")] = (
        POSITIONS_LISTED
    )
    before: Annotated[
        int | None,
        Field(
            ge=1,
            le=2**63 - 1,
            description="Only positions entered before this one: `nextBefore` of the previous page.",
        ),
    ] = None


CronJob = Literal["open", "resolve", "deliver"]


class CronPath(BaseModel):
    job: Annotated[CronJob, Field(description="The keeper's job.")]


class RelayRequest(BaseModel):
    """A signed bet. Sign the token's ReceiveWithAuthorization; `GET /api/relay/typed-data` returns it ready to sign."""

    model_config = ConfigDict(alias_generator=to_camel, validate_by_alias=True, extra="ignore")

    from_: Annotated[
        str,
        Field(
            alias="from",
            strict=True,
            pattern=_ADDRESS,
            description="The signer's address; becomes the position's owner.",
        ),
    ]
    market_id: Annotated[Uint256Text, Field(strict=True, description="The market's id.", examples=["1"])]
    outcome: Annotated[int, Field(strict=True, ge=0, le=1, description="0 = UP, 1 = DOWN."), WHOLE]
    amount: Annotated[Uint256Text, Field(strict=True, description="USDG units (6 decimals).", examples=["5000000"])]
    valid_after: Annotated[Uint256Text, Field(strict=True, description="Unix seconds; 0 is fine.", examples=["0"])]
    valid_before: Annotated[
        Uint256Text, Field(strict=True, description="Unix seconds, from 30 s to 1 hour ahead of the chain's clock.")
    ]
    salt: Annotated[str, Field(strict=True, pattern=_BYTES32, description="32 random bytes, in hex.")]
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
        Field(strict=True, pattern=_ADDRESS, description="The settler's address; checked when given."),
    ] = None


class ReceiptQuery(BaseModel):
    model_config = ConfigDict(alias_generator=to_camel, validate_by_alias=True)

    from_: Annotated[str, Field(alias="from", pattern=_ADDRESS, description="The signer of the bet.")]
    nonce: Annotated[str, Field(pattern=_BYTES32, description="The authorization's nonce, as returned by typed-data.")]


class TypedDataQuery(BaseModel):
    model_config = ConfigDict(alias_generator=to_camel, validate_by_alias=True)

    market_id: Annotated[Uint256Text, Field(description="The market's id.", examples=["1"])]
    outcome: Annotated[int, Field(ge=0, le=1, description="0 = UP, 1 = DOWN.")]
    amount: Annotated[
        str, Field(pattern=r"^[1-9][0-9]{0,77}$", description="USDG units (6 decimals).", examples=["5000000"])
    ]
    from_: Annotated[
        str | None,
        Field(alias="from", pattern=_ADDRESS, description="The signer. Default: the zero address."),
    ] = None
    salt: Annotated[str | None, Field(pattern=_BYTES32, description="32 bytes in hex. Default: random.")] = None
    valid_seconds: Annotated[int, Field(ge=60, le=3540, description="How long the bet is valid, in seconds.")] = 600
