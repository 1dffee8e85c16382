import warnings

import numpy as np
import pandas as pd
import pytest

from conle.core.measures import MEASURES
from conle.methods.registry import METHODS
from conle.reporting.figures import as_svg, cost_map, method_bars, rank_map


def recovery(datasets, methods):
    rows = [
        (f"D{dataset}", method, "all", measure, number + 1)
        for dataset in range(datasets)
        for number, method in enumerate(methods)
        for measure in MEASURES
    ]
    return pd.DataFrame(rows, columns=["dataset", "method", "fitted_on", "measure", "rank"])


@pytest.mark.parametrize("datasets", [1, pytest.param(12, marks=pytest.mark.slow)])
@pytest.mark.parametrize("methods", [2, len(METHODS)])
def test_ranks_can_be_read_for_any_number_of_datasets_and_methods(datasets, methods):
    figure = rank_map(recovery(datasets, list(METHODS)[:methods]))
    with warnings.catch_warnings():
        # Matplotlib warns where the layout leaves no room for the panels.
        warnings.simplefilter("error")
        as_svg(figure)
    panels = figure.axes[: len(MEASURES)]
    for axes in panels:
        height = axes.get_window_extent().height / figure.dpi
        assert height > 0.15 * datasets
        shown = [int(text.get_text()) for text in axes.texts]
        assert shown == list(range(1, methods + 1)) * datasets
    assert np.array_equal(panels[0].images[0].get_array()[0], np.arange(1, methods + 1))


@pytest.mark.parametrize(("datasets", "methods"), [(1, len(METHODS)), (12, 2), (12, 9)])
def test_every_method_of_bars_is_in_the_legend(datasets, methods):
    table = recovery(datasets, list(METHODS)[:methods]).assign(mean=0.5, std=0.1)
    figure = method_bars(table[table["measure"].isin(["clark", "cosine"])])
    figure.draw_without_rendering()
    (legend,) = figure.legends
    titles = [text.get_text() for text in legend.get_texts()]
    assert [title.rstrip("*") for title in titles] == [
        METHODS[name].title for name in list(METHODS)[:methods]
    ]
    whole = figure.bbox
    for text in legend.get_texts():
        box = text.get_window_extent()
        assert whole.x0 <= box.x0 < box.x1 <= whole.x1


@pytest.mark.parametrize("datasets", [1, pytest.param(12, marks=pytest.mark.slow)])
@pytest.mark.parametrize("methods", [1, len(METHODS)])
def test_costs_can_be_read(datasets, methods):
    cost = pd.DataFrame(
        [
            (f"D{dataset}", method, 10.0**number / 1e4, 100.0 + number)
            for dataset in range(datasets)
            for number, method in enumerate(list(METHODS)[:methods])
        ],
        columns=["dataset", "method", "seconds", "peak_memory_mib"],
    )
    # A failed cell has no cost.
    figure = cost_map(cost[1:] if len(cost) > 1 else cost)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        as_svg(figure)
    seconds = figure.axes[0]
    assert len(seconds.texts) == max(1, datasets * methods - 1)
    assert seconds.texts[-1].get_text() in ("0.001", f"{10.0 ** (methods - 5):.0f}")
    assert seconds.get_window_extent().height / figure.dpi > 0.15 * datasets
