import json
import logging
from decimal import Decimal
from io import StringIO
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from cells_for_tests import cell_of
from kedro.io.core import Version
from rich.console import Console
from scipy.sparse import csr_array
from short_training import SHORT

from conle.core.selection import COLUMNS, entropies
from conle.data.models import FittedModelDataset
from conle.errors import DataError, ParameterError, RawFileError
from conle.methods.registry import METHODS
from conle.pipelines.enhance.nodes import (
    apply_model,
    compare_methods,
    encode_features,
    fit_and_enhance,
    split_table,
)
from conle.reporting.checks import check_table, label_table, render_checks, warnings_of
from conle.reporting.console import print_comparison


@pytest.fixture
def table():
    """Sixty rows with numbers, texts, gaps, and three labels."""
    generator = np.random.default_rng(0)
    features = pd.DataFrame(
        {
            "age": generator.normal(50, 9, 60),
            "count": pd.array(generator.integers(0, 9, 60), dtype="Int64"),
            "town": generator.choice(["Ulm", "Bonn", "Kiel"], 60),
            "member": generator.random(60) < 0.5,
        },
        index=[f"p{number}" for number in range(60)],
    )
    features.loc["p3", "age"] = np.nan
    features.loc["p4", "count"] = pd.NA
    features.loc["p5", "town"] = None
    labels = pd.DataFrame(
        np.eye(3, dtype="int8")[generator.integers(0, 3, 60)],
        index=features.index,
        columns=["sky", "sea", "sun"],
    )
    return features, labels


def test_features_of_any_kind(table, caplog):
    features, _ = table
    with caplog.at_level(logging.INFO):
        encoded, encoder = encode_features(features)
    # Three numbers (a yes or no is one) and a column for each of three towns.
    assert encoded.shape == (60, 6)
    assert encoded[3, 0] == features["age"].median()
    assert encoded[4, 1] == features["count"].median()
    assert set(encoded[:, 2]) == {0.0, 1.0}
    common = features["town"].mode()[0]
    names = list(encoder.get_feature_names_out())
    assert encoded[5, names.index(f"others__town_{common}")] == 1
    assert (encoded[:, 3:].sum(axis=1) == 1).all()
    assert "Imputed missing values of 3 features: age (1), count (1), town (1)" in caplog.text
    assert "One-hot encoded 1 features (columns): town (3)" in caplog.text


def test_a_column_without_any_value_is_kept():
    features = pd.DataFrame({"a": [1.0, 2.0], "b": [np.nan, np.nan], "c": [None, None]})
    encoded, _ = encode_features(features)
    assert np.isfinite(encoded).all()


def test_decimals_and_very_large_whole_numbers_are_numbers(caplog):
    features = pd.DataFrame(
        {
            "price": [Decimal("1.5"), None, Decimal(3)],
            "id": [10**30, 2, 3],
            "code": ["7", "8", "9"],
            "kind": ["x", "x", "y"],
        }
    )
    encoded, _ = encode_features(features)
    # Text is categorical, even if it looks like a number: three codes, and one column of two kinds.
    assert encoded.shape == (3, 2 + 3 + 1)
    np.testing.assert_array_equal(encoded[:, :2], [[1.5, 1e30], [2.25, 2], [3, 3]])
    assert "Another value in every row" in caplog.text
    assert "code" in caplog.text
    assert "kind" not in caplog.text.partition("Another value")[2]


def test_two_values_are_one_column():
    features = pd.DataFrame({"smokes": ["no", "yes", None, "yes"], "ill": ["1", "0", "0", "0"]})
    encoded, encoder = encode_features(features)
    np.testing.assert_array_equal(encoded, [[0, 1], [1, 0], [1, 0], [1, 0]])
    assert list(encoder.get_feature_names_out()) == ["others__smokes_yes", "others__ill_1"]


def test_words_for_a_missing_value_are_kept_in_text():
    features = pd.DataFrame({"town": ["NA", "None", "nan", "Ulm", "Ulm", None]})
    encoded, encoder = encode_features(features)
    names = [f"others__town_{name}" for name in ("NA", "None", "Ulm", "nan")]
    assert list(encoder.get_feature_names_out()) == names
    np.testing.assert_array_equal(encoded.argmax(axis=1), [0, 1, 3, 2, 2, 2])


