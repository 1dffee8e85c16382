"""Comparison of label enhancers on data without true distributions, and the choice of one.

Without the true distributions nothing proves a recovery. What can be measured is what a learner
makes of it: trained on recovered distributions, it predicts those of rows that neither it nor the
enhancer has seen. `compare` judges these predictions by the logical labels of the rows, and chooses
by one rule:

    The predictions of a row are compared with the featureless posterior, its expected distribution
    given its logical labels alone: that of the posterior decoder without features or, if no
    distribution gives some rows of labels, the label posterior (`conle.methods`). If the true
    distributions were drawn as it assumes, the mean KL divergence of the predictions from it is, up
    to a constant, that of the predictions from the true distributions. Candidates whose mean
    exceeds the smallest by no more than the standard error of the difference are equal, and the one
    whose recovered distributions have the highest entropy is chosen; if two have the same, the
    first of them.

Another question is whether label enhancement helps to predict labels: whether, after training on
the distributions of a candidate, the log likelihood of held-out relevant labels is higher than
after training on the normalised labels (L divided by its row sums), by more than the standard
error.
"""

import logging
import warnings
from collections.abc import Mapping, Sequence
from time import perf_counter
from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Float, Real
from numpy.typing import ArrayLike
from scipy.stats import entropy
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import (
    coverage_error,
    label_ranking_average_precision_score,
    label_ranking_loss,
)
from sklearn.model_selection import KFold
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits

from conle.core.learners import SABFGS
from conle.core.measures import kl_divergence
from conle.methods.contract import (
    DivergenceError,
    Features,
    LabelEnhancer,
    LogicalLabels,
    NotApplicableError,
    ProgressCallback,
    Split,
    check_inputs,
)
from conle.methods.posterior.variants import PosteriorFeatureless
from conle.methods.references import LabelPosterior

logger = logging.getLogger(__name__)

# Rows of the comparison that are no candidates.
RIVALS = NORMALISED_LABELS, CLASSIFIER = "normalised labels", "logistic regression"
# Weights of the learner's penalty that are tried.
PENALTIES = (1.0, 10.0, 100.0, 1000.0)
# Numbers that agree to so many decimals are equal.
DECIMALS = 6
# The measures of a comparison; `compare` says what they are.
MEASURES = (
    "kl_to_featureless",
    "log_likelihood",
    "lead",
    "average_precision",
    "ranking_loss",
    "coverage",
    "one_error",
    "order",
    "entropy",
    "seconds",
)
ERRORS = {"kl_to_featureless": "kl_error", "lead": "lead_error"}
COLUMNS = ("candidate", *MEASURES, *ERRORS.values(), "rows", "all_rows", "chosen", "note")

Degrees = Float[np.ndarray, "samples labels"]
PerSample = Float[np.ndarray, " samples"]
# Training rows of one fold; folds differ in their number of rows.
OfTraining = Float[np.ndarray, "_ labels"]
Binary = Real[np.ndarray, "samples labels"]


