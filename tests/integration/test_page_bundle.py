"""The file that pages sign with is what its sources and the pinned packages make."""

from __future__ import annotations

from scripts._vpm import bundles


def test_the_bundle_is_what_its_sources_make() -> None:
    assert bundles.BUNDLE.read_bytes() == bundles.made(), "python -m scripts._vpm.bundles"
