from html.parser import HTMLParser
from urllib.parse import unquote

import numpy as np
import pandas as pd
import pytest

from conle.core.measures import MEASURES
from conle.methods.registry import METHODS
from conle.reporting import posterior, statistics, tables
from conle.reporting.leaderboard import leaderboard, verdicts
from conle.reporting.page import FIGURES, image_address, render_page
from conle.reporting.samples import SAMPLE_COLUMNS

VOID = {"meta", "link", "img", "br"}


class Page(HTMLParser):
    """Checks that tags are balanced, and collects what the page refers to."""

    def __init__(self, source):
        super().__init__()
        self.open, self.references, self.ids, self.texts = [], [], [], []
        self.feed(source)
        assert self.open == []

    def handle_starttag(self, tag, attributes):
        attributes = dict(attributes)
        self.references += [attributes[name] for name in ("src", "href") if name in attributes]
        self.ids += [attributes["id"]] if "id" in attributes else []
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.texts.append(data)


RUNS = pd.DataFrame(
    {
        "run": ["2026-01-01T00.00.00.000Z-ab12"],
        "pipelines": ["conle"],
        "protocol": ["transductive"],
        "finished": ["yes"],
        "command": ['kedro run --pipeline=report --params "protocol=transductive"'],
    }
)


def inputs(datasets, methods=("conle", "lp", "label_posterior")):
    summary = pd.DataFrame(
        [
            (dataset, method, "training_folds", measure, 0.1 * number + 0.01, 0.001, 10)
            for dataset in datasets
            for number, method in enumerate(methods)
            for measure in MEASURES
        ],
        columns=["dataset", "method", "fitted_on", "measure", "mean", "std", "folds"],
    )
    comparison = pd.DataFrame(
        [("SJAFFE", "conle", "clark", "clark", 0.269, 0.1, "<b>odd</b>")],
        columns=[
            "dataset",
            "method",
            "measure",
            "compared_with",
            "published",
            "difference",
            "suspect",
        ],
    )
    published = pd.DataFrame(
        [("SJAFFE", "conle", "clark", 0.269)], columns=["dataset", "method", "measure", "value"]
    )
    ranks = pd.DataFrame({"method": ["conle"], "measure": ["clark"], "average_rank": [1.0]})
    sizes = pd.DataFrame(columns=["dataset", *tables.SIZES])
    table3 = tables.recovery_table(summary, comparison, methods)
    average_ranks = tables.rank_table(table3, ranks)
    results = pd.concat(
        summary.assign(repeat=1, fold=fold, value=summary["mean"]) for fold in (1, 2)
    )
    found = {
        "missing": pd.DataFrame(
            {"dataset": ["SJAFFE"], "method": ["conle_h"], "reason": ["no run"]}
        ),
        "comparison": comparison,
        "table1": tables.dataset_table(
            sizes,
            {
                "SJAFFE": {
                    "dataset": "SJAFFE",
                    "examples": 2,
                    "features": 1,
                    "labels": 2,
                    "sha256": "f00d",
                }
            },
        ),
        "table2": tables.measure_table(),
        "table3": table3,
        "table4": table3,
        "ranks": average_ranks,
        "leaderboard": leaderboard(table3, average_ranks, folds=10),
        "verdicts": verdicts(results, folds=10),
        "wins": tables.wins_table(table3, published, folds=10),
        "friedman": statistics.friedman_table(table3),
        "wilcoxon": statistics.wilcoxon_table(table3),
        "examination": posterior.examination_table({}, {}, {}),
        "contributions": posterior.contribution_table(table3),
        "cost": tables.cost_table({}),
        "multiples_of_limit": tables.limit_table(table3),
    }
    return {
        "parameters": {
            "protocol": "cross_validation",
            "repeats": 1,
            "folds": 10,
            "seed": 7,
            "threshold": 0.5,
        },
        "provenance": {"git commit": "abc", "torch": "2.13"},
        "runs": RUNS,
        "predictive": None,
        "samples": pd.DataFrame(
            [("SJAFFE", 17, "label_1", 1, 0.5, "conle", 0.25)], columns=SAMPLE_COLUMNS[:-2]
        ).assign(low=np.nan, high=np.nan),
        "tables": found,
        "svgs": {name: f"<svg>{name}</svg>" for name in FIGURES},
    }


@pytest.mark.parametrize(
    "datasets",
    [[], ["SJAFFE"], pytest.param(["SJAFFE", "Movie", "Yeast_dtt"], marks=pytest.mark.slow)],
)
def test_page_is_sound_and_needs_nothing_but_itself(datasets):
    page = Page(render_page(**inputs(datasets)))
    targets = {reference[1:] for reference in page.references if reference.startswith("#")}
    assert targets <= set(page.ids)
    assert len(page.ids) == len(set(page.ids))
    others = [reference for reference in page.references if not reference.startswith("#")]
    assert all(reference.startswith("data:") for reference in others)
    # There is no picture of the ablations, and none of ranks without a dataset.
    pictures = sum(reference.startswith("data:image/svg") for reference in others)
    assert pictures == len(FIGURES) - (1 if datasets else 2)


