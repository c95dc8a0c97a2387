"""The container image, the compose file and the Kubernetes base, as far as they can be checked without an engine."""

from __future__ import annotations

import importlib.metadata
import ipaddress
import json
import os
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import kubernetes_validate
import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from api.agent.notices.sending import LOWEST_OPEN_PORT, WEB_PORTS
from api.app import SHUTDOWN_SECONDS
from core.config import loading
from core.config.settings import Settings
from core.errors import EXIT_CONFIG
from core.paths import REPOSITORY
from keeper.sources import ONE, Bounds, ChainlinkSource, HttpSource, load_sources
from scripts._vpm.cli import COMMANDS
from tests.support.image import instructions
from tests.support.pins import Pin, pins

FILES = REPOSITORY / "deployments"
DOCKERFILE = (FILES / "docker" / "Dockerfile").read_text()
COMPOSE = FILES / "compose" / "compose.yaml"
BASE = FILES / "kubernetes" / "base"
KUBERNETES = "1.33"
DAEMONS = {"api": 8401, "indexer": 8402, "keeper": 8403, "relayer": 8404}


def known(name: str) -> bool:
    return name in loading.known_variables()


def test_every_variable_that_is_set_exists() -> None:
    settings = (BASE / "settings.env").read_text().splitlines()
    for name in (*re.findall(r"\b(VPM_[A-Z_]+)=", DOCKERFILE), *(line.split("=")[0] for line in settings)):
        assert known(name), name


# ---------------------------------------------------------------- the image


def test_every_path_the_image_copies_exists_and_is_let_through() -> None:
    ignore = (FILES / "docker" / "Dockerfile.dockerignore").read_text().splitlines()
    allowed = {line[1:] for line in ignore if line.startswith("!")}
    copied = [words for name, words in instructions() if name == "COPY" and "--from" not in words]
    assert len(copied) > 8
    for words in copied:
        *sources, _ = words.split()
        for source in sources:
            assert (REPOSITORY / source).exists(), f"{source} is copied and does not exist"
            assert source in allowed, f"{source} is copied and left out by the .dockerignore"
    assert "*" in ignore
    assert not {one for one in allowed if not (REPOSITORY / one).exists()}


def test_the_image_is_small_non_root_and_read_only_friendly() -> None:
    parsed = instructions()
    assert [words for name, words in parsed if name == "USER"] == ["10001:10001"]
    assert sum(name == "FROM" for name, _ in parsed) == 2
    assert "slim" in DOCKERFILE
    assert "PYTHONDONTWRITEBYTECODE=1" in DOCKERFILE
    assert "--require-hashes" in DOCKERFILE
    assert ("STOPSIGNAL", "SIGTERM") in parsed
    names = {name for name, _ in parsed}
    assert {"HEALTHCHECK", "ENTRYPOINT", "CMD"} <= names
    assert not re.search(r"(?i)(password|secret|private_key)\s*=", DOCKERFILE)


def test_the_images_entry_point_is_real() -> None:
    (entry,) = (json.loads(words) for name, words in instructions() if name == "ENTRYPOINT")
    assert entry == ["python", "-m", "scripts._vpm.cli"]
    (default,) = (json.loads(words) for name, words in instructions() if name == "CMD")
    assert default[0] in COMMANDS


def _pinned(lock: Path) -> dict[tuple[str, str], Pin]:
    return {(pin.name, pin.version): pin for pin in pins(lock)}


def test_the_images_packages_are_those_of_the_lock() -> None:
    """deployments/docker/requirements.txt is requirements.lock without what only development needs."""
    image, lock = _pinned(FILES / "docker" / "requirements.txt"), _pinned(REPOSITORY / "requirements.lock")
    for wanted, pin in image.items():
        assert wanted in lock, f"{pin.name} is in the image and not in requirements.lock"
        assert pin.hashes == lock[wanted].hashes, f"{pin.name} has other hashes than in requirements.lock"
        assert pin.hashes, f"{pin.name} has no hash"
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]["dependencies"]
    present = {name for name, _ in image}
    for each in project:
        assert Requirement(each).name in present, f"{each} is not in the image"
    assert not present & {"pytest", "eth-ape", "hypothesis", "mypy", "playwright"}


