"""docs/deploying.md, from nothing to a dashboard: a service with tokens behind nginx, a Prometheus with the
files of examples/prometheus, and what each panel of the dashboard shows then."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from simhbase.online.endpoints import ENDPOINTS
from simhbase.stores.hbase.counters import NAMES
from tests.command_line import texts
from tests.examples import ROOT, Reader, blocks, page
from tests.operated import Prometheus, Proxy, behind_nginx, metrics_in, rewritten, watched
from tests.programs import program
from tests.service import Service, serving

pytestmark = pytest.mark.operations

EXAMPLES = ROOT / "examples" / "prometheus"
PAGE = page("docs/deploying.md")
DASHBOARD = json.loads((EXAMPLES / "dashboard.json").read_text("utf-8"))
RULES = [
    rule for group in YAML(typ="safe").load(EXAMPLES / "alerts.yml")["groups"] for rule in group["rules"]
]
# Of an embedded store that works, these have no series.
EMPTY = ("HBase: operations", "Errors")


def block(kind: str) -> str:
    (found,) = (lines for language, lines in blocks(PAGE) if language == f"bash {kind}")
    return found


@dataclass(frozen=True)
class Deployed:
    folder: Path
    service: Service
    proxy: Proxy
    prometheus: Prometheus
    answers: list[Any]  # to the requests of the page

    def token(self, role: str) -> str:
        (found,) = re.findall(rf"^{role} (\S+)", (self.folder / "tokens").read_text(), re.MULTILINE)
        return f"Bearer {found}"


@pytest.fixture(scope="module")
def deployed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployed]:
    folder = tmp_path_factory.mktemp("deployed")
    reader = Reader(folder)
    (folder / "examples").symlink_to(ROOT / "examples")
    *before, serve = block("service").splitlines()
    reader.shell("\n".join(before))
    command, verb, store, url, *options = shlex.split(serve)
    assert (command, verb, store) == ("simhbase", "serve", "--store")
    with serving(url, folder, *options) as service, behind_nginx(service, folder) as proxy:
        client = rewritten(
            block("client"),
            {
                "https://simhbase.example.org": proxy.url,
                "curl ": f"curl --silent --show-error --fail --cacert {proxy.certificate} ",
            },
        )
        answers = reader.shell(client)
        *before, start = block("prometheus").splitlines()
        reader.shell("\n".join(before))
        assert start == "prometheus --config.file=prometheus/prometheus.yml"
        configuration = folder / "prometheus" / "prometheus.yml"
        address = service.url.removeprefix("http://")
        quick = {"15s": "1s", "127.0.0.1:8765": address}
        configuration.write_text(rewritten(configuration.read_text(), quick))
        with watched(configuration, folder) as prometheus:
            yield Deployed(folder, service, proxy, prometheus, parsed(answers))


def parsed(printed: str) -> list[Any]:
    """JSON values that were printed one after the other."""
    found, start = [], 0
    while start < len(printed):
        value, start = json.JSONDecoder().raw_decode(printed, start)
        found.append(value)
    return found


def test_the_answers_are_those_of_the_page(deployed: Deployed) -> None:
    (shown,) = (lines for language, lines in blocks(PAGE) if language == "json")
    stored, claimed = deployed.answers
    expected, expected_claim = map(json.loads, shown.splitlines())
    assert len(stored["warnings"]) == len(expected.pop("warnings"))  # that the text is short
    del stored["warnings"]
    assert stored == expected
    assert claimed["profile"] == expected_claim["profile"]
    assert [claim["outcome"] for claim in claimed["claims"]] == ["duplicate"]


def test_the_token_of_prometheus_is_not_for_others_to_read(deployed: Deployed) -> None:
    assert (deployed.folder / "prometheus" / "token").stat().st_mode & 0o077 == 0


def test_the_dashboard_shows_what_clients_with_tokens_did(deployed: Deployed) -> None:
    panels = [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]
    asked = {(panel["title"], target["expr"]) for panel in panels for target in panel["targets"]}
    unseen = {each for each in asked if each[0] not in EMPTY}
    deadline = time.monotonic() + 120
    seed = 0
    while unseen:
        assert time.monotonic() < deadline, unseen
        seed += 1
        send_traffic(deployed, seed)
        unseen = {each for each in unseen if not numbers(deployed.prometheus, each[1])}
    assert numbers(deployed.prometheus, expression(panels, "Services up")) == [1]
    statuses = deployed.prometheus.query(instant(expression(panels, "Answers by status")))
    assert {"200", "401", "403"} <= {each["metric"]["status"] for each in statuses}
    for _, expr in asked:
        deployed.prometheus.query(instant(expr))


def send_traffic(deployed: Deployed, seed: int) -> None:
    """Some requests of each kind, through the proxy."""
    send, one, other = deployed.proxy.send, *texts(2, seed=seed)
    read, write = deployed.token("read"), deployed.token("write")
    added = send("POST", "/v1/documents", {"id": f"{seed}", "text": one}, Authorization=write)
    claimed = send("POST", "/v1/claim", {"id": f"c{seed}", "text": other}, Authorization=write)
    found = send("POST", "/v1/find", {"text": one}, Authorization=read)
    gone = send("DELETE", f"/v1/documents/{seed}", Authorization=write)
    assert [added.status, claimed.status, found.status, gone.status] == [200] * 4
    assert send("POST", "/v1/find", {"text": one}).status == 401
    assert send("DELETE", "/v1/documents/1", Authorization=read).status == 403


def expression(panels: list[Any], title: str) -> str:
    (found,) = (panel["targets"][0]["expr"] for panel in panels if panel["title"] == title)
    return found  # type: ignore[no-any-return]


def instant(expr: str) -> str:
    """What Grafana asks for, with its variables filled in."""
    return expr.replace("$__rate_interval", "1m").replace("$instance", ".*")


def numbers(prometheus: Prometheus, expr: str) -> list[float]:
    """The values of an expression that are numbers."""
    values = [float(each["value"][1]) for each in prometheus.query(instant(expr))]
    return [value for value in values if value == value]


def test_prometheus_runs_every_rule(deployed: Deployed) -> None:
    deployed.prometheus.wait_for('count_over_time(up{job="simhbase"}[1m]) > 2')
    groups = deployed.prometheus.ask("rules")["groups"]
    rules = [rule for group in groups for rule in group["rules"]]
    assert len(rules) == len(RULES)
    assert {(rule["health"], rule.get("lastError", "")) for rule in rules} == {("ok", "")}


def test_rules_and_panels_name_metrics_that_the_service_exports(deployed: Deployed) -> None:
    exported = deployed.service.get("/metrics", Authorization=deployed.token("read")).body.decode()
    there = set(re.findall(r"^(simhbase_\w+)", exported, re.MULTILINE))
    # These have labels, and no series before something went wrong.
    counters = re.findall(r"^# TYPE (simhbase_\w+?)(?:_total)? counter$", exported, re.MULTILINE)
    there |= {f"{name}_total" for name in counters}
    expressions = [rule["expr"] for rule in RULES]
    expressions += [target["expr"] for panel in DASHBOARD["panels"] for target in panel.get("targets", [])]
    assert set().union(*map(metrics_in, expressions)) <= there
    told = "\n".join(expressions)
    routes = set(re.findall(r'\broute!?="([^"]+)"', told))
    assert routes <= {endpoint.path for endpoint in ENDPOINTS}
    events = {each for given in re.findall(r'\bevent=~?"([^"]+)"', told) for each in given.split("|")}
    embedded = set(re.findall(r'^simhbase_store_total{event="(\w+)"}', exported, re.MULTILINE))
    assert events == set(NAMES) | embedded


def test_the_page_explains_every_alert_and_no_other() -> None:
    told = re.findall(r"^\| (Simhbase\w+) \|", PAGE, re.MULTILINE)
    assert told == [rule["alert"] for rule in RULES]


def test_a_bad_service_sets_off_every_alert_and_a_good_one_none(tmp_path: Path) -> None:
    labels = [f'{{alertname="{rule["alert"]}", instance="bad"}}' for rule in RULES]
    samples = [{"labels": each, "value": 1} for each in labels]
    text = (ROOT / "tests" / "data" / "alerts.yml").read_text("utf-8")
    changes = {"[RULES]": json.dumps([str(EXAMPLES / "alerts.yml")]), "SAMPLES": json.dumps(samples)}
    (tmp_path / "alerts.yml").write_text(rewritten(text, changes))
    promtool("test", "rules", tmp_path / "alerts.yml")


def test_promtool_finds_nothing_in_rules_and_configurations(tmp_path: Path) -> None:
    (tmp_path / "alerts.yml").write_bytes((EXAMPLES / "alerts.yml").read_bytes())
    (tmp_path / "token").touch()
    for folder in (EXAMPLES, ROOT / "docker"):
        text = (folder / "prometheus.yml").read_text("utf-8")
        text = re.sub(r"credentials_file: \S+", "credentials_file: token", text)
        (tmp_path / "prometheus.yml").write_text(text)
        promtool("check", "config", "--lint=all", "--lint-fatal", tmp_path / "prometheus.yml")


def test_pods_are_found_by_their_annotations(tmp_path: Path) -> None:
    """Debian's Prometheus cannot ask Kubernetes: the configuration has the pods of the manifest."""
    configuration = YAML(typ="safe").load(ROOT / "examples" / "kubernetes" / "prometheus.yml")
    (scraped,) = configuration["scrape_configs"]
    assert scraped.pop("kubernetes_sd_configs") == [{"role": "pod"}]
    workload = next(YAML(typ="safe").load_all(ROOT / "examples" / "kubernetes" / "hbase.yaml"))
    found = pod("simhbase-1", workload["spec"]["template"]["metadata"])
    others = [pod("other", {"labels": {"app.kubernetes.io/name": "other"}})]
    others += [pod("quiet", {"labels": workload["metadata"]["labels"]})]
    scraped["static_configs"] = [{"targets": ["10.0.0.7"], "labels": each} for each in (found, *others)]
    (tmp_path / "alerts.yml").write_bytes((EXAMPLES / "alerts.yml").read_bytes())
    (tmp_path / "token").touch()
    YAML(typ="safe").dump(configuration, tmp_path / "prometheus.yml")
    promtool("check", "config", tmp_path / "prometheus.yml")
    (kept,) = (each["labels"] for each in discovered(tmp_path / "prometheus.yml") if each["labels"])
    assert kept["__address__"] == "10.0.0.7:8765"
    assert kept["__metrics_path__"] == "/metrics"
    assert kept["instance"] == "news/simhbase-1"


def discovered(configuration: Path) -> list[Any]:
    """The targets of a configuration, relabelled. promtool collects until a time has passed."""
    for seconds in (1, 5, 25, 60):
        found = promtool("check", "service-discovery", f"--timeout={seconds}s", configuration, "simhbase")
        if targets := json.loads(found):
            return list(targets)
    raise AssertionError("no targets")


def pod(name: str, metadata: dict[str, dict[str, str]]) -> dict[str, str]:
    """What Prometheus knows of a pod."""
    known = {"pod_ip": "10.0.0.7", "pod_name": name, "namespace": "news"}
    for kind, key in (("label", "labels"), ("annotation", "annotations")):
        for given, value in metadata.get(key, {}).items():
            known[f"pod_{kind}_{re.sub(r'[^a-zA-Z0-9]', '_', given)}"] = value
    return {f"__meta_kubernetes_{key}": value for key, value in known.items()}


def promtool(*arguments: object) -> str:
    command = [program("promtool"), *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
