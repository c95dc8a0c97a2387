"""Static files, which are read once. Their served names contain a hash of the content, so that clients can cache them
forever."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from aiohttp import web

from api.caching import Rendered
from api.problems import not_found

FOLDER = Path(__file__).parent / "static"
FOREVER = "public, max-age=31536000, immutable"
PREFIX = "/assets/"
_TYPES = {
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}


@dataclass(frozen=True, slots=True)
class Assets:
    """The static files by the last part of their URL paths, and the URL paths by file name."""

    urls: Mapping[str, str]
    files: Mapping[str, Rendered]

    def url(self, name: str) -> str:
        return self.urls[name]

    async def serve(self, request: web.Request) -> web.StreamResponse:
        file = self.files.get(request.match_info["name"])
        if file is None:
            raise not_found("There is no file with this name; reload the page.")
        return file.response(request)


async def load_assets() -> Assets:
    """Load the files, dependencies first, so that imports can refer to the hashed names."""
    sources = {path.name: path.read_bytes() for path in sorted(FOLDER.iterdir()) if path.suffix in _TYPES}
    urls: dict[str, str] = {}
    bodies: dict[str, bytes] = {}
    files: dict[str, Rendered] = {}

    def publish(name: str) -> str:
        if name not in urls:
            body = sources[name]
            for other in sources if name.endswith(".js") else ():
                mark = f'"./{other}"'.encode()
                if mark in body:
                    body = body.replace(mark, f'"{publish(other)}"'.encode())
            bodies[name] = body
            stem, _, suffix = name.rpartition(".")
            urls[name] = f"{PREFIX}{stem}.{hashlib.sha256(body).hexdigest()[:12]}.{suffix}"
        return urls[name]

    for name in sources:
        publish(name)
        kind = _TYPES[Path(name).suffix]
        files[urls[name].removeprefix(PREFIX)] = await Rendered.make(bodies[name], FOREVER, content_type=kind)
    return Assets(urls, files)
