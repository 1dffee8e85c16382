"""Parts that several figures share: panels, names of labels and the SVG text."""

import io
import re
from collections.abc import Sequence

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure

PANELS_IN_A_ROW = 4
# An axis names no more labels.
MOST_LABELS_NAMED = 20
# The tags of an SVG, and positions with more than two decimals. Numbers in texts stay whole.
TAG = re.compile("<[^>]*>")
LONG = re.compile(r"(?<![\d.])([1-9]\d*\.\d\d)\d+")


def as_svg(figure: Figure) -> str:
    """The figure as SVG text; the same figure gives the same text, without dates or random ids.

    The text is short: words are words instead of outlines, and positions have two decimals.
    """
    buffer = io.StringIO()
    with matplotlib.rc_context({"svg.hashsalt": "conle", "svg.fonttype": "none"}):
        figure.savefig(buffer, format="svg", dpi=80, metadata={"Date": None, "Creator": None})
    return TAG.sub(lambda tag: LONG.sub(r"\1", tag[0]), buffer.getvalue())


def panel_grid(count: int, width: float, height: float, **options) -> tuple[Figure, Sequence[Axes]]:
    """A figure and its panels, several in each row.

    Args:
        count: number of panels.
        width: width of a panel, in inches.
        height: height of a panel, in inches.
        options: further arguments of `Figure.subplots`.
    """
    columns = min(PANELS_IN_A_ROW, count)
    rows = -(-count // columns)
    figure = Figure(figsize=(1.2 + columns * width, 0.4 + rows * height), layout="constrained")
    grid = figure.subplots(rows, columns, squeeze=False, **options).ravel()
    for axes in grid[count:]:
        axes.remove()
    return figure, grid[:count]


def legend_outside(figure: Figure, axes: Axes, place: str, columns: int) -> None:
    """Put the legend of one panel above (`place` is "upper") or below ("lower") all panels."""
    handles, labels = axes.get_legend_handles_labels()
    figure.legend(handles, labels, loc=f"outside {place} center", ncols=columns, frameon=False)


def name_labels(axes: Axes, titles: Sequence[str]) -> None:
    """Name labels at the positions 0, 1 ... of the x axis; labels without names show numbers."""
    step = -(-len(titles) // MOST_LABELS_NAMED)
    shown = [title.removeprefix("label ") for title in titles[::step]]
    numbers = all(title.isdigit() for title in shown)
    turned = {} if numbers else {"rotation": 35, "ha": "right", "rotation_mode": "anchor"}
    axes.set_xticks(range(0, len(titles), step), shown, **turned)
