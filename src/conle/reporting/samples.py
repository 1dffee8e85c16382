"""Single samples: their true degrees beside those that every method recovered."""

import json
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
from markupsafe import Markup

from conle.methods.registry import FLOORS, STACKED, TITLES
from conle.reporting.titles import label_titles

FEATURES, TRUE = "{dataset}.features", "{dataset}.label_distributions"
LOGICAL = "{dataset}.logical_labels"
RECOVERED, INTERVALS = "{dataset}.{method}.recovered", "{dataset}.{decoder}.coverage"
# The report shows the first samples of a dataset, and some of those that have intervals.
FIRST_SAMPLES, SAMPLES_WITH_INTERVALS = 30, 10
SAMPLE_COLUMNS = ["dataset", "sample", "label", "logical", "true", "method", "recovered"]
SAMPLE_COLUMNS += ["low", "high"]
DECIMALS = 4

ByCell = Mapping[tuple[str, str], pd.DataFrame | None]


def sample_table(
    true: Mapping[str, pd.DataFrame | None],
    logical: Mapping[str, pd.DataFrame | None],
    recovered: ByCell,
    intervals: ByCell,
) -> pd.DataFrame:
    """What methods recovered of a few samples in the first repeat, beside the true degrees.

    Args:
        true: label distributions, samples x labels, by dataset; None where no run has read them.
        logical: logical labels, samples x labels, by dataset.
        recovered: by dataset and method; columns repeat, sample and one per label.
        intervals: by dataset and decoder; columns sample, label, low and high.

    Returns:
        Columns `SAMPLE_COLUMNS`, sorted by dataset, method, sample and label. low and high are the
        ends of the 90 % interval of a sample that the decoder has drawn, otherwise empty.
    """
    tables = []
    for dataset in true:
        distributions, relevant = true[dataset], logical[dataset]
        if distributions is None or relevant is None:
            continue
        drawn = dict(_cells_of(dataset, intervals))
        few = (own["sample"].unique()[:SAMPLES_WITH_INTERVALS] for own in drawn.values())
        first = range(min(FIRST_SAMPLES, len(distributions)))
        shown = sorted({*first}.union(*(own.tolist() for own in few)))
        labels = distributions.columns
        index = pd.MultiIndex.from_product([shown, labels], names=["sample", "label"])
        known = {
            "dataset": dataset,
            "logical": relevant.loc[shown].to_numpy().ravel(),
            "true": distributions.loc[shown].to_numpy().ravel(),
        }
        for method, rows in _first_repeats(dataset, recovered):
            degrees = rows.loc[shown, labels].to_numpy().ravel()
            table = pd.DataFrame(known | {"method": method, "recovered": degrees}, index)
            ends = drawn.get(method, pd.DataFrame(columns=["sample", "label", "low", "high"]))
            ends = ends.set_index(["sample", "label"])[["low", "high"]].astype(float)
            tables.append(table.join(ends).reset_index())
    empty = pd.DataFrame(columns=SAMPLE_COLUMNS)
    return pd.concat(tables, ignore_index=True)[SAMPLE_COLUMNS] if tables else empty


def three_labels_as_colours(
    features: Mapping[str, pd.DataFrame | None],
    true: Mapping[str, pd.DataFrame | None],
    recovered: ByCell,
) -> dict[str, tuple[np.ndarray, dict[str, np.ndarray]]]:
    """Features and panels of the datasets with three labels, for `recoveries_as_colours`.

    Posteriors that mostly repeat another one are left out.
    """
    pictures = {}
    for dataset, distributions in true.items():
        if distributions is None or distributions.shape[1] != 3:
            continue
        panels = {"true": distributions.to_numpy()}
        for method, rows in _first_repeats(dataset, recovered):
            if method not in (STACKED, *FLOORS):
                panels[TITLES[method]] = rows[distributions.columns].to_numpy()
        if len(panels) > 1:
            pictures[dataset] = features[dataset].to_numpy(), panels
    return pictures


