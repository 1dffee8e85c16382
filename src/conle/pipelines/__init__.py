"""The pipelines: `pipeline.py` wires names, `nodes.py` holds the functions."""
