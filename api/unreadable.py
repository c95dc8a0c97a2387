"""What a database that is away, or too slow, raises: whichever driver asked it."""

from __future__ import annotations

from typing import Final

import psycopg
from sqlalchemy.exc import SQLAlchemyError

from core.errors import DatabaseError

UNREADABLE: Final = (SQLAlchemyError, psycopg.Error, DatabaseError, OSError, TimeoutError)
