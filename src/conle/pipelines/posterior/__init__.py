"""Choosing the representation of the posterior decoder by the logical labels."""

from conle.pipelines.posterior.pipeline import create_pipeline

__all__ = ["create_pipeline"]
