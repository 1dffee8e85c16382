"""Checked data and logical labels from raw files."""

from conle.pipelines.ingestion.pipeline import create_pipeline

__all__ = ["create_pipeline"]
