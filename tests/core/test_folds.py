import numpy as np
import pandas as pd

from conle.core.folds import folds_of, make_folds, splits_of

LABELS = pd.DataFrame({"label_1": [1] * 23, "label_2": [0] * 23})


def test_every_sample_is_tested_once_in_each_repeat():
    folds = make_folds(LABELS, repeats=3, folds=5, seed=0)
    assert list(folds.columns) == ["repeat", "fold", "sample"]
    for _, repeat in folds.groupby("repeat"):
        assert sorted(repeat["sample"]) == list(range(23))
        assert sorted(repeat["fold"].value_counts()) == [4, 4, 5, 5, 5]
    assert sorted(folds["repeat"].unique()) == [1, 2, 3]
    assert sorted(folds["fold"].unique()) == [1, 2, 3, 4, 5]


def test_folds_follow_from_the_seed():
    first, same, other = (make_folds(LABELS, 2, 5, seed) for seed in (1, 1, 2))
    pd.testing.assert_frame_equal(first, same)
    assert not first.equals(other)


def test_repeats_differ_and_do_not_depend_on_how_many_there_are():
    many = make_folds(LABELS, repeats=3, folds=5, seed=0)
    few = make_folds(LABELS, repeats=2, folds=5, seed=0)
    pd.testing.assert_frame_equal(many[many["repeat"] <= 2], few)
    one, two = (many.loc[many["repeat"] == repeat, "sample"].tolist() for repeat in (1, 2))
    assert one != two


def test_only_the_number_of_samples_matters():
    pd.testing.assert_frame_equal(make_folds(LABELS, 2, 5, 0), make_folds(1 - LABELS, 2, 5, 0))


def test_training_rows_are_all_rows_but_those_of_the_test_fold():
    folds = make_folds(LABELS, repeats=2, folds=3, seed=0)
    splits = splits_of(folds, 23)
    assert len(splits) == 6
    for (training, test), (_, rows) in zip(splits, folds.groupby(["repeat", "fold"]), strict=True):
        assert test.tolist() == rows["sample"].tolist()
        assert training.tolist() == sorted(set(range(23)) - set(test.tolist()))


def test_folds_in_the_order_of_the_table():
    folds = pd.DataFrame(
        {"repeat": [2, 2, 2, 1, 1], "fold": [2, 2, 1, 1, 2], "sample": [3, 0, 4, 1, 2]}
    )
    assert folds_of(folds) == [(2, 2), (2, 1), (1, 1), (1, 2)]
    np.testing.assert_equal(
        splits_of(folds, 5),
        [([1, 2, 4], [3, 0]), ([0, 1, 2, 3], [4]), ([0, 2, 3, 4], [1]), ([0, 1, 3, 4], [2])],
    )
