"""Measures, binarisation, learners and the Artificial dataset: plain NumPy."""
