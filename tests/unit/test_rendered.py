"""An endpoint's bodies: rendered once per version, large ones too."""

from __future__ import annotations

from aiohttp.test_utils import make_mocked_request

from api.caching import CACHED_BYTES, RenderedCache


async def test_a_body_is_rendered_once_per_version_and_a_large_one_leaves_room_for_others() -> None:
    now, made = 0, 0
    bodies = RenderedCache(lambda: now, "public, max-age=15")

    def render() -> bytes:
        nonlocal made
        made += 1
        return b"{}"

    async def render_large() -> bytes:
        return render() * (CACHED_BYTES // 4)

    request = make_mocked_request("GET", "/positions")
    for _ in range(2):
        for each in range(20):
            await bodies.answer(request, each, render)
        await bodies.answer(request, "large", render_large)
    assert made == 21
    now = 1
    await bodies.answer(request, 0, render)
    assert made == 22
