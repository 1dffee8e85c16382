from conle.methods.seeds import fold_seeds, spawned


def test_fold_seeds_do_not_depend_on_the_number_of_folds():
    few, many = fold_seeds(3, 2), fold_seeds(3, 5)
    assert [s.generate_state(2).tolist() for s in many[:2]] == [
        s.generate_state(2).tolist() for s in few
    ]


def test_seeds_of_parts_are_the_same_again():
    seed = fold_seeds(3, 2)[1]
    first, again = spawned(seed, 3), spawned(seed, 3)
    for one, other, usual in zip(first, again, seed.spawn(3), strict=True):
        assert one.generate_state(4).tolist() == other.generate_state(4).tolist()
        assert one.generate_state(4).tolist() == usual.generate_state(4).tolist()
