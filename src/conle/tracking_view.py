"""The view in which MLflow's web page compares the methods of a run.

The page reads a shared view from a tag of the experiment; its address names the view. MLflow does
not document what the tag holds: if a later version reads it otherwise, the page says so and shows
all runs.
"""

import json
from typing import Any

TAG = "mlflow.sharedViewState."
LENGTH_OF_KEY = 8


def key_of(run_id: str) -> str:
    """The name of a run's view."""
    return run_id[:LENGTH_OF_KEY]


def view_tag(run_id: str, first: tuple[str, ...]) -> tuple[str, str]:
    """Name and value of the tag: the runs of cells, grouped by method and sorted by a measure.

    Args:
        run_id: id of the parent run.
        first: the measures that come first; the rows are sorted by the first.
    """
    from conle.reporting.leaderboard import SIX

    measures = list(dict.fromkeys([*first, *SIX]))
    columns = [f"metrics.`{measure}`" for measure in measures]
    section = "measures"
    charts: list[dict[str, Any]] = [
        {
            "uuid": measure,
            "type": "BAR",
            "metricKey": measure,
            "metricSectionId": section,
            "runsCountToCompare": 20,
            "deleted": False,
            "isGenerated": False,
        }
        for measure in measures
    ]
    view = {
        "searchFilter": f"tags.`mlflow.parentRunId` = '{run_id}'",
        # MLflow adds the parent to the rows where they are sorted by time.
        "orderByKey": columns[0],
        "orderByAsc": True,
        "groupBy": {
            "aggregateFunction": "average",
            "groupByKeys": [{"mode": "tag", "groupByData": "method"}],
        },
        "selectedColumns": columns,
        "columnOrder": columns,
        "compareRunCharts": charts,
        "compareRunSections": [{"uuid": section, "name": "Measures", "display": True}],
    }
    return TAG + key_of(run_id), json.dumps(view)


def page_of(experiment: str, run_id: str, compares: bool) -> str:
    """The part of an address that follows the server's: the view of a run, or the run itself."""
    runs = f"/#/experiments/{experiment}/runs"
    return f"{runs}?viewStateShareKey={key_of(run_id)}" if compares else f"{runs}/{run_id}"
