"""Recovery of label distributions by every method."""

from conle.pipelines.recovery.pipeline import create_pipeline

__all__ = ["create_pipeline"]
