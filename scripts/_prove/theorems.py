"""The theorems, in the order in which they stand on each other."""

from __future__ import annotations

from scripts._prove.theorem import Theorem

INTEGERS = "all integers; the contracts' widths keep every product below 2^256 (`widths`)"

WIDTHS = "all values of the stored widths: 64 bits for amounts, 96 for accumulators, 16 for basis points"

WORDS = (
    Theorem(
        "stock.words.terms", "a market's terms read back as packed; only the status changes", "WordsProof.check_terms"
    ),
    Theorem(
        "stock.words.flow-seeded", "a market begins with two positions and no vintage", "WordsProof.check_flow_seeded"
    ),
    Theorem(
        "stock.words.flow-begin",
        "beginning a vintage changes its block and its number, nothing else",
        "WordsProof.check_flow_begin",
        "every word without an open vintage and with fewer than 2^24 - 1 begun",
    ),
    Theorem(
        "stock.words.flow-join",
        "an entry adds to its side's demand and count, nothing else",
        "WordsProof.check_flow_join",
        "every word in which the sums fit their widths: `stock.enter.refuses` has the rest",
    ),
    Theorem("stock.words.flow-finalized", "finalizing keeps vintages and counts", "WordsProof.check_flow_finalized"),
    Theorem("stock.words.flow-parking", "parking keeps the offers as well", "WordsProof.check_flow_finalizedParking"),
    Theorem("stock.words.pool", "the principals read back as packed", "WordsProof.check_pool"),
    Theorem(
        "stock.words.pool-pay",
        "paying adds to what was paid and distributed, nothing else",
        "WordsProof.check_pool_pay",
        "every word whose paid principal stays within 64 bits, as it is part of one that does",
    ),
    Theorem(
        "stock.words.pool-refuses", "more than 64 bits of payouts is refused", "WordsProof.check_pool_payRefusesBeyond"
    ),
    Theorem("stock.words.pool-parks", "a parked ration reads back as packed", "WordsProof.check_pool_parksARation"),
    Theorem("stock.words.ration", "a ration reads back as packed", "WordsProof.check_ration"),
    Theorem("stock.words.vintage", "a vintage reads back as packed", "WordsProof.check_vintage"),
    Theorem(
        "stock.words.position", "a position reads back as packed, flagged and handed on", "WordsProof.check_position"
    ),
    Theorem(
        "stock.words.totals",
        "pausing, counting and owing change one field each",
        "WordsProof.check_totals",
        "fewer than 2^32 - 1 markets",
    ),
    Theorem(
        "stock.words.totals-settle",
        "what is paid is no longer owed, and a fee stays owed",
        "WordsProof.check_totals_settleDebt",
        "fees below 2^88, which no token's supply reaches",
    ),
    Theorem("stock.words.totals-fees", "swept fees are no longer owed", "WordsProof.check_totals_withoutFees"),
    Theorem(
        "stock.words.totals-refuse",
        "more than is owed cannot be paid, nor more than 128 bits be owed",
        "WordsProof.check_totals_refuseBeyond",
    ),
)

ARITHMETIC = (
    Theorem(
        "stock.headroom", "an outcome never takes more than its capacity, nor its cap", "ArithmeticProof.check_headroom"
    ),
    Theorem(
        "stock.parts.formula",
        "an accepted part is a difference of one running total",
        "ArithmeticProof.check_shareDown",
    ),
    Theorem("stock.vest.formula", "an accumulator grows by floor(T S / P)", "ArithmeticProof.check_vestDown", WIDTHS),
    Theorem(
        "stock.payout.formula", "a payout is floor(a (S + acc - e) / S)", "ArithmeticProof.check_payoutDown", WIDTHS
    ),
    Theorem("stock.fee.formula", "a fee is floor(gain bps / 10000)", "ArithmeticProof.check_feeDown", WIDTHS),
)

STOCK_LEMMAS = (
    Theorem("widths", "no product or sum of the formulas reaches 2^256", "widths.smt2", WIDTHS),
    Theorem(
        "stock.parts.sum",
        "accepted parts are from 0 to the offer, and sum to what was accepted, for any number of entries",
        "parts.smt2",
        INTEGERS,
    ),
    Theorem(
        "stock.promise.rises", "what a position is promised never falls, nor below its stake", "promise.smt2", INTEGERS
    ),
    Theorem(
        "stock.promise.covered",
        "a vintage promises a side no more than the pool, if that held before",
        "vesting.smt2",
        INTEGERS,
    ),
    Theorem(
        "stock.payouts.covered",
        "payouts of a market never exceed its pool, for any number of positions",
        "payouts.smt2",
        INTEGERS,
    ),
    Theorem("stock.fee.of-gain", "a fee is never more than the gain", "fee.smt2", INTEGERS),
    Theorem(
        "stock.acc.step", "a vintage adds at most kappa S T / (V + T) to an accumulator", "capacity.smt2", INTEGERS
    ),
    Theorem(
        "stock.acc.width",
        "accumulators stay below 2^96, for any number of vintages",
        "harmonic.smt2",
        "real numbers; that 1 + 1/2 + ... + 1/n is at most 1 + ln n is taken from analysis",
    ),
)

CALLS = "every state, time, caller and token that does not call back"

