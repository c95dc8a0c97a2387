"""The style guide's pictures in tests/browser/pictures, and the browser and the font they were taken with.

`./vpm screenshots -k styleguide` takes them again.
"""

from __future__ import annotations

import io
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from PIL import Image

from api.web.styleguide import NOW
from tests.browser.conftest import Scheme, Size, Visitor

FOLDER = Path(__file__).parent / "pictures"
RENEW = "./vpm screenshots -k styleguide"
LOOKS: tuple[tuple[Size, Scheme], ...] = (
    ("desktop", "light"),
    ("desktop", "dark"),
    ("phone", "light"),
    ("phone", "dark"),
)
COLOURS = 128
BOXES = """
() => Object.fromEntries([...document.querySelectorAll("[data-specimen]")].map((each) => {
  const { left, top, right, bottom } = each.getBoundingClientRect();
  return [each.dataset.specimen, [left, top + scrollY, right, bottom + scrollY].map(Math.round)];
}))
"""
# How wide some letters are tells one font from another.
FONT = """
() => {
  const pen = document.createElement("canvas").getContext("2d");
  pen.font = getComputedStyle(document.body).font;
  return Math.round(pen.measureText("Every stake, price reading and payout 0123456789").width);
}
"""


@dataclass(frozen=True)
class Taken:
    """The whole page, where each component stands on it, and what it was taken with."""

    picture: Image.Image
    boxes: dict[str, list[int]]
    made_with: dict[str, Any]

    def part(self, name: str) -> Image.Image:
        left, top, right, bottom = self.boxes[name]
        return self.picture.crop((left, top, right, bottom))


def take(visitor: Visitor, size: Size, scheme: Scheme) -> Taken:
    visit = visitor.visit(size, scheme, timezone_id="UTC", reduced_motion="reduce", device_scale_factor=1)
    page = visit.page
    page.clock.set_fixed_time(NOW * 1000)
    visit.open("/styleguide")
    page.evaluate("document.fonts.ready")
    shot = page.screenshot(full_page=True, animations="disabled", caret="hide")
    browser = page.context.browser
    made_with = {"chromium": browser.version if browser else "", "letters": page.evaluate(FONT)}
    visit.clean()
    return Taken(Image.open(io.BytesIO(shot)).convert("RGB"), page.evaluate(BOXES), made_with)


def keep(taken: Taken, size: Size, scheme: Scheme) -> None:
    FOLDER.mkdir(exist_ok=True)
    small = taken.picture.quantize(COLOURS, dither=Image.Dither.NONE)
    small.save(FOLDER / f"{size}-{scheme}.png", "PNG", optimize=True)
    told = {"boxes": taken.boxes, "madeWith": taken.made_with}
    (FOLDER / f"{size}-{scheme}.json").write_text(json.dumps(told, indent=2) + "\n")


def kept(size: Size, scheme: Scheme) -> Taken:
    told = json.loads((FOLDER / f"{size}-{scheme}.json").read_text())
    with Image.open(FOLDER / f"{size}-{scheme}.png") as picture:
        return Taken(picture.convert("RGB"), told["boxes"], told["madeWith"])
