"""Figures, drawn without pyplot's global state."""

from conle.reporting.figures.canvas import as_svg
from conle.reporting.figures.dataset import (
    entropy_histogram,
    example_distributions,
    recoveries_as_colours,
    recovery_as_bars,
    recovery_as_colours,
    training_curves,
    training_means,
)
from conle.reporting.figures.report import (
    convergence_curves,
    cost_map,
    critical_differences,
    dataset_sizes,
    measure_curves,
    method_bars,
    posterior_intervals,
    rank_map,
    sensitivity_curves,
)

__all__ = [
    "as_svg",
    "convergence_curves",
    "cost_map",
    "critical_differences",
    "dataset_sizes",
    "entropy_histogram",
    "example_distributions",
    "measure_curves",
    "method_bars",
    "posterior_intervals",
    "rank_map",
    "recoveries_as_colours",
    "recovery_as_bars",
    "recovery_as_colours",
    "sensitivity_curves",
    "training_curves",
    "training_means",
]
