"""Classification of node errors, and what a caller may do about each kind.

Nodes agree on few error codes, so the text is matched first, and the code is used only if no pattern matches. The first
matching pattern wins. To support another provider's text, add a pattern and a test; never match texts elsewhere.
"""

from __future__ import annotations

import re
from enum import StrEnum
from typing import Self

from core.errors import VpmError


class RpcErrorKind(StrEnum):
    """The kinds of node errors.

    blames_node: another node may well accept the same request, so the provider fails over.
    retriable: the same request may succeed later, at any node.
    """

    blames_node: bool
    retriable: bool

    def __new__(cls, value: str, blames_node: bool, retriable: bool) -> Self:
        made = str.__new__(cls, value)
        made._value_ = value
        made.blames_node, made.retriable = blames_node, retriable
        return made

    # The transaction, or its sender
    NONCE_TOO_LOW = "nonce_too_low", False, False  # the nonce is mined: this transaction or another of the same key
    NONCE_TOO_HIGH = "nonce_too_high", False, True  # there is a gap before it, and the node refuses to queue it
    ALREADY_KNOWN = "already_known", False, False  # this transaction is in the pool already
    REPLACEMENT_UNDERPRICED = "replacement_underpriced", False, False  # the fee bump is too small
    FEE_TOO_LOW = "fee_too_low", False, True  # below the block's base fee or the pool's minimum
    INSUFFICIENT_FUNDS = "insufficient_funds", False, False  # the sender cannot pay value plus gas
    GAS_LIMIT = "gas_limit", False, False  # too little gas for the call, or more than a block holds
    POOL_FULL = "pool_full", True, True  # the node's transaction pool or the sender's share of it is full
    TX_INVALID = "tx_invalid", False, False  # malformed, wrong chain id, bad signature: it can never be mined
    REVERTED = "reverted", False, False  # the EVM reverted the call
    # The read
    RANGE_TOO_WIDE = "range_too_wide", False, False  # eth_getLogs over too many blocks or results: ask for less
    BLOCK_NOT_FOUND = "block_not_found", True, True  # the node does not know the block yet, or lags
    PRUNED = "pruned", True, False  # the node no longer has that state or history
    # The node
    RATE_LIMITED = "rate_limited", True, True
    TIMEOUT = "timeout", True, True
    UNAVAILABLE = "unavailable", True, True  # connection refused or lost, 5xx, circuit open
    UNAUTHORIZED = "unauthorized", True, False  # the URL's key is wrong
    BAD_ANSWER = "bad_answer", True, True  # not JSON, not JSON-RPC, or not of the promised shape
    WRONG_CHAIN = "wrong_chain", True, False  # this URL serves another chain
    METHOD_MISSING = "method_missing", True, False
    INVALID_PARAMS = "invalid_params", False, False
    UNKNOWN = "unknown", True, True


_K = RpcErrorKind
# Order matters: a rate limit may mention a range, a refused replacement its nonce, and so on.
_PATTERNS = {
    _K.ALREADY_KNOWN: "already ?known|known transaction|already imported|transaction already (exists|in)",
    _K.REPLACEMENT_UNDERPRICED: (
        "replacement.*(underpriced|fee too low)|could not replace existing|gas price too low to replace"
    ),
    _K.NONCE_TOO_LOW: (
        "nonce too low|nonce.*(is|was) too low|nonce has already been used|old ?nonce|nonce.*expected.*lower"
    ),
    _K.NONCE_TOO_HIGH: "nonce too high|nonce.*too far|nonce ?gap|future transaction",
    _K.INSUFFICIENT_FUNDS: (
        "insufficient ?funds|upfront cost exceeds account balance|insufficient balance for"
        "|doesn't have enough funds|sender.*not enough funds|insufficient maxfeepergas for sender balance"
    ),
    _K.FEE_TOO_LOW: (
        "max ?fee ?per ?gas.*(less than|below|lower than).*(block )?base ?fee|fee cap less than block base fee"
        "|transaction underpriced|feetoolow|gas price (is )?(too low|below)|tip.*(too low|below)"
        "|max priority fee.*below"
    ),
    _K.GAS_LIMIT: (
        "intrinsic gas too (low|high)|exceeds (the )?block gas limit|gas limit (is )?too (low|high)"
        "|gas required exceeds allowance|out ?of ?gas|exceeds the configured.*gas|gas floor"
    ),
    _K.POOL_FULL: (
        "tx ?pool.*(full|overflow|limit)|pool is full|too many (pending )?transactions.*account"
        "|account limit exceeded|in-flight transaction limit"
    ),
    _K.RATE_LIMITED: (
        "rate.?limit|too many requests|request limit|limit of requests|compute units|throughput|quota"
        r"|capacity exceeded|daily request count|exceeded.*per second|\b429\b"
    ),
    _K.RANGE_TOO_WIDE: (
        "(block )?range (is )?too (wide|large|big)|range.*(exceed|limit|max|larger|greater|not supported)"
        r"|exceed(s|ed)?.*range|query returned more than|more than [\d,]+ (results|logs)"
        "|too many (results|logs|blocks)|logs? (response )?size|response size|response (is )?too (big|large)"
        r"|max range|at most [\d,]+ blocks|exceeds? max(imum)? (results|logs|response)|max results"
        "|max(imum)? .*blocks? .*(distance|range)|limited to .*block|query (exceeds|timeout exceeded)"
        r"|eth_getlogs (is|and).*limited|try with this block range|up to a [\d,.]+k? block range|blocks? distance"
    ),
    _K.REVERTED: (
        r"execution reverted|vm exception.*revert|transaction reverted|^revert(ed)?\b|reverted with"
        "|always failing transaction|invalid opcode|stack (under|over)flow|invalid jump"
    ),
    _K.PRUNED: (
        "missing trie node|prun(ed|ing)|state (is )?not available|historical state|archive"
        "|history.*(expired|unavailable)|before.*earliest|distance to target block exceeds"
    ),
    _K.BLOCK_NOT_FOUND: (
        "header not found|block not found|unknown block|cannot find block|block.*out of range|blockoutofrange"
        "|after last accepted block|not yet available|no such block|beyond (current )?head"
        "|blocks?.*(cannot|could not) be found|unfinalized"
    ),
    _K.TIMEOUT: "timed? ?out|deadline exceeded|context canceled",
    _K.UNAUTHORIZED: "unauthori[sz]ed|forbidden|invalid (api ?key|project id|token)|must be authenticated",
    _K.METHOD_MISSING: (
        "method.*(not found|not supported|not available|does not exist|disabled|not whitelisted)|unsupported method"
    ),
    _K.TX_INVALID: (
        r"invalid (sender|chain ?id|signature|transaction)|\brlp\b|failed to decode (signed )?transaction"
        "|only replay-protected|transaction type not supported|negative value"
    ),
    _K.INVALID_PARAMS: (
        "invalid (params|argument|parameter|request|block range)|missing (value|field)|cannot unmarshal"
    ),
    _K.UNAVAILABLE: ("unavailable|bad gateway|overloaded|internal server error|no backend|all backends|syncing"),
}
_COMPILED = {kind: re.compile(pattern, re.IGNORECASE) for kind, pattern in _PATTERNS.items()}

