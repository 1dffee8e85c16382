import re
import warnings

import numpy as np
import pandas as pd
import pytest

from conle.core.measures import MEASURES
from conle.methods.registry import METHODS
from conle.reporting.figures import (
    as_svg,
    cost_map,
    measure_curves,
    method_bars,
    posterior_intervals,
    rank_map,
    recoveries_as_colours,
    training_means,
)


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
    (axes,) = figure.axes
    panel = axes.get_window_extent()
    assert panel.height / figure.dpi > 0.18 * methods
    assert panel.width / figure.dpi > 0.25 * datasets
    shown = [float(text.get_text()) for text in axes.texts]
    assert shown == [rank for rank in range(1, methods + 1) for _ in range(datasets)]
    assert np.array_equal(axes.images[0].get_array()[:, 0], np.arange(1, methods + 1))


def test_ranks_are_averaged_over_the_papers_measures():
    table = recovery(1, ["conle"]).assign(rank=1)
    table.loc[table["measure"] == "cosine", "rank"] = 4
    table.loc[table["measure"] == "kl_divergence_reversed", "rank"] = 9
    (axes,) = rank_map(table).axes
    assert [text.get_text() for text in axes.texts] == ["1.5"]


def test_the_legend_of_the_measures_is_free_of_text():
    figure = measure_curves()
    figure.draw_without_rendering()
    (legend,) = figure.legends
    axis_label = figure._supxlabel
    assert axis_label.get_text() == "share of the way from (0.55, 0.25, 0.15, 0.05)"
    assert not legend.get_window_extent().overlaps(axis_label.get_window_extent())


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
    assert seconds.texts[-1].get_text() in ("≤0.01", f"{10.0 ** (methods - 5):.0f}")
    assert seconds.get_window_extent().height / figure.dpi > 0.18 * methods


@pytest.mark.parametrize(("largest", "colours"), [(684, 0.02), (2688, 1)])
def test_colours_show_only_costs_that_differ(largest, colours):
    """Costs that differ by a factor of four or more have all colours."""
    cost = pd.DataFrame(
        {"dataset": "A", "method": ["km", "lp"], "seconds": 1, "peak_memory_mib": [672, largest]}
    )
    (image,) = cost_map(cost).axes[1].images
    assert np.ptp(image.norm(image.get_array())) == pytest.approx(colours, abs=0.01)


@pytest.mark.parametrize(
    ("dataset", "labels", "shown"),
    [
        ("SJAFFE", 6, ["happiness", "sadness", "surprise", "anger", "disgust", "fear"]),
        ("Toy", 3, ["1", "2", "3"]),
        ("Toy", 50, [str(number) for number in range(1, 51, 3)]),
    ],
)
def test_labels_have_names_or_numbers_from_one(dataset, labels, shown):
    names = [f"label_{number}" for number in range(1, labels + 1)]
    draws = pd.DataFrame(np.full((2, labels), 1 / labels), columns=names)
    coverage = pd.DataFrame(
        {"sample": 7, "label": names, "logical": 1, "mean": 0.2, "low": 0.1, "high": 0.3}
    )
    figure = posterior_intervals(
        {dataset: (draws.assign(sample=7, chain=0, draw=[0, 1]), coverage.assign(true=0.2))}
    )
    assert [text.get_text() for text in figure.axes[0].get_xticklabels()] == shown


def test_trainings_side_by_side():
    curves = pd.DataFrame(
        [("loss", fold, step, fold * step) for fold in (1, 2) for step in (1, 2)]
        + [("agreement", fold, 2, fold / 4) for fold in (1, 2)],
        columns=["quantity", "fold", "step", "value"],
    )
    figure = training_means({"A": curves, "B": curves[curves["quantity"] == "loss"]})
    first, second, agreement = figure.axes
    assert [axes.get_title() for axes in (first, second)] == ["A", "B"]
    assert first.lines[0].get_ydata().tolist() == [1.5, 3.0]
    assert agreement.lines[0].get_ydata().tolist() == [0.375]


def test_svgs_are_short():
    figure = rank_map(recovery(1, ["conle"]))
    figure.text(0.5, 0.5, "1.2345")
    svg = as_svg(figure)
    assert ">1.2345</text>" in svg
    svg = svg.replace(">1.2345<", "><")
    assert ">ConLE*</text>" in svg
    assert re.search(r"\b[1-9]\d*\.\d\d\b", svg)
    assert not re.search(r"\b[1-9]\d*\.\d{3}", svg)


def test_pictures_of_several_datasets():
    degrees = np.random.default_rng(0).dirichlet(np.ones(3), 9)
    pictures = {name: (np.zeros((9, 2)), {"true": degrees, "LP": degrees}) for name in "AB"}
    figure = recoveries_as_colours(pictures)
    assert [axes.get_title() for axes in figure.axes] == ["true", "LP"] * 2
    # Thousands of squares are one image in the SVG.
    assert as_svg(figure).count("<image") == 4