def test_the_packages_of_the_key_service_are_those_of_the_lock_and_complete() -> None:
    """Together with the image's own, they are all that the extra needs, directly or through others."""
    added, lock = _pinned(FILES / "docker" / "requirements-aws.txt"), _pinned(REPOSITORY / "requirements.lock")
    assert added
    for each, pin in added.items():
        assert pin == lock[each], f"{pin.name} is not as in requirements.lock"
    image = _pinned(FILES / "docker" / "requirements.txt")
    assert not added.keys() & image.keys()
    new = {name for name, _ in added}
    present = new | {name for name, _ in image}
    wanted = [Requirement(each) for each in _extra("aws")]
    while wanted:
        one = wanted.pop()
        assert canonicalize_name(one.name) in present, f"{one} is in neither file"
        if canonicalize_name(one.name) in new:
            needs = map(Requirement, importlib.metadata.requires(one.name) or ())
            extras = one.extras or {""}
            wanted += [
                each for each in needs if not each.marker or any(each.marker.evaluate({"extra": e}) for e in extras)
            ]
    assert "requirements-aws.txt" in DOCKERFILE


def _extra(name: str) -> list[str]:
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
    return list(project["optional-dependencies"][name])


# ---------------------------------------------------------------- compose


@pytest.fixture(scope="module")
def compose() -> dict[str, Any]:
    return dict(yaml.safe_load(COMPOSE.read_text()))


def test_the_compose_file_fits_the_specification(compose: dict[str, Any]) -> None:
    schema = json.loads((REPOSITORY / "tests" / "deployment" / "compose-spec.json").read_text())
    jsonschema.validate(compose, schema)


def test_the_compose_files_daemons_are_the_command_lines(compose: dict[str, Any]) -> None:
    services = compose["services"]
    for name in (*DAEMONS, "migrate"):
        service = services[name]
        assert service["command"][0] == name
        assert service["command"][0] in COMMANDS
        assert service["read_only"] is True
        assert service["cap_drop"] == ["ALL"]
        assert service["security_opt"] == ["no-new-privileges:true"]
        assert service["env_file"] == ["vpm.env"]
        for variable in service.get("environment", {}):
            assert known(variable), variable
    for name in DAEMONS:
        assert services[name]["depends_on"]["migrate"]["condition"] == "service_completed_successfully"
        patience = int(services[name]["stop_grace_period"].removesuffix("s"))
        assert patience > Settings.model_fields["stop_grace_seconds"].default + SHUTDOWN_SECONDS


def test_keys_are_where_they_belong_and_nothing_is_published_wide(compose: dict[str, Any]) -> None:
    services = compose["services"]
    holders = [name for name, service in services.items() if "VPM_RELAYER_KEYSTORES" in service.get("environment", {})]
    assert holders == ["relayer"]
    for service in services.values():
        for port in service.get("ports", []):
            assert port.startswith("127.0.0.1:"), port
    assert "ports" not in services["postgres"]


def test_what_the_compose_file_mounts_exists_or_is_made_by_the_operator(compose: dict[str, Any]) -> None:
    for service in compose["services"].values():
        for volume in service.get("volumes", []):
            source = volume.split(":")[0]
            if source.startswith(".."):
                assert (COMPOSE.parent / source).exists(), source
    ignored = (COMPOSE.parent / ".gitignore").read_text().splitlines()
    assert {"vpm.env", ".env", "secrets/", "keystores/"} <= set(ignored)
    for secret in compose["secrets"].values():
        assert secret["file"].startswith("./secrets/")


def test_every_variable_the_compose_file_needs_is_in_its_examples(compose: dict[str, Any]) -> None:
    needed = set(re.findall(r"\$\{([A-Z_]+):\?", COMPOSE.read_text()))
    examples = [COMPOSE.parent / name for name in (".env.example", "vpm.env.example")]
    given = {line.split("=")[0] for path in examples for line in path.read_text().splitlines() if "=" in line[:60]}
    assert needed <= given
    for name in given:
        assert known(name), name
    required = {field.alias for field in Settings.model_fields.values() if field.is_required()}
    assert required <= given


