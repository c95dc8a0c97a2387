from tests.support.nothing_started import nothing_is_started

__all__ = ["nothing_is_started"]
