"""Measurements as plain values: what the command line prints as JSON, and what tables are made of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from simhbase.quality.calibration import Calibration, Figures, candidates_at, parameters_of
from simhbase.quality.schemes import Parameters
from simhbase.quality.truth import BINS, bin_name, share
from simhbase.text.jaccard import PAIRS, SHINGLES

_PER = 1_000_000
FEW = 10  # settings that people are shown
TRUTHS = {
    SHINGLES: "Jaccard of the triples of characters",
    PAIRS: "Jaccard of the pairs of characters",
}


def layouts_by_name(figures: Figures) -> list[dict[str, Any]]:
    """Every layout of a setting: what finding all pairs within its k costs, among a million documents."""
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
    """What to type to create a store with a setting."""
    return f"simhbase tables create {options_of(parameters_of(figures))}"


def options_of(parameters: Parameters) -> str:
    """Parameters of a profile as options of the command line."""
    return " ".join(
        f"--set {name}={str(value).lower() if isinstance(value, bool) else value}"
        for name, value in parameters.items()
    )


def calibration_by_name(calibration: Calibration, *, everything: bool = True) -> Mapping[str, Any]:
    """A calibration: the recommendation, then all settings in the order measured and all layouts, or the FEW
    settings that come nearest to the goal."""
    sample, goal, truth = calibration.sample, calibration.goal, calibration.truth
    best = calibration.recommended
    return {
        "documents": sample.read,
        "sample": len(sample.texts),
        "copies": sample.copies,
        "truth": TRUTHS[sample.shingles],
        "pairs": {
            bin_name(low, high): int(
                ((truth.pairs.jaccard >= low) & ((truth.pairs.jaccard < high) | (high == 1.0))).sum()
            )
            for low, high in BINS
        },
        "groups": calibration.groups,
        "goal": asdict(goal),
        "recommended": {
            **best.by_name(),
            "reaches_goal": calibration.reached,
            "surely_reaches_goal": calibration.surely_reached,
            "command": command(best),
        },
        **(_everything(calibration) if everything else _best(calibration)),
    }


def _everything(calibration: Calibration) -> dict[str, Any]:
    return {
        "settings": [figures.by_name() for figures in calibration.figures],
        "layouts": [layout for figures in calibration.wider for layout in layouts_by_name(figures)],
    }


def _best(calibration: Calibration) -> dict[str, Any]:
    return {"best_settings": [figures.by_name() for figures in calibration.ranked[:FEW]]}
