"""The limit: how near the true distributions of the training rows would bring anybody."""

from conle.pipelines.limit.pipeline import create_pipeline

__all__ = ["create_pipeline"]
