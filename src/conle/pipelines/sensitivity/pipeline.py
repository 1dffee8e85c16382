"""Sensitivity: one cell per dataset and setting; other hyperparameters are as configured."""

from collections.abc import Mapping
from typing import Any

from kedro.pipeline import Node, Pipeline

from conle.cells import bind, make_cell
from conle.options import SensitivityOptions
from conle.pipelines.evaluation.pipeline import score_node
from conle.pipelines.recovery.pipeline import recovery_node
from conle.pipelines.sensitivity.nodes import collect_sensitivity, draw_sensitivity


def create_pipeline(options: SensitivityOptions, parameters: Mapping[str, Any]) -> Pipeline:
    """Recover and score each dataset at each setting, with a fixed number of steps.

    Args:
        options: the grid and its datasets.
        parameters: all parameters of the run; ConLE's block holds the other hyperparameters.
    """
    settings = {
        setting_name(parameter, setting): (parameter, setting)
        for parameter in options.parameters
        for setting in options.grid
    }
    # Settings are comparable only after the same number of steps.
    fixed = {"stopping": "fixed", "steps": options.steps}
    cells = [
        make_cell(parameters, dataset, "conle", name, {parameter: setting, **fixed})
        for dataset in options.datasets
        for name, (parameter, setting) in settings.items()
    ]
    nodes = [
        *(recovery_node(cell) for cell in cells),
        *(score_node(cell.dataset, cell.name) for cell in cells),
        Node(
            bind(collect_sensitivity, settings=settings),
            inputs=[f"{cell.namespace}.scores" for cell in cells],
            outputs="sensitivity",
            name="collect_sensitivity",
        ),
        Node(
            draw_sensitivity,
            inputs="sensitivity",
            outputs="sensitivity_curves",
            name="draw_sensitivity",
        ),
    ]
    return Pipeline(nodes, tags="sensitivity")


def setting_name(parameter: str, setting: float) -> str:
    """Name of the cell of a setting, without dots, which separate namespaces in Kedro."""
    return f"conle_{parameter}_{setting:g}".replace(".", "p")
