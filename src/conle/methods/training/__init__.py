"""Trains the folds of the network methods together."""
