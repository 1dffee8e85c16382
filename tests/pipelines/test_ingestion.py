import logging

import numpy as np
import pandas as pd
import pytest

from conle import known_datasets
from conle.data.mat import BenchmarkMatDataset
from conle.errors import DataError
from conle.pipelines.ingestion.nodes import describe, ingest, make_logical_labels

FEATURES = np.arange(12.0).reshape(4, 3)
REGISTRY = pd.read_csv(known_datasets.REGISTRY)
DISTRIBUTIONS = np.array([[0.5, 0.3, 0.2], [0.1, 0.1, 0.8], [1.0, 0.0, 0.0], [0.3, 0.3, 0.4]])


def raw(features=FEATURES, labels=DISTRIBUTIONS, **more):
    return {"features": features, "labels": labels, "__file__": "Toy.mat", "__sha256__": "0"} | more


def ingested(variables, folds=2, dataset="Toy"):
    return ingest(variables, folds, REGISTRY, dataset=dataset)


def test_takes_features_and_distributions():
    features, distributions, given, source = ingested(raw())
    np.testing.assert_array_equal(features, FEATURES)
    np.testing.assert_array_equal(distributions, DISTRIBUTIONS)
    assert list(distributions.columns) == ["label_1", "label_2", "label_3"]
    assert given.shape == (4, 0)
    assert source == {"dataset": "Toy", "file": "Toy.mat", "sha256": "0"}


@pytest.mark.parametrize("features_key", ["features", "Feature", "X", "DATA"])
@pytest.mark.parametrize("labels_key", ["labels", "labelDistribution", "label_distribution", "D"])
def test_usual_names_in_any_case(features_key, labels_key):
    variables = raw()
    variables[features_key] = variables.pop("features")
    variables[labels_key] = variables.pop("labels")
    features, distributions, _, _ = ingested(variables)
    np.testing.assert_array_equal(features, FEATURES)
    np.testing.assert_array_equal(distributions, DISTRIBUTIONS)


def test_scalars_are_not_taken_for_matrices():
    variables = raw(d=np.array([[3]]), l=np.array([[2]]))
    variables["D"] = variables.pop("labels")
    _, distributions, given, _ = ingested(variables)
    np.testing.assert_array_equal(distributions, DISTRIBUTIONS)
    assert given.shape == (4, 0)


def test_integer_matrices():
    features, distributions, _, _ = ingested(
        raw(FEATURES.astype(np.int8), np.array([[0, 1]] * 4, dtype=np.uint8))
    )
    np.testing.assert_array_equal(features, FEATURES)
    assert distributions.dtypes.tolist() == [np.float64] * 2


@pytest.mark.parametrize("turned", [("features",), ("labels",), ("features", "labels")])
def test_columns_that_are_samples_are_turned(turned, caplog):
    """Five samples, three features, two labels."""
    variables = raw(np.arange(15.0).reshape(5, 3), np.array([[0.25, 0.75]] * 5))
    own = np.array([[0, 1]] * 5)
    variables |= {name: variables[name].T for name in turned} | {"logicalLabel": own.T}
    features, distributions, given, _ = ingested(variables)
    np.testing.assert_array_equal(features, np.arange(15.0).reshape(5, 3))
    np.testing.assert_array_equal(distributions, [[0.25, 0.75]] * 5)
    np.testing.assert_array_equal(given, own)
    assert "the samples are the columns of" in caplog.text


def test_rows_within_1e_9_are_left_as_they_are():
    nearly = DISTRIBUTIONS.copy()
    nearly[0, 0] += 5e-10
    nearly[1, 0] += 5e-4
    _, distributions, _, _ = ingested(raw(labels=nearly))
    np.testing.assert_array_equal(distributions.iloc[0], nearly[0])
    np.testing.assert_allclose(distributions.iloc[1], nearly[1] / nearly[1].sum(), rtol=1e-15)


def test_degrees_with_three_decimals(caplog):
    """Rows of .999 and of 1.001, in every order of their degrees, are divided by their sum."""
    below = np.array([[0.333, 0.333, 0.333], [0.999, 0, 0], [0.1, 0.2, 0.699], [0.699, 0.2, 0.1]])
    above = np.array([[0.334, 0.334, 0.333], [1.001, 0, 0], [0.1, 0.2, 0.701], [0.701, 0.2, 0.1]])
    for rows, total in ((below, 0.999), (above, 1.001)):
        _, distributions, *_ = ingested(raw(labels=rows))
        np.testing.assert_allclose(distributions, rows / total, rtol=1e-14)
        assert "Toy (Toy.mat): 4 rows sum to 1 only within 0.001, and are divided" in caplog.text
        caplog.clear()
    ingested(raw())
    assert not caplog.records


