"""`vpm sbom`: a CycloneDX bill of materials, written from the lock files alone.

The same locks give the same document, byte for byte: it has no time in it and its serial number is their hash. Standard
library only, so it runs anywhere the checkout is.
"""

from __future__ import annotations

import argparse
import base64
import hashlib
import json
import sys
import tomllib
import uuid
from pathlib import Path
from typing import Any
from urllib.parse import quote

from core.paths import REPOSITORY
from scripts._vpm.pins import pins

PYTHON_LOCK = REPOSITORY / "requirements.lock"
IMAGE_LOCK = REPOSITORY / "deployments" / "docker" / "requirements.txt"
NPM_LOCK = REPOSITORY / "package-lock.json"
_NAMESPACE = uuid.UUID("6ba7b811-9dad-11d1-80b4-00c04fd430c8")  # RFC 9562's for URLs
_ALGORITHMS = {"sha256": "SHA-256", "sha512": "SHA-512", "sha1": "SHA-1", "sha384": "SHA-384"}

Component = dict[str, Any]


def document(*, image_only: bool = False) -> dict[str, Any]:
    """The whole bill. image_only: what the container image holds, without development's tools and npm packages."""
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
    locks = [IMAGE_LOCK] if image_only else [PYTHON_LOCK, NPM_LOCK]
    digest = hashlib.sha256(b"\0".join(path.read_bytes() for path in locks)).hexdigest()
    components = python_components(locks[0]) + ([] if image_only else npm_components(NPM_LOCK))
    name = f"pkg:generic/{project['name']}@{project['version']}"
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{uuid.uuid5(_NAMESPACE, digest)}",
        "version": 1,
        "metadata": {
            "component": {
                "type": "application",
                "bom-ref": name,
                "name": project["name"],
                "version": project["version"],
                "description": project["description"],
                "licenses": [{"license": {"id": project["license"]}}],
                "purl": name,
            }
        },
        "components": components,
        "dependencies": [{"ref": name, "dependsOn": [each["bom-ref"] for each in components]}],
    }


def python_components(lock: Path) -> list[Component]:
    """One component for each pinned version; the hashes are those of every file it may be installed from."""
    by_purl: dict[str, Component] = {}
    for pin in pins(lock):
        purl = f"pkg:pypi/{quote(pin.name)}@{quote(pin.version)}"
        hashes = [each.split(":") for each in pin.hashes]
        by_purl[purl] = _component(pin.name, pin.version, purl, [(kind, value) for kind, value in hashes])
    return [by_purl[purl] for purl in sorted(by_purl)]


def npm_components(lock: Path) -> list[Component]:
    by_purl: dict[str, Component] = {}
    for path, entry in json.loads(lock.read_text())["packages"].items():
        if not path or entry.get("link"):
            continue
        name, version = entry.get("name") or path.rpartition("node_modules/")[2], entry["version"]
        purl = f"pkg:npm/{quote(name, safe='/').replace('@', '%40')}@{quote(version)}"
        hashes = []
        for one in entry.get("integrity", "").split():
            kind, _, value = one.partition("-")
            hashes.append((kind, base64.b64decode(value).hex()))
        component = _component(name, version, purl, hashes)
        if isinstance(entry.get("license"), str):
            component["licenses"] = [{"expression": entry["license"]}]
        by_purl[purl] = component
    return [by_purl[purl] for purl in sorted(by_purl)]


def _component(name: str, version: str, purl: str, hashes: list[tuple[str, str]]) -> Component:
    said = [{"alg": _ALGORITHMS[kind], "content": value} for kind, value in sorted(set(hashes))]
    return {"type": "library", "bom-ref": purl, "name": name, "version": version, "purl": purl, "hashes": said}


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="vpm sbom")
    parser.add_argument("--image", action="store_true", help="only what the container image holds")
    parser.add_argument("--output", type=Path, help="a file instead of the terminal")
    options = parser.parse_args(argv)
    text = json.dumps(document(image_only=options.image), indent=2) + "\n"
    if options.output is None:
        sys.stdout.write(text)
    else:
        options.output.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
