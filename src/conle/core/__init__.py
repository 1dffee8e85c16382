"""Measures, binarisation, learners, hyperparameters and the Artificial dataset."""
