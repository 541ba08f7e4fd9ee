"""The dashboard in examples/prometheus is one that Grafana takes. tests/integration/test_deploying.py asks a
Prometheus for what it shows."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from grafana_foundation_sdk.cog import encoder, plugins
from grafana_foundation_sdk.models.dashboard import Dashboard

DASHBOARD = Path(__file__).parents[2] / "examples" / "prometheus" / "dashboard.json"


@pytest.fixture(scope="module")
def given() -> Any:
    return json.loads(DASHBOARD.read_text("utf-8"))


def test_grafana_knows_every_field_of_the_dashboard(given: Any) -> None:
    """Grafana's models drop what they do not know."""
    plugins.register_default_plugins()
    known = json.loads(encoder.JSONEncoder().encode(Dashboard.from_json(given)))
    assert list(lost(given, known)) == []


def lost(given: Any, known: Any, place: str = "") -> Iterator[str]:
    """Where a value is not in another one, which may have more."""
    if isinstance(given, dict) and isinstance(known, dict):
        for name, value in given.items():
            if value not in (None, [], {}) and name not in known:
                yield f"{place}.{name}"
            else:
                yield from lost(value, known.get(name, value), f"{place}.{name}")
    elif isinstance(given, list) and isinstance(known, list) and len(given) == len(known):
        for number, pair in enumerate(zip(given, known, strict=True)):
            yield from lost(*pair, f"{place}[{number}]")
    elif given != known:
        yield place


def test_panels_fill_the_grid_without_overlap(given: Any) -> None:
    taken: set[tuple[int, int]] = set()
    for panel in given["panels"]:
        at = panel["gridPos"]
        cells = {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}
        assert not cells & taken, panel["title"]
        assert max(x for x, _ in cells) < 24
        taken |= cells
    assert len({panel["id"] for panel in given["panels"]}) == len(given["panels"])


def test_every_panel_asks_the_data_source_that_a_person_chooses(given: Any) -> None:
    shown = [panel for panel in given["panels"] if panel["type"] != "row"]
    sources = [panel["datasource"] for panel in shown]
    sources += [target["datasource"] for panel in shown for target in panel["targets"]]
    assert {json.dumps(source) for source in sources} == {'{"type": "prometheus", "uid": "${datasource}"}'}
    assert all('instance=~"$instance"' in target["expr"] for panel in shown for target in panel["targets"])
