"""The grid: one cell per dataset and setting, the other hyperparameters at their defaults."""

from collections.abc import Sequence

from kedro.pipeline import Node, Pipeline

from conle.options import SensitivityOptions
from conle.pipelines import for_cell
from conle.pipelines.evaluation.pipeline import score_node
from conle.pipelines.recovery.pipeline import recovery_node
from conle.pipelines.sensitivity.nodes import collect_sensitivity, draw_sensitivity


def create_pipeline(options: SensitivityOptions) -> Pipeline:
    """Recover and score each dataset at each setting, with a fixed number of steps."""
    settings = {
        cell_name(parameter, setting): (parameter, setting)
        for parameter in options.parameters
        for setting in options.grid
    }
    nodes: list[Node] = []
    scores: Sequence[str] = []
    for dataset in options.datasets:
        for cell, (parameter, setting) in settings.items():
            # Settings compare after the same number of steps.
            overrides = {parameter: setting, "stopping": "fixed", "steps": options.steps}
            nodes += [
                recovery_node(dataset, cell, "conle", overrides),
                score_node(dataset, cell),
            ]
            scores = [*scores, f"{dataset}.{cell}.scores"]
    nodes.append(
        Node(
            for_cell(collect_sensitivity, settings=settings),
            inputs=list(scores),
            outputs="sensitivity",
            name="collect_sensitivity",
        )
    )
    nodes.append(
        Node(
            draw_sensitivity,
            inputs="sensitivity",
            outputs="sensitivity_curves",
            name="draw_sensitivity",
        )
    )
    return Pipeline(nodes, tags="sensitivity")


def cell_name(parameter: str, setting: float) -> str:
    """The name of a setting's cell: Kedro keeps dots for namespaces."""
    return f"conle_{parameter}_{setting:g}".replace(".", "p")