@threadpool_limits.wrap(limits=1, user_api="blas")
def compare(
    features: ArrayLike,
    logical_labels: ArrayLike,
    candidates: Mapping[str, LabelEnhancer],
    folds: int = 3,
    seed: int = 0,
    rows: int | None = None,
    on_progress: ProgressCallback | None = None,
    threshold: float = 0.5,
) -> pd.DataFrame:
    """Compare label enhancers by what a learner predicts after training on their distributions.

    Each candidate recovers the training rows of every fold. The learner `SABFGS` is trained on them
    and predicts the held-out rows. Its penalty is the one of `PENALTIES` with which it predicts the
    featureless posterior best after training on that of the training rows. Two rivals need
    no label enhancement: the same learner trained on the normalised labels, and a one-vs-rest
    logistic regression.

    Args:
        features: X, samples x features.
        logical_labels: L, samples x labels, 0 or 1.
        candidates: unfitted enhancers by name, the simplest first.
        folds: number of folds.
        seed: seed of the folds and of the sample of rows.
        rows: a larger table is compared on a random sample of so many rows, and transductive
            enhancers are left out; None takes all rows.
        on_progress: called as the work advances.
        threshold: T of the binarisation that the featureless posterior assumes.

    Returns:
        One row for each candidate and each rival. Of held-out rows: kl_to_featureless (mean KL
        divergence of the predictions from the featureless posterior) with kl_error, the standard
        error of its difference from the smallest; log_likelihood (mean log degree of the relevant
        labels of a row, mean over the rows), its lead over the normalised labels with lead_error;
        average_precision, ranking_loss, coverage and one_error. Of recovered rows: order (share of
        the pairs of a relevant and an irrelevant label in the right order), entropy (mean; 1 is
        uniform) and seconds. rows counts the compared rows, all_rows those of the table. chosen
        marks one candidate, and note says why a candidate failed or what it warns of.

    Raises:
        ValueError: shapes or values are wrong.
        NotApplicableError: there are too few rows, or all candidates have failed.
    """
    X, L = check_inputs(features, logical_labels)
    all_rows = len(X)
    if rows is not None and len(X) > rows:
        sample = np.sort(np.random.default_rng(seed).choice(len(X), rows, replace=False))
        X, L = X[sample], L[sample]
    with_relevant = int(L.any(axis=1).sum())
    if len(X) < 2 * folds or with_relevant < 2:
        raise NotApplicableError(
            f"{len(X)} rows, {with_relevant} of them with a relevant label, are too few for a "
            "comparison of methods: name a method"
        )
    splits = list(KFold(folds, shuffle=True, random_state=seed).split(X))
    shares = L / np.maximum(L.sum(axis=1, keepdims=True), 1)
    expected, teachers = _featureless_posterior(L, splits, threshold)
    l2 = min(
        PENALTIES,
        key=lambda own: kl_divergence(expected, _predicted(X, teachers, splits, own)).mean(),
    )
    predicted = _predicted(X, [shares[training] for training, _ in splits], splits, l2)
    baseline = log_likelihoods(predicted, L)
    rivals = [
        {
            "candidate": NORMALISED_LABELS,
            "kl_to_featureless": kl_divergence(expected, predicted).mean(),
            "log_likelihood": np.nanmean(baseline),
        }
        | _ranking(predicted, L),
        {"candidate": CLASSIFIER} | _ranking(_classified(X, L, splits), L),
    ]
    results, divergences = [], {}
    for number, (name, enhancer) in enumerate(candidates.items()):
        if on_progress is not None:
            on_progress(number, len(candidates), name)
        if enhancer.inductive or len(X) == all_rows:
            result, predicted = _result(enhancer, X, L, splits, l2, baseline)
            if predicted is not None:
                divergences[number] = kl_divergence(expected, predicted)
        else:
            result = {
                "note": "it recovers only the rows that it is fitted to, so a sample of "
                f"{len(X)} rows does not show its result, or its memory, for all {all_rows}"
            }
        results.append({"candidate": name} | result)
    if not divergences:
        notes = noted(pd.DataFrame(results, columns=["candidate", "note"]))
        reasons = [f"{row.candidate}: {row.note}" for row in notes.itertuples()]
        raise NotApplicableError(f"no method can be compared here: {'; '.join(reasons)}")
    smallest = min(divergences.values(), key=np.mean)
    for number, own in divergences.items():
        results[number]["kl_to_featureless"] = own.mean()
        results[number]["kl_error"] = _standard_error(own - smallest, folds)
    table = pd.DataFrame([*results, *rivals], columns=COLUMNS)
    table["rows"], table["all_rows"] = len(X), all_rows
    table["note"] = table["note"].fillna("")
    table["chosen"] = table.index == _choice(table)
    return table


def _choice(table: pd.DataFrame) -> int:
    """The row of the chosen candidate; see the rule at the top of this module."""
    compared = table.dropna(subset="kl_error")
    excess = compared["kl_to_featureless"] - compared["kl_to_featureless"].min()
    equal = compared[excess.round(DECIMALS) <= compared["kl_error"].round(DECIMALS)]
    return equal["entropy"].round(DECIMALS).idxmax()


def noted(table: pd.DataFrame) -> pd.DataFrame:
    """Each note of a comparison once, with the candidates that have it.

    Args:
        table: the result of `compare`; from a file, empty notes are missing values.

    Returns:
        Columns note and candidate (names joined by commas).
    """
    own = table[table["note"].notna() & (table["note"] != "")]
    return own.groupby("note", sort=False)["candidate"].agg(", ".join).reset_index()


def helps(table: pd.DataFrame) -> bool:
    """Whether the lead of a candidate of a comparison exceeds its standard error."""
    return bool((table["lead"] > table["lead_error"]).any())


def log_likelihoods(degrees: Degrees, logical_labels: Binary) -> PerSample:
    """Mean log degree of the relevant labels of every row; NaN for a row without any."""
    relevant = logical_labels == 1
    sums = np.where(relevant, np.log(np.where(relevant, degrees, 1.0)), 0.0).sum(axis=1)
    count = relevant.sum(axis=1)
    return np.divide(sums, count, out=np.full(len(sums), np.nan), where=count > 0)


def entropies(distributions: Degrees) -> PerSample:
    """The entropy of every distribution, from 0 to 1 (the uniform distribution)."""
    return entropy(distributions, axis=1) / np.log(distributions.shape[1])


def pairs_in_order(distributions: Degrees, logical_labels: Binary) -> tuple[int, int]:
    """Pairs of a relevant and an irrelevant label in the right order, and all such pairs."""
    relevant = logical_labels == 1
    kept = sum(
        (row[own][:, None] >= row[~own]).sum()
        for row, own in zip(distributions, relevant, strict=True)
    )
    return int(kept), int((relevant.sum(axis=1) * (~relevant).sum(axis=1)).sum())


