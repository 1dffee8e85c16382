"""Parts that several figures share: panels, notes and the SVG text."""

import io
from collections.abc import Callable, Sequence
from functools import wraps

import matplotlib
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

PANELS_IN_A_ROW = 4


def as_svg(figure: Figure) -> str:
    """The figure as SVG text; the same figure gives the same text, without dates or random ids."""
    buffer = io.StringIO()
    with matplotlib.rc_context({"svg.hashsalt": "conle"}):
        figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None})
    return buffer.getvalue()


def note(text: str) -> Figure:
    """A figure that holds only a text, such as the reason why there is nothing to draw."""
    figure = Figure(figsize=(6, 0.8))
    figure.text(0.5, 0.5, text, ha="center", va="center", wrap=True)
    return figure


def note_if_empty(draw: Callable[[pd.DataFrame], Figure]) -> Callable[[pd.DataFrame], Figure]:
    """Make a function that draws a table return a note where the table has no rows."""

    @wraps(draw)
    def drawn(table: pd.DataFrame) -> Figure:
        return note("Nothing recovered yet") if table.empty else draw(table)

    return drawn


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
