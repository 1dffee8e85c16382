"""The one recovery that is shown true distributions; it stands apart from the methods."""

from typing import Any

import numpy as np
import pandas as pd

from conle.cells import Cell, on_failure
from conle.core.folds import splits_of
from conle.cost import measured_cost
from conle.methods.contract import NotApplicableError
from conle.pipelines.recovery.nodes import empty_recovery, recovered_table
from conle.progress import progress_bar


@on_failure(empty_recovery)
def recover_with_distributions(
    features: pd.DataFrame,
    logical_labels: pd.DataFrame,
    folds: pd.DataFrame,
    protocol: str,
    label_distributions: pd.DataFrame,
    *,
    cell: Cell,
) -> tuple[pd.DataFrame, dict[str, Any]]:
    """Recover every test fold with the true distributions of its training rows (`conle.limit`).

    Args:
        features: samples x features.
        logical_labels: samples x labels, 0 or 1.
        folds: columns repeat, fold, sample.
        protocol: only "cross_validation" has rows whose distributions are not shown.
        label_distributions: samples x labels.
        cell: the decoder on principal components and its hyperparameters.

    Returns:
        Recovered rows and cost, as `conle.pipelines.recovery.nodes.recover`.

    Raises:
        ParameterError: another protocol, or the decoder cannot use these logical labels.
    """
    from conle.limit import InformedPosterior, recover_limit

    if protocol != "cross_validation":
        raise NotApplicableError(
            f"with protocol={protocol} all true distributions would be shown: the limit needs "
            "protocol=cross_validation"
        )
    # A floor belongs to the weights that made the degrees; the true degrees are given here.
    decoder = InformedPosterior(**cell.make_enhancer(degree_floor=0.0).get_params())
    with measured_cost() as cost, progress_bar(cell.title) as on_progress:
        rows = recover_limit(
            decoder,
            features.to_numpy(),
            logical_labels.to_numpy(),
            label_distributions.to_numpy(),
            splits_of(folds, len(features)),
            on_progress,
        )
    return recovered_table(folds, logical_labels, np.concatenate(rows), protocol), cost
