import warnings

import numpy as np
import pandas as pd
import pytest

from conle.enhancers.registry import METHODS
from conle.measures import MEASURES
from conle.reporting.figures import as_svg, rank_map


def recovery(datasets, methods):
    rows = [
        (f"D{dataset}", method, "all", measure, number + 1)
        for dataset in range(datasets)
        for number, method in enumerate(methods)
        for measure in MEASURES
    ]
    return pd.DataFrame(rows, columns=["dataset", "method", "fitted_on", "measure", "rank"])


@pytest.mark.parametrize("datasets", [1, 12])
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
