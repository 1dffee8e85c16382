import numpy as np
import pandas as pd
import pytest

from conle.core.measures import MEASURES
from conle.reporting import tables


def test_every_measure_has_its_formula():
    assert set(tables.FORMULAS) == set(MEASURES)
    table = tables.measure_table()
    assert len(table) == len(MEASURES)
    canberra = table.set_index("measure").loc["Canberra"]
    assert canberra["better"] == "smaller"
    assert "without it" in canberra["note"]


def test_sizes_stand_beside_the_published_ones():
    published = pd.DataFrame({"dataset": ["A"], "examples": [3], "features": [2], "labels": [5]})
    own = {"examples": 3, "features": 2, "labels": 4, "relevant_labels": 7, "sha256": "ab"}
    table = tables.dataset_table(
        published,
        {"A": {"dataset": "A", **own}, "B": {"dataset": "B", **own}, "C": None},
    )
    assert table["labels_published"].tolist()[0] == 5
    assert pd.isna(table["labels_published"].tolist()[1])
    assert table["relevant_labels"].tolist() == [7, 7]
    assert table["dataset"].tolist() == ["A", "B"]
    assert tables.dataset_table(published, {}).empty


def test_cells_without_a_recovery_cost_nothing():
    cost = {"seconds": 2.0, "peak_memory_mib": 3.0, "memory_before_mib": 1.0}
    costs = {("A", "conle"): cost, ("A", "lp"): {"failure": "too wide"}, ("A", "km"): None}
    assert tables.cost_table(costs).to_numpy().tolist() == [["A", "conle", 2.0, 3.0, 1.0]]


def test_ranks_are_of_rounded_means_and_ties_share_the_best(recovery):
    ranks = recovery.set_index(["dataset", "measure", "method"])["rank"]
    assert ranks["A", "kl_divergence"].to_dict() == {"conle": 1, "lp": 1, "label_posterior": 3}
    # Larger is better.
    assert ranks["A", "cosine"].to_dict() == {"label_posterior": 1, "conle": 2, "lp": 3}


def test_published_values_stand_beside_their_cells(recovery):
    cells = recovery.set_index(["dataset", "measure", "method"])
    assert cells.loc[("A", "cosine", "lp"), "published"] == 0.95
    assert cells.loc[("A", "cosine", "lp"), "suspect"] == "odd"
    assert pd.isna(cells.loc[("A", "kl_divergence", "lp"), "published"])


def test_a_published_value_stands_with_the_measure_that_it_is_of(summary, comparison):
    other = "kl_divergence_reversed"
    rows = summary[summary["measure"] == "kl_divergence"]
    summary = pd.concat([rows, rows.assign(measure=other, mean=0.2)])
    comparison = comparison[:1].assign(measure="kl_divergence", compared_with=other)
    cells = tables.recovery_table(summary, comparison, ("conle", "lp"))
    cells = cells.set_index(["dataset", "measure", "method"])
    assert pd.isna(cells.loc[("A", "kl_divergence", "lp"), "published"])
    assert cells.loc[("A", other, "lp"), "published"] == 0.95


def test_average_ranks(recovery):
    """Among the paper's own methods the reference does not count."""
    published = pd.DataFrame(
        [("conle", "cosine", 1.15), ("lp", "cosine", 4.76)],
        columns=["method", "measure", "average_rank"],
    )
    on_a = recovery[recovery["dataset"] == "A"]
    ranks = tables.rank_table(on_a, published).set_index(["measure", "method"])
    assert (ranks["datasets"] == 1).all()
    assert ranks.loc[("cosine", "conle"), "average_rank"] == 2
    assert ranks.loc[("cosine", "conle"), "rank_among_the_papers"] == 1
    assert ranks.loc[("cosine", "lp"), "rank_among_the_papers"] == 2
    assert ranks.loc[("cosine", "lp"), "published"] == 4.76
    assert np.isnan(ranks.loc[("cosine", "label_posterior"), "rank_among_the_papers"])
    # LP is missing on B and left out, so the label posterior is ranked beside ConLE alone.
    both = tables.rank_table(recovery, published).set_index(["measure", "method"])
    assert (both["datasets"] == 2).all()
    assert ("cosine", "lp") not in both.index
    assert both.loc[("kl_divergence", "label_posterior"), "average_rank"] == 1.5


def test_a_method_that_the_paper_does_not_have_changes_no_rank_or_win_of_its_methods(recovery):
    paper = [(name, m, 1.5) for name in ("conle", "lp") for m in ("cosine", "kl_divergence")]
    ranks = pd.DataFrame(paper, columns=["method", "measure", "average_rank"])
    published = pd.DataFrame(
        [("A", "conle", "kl_divergence", 0.03), ("B", "conle", "cosine", 0.9)],
        columns=["dataset", "method", "measure", "value"],
    )
    # As good as ConLE everywhere, and its rank is the best.
    other = recovery[recovery["method"] == "conle"].assign(method="ml", rank=1, published=np.nan)
    with_other = pd.concat([recovery, other])
    keys = ["measure", "method"]
    for table in (recovery[recovery["dataset"] == "A"], recovery):
        before = tables.rank_table(table, ranks).set_index(keys)["rank_among_the_papers"]
        own = with_other[with_other["dataset"].isin(table["dataset"])]
        after = tables.rank_table(own, ranks).set_index(keys)["rank_among_the_papers"]
        assert after.xs("ml", level="method").isna().all()
        assert after.drop(index="ml", level="method").to_dict() == pytest.approx(
            before.to_dict(), nan_ok=True
        )
    before = tables.wins_table(recovery, published, folds=4)
    after = tables.wins_table(with_other, published, folds=4)
    pd.testing.assert_frame_equal(after[after["method"] != "ml"].reset_index(drop=True), before)


def test_wins_over_the_published_conle(recovery):
    published = pd.DataFrame(
        [
            ("A", "conle", "kl_divergence", 0.030),
            ("A", "conle", "cosine", 0.970),
            # ConLE is worse by .01; its standard error is .05 sqrt(1 / 4 + 1 / 3).
            ("B", "conle", "kl_divergence", 0.090),
            ("B", "lp", "kl_divergence", 0.5),
        ],
        columns=["dataset", "method", "measure", "value"],
    )
    wins = tables.wins_table(recovery, published, folds=4).set_index("method")
    assert wins.loc["conle"].tolist() == [3, 1, 1]
    assert wins.loc["lp"].tolist() == [2, 1, 0]
    assert wins.loc["label_posterior"].tolist() == [3, 2, 0]


def test_a_learner_against_the_same_on_the_true_distributions():
    kl = {"true_distributions": (0.02, 0.04, 1.0), "conle": (0.03, 0.08), "uniform": (0.02, 0.02)}
    table = pd.DataFrame(
        [
            (dataset, method, measure, mean if measure == "kl_divergence" else 7.0)
            for method, means in kl.items()
            # The others have failed on Movie.
            for dataset, mean in zip(("SJAFFE", "SBU_3DFE", "Movie"), means, strict=False)
            for measure in ("kl_divergence", "clark")
        ],
        columns=["dataset", "method", "measure", "mean"],
    )
    found = tables.against_the_truth(table)
    assert list(found) == ["uniform", "conle"]
    assert found == pytest.approx({"conle": (1.5 * 2) ** 0.5, "uniform": 0.5**0.5})
    assert tables.against_the_truth(table[table["method"] != "true_distributions"]) == {}
    assert tables.against_the_truth(table[:0]) == {}
