"""Contrastive label enhancement (ConLE) as a Kedro project."""