STOCK_CALLS = (
    Theorem(
        "stock.enter.books",
        "an entry books its amount, once it has arrived, as a position of its sender, and changes nothing else",
        "SettlerEntriesProof.check_enter",
        f"{CALLS}; in a vintage begun by this block; no more than 2^31 positions",
        seconds=600,
        quick=False,
    ),
    Theorem(
        "stock.enter.refuses",
        "an outcome there is not, an amount out of bounds, 2^64 of demand and 2^31 positions are refused",
        "SettlerEntriesProof.check_enter_refusesBeyond",
        f"{CALLS}; in a vintage begun by this block",
    ),
    Theorem(
        "stock.claim.won",
        "a winner's claim sends its payout less the fee to the owner, and takes just that from what is owed",
        "SettlerClaimsProof.check_claim_won",
        f"{CALLS}; a seed's position; fees below 2^87; by the lemmas, its payout is between its stake and 2^64",
        seconds=600,
        quick=False,
    ),
    Theorem(
        "stock.claim.void",
        "a void market's claim sends the stake to the owner, and takes just that from what is owed",
        "SettlerClaimsProof.check_claim_void",
        f"{CALLS}; a seed's position; fees below 2^87",
        seconds=600,
        quick=False,
    ),
    Theorem(
        "stock.claim.lost",
        "a position on the losing side is paid nothing",
        "SettlerClaimsProof.check_claim_lost",
        f"{CALLS}; a seed's position",
    ),
    Theorem(
        "stock.claim.once",
        "a position that was paid and refunded is never paid again",
        "SettlerClaimsProof.check_claim_once",
        f"{CALLS}; every position",
        seconds=600,
        quick=False,
    ),
)

AGENT = (
    Theorem("agent.fee.formula", "fees, nets and what buys are their formulas", "PricesProof.check_fees", WIDTHS),
    Theorem("agent.payout.formula", "a payout is its formula", "PricesProof.check_payout", WIDTHS),
    Theorem("agent.excess", "an excess is max(0, q - s)", "PricesProof.check_excess", WIDTHS),
    Theorem(
        "agent.split.buying", "what buys of two pieces is at most what buys of the whole", "agent-split-buying.smt2"
    ),
    Theorem("agent.split.ratio", "a later piece grows its weight by no larger a factor", "agent-split-ratio.smt2"),
    Theorem(
        "agent.split.logs",
        "of what line 30 gives, the shares of a split never exceed the whole's, with ln off by under 0.06",
        "agent-split-logs.smt2",
        "two pieces or more; lnWad off by less than 0.06 before its floor, which a test searches for",
    ),
    Theorem(
        "agent.payouts.rich",
        "payouts never exceed a pool that covers the shares, for any number of bets",
        "agent-payouts-rich.smt2",
        INTEGERS,
    ),
    Theorem(
        "agent.payouts.poor",
        "nor one that does not, and each bet has its net stake back",
        "agent-payouts-poor.smt2",
        INTEGERS,
    ),
    Theorem("agent.powers.owner", "only the owner appoints", "WalletPowersProof.check_onlyTheOwnerAppoints", CALLS),
    Theorem(
        "agent.powers.guardian", "only the guardian pauses", "WalletPowersProof.check_onlyTheGuardianPauses", CALLS
    ),
    Theorem(
        "agent.powers.lister",
        "only the lister opens a market",
        "WalletPowersProof.check_onlyTheListerOpens",
        f"{CALLS}; up to two weights",
    ),
    Theorem(
        "agent.powers.resolver",
        "only the resolver names a winner",
        "WalletPowersProof.check_onlyTheResolverResolves",
        CALLS,
    ),
    Theorem("agent.powers.voids", "only the resolver voids", "WalletPowersProof.check_onlyTheResolverVoids", CALLS),
    Theorem(
        "agent.powers.creditor",
        "only a creditor credits",
        "WalletPowersProof.check_onlyACreditorCredits",
        f"{CALLS}; signatures of 0, 65 and 1024 bytes",
    ),
    Theorem(
        "agent.settled-once",
        "a market that is settled, or unknown, is not settled again",
        "WalletPowersProof.check_aSettledMarketStaysSettled",
        CALLS,
    ),
    Theorem("agent.void.keeps", "voiding changes nothing of what is owed in all", "WalletMoneyProof.check_void", CALLS),
    Theorem(
        "agent.sweep.fees",
        "sweeping sends the fees to the treasury and leaves what else is owed",
        "WalletMoneyProof.check_sweepFees",
        CALLS,
    ),
    Theorem(
        "agent.claim.once",
        "a stake that was paid or given back is never paid again",
        "WalletMoneyProof.check_claim_once",
        CALLS,
    ),
)

FEED = "every feed, whatever its rounds"

ROUNDS = (
    Theorem(
        "rounds.proven.at-or-before",
        "what proves for a time is a round at or before it, as the feed tells it",
        "RoundsProof.check_provenIsAtOrBefore",
        f"{FEED}; a round of the current phase",
        quick=False,
    ),
    Theorem(
        "rounds.next-is-not",
        "the round after what proves is later than the time, or absent",
        "RoundsProof.check_nextIsNot",
        f"{FEED}; a round of the current phase",
        quick=False,
    ),
    Theorem(
        "rounds.one",
        "at most one round of the current phase proves for a time",
        "rounds-one.smt2",
        "feeds whose rounds are consecutive in a phase and never fall in time",
    ),
    Theorem(
        "rounds.in-effect-proves",
        "the round in effect proves",
        "RoundsProof.check_inEffectProves",
        f"{FEED}; a round of the current phase",
        seconds=600,
        quick=False,
        loops=9,
    ),
    Theorem(
        "rounds.too-old",
        "a round of a phase before the last eight never proves",
        "RoundsProof.check_tooOldDoesNotProve",
        FEED,
    ),
)

THEOREMS: tuple[Theorem, ...] = (*WORDS, *ARITHMETIC, *STOCK_LEMMAS, *STOCK_CALLS, *AGENT, *ROUNDS)
