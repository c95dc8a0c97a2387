"""Recomputes a pool feed's readings from its pools' history, with the integer arithmetic of
`contracts/feeds/PoolFeed.sol`. The history comes from each pool's own `observe`, not from the feed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from core.agent.fixed import WAD, ln_wad, sdiv
from core.chain import Contract, ContractReverted, checksum
from core.contracts.events.shared import FEED_EVENTS
from core.contracts.statuses import Quality
from core.feeds.cost import THIN
from core.feeds.live import POOL, TOKEN
from scripts._verify.chain import PinnedChain, word
from scripts._verify.claims import Findings

LN_TICK: Final = 99_995_000_333_308_335_333_166_680_951_131  # ln 1.0001, times 1e36
LN_MAX_ANSWER: Final = 66_542_129_333_754_749_704  # ln 2**96, times 1e18
MAX_ANSWER: Final = 2**96 - 1
DECIMALS: Final = 8


@dataclass(frozen=True, slots=True)
class SourceTerms:
    base_is_token0: bool
    reference_liquidity: int


@dataclass(frozen=True, slots=True)
class PoolFeedTerms:
    sources: tuple[SourceTerms, ...]
    supply: int  # in the token's smallest units
    quote_decimals: int
    window: int
    step: int


@dataclass(frozen=True, slots=True)
class PoolWindow:
    start_cumulative: int
    end_cumulative: int
    seconds_per_liquidity: int  # over the window, times 2**128

    @property
    def ticks(self) -> int:
        """Return the sum of the ticks over all seconds of the window. The cumulative values may have wrapped around."""
        return wrapped(self.end_cumulative - self.start_cumulative, 56)


@dataclass(frozen=True, slots=True)
class PoolFeedFacts:
    address: str
    terms: PoolFeedTerms
    pools: tuple[str, ...]


async def pool_feed_at(chain: PinnedChain, address: str) -> PoolFeedFacts | None:
    """Return the pool feed at an address, or None if the deployment file has no pool feed there. The pools come from
    the file, because a fake feed could name pools that its author made and report their values truthfully."""
    named = next((each for each in chain.deployment.pool_feeds if checksum(each.address) == checksum(address)), None)
    if named is None:
        return None
    base, sources = checksum(named.token), []
    for each in named.pools:
        pool = Contract(each.address, POOL)
        token0, token1 = [checksum(await chain.read(pool.call(name))) for name in ("token0", "token1")]
        sources.append(SourceTerms(token0 == base, each.reference_liquidity))
        base = token1 if token0 == base else token0
    decimals = int(await chain.read(Contract(named.quote, TOKEN).call("decimals")))
    terms = PoolFeedTerms(tuple(sources), named.supply, decimals, named.window_seconds, named.step_seconds)
    return PoolFeedFacts(checksum(address), terms, tuple(checksum(each.address) for each in named.pools))


async def recorded_at(chain: PinnedChain, feed: PoolFeedFacts, round_id: int) -> int | None:
    layouts = {topic: each for topic, each in FEED_EVENTS.items() if each.name == "AnswerUpdated"}
    logs = await chain.logs_of(feed.address, layouts, [None, word(round_id)])
    return await chain.time_of(logs[0].block) if logs else None


async def check_reading(chain: PinnedChain, feed: PoolFeedFacts, at: int, when: str, findings: Findings) -> None:
    round_id, reader = at // feed.terms.step, chain.feed(feed.address)
    recorded = await reader.round(round_id)
    quality = await chain.read(reader.contract.call("qualityOf", at))
    claim = f"the reading at the {when}, computed again"
    if recorded is None:
        findings.check(claim, False, f"getRoundData({round_id}) of {feed.address}", "it was never recorded")
        return
    windows, shown = [], []
    for address in feed.pools:
        window = await _read_window(chain, address, at, feed.terms.window)
        shown.append(f"observe() of {address}, up to {at}")
        if window is None:
            why = "the pool no longer has that history; use an archive node with --block"
            findings.unknown(claim, why, shown[-1])
            return
        windows.append(window)
    ours = _describe(*compute_reading(feed.terms, windows))
    findings.same(claim, _describe(quality, recorded.answer), ours, "; ".join(shown))


async def _read_window(chain: PinnedChain, pool: str, end: int, length: int) -> PoolWindow | None:
    """Return a pool's history over the `length` seconds before `end`, or None if the pool no longer has it."""
    ago = chain.head.timestamp - end
    try:
        ticks, per_liquidity = await chain.read(Contract(pool, POOL).call("observe", [ago + length, ago]))
    except ContractReverted:
        return None
    return PoolWindow(ticks[0], ticks[1], (per_liquidity[1] - per_liquidity[0]) % 2**160)


