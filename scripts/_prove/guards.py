"""What the theorems are about: code that must not go, and the theorem that fails without it."""

from __future__ import annotations

from dataclasses import dataclass

WORDS = "contracts/stock/PackedWords.sol"
MATH = "contracts/stock/VestedMath.sol"
BOOKS = "contracts/stock/VestedBooks.sol"
SETTLER = "contracts/stock/VestedMarkets.sol"
PRICING = "contracts/agent/Pricing.sol"
WALLET = "contracts/agent/SettlementWallet.sol"
WALLET_BOOKS = "contracts/agent/SettlementBooks.sol"
PAYMENTS = "contracts/agent/SettlementPayments.sol"
FINDER = "contracts/lib/RoundFinder.sol"


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
        "uint256 capacity = kappa * otherPrincipal;",
        "uint256 capacity = kappa * (otherPrincipal + 1);",
        "stock.headroom",
    ),
    Guard(
        "no book outgrows 63 bits",
        MATH,
        "        if (capacity > MAX_PRINCIPAL) capacity = MAX_PRINCIPAL;\n",
        "",
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
    Guard("only a creditor credits", WALLET, "        _requireRole(CREDITOR);\n", "", "agent.powers.creditor"),
    Guard(
        "only the owner appoints",
        WALLET,
        "bool allowed) external onlyOwner {",
        "bool allowed) external {",
        "agent.powers.owner",
    ),
    Guard(
        "a market is settled once",
        WALLET_BOOKS,
        "if (m.status != MarketStatus.Open) revert AlreadySettled(marketId);",
        "",
        "agent.settled-once",
    ),
    Guard(
        "a stake is paid once",
        WALLET_BOOKS,
        "if (s.status != StakeStatus.InBook) return (0, false);",
        "",
        "agent.claim.once",
    ),
    Guard("swept fees are owed no longer", PAYMENTS, "        _liabilities.fees = 0;\n", "", "agent.sweep.fees"),
    Guard(
        "voided stakes stay owed",
        WALLET,
        "        _liabilities.unpaid += staked;\n        emit MarketVoided",
        "        emit MarketVoided",
        "agent.void.keeps",
    ),
    Guard(
        "a round proves only among the last phases", FINDER, " || phaseNow - phase >= MAX_PHASES", "", "rounds.too-old"
    ),
    Guard(
        "demand beyond 64 bits is refused",
        SETTLER,
        "if (n == MAX_POSITIONS || through > type(uint64).max) revert",
        "if (n == MAX_POSITIONS) revert",
        "stock.enter.refuses",
    ),
    Guard(
        "the losing side wins nothing",
        BOOKS,
        "if (snap.status != (s.outcome == 0 ? Status.Up : Status.Down)) return (0, 0);",
        "",
        "stock.claim.lost",
    ),
    Guard(
        "the next round must be later or absent",
        FINDER,
        "        (found,) = _atOrBefore(feed, roundId + 1, time);\n        if (found) return (false, round);\n",
        "",
        "rounds.next-is-not",
    ),
)
