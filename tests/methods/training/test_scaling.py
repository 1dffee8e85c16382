import numpy as np
import torch

from conle.methods.training.scaling import FeatureScaling

CPU = torch.device("cpu")


def test_standard_scaling_takes_its_statistics_from_the_training_rows():
    features = np.array([[1.0, 5.0], [3.0, 5.0], [100.0, 6.0]])
    splits = [(np.array([0, 1]), np.array([2])), (np.array([0, 1, 2]), np.array([], dtype=int))]
    standardised = FeatureScaling.standard(features, splits, clip=5.0).apply(features, CPU).numpy()
    # Mean 2, standard deviation 1; the test row is clipped, the constant column is zero.
    np.testing.assert_allclose(standardised[0], [[-1, 0], [1, 0], [5, 0]])
    np.testing.assert_allclose(standardised[1].mean(axis=0), 0, atol=1e-6)
    np.testing.assert_allclose(standardised[1].std(axis=0), 1, atol=1e-6)


def test_standard_scaling_of_large_offsets_keeps_small_differences():
    features = 1e9 + np.arange(4.0)[:, None]
    rows = np.arange(4)
    standardised = FeatureScaling.standard(features, [(rows, rows)], clip=5.0).apply(features, CPU)
    np.testing.assert_allclose(
        standardised[0, :, 0], (np.arange(4) - 1.5) / np.arange(4).std(), rtol=1e-6
    )


def test_min_max_scaling_takes_its_limits_from_the_training_rows():
    features = np.array([[1.0, 5.0], [3.0, 5.0], [100.0, 6.0], [2.0, 5.0]])
    splits = [(np.array([0, 1, 3]), np.array([2]))]
    scaled = FeatureScaling.min_max(features, splits).apply(features, CPU).numpy()
    np.testing.assert_allclose(scaled[0], [[0, 0], [1, 0], [1, 0], [0.5, 0]])
