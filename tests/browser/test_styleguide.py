"""Every component in all its states looks as it was last looked at and kept."""

from __future__ import annotations

import pytest

from tests.browser.conftest import Scheme, Size, Visitor
from tests.browser.kept import LOOKS, RENEW, kept, take
from tests.browser.site import Site
from tests.support.pictures import difference


@pytest.mark.parametrize(("size", "scheme"), LOOKS)
def test_components_look_as_kept(site: Site, visitor: Visitor, size: Size, scheme: Scheme) -> None:
    taken, before = take(visitor, size, scheme), kept(size, scheme)
    assert set(taken.boxes) == set(before.boxes), f"other components than those kept; look at them, then {RENEW}"
    found = {name: difference(before.part(name), taken.part(name)) for name in before.boxes}
    apart = [f"{name}: {what}" for name, what in found.items() if what is not None]
    why = ""
    if taken.made_with != before.made_with:
        why = f" This browser and its font are {taken.made_with}, those of the kept pictures {before.made_with}."
    assert not apart, f"{size}, {scheme}: {'; '.join(apart)}.{why} Look at /styleguide; if it is right, {RENEW}"
