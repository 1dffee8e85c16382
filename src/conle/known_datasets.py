"""Names of the datasets in the registry, `published/datasets.csv`.

Nodes read the whole registry from the catalog. The names are needed earlier: options and pipelines
depend on them.
"""

import csv
from pathlib import Path

REGISTRY = Path(__file__).parent / "published" / "datasets.csv"


def _names(group: str) -> tuple[str, ...]:
    with REGISTRY.open(encoding="utf-8", newline="") as file:
        return tuple(row["dataset"] for row in csv.DictReader(file) if row["group"] == group)


PAPER_DATASETS = _names("paper")
PUBLIC_DATASETS = _names("public")
# A dataset with a second source is in both groups.
KNOWN_DATASETS = tuple(dict.fromkeys(PAPER_DATASETS + PUBLIC_DATASETS))