@pytest.mark.parametrize(("values", "rows"), [(40_000, 40_000), (51, 254), (9_000, 40_000)])
def test_text_with_few_rows_for_each_of_many_values_is_refused(values, rows):
    features = pd.DataFrame({"age": np.arange(rows), "id": np.arange(rows) % values})
    features["id"] = features["id"].map("p{}".format)
    message = (
        f"feature 'id' is text with {values} different values in {rows} rows; each value would be "
        'a column: leave the feature out, or let it name the rows by --params "index=id"'
    )
    with pytest.raises(DataError, match=message):
        encode_features(features)


@pytest.mark.parametrize(("values", "rows"), [(50, 50), (51, 255)])
def test_text_with_enough_rows_for_each_value_is_encoded(values, rows):
    features = pd.DataFrame({"town": [f"t{row % values}" for row in range(rows)]})
    encoded, _ = encode_features(features)
    assert encoded.shape == (rows, values)


def test_memory_is_known_before_it_is_taken(table, monkeypatch):
    features, labels = table
    encoded, encoder = encode_features(features)
    _, model = fit_and_enhance(encoded, encoder, labels, cell=cell_of("uniform"))
    # Sixty rows, three numbers and three towns.
    for free, fits in ((60 * 6 * 8, True), (60 * 6 * 8 - 1, False)):
        monkeypatch.setattr(
            "psutil.virtual_memory", lambda free=free: SimpleNamespace(available=free)
        )
        for encode in (
            lambda: encode_features(features),
            lambda: model.enhance(features, labels),
        ):
            if fits:
                encode()
                continue
            with pytest.raises(DataError, match=r"encoded features.*, 60 x 6, does not fit into"):
                encode()
    with pytest.raises(DataError, match=r"columns of text and their widths: town \(3\)"):
        encode_features(features)


def test_unseen_values_of_a_column_of_two_values(table, caplog):
    features, labels = table
    features["smokes"] = np.where(features["member"], "yes", "no")
    encoded, encoder = encode_features(features)
    _, model = fit_and_enhance(encoded, encoder, labels, cell=cell_of("uniform"))
    few = features[:3].assign(smokes="maybe")
    apply_model(model, few, labels[:3])
    assert (
        "Feature smokes has values that the model was not fitted to, taken for none of its values "
        "or, if it has two, for the first: maybe"
    ) in caplog.text
    np.testing.assert_array_equal(
        model.encoder.transform(few)[:, -1], model.encoder.transform(few.assign(smokes="no"))[:, -1]
    )


def test_infinity_is_named(table):
    features, _ = table
    features.loc["p7", "age"] = np.inf
    with pytest.raises(DataError, match="feature 'age' is infinite in row 7"):
        encode_features(features)


INDUCTIVE = [name for name, method in METHODS.items() if not method.transductive]


@pytest.mark.filterwarnings("ignore:ConLE. in .* folds no recovered")
@pytest.mark.filterwarnings("ignore:.* the logical labels hardly say how far")
@pytest.mark.parametrize("method", INDUCTIVE)
def test_a_fitted_model_is_the_same_from_its_folder(table, tmp_path, caplog, method):
    features, labels = table
    encoded, encoder = encode_features(features)
    hyperparameters = SHORT.get(METHODS[method].parameters, {})
    distributions, model = fit_and_enhance(
        encoded, encoder, labels, cell=cell_of(method, hyperparameters)
    )
    assert distributions.index.equals(labels.index)
    assert list(distributions) == ["sky", "sea", "sun"]
    np.testing.assert_allclose(distributions.sum(axis=1), 1)
    dataset = FittedModelDataset(str(tmp_path / "folder" / "model"))
    assert not dataset.exists()
    dataset.save(model)
    assert dataset.exists()
    assert [path.name for path in (tmp_path / "folder").iterdir()] == ["model"]
    loaded = dataset.load()
    # Columns are in another order, and some towns were never seen.
    few = features[["member", "town", "age", "count"]].iloc[:9].copy()
    np.testing.assert_allclose(
        apply_model(loaded, few, labels[["sun", "sky", "sea"]].iloc[:9]),
        distributions.iloc[:9],
        atol=1e-6,
    )
    few["town"] = "Rom"
    assert np.isfinite(apply_model(loaded, few, labels.iloc[:9]).to_numpy()).all()
    assert "Feature town has values that the model was not fitted to" in caplog.text
    assert "for the first: Rom" in caplog.text
    with pytest.raises(DataError, match="features that are not here: count, member"):
        apply_model(loaded, features[["age", "town"]], labels)
    with pytest.raises(DataError, match="labels that are not here: sea"):
        apply_model(loaded, features, labels[["sky", "sun"]])
    with pytest.raises(DataError, match="feature 'age' must be numbers"):
        apply_model(loaded, features.assign(age="old"), labels)


