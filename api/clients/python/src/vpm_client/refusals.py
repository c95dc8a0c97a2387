"""A class for each code that the API refuses with."""

from __future__ import annotations

from vpm_client.errors import ApiError


class IdemConflict(ApiError):
    """The code `idem_conflict`."""


class InsufficientBalance(ApiError):
    """The code `insufficient_balance`."""


class InternalError(ApiError):
    """The code `internal_error`."""


class InvalidRequest(ApiError):
    """The code `invalid_request`."""


class InvalidSide(ApiError):
    """The code `invalid_side`."""


class InvalidWallet(ApiError):
    """The code `invalid_wallet`."""


class MarketClosed(ApiError):
    """The code `market_closed`."""


class MarketNotFound(ApiError):
    """The code `market_not_found`."""


class MethodNotAllowed(ApiError):
    """The code `method_not_allowed`."""


class NotFound(ApiError):
    """The code `not_found`."""


class PayloadTooLarge(ApiError):
    """The code `payload_too_large`."""


class PaymentInvalid(ApiError):
    """The code `payment_invalid`."""


class PlatformDisabled(ApiError):
    """The code `platform_disabled`."""


class PlatformPaused(ApiError):
    """The code `platform_paused`."""


class PoolImpactExceeded(ApiError):
    """The code `pool_impact_exceeded`."""


class QuoteExpired(ApiError):
    """The code `quote_expired`."""


class QuoteMismatch(ApiError):
    """The code `quote_mismatch`."""


class QuoteRequired(ApiError):
    """The code `quote_required`."""


class RateLimited(ApiError):
    """The code `rate_limited`."""


class SizeBelowMin(ApiError):
    """The code `size_below_min`."""


class SlippageExceeded(ApiError):
    """The code `slippage_exceeded`."""


class UnsupportedMarket(ApiError):
    """The code `unsupported_market`."""


class UnsupportedMediaType(ApiError):
    """The code `unsupported_media_type`."""


BY_CODE: dict[str, type[ApiError]] = {
    "idem_conflict": IdemConflict,
    "insufficient_balance": InsufficientBalance,
    "internal_error": InternalError,
    "invalid_request": InvalidRequest,
    "invalid_side": InvalidSide,
    "invalid_wallet": InvalidWallet,
    "market_closed": MarketClosed,
    "market_not_found": MarketNotFound,
    "method_not_allowed": MethodNotAllowed,
    "not_found": NotFound,
    "payload_too_large": PayloadTooLarge,
    "payment_invalid": PaymentInvalid,
    "platform_disabled": PlatformDisabled,
    "platform_paused": PlatformPaused,
    "pool_impact_exceeded": PoolImpactExceeded,
    "quote_expired": QuoteExpired,
    "quote_mismatch": QuoteMismatch,
    "quote_required": QuoteRequired,
    "rate_limited": RateLimited,
    "size_below_min": SizeBelowMin,
    "slippage_exceeded": SlippageExceeded,
    "unsupported_market": UnsupportedMarket,
    "unsupported_media_type": UnsupportedMediaType,
}
