"""The predictive setting: a learner is trained on recovered distributions."""

from conle.pipelines.predictive.pipeline import create_pipeline

__all__ = ["create_pipeline"]