@pytest.mark.filterwarnings("ignore:ConLE. in 1 of 1 folds no recovered training row")
def test_the_reading_that_adaptive_conle_keeps_is_named(table, tmp_path, caplog):
    features, labels = table
    encoded, encoder = encode_features(features)
    dataset = FittedModelDataset(str(tmp_path / "model"))
    for method in ("conle", "conle_adaptive"):
        with caplog.at_level(logging.INFO):
            _, model = fit_and_enhance(
                encoded, encoder, labels, cell=cell_of(method, SHORT["conle"])
            )
        dataset.save(model)
        written = json.loads((tmp_path / "model" / "model.json").read_text())
        assert written.get("kept_reading") == model.kept_reading
        assert model.kept_reading == dataset.load().kept_reading
    assert model.kept_reading in ("double", "softmax", "raw")
    assert [message for message in caplog.messages if "reading" in message] == [
        f"conle_adaptive keeps the reading {model.kept_reading}"
    ]


def test_a_model_may_be_written_again(table, tmp_path):
    features, labels = table
    encoded, encoder = encode_features(features)
    dataset = FittedModelDataset(str(tmp_path / "model"), Version("v1", "v1"))
    for method in ("uniform", "softmax_labels"):
        _, model = fit_and_enhance(encoded, encoder, labels, cell=cell_of(method))
        dataset.save(model)
        assert dataset.load().method == method
    assert {path.name for path in (tmp_path / "model").iterdir()} == {"v1"}
    assert {path.name for path in (tmp_path / "model" / "v1").iterdir()} == {"model"}


def test_folders_that_are_no_models(tmp_path):
    (tmp_path / "model").mkdir()
    dataset = FittedModelDataset(str(tmp_path / "model"))
    with pytest.raises(RawFileError, match=r"it has no model.json, weights.safetensors"):
        dataset.load()
    for name in ("model.json", "weights.safetensors", "encoder.skops"):
        (tmp_path / "model" / name).write_text("{")
    with pytest.raises(RawFileError, match="cannot be read as a fitted model"):
        dataset.load()


@pytest.mark.parametrize("method", ["conle", "km"])
def test_methods_name_the_size_of_a_sparse_matrix(samples, method):
    features, labels = samples
    enhancer = METHODS[method].enhancer_class()
    with pytest.raises(ValueError, match=r"features must be dense, .* shape \(60, 5\)"):
        enhancer.fit(csr_array(features), labels)
    with pytest.raises(ValueError, match=r"logical_labels must be dense, .* shape \(60, 4\)"):
        enhancer.fit(features, csr_array(labels))


def test_transductive_methods_leave_no_model(table, tmp_path):
    features, labels = table
    encoded, encoder = encode_features(features)
    distributions, model = fit_and_enhance(encoded, encoder, labels, cell=cell_of("km"))
    np.testing.assert_allclose(distributions.sum(axis=1), 1)
    dataset = FittedModelDataset(str(tmp_path / "model"))
    dataset.save(model)
    assert not dataset.exists()
    assert list(tmp_path.iterdir()) == []


def test_labels_that_a_method_cannot_take(table):
    features, labels = table
    encoded, encoder = encode_features(features)
    labels.iloc[4] = 0
    with pytest.raises(ParameterError, match=r"^no distribution .*\(row 4 with 0"):
        fit_and_enhance(encoded, encoder, labels, cell=cell_of("posterior_pca"))


def test_tables_that_cannot_be_enhanced(table):
    features, labels = table
    with pytest.raises(DataError, match="no rows"):
        split_table((features[:0], labels[:0]))
    with pytest.raises(DataError, match="at least two labels; the input has sky alone"):
        split_table((features, labels[["sky"]]))


