"""Pictures of a page beside the kept ones: the same to a person, whatever a browser does to the edges of letters."""

from __future__ import annotations

from PIL import Image, ImageChops

# Squares of so many pixels are compared by their mean colour: a line that is drawn half a pixel lower is the same.
CELL = 8
# A square that differs by more in any channel is another; this many of them, in a part of the page, are a difference.
OTHER = 32
MAX_OTHERS = 12
MAX_HIGHER = 6


def difference(kept: Image.Image, taken: Image.Image) -> str | None:
    """What is different in words; None when a person would call it the same."""
    if abs(kept.width - taken.width) > MAX_HIGHER or abs(kept.height - taken.height) > MAX_HIGHER:
        return f"it is {taken.width} by {taken.height} pixels and was {kept.width} by {kept.height}"
    box = (0, 0, min(kept.width, taken.width), min(kept.height, taken.height))
    one, other = (each.convert("RGB").crop(box).reduce(CELL) for each in (kept, taken))
    red, green, blue = ImageChops.difference(one, other).split()
    most = ImageChops.lighter(ImageChops.lighter(red, green), blue)
    apart = [value > OTHER for value in most.tobytes()]
    count = sum(apart)
    if count <= MAX_OTHERS:
        return None
    first = apart.index(True)
    x, y = first % one.width * CELL, first // one.width * CELL
    return (
        f"{count} of {len(apart)} squares have another colour, the first {x} pixels from the left and {y} from the top"
    )
