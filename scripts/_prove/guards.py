"""What the theorems are about: code that must not go, and the theorem that fails without it."""

from __future__ import annotations

from dataclasses import dataclass

WORDS = "contracts/stock/PackedWords.sol"
MATH = "contracts/stock/VestedMath.sol"
WALLET = "contracts/agent/SettlementWallet.sol"


@dataclass(frozen=True, slots=True)
class Guard:
    """Code of a contract, which occurs once, what stands there instead, and the theorem that is refuted then."""

    name: str
    source: str
    code: str
    without: str
    theorem: str


GUARDS = (
    Guard(
        "a position's vintage has 24 bits of its own",
        WORDS,
        "uint256(uint160(owner_)) | through << 160 | vintage_ << 224",
        "uint256(uint160(owner_)) | through << 160 | vintage_ << 216",
        "stock.words.position",
    ),
    Guard(
        "demand is 64 bits",
        WORDS,
        "return uint64(Flow.unwrap(f) >> (64 + 64 * outcome));",
        "return uint128(Flow.unwrap(f) >> (64 + 64 * outcome));",
        "stock.words.flow-join",
    ),
    Guard(
        "finalizing clears what was offered",
        WORDS,
        "f) & (type(uint256).max << 192 | uint256(type(uint24).max) << 40)",
        "f) & (type(uint256).max << 64 | uint256(type(uint24).max) << 40)",
        "stock.words.flow-finalized",
    ),
    Guard(
        "a debt is subtracted with a check",
        WORDS,
        "Totals.unwrap(t) - (amount << 128) + (fee << 40)",
        "(Totals.unwrap(t) ^ 0) - (amount << 120) + (fee << 40)",
        "stock.words.totals-settle",
    ),
    Guard(
        "a new status leaves the terms", WORDS, "Terms.unwrap(t) << 8 >> 8 |", "Terms.unwrap(t) |", "stock.words.terms"
    ),
    Guard(
        "capacity is kappa times the other side",
        MATH,
        "capacityOf(kappa, sideCap, otherPrincipal);",
        "capacityOf(kappa, sideCap, otherPrincipal + 1);",
        "stock.headroom",
    ),
    Guard(
        "no book outgrows the cap of a side",
        MATH,
        "return Math.min(kappa * principal, sideCap);",
        "return kappa * principal;",
        "stock.headroom",
    ),
    Guard(
        "a part ends where the next begins",
        MATH,
        "return through * accepted / demand - ahead * accepted / demand;",
        "return through * accepted / demand;",
        "stock.parts.formula",
    ),
    Guard(
        "promises are rounded down",
        MATH,
        "return acc + accepted * S / principal;",
        "return acc + (accepted * S + principal - 1) / principal;",
        "stock.vest.formula",
    ),
    Guard(
        "a position is promised nothing from before its entry",
        MATH,
        "uint256 promised = S + acc - entryAcc;",
        "entryAcc;\n        uint256 promised = S + acc;",
        "stock.payout.formula",
    ),
    Guard(
        "the fee is of the gain",
        MATH,
        "return gain * feeBps / 1e4;",
        "return gain * feeBps / 1e3;",
        "stock.fee.formula",
    ),
    Guard(
        "only the guardian pauses",
        WALLET,
        "if (msg.sender != guardian) revert NotGuardian(msg.sender, guardian);",
        "",
        "agent.powers.guardian",
    ),
    Guard(
        "only the lister opens",
        WALLET,
        "if (msg.sender != lister) revert NotLister(msg.sender, lister);",
        "",
        "agent.powers.lister",
    ),
    Guard(
        "only the resolver settles",
        WALLET,
        "if (msg.sender != resolver) revert NotResolver(msg.sender, resolver);",
        "",
        "agent.powers.voids",
    ),
    Guard(
        "only the owner appoints",
        WALLET,
        "bool allowed) external onlyOwner {",
        "bool allowed) external {",
        "agent.powers.owner",
    ),
)
