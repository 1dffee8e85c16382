"""Independent seeds for the parts of a computation."""

import numpy as np


def fold_seeds(seed: int, folds: int) -> list[np.random.SeedSequence]:
    """One independent seed per fold; the seed of a fold does not depend on the number of folds."""
    return np.random.SeedSequence(seed).spawn(folds)


def spawned(seed: np.random.SeedSequence, number: int) -> list[np.random.SeedSequence]:
    """Return what `seed.spawn(number)` returns the first time, at every call.

    So a chunk of folds that starts anew has the seeds that it had.
    """
    return [
        np.random.SeedSequence(
            seed.entropy, spawn_key=(*seed.spawn_key, child), pool_size=seed.pool_size
        )
        for child in range(number)
    ]
