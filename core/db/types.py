"""Column types: 256-bit integers as `int`, and aliases that say what a column holds."""

from __future__ import annotations

from typing import Any

from sqlalchemy import BigInteger, DateTime, LargeBinary, Numeric
from sqlalchemy.engine import Dialect
from sqlalchemy.types import TypeDecorator

UINT256_MAX = 2**256 - 1

# Unix seconds of the chain's clock, block numbers, log indexes.
ChainTime = BigInteger
BlockNumber = BigInteger
Address = LargeBinary  # 20 bytes
Hash32 = LargeBinary  # 32 bytes
UtcDateTime = DateTime(timezone=True)  # every session is in UTC, so values are UTC datetimes


class Uint256(TypeDecorator[int]):
    """A numeric(78,0) column for ints in the range of a uint256. SQLAlchemy would return a Decimal."""

    impl = Numeric(78, 0)
    cache_ok = True

    def process_result_value(self, value: Any, dialect: Dialect) -> int | None:
        return None if value is None else int(value)


class Int256(Uint256):
    """A numeric(78,0) column for signed values such as oracle answers."""

    cache_ok = True
