"""The folds."""

from conle.pipelines.splitting.pipeline import create_pipeline

__all__ = ["create_pipeline"]
