"""Statistical tests over datasets: Friedman, Nemenyi, and Wilcoxon with Holm's correction.

Source: Demsar, "Statistical comparisons of classifiers over multiple data sets", JMLR 2006.
"""

from collections.abc import Mapping

import numpy as np
import pandas as pd

from conle.core.measures import MEASURES
from conle.reporting.tables import complete_part
from conle.reporting.titles import method_title

# The tests need at least these numbers of datasets (blocks) and methods (treatments).
FEWEST_DATASETS, FEWEST_METHODS = 3, 3
SIGNIFICANCE = 0.05


def blocks(recovery: pd.DataFrame, measure: str) -> pd.DataFrame:
    """Means of one measure over `complete_part`, datasets x methods; smaller is better."""
    complete = complete_part(recovery)
    rows = complete[complete["measure"] == measure]
    table = rows.pivot(index="dataset", columns="method", values="mean")
    table = table[list(dict.fromkeys(rows["method"]))]
    return -table if MEASURES[measure].larger_is_better else table


def why_not(recovery: pd.DataFrame) -> str | None:
    """The reason why there are no tests, or None where there are some."""
    complete = complete_part(recovery)
    datasets, methods = complete["dataset"].nunique(), complete["method"].nunique()
    if datasets < FEWEST_DATASETS or methods < FEWEST_METHODS:
        return (
            f"tests need {FEWEST_DATASETS} datasets that each of {FEWEST_METHODS} methods "
            f"recovered; there are datasets: {datasets}, methods: {methods}"
        )
    return None


def left_out(recovery: pd.DataFrame) -> list[str]:
    """The methods that average ranks and tests leave out."""
    kept = set(complete_part(recovery)["method"])
    return [name for name in dict.fromkeys(recovery["method"]) if name not in kept]


def friedman_table(recovery: pd.DataFrame) -> pd.DataFrame:
    """Friedman's test for each measure: whether the methods differ at all.

    Returns:
        Columns measure, statistic (chi squared), p_value, f_statistic (Iman and Davenport's),
        datasets, methods, and critical_difference (of mean ranks in Nemenyi's test at 5 %); no
        rows where `why_not` gives a reason.
    """
    from scipy.stats import friedmanchisquare, studentized_range

    columns = ["measure", "statistic", "p_value", "f_statistic", "datasets", "methods"]
    columns.append("critical_difference")
    rows = []
    if why_not(recovery) is None:
        for measure in dict.fromkeys(recovery["measure"]):
            table = blocks(recovery, measure)
            statistic, p_value = friedmanchisquare(*(table[name] for name in table))
            datasets, methods = table.shape
            rest = datasets * (methods - 1) - statistic
            f_statistic = (datasets - 1) * statistic / rest if rest > 0 else np.inf
            width = studentized_range.ppf(1 - SIGNIFICANCE, methods, np.inf) / 2**0.5
            difference = width * (methods * (methods + 1) / (6 * datasets)) ** 0.5
            rows.append((measure, statistic, p_value, f_statistic, datasets, methods, difference))
    return pd.DataFrame(rows, columns=columns)


def wilcoxon_table(recovery: pd.DataFrame) -> pd.DataFrame:
    """Wilcoxon's signed-rank test for each pair of methods, Holm's correction for each measure.

    Returns:
        Columns measure, method, other, p_value (corrected) and better (the method with the larger
        sum of signed ranks, None for equal sums); no rows where `why_not` gives a reason.
    """
    from scikit_posthocs import posthoc_wilcoxon

    columns = ["measure", "method", "other", "p_value", "better"]
    rows = []
    if why_not(recovery) is None:
        for measure in dict.fromkeys(recovery["measure"]):
            table = blocks(recovery, measure)
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
                    _better(table, name, other),
                )
                for position, name in enumerate(names)
                for other in names[position + 1 :]
            ]
    return pd.DataFrame(rows, columns=columns)


def _better(table: pd.DataFrame, name: str, other: str) -> str | None:
    differences = table[other] - table[name]
    balance = (np.sign(differences) * differences.abs().rank()).sum()
    return None if balance == 0 else name if balance > 0 else other


def nemenyi(recovery: pd.DataFrame) -> Mapping[str, tuple[pd.Series, pd.DataFrame]]:
    """Mean ranks, and Nemenyi's p-values of all pairs of methods, by measure.

    Methods are named by their titles. The result is empty where `why_not` gives a reason.
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