_BY_CODE = {
    3: _K.REVERTED,
    -32005: _K.RATE_LIMITED,  # EIP-1474: limit exceeded
    -32016: _K.RATE_LIMITED,
    -32601: _K.METHOD_MISSING,
    -32602: _K.INVALID_PARAMS,
    -32600: _K.INVALID_PARAMS,
    -32700: _K.INVALID_PARAMS,
}
_BY_STATUS = {
    401: _K.UNAUTHORIZED,
    403: _K.UNAUTHORIZED,
    408: _K.TIMEOUT,
    413: _K.RANGE_TOO_WIDE,
    429: _K.RATE_LIMITED,
    504: _K.TIMEOUT,
}

# Errors that open a circuit: the node itself is unhealthy, rather than missing one block or method.
UNHEALTHY = frozenset({_K.RATE_LIMITED, _K.TIMEOUT, _K.UNAVAILABLE, _K.UNAUTHORIZED, _K.BAD_ANSWER, _K.WRONG_CHAIN})


def classify(code: int, message: str) -> RpcErrorKind:
    # A revert's message quotes the contract, which may say anything, so check for it before the table.
    if code == 3 or message.lower().startswith(
        ("execution reverted", "vm exception while processing transaction: rev")
    ):
        return RpcErrorKind.REVERTED
    for kind, pattern in _COMPILED.items():
        if pattern.search(message):
            return kind
    return _BY_CODE.get(code, RpcErrorKind.UNKNOWN)


def classify_status(status: int) -> RpcErrorKind:
    """Return the error kind of an HTTP response without a JSON-RPC error."""
    if status in _BY_STATUS:
        return _BY_STATUS[status]
    return RpcErrorKind.UNAVAILABLE if status >= 500 else RpcErrorKind.BAD_ANSWER


class RpcError(VpmError):
    """A node refused a request or did not respond.

    `maybe_delivered` matters only for transactions: if it is True, a node may have accepted the transaction without
    confirming that, so the transaction has not failed; its outcome is unknown.
    """

    code = "rpc_error"

    def __init__(
        self,
        kind: RpcErrorKind,
        message: str,
        *,
        data: str | None = None,
        maybe_delivered: bool = False,
        retry_after_seconds: float | None = None,
        hint: str | None = None,
    ) -> None:
        super().__init__(message, hint=hint, retriable=kind.retriable)
        self.kind = kind
        self.data = data
        self.maybe_delivered = maybe_delivered
        self.retry_after_seconds = retry_after_seconds


class ContractReverted(RpcError):
    """A contract reverted the call; `name` and `arguments` are set if its ABI declares the error."""

    code = "contract_reverted"

    def __init__(
        self,
        message: str,
        *,
        name: str | None = None,
        arguments: dict[str, object] | None = None,
        data: str | None = None,
    ) -> None:
        super().__init__(RpcErrorKind.REVERTED, message, data=data)
        self.name = name
        self.arguments = arguments or {}
