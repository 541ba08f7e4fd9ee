"""The image of the service and its composition. Without Docker: what can be run of them runs by itself."""

from __future__ import annotations

import json
import os
import re
import shutil
import stat
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
from click import Context
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from ruamel.yaml import YAML

from simhbase.cli.serve import PORT, serve
from simhbase.online.tokens import Tokens
from tests.command_line import environment

ROOT = Path(__file__).parents[2]
DOCKER = ROOT / "docker"
DOCKERFILE = (DOCKER / "service" / "Dockerfile").read_text()
TOKENS = "/run/simhbase/tokens"


def read(path: Path) -> Any:
    return YAML(typ="safe").load(path)


@pytest.fixture(scope="module")
def services() -> dict[str, dict[str, Any]]:
    return read(DOCKER / "service.yaml")["services"]


def run(*command: object) -> None:
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_linters_find_nothing() -> None:
    run("hadolint", DOCKER / "service" / "Dockerfile")
    run("shellcheck", DOCKER / "service" / "first-start")
    run("check-jsonschema", "--builtin-schema", "vendor.compose-spec", DOCKER / "service.yaml")


@pytest.mark.full  # tests/integration/test_packaging.py builds a wheel from the sdist
def test_the_image_copies_what_the_package_is_made_of(tmp_path: Path) -> None:
    """A wheel can be built from it. It stands where it did before: what has not changed is not compiled."""
    made = ROOT / "core" / "target" / "image"
    shutil.rmtree(made, ignore_errors=True)
    source = made / "source"
    source.mkdir(parents=True)
    shown = re.findall(r"^!(\S+)", (ROOT / ".dockerignore").read_text(), re.MULTILINE)
    ignored = shutil.ignore_patterns("target", "__pycache__", "*.so")
    for names, target in re.findall(r"^COPY (?!--from)(.*) (/source\S*)$", DOCKERFILE, re.MULTILINE):
        for name in names.split():
            assert name in shown
            if (ROOT / name).is_dir():
                shutil.copytree(ROOT / name, made / target[1:], symlinks=True, ignore=ignored)
            else:
                shutil.copy2(ROOT / name, source)
    # As installers call it, so that Rust is fetched where there is none.
    build = f"import maturin; maturin.build_wheel({str(tmp_path)!r}, {{'build-args': '--profile dev'}})"
    compiled = {"CARGO_TARGET_DIR": str(ROOT / "core" / "target")}
    done = subprocess.run(
        [sys.executable, "-c", build], cwd=source, env=os.environ | compiled, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert len(list(tmp_path.glob("*.whl"))) == 1


def test_the_image_has_a_python_and_extras_that_the_package_names() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    (python,) = set(re.findall(r"^FROM python:([\d.]+)-slim", DOCKERFILE, re.MULTILINE))
    assert f"Programming Language :: Python :: {python}" in project["classifiers"]
    extras = re.findall(r"--extra (\w+)", (ROOT / "scripts" / "lock").read_text())
    assert {"serve"} <= set(extras) <= set(project["optional-dependencies"])
    wanted = [
        *project["dependencies"],
        *(each for name in extras for each in project["optional-dependencies"][name]),
    ]
    pinned = pins(DOCKER / "service" / "requirements.lock")
    for each in map(Requirement, wanted):
        assert each.specifier.contains(pinned[canonicalize_name(each.name)]), each


def pins(lock: Path) -> dict[str, str]:
    """The versions in a lock file, by names. Each has hashes."""
    found = re.findall(
        r"^(\S+?)(?:\[\S+\])?==(\S+)(?: ; .*)? \\\n +--hash=sha256:", lock.read_text(), re.MULTILINE
    )
    assert len(found) == len(re.findall(r"^[\w-]+(?:\[\S+\])?==", lock.read_text(), re.MULTILINE))
    return dict(found)


def test_the_image_is_built_and_runs_with_versions_that_are_tested() -> None:
    tested = pins(ROOT / "requirements.lock")
    built = pins(DOCKER / "service" / "build.lock")
    assert built == {"maturin": tested["maturin"]}
    # For other versions of Python there may be others.
    several = {name for name in tested if (ROOT / "requirements.lock").read_text().count(f"\n{name}==") > 1}
    ours = pins(DOCKER / "service" / "requirements.lock")
    assert {name: version for name, version in ours.items() if name not in several} == {
        name: tested[name] for name in ours if name not in several
    }


def test_images_of_others_are_pinned_by_their_content() -> None:
    images = [
        *re.findall(r"^FROM (\S+)", DOCKERFILE, re.MULTILINE),
        *re.findall(r"^FROM (\S+)", (DOCKER / "hbase" / "Dockerfile").read_text(), re.MULTILINE),
        *(
            service["image"]
            for name in ("compose.yaml", "service.yaml")
            for service in read(DOCKER / name)["services"].values()
            if not service["image"].startswith("simhbase-")
        ),
    ]
    assert len(images) == 7
    for image in images:
        assert re.fullmatch(r"[\w./-]+:[\w.-]+@sha256:[0-9a-f]{64}", image), image


@pytest.mark.parametrize("name", ["compose.yaml", "service.yaml"])
def test_containers_change_nothing_but_their_volumes_and_have_no_rights(name: str) -> None:
    for service in read(DOCKER / name)["services"].values():
        assert service["read_only"] is True
        assert service["cap_drop"] == ["ALL"]
        assert service["security_opt"] == ["no-new-privileges:true"]
        assert service["tmpfs"][0].partition(":")[0] == "/tmp"


def test_commands_of_containers_have_options_that_there_are(services: dict[str, Any]) -> None:
    (own,) = re.findall(r"^CMD (\[.*\])$", DOCKERFILE, re.MULTILINE)
    for command in (json.loads(own), services["service"]["command"]):
        assert command[0] == "serve"
        given = serve.make_context("serve", list(command[1:]), resilient_parsing=True).params
        assert (given["host"], str(given["token_file"]), given["port"]) == ("0.0.0.0", TOKENS, PORT)
    assert {each.name for each in serve.get_params(Context(serve))} >= {"host", "token_file"}


def test_what_is_mounted_is_there(services: dict[str, Any]) -> None:
    declared = read(DOCKER / "service.yaml")["volumes"]
    mounts = [mount.split(":")[0] for service in services.values() for mount in service.get("volumes", [])]
    assert {mount for mount in mounts if "/" not in mount} == set(declared)
    assert [mount for mount in mounts if "/" in mount and not (DOCKER / mount).is_file()] == []


def test_no_user_of_this_machine_becomes_admin_by_a_known_password(services: dict[str, Any]) -> None:
    given = services["grafana"]["environment"]
    assert given["GF_SECURITY_DISABLE_INITIAL_ADMIN_CREATION"] == "true"


def test_only_this_machine_reaches_the_containers(services: dict[str, Any]) -> None:
    ports = [port for service in services.values() for port in service.get("ports", [])]
    assert all(port.startswith("127.0.0.1:") for port in ports)
    assert f"127.0.0.1:{PORT}:{PORT}" in ports
    assert len({port.split(":")[1] for port in [*ports, ":9090", ":9091"]}) == len(ports) + 2


def test_the_service_is_given_the_time_to_answer_what_it_accepted(services: dict[str, Any]) -> None:
    assert int(services["service"]["stop_grace_period"].rstrip("s")) > 30


def test_prometheus_has_the_configuration_of_the_examples(services: dict[str, Any]) -> None:
    given, example = (
        read(DOCKER / "prometheus.yml"),
        read(ROOT / "examples" / "prometheus" / "prometheus.yml"),
    )
    (scraped,), (shown,) = given["scrape_configs"], example["scrape_configs"]
    assert scraped["static_configs"] == [{"targets": [f"service:{PORT}"]}]
    assert scraped["authorization"] == {"credentials_file": "/run/simhbase/prometheus"}
    for name in ("static_configs", "authorization"):
        scraped[name] = shown[name]
    assert given == example
    (source,) = read(DOCKER / "grafana" / "datasource.yaml")["datasources"]
    assert (source["url"], source["type"]) == ("http://prometheus:9090", "prometheus")
    (provider,) = read(DOCKER / "grafana" / "dashboards.yaml")["providers"]
    assert f"{provider['options']['path']}/dashboard.json:ro" in services["grafana"]["volumes"][-1]


@pytest.mark.slow
def test_the_first_start_makes_tokens_and_tables_and_the_next_leaves_them(tmp_path: Path) -> None:
    variables = environment(PATH=f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    variables["SIMHBASE_STORE"] = "rocksdb:store"
    command = [DOCKER / "service" / "first-start", tmp_path]
    contents = []
    for _ in range(2):
        done = subprocess.run(command, cwd=tmp_path, env=variables, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        contents.append((tmp_path / "tokens").read_text() + (tmp_path / "prometheus").read_text())
    assert contents[0] == contents[1]
    tokens = Tokens(tmp_path / "tokens")
    found = tokens.find((tmp_path / "prometheus").read_text().strip().encode())
    assert found is not None
    assert found.role == "metrics"
    assert stat.S_IMODE((tmp_path / "tokens").stat().st_mode) == 0o600
    assert (tmp_path / "store").is_dir()
