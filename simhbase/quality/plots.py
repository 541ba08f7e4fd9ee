"""Draws plots of a calibration. Needs matplotlib (the extra `plots`)."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from io import BytesIO
from itertools import groupby, pairwise
from pathlib import Path

import numpy as np

from simhbase.drawers.bands import bands
from simhbase.errors import SimhbaseError
from simhbase.process.plain_files import refuse_prepared, write_whole
from simhbase.quality.calibration import Calibration, Figures
from simhbase.quality.intervals import Estimate
from simhbase.quality.pairs import TextPairs
from simhbase.quality.schemes import MINHASH_THRESHOLDS


@contextmanager
def _elsewhere() -> Iterator[None]:
    """Imports matplotlib from another folder than the current one, from which it takes settings, and in old
    versions evaluates one. In a folder that this user may not enter it finds none, and could not return."""
    if not os.access(os.curdir, os.X_OK):
        yield
        return
    folder = os.open(os.curdir, getattr(os, "O_PATH", os.O_RDONLY))  # which may have no name any more
    try:
        os.chdir(Path(__file__).parent)
        yield
    finally:
        os.fchdir(folder)
        os.close(folder)


try:
    with _elsewhere():
        from matplotlib import rcParams
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.ticker import NullFormatter, ScalarFormatter
except ImportError as error:
    raise SimhbaseError(
        "plots need matplotlib, which is not installed: pip install 'simhbase[plots]'"
    ) from error

_SIZE = (9.5, 4.5)  # inches, including the legend
_PNG_DPI = 120
_STEPS = np.linspace(0.0, 1.0, 101)
_CURVE_BINS = np.linspace(0.5, 1.0, 11)


def draw(calibration: Calibration, folder: Path) -> list[Path]:
    """Write plots as SVG and PNG into a folder, which is created if it is missing, and return their paths.
    Raises SimhbaseError if the folder cannot be written."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        refuse_prepared(folder)
        return [path for name, plot in _PLOTS.items() for path in _drawn(plot, calibration, folder / name)]
    except OSError as error:
        raise SimhbaseError(f"cannot write plots into {folder}: {error.strerror}") from error


def files_in(folder: Path) -> list[Path]:
    """The files that `draw` writes."""
    return [folder / f"{name}{suffix}" for name in _PLOTS for suffix in (".svg", ".png")]


def _drawn(plot: Callable[[Axes, Calibration], None], calibration: Calibration, path: Path) -> list[Path]:
    rcParams["svg.fonttype"] = "none"  # text, not paths: a tenth of the size
    rcParams["svg.hashsalt"] = "simhbase"  # equal figures give equal files
    figure = Figure(figsize=_SIZE, layout="constrained")
    axes = figure.add_subplot()
    plot(axes, calibration)
    axes.grid(alpha=0.3)
    axes.legend(fontsize="small", loc="upper left", bbox_to_anchor=(1.01, 1.0))  # beside the curves
    svg, png = path.with_suffix(".svg"), path.with_suffix(".png")
    for file, how in (
        (svg, {"metadata": {"Date": None}}),
        (png, {"metadata": {"Software": None}, "dpi": _PNG_DPI}),
    ):
        drawn = BytesIO()
        figure.savefig(drawn, format=file.suffix[1:], **how)
        write_whole(file, drawn.getvalue())
    return [svg, png]


def _recall_and_precision(axes: Axes, calibration: Calibration) -> None:
    for number, (features, figures) in enumerate(_by_features(calibration)):
        k = [int(str(each.setting.parameters["k"])) for each in figures]
        colour = f"C{number}"
        axes.errorbar(
            k,
            [_value(each.recall) for each in figures],
            yerr=_margins([each.recall for each in figures]),
            color=colour,
            capsize=2,
            label=features,
        )
        axes.plot(k, [_value(each.precision) for each in figures], color=colour, linestyle=":")
    axes.set(
        title=f"SimHash: recall of pairs of {calibration.goal.jaccard:g} or more (lines), precision (dots)",
        xlabel="k: maximum distance in bits",
        ylabel="share",
        ylim=(0, 1.02),
    )


def _s_curves(axes: Axes, calibration: Calibration) -> None:
    least = min(MINHASH_THRESHOLDS)
    of_bands = [each for each in calibration.figures if each.setting.parameters.get("threshold") == least]
    for number, each in enumerate(of_bands):
        name = each.cost.layout
        axes.plot(_STEPS, [bands(name).meeting(step) for step in _STEPS], color=f"C{number}", label=name)
        _points(axes, calibration, each.setting.found, f"C{number}")
    for number, each in enumerate(calibration.wider, len(of_bands)):
        label = f"{each.setting.features}, {each.setting.decision}"
        _points(axes, calibration, each.setting.found, f"C{number}", linestyle=":", label=label)
    axes.set(
        title="Share of pairs found, by similarity: expected (lines) and measured (points)",
        xlabel="Jaccard similarity of character 3-shingles",
        ylabel="share found",
        xlim=(0.4, 1),
    )


