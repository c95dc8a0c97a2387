"""May a stranger's transaction be carried at our expense? By what those of its wallet, and of wallets with the same
code, have cost us for nothing within an hour. Pure; money in wei.

A wallet with code decides itself when its signature is true: it may say yes wherever it is only asked, and burn all it
is given once that is paid for. So what reverts is remembered by wallet and by code, and such wallets together have an
allowance of their own, so that those without code go on when it is used up.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from core.outbox.states import CODE_REVERTS, CONTRACTS_SPENT, WALLET_REVERTS

WINDOW_SECONDS = 3600
# How many more of a wallet's transactions may have reverted than succeeded, those on their way included while nothing
# says that they will succeed. One that succeeds has paid a fee, so a busy bettor in a moving book is not held to this.
WALLET_REVERTS_ALLOWED = 4
# The same for all wallets of one code. Others may make a common wallet's code look bad: a wallet that has settled
# before, and made nothing revert, is not judged by it.
CODE_REVERTS_ALLOWED = 16
# Reverts of wallets with code may use at most 1/CONTRACTS_SHARE of a lane's hourly gas limit.
CONTRACTS_SHARE = 10
# Of that, newcomers of a code above its bound may use 1/NEWCOMERS_SHARE: each may send one transaction, and deploying
# ever more wallets to make them revert leaves the rest to wallets of other codes and to those that settled before.
NEWCOMERS_SHARE = 2

_LATER = "It can be sent again within the hour."


class PayerKind(StrEnum):
    """Whose signature a transaction carries: what its reverts are counted under."""

    NONE = "none"  # nobody's: our own business
    WALLET = "wallet"
    CONTRACT = "contract"

    @classmethod
    def of(cls, *, is_signed: bool, has_code: bool) -> PayerKind:
        if not is_signed:
            return cls.NONE
        return cls.CONTRACT if has_code else cls.WALLET


@dataclass(slots=True)
class PayerRecord:
    """What became of one wallet's transactions, or of those of all wallets with one code. in_flight: on their way now;
    has_settled: one of them ever succeeded."""

    reverted: int = 0
    succeeded: int = 0
    in_flight: int = 0
    has_settled: bool = False

    @property
    def excess(self) -> int:
        return self.reverted - self.succeeded


@dataclass(frozen=True, slots=True)
class PayerRefusal:
    """Why a payer's transaction is not sent now, as a code and a sentence."""

    code: str
    reason: str


@dataclass(slots=True)
class PayerBook:
    """The records that decide about one batch. burnt_wei: what reverts of wallets with code have cost this lane within
    the hour, of which `allowance_wei` is allowed; unmined_wei: what those on their way may cost."""

    wallets: dict[bytes, PayerRecord]
    codes: dict[bytes, PayerRecord]
    burnt_wei: int
    unmined_wei: int
    allowance_wei: int

    @property
    def newcomers_wei(self) -> int:
        """What reverts may have burnt when a newcomer of a code above its bound still goes; rounded down."""
        return self.allowance_wei // NEWCOMERS_SHARE

    def judge(self, payer: bytes, code: bytes | None, worst_wei: int) -> PayerRefusal | bool:
        """A refusal of a transaction of this payer; or whether it may go now, which is then counted as on its way.
        False: what is on its way already shall say first how it ends. worst_wei: what it may cost."""
        wallet = self.wallets.setdefault(payer, PayerRecord())
        alike = None if code is None else self.codes.setdefault(code, PayerRecord())
        refusal = self._refusal(wallet, alike, worst_wei)
        if refusal is not None:
            return refusal
        doubtful = code is not None or wallet.reverted > 0 or not wallet.has_settled
        if doubtful and wallet.excess + wallet.in_flight >= WALLET_REVERTS_ALLOWED:
            return False
        if alike is not None:
            is_held = self._is_held_to_its_code(wallet, alike.excess + alike.in_flight)
            if is_held and wallet.in_flight:
                return False
            allowed_wei = self.newcomers_wei if is_held else self.allowance_wei
            if self.burnt_wei + self.unmined_wei + worst_wei > allowed_wei:
                return False
            alike.in_flight += 1
            self.unmined_wei += worst_wei
        wallet.in_flight += 1
        return True

    @staticmethod
    def _is_held_to_its_code(wallet: PayerRecord, excess: int) -> bool:
        """Check whether a wallet is judged by its code, whose reverts exceed its successes by `excess`."""
        is_proven = wallet.has_settled and not wallet.reverted
        return not is_proven and excess >= CODE_REVERTS_ALLOWED

    def _refusal(self, wallet: PayerRecord, alike: PayerRecord | None, worst_wei: int) -> PayerRefusal | None:
        """By what has ended; what is on its way is only waited for."""
        if wallet.excess >= WALLET_REVERTS_ALLOWED:
            said = f"{wallet.reverted} transactions of this wallet reverted within an hour and burnt our gas."
            return PayerRefusal(WALLET_REVERTS, f"{said} {_LATER}")
        if alike is None:
            return None
        is_newcomer = not wallet.reverted and self.burnt_wei + worst_wei <= self.newcomers_wei
        if self._is_held_to_its_code(wallet, alike.excess) and not is_newcomer:
            said = f"{alike.reverted} transactions of wallets with this code reverted within an hour and burnt our gas."
            return PayerRefusal(CODE_REVERTS, f"{said} {_LATER}")
        if self.burnt_wei + worst_wei > self.allowance_wei:
            said = "Transactions of wallets with code may burn no more of our gas within this hour."
            return PayerRefusal(CONTRACTS_SPENT, f"{said} {_LATER}")
        return None
