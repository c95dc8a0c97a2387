"""Types shared by the bodies of the stock surface."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from api.operations import Body

UsdgUnits = Annotated[
    str,
    Meta(pattern=r"^(0|[1-9][0-9]*)$", description="USDG in its smallest unit (6 decimals).", examples=["5000000"]),
]
Integer = Annotated[str, Meta(pattern=r"^(0|[1-9][0-9]*)$", description="An integer.", examples=["0"])]
Answer8 = Annotated[
    str, Meta(pattern=r"^-?(0|[1-9][0-9]*)$", description="An oracle answer (8 decimals).", examples=["18740000000"])
]
RoundId = Annotated[
    str, Meta(pattern=r"^(0|[1-9][0-9]*)$", description="`phase << 64 | number`.", examples=["18446744073709551617"])
]
HexAddress = Annotated[str, Meta(pattern=r"^0x[0-9a-fA-F]{40}$", description="A checksummed address.")]
HexHash = Annotated[str, Meta(pattern=r"^0x[0-9a-f]{64}$")]
UnixSeconds = Annotated[int, Meta(ge=0, description="Unix seconds.")]
Side = Literal["UP", "DOWN"]
FamilyName = Literal["daily", "weekly", "drill"]
PhaseName = Literal["opens", "live", "frozen", "resolved", "void"]
OutcomeName = Literal["UP", "DOWN", "FLAT", "VOID"]
ReadAt = Annotated[int, Meta(ge=0, description="When the chain was last read, in Unix seconds; 0 if never.")]
Stale = Annotated[bool, Meta(description="True while the chain or a feed cannot be read and older data is served.")]


class ErrorBody(Body):
    """The body of every error: a stable code and a message. Some have more fields, such as `retryAfter` or
    `escapeKit`."""

    error: Annotated[str, Meta(examples=["invalid_request"])]
    message: str


class RoundBody(Body):
    answer: Answer8
    round_id: RoundId
    at: UnixSeconds