def test_no_table_is_cut_on_paper():
    """On a screen, wide tables scroll."""
    page = render_page(**inputs(["SJAFFE"]))
    on_screen, on_paper = page.partition("</style>")[0].split("@media print")
    assert ".wide { overflow-x: auto;" in on_screen
    assert ".wide { overflow: visible; }" in on_paper
    assert "td[data-value] { padding: .1rem .2rem; white-space: normal; overflow-wrap" in on_paper


def test_page_says_what_a_reader_needs():
    source = render_page(**inputs(["SJAFFE"]))
    text = " ".join(" ".join(Page(source).texts).split())
    assert "ConLE: 1 of 1 means at least as good as its published ones" in text
    assert "1 method of a dataset is missing" in text
    assert "ConLE has the best average rank, 1.67, of 2 methods over 1 dataset" in text
    assert "SJAFFE: ConLE is best by KL (0.0100), 0.1000 (91 %) below LP, certain" in text
    assert "No tests: tests need 3 datasets" in text
    assert "has not shown that its features help" in text
    for part in (
        "f00d",
        "seed: 7",
        "abc",
        METHODS["label_posterior"].title,
        METHODS["conle_h"].title,
    ):
        assert part in text
    # The leaderboard comes first, published figures come second.
    places = [
        source.index(f'id="{name}"') for name in ("summary", "leaderboard", "published", "run")
    ]
    assert places == sorted(places)


def test_page_counts_where_conle_is_at_least_as_good_as_its_ablations():
    """ConLE has the smallest values here: best where smaller is better, worst in the others."""
    given = inputs(["SJAFFE"], ("conle", "conle_h", "conle_l"))
    larger = sum(measure.larger_is_better for measure in MEASURES.values())
    text = " ".join(" ".join(Page(render_page(**given)).texts).split())
    assert f"in {len(MEASURES) - larger} of {len(MEASURES)} means; the paper says in all" in text
    assert "the paper says in all" not in render_page(**inputs(["SJAFFE"]))


def test_page_says_what_the_posterior_decoders_know():
    without = render_page(**inputs(["SJAFFE"]))
    assert "know how the logical labels were made" not in without
    methods = ("posterior_featureless", "posterior_pca", "conle_posterior", "posterior_stacked")
    source = render_page(**inputs(["SJAFFE", "Movie"], methods))
    text = " ".join(" ".join(Page(source).texts).split())
    assert "know how the logical labels were made" in text
    assert "stacked posterior" in text
    # KL is .01 without features, .11 with principal components and .21 with Z.
    assert "2000.0 % higher with the ConLE posterior, 1000.0 % higher with the PCA" in text
    assert " posterior (geometric mean over 2 datasets)" in text


def test_an_exhibit_with_nothing_to_show_has_a_sentence_and_no_picture():
    given = inputs(["SJAFFE"])
    given["svgs"] |= {"table4": None, "table3": None}
    source = render_page(**given)
    assert source.count("<figure>") == len(FIGURES) - 2
    assert source.count("Not in the catalog yet: <code>kedro run --pipeline=ablation</code>") == 1
    assert source.count("Not in the catalog yet") == 1


def test_an_image_is_safe_in_an_attribute():
    svg = "<svg a=\"1\">\n<text>100 % ← &amp; 'b' #1</text></svg>"
    address = image_address(svg)
    assert not set(address) & set("\"'&#\n")
    assert unquote(address) == "data:image/svg+xml," + svg.replace("\n", " ")


def test_single_samples_can_be_chosen():
    given = inputs(["SJAFFE"])
    source = render_page(**given)
    assert '"samples":[17]' in source
    assert "Bokeh.embed.embed_item" in source
    assert "first 30 samples of each dataset and 10 of those with intervals" in source
    without = render_page(**given | {"samples": given["samples"][:0]})
    assert "Bokeh" not in without
    assert len(source) - len(without) < 1.4e6


def test_what_comes_from_data_is_escaped():
    source = render_page(**inputs(["SJAFFE"]))
    assert "<b>odd" not in source
    assert "&lt;b&gt;odd" in source


def test_the_learner_beside_that_on_the_true_distributions():
    kinds = {"true_distributions": 0.02, "conle": 0.03}
    predictive = pd.DataFrame(
        [("SJAFFE", name, "kl_divergence", kl, 0.001) for name, kl in kinds.items()],
        columns=["dataset", "method", "measure", "mean", "std"],
    )
    page = render_page(**{**inputs(["SJAFFE"]), "predictive": predictive})
    assert "ConLE 1.500." in page
