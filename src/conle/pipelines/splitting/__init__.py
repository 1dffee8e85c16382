"""The folds of the cross-validation."""

from conle.pipelines.splitting.pipeline import create_pipeline

__all__ = ["create_pipeline"]
