"""Label distributions for a user's own table."""

from conle.pipelines.enhance.pipeline import create_pipeline

__all__ = ["create_pipeline"]
