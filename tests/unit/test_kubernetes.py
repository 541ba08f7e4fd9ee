"""examples/kubernetes: valid by the schemas of Kubernetes, and in step with the image and the service."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import kubernetes_validate
import pytest
import yaml

from simhbase.cli.serve import PORT, serve
from simhbase.cli.tables import create
from simhbase.online.endpoints import ENDPOINTS
from simhbase.online.service import READY_SECONDS

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "examples" / "kubernetes"
NAMES = ("hbase.yaml", "rocksdb.yaml")
VERSIONS = ("1.30", kubernetes_validate.latest_version())


def documents(name: str) -> list[Any]:
    return list(yaml.safe_load_all((FOLDER / name).read_text("utf-8")))


@pytest.fixture(params=NAMES)
def manifests(request: pytest.FixtureRequest) -> dict[str, Any]:
    """The manifests of a file, by their kind."""
    return {each["kind"]: each for each in documents(request.param)}


@pytest.fixture
def pod(manifests: dict[str, Any]) -> Any:
    """The template of the pods."""
    (workload,) = (manifests[kind] for kind in ("Deployment", "StatefulSet") if kind in manifests)
    return workload["spec"]["template"]


@pytest.fixture
def container(pod: Any) -> Any:
    (found,) = pod["spec"]["containers"]
    return found


def test_manifests_follow_the_schemas_of_kubernetes(manifests: dict[str, Any]) -> None:
    for version in VERSIONS:
        for each in manifests.values():
            kubernetes_validate.validate(each, version, strict=True)


def test_the_validator_finds_a_misspelt_field() -> None:
    (workload, *_) = documents("hbase.yaml")
    (container,) = workload["spec"]["template"]["spec"]["containers"]
    container["readinessprobe"] = container.pop("readinessProbe")
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(workload, VERSIONS[-1], strict=True)


def test_selectors_find_the_pods(manifests: dict[str, Any], pod: Any) -> None:
    labels = pod["metadata"]["labels"]
    for kind, each in manifests.items():
        selector = each["spec"]["podSelector" if kind == "NetworkPolicy" else "selector"]
        assert (selector if kind == "Service" else selector["matchLabels"]) == labels
    (port,) = manifests["Service"]["spec"]["ports"]
    (own,) = pod["spec"]["containers"][0]["ports"]
    assert (port["targetPort"], own["containerPort"]) == (own["name"], PORT)


def test_probes_and_annotations_name_what_the_service_answers(pod: Any, container: Any) -> None:
    open_to_all = {each.path for each in ENDPOINTS if each.role is None}
    probes = {name: container[f"{name}Probe"]["httpGet"] for name in ("startup", "liveness", "readiness")}
    assert {name: probe["path"] for name, probe in probes.items()} == {
        "startup": "/healthz",
        "liveness": "/healthz",
        "readiness": "/readyz",
    }
    assert {probe["path"] for probe in probes.values()} <= open_to_all
    assert {probe["port"] for probe in probes.values()} == {container["ports"][0]["name"]}
    assert container["readinessProbe"]["timeoutSeconds"] > READY_SECONDS
    annotations = pod["metadata"]["annotations"]
    assert annotations["prometheus.io/port"] == str(PORT)
    assert annotations["prometheus.io/path"] in {each.path for each in ENDPOINTS}


def test_pods_run_commands_that_there_are(pod: Any, container: Any) -> None:
    name, *options = container["args"]
    assert name == "serve"
    given = serve.make_context("serve", options, resilient_parsing=True).params
    assert given["host"] == "0.0.0.0"
    assert str(given["token_file"]).startswith(container["volumeMounts"][-2]["mountPath"])
    assert pod["spec"]["terminationGracePeriodSeconds"] > given["timeout"] + 5
    for before in pod["spec"].get("initContainers", []):
        assert before["args"] == ["tables", create.name]
    (store,) = (each["value"] for each in container["env"] if each["name"] == "SIMHBASE_STORE")
    assert store.partition(":")[0] in ("hbase", "rocksdb")


def test_pods_fit_the_image(pod: Any, container: Any) -> None:
    image = (ROOT / "docker" / "service" / "Dockerfile").read_text("utf-8")
    (user,) = map(int, re.findall(r"useradd --system --uid (\d+)", image))
    context = pod["spec"]["securityContext"]
    assert (context["runAsUser"], context["fsGroup"]) == (user, user)
    volumes = {each["name"]: each for each in pod["spec"]["volumes"]}
    assert volumes["tokens"]["secret"] == {"secretName": "simhbase-tokens", "defaultMode": 0o440}
    assert container["image"].partition(":")[0].endswith("/simhbase-service")


def test_pods_are_asked_at_their_port_and_ask_their_store_alone(
    manifests: dict[str, Any], container: Any
) -> None:
    policy = manifests["NetworkPolicy"]["spec"]
    assert policy["policyTypes"] == ["Ingress", "Egress"]
    assert policy["ingress"] == [{"ports": [{"port": container["ports"][0]["name"]}]}]
    (store,) = (each["value"] for each in container["env"] if each["name"] == "SIMHBASE_STORE")
    if store.startswith("rocksdb:"):
        assert policy["egress"] == []
        return
    names, gateways = policy["egress"]
    assert {each["port"] for each in names["ports"]} == {53}
    address = urlsplit(store)
    assert [each["port"] for each in gateways["ports"]] == [
        address.port,
        int(parse_qs(address.query)["thrift2"][0]),
    ]
    (where,) = gateways["to"]
    namespace = where["namespaceSelector"]["matchLabels"]["kubernetes.io/metadata.name"]
    assert address.hostname == f"thrift.{namespace}.svc"


def test_an_embedded_store_has_one_pod() -> None:
    (workload, *_) = documents("rocksdb.yaml")
    assert (workload["kind"], workload["spec"]["replicas"]) == ("StatefulSet", 1)
    (claim,) = workload["spec"]["volumeClaimTemplates"]
    assert claim["spec"]["accessModes"] == ["ReadWriteOncePod"]
    (container,) = workload["spec"]["template"]["spec"]["containers"]
    mounts = {each["name"]: each["mountPath"] for each in container["volumeMounts"]}
    assert container["env"][0]["value"].startswith(f"rocksdb:{mounts[claim['metadata']['name']]}/")
