"""Label distributions for data of one's own."""

from conle.pipelines.enhance.pipeline import create_pipeline

__all__ = ["create_pipeline"]
