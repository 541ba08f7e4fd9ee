"""docs/service.md names what the service has: its routes, options, errors, metrics."""

import re
from pathlib import Path

from click import Context

from simhbase.cli.serve import serve
from simhbase.online.failures import CODES, STATUSES
from simhbase.profile.profile import Profile
from tests.examples import ROOT, page
from tests.integration.test_service import service  # noqa: F401  # a fixture
from tests.service import Service

PAGE = page("docs/service.md")


def test_every_route_is_in_the_table(service: Service) -> None:  # noqa: F811  # the fixture
    document = service.get("/openapi.json").json
    there = {(method.upper(), path) for path, methods in document["paths"].items() for method in methods}
    told = set(re.findall(r"^\| (GET|POST|DELETE) `(\S+)` \|", PAGE, re.MULTILINE))
    assert told == there


def test_the_answer_shown_is_that_of_the_default_profile() -> None:
    assert re.findall(r'"profile": "(\w+)"', PAGE) == [Profile().digest]


def test_every_number_is_in_the_table(service: Service) -> None:  # noqa: F811
    service.post("/v1/find", {"text": "one two three four five"})
    page_ = service.get("/metrics").body.decode()
    there = {
        name + ("_total" if kind == "counter" and not name.endswith("_total") else "")
        for name, kind in re.findall(r"^# TYPE (\w+) (\w+)$", page_, re.MULTILINE)
        if not name.endswith("_created")
    }
    told = set(re.findall(r"^\| `(simhbase_\w+)` \|", PAGE, re.MULTILINE))
    assert told == there


def test_every_code_of_an_error_is_in_the_table() -> None:
    table = PAGE.partition("## Errors")[2].partition("## Limits")[0]
    told = set(re.findall(r"`([a-z_]+)`", table)) - {"details", "timeout"}
    assert {*CODES.values(), *(code for _, _, code, _ in STATUSES)} == told


def test_commands_of_the_page_and_the_unit_have_options_that_there_are() -> None:
    lines = [line for line in (PAGE + unit()).splitlines() if "simhbase serve" in line]
    options = {each.opts[-1] for each in serve.get_params(Context(serve))}
    assert set(re.findall(r"(--[a-z-]+)", "\n".join(lines))) <= options


def unit() -> str:
    return (Path(ROOT) / "examples" / "service" / "simhbase.service").read_text("utf-8")


def test_a_unit_stops_later_than_a_request_may_take() -> None:
    (seconds,) = re.findall(r"TimeoutStopSec=(\d+)", unit())
    assert int(seconds) > 30
