"""Measurements as plain values, for JSON and tables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from simhbase.quality.calibration import Calibration, Figures, candidates_at, parameters_of
from simhbase.quality.schemes import Parameters
from simhbase.quality.truth import BINS, bin_name, share
from simhbase.text.features import SHINGLES
from simhbase.text.jaccard import PAIRS

_PER = 1_000_000
FEW = 10  # settings shown by default
TRUTHS = {
    SHINGLES: "Jaccard of growing shingles",
    PAIRS: "Jaccard of pairs of characters",
}


def layout_rows(figures: Figures) -> list[dict[str, Any]]:
    """Cost of each layout of a setting, for a million documents."""
    return [
        {
            "near": figures.setting.decision,
            "layout": cost.layout,
            "rows": cost.rows,
            "candidates_per_million": round(candidates_at(cost, figures.setting.found.n, _PER), 1),
            "largest_drawer_per_million": round(cost.drawers.largest * _PER / figures.setting.found.n),
            "recall": share(figures.recall),
        }
        for cost in map(figures.setting.cost, figures.setting.layouts)
    ]


def command(figures: Figures) -> str:
    """The command that creates a store with a setting."""
    return f"simhbase tables create {options_of(parameters_of(figures))}"


def options_of(parameters: Parameters) -> str:
    """Command line options for parameters of a profile."""
    return " ".join(
        f"--set {name}={str(value).lower() if isinstance(value, bool) else value}"
        for name, value in parameters.items()
    )


def calibration_dict(calibration: Calibration, *, everything: bool = True) -> Mapping[str, Any]:
    """A calibration as JSON values. everything: include all settings in the order measured and all layouts,
    else only the best FEW settings."""
    if everything:
        settings: dict[str, Any] = {
            "settings": [figures.as_dict() for figures in calibration.figures],
            "layouts": [layout for figures in calibration.wider for layout in layout_rows(figures)],
        }
    else:
        settings = {"best_settings": [figures.as_dict() for figures in calibration.ranked[:FEW]]}
    sample, goal, truth = calibration.sample, calibration.goal, calibration.truth
    best = calibration.recommended
    return {
        "documents": sample.read,
        "sample": len(sample.texts),
        "copies": sample.copies,
        "truth": TRUTHS[sample.shingles],
        "pairs": {bin_name(*bounds): len(truth.pairs.between(*bounds).left) for bounds in BINS},
        "groups": calibration.groups,
        "goal": asdict(goal),
        "recommended": {
            **best.as_dict(),
            "reaches_goal": calibration.reached,
            "surely_reaches_goal": calibration.surely_reached,
            "command": command(best),
        },
        "changes": [change.as_dict() for change in calibration.changes],
        **settings,
    }
