"""The comparison of pictures finds what a person would see, and passes over what nobody does."""

from __future__ import annotations

from PIL import Image, ImageDraw

from tests.support.pictures import difference


def _page(colour: str = "#2643b8", shift: float = 0.0, height: int = 200) -> Image.Image:
    picture = Image.new("RGB", (300, height), "#faf9f6")
    pen = ImageDraw.Draw(picture)
    pen.rectangle((20, 20, 140, 60), fill=colour)
    for line in range(6):
        pen.line((20, 90 + 14 * line + shift, 260, 90 + 14 * line + shift), fill="#1a1c20")
    return picture


def test_what_nobody_sees_is_the_same() -> None:
    assert difference(_page(), _page()) is None
    assert difference(_page(), _page("#2846bb")) is None
    assert difference(_page(), _page(height=203)) is None


def test_what_a_person_sees_is_told() -> None:
    assert "squares have another colour" in str(difference(_page(), _page("#a8361f")))
    assert "and was 300 by 200" in str(difference(_page(), _page(height=230)))
