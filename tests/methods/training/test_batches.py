import numpy as np

from conle.methods.training.batches import fold_batches


def test_batches_go_through_every_training_row_once_an_epoch():
    rows = [np.arange(10, 21), np.arange(100, 111)]
    batches = list(fold_batches(rows, 4, 6, [np.random.default_rng(s) for s in (0, 1)]))
    for fold, own in enumerate(rows):
        for epoch in (batches[:3], batches[3:]):
            seen = np.concatenate([batch[fold] for batch, _ in epoch])
            assert sorted(seen) == list(own)
        assert batches[0][0][fold].tolist() != batches[3][0][fold].tolist()
    assert [batch.shape[1] for batch, _ in batches[:3]] == [4, 4, 3]
    assert all(present is None for _, present in batches)


def test_folds_of_different_sizes_are_padded():
    rows = [np.arange(5), np.arange(50, 54)]
    (batch, present), *_ = fold_batches(rows, 8, 1, [np.random.default_rng(s) for s in (0, 1)])
    assert batch.shape == (2, 5)
    assert present.tolist() == [[True] * 5, [True] * 4 + [False]]
    assert sorted(batch[1][present[1]].tolist()) == [50, 51, 52, 53]


def test_batches_of_a_fold_do_not_depend_on_the_others():
    rows = [np.arange(30), np.arange(40, 71), np.arange(7)]
    seeds = (0, 1, 2)
    together = fold_batches(rows, 8, 12, [np.random.default_rng(s) for s in seeds])
    alone = fold_batches(rows[1:2], 8, 12, [np.random.default_rng(1)])
    for (batch, present), (own, _) in zip(together, alone, strict=True):
        taken = batch[1] if present is None else batch[1][present[1]]
        assert taken.tolist() == own[0].tolist()
