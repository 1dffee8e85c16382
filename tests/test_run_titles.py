"""The name of a run in MLflow."""

import pytest
from cells_for_tests import cell_of
from kedro.pipeline import Node, Pipeline

from conle.cells import bind
from conle.messages import run_title
from conle.tracking import datasets_of


@pytest.mark.parametrize(
    ("pipelines", "datasets", "protocol", "title"),
    [
        (["conle"], ["A"], "cross_validation", "conle, A, 10 x 5 folds"),
        (["report"], ["A", "B", "C"], "transductive", "report, A+B+C, transductive"),
        (["conle"], ["A", "B", "C", "D"], "transductive", "conle, 4 datasets, transductive"),
        (["enhance"], ["mine.csv"], "cross_validation", "enhance, mine.csv"),
        (["fetch"], [], "cross_validation", "fetch"),
    ],
)
def test_the_name_of_a_run(pipelines, datasets, protocol, title):
    parameters = {"protocol": protocol, "repeats": 10, "folds": 5}
    assert run_title(pipelines, datasets, parameters) == title


def test_the_datasets_in_the_name_of_a_run():
    given = {"datasets": "A+B", "input": "/x/mine.csv"}
    cells = [cell_of("conle", dataset=name) for name in ("A", "B", "A")]
    nodes = [
        Node(bind(lambda cell: None, cell=cell), None, f"o{n}") for n, cell in enumerate(cells)
    ]
    assert datasets_of(Pipeline(nodes), given) == ["A", "B"]
    assert datasets_of(Pipeline([]), given) == []
    assert datasets_of(Pipeline([Node(lambda x: x, "recorded", "out")]), given) == ["A", "B"]
    assert datasets_of(Pipeline([Node(lambda x: x, "scores", "summary")]), given) == ["A", "B"]
    enhance = bind(lambda cell: None, cell=cell_of("conle", dataset="enhance"))
    assert datasets_of(Pipeline([Node(enhance, None, "out")]), given) == ["mine.csv"]
