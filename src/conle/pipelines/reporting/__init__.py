"""The paper's tables and figures, and one page of them, from what the catalog holds."""

from conle.pipelines.reporting.pipeline import create_pipeline

__all__ = ["create_pipeline"]
