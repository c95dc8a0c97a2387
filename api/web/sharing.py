"""PNG pictures: the icons, and the cards that other sites show for a shared page.

Cards are drawn one at a time in a thread, so drawing never occupies more than part of one core.
"""

from __future__ import annotations

import asyncio
import io
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import cache

from aiohttp import web
from PIL import Image, ImageDraw, ImageFont

from api.agent.reads import AgentReads
from api.caching import Rendered, VersionedCache
from api.limits import ConcurrencyLimiter, LimiterFull
from api.operations import Json
from api.stock.bodies import MarketDetailBody
from api.stock.reads import StockReads
from api.web import figures
from api.web.templating import exact

WIDTH, HEIGHT = 1200, 630
MARGIN = 72
INK, QUIET, GROUND, LINE = "#1a1c20", "#5c5f66", "#faf9f6", "#e2dfd6"
TONES = ("#0a6b4a", "#a8361f")
BRAND, ON_BRAND = "#1d2b64", "#ffffff"
# With so few colours, a picture is a third of the size and looks the same.
COLOURS = 48
HEADLINE_LINES = 3
# The mark of the site (mark.svg), in its own 32 units.
MARK = ((7, 20), (13, 12), (18, 17), (25, 8))


@dataclass(frozen=True, slots=True)
class ShareCard:
    """The content of a share card. Odds are in tenths of a percent; `foot` is about the market's end."""

    headline: str
    odds: Sequence[tuple[str, int]] = ()
    foot: str = ""


def draw_card(card: ShareCard) -> bytes:
    """Draw a card in the size that all services accept."""
    picture = Image.new("RGB", (WIDTH, HEIGHT), GROUND)
    pen = ImageDraw.Draw(picture)
    _mark(pen, MARGIN, 56, 64)
    pen.text((MARGIN + 84, 64), "VPM", fill=INK, font=_font(42), stroke_width=1, stroke_fill=INK)
    y = 164
    size = 58 if len(card.headline) < 90 else 46
    for line in wrapped(card.headline, size, WIDTH - 2 * MARGIN, HEADLINE_LINES):
        pen.text((MARGIN, y), line, fill=INK, font=_font(size), stroke_width=1, stroke_fill=INK)
        y += size * 5 // 4
    if len(card.odds) == 2:
        _odds(pen, card.odds)
    pen.line((MARGIN, 560, WIDTH - MARGIN, 560), fill=LINE, width=2)
    foot = wrapped(card.foot, 30, WIDTH - 2 * MARGIN, 1)
    pen.text((MARGIN, 574), foot[0] if foot else "", fill=QUIET, font=_font(30))
    return _png(picture)


