"""The paper's tables and figures, and one page of them, from the scores in the catalog."""

from conle.pipelines.reporting.pipeline import create_pipeline

__all__ = ["create_pipeline"]
