"""The chart: p50 against the size of the catalog, both axes logarithmic, one panel per operation.

A flat line does not notice the catalog; a rising one pays for every row.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas
from matplotlib.ticker import FuncFormatter, NullFormatter

from benchmarks.figures import Figure
from benchmarks.sides import NATIVE, OPERATIONS, OURS

__all__ = ["draw"]

matplotlib.use("Agg")  # No display is needed, nor looked for.

#: Colours that a colour-blind reader tells apart; markers for print in black and white.
_STYLES: Final[dict[str, dict[str, Any]]] = {
    OURS: {"color": "#0072B2", "marker": "o", "linewidth": 2.2, "label": "lance-catalog"},
    NATIVE[0]: {
        "color": "#D55E00", "marker": "s", "linewidth": 1.5, "label": "native, default",
    },
    NATIVE[1]: {
        "color": "#E69F00", "marker": "^", "linewidth": 1.5, "linestyle": "--",
        "label": "native, inline_optimization_enabled",
    },
}  # fmt: skip
_ROWS_AND_COLUMNS: Final = (2, 3)


def draw(figures: Sequence[Figure], path: Path, subtitle: str) -> bool:
    """Draw the latencies into a PNG; return whether there were any."""
    found = [one for one in figures if one.part == "latency" and one.name in OPERATIONS]
    if not found:
        return False
    canvas = Canvas(figsize=(13, 7.6), layout="constrained")
    title = (
        "p50 against rows of the catalog, local disk, warm; factors against native's better setting"
    )
    canvas.suptitle(f"{title}\n{subtitle}", fontsize=12)
    panels = canvas.subplots(*_ROWS_AND_COLUMNS, sharex=True, sharey=True).flat
    for panel, name in zip(panels, OPERATIONS, strict=False):
        _panel(panel, name, sorted((f for f in found if f.name == name), key=lambda f: f.rows or 0))
    last = panels[len(OPERATIONS)]
    last.axis("off")
    handles, labels = panels[0].get_legend_handles_labels()
    last.legend(handles, labels, loc="center", fontsize=11, frameon=False)
    # Axes are shared, so the panel above the empty one has to name its own.
    panels[len(OPERATIONS) - _ROWS_AND_COLUMNS[1]].tick_params(labelbottom=True)
    path.parent.mkdir(parents=True, exist_ok=True)
    canvas.savefig(path, dpi=110)
    return True


def _panel(panel: Axes, name: str, figures: Sequence[Figure]) -> None:
    panel.set_title(name, fontsize=11)
    panel.set_xscale("log")
    panel.set_yscale("log")
    rows = [figure.rows or 0 for figure in figures]
    for side, style in _STYLES.items():
        panel.plot(rows, [figure.details[side]["p50"] for figure in figures], **style)
    if figures:
        largest = figures[-1]
        panel.annotate(
            f"{1 / largest.value:,.3g}× faster" if largest.value < 1 else f"{largest.value:.3g}×",
            (rows[-1], largest.ours),
            textcoords="offset points",
            xytext=(0, 8),
            ha="right",
            fontsize=9,
            color=_STYLES[OURS]["color"],
        )
    panel.grid(True, which="major", color="#dddddd", linewidth=0.8)
    panel.set_axisbelow(True)
    panel.xaxis.set_major_formatter(FuncFormatter(_rows))
    panel.xaxis.set_minor_formatter(NullFormatter())
    panel.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    panel.set_xlabel("rows")
    panel.set_ylabel("ms")
    panel.label_outer(remove_inner_ticks=False)
    panel.spines[["top", "right"]].set_visible(False)


def _rows(value: float, position: int | None) -> str:
    del position
    if value >= 1_000_000:
        return f"{value / 1_000_000:g}M"
    return f"{value / 1_000:g}k" if value >= 1_000 else f"{value:g}"