def test_the_database_takes_more_connections_than_three_api_processes_and_two_of_each_daemon_open(
    compose: dict[str, Any],
) -> None:
    size = Settings.model_fields["database_pool_size"].default
    wanted = 3 * (3 * size + 6) + 2 * 3 * 10
    option = next(each for each in compose["services"]["postgres"].get("command", []) if "max_connections" in each)
    assert int(option.split("=")[1]) >= wanted + 20


def test_everything_on_one_machine_has_a_bound_and_the_daily_jobs_run(compose: dict[str, Any]) -> None:
    services = compose["services"]
    assert [name for name, service in services.items() if "mem_limit" not in service] == []
    redis, dumping = services["redis"], services["backup"]
    bound = int(redis["command"][redis["command"].index("--maxmemory") + 1].removesuffix("mb"))
    assert bound < int(redis["mem_limit"].removesuffix("m"))
    assert "VPM_LIMITS_STORAGE_URL=redis://redis:6379" in (COMPOSE.parent / "vpm.env.example").read_text()
    assert "scripts._vpm.cli audit" in services["audit"]["entrypoint"][-1]
    assert "/backup.sh /backups" in dumping["entrypoint"][-1]
    assert "./backups:/backups" in dumping["volumes"]
    assert "backups/" in (COMPOSE.parent / ".gitignore").read_text().splitlines()


# ---------------------------------------------------------------- systemd

SYSTEMD = FILES / "systemd"
UNITS = sorted(path for path in SYSTEMD.rglob("*") if path.is_file())


def test_the_units_set_variables_and_run_commands_that_exist() -> None:
    for path in UNITS:
        text = path.read_text()
        given = " ".join(re.findall(r"^Environment=(.*)$", text, re.MULTILINE)).split()
        for variable in (each.partition("=")[0] for each in given):
            assert variable.startswith("PYTHON") or known(variable), f"{path.name}: {variable}"
        for command in re.findall(r"^ExecStart=\S+ -m scripts\._vpm\.cli (\S+)$", text, re.MULTILINE):
            assert command in (*COMMANDS, "%i")
        for script in re.findall(r"^ExecStart=/opt/vpm/(deployments/\S+)", text, re.MULTILINE):
            assert os.access(REPOSITORY / script, os.X_OK)
        for credential in re.findall(r"%d/(\w+)", text):
            assert f"LoadCredential={credential}:" in text
        assert ("keystore" in text) == (path.parent.name == "vpm@relayer.service.d"), "only the relayer is given keys"
    daemon = (SYSTEMD / "vpm@.service").read_text()
    stops_after = int(re.findall(r"TimeoutStopSec=(\d+)", daemon)[0])
    assert stops_after > Settings.model_fields["stop_grace_seconds"].default + SHUTDOWN_SECONDS
    assert f"RestartPreventExitStatus={EXIT_CONFIG}" in daemon
    for path in UNITS:
        if path.suffix == ".service":
            for bound in ("MemoryMax=", "NoNewPrivileges=yes", "ProtectSystem=strict", "User=vpm"):
                assert bound in path.read_text(), path.name


# ---------------------------------------------------------------- the keeper's sources


def test_the_keeper_is_given_its_sources_everywhere(compose: dict[str, Any]) -> None:
    keeper = compose["services"]["keeper"]
    file = Path(keeper["environment"]["VPM_KEEPER_SOURCES_FILE"])
    assert [volume.split(":")[1:] for volume in keeper["volumes"]] == [[str(file.parent), "ro"]]
    assert "keeper/" in (COMPOSE.parent / ".gitignore").read_text().splitlines()
    (spec,) = (each["spec"]["template"]["spec"] for each in PODS if each["metadata"]["name"] == "keeper")
    (container,) = spec["containers"]
    assert {"name": "VPM_KEEPER_SOURCES_FILE", "value": str(file)} in container["env"]
    (mount,) = (mount for mount in container["volumeMounts"] if mount["mountPath"] == str(file.parent))
    (volume,) = (volume for volume in spec["volumes"] if volume["name"] == mount["name"])
    listed = yaml.safe_load((BASE / "kustomization.yaml").read_text())
    (generator,) = (each for each in listed["configMapGenerator"] if each["name"] == volume["configMap"]["name"])
    assert generator["files"] == [file.name]


