from tests.support.no_process import no_process_is_started

__all__ = ["no_process_is_started"]
