"""Seeds of the parts of a computation, each independent of the others."""

import numpy as np


def fold_seeds(seed: int, folds: int) -> list[np.random.SeedSequence]:
    """One independent seed for each fold. That of a fold does not depend on how many there are."""
    return np.random.SeedSequence(seed).spawn(folds)


def spawned(seed: np.random.SeedSequence, number: int) -> list[np.random.SeedSequence]:
    """As `seed.spawn(number)` the first time, whenever it is called.

    A chunk of folds that is tried again, with fewer at a time, has the seeds that it had.
    """
    return [
        np.random.SeedSequence(
            seed.entropy, spawn_key=(*seed.spawn_key, child), pool_size=seed.pool_size
        )
        for child in range(number)
    ]