D = pd.DataFrame([[0.5, 0.3, 0.2], [0.2, 0.2, 0.6], [1.0, 0.0, 0.0]], columns=list("abc"))
L = pd.DataFrame([[1, 0, 0], [1, 1, 0], [1, 1, 1]], columns=list("abc"))


def test_checks():
    facts = check_table(D, L, 0.5).set_index("check")["value"]
    assert facts["samples with a relevant label below an irrelevant one"] == 1
    assert facts["pairs of a relevant label below an irrelevant one"] == 2
    assert facts["pairs of a relevant and an irrelevant label"] == 4
    # .5 does not exceed .5: the first needs a second label; the others are [c] and [a].
    assert facts["samples that binarise to their logical labels at T = 0.5"] == 0
    assert facts["mean mass of the relevant labels"] == pytest.approx((0.5 + 0.4 + 1) / 3)
    first = -(0.5 * np.log(0.5) + 0.3 * np.log(0.3) + 0.2 * np.log(0.2)) / np.log(3)
    np.testing.assert_allclose(entropies(D.to_numpy())[[0, 2]], [first, 0])


def test_facts_of_labels():
    table = label_table(D, L).set_index("label")
    assert table.loc["a", "relevant_share"] == 1
    assert np.isnan(table.loc["a", "degree_where_irrelevant"])
    assert table.loc["b", "degree_where_relevant"] == pytest.approx(0.1)
    assert table.loc["b", "degree_where_irrelevant"] == pytest.approx(0.3)


def test_page_of_checks():
    wide = pd.DataFrame(np.full((2, 30), 1 / 30), columns=[f"<label {n}>" for n in range(30)])
    page, _ = render_checks(wide, (wide > 1).astype(int), 0.5)
    assert "&lt;label 3&gt;" in page
    assert "<label 3>" not in page
    assert page.count("data:image/svg+xml") == 2


CANDIDATES = (
    cell_of("uniform"),
    cell_of("softmax_labels", name="softmax_labels"),
    cell_of("conle", {"steps": 12, "reading": "raw"}, name="conle reading=raw"),
)


# So few steps may not reach any agreement.
@pytest.mark.filterwarnings("ignore:ConLE. in 1 of 1 folds no recovered training row")
def test_the_chosen_method_is_fitted_and_the_model_keeps_the_comparison(table, tmp_path):
    features, labels = table
    encoded, encoder = encode_features(features)
    bound = {"cell": CANDIDATES[0], "candidates": CANDIDATES}
    comparison = compare_methods(encoded, labels, 2, 40, 0, 0.5, **bound)
    assert comparison["candidate"].tolist()[:3] == [own.name for own in CANDIDATES]
    assert set(comparison["rows"]) == {40}
    comparison["chosen"] = comparison["candidate"] == "conle reading=raw"
    distributions, model = fit_and_enhance(encoded, encoder, labels, comparison, **bound)
    expected, _ = fit_and_enhance(encoded, encoder, labels, cell=CANDIDATES[2])
    pd.testing.assert_frame_equal(distributions, expected)
    assert (model.method, model.enhancer.reading) == ("conle", "raw")
    dataset = FittedModelDataset(str(tmp_path / "model"))
    dataset.save(model)
    kept = dataset.load().comparison
    assert kept["candidate"].tolist() == comparison["candidate"].tolist()
    assert kept.loc[kept["chosen"], "candidate"].item() == "conle reading=raw"


def test_too_few_rows_to_compare(table):
    features, labels = table
    encoded, _ = encode_features(features[:3])
    with pytest.raises(ParameterError, match="too few for a comparison of methods: name a method"):
        compare_methods(
            encoded, labels[:3], 3, 40, 0, 0.5, cell=CANDIDATES[0], candidates=CANDIDATES
        )


