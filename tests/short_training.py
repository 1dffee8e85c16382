"""Hyperparameters with which methods take fractions of a second."""

# Any 0/1 labels only order degrees; the threshold model has tests of its own.
FEW_SWEEPS = {"sweeps": 8, "burn_in": 3, "threshold_model": False}
SHORT = {
    "conle": {"steps": 20},
    "levi_mlp": {"epochs": 5},
    "lible": {"epochs": 5},
    "conle_posterior": {"epochs": 3, **FEW_SWEEPS},
    "posterior_pca": FEW_SWEEPS,
    "posterior_featureless": FEW_SWEEPS,
}
