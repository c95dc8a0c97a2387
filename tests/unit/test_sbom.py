"""The bill of materials: complete, with hashes, the same each time."""

from __future__ import annotations

import json
import re

from scripts._vpm import sbom


def test_every_locked_package_is_in_it_with_its_hashes() -> None:
    bill = sbom.document()
    purls = {each["purl"] for each in bill["components"]}
    pinned = re.findall(r"^([A-Za-z0-9_.-]+)==([^\s;\\]+)", sbom.PYTHON_LOCK.read_text(), re.MULTILINE)
    for name, version in pinned:
        assert f"pkg:pypi/{name}@{version}" in purls
    npm = json.loads(sbom.NPM_LOCK.read_text())["packages"]
    wanted = {path for path, entry in npm.items() if path and not entry.get("link")}
    assert sum(purl.startswith("pkg:npm/") for purl in purls) <= len(wanted)
    assert sum(purl.startswith("pkg:npm/") for purl in purls) > 10
    lengths = {"SHA-256": 64, "SHA-512": 128, "SHA-1": 40, "SHA-384": 96}
    for one in bill["components"]:
        assert one["hashes"], f"{one['purl']} has no hash"
        for digest in one["hashes"]:
            assert re.fullmatch(r"[0-9a-f]+", digest["content"])
            assert len(digest["content"]) == lengths[digest["alg"]]


def test_references_are_unique_and_resolve() -> None:
    bill = sbom.document()
    refs = [each["bom-ref"] for each in bill["components"]]
    assert len(refs) == len(set(refs))
    (root,) = bill["dependencies"]
    assert root["ref"] == bill["metadata"]["component"]["bom-ref"]
    assert set(root["dependsOn"]) == set(refs)
    assert (bill["bomFormat"], bill["specVersion"], bill["version"]) == ("CycloneDX", "1.6", 1)
    assert re.fullmatch(r"urn:uuid:[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", bill["serialNumber"])


def test_the_same_locks_give_the_same_document() -> None:
    assert json.dumps(sbom.document()) == json.dumps(sbom.document())
    assert sbom.document()["serialNumber"] != sbom.document(image_only=True)["serialNumber"]


def test_the_images_bill_is_a_part_of_the_whole() -> None:
    whole = {each["purl"] for each in sbom.document()["components"]}
    image = {each["purl"] for each in sbom.document(image_only=True)["components"]}
    assert image < whole
    assert not {purl for purl in image if "pytest" in purl or "ape" in purl.split("/")[1].split("@")[0].split("-")}
