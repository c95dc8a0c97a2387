"""The guards of the contracts: what each one stops, the code it is, and the test that fails without it.

`test_guards_matter.py` takes each out of a copy of the sources and expects exactly that test to fail. A guard that is
only a line nobody would miss is found by that, and so is a test that proves nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

SETTLER = "contracts/vpm/VestedMarkets.sol"
RESOLVER = "contracts/vpm/RoundResolver.sol"
LISTER = "contracts/vpm/MarketLister.sol"
FINDER = "contracts/lib/RoundFinder.sol"
READ = "contracts/lib/GuardedRead.sol"
WALLET = "contracts/settlement/SettlementWallet.sol"
RULES = "contracts/settlement/MarketRules.sol"


@dataclass(frozen=True)
class Guard:
    name: str
    source: str
    code: str  # occurs once
    without: str
    suite: str  # under tests/contracts/forge
    test: str


GUARDS = (
    # -- The eight lessons
    Guard(
        "1: settling finalizes the open vintage whatever block.number says",
        SETTLER,
        "Flow cleared = _clear(marketId, m, f);",
        "Flow cleared = f.vintageBlock() == block.number ? f : _clear(marketId, m, f);",
        "vpm/Lessons.t.sol",
        "test_lesson1_blockNumberStandsStillWhileTimeMoves",
    ),
    Guard(
        "2: a spent authorization is refused",
        SETTLER,
        "if (IERC3009(token).authorizationState(from, nonce)) revert AuthorizationSpent(from, nonce);",
        "",
        "vpm/Lessons.t.sol",
        "test_lesson2_aSpentAuthorizationThatReturnsBooksNothing",
    ),
    Guard(
        "2: the balance must rise by the amount",
        SETTLER,
        "        _requireReceived(from, amount, held);\n",
        "",
        "vpm/EnterWithAuthorization.t.sol",
        "test_enterWithAuthorization_failsUnlessTheBalanceRoseByTheAmount",
    ),
    Guard(
        "2: the same for allowances",
        SETTLER,
        "        _requireReceived(msg.sender, amount, held);\n",
        "",
        "vpm/Enter.t.sol",
        "test_enter_failsUnlessTheBalanceRoseByTheAmount",
    ),
    Guard(
        "3: no later phase has a round at or before the time",
        FINDER,
        "for (uint256 later = phase + 1; later <= phaseNow; ++later) {",
        "for (uint256 later = phase + 1; later < phase; ++later) {",
        "rounds/RoundResolver.t.sol",
        "test_overlapping_phases_settle_one_way_only",
    ),
    Guard(
        "3: the round after it is later or absent",
        FINDER,
        "        (found,) = _atOrBefore(feed, roundId + 1, time);\n        if (found) return (false, round);\n",
        "",
        "rounds/RoundResolver.t.sol",
        "test_a_pair_that_is_not_in_effect_proves_nothing",
    ),
    Guard(
        "4: only the lister registers",
        RESOLVER,
        "if (msg.sender != lister) revert NotLister(msg.sender, lister);",
        "",
        "vpm/Lessons.t.sol",
        "test_lesson4_nobodyRegistersAMarketBeforeItsLister",
    ),
    Guard(
        "5: a garbage round refunds at once",
        RESOLVER,
        "        _void(marketId, VOID, BY_BAD_ANSWER, strike, last);\n",
        "        revert TooEarly(t.finalTime + 72 hours, block.timestamp);\n",
        "vpm/Lessons.t.sol",
        "test_lesson5_aGarbageRoundRefundsAtOnce",
    ),
    Guard(
        "6: who cannot be paid fails alone",
        SETTLER,
        "            emit DeliveryFailed(positionId, p.owner(), total);\n",
        "            revert TransferFailed(p.owner(), total);\n",
        "vpm/Lessons.t.sol",
        "test_lesson6_anOwnerWhoCannotBePaidBlocksNobody",
    ),
    Guard(
        "6: a transfer cannot burn a batch's gas",
        SETTLER,
        "pop(call(TRANSFER_GAS, token_, 0, data, 68, 0, 0))",
        "pop(call(gas(), token_, 0, data, 68, 0, 0))",
        "vpm/Deliver.t.sol",
        "test_deliver_aTransferBurnsNoMoreThanItsOwnGas",
    ),
    Guard(
        "6: an owner who cannot be paid fails alone",
        SETTLER,
        "pop(call(TRANSFER_GAS, token_, 0, data, 68, 0, 0))",
        "if iszero(call(TRANSFER_GAS, token_, 0, data, 68, 0, 0)) { revert(0, 0) }",
        "vpm/Lessons.t.sol",
        "test_lesson6_anOwnerWhoCannotBePaidBlocksNobody",
    ),
    Guard(
        "7: a strike in the past is refused",
        LISTER,
        "if (p.strikeTime <= block.timestamp) revert StrikeNotAhead(p.strikeTime, block.timestamp);",
        "",
        "vpm/Lessons.t.sol",
        "test_lesson7_aStrikeInThePastIsRefused",
    ),
    Guard(
        "8: the pause stops entries and nothing else",
        SETTLER,
        "if (snap.status == Status.Open) revert MarketNotSettled(snap.marketId);",
        "if (snap.status == Status.Open || _totals.entriesPaused()) revert MarketNotSettled(snap.marketId);",
        "vpm/Lessons.t.sol",
        "test_lesson8_pausingStopsEntriesAndNothingElse",
    ),
    Guard(
        "8: only the resolver names a winner",
        SETTLER,
        "if (msg.sender != m.resolver) revert NotResolver(marketId, msg.sender, m.resolver);",
        "",
        "vpm/Powers.t.sol",
        "test_powers_nobodyChoosesAnOutcome",
    ),
    Guard(
        "8: only an owner moves its position",
        SETTLER,
        "if (msg.sender != owner) revert NotPositionOwner(positionId, msg.sender, owner);",
        "",
        "vpm/Powers.t.sol",
        "test_powers_nobodyMovesAnothersPosition",
    ),
    # -- The settler, beyond the lessons
    Guard(
        "a starved transfer is not a refused one",
        SETTLER,
        "if (gasleft() < needed) revert NotEnoughGas(gasleft(), needed);",
        "",
        "vpm/Deliver.t.sol",
        "test_deliver_failsByNameWhereATransferCouldStarve",
    ),
    Guard(
        "a parked ration gets its word before the next vintage",
        SETTLER,
        "        _vintages[_vintageKey(marketId, f.vintages())].ration = parkedRation(f, pool);\n",
        "",
        "vpm/FinalizeVintage.t.sol",
        "test_finalizeVintage_aParkedRationSurvives",
    ),
    # -- The settlement wallet
    Guard(
        "wallet: a spent authorization buys nothing",
        WALLET,
        "if (IERC3009(token).authorizationState(i.wallet, a.nonce)) "
        "revert AuthorizationAlreadyUsed(i.wallet, a.nonce);",
        "",
        "settlement/Staking.t.sol",
        "test_aSpentAuthorizationBuysNothing",
    ),
    Guard(
        "wallet: the balance must rise by the amount",
        WALLET,
        "if (received != i.amount) revert WrongAmountReceived(i.amount, received);",
        "",
        "settlement/Staking.t.sol",
        "test_onlyTheExactAmountIsAStake",
    ),
    Guard(
        "wallet: a key settles once",
        WALLET,
        "if (stakeOf[i.wallet][i.idemHash] != 0) return (REFUND_KEY_USED, 0);",
        "",
        "settlement/Staking.t.sol",
        "test_aKeySettlesOnce",
    ),
    Guard(
        "wallet: a payment is credited once",
        WALLET,
        "if (booked[i.wallet][a.nonce]) revert AuthorizationAlreadyBooked(i.wallet, a.nonce);",
        "",
        "settlement/Credit.t.sol",
        "test_aFrontRunPaymentIsBookedExactlyOnce",
    ),
    Guard(
        "wallet: only unbooked money is credited",
        WALLET,
        "if (unbooked < i.amount) revert NothingUnbooked(unbooked, i.amount);",
        "",
        "settlement/Credit.t.sol",
        "test_aCancelledAuthorizationIsNotCredited",
    ),
    Guard(
        "wallet: a credit needs its payer's signature",
        WALLET,
        "if (!_signed(i, a)) revert NotSignedBy(i.wallet);",
        "",
        "settlement/Credit.t.sol",
        "test_creditChecksTheSignature",
    ),
    Guard(
        "wallet: a stranger settles bound intents only",
        WALLET,
        '            _requireRole(RELAYER, "RELAYER");\n        }\n        Market storage m',
        "        }\n        Market storage m",
        "settlement/Staking.t.sol",
        "test_aRandomNonceNeedsTheRelayer",
    ),
    Guard(
        "wallet: a crossing must have been in effect when it was written",
        RULES,
        "if (crossed) (crossed,) = RoundFinder.proveInEffectAt(t.feed, roundId, round.updatedAt);",
        "",
        "settlement/Settling.t.sol",
        "test_aCrossingInAnAbandonedPhaseDoesNotCount",
    ),
    Guard(
        "wallet: starved payouts revert",
        WALLET,
        "if (left < PAY_GAS_NEEDED) revert PayGasTooLow(left, PAY_GAS_NEEDED);",
        "",
        "settlement/Paying.t.sol",
        "test_starvedPayoutsRevert",
    ),
)
