"""The files that pages load are what their sources and the pinned packages make."""

from __future__ import annotations

import pytest

from scripts._vpm import bundles


@pytest.mark.parametrize("name", bundles.SOURCES)
@pytest.mark.thorough
def test_a_bundle_is_what_its_sources_make(name: str) -> None:
    assert (bundles.STATIC / name).read_bytes() == bundles.build(name), "python -m scripts._vpm.bundles"
