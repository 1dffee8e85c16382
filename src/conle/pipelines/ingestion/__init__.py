"""From raw files to checked data."""

from conle.pipelines.ingestion.pipeline import create_pipeline

__all__ = ["create_pipeline"]