def _describe(quality: int, answer: int) -> str:
    return f"{answer} ({Quality(quality).name.lower().replace('_', ' ')})"


# ---------------------------------------------------------------- arithmetic


def wrapped(value: int, bits: int) -> int:
    """Wrap a value to a signed integer with this many bits, as unchecked arithmetic does."""
    half = 1 << (bits - 1)
    return (value + half) % (2 * half) - half


def compute_reading(terms: PoolFeedTerms, windows: Sequence[PoolWindow]) -> tuple[Quality, int]:
    for source, window in zip(terms.sources, windows, strict=True):
        if window.seconds_per_liquidity > (THIN * terms.window << 128) // source.reference_liquidity:  # down
            return Quality.THIN, 0
    answer = market_cap(terms, [window.ticks for window in windows])
    return (Quality.OUT_OF_RANGE, 0) if answer is None else (Quality.GOOD, answer)


def exp_wad(x: int) -> int:
    """Compute Solady's `FixedPointMathLib.expWad`, an approximation of e**(x / 1e18) * 1e18, rounded down."""
    if x <= -41446531673892822313:
        return 0
    if x >= 135305999368893231589:
        raise ValueError(f"exp_wad takes less than 135.3e18, not {x}")
    # Convert x to base 2 and remove the powers of two, which are applied at the end.
    x = sdiv(x << 78, 5**18)
    k = (sdiv(x << 96, 54916777467707473351141471128) + 2**95) >> 96
    x -= k * 54916777467707473351141471128

    # A (6, 7)-term rational approximation.
    y = x + 1346386616545796478920950773328
    y = (y * x >> 96) + 57155421227552351082224309758442
    p = y + x - 94201549194550492254356042504812
    p = (p * y >> 96) + 28719021644029726153956944680412240
    p = p * x + (4385272521454847904659076985693276 << 96)
    q = x - 2855989394907223263936484059900
    q = (q * x >> 96) + 50020603652535783019961831881945
    q = (q * x >> 96) - 533845033583426703283633433725380
    q = (q * x >> 96) + 3604857256930695427073651918091429
    q = (q * x >> 96) - 14423608567350463180887372962807573
    q = (q * x >> 96) + 26449188498355588339934803723976023
    return (sdiv(p, q) * 3822833074963236453042738258902158003155416615667) >> (195 - k)


def market_cap(terms: PoolFeedTerms, ticks: Sequence[int]) -> int | None:
    """Return the feed's value, given the sum of each source's ticks over the window. Return None if the value is out of
    range. A tick is a log price rounded down, so half a tick is added for each source. The exponent is rounded towards
    zero, and the value is rounded down."""
    half_ticks = 0
    for source, each in zip(terms.sources, ticks, strict=True):
        log_price = 2 * each + terms.window
        half_ticks += log_price if source.base_is_token0 else -log_price
    supply = ln_wad(terms.supply * 10 ** (DECIMALS - terms.quote_decimals) * WAD)
    exponent = sdiv(half_ticks * LN_TICK, 2 * terms.window * WAD) + supply
    if exponent >= LN_MAX_ANSWER:
        return None
    answer = exp_wad(exponent) // WAD
    return answer if 0 < answer <= MAX_ANSWER else None
