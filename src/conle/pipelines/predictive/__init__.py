"""What a learner makes of recovered distributions."""

from conle.pipelines.predictive.pipeline import create_pipeline

__all__ = ["create_pipeline"]
