"""The Artificial dataset: three labels whose degrees are known functions of three features."""

import numpy as np
from jaxtyping import Float

SIDE = 51
A, B, C, D = 1.0, 0.5, 0.2, 1.0
WEIGHTS = np.array([[4.0, 2.0, 1.0], [1.0, 2.0, 4.0], [1.0, 4.0, 2.0]])
LAMBDA_1 = LAMBDA_2 = 0.01


def make_artificial() -> tuple[
    Float[np.ndarray, "samples 3"],
    Float[np.ndarray, "samples 3"],
]:
    """Make the 2601 samples of the Artificial dataset, used in label enhancement as the test set.

    x1 and x2 lie on a 51 x 51 grid over [-1, 1] (x2 varies fastest), x3 = sin(pi (x1 + x2)).

    Source: Geng, "Label distribution learning", TKDE 2016, equations 24 to 28.

    Returns:
        Features (2601 x 3) and label distributions (2601 x 3, rows sum to 1).
    """
    axis = np.linspace(-1.0, 1.0, SIDE)
    x1, x2 = (grid.ravel() for grid in np.meshgrid(axis, axis, indexing="ij"))
    features = np.column_stack([x1, x2, np.sin((x1 + x2) * np.pi)])
    t = A * features + B * features**2 + C * features**3 + D
    psi_1 = (t @ WEIGHTS[0]) ** 2
    psi_2 = (t @ WEIGHTS[1] + LAMBDA_1 * psi_1) ** 2
    psi_3 = (t @ WEIGHTS[2] + LAMBDA_2 * psi_2) ** 2
    psi = np.column_stack([psi_1, psi_2, psi_3])
    return features, psi / psi.sum(axis=1, keepdims=True)