def _points(
    axes: Axes, calibration: Calibration, found: TextPairs, colour: str, linestyle: str = "", label: str = ""
) -> None:
    least = calibration.truth.pairs.score.min()
    bins = [(low, high) for low, high in pairwise(_CURVE_BINS.tolist()) if low >= least - 1e-9]
    measured = [(low, high, calibration.truth.recall(found, low, high)) for low, high in bins]
    there = [(low, high, estimate) for low, high, estimate in measured if estimate is not None]
    axes.errorbar(
        [(low + high) / 2 for low, high, _ in there],
        [estimate.value for _, _, estimate in there],
        yerr=_margins([estimate for _, _, estimate in there]),
        color=colour,
        marker="o",
        markersize=3,
        linestyle=linestyle,
        capsize=2,
        label=label or None,
    )


def _distances(axes: Axes, calibration: Calibration) -> None:
    # Pairs within MOST_BITS of the best SimHash features.
    widest = calibration.wider[-1].setting
    found = widest.found
    is_right = calibration.truth.right.has(found.left, found.right)
    weights = 1 / calibration.sample.probability(found.left, found.right)
    edges = np.arange(found.score.max(initial=0) + 2) - 0.5
    axes.hist(
        [found.score[is_right], found.score[~is_right]],
        bins=edges.tolist(),
        weights=[weights[is_right], weights[~is_right]],
        label=[f"duplicates ({calibration.goal.right:g} or more)", "others"],
    )
    axes.set(
        title=f"Pairs by distance: SimHash of {widest.features}",
        xlabel="differing bits of the fingerprints",
        ylabel="pairs in the corpus",
    )


def _pareto(axes: Axes, calibration: Calibration) -> None:
    for scheme, figures in groupby(calibration.figures, key=lambda each: each.setting.scheme):
        chosen = [each for each in figures if _value(each.precision) >= calibration.goal.precision]
        axes.scatter(
            [each.cost.rows for each in chosen],
            [_value(each.recall) for each in chosen],
            s=14,
            label=f"{scheme}, precision {calibration.goal.precision:g} or more",
        )
    front = _pareto_front(
        each for each in calibration.figures if _value(each.precision) >= calibration.goal.precision
    )
    axes.step(
        [each.cost.rows for each in front],
        [_value(each.recall) for each in front],
        where="post",
        color="grey",
    )
    best = calibration.recommended
    axes.plot(
        best.cost.rows,
        _value(best.recall),
        marker="*",
        markersize=15,
        markerfacecolor="none",
        markeredgecolor="black",
        linestyle="",
        label=f"recommended: {best.setting.features}, {best.setting.decision}, {best.cost.layout}",
    )
    axes.set(
        title=f"Recall of pairs of {calibration.goal.jaccard:g} or more, and its cost",
        xlabel="rows per document",
        ylabel="recall",
        xscale="log",
        ylim=(0, 1.02),
    )
    rows = sorted({each.cost.rows for each in calibration.figures})
    axes.set_xticks([tick for tick in (1, 2, 5, 10, 20, 50, 100, 200) if rows[0] <= tick <= rows[-1]])
    axes.xaxis.set_major_formatter(ScalarFormatter())  # 20, not 2 x 10^1
    axes.xaxis.set_minor_formatter(NullFormatter())


def _pareto_front(figures: Iterable[Figures]) -> list[Figures]:
    front: list[Figures] = []
    for each in sorted(figures, key=lambda each: (each.cost.rows, -_value(each.recall))):
        if not front or _value(each.recall) > _value(front[-1].recall):
            front.append(each)
    return front


def _by_features(calibration: Calibration) -> Iterable[tuple[str, list[Figures]]]:
    simhash = [each for each in calibration.figures if each.setting.scheme == "simhash"]
    for features, figures in groupby(simhash, key=lambda each: each.setting.features):
        yield features, list(figures)


def _value(estimate: Estimate | None) -> float:
    return 0.0 if estimate is None else estimate.value


def _margins(estimates: Sequence[Estimate | None]) -> list[list[float]]:
    known = [
        (0.0, 0.0) if each is None else (each.value - each.low, each.high - each.value) for each in estimates
    ]
    return [[low for low, _ in known], [high for _, high in known]]


_PLOTS: dict[str, Callable[[Axes, Calibration], None]] = {
    "recall-precision": _recall_and_precision,
    "s-curves": _s_curves,
    "distances": _distances,
    "pareto": _pareto,
}
