"""Tests over datasets, as the field expects them: Friedman, Nemenyi, Wilcoxon with Holm.

Source: Demsar, "Statistical comparisons of classifiers over multiple data sets", JMLR 2006.
"""

from collections.abc import Mapping

import pandas as pd

from conle.measures import MEASURES
from conle.reporting.tables import complete_datasets, method_title

# Fewer blocks or treatments make no test.
FEWEST_DATASETS, FEWEST_METHODS = 3, 3


def blocks(recovery: pd.DataFrame, measure: str) -> pd.DataFrame:
    """Means of one measure, datasets x methods, signed so that smaller is better.

    Only datasets that every method recovered.
    """
    rows = recovery[
        (recovery["measure"] == measure) & recovery["dataset"].isin(complete_datasets(recovery))
    ]
    table = rows.pivot(index="dataset", columns="method", values="mean")
    table = table[list(dict.fromkeys(rows["method"]))]
    return -table if MEASURES[measure].larger_is_better else table


def why_not(recovery: pd.DataFrame) -> str | None:
    """Why there are no tests, or None where there can be."""
    datasets, methods = len(complete_datasets(recovery)), recovery["method"].nunique()
    if datasets < FEWEST_DATASETS or methods < FEWEST_METHODS:
        return (
            f"tests need {FEWEST_DATASETS} datasets that all methods recovered and "
            f"{FEWEST_METHODS} methods; there are {datasets} and {methods}"
        )
    return None


def friedman_table(recovery: pd.DataFrame) -> pd.DataFrame:
    """Friedman's test for each measure: whether the methods differ at all.

    Returns:
        Columns measure, statistic, p_value, datasets, methods; empty where `why_not` says so.
    """
    from scipy.stats import friedmanchisquare

    columns = ["measure", "statistic", "p_value", "datasets", "methods"]
    rows = []
    if why_not(recovery) is None:
        for measure in dict.fromkeys(recovery["measure"]):
            table = blocks(recovery, measure)
            statistic, p_value = friedmanchisquare(*(table[name] for name in table))
            rows.append((measure, statistic, p_value, *table.shape))
    return pd.DataFrame(rows, columns=columns)


def wilcoxon_table(recovery: pd.DataFrame) -> pd.DataFrame:
    """Wilcoxon's signed-rank test for each pair of methods, Holm's correction for each measure.

    Returns:
        Columns measure, method, other, p_value (corrected), better (the method of the better mean
        rank); empty where `why_not` says so.
    """
    from scikit_posthocs import posthoc_wilcoxon

    columns = ["measure", "method", "other", "p_value", "better"]
    rows = []
    if why_not(recovery) is None:
        for measure in dict.fromkeys(recovery["measure"]):
            table = blocks(recovery, measure)
            mean_ranks = table.rank(axis=1).mean()
            melted = table.melt(var_name="method", value_name="value")
            p_values = posthoc_wilcoxon(
                melted, val_col="value", group_col="method", zero_method="zsplit", p_adjust="holm"
            )
            names = list(table)
            rows += [
                (
                    measure,
                    name,
                    other,
                    p_values.loc[name, other],
                    name if mean_ranks[name] <= mean_ranks[other] else other,
                )
                for position, name in enumerate(names)
                for other in names[position + 1 :]
            ]
    return pd.DataFrame(rows, columns=columns)


def nemenyi(recovery: pd.DataFrame) -> Mapping[str, tuple[pd.Series, pd.DataFrame]]:
    """Mean ranks and Nemenyi's p-values of all pairs by measure, the methods by their titles.

    Empty where `why_not` says so.
    """
    from scikit_posthocs import posthoc_nemenyi_friedman

    if why_not(recovery) is not None:
        return {}
    tables = {
        measure: blocks(recovery, measure).rename(
            columns=lambda method: method_title(method, recovery)
        )
        for measure in dict.fromkeys(recovery["measure"])
    }
    return {
        measure: (table.rank(axis=1).mean(), posthoc_nemenyi_friedman(table))
        for measure, table in tables.items()
    }
