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
        "stock.headroom", "an outcome never takes more than its capacity, nor 63 bits", "ArithmeticProof.check_headroom"
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

THEOREMS: tuple[Theorem, ...] = (*WORDS, *ARITHMETIC, *STOCK_LEMMAS)