def _result(
    enhancer: LabelEnhancer,
    X: Features,
    L: LogicalLabels,
    splits: Sequence[Split],
    l2: float,
    baseline: PerSample,
) -> tuple[dict[str, Any], Degrees | None]:
    """The measures of a candidate and the predictions from it, or a note of why it failed.

    The other candidates are compared all the same.
    """
    own_rows = [(training, training) for training, _ in splits]
    begun = perf_counter()
    with warnings.catch_warnings(record=True) as raised:
        warnings.simplefilter("always")
        try:
            recovered = enhancer.recover_folds(X, L, own_rows).recovered
        except (NotApplicableError, DivergenceError) as error:
            return {"note": str(error)}, None
        except Exception as error:
            logger.exception("%s has failed", type(enhancer).__name__)
            return {"note": f"{type(error).__name__}: {error}"}, None
    seconds = perf_counter() - begun
    predicted = _predicted(X, recovered, splits, l2)
    likelihoods = log_likelihoods(predicted, L)
    lead = (likelihoods - baseline)[np.isfinite(baseline)]
    D = np.concatenate(recovered)
    kept, pairs = pairs_in_order(D, np.concatenate([L[training] for training, _ in splits]))
    measures = {
        "log_likelihood": np.nanmean(likelihoods),
        "lead": lead.mean(),
        "lead_error": _standard_error(lead, len(splits)),
        **_ranking(predicted, L),
        "order": kept / pairs if pairs else np.nan,
        "entropy": entropies(D).mean(),
        "seconds": seconds,
        "note": "; ".join(dict.fromkeys(str(warning.message) for warning in raised)),
    }
    return measures, predicted


def _standard_error(differences: PerSample, folds: int) -> float:
    """Standard error of the mean of paired differences of held-out rows.

    Folds share training rows: the correction of Nadeau and Bengio, "Inference for the
    generalization error", Machine Learning 2003.
    """
    correction = np.sqrt(1 + folds / (folds - 1))
    return float(correction * differences.std(ddof=1) / np.sqrt(len(differences)))


def _featureless_posterior(
    L: LogicalLabels, splits: Sequence[Split], threshold: float
) -> tuple[Degrees, list[OfTraining]]:
    """The expected distributions given logical labels alone: of held-out rows, of training rows."""
    posterior = PosteriorFeatureless(threshold=threshold)
    with warnings.catch_warnings():
        # The candidate of the same name warns of these labels.
        warnings.simplefilter("ignore", UserWarning)
        try:
            return _expected(posterior, L, splits)
        except NotApplicableError:
            return _expected(LabelPosterior(threshold=threshold), L, splits)


def _expected(
    posterior: LabelEnhancer, L: LogicalLabels, splits: Sequence[Split]
) -> tuple[Degrees, list[OfTraining]]:
    # They take features, as every method does, and do not look at them.
    all_rows = [(training, np.arange(len(L))) for training, _ in splits]
    recovered = posterior.recover_folds(L, L, all_rows).recovered
    held_out = np.empty(L.shape)
    for (_, test), own in zip(splits, recovered, strict=True):
        held_out[test] = own[test]
    return held_out, [own[training] for (training, _), own in zip(splits, recovered, strict=True)]


def _predicted(
    X: Features, recovered: Sequence[OfTraining], splits: Sequence[Split], l2: float
) -> Degrees:
    """The degrees of held-out rows, as a learner predicts them from recovered training rows."""
    predicted = np.empty((len(X), recovered[0].shape[1]))
    for (training, test), D in zip(splits, recovered, strict=True):
        predicted[test] = SABFGS(l2=l2).fit(X[training], D).predict(X[test])
    return predicted


def _classified(X: Features, L: LogicalLabels, splits: Sequence[Split]) -> Degrees:
    """The probabilities of the labels of held-out rows, by one-vs-rest logistic regression."""
    probabilities = np.empty(L.shape)
    for training, test in splits:
        classifier = OneVsRestClassifier(make_pipeline(StandardScaler(), LogisticRegression()))
        with warnings.catch_warnings():
            # A label may be relevant in no training row, or in all of them.
            warnings.filterwarnings("ignore", message="Label .* is present in all training")
            probabilities[test] = classifier.fit(X[training], L[training]).predict_proba(X[test])
    return probabilities


def _ranking(degrees: Degrees, L: LogicalLabels) -> dict[str, float]:
    """Ranking measures of held-out rows."""
    any_relevant = L.any(axis=1)
    first = L[np.arange(len(L)), degrees.argmax(axis=1)]
    return {
        "average_precision": label_ranking_average_precision_score(L, degrees),
        "ranking_loss": label_ranking_loss(L, degrees),
        "coverage": coverage_error(L, degrees),
        "one_error": float((first[any_relevant] == 0).mean()),
    }