@pytest.mark.parametrize(("degrees", "rows"), [(None, 500), (4000, 500), (1600, 400), (3, 300)])
def test_with_many_labels_fewer_rows_are_compared(caplog, degrees, rows):
    generator = np.random.default_rng(0)
    labels = pd.DataFrame(generator.integers(0, 2, (600, 4)), columns=list("abcd"))
    bound = {"cell": CANDIDATES[0], "candidates": CANDIDATES[:1]}
    with caplog.at_level(logging.INFO):
        table = compare_methods(
            generator.random((600, 2)), labels, 2, 500, 0, 0.5, degrees, **bound
        )
    assert set(table["rows"]) == {rows}
    assert f"With 4 labels, {rows} of 600 rows are compared" in caplog.text


def test_warnings_name_an_option(caplog):
    flat = pd.DataFrame([[0.26, 0.25, 0.25, 0.24]] * 4, columns=list("abcd"))
    labels = pd.DataFrame([[1, 0, 0, 0]] * 3 + [[0, 0, 0, 1]], columns=list("abcd"))
    near, order, constant = warnings_of(flat, labels, compared=False)
    assert near.startswith("the distributions are nearly uniform (mean entropy 1.000)")
    assert "method=auto compares methods" in near
    assert "conle.reading=raw" in near
    # All three pairs of the last row, of twelve in all.
    assert order.startswith("25.0% of the pairs")
    assert "posterior_pca.threshold_model=false keeps the order" in order
    assert constant.startswith("the degrees of a, b, c, d are the same in all rows: method=auto")
    assert "method=NAME takes another candidate" in warnings_of(flat, labels, compared=True)[0]
    page, _ = render_checks(flat, labels, 0.5)
    assert page.count('class="warning"') == 3
    assert "The distributions are nearly uniform" in caplog.text


def test_no_warnings_about_distributions_that_say_something():
    assert warnings_of(D, L.assign(a=[1, 0, 1], b=[0, 0, 0], c=[0, 1, 0]), compared=False) == []


def comparison_of(lead, all_rows=60, kl_error=0.0):
    """A comparison with a chosen candidate, one that failed, and the rivals."""
    rows = [
        {"candidate": "lp", "log_likelihood": -1.25, "lead": lead, "lead_error": 0.1}
        | {"kl_to_featureless": 0.125, "kl_error": kl_error},
        {"candidate": "posterior_pca threshold_model=false", "note": "not these labels"},
        {"candidate": "normalised labels", "log_likelihood": -1.5},
        {"candidate": "logistic regression", "average_precision": 0.75},
    ]
    table = pd.DataFrame(rows, columns=COLUMNS).assign(rows=60, all_rows=all_rows)
    return table.assign(chosen=table["candidate"] == "lp")


def test_the_page_says_what_was_chosen_and_why():
    page, _ = render_checks(D, L, 0.5, comparison_of(0.25, all_rows=900))
    assert "lp is chosen: its KL to the featureless posterior is the smallest." in page
    assert "lp is the best of them: its lead over the normalised labels is +0.2500 ± 0.1" in page
    assert "The candidates were compared on 60 rows, a random sample of 900." in page
    assert '<td class="best">-1.2500</td>' in page
    assert "<p>posterior_pca threshold_model=false: not these labels</p>" in page
    page, _ = render_checks(D, L, 0.5, comparison_of(0.05, kl_error=0.01))
    assert "within its standard error, it is nearest to uniform." in page
    assert "To predict labels, label enhancement does not help on these data" in page
    assert "The largest lead is that of lp, +0.0500 ± 0.1000." in page
    assert "on 60 rows." in page
    # On paper, wide tables do not scroll.
    on_screen, on_paper = page.partition("</style>")[0].split("@media print")
    assert "display: block; overflow-x: auto;" in on_screen
    assert "display: table; overflow: visible;" in on_paper


def test_the_comparison_fits_into_80_columns():
    console = Console(width=80, record=True, file=StringIO())
    print_comparison(console, comparison_of(0.25))
    text = console.export_text()
    assert max(map(len, text.splitlines())) <= 80
    for part in ("log lik.", "-1.2500", "0.2500", "0.7500", "threshold_model=false"):
        assert part in text
    assert "…" not in text
    assert "posterior_pca threshold_model=false cannot be compared: not these labels" in (
        " ".join(text.split())
    )
    # The text is without bold letters, as in a file.
    assert "Compared methods; → marks the chosen one" in text
    assert [line.split()[1] for line in text.splitlines() if line.startswith(" →")] == ["lp"]