def test_rows_that_the_registry_has_a_reason_for(caplog):
    """FG-Net's degrees are the density of a normal distribution at the ages from 0 to 69."""
    ages = np.arange(70.0)
    density = np.exp(-((ages - np.array([[5.0], [30.0], [69.0], [30.0]])) ** 2) / 18)
    density /= 3 * np.sqrt(2 * np.pi)
    _, distributions, *_ = ingested(raw(labels=density), dataset="FG-Net")
    np.testing.assert_allclose(
        distributions, density / density.sum(axis=1, keepdims=True), rtol=1e-14
    )
    assert (
        "FG-Net (Toy.mat): 2 rows sum to 1 only within 0.43, and are divided by their sum: the "
        "density around an age is cut off at ages 0 and 69"
    ) in caplog.text
    with pytest.raises(DataError, match="label distributions must sum to 1"):
        ingested(raw(labels=density))
    density[1] = 0
    with pytest.raises(DataError, match=r"must sum to 1; rows \(from 0\) 1 \(sum 0\)"):
        ingested(raw(labels=density), dataset="FG-Net")


@pytest.mark.parametrize(
    ("variables", "message"),
    [
        ({"features": FEATURES}, "no label distributions; they are looked for under labels, "),
        ({"labels": DISTRIBUTIONS}, r"no features; .* the file holds labels"),
        (raw(FEATURES[:3]), "3 rows of features but 4 of label distributions"),
        (raw(labels=np.ones((4, 1))), "at least two labels, not 1"),
        (raw(FEATURES[None]), r"features must be a matrix of real numbers, .* \(1, 4, 3\)"),
        (raw(FEATURES[:0], DISTRIBUTIONS[:0]), "features must be a matrix"),
        (raw(FEATURES + 1j), "complex128"),
        (raw(np.array([["a"]] * 4)), "real numbers, but 'features' is <U1"),
        (raw(np.where(FEATURES == 7, np.nan, FEATURES)), r"features must be finite; rows .* 2$"),
        (raw(labels=DISTRIBUTIONS * 1.01), r"must sum to 1; rows \(from 0\) 0 \(sum 1.01\), 1 \("),
        (raw(labels=DISTRIBUTIONS * 0), r"0 \(sum 0\)"),
        (
            raw(labels=np.array([[1.5, -0.5, 0.0]] + [[0.5, 0.5, 0.0]] * 3)),
            r"negative degrees; rows \(from 0\) 0$",
        ),
        (raw(np.zeros((9, 2)), np.ones((9, 2))), r"3 \(sum 2\), 4 \(sum 2\) and 4 more"),
        (raw(Labels=DISTRIBUTIONS), "labels and Labels could both be meant"),
        (raw(L=np.ones((4, 2))), r"logical labels have the shape \(4, 2\)"),
        (raw({}), "features must be a matrix of real numbers, but 'features' is a struct"),
        (raw(labels=[]), "label distributions must be .*, but 'labels' is a cell array"),
        (raw(labels=DISTRIBUTIONS * 1.00102), r"must sum to 1; rows \(from 0\) 0 \(sum 1.00102\)"),
        (raw(L=np.sign(DISTRIBUTIONS - 0.35)), "must be 0 or 1: they are -1 and 1; write 0 for -1"),
        (raw(L=np.full((4, 3), 2)), "logical labels must be 0 or 1; rows"),
    ],
)
def test_bad_files_end_in_a_message_that_names_the_place(variables, message):
    variables = {"__file__": "Toy.mat", "__sha256__": "0"} | variables
    with pytest.raises(DataError, match=message) as error:
        ingested(variables)
    assert str(error.value.message).startswith("Toy (Toy.mat): ")


def test_fewer_samples_than_folds():
    with pytest.raises(DataError, match="4 samples cannot be split into 5 folds"):
        ingested(raw(), folds=5)