def test_the_example_of_sources_can_be_loaded(tmp_path: Path) -> None:
    example = FILES / "sources.example.toml"
    assert load_sources(None) == load_sources(example) == load_sources(BASE / "sources.toml") == {}
    _, _, entry = example.read_text().partition("#\n")
    shown = tmp_path / "sources.toml"
    shown.write_text("\n".join(line.removeprefix("#").removeprefix(" ") for line in entry.splitlines()))
    observed = load_sources(shown)["BNKR/market_cap"]
    assert [type(each) for each in observed.sources] == [HttpSource, ChainlinkSource]
    assert observed.bounds == Bounds(10**6 * ONE, 5 * 10**9 * ONE, 3_000, 200)


# ---------------------------------------------------------------- Kubernetes


def _documents() -> Iterator[dict[str, Any]]:
    listed = yaml.safe_load((BASE / "kustomization.yaml").read_text())
    for name in listed["resources"]:
        yield from yaml.safe_load_all((BASE / name).read_text())


DOCUMENTS = list(_documents())
# Everything that makes pods; a CronJob as its job.
PODS = [
    {**each, **each["spec"]["jobTemplate"]} if each["kind"] == "CronJob" else each
    for each in DOCUMENTS
    if each["kind"] in ("Deployment", "Job", "CronJob")
]


def test_the_base_lists_every_file_there_is() -> None:
    listed = yaml.safe_load((BASE / "kustomization.yaml").read_text())
    present = {path.name for path in BASE.glob("*.yaml")} - {"kustomization.yaml"}
    assert set(listed["resources"]) == present
    for generator in listed["configMapGenerator"]:
        assert all((BASE / name).exists() for name in (*generator.get("envs", ()), *generator.get("files", ())))


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda each: f"{each['kind']}-{each['metadata']['name']}")
def test_every_manifest_fits_kubernetes_own_schema(document: dict[str, Any]) -> None:
    kubernetes_validate.validate(document, KUBERNETES, strict=True)


@pytest.mark.parametrize("document", PODS, ids=lambda each: each["metadata"]["name"])
def test_every_pod_is_locked_down_and_runs_a_real_command(document: dict[str, Any]) -> None:
    spec = document["spec"]["template"]["spec"]
    assert spec["securityContext"]["runAsNonRoot"] is True
    assert spec["securityContext"]["runAsUser"] == 10001
    assert spec["automountServiceAccountToken"] is False
    (container,) = spec["containers"]
    assert container["image"] == "vpm"
    assert container["args"][0] in COMMANDS
    locked = container["securityContext"]
    assert locked["readOnlyRootFilesystem"] is True
    assert locked["allowPrivilegeEscalation"] is False
    assert locked["capabilities"] == {"drop": ["ALL"]}
    assert "memory" in container["resources"]["limits"]
    for variable in container.get("env", []):
        assert known(variable["name"]), variable["name"]
        assert "value" not in variable or variable["name"].endswith("_FILE"), "secrets are named, never written"
    mounted = {mount["name"] for mount in container["volumeMounts"]}
    assert mounted == {volume["name"] for volume in spec["volumes"]}


