"""Files of known datasets, fetched and checked."""

from conle.pipelines.fetch.pipeline import create_pipeline

__all__ = ["create_pipeline"]
