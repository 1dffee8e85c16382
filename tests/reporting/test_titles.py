import numpy as np
import pytest

from conle.reporting.posterior import EXAMINATION_COLUMNS
from conle.reporting.titles import column_title, label_titles


@pytest.mark.parametrize(
    ("column", "title"),
    [
        ("clark", "Clark ↓"),
        ("conle_posterior", "ConLE posterior"),
        ("lower_with_posterior_pca", "lower with PCA posterior"),
        ("examples_published", "examples, published"),
        ("r_hat_median", "R-hat, median"),
        ("average_rank", "average rank"),
    ],
)
def test_columns_have_titles(column, title):
    assert column_title(column) == title


def test_titles_of_columns_differ():
    titles = [column_title(name) for name in EXAMINATION_COLUMNS]
    assert len(set(titles)) == len(titles)


def test_labels_have_the_names_of_the_field():
    labels = [f"label_{number}" for number in range(1, 7)]
    assert label_titles("SJAFFE", labels)[:2] == ["happiness", "sadness"]
    assert label_titles("Movie", labels[:5]) == ["1 star", *(f"{n} stars" for n in (2, 3, 4, 5))]
    assert label_titles("emotion6", range(7))[1] == "disgust"
    assert label_titles("FG-Net", range(70))[::69] == ["age 0", "age 69"]
    assert label_titles("Yeast_heat", labels)[5] == "label 6"
    # A file of that name with other labels.
    assert label_titles("SJAFFE", ["joy", "label_2"]) == ["joy", "label 2"]


def test_the_names_of_sjaffe_are_those_of_its_ratings(load_real):
    """The first image of JAFFE (KM-NE1) has these mean ratings, in the order of the names."""
    ratings = {"happiness": 2.87, "sadness": 2.52, "surprise": 2.10}
    ratings |= {"anger": 1.97, "disgust": 1.97, "fear": 2.06}
    _, distributions = load_real("SJAFFE")
    expected = np.array([ratings[name] for name in label_titles("SJAFFE", range(6))])
    np.testing.assert_allclose(distributions[0], expected / expected.sum(), atol=5e-4)


def test_the_names_of_sbu_3dfe_are_those_of_the_expressions(load_real):
    """BU-3DFE has 25 files for each of 100 people: six expressions at four levels, and neutral.

    In the order of the files' names, the faces of the highest level have the largest mean degree
    at the name of their expression.
    """
    last = {"anger": 3, "disgust": 7, "fear": 11, "happiness": 15, "sadness": 20, "surprise": 24}
    _, distributions = load_real("SBU_3DFE")
    means = distributions.reshape(100, 25, 6).mean(axis=0)
    names = label_titles("SBU_3DFE", range(6))
    assert [names[means[row].argmax()] for row in last.values()] == list(last)
