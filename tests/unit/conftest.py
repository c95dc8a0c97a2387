from tests.support.no_side_effects import nothing_is_started

__all__ = ["nothing_is_started"]
