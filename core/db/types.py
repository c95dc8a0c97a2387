"""Column types with exact values: `int` of 256 bits, `bytes` of a fixed length, UTC `datetime`; never floats or naive
times."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from sqlalchemy import BigInteger, DateTime, LargeBinary, Numeric
from sqlalchemy.engine import Dialect
from sqlalchemy.types import TypeDecorator

UINT256_MAX = 2**256 - 1

# Unix seconds of the chain's clock, block numbers, log indexes.
ChainTime = BigInteger
BlockNumber = BigInteger


class Uint256(TypeDecorator[int]):
    """A numeric(78,0) column for ints in the range of a uint256."""

    impl = Numeric(78, 0)
    cache_ok = True
    _lowest = 0
    _highest = UINT256_MAX

    def process_bind_param(self, value: int | None, dialect: Dialect) -> Decimal | None:
        if value is None:
            return None
        if not isinstance(value, int) or not self._lowest <= value <= self._highest:
            raise ValueError(f"{value!r} is not an integer from {self._lowest} to {self._highest}")
        return Decimal(value)

    def process_result_value(self, value: Any, dialect: Dialect) -> int | None:
        return None if value is None else int(value)


class Int256(Uint256):
    """A numeric(78,0) column for signed values such as oracle answers."""

    cache_ok = True
    _lowest = -(2**255)
    _highest = 2**255 - 1


class _FixedBytes(TypeDecorator[bytes]):
    impl = LargeBinary
    cache_ok = True
    length = 0

    def process_bind_param(self, value: bytes | None, dialect: Dialect) -> bytes | None:
        if value is not None and len(value) != self.length:
            raise ValueError(f"expected {self.length} bytes, got {len(value)}")
        return value

    def process_result_value(self, value: Any, dialect: Dialect) -> bytes | None:
        return None if value is None else bytes(value)


class Address(_FixedBytes):
    cache_ok = True
    length = 20


class Hash32(_FixedBytes):
    cache_ok = True
    length = 32


class UtcDateTime(TypeDecorator[datetime]):
    """A timestamptz column for UTC datetimes. It refuses naive ones."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        if value is not None and value.tzinfo is None:
            raise ValueError("the time has no time zone")
        return value

    def process_result_value(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        return None if value is None else value.astimezone(UTC)
