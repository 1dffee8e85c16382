"""The tables of the report, measured values beside published ones, in tidy form."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from conle.core.measures import MEASURES
from conle.methods.registry import FLOORS, LIMIT, STACKED, TRUE_DISTRIBUTIONS

FORMULAS = {
    "kl_divergence": "Σ d ln(d / p)",
    "kl_divergence_reversed": "Σ p ln(p / d)",
    "chebyshev": "max |d − p|",
    "clark": "√ Σ (d − p)² / (d + p)²",
    "canberra": "Σ |d − p| / (d + p)",
    "cosine": "d·p / (|d| |p|)",
    "intersection": "Σ min(d, p)",
}
NOTES = {
    "kl_divergence": "a recovered 0 counts as 1e-12: KM recovers many",
    "kl_divergence_reversed": "not of the paper's six: the published divergences of KM and LP; a "
    "true 0 counts as 1e-12",
    "canberra": "the paper prints a square in the numerator; its figures are without it",
}
SIZES = ("examples", "features", "labels")
# The paper prints three decimals; ranks and wins compare means that are rounded in the same way.
PUBLISHED_DECIMALS = 3
REFERENCE = "label_posterior"


def dataset_table(
    published_sizes: pd.DataFrame, statistics: Mapping[str, Mapping[str, Any] | None]
) -> pd.DataFrame:
    """Table 1: the sizes of the datasets, measured beside published.

    Args:
        published_sizes: the paper's Table 1.
        statistics: by dataset, as the ingestion describes it; None where no run has ingested it.

    Returns:
        Columns dataset, examples, features, labels, the same with `_published` (empty where the
        paper has no such dataset), relevant_labels, the sum of the logical labels, and sha256 of
        the raw file.
    """
    measured = pd.DataFrame(
        [own for own in statistics.values() if own is not None],
        columns=["dataset", *SIZES, "relevant_labels", "sha256"],
    )
    table = measured.merge(published_sizes, on="dataset", how="left", suffixes=("", "_published"))
    published = [f"{name}_published" for name in SIZES]
    table[published] = table[published].astype("Int64")
    return table[["dataset", *SIZES, *published, "relevant_labels", "sha256"]]


def measure_table() -> pd.DataFrame:
    """Table 2: the measures, their formulas (d true, p recovered) and directions.

    Returns:
        Columns measure, formula, better and note.
    """
    return pd.DataFrame(
        [
            {
                "measure": measure.title,
                "formula": FORMULAS[name],
                "better": "larger" if measure.larger_is_better else "smaller",
                "note": NOTES.get(name, ""),
            }
            for name, measure in MEASURES.items()
        ]
    )


def recovery_table(
    summary: pd.DataFrame,
    comparison: pd.DataFrame,
    methods: Sequence[str],
    measures: Sequence[str] = tuple(MEASURES),
) -> pd.DataFrame:
    """Table 3 or 4 in tidy form: every mean, its rank and the published value.

    Args:
        summary: columns dataset, method, fitted_on, measure, mean, std, folds.
        comparison: columns dataset, method, measure, compared_with, published, difference, suspect.
        methods: the methods of the table, in its order.
        measures: the measures of the table.

    Returns:
        Columns dataset, method, fitted_on, measure, mean, std, folds, rank (among the methods of
        a dataset and measure; ties of the rounded means share the best; the limit has none),
        published, difference and suspect. The last three are empty where nothing was published, and
        are in the row of the measure `compared_with`.
    """
    summary = summary[summary["measure"].isin(measures)]
    table = summary[summary["method"].isin(methods)].copy()
    ranked = table[table["method"] != LIMIT]
    table["rank"] = (
        _signed(ranked).groupby([ranked["dataset"], ranked["measure"]]).rank(method="min")
    )
    beside = comparison.assign(measure=comparison["compared_with"])
    table = table.merge(
        beside[["dataset", "method", "measure", "published", "difference", "suspect"]],
        on=["dataset", "method", "measure"],
        how="left",
    )
    orders = {
        "measure": list(MEASURES),
        "dataset": list(summary["dataset"].unique()),
        "method": list(methods),
    }
    table = table.sort_values(
        list(orders),
        key=lambda column: column.map({v: i for i, v in enumerate(orders[column.name])}),
        kind="stable",
    )
    columns = ["dataset", "method", "fitted_on", "measure", "mean", "std", "folds", "rank"]
    return table[[*columns, "published", "difference", "suspect"]].reset_index(drop=True)


def _signed(table: pd.DataFrame) -> pd.Series:
    """Rounded means, signed so that smaller is better."""
    larger = table["measure"].map(lambda name: MEASURES[name].larger_is_better)
    rounded = table["mean"].round(PUBLISHED_DECIMALS)
    return rounded.where(~larger.astype(bool), -rounded)


def complete_part(recovery: pd.DataFrame) -> pd.DataFrame:
    """The datasets and methods of a table that average ranks and tests compare.

    Every method of this part recovered every dataset of it. Methods are added in the order of the
    number of datasets that they recovered, and the part with the most pairs of a dataset and a
    method is chosen, so that a method with a single dataset does not exclude the others. The
    stacked posterior and that without floors are left out, because most of their
    results repeat those of another posterior; so is the limit, which is no method.
    """
    own = recovery[~recovery["method"].isin((STACKED, *FLOORS, LIMIT))]
    found = {method: set(rows["dataset"]) for method, rows in own.groupby("method", sort=False)}
    names = sorted(found, key=lambda name: -len(found[name]))
    common = [
        set.intersection(*(found[name] for name in names[:n])) for n in range(1, len(names) + 1)
    ]
    most = max(range(len(names)), key=lambda n: (n + 1) * len(common[n]), default=None)
    if most is None:
        return own
    return own[own["method"].isin(names[: most + 1]) & own["dataset"].isin(common[most])]


def rank_table(recovery: pd.DataFrame, published_ranks: pd.DataFrame) -> pd.DataFrame:
    """Average rank of each method beside the published one, over `complete_part`.

    Args:
        recovery: the result of `recovery_table`.
        published_ranks: columns method, measure, average_rank.

    Returns:
        Columns measure, method, average_rank (among all methods of that part, the references
        included), rank_among_the_papers (among the methods that the paper has), published, and
        datasets, their number.
    """
    kept = complete_part(recovery).copy()
    kept["rank"] = kept.groupby(["dataset", "measure"])["rank"].rank(method="min")
    own = kept[kept["method"].isin(published_ranks["method"])].copy()
    own["rank"] = own.groupby(["dataset", "measure"])["rank"].rank(method="min")
    keys = ["measure", "method"]
    table = kept.groupby(keys, sort=False)["rank"].mean().to_frame("average_rank")
    table["rank_among_the_papers"] = own.groupby(keys)["rank"].mean().reindex(table.index)
    table["published"] = published_ranks.set_index(keys)["average_rank"].reindex(table.index)
    table["datasets"] = kept["dataset"].nunique()
    return table.reset_index()


def corrected_error(std: pd.Series, count: pd.Series, folds: int) -> pd.Series:
    """Standard error of a mean over folds, corrected because they share training samples.

    Source: Nadeau, Bengio, "Inference for the generalization error", Machine Learning 2003.

    Args:
        std: standard deviations over the folds of all repeats.
        count: the numbers of these folds.
        folds: the number of folds of a repeat.
    """
    return std * np.sqrt(1 / count + 1 / (folds - 1))


def wins_table(recovery: pd.DataFrame, published: pd.DataFrame, folds: int) -> pd.DataFrame:
    """How often each method is at least as good as the published ConLE.

    The means of a dataset and one of the paper's six measures are compared, rounded as the paper
    prints them.

    Args:
        recovery: the result of `recovery_table`.
        published: the paper's Table 3: columns dataset, method, measure, value.
        folds: the number of folds of a repeat.

    Returns:
        Columns method, means (the number that can be compared), at_least_as_good and
        lost_within_error (the number of means that are worse by less than the standard error over
        the folds, see `corrected_error`).
    """
    target = published[published["method"] == "conle"].set_index(["dataset", "measure"])["value"]
    larger = target.index.get_level_values("measure").map(lambda m: MEASURES[m].larger_is_better)
    sign = pd.Series(np.where(larger, -1.0, 1.0), index=target.index)
    by_method = {
        method: own.set_index(["dataset", "measure"])
        for method, own in recovery[recovery["method"] != LIMIT].groupby("method", sort=False)
    }
    rows = []
    for method, own in by_method.items():
        compared = target.index.intersection(own.index)
        excess = sign[compared] * (own["mean"][compared] - target[compared])
        rounded = own["mean"][compared].round(PUBLISHED_DECIMALS)
        good = sign[compared] * rounded <= sign[compared] * target[compared]
        error = corrected_error(own["std"][compared], own["folds"][compared], folds)
        rows.append((method, len(compared), int(good.sum()), int((~good & (excess < error)).sum())))
    columns = ["method", "means", "at_least_as_good", "lost_within_error"]
    return pd.DataFrame(rows, columns=columns)


def limit_table(recovery: pd.DataFrame) -> pd.DataFrame:
    """The mean KL of each method as a multiple of the limit's.

    Args:
        recovery: the result of `recovery_table`.

    Returns:
        Columns dataset, limit (its mean KL), and one per method; a row for each dataset that has
        the limit.
    """
    kl = recovery[recovery["measure"] == "kl_divergence"]
    wide = kl.pivot(index="dataset", columns="method", values="mean")
    if LIMIT not in wide:
        return pd.DataFrame(columns=["dataset", LIMIT])
    own = wide.reindex(kl["dataset"].unique(), columns=kl["method"].unique()).dropna(subset=LIMIT)
    multiples = own.drop(columns=LIMIT).div(own[LIMIT], axis=0)
    multiples.insert(0, LIMIT, own[LIMIT])
    return multiples.rename_axis(columns=None).reset_index()


def cost_table(costs: Mapping[tuple[str, str], Mapping[str, Any] | None]) -> pd.DataFrame:
    """Seconds and memory of each recovery, all folds together.

    Args:
        costs: seconds, peak_memory_mib and memory_before_mib by cell, its dataset and method; a
            failure where the recovery has failed, None where no run has recovered it.

    Returns:
        Columns dataset, method, seconds, peak_memory_mib (the most that the process held during
        the recovery) and memory_before_mib. Failed and missing cells have no row.
    """
    columns = ["dataset", "method", "seconds", "peak_memory_mib", "memory_before_mib"]
    rows = [
        {"dataset": dataset, "method": method, **cost}
        for (dataset, method), cost in costs.items()
        if cost is not None and "failure" not in cost
    ]
    return pd.DataFrame(rows, columns=columns)


def against_the_truth(predictive: pd.DataFrame) -> dict[str, float]:
    """KL of a learner on recovered distributions, divided by that on the true distributions.

    Args:
        predictive: columns dataset, method, measure, mean.

    Returns:
        The geometric mean, by method, over the datasets that all methods have; empty if there are
        none.
    """
    kl = predictive[predictive["measure"] == "kl_divergence"]
    means = kl.pivot(index="dataset", columns="method", values="mean").dropna()
    if means.empty or TRUE_DISTRIBUTIONS not in means:
        return {}
    ratios = means.drop(columns=TRUE_DISTRIBUTIONS).div(means[TRUE_DISTRIBUTIONS], axis=0)
    return np.exp(np.log(ratios).mean()).sort_values().to_dict()