def _odds(pen: ImageDraw.ImageDraw, odds: Sequence[tuple[str, int]]) -> None:
    (left, share), (right, other) = odds
    end = WIDTH - MARGIN
    split = MARGIN + (end - MARGIN) * share // max(1, share + other)
    pen.rounded_rectangle((MARGIN, 506, end, 530), 12, fill=TONES[1])
    if split > MARGIN + 24:
        pen.rounded_rectangle((MARGIN, 506, split, 530), 12, fill=TONES[0])
    for label, value, x, anchor, tone in ((left, share, MARGIN, "ls", TONES[0]), (right, other, end, "rs", TONES[1])):
        (name, *_) = wrapped(label, 40, (end - MARGIN) // 2 - 160, 1) or [""]
        text = f"{name} {value // 10}.{value % 10}%"
        pen.text((x, 484), text, fill=tone, font=_font(40), anchor=anchor, stroke_width=1, stroke_fill=tone)


def wrapped(text: str, size: int, width: int, most: int) -> list[str]:
    """Wrap text into at most `most` lines of at most `width` pixels. Text that does not fit is cut off and marked with
    three dots."""
    font = _font(size)
    lines: list[str] = []
    for word in text.split():
        if lines and font.getlength(f"{lines[-1]} {word}") <= width:
            lines[-1] += f" {word}"
        else:
            lines.append(word)
        if len(lines) > most:
            break
    cut = len(lines) > most
    lines = lines[:most]
    for at, line in enumerate(lines):
        last = cut and at == most - 1
        kept = line
        while kept and font.getlength(kept + ("..." if last or kept != line else "")) > width:
            kept = kept[:-1]
        lines[at] = kept.rstrip() + ("..." if last or kept != line else "")
    return lines


@cache
def draw_icon(size: int) -> bytes:
    """Draw the site's mark. It fills the square, so that a phone can crop it to any shape."""
    drawn = Image.new("RGB", (size * 4, size * 4), BRAND)
    _mark(ImageDraw.Draw(drawn), 0, 0, size * 4, rounded=False)
    return _png(drawn.resize((size, size), Image.Resampling.LANCZOS))


def _mark(pen: ImageDraw.ImageDraw, x: int, y: int, size: int, *, rounded: bool = True) -> None:
    pen.rounded_rectangle((x, y, x + size, y + size), size * 7 // 32 if rounded else 0, fill=BRAND)
    points = [(x + at * size / 32, y + down * size / 32) for at, down in MARK]
    width = max(2, size * 3 // 32)
    pen.line(points, fill=ON_BRAND, width=width, joint="curve")
    for at, down in (points[0], points[-1]):
        pen.ellipse((at - width / 2, down - width / 2, at + width / 2, down + width / 2), fill=ON_BRAND)


@cache
def _font(size: int) -> ImageFont.FreeTypeFont:
    font = ImageFont.load_default(size)
    assert isinstance(font, ImageFont.FreeTypeFont), "Pillow is built with FreeType"
    return font


def _png(picture: Image.Image) -> bytes:
    file = io.BytesIO()
    picture.quantize(COLOURS, dither=Image.Dither.NONE).save(file, "PNG", optimize=True)
    return file.getvalue()


PNG = "image/png"
CACHE = "public, max-age=300"
ICON_CACHE = "public, max-age=86400"
FRESH_SECONDS = 60.0
CACHED_BYTES = 16_000_000
# The most waiting requests, in total and from one address. Others get a Retry-After, and crawlers come back.
MAX_WAITING, MAX_WAITING_EACH = 16, 4
SITE = ShareCard("Prediction markets you can verify on chain", foot="Your promised payout only rises")
STATES = {"closed": "Closed, being settled", "resolved": "Resolved", "void": "Void: every stake is returned"}


class SharePictures:
    """The share cards and icons. `caller` returns the address that sent a request. Requests are limited by address, so
    that no address can fill the queue."""

    def __init__(self, stock: StockReads, agent: AgentReads | None, caller: Callable[[web.Request], str]) -> None:
        self._stock = stock
        self._agent = agent
        self._caller = caller
        self._pictures: VersionedCache[str, Rendered] = VersionedCache(CACHED_BYTES, lambda picture: picture.size)
        self._drawing = asyncio.Lock()
        self._places = ConcurrencyLimiter(MAX_WAITING, MAX_WAITING_EACH)

    async def site(self, request: web.Request) -> web.StreamResponse:
        async def card() -> ShareCard:
            return SITE

        return (await self._picture(request, "", card)).response(request)

    async def stock_market(self, request: web.Request) -> web.StreamResponse:
        name = request.match_info["id"]
        detail, _ = await self._stock.shown(name)  # an unknown name must raise before the cache gets an entry

        async def card() -> ShareCard:
            return stock_card(detail)

        return (await self._picture(request, f"/m/{name}", card)).response(request)

    async def agent_market(self, request: web.Request) -> web.StreamResponse:
        reads, name = self._agent, request.match_info["id"]
        assert reads is not None, "routed only where agent markets are served"
        await reads.result_of(name)

        async def card() -> ShareCard:
            bundle = exact(await reads.research_bundle(name))
            return agent_card(bundle["market"], exact(await reads.result_of(name)))

        return (await self._picture(request, f"/markets/{name}", card)).response(request)

    @staticmethod
    async def icon(request: web.Request) -> web.StreamResponse:
        return Rendered(draw_icon(int(request.match_info["size"])), ICON_CACHE, content_type=PNG).response(request)

    async def _picture(self, request: web.Request, name: str, card: Callable[[], Awaitable[ShareCard]]) -> Rendered:
        """Return this minute's picture. Concurrent requests share one drawing. Until the drawing is done, it counts
        against the limit of the address that asked first."""
        caller = self._caller(request)

        async def draw() -> Rendered:
            with self._places.place(caller):
                async with self._drawing:
                    return Rendered(await asyncio.to_thread(draw_card, await card()), CACHE, content_type=PNG)

        try:
            return await self._pictures.get(name, _minute, draw)
        except LimiterFull as none:
            raise none.refusal(
                f"At most {MAX_WAITING_EACH} pictures can be requested at once from one address, and at most a third "
                "of all pictures from one network; try again in a few seconds.",
                "Too many pictures are being drawn; try again in a few seconds.",
                seconds=5,
            ) from None


def _minute() -> int:
    return int(time.monotonic() // FRESH_SECONDS)


def stock_card(detail: MarketDetailBody) -> ShareCard:
    market = detail.market
    pools = [int(book.principal) for book in detail.books]
    up = pools[0] * 1000 // sum(pools) if any(pools) else 500
    if market.winner:
        foot = f"Settled: {market.winner}"
    elif market.phase == "void":
        foot = STATES["void"]
    else:
        foot = f"Betting ends {figures.moment(market.final_time)}"
    return ShareCard(market.question, (("UP", up), ("DOWN", 1000 - up)), foot)


def agent_card(market: Json, result: Json) -> ShareCard:
    """Make an agent market's card. Odds are omitted if there are more than two outcomes."""
    odds: tuple[tuple[str, int], ...] = ()
    if market["odds"] is not None and market["odds"]["yesPriceCents"] is not None:
        first = int(market["odds"]["yesPriceCents"] * 10)
        odds = ((market["outcomes"][0]["label"], first), (market["outcomes"][1]["label"], 1000 - first))
    foot = f"Betting ends {figures.moment(figures.unix(market['deadlineAt']))}"
    if market["opensAt"] is not None:
        foot = f"Betting opens {figures.moment(figures.unix(market['opensAt']))}"
    elif market["status"] != "open":
        label = result.get("resolvedOutcomeLabel")
        foot = STATES[market["status"]] + (f": {label}" if market["status"] == "resolved" and label else "")
    return ShareCard(market["question"], odds, foot)