def test_logical_labels_are_binarised_distributions():
    _, distributions, given, _ = ingested(raw())
    logical_labels = make_logical_labels(distributions, given, 0.5)
    assert logical_labels.to_numpy().tolist() == [[1, 1, 0], [0, 0, 1], [1, 0, 0], [1, 0, 1]]
    assert list(logical_labels.columns) == list(distributions.columns)
    assert make_logical_labels(distributions, given, 0.75).iloc[3].tolist() == [1, 1, 1]


@pytest.mark.parametrize("key", ["logicalLabel", "L"])
def test_a_files_own_logical_labels_are_taken(key):
    own = np.array([[0, 0, 1]] * 4)
    _, distributions, given, _ = ingested(raw(**{key: own}))
    assert make_logical_labels(distributions, given, 0.5).to_numpy().tolist() == own.tolist()


def described(features, distributions, known=(), dataset="Toy"):
    labels = make_logical_labels(distributions, distributions[[]], 0.5)
    return describe(
        {"__file__": f"{dataset}.mat", "__sha256__": "0"},
        features,
        distributions,
        labels,
        pd.DataFrame(known, columns=["dataset", "examples", "features", "labels"]),
        pd.DataFrame({"dataset": ["Toy"], "sha256": ["0"]}),
        dataset=dataset,
    )


def test_statistics(caplog):
    features, distributions, _, _ = ingested(raw())
    statistics = described(features, distributions, [("Toy", 4, 3, 3)])
    assert statistics == {
        "dataset": "Toy",
        "file": "Toy.mat",
        "sha256": "0",
        "examples": 4,
        "features": 3,
        "labels": 3,
        "zero_degrees": 2,
        "relevant_labels": 6,
        "samples_by_relevant_labels": {"1": 2, "2": 2},
        "sizes_match_table_1": True,
        "file_is_the_benchmarks": True,
    }
    assert not caplog.records


def test_statistics_that_differ_from_table_1_are_reported(caplog):
    features, distributions, _, _ = ingested(raw())
    with caplog.at_level(logging.WARNING):
        statistics = described(features, distributions, [("Toy", 5, 3, 3)])
    assert statistics["sizes_match_table_1"] is False
    assert "Table 1" in caplog.text
    other = described(features, distributions, [("Toy", 5, 3, 3)], dataset="Other")
    assert other["sizes_match_table_1"] is None
    assert other["file_is_the_benchmarks"] is None


@pytest.mark.parametrize("name", ["SJAFFE", "SBU_3DFE", "Yeast_alpha", "Yeast_spo5"])
def test_benchmark_files(real_data, name, request):
    published = request.config.rootpath / "src" / "conle" / "published"
    variables = BenchmarkMatDataset(filepath=str(real_data / f"{name}.mat")).load()
    features, distributions, given, source = ingested(variables, 10, name)
    np.testing.assert_array_equal(distributions, variables["labels"])
    statistics = describe(
        variables,
        features,
        distributions,
        make_logical_labels(distributions, given, 0.5),
        pd.read_csv(published / "table1_datasets.csv"),
        REGISTRY,
        dataset=name,
    )
    assert source.items() <= statistics.items()
    assert statistics["sizes_match_table_1"] is True
    assert statistics["file_is_the_benchmarks"] is True


@pytest.mark.parametrize(
    ("name", "shape", "warning"),
    [
        ("M2B", (1240, 250, 5), ""),
        ("Music", (360, 128, 9), ""),
        ("Yeast_spoem", (2465, 24, 2), ""),
        ("emotion6", (1980, 168, 7), "1568 rows sum to 1 only within 1.7e-06, and are divided by"),
    ],
)
def test_public_files(public_data, name, shape, warning, caplog):
    variables = BenchmarkMatDataset(filepath=str(public_data / f"{name}.mat")).load()
    features, distributions, given, _ = ingested(variables, 10, name)
    assert (*features.shape, distributions.shape[1]) == shape
    assert given.shape == (len(features), 0)
    np.testing.assert_array_equal(features, variables["features"])
    np.testing.assert_allclose(distributions, variables["labels"], atol=2e-6)
    np.testing.assert_allclose(distributions.sum(axis=1), 1, rtol=1e-9)
    assert len(caplog.records) == bool(warning)
    assert warning in caplog.text
    assert ("degrees are rounded to six digits" in caplog.text) == bool(warning)
