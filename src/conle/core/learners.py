"""A learner of label distributions, which predicts them from features alone.

Label enhancement serves such learners: they are trained on the distributions that it recovers.
"""

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike
from scipy.linalg import svd
from scipy.optimize import minimize
from scipy.special import log_softmax, softmax, xlogy
from sklearn.preprocessing import StandardScaler

from conle.core.hyperparameters import Hyperparameters, NonNegativeFloat, PositiveInt

Distributions = Float[np.ndarray, "samples labels"]

# With so many times more features than samples, weights are fitted in the span of the samples.
WIDE = 2


class SABFGS(Hyperparameters):
    """The maximum entropy model p(y | x) = softmax(W' [1, x]), fitted by L-BFGS.

    Minimises the sum over the samples of KL(D || p) plus l2 |W|^2 / 2 without the intercepts. The
    features are standardised on the training rows.

    Source: X. Geng, "Label distribution learning", TKDE 2016 (SA-BFGS). The penalty is ours: it
    keeps weights finite where there are more features than samples.

    Attributes:
        weights_: W, (1 + features) x labels.
    """

    l2: NonNegativeFloat = 1.0
    """Weight of the penalty; 1 is a standard normal prior."""
    iterations: PositiveInt = 500
    """Largest number of iterations of L-BFGS."""

    def fit(self, features: ArrayLike, distributions: ArrayLike) -> "SABFGS":
        """Learn from features (samples x features) and distributions (samples x labels).

        Raises:
            ValueError: a hyperparameter is out of its range, or shapes do not match.
        """
        self.check_hyperparameters()
        D = np.asarray(distributions, dtype=np.float64)
        self._scaler = StandardScaler().fit(features)
        columns = self._columns(features)
        if len(columns) != len(D):
            raise ValueError(f"{len(columns)} rows of features but {len(D)} of distributions")
        basis = None
        if columns.shape[1] > WIDE * len(columns):
            # The penalty keeps W in the span of the samples, which has fewer coordinates.
            _, _, basis = svd(columns[:, 1:], full_matrices=False)
            columns = np.hstack([columns[:, :1], columns[:, 1:] @ basis.T])
        penalty = np.full((columns.shape[1], 1), self.l2)
        penalty[0] = 0.0
        shape = (columns.shape[1], D.shape[1])
        entropy = xlogy(D, D).sum()

        def objective(flat: np.ndarray) -> tuple[float, np.ndarray]:
            W = flat.reshape(shape)
            logits = columns @ W
            value = entropy - (D * log_softmax(logits, axis=1)).sum() + (penalty * W**2).sum() / 2
            difference = softmax(logits, axis=1) * D.sum(axis=1, keepdims=True) - D
            return value, (columns.T @ difference + penalty * W).ravel()

        found = minimize(
            objective,
            np.zeros(shape).ravel(),
            jac=True,
            method="L-BFGS-B",
            options={"maxiter": self.iterations},
        )
        W = found.x.reshape(shape)
        self.weights_ = W if basis is None else np.vstack([W[:1], basis.T @ W[1:]])
        return self

    def predict(self, features: ArrayLike) -> Distributions:
        """Predict the distributions of samples: samples x labels, rows sum to 1."""
        return softmax(self._columns(features) @ self.weights_, axis=1)

    def _columns(self, features: ArrayLike) -> Float[np.ndarray, "samples columns"]:
        scaled = self._scaler.transform(features)
        return np.hstack([np.ones((len(scaled), 1)), scaled])