def _cells_of(dataset: str, by_cell: ByCell) -> Iterator[tuple[str, pd.DataFrame]]:
    """Methods and tables of a dataset; those without rows are left out."""
    for cell in by_cell:
        own = by_cell[cell] if cell[0] == dataset else None
        if own is not None and len(own):
            yield cell[1], own


def _first_repeats(dataset: str, recovered: ByCell) -> Iterator[tuple[str, pd.DataFrame]]:
    """What each method recovered of a dataset in the first repeat, samples x columns."""
    for method, own in _cells_of(dataset, recovered):
        first = own[own["repeat"] == own["repeat"].min()]
        yield method, first.set_index("sample").sort_index()


def viewer(table: pd.DataFrame) -> dict[str, Markup] | None:
    """An interactive chart of single samples, for `templates/_samples.html.j2`.

    Args:
        table: the result of `sample_table`.

    Returns:
        The script of BokehJS, the chart and the data as JSON; None if the table has no rows.
    """
    # Imported here because it takes half a second.
    from bokeh.resources import Resources

    if table.empty:
        return None
    data = [_as_lists(dataset, rows) for dataset, rows in table.groupby("dataset", sort=False)]
    resources = Resources(mode="inline", components=["bokeh"], log_level="error")
    return {
        # Bokeh's own scripts.
        "bokeh": Markup("\n".join(resources.js_raw)),  # nosec B704
        "chart": _as_json(_chart()),
        "data": _as_json(data),
    }


def _as_json(value: Any) -> Markup:
    """JSON that is safe in a script element."""
    text = json.dumps(value, separators=(",", ":")).replace("<", "\\u003c")
    return Markup(text)  # nosec B704


def _as_lists(dataset: str, rows: pd.DataFrame) -> dict[str, Any]:
    """A dataset's part of the table as nested lists, samples x labels."""
    samples, labels = (list(dict.fromkeys(rows[name])) for name in ("sample", "label"))

    def lists(values: pd.Series) -> Sequence:
        rounded = values.to_numpy().round(DECIMALS).reshape(len(samples), len(labels))
        return [None if np.isnan(row).any() else row.tolist() for row in rounded]

    by_method = dict(iter(rows.groupby("method", sort=False)))
    first = next(iter(by_method.values()))
    return {
        "name": dataset,
        "samples": samples,
        "labels": label_titles(dataset, labels),
        "relevant": lists(first["logical"]),
        "true": lists(first["true"]),
        "methods": [
            {"name": TITLES[method], "degrees": lists(own["recovered"])}
            | ({k: lists(own[k]) for k in ("low", "high")} if own["low"].notna().any() else {})
            for method, own in by_method.items()
        ],
    }


@cache
def _chart() -> dict[str, Any]:
    """An empty chart, which the page's script fills; made once, because Bokeh numbers its parts."""
    from bokeh.embed import json_item
    from bokeh.models import ColumnDataSource, FactorRange, HoverTool
    from bokeh.plotting import figure

    bars = ColumnDataSource({name: [] for name in ("x", "degree", "alpha", "text")}, name="bars")
    columns = ("x", "degree", "low", "high", "colour", "marker", "text")
    points = ColumnDataSource({name: [] for name in columns}, name="points")
    plot = figure(
        height=340,
        sizing_mode="stretch_width",
        x_range=FactorRange(name="labels"),
        y_axis_label="description degree",
        tools=[HoverTool(tooltips="@text", point_policy="follow_mouse")],
        toolbar_location=None,
        background_fill_color=None,
        border_fill_color=None,
        outline_line_color=None,
    )
    plot.vbar("x", 0.86, "degree", source=bars, color="#7d8590", fill_alpha="alpha")
    plot.segment("x", "low", "x", "high", source=points, color="colour", line_width=2)
    plot.scatter("x", "degree", source=points, color="colour", marker="marker", size=8)
    plot.y_range.start = 0
    plot.axis.major_label_text_font_size = plot.axis.axis_label_text_font_size = "13px"
    plot.xaxis.name, plot.yaxis.name = "label-axis", "degree-axis"
    plot.xgrid.visible = False
    plot.ygrid.grid_line_color, plot.ygrid.grid_line_alpha = "#7d8590", 0.3
    return json_item(plot, "sample-chart")