@pytest.mark.parametrize("name", DAEMONS)
def test_every_daemon_is_probed_spread_and_protected(name: str) -> None:
    (found,) = (each for each in DOCUMENTS if each["kind"] == "Deployment" and each["metadata"]["name"] == name)
    labels = {"app.kubernetes.io/component": name}
    assert found["spec"]["replicas"] >= (3 if name == "api" else 2)
    assert found["spec"]["selector"]["matchLabels"] == labels
    assert found["spec"]["template"]["metadata"]["labels"] == labels
    (container,) = found["spec"]["template"]["spec"]["containers"]
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    assert ports["metrics"] == DAEMONS[name]
    for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
        assert container[probe]["httpGet"]["port"] in ports
    # A node that is away makes /health fail; restarting for it would only add to the trouble.
    assert container["livenessProbe"]["httpGet"]["path"] != "/health"
    grace = found["spec"]["template"]["spec"]["terminationGracePeriodSeconds"]
    assert grace > _setting("VPM_STOP_GRACE_SECONDS") + 5
    (budget,) = (
        each for each in DOCUMENTS if each["kind"] == "PodDisruptionBudget" and each["metadata"]["name"] == name
    )
    assert budget["spec"]["selector"]["matchLabels"] == labels


def _setting(name: str) -> int:
    lines = (BASE / "settings.env").read_text().splitlines()
    return int(next(line.split("=")[1] for line in lines if line.startswith(name)))


def test_services_and_policies_point_at_pods_that_exist() -> None:
    components = {each["metadata"]["name"] for each in PODS}
    text = "\n".join((BASE / name).read_text() for name in ("network-policies.yaml", "api.yaml"))
    for component in re.findall(r"app\.kubernetes\.io/component: ([a-z-]+)", text):
        assert component in components
    policies = {each["metadata"]["name"]: each["spec"] for each in DOCUMENTS if each["kind"] == "NetworkPolicy"}
    assert policies["nothing-by-default"] == {"podSelector": {}, "policyTypes": ["Ingress", "Egress"]}


POLICIES = [each["spec"] for each in DOCUMENTS if each["kind"] == "NetworkPolicy"]
IN_CLUSTER = {"api", "keeper", "relayer", "indexer"}


def _selects(selector: dict[str, Any], component: str) -> bool:
    return selector.get("matchLabels", {}).get("app.kubernetes.io/component", component) == component


def _peer_fits(peer: dict[str, Any], other: str) -> bool:
    """Return whether the peer allows `other`: a component of ours, or an address outside."""
    if "ipBlock" in peer:
        if other in IN_CLUSTER:
            return False
        address, block = ipaddress.ip_address(other), peer["ipBlock"]
        inside = [ipaddress.ip_network(each) for each in (block["cidr"], *block.get("except", []))]
        return address in inside[0] and not any(address in each for each in inside[1:])
    return "namespaceSelector" not in peer and other in IN_CLUSTER and _selects(peer["podSelector"], other)


def _lets(component: str, direction: str, other: str, port: int) -> bool:
    """Return whether some policy of a pod lets it send to (`egress`) or be reached from (`ingress`) the other end."""
    rules = [
        rule
        for policy in POLICIES
        if direction.capitalize() in policy["policyTypes"] and _selects(policy["podSelector"], component)
        for rule in policy.get(direction, [])
    ]
    peers = "to" if direction == "egress" else "from"
    return any(
        (peers not in rule or any(_peer_fits(peer, other) for peer in rule[peers]))
        and any(each["port"] <= port <= each.get("endPort", each["port"]) for each in rule["ports"])
        for rule in rules
    )


@pytest.mark.parametrize("component", sorted(IN_CLUSTER))
@pytest.mark.parametrize(
    ("address", "port"),
    [
        ("10.96.0.1", 443),  # where a cluster's own API usually answers
        ("172.20.0.1", 443),
        ("192.168.1.1", 443),
        ("100.64.0.1", 443),
        ("169.254.169.254", 80),
        ("169.254.169.254", 443),
        ("127.0.0.1", 443),
        ("10.1.2.3", 8443),
        ("fd00::1", 443),
        ("fe80::1", 443),
        ("::ffff:10.0.0.1", 443),
        ("2002:a00:1::", 443),
    ],
)
def test_no_pod_reaches_private_addresses(component: str, address: str, port: int) -> None:
    assert not _lets(component, "egress", address, port)


