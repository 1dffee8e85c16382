"""Objective and recovery against the epoch (the paper's Figure 4)."""

from conle.pipelines.convergence.pipeline import create_pipeline

__all__ = ["create_pipeline"]
