"""The image and its composition: free of lint, and the same HBase that scripts/hbase starts."""

import json
import re
import runpy
import subprocess
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from ruamel.yaml import YAML

ROOT = Path(__file__).parents[2]
DOCKER = ROOT / "docker"
DOCKERFILE = (DOCKER / "hbase" / "Dockerfile").read_text()
SITE = DOCKER / "hbase" / "conf" / "hbase-site.xml"
SCRIPT = runpy.run_path(str(ROOT / "scripts" / "hbase"))
STANDALONE = SCRIPT["MODES"]["standalone"]

PLACES = {"folder": "/var/lib/hbase", "jars": "/opt/hbase/jars"}
PORTS = {"zookeeper": 2181, "thrift-1": 9090, "thrift2": 9091}
SERVICES = {"hbase": "master", "thrift": "thrift-1", "thrift2": "thrift2"}


def run(*command: object) -> None:
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture(scope="module")
def services() -> dict[str, dict[str, Any]]:
    return YAML(typ="safe").load(DOCKER / "compose.yaml")["services"]


def exec_form(instruction: str) -> list[str]:
    """The arguments of an instruction of the Dockerfile that is written as a JSON list."""
    (text,) = re.findall(rf"^{instruction} (\[[^\]]*\])", DOCKERFILE, flags=re.MULTILINE)
    return json.loads(text.replace("\\\n", ""))


def script_command(name: str) -> list[str]:
    """How the script starts a process, in the places and with the ports of the image."""
    folder, jars = Path(PLACES["folder"]), Path(PLACES["jars"])
    cluster = SCRIPT["Cluster"](folder, "standalone", {"master": 1, "regionserver": 2} | PORTS, {})
    command = SCRIPT["java_command"](cluster, cluster.role(name), "java", jars)
    moved = {
        str(SCRIPT["SETUP"]): "/opt/hbase",
        str(folder / "conf"): "/opt/hbase/conf",
        SCRIPT["HOST"]: "0.0.0.0",  # a container's ports are published from there
    }
    for old, new in moved.items():
        command = [argument.replace(old, new) for argument in command]
    return without_own_values(command)


def without_own_values(command: list[str]) -> list[str]:
    """The script gives places and ports in other ways than the image, which keeps HBase's own ports."""
    own_value = re.compile(r"-Dsimhbase\.|-Dhbase\.\w+\.port=")
    return [argument for argument in command if not own_value.match(argument)]


def image_command(arguments: list[str]) -> list[str]:
    return without_own_values(exec_form("ENTRYPOINT") + arguments)


def image_values() -> dict[str, str]:
    definitions = [argument for argument in exec_form("ENTRYPOINT") if argument.startswith("-Dsimhbase.")]
    return dict(definition.removeprefix("-D").split("=", 1) for definition in definitions)


@pytest.mark.parametrize("folder", ["docker/hbase", "examples/spark"])
def test_hadolint_finds_nothing_in_the_dockerfile(folder: str) -> None:
    run("hadolint", ROOT / folder / "Dockerfile")


def test_shellcheck_finds_nothing_in_the_health_check() -> None:
    run("shellcheck", DOCKER / "hbase" / "thrift-answers")


def test_the_composition_follows_the_compose_specification() -> None:
    run("check-jsonschema", "--builtin-schema", "vendor.compose-spec", DOCKER / "compose.yaml")


@pytest.mark.parametrize(("service", "process"), SERVICES.items())
def test_a_container_runs_what_the_script_runs(services: dict[str, Any], service: str, process: str) -> None:
    assert image_command(services[service]["command"]) == script_command(process)


def test_the_composition_has_the_processes_of_standalone_and_no_others(services: dict[str, Any]) -> None:
    assert set(services) == set(SERVICES)
    assert set(SERVICES.values()) == {role.name for role in STANDALONE.roles}


def test_the_image_by_itself_runs_the_server() -> None:
    assert image_command(exec_form("CMD")) == script_command("master")


def test_the_published_ports_are_those_of_the_gateways(services: dict[str, Any]) -> None:
    published = [f"127.0.0.1:{PORTS[name]}:{PORTS[name]}" for name in ("thrift-1", "thrift2")]
    assert services["hbase"]["ports"] == published


def test_containers_are_healthy_when_the_calls_are_answered_that_the_script_waits_for(
    services: dict[str, Any],
) -> None:
    tests = [services[service]["healthcheck"]["test"] for service in ("thrift", "thrift2")]
    program = ["CMD", "/opt/hbase/thrift-answers"]
    assert tests == [[*program, "9090", "getTableNames"], [*program, "9091", "listNamespaces"]]


def test_the_image_gives_a_value_for_everything_that_the_settings_leave_open() -> None:
    values = [value for _, value in properties(SITE.read_text())]
    assert set(re.findall(r"\$\{(.*?)\}", " ".join(values))) == image_values().keys()


def test_the_image_and_the_script_make_the_same_settings(tmp_path: Path) -> None:
    cluster = SCRIPT["Cluster"](tmp_path, "standalone", PORTS, {})
    SCRIPT["write_configuration"](cluster)
    written = (tmp_path / "conf" / "hbase-site.xml").read_text().replace(str(tmp_path), PLACES["folder"])

    filled = SITE.read_text()
    for name, value in image_values().items():
        filled = filled.replace(f"${{{name}}}", value)
    assert properties(written) == properties(filled)


def properties(site: str) -> list[tuple[str, str]]:
    found = ElementTree.fromstring(site).findall("property")
    return [(each.findtext("name", ""), each.findtext("value", "")) for each in found]


def test_everything_that_the_image_copies_exists() -> None:
    copied = re.findall(r"^COPY (?!--from)(.*) \S+$", DOCKERFILE, flags=re.MULTILINE)
    sources = [source for sources in copied for source in sources.split()]
    assert {"server/pom.xml", "jvm.options", "conf"} <= set(sources)
    assert [source for source in sources if not (DOCKER / "hbase" / source).exists()] == []


def test_the_image_has_the_java_that_the_script_asks_for() -> None:
    bases = re.findall(r"^FROM (\S+)", DOCKERFILE, flags=re.MULTILINE)
    assert [re.findall(r"temurin\D(\d+)", base) for base in bases] == [[SCRIPT["JAVA"]]] * 2