def test_pods_reach_what_they_need() -> None:
    for component in IN_CLUSTER:
        assert _lets(component, "egress", "1.1.1.1", 443), f"{component} must reach its nodes"
        assert _lets(component, "egress", "10.1.2.3", 5432), f"{component} must reach PostgreSQL"
    # A webhook may be at any port that api/agent/notices/sending.py lets through.
    for port in (*WEB_PORTS, LOWEST_OPEN_PORT, 8443, 65535):
        assert _lets("api", "egress", "1.1.1.1", port), port
        assert _lets("api", "egress", "2606:4700::1111", port), port
    assert not _lets("api", "egress", "1.1.1.1", 22)
    assert not _lets("relayer", "egress", "1.1.1.1", 8443), "only the API sends to addresses that strangers name"
    # The canary.
    assert _lets("keeper", "egress", "api", 8400)
    assert _lets("api", "ingress", "keeper", 8400)
    assert not _lets("relayer", "egress", "api", 8400)


def test_the_database_cluster_loses_no_acknowledged_commit_with_one_machine() -> None:
    cluster = yaml.safe_load((BASE.parent / "postgres" / "cluster.yaml").read_text())
    schema = json.loads((REPOSITORY / "tests" / "deployment" / "cnpg-cluster.schema.json").read_text())
    jsonschema.validate(cluster, schema)
    spec = cluster["spec"]
    synchronous = spec["postgresql"]["synchronous"]
    assert synchronous["dataDurability"] == "required"
    # With one machine gone there is still a standby to wait for, so bets go on.
    assert spec["instances"] >= synchronous["number"] + 2
    assert spec["affinity"]["podAntiAffinityType"] == "required"
    assert "synchronous_commit" not in spec["postgresql"]["parameters"]
    assert cluster["metadata"]["namespace"] in (REPOSITORY / "docs" / "operate.md").read_text()


def test_the_database_cluster_is_backed_up_where_its_wal_goes() -> None:
    cluster = yaml.safe_load((BASE.parent / "postgres" / "cluster.yaml").read_text())
    store, backup = yaml.safe_load_all((BASE.parent / "postgres" / "backup.yaml").read_text())
    (plugin,) = cluster["spec"]["plugins"]
    assert plugin["isWALArchiver"] is True
    assert plugin["parameters"]["barmanObjectName"] == store["metadata"]["name"]
    assert plugin["name"] == backup["spec"]["pluginConfiguration"]["name"]
    assert backup["spec"]["cluster"]["name"] == cluster["metadata"]["name"]
    assert backup["spec"]["method"] == "plugin"
    assert len(backup["spec"]["schedule"].split()) == 6, "its schedules begin with seconds"
    for each in (store, backup):
        assert each["metadata"]["namespace"] == cluster["metadata"]["namespace"]


def test_the_pod_monitor_finds_every_daemon_and_names_it_as_the_alarms_do() -> None:
    spec = yaml.safe_load((BASE.parent / "monitoring" / "podmonitor.yaml").read_text())["spec"]
    listed = yaml.safe_load((BASE / "kustomization.yaml").read_text())
    (labels,) = listed["labels"]
    assert spec["selector"]["matchLabels"].items() <= labels["pairs"].items()
    (endpoint,) = spec["podMetricsEndpoints"]
    for document in PODS:
        if document["kind"] == "Deployment":
            ports = [
                port["name"] for each in document["spec"]["template"]["spec"]["containers"] for port in each["ports"]
            ]
            assert endpoint["port"] in ports, document["metadata"]["name"]
            labelled = document["spec"]["template"]["metadata"]["labels"]
            assert labelled["app.kubernetes.io/component"] == document["metadata"]["name"]
    assert labels["includeTemplates"], "the Deployments would have the label, and their pods not"
    assert endpoint["honorLabels"] is True
    assert {each["targetLabel"]: each["sourceLabels"] for each in endpoint["relabelings"]} == {
        "daemon": ["__meta_kubernetes_pod_label_app_kubernetes_io_component"],
        "instance": ["__meta_kubernetes_pod_name"],
    }


def test_only_the_relayer_is_given_keys() -> None:
    for document in PODS:
        text = yaml.safe_dump(document)
        name = document["metadata"]["name"]
        assert ("keystore" in text.lower()) == (name == "relayer")
        assert ("vpm-api" in text) == (name == "api")
