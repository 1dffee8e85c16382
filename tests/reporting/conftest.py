"""Fixtures that several test modules of the report use."""

import numpy as np
import pandas as pd
import pytest

from conle.reporting.tables import recovery_table


@pytest.fixture
def summary():
    return pd.DataFrame(
        [
            # The KL of the first two is the same when rounded to three decimals.
            ("A", "conle", "kl_divergence", 0.0304, 0.01),
            ("A", "lp", "kl_divergence", 0.0301, 0.01),
            ("A", "label_posterior", "kl_divergence", 0.0500, 0.01),
            ("A", "conle", "cosine", 0.96, 0.01),
            ("A", "lp", "cosine", 0.94, 0.01),
            ("A", "label_posterior", "cosine", 0.98, 0.01),
            ("B", "conle", "kl_divergence", 0.10, 0.05),
            ("B", "label_posterior", "kl_divergence", 0.08, 0.05),
        ],
        columns=["dataset", "method", "measure", "mean", "std"],
    ).assign(
        folds=4, fitted_on=lambda rows: np.where(rows["method"] == "lp", "all", "training_folds")
    )


@pytest.fixture
def comparison():
    return pd.DataFrame(
        [("A", "lp", "cosine", 0.95, -0.01, "odd"), ("A", "conle", "cosine", 0.95, 0.01, None)],
        columns=["dataset", "method", "measure", "published", "difference", "suspect"],
    ).assign(compared_with=lambda rows: rows["measure"])


@pytest.fixture
def recovery(summary, comparison):
    """Table 3 of two datasets; LP is fitted to all rows and missing on the second one."""
    return recovery_table(summary, comparison, ("conle", "lp", "label_posterior"))
