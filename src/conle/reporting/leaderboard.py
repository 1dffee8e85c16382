"""Which method is best, by how much, and how certain that is."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from conle.core.measures import MEASURES
from conle.methods.registry import FLOORS, LIMIT, SET_APART, STACKED, TITLES
from conle.reporting.tables import REFERENCE, complete_part, corrected_error

HEADLINE = "kl_divergence"
# The paper's six measures.
SIX = tuple(name for name in MEASURES if name != "kl_divergence_reversed")
CONFIDENCE = 0.95
# These repeat the results of another posterior.
REPEATED = (STACKED, *FLOORS)
VERDICT_COLUMNS = [
    "dataset",
    "best",
    "kl_divergence",
    "runner_up",
    "lead",
    "lead_low",
    "lead_high",
    "gain_over_label_posterior",
    "gain_low",
    "gain_high",
]


def leaderboard(recovery: pd.DataFrame, ranks: pd.DataFrame, folds: int) -> pd.DataFrame:
    """One row per method: average rank, and the mean of each measure over the datasets.

    Args:
        recovery: the result of `tables.recovery_table`.
        ranks: the result of `tables.rank_table`.
        folds: the number of folds of a repeat.

    Returns:
        Columns method, datasets, average_rank (over the datasets and the six measures, among all
        methods), each of the six measures, its standard error as `<measure>_error` (of the folds;
        the datasets are taken as given), better_than_label_posterior (the number of means) and
        means (that can be compared with the label posterior's), and multiple_of_limit (geometric
        mean over the datasets of KL divided by the limit's). Methods come by their rank, then the
        references by theirs, and last the limit, which has none. Only `tables.complete_part`
        counts; the limit is there if it has all datasets of that part.
    """
    own = complete_part(recovery)
    limit = recovery[(recovery["method"] == LIMIT) & recovery["dataset"].isin(own["dataset"])]
    if set(limit["dataset"]) == set(own["dataset"]):
        own = pd.concat([own, limit])
    own = own[own["measure"].isin(SIX)]
    squared = corrected_error(own["std"], own["folds"], folds) ** 2
    keys = [own["method"], own["measure"]]
    means = own.groupby(keys)["mean"].mean().unstack()
    errors = squared.groupby(keys).sum(min_count=1).pow(0.5).unstack() / own["dataset"].nunique()
    table = pd.DataFrame({"datasets": own["dataset"].nunique()}, index=means.index)
    of_six = ranks[ranks["measure"].isin(SIX)]
    table["average_rank"] = of_six.groupby("method")["average_rank"].mean()
    for measure in SIX:
        table[measure] = means.get(measure, np.nan)
        table[f"{measure}_error"] = errors.get(measure, np.nan)
    wide = own.pivot(index=["dataset", "measure"], columns="method", values="mean")
    sign = wide.index.get_level_values("measure").map(
        lambda measure: 1 if MEASURES[measure].larger_is_better else -1
    )
    if REFERENCE in wide:
        gains = wide.sub(wide[REFERENCE], axis=0).mul(sign, axis=0).drop(columns=REFERENCE)
        table["better_than_label_posterior"] = (gains > 0).sum().astype("Int64")
        table["means"] = gains.notna().sum().astype("Int64")
    else:
        table[["better_than_label_posterior", "means"]] = pd.NA
    if LIMIT in wide:
        table.loc[LIMIT, ["better_than_label_posterior", "means"]] = pd.NA
    table["multiple_of_limit"] = np.nan
    if LIMIT in wide and HEADLINE in set(own["measure"]):
        kl = wide.xs(HEADLINE, level="measure")
        table["multiple_of_limit"] = np.exp(np.log(kl.div(kl[LIMIT], axis=0)).mean())
    table = table.reset_index()
    table["is_reference"] = table["method"].isin(SET_APART)
    table = table.sort_values(["is_reference", "average_rank"], kind="stable", ignore_index=True)
    return table.drop(columns="is_reference")


def verdicts(results: pd.DataFrame, folds: int) -> pd.DataFrame:
    """The best method of each dataset by KL, and its lead over the next and the label posterior.

    Args:
        results: the results table, one row per dataset, method, fold and measure.
        folds: the number of folds of a repeat.

    Returns:
        Columns `VERDICT_COLUMNS`: a lead or a gain is the mean of the paired differences of KL over
        the folds, with its 95 % interval (corrected resampled t-test). The lead over the next
        method needs no correction for the choice of the best (Gutmann, Maymin, "Is the selected
        population the best?", Annals of Statistics 1987); the gain over the label posterior has
        Bonferroni's. The interval is empty for a single fold, the lead where there is no second
        method, and the gain without the label posterior.
    """
    kl = results[(results["measure"] == HEADLINE) & ~results["method"].isin(REPEATED)]
    rows = []
    for dataset, own in kl.groupby("dataset", sort=False):
        wide = own.pivot(index=["repeat", "fold"], columns="method", values="value")
        means = wide.drop(columns=list(SET_APART), errors="ignore").mean().sort_values()
        if means.empty:
            continue
        best, following = means.index[0], list(means.index[1:2])
        row = {"dataset": dataset, "best": best, "kl_divergence": means.iloc[0]}
        if following:
            lead = paired_difference(wide[following[0]] - wide[best], folds)
            row |= dict(zip(VERDICT_COLUMNS[3:7], (following[0], *lead), strict=True))
        if REFERENCE in wide:
            gain = paired_difference(wide[REFERENCE] - wide[best], folds, len(means))
            row |= dict(zip(VERDICT_COLUMNS[7:], gain, strict=True))
        rows.append(row)
    return pd.DataFrame(rows, columns=VERDICT_COLUMNS)


def paired_difference(
    differences: pd.Series, folds: int, methods: int = 1
) -> tuple[float, float, float]:
    """Mean of the differences over folds, and the ends of its 95 % interval.

    Args:
        differences: one for each fold of all repeats.
        folds: the number of folds of a repeat.
        methods: the interval holds for the best of so many (Bonferroni's correction).
    """
    from scipy.stats import t

    values = differences.dropna()
    error = corrected_error(values.std(), len(values), folds)
    level = 1 - (1 - CONFIDENCE) / (2 * methods)
    width = t.ppf(level, len(values) - 1) * error if len(values) > 1 else np.nan
    return values.mean(), values.mean() - width, values.mean() + width


def leader_sentence(board: pd.DataFrame) -> str | None:
    """Say which method has the best average rank; None without any method.

    Args:
        board: the result of `leaderboard`.
    """
    own = board[~board["method"].isin(SET_APART)]
    if own.empty:
        return None
    first, *others = own[["method", "average_rank"]].itertuples(index=False, name=None)
    datasets = int(own["datasets"].iloc[0])
    text = (
        f"{TITLES[first[0]]} has the best average rank, {first[1]:.2f}, of {len(own)} "
        f"method{_s(len(own))} over {datasets} dataset{_s(datasets)}"
    )
    text += f"; next is {TITLES[others[0][0]]}, {others[0][1]:.2f}." if others else "."
    reference = board.loc[board["method"] == REFERENCE, "average_rank"]
    if len(reference):
        text += f" The label posterior, a reference without features, has {reference.iloc[0]:.2f}."
    return text


def lead_sentence(row: Mapping[str, Any]) -> str:
    """Say which method is best on a dataset, by how much, and whether that is certain."""
    text = f"{TITLES[row['best']]} is best by KL ({row['kl_divergence']:.4f})"
    if pd.isna(row["lead"]):
        return f"{text}; no other method was recovered."
    share = row["lead"] / (row["kl_divergence"] + row["lead"])
    text += f", {_short(row['lead'])} ({100 * share:.0f} %) below {TITLES[row['runner_up']]}"
    return f"{text}, {_certainty(row['lead_low'], row['lead_high'])}."


def gain_sentence(row: Mapping[str, Any]) -> str:
    """Say whether the best method shows that features help on a dataset."""
    gain, low, high = (row[name] for name in VERDICT_COLUMNS[7:])
    if pd.isna(gain):
        return "The label posterior, which shows whether features help, is missing."
    if gain > 0:
        difference, certainty = f"{_short(gain)} below", _certainty(low, high)
    else:
        difference, certainty = f"{_short(-gain)} above", _certainty(-high, -low)
    start = "Features help" if low > 0 else "It is not shown that features help"
    return f"{start}: KL is {difference} the label posterior's, {certainty}."


def _certainty(low: float, high: float) -> str:
    if pd.isna(low):
        return "from a single fold"
    kind = "certain" if low > 0 else "not certain"
    return f"{kind} (95 % interval {_short(low)} to {_short(high)})"


def _short(value: float) -> str:
    """Four decimals, or two significant digits of a value that is smaller."""
    if abs(value) >= 0.001:
        return f"{value:.4f}"
    return np.format_float_positional(value, precision=2, fractional=False, trim="-")


def _s(count: int) -> str:
    return "" if count == 1 else "s"
