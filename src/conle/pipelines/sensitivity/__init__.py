"""Sensitivity of ConLE to the weights of its losses (the paper's Figure 3)."""

from conle.pipelines.sensitivity.pipeline import create_pipeline

__all__ = ["create_pipeline"]
