"""The posterior decoders, and the choice among them by the logical labels."""

from conle.pipelines.posterior.pipeline import create_pipeline

__all__ = ["create_pipeline"]
